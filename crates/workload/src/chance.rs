//! A seeded pseudo-random number generator (SplitMix64), so that a run of a workload can
//! be replayed from its seed.
//!
//! SplitMix64 is a counter that advances by a fixed odd step, followed by a mixer of its
//! bits. It is small, fast, and yields the same numbers on every machine and in every
//! version.
//!
//! Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators
//! (OOPSLA 2014).

use std::ops::Range;

/// A pseudo-random number generator: an endless stream of 64-bit numbers.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The generator for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The generator for `seed` and `purpose`: generators of different purposes are
    /// independent of each other.
    #[must_use]
    pub fn of(seed: u64, purpose: u64) -> Self {
        let mut outer = Self::new(seed ^ purpose.wrapping_mul(0xA24B_AED4_963E_E407));
        Self::new(outer.next())
    }

    /// The next number, uniform over all 64-bit values.
    #[expect(
        clippy::should_implement_trait,
        reason = "a stream without end is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A uniform random number in `range`.
    ///
    /// # Panics
    /// If `range` is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "a number of an empty range");
        // The upper half of the product is uniform to within 2⁻⁶⁴ × the range's length.
        let length = u128::from(range.end - range.start);
        let scaled = (u128::from(self.next()) * length) >> 64;
        range.start + u64::try_from(scaled).unwrap_or(0)
    }

    /// A random boolean that is true with probability 1 / `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides() {
        let mut one = Chance::new(7);
        let mut other = Chance::new(7);
        assert!((0..100).all(|_| one.next() == other.next()));
        assert_ne!(Chance::of(7, 1).next(), Chance::of(7, 2).next());
        // The first numbers of seed 0, as printed by the authors' own program.
        let mut zero = Chance::new(0);
        assert_eq!(zero.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(zero.next(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn ranges_are_kept_and_filled() {
        let mut chance = Chance::new(1);
        let mut hit = [0u32; 8];
        for _ in 0..8_000 {
            hit[usize::try_from(chance.within(0..8)).expect("small")] += 1;
        }
        assert!(
            hit.iter().all(|count| (800..1_200).contains(count)),
            "{hit:?}"
        );
    }
}
