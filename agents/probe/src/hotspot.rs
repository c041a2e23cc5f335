//! The hotspot workload: most operations are on few keys, most of them reads.
//!
//! An operation is on a hot key with one probability and on one of the others else, and
//! within each of the two groups every key is as likely. So 80 % of the operations on 20 %
//! of 500 keys make each hot key sixteen times as likely as another.

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The key, from 0.
    pub key: u64,
    /// The value to write, used once; `None` for a read.
    pub value: Option<i64>,
}

/// A source of operations, determined by its seed.
#[derive(Clone, Debug)]
pub struct Hotspot {
    keys: u64,
    hot_keys: u64,
    hot_operations: u32,
    reads: u32,
    state: u64,
    next_value: i64,
}

impl Hotspot {
    /// Creates a source; shares are percentages. Values are used from `first_value` up.
    pub fn new(options: &crate::options::Options, first_value: i64) -> Self {
        let hot_keys = options.keys * u64::from(options.hot_keys) / 100;
        Self {
            keys: options.keys,
            hot_keys: hot_keys.max(1),
            hot_operations: options.hot_operations,
            reads: options.reads,
            state: options.seed,
            next_value: first_value,
        }
    }

    /// Number of hot keys; they come first.
    pub fn hot_keys(&self) -> u64 {
        self.hot_keys
    }

    /// The next operation.
    pub fn next(&mut self) -> Operation {
        let is_hot = self.below(100) < self.hot_operations.into() || self.hot_keys == self.keys;
        let key = match is_hot {
            true => self.below(self.hot_keys),
            false => self.hot_keys + self.below(self.keys - self.hot_keys),
        };
        let is_read = self.below(100) < self.reads.into();
        let value = (!is_read).then(|| {
            self.next_value += 1;
            self.next_value - 1
        });
        Operation { key, value }
    }

    fn below(&mut self, bound: u64) -> u64 {
        // Steele, Lea and Flood's SplitMix64.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    fn hotspot(arguments: &[&str]) -> Hotspot {
        let all = ["coeval-probe", "redis://a", "--seed", "7"];
        let all = all.iter().chain(arguments).map(Into::into);
        Hotspot::new(&parse(all).unwrap(), 500)
    }

    #[test]
    fn the_shares_are_those_asked_for() {
        let mut source = hotspot(&[]);
        assert_eq!(source.hot_keys(), 100);
        let operations: Vec<Operation> = (0..100_000).map(|_| source.next()).collect();
        let share = |is: &dyn Fn(&Operation) -> bool| {
            operations.iter().filter(|one| is(one)).count() as f64 / operations.len() as f64
        };
        assert!((share(&|one| one.key < 100) - 0.8).abs() < 0.01);
        assert!((share(&|one| one.value.is_none()) - 0.8).abs() < 0.01);
        assert!(operations.iter().all(|one| one.key < 500));
        let values: Vec<i64> = operations.iter().filter_map(|one| one.value).collect();
        assert!(values.is_sorted_by(|one, two| one < two) && values[0] == 500);
    }

    #[test]
    fn all_keys_may_be_hot() {
        let mut source = hotspot(&["--hot-keys-percent", "100", "--keys", "2"]);
        let keys: Vec<u64> = (0..100).map(|_| source.next().key).collect();
        assert!(keys.contains(&0) && keys.contains(&1) && !keys.contains(&2));
    }
}
