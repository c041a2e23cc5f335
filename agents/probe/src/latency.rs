//! A histogram of latencies: buckets that grow with the value, an eighth wide at most.

/// Bits of a value that are kept.
const DIGITS: u32 = 3;

/// Counts of nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    greatest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; 64 << DIGITS],
            count: 0,
            sum: 0,
            greatest: 0,
        }
    }
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.buckets[Self::place(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.greatest = self.greatest.max(value);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, 0 of none.
    pub fn mean(&self) -> u64 {
        let count = u128::from(self.count.max(1));
        u64::try_from(self.sum / count).unwrap_or(u64::MAX)
    }

    /// The greatest value, 0 of none.
    pub fn greatest(&self) -> u64 {
        self.greatest
    }

    /// An upper bound of the percentile, given in thousandths; 0 of none.
    pub fn percentile(&self, thousandths: u64) -> u64 {
        let rank = (self.count * thousandths).div_ceil(1000).max(1);
        let mut seen = 0;
        for (place, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Self::last(place).min(self.greatest);
            }
        }
        0
    }

    fn place(value: u64) -> usize {
        let bits = 64 - value.leading_zeros();
        let shift = bits.saturating_sub(DIGITS + 1);
        ((u64::from(shift) << DIGITS) + (value >> shift)) as usize
    }

    /// The greatest value of a bucket.
    fn last(place: usize) -> u64 {
        let (place, whole) = (place as u64, 1_u64 << DIGITS);
        let shift = (place >> DIGITS).saturating_sub(1);
        let digits = place - (shift << DIGITS);
        match digits < whole {
            true => digits,
            false => (digits << shift) + ((1 << shift) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_near() {
        for value in (0..2_000).chain([u64::MAX, u64::MAX / 3, 1 << 40]) {
            let last = Histogram::last(Histogram::place(value));
            assert!(
                last >= value && last - value <= value / 8,
                "{value}: {last}"
            );
        }
    }

    #[test]
    fn percentiles_are_of_what_was_counted() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(500), histogram.mean()), (0, 0));
        for value in 1..=1_000 {
            histogram.add(value * 1_000);
        }
        assert_eq!((histogram.count(), histogram.mean()), (1_000, 500_500));
        let median = histogram.percentile(500);
        assert!((500_000..=562_500).contains(&median), "{median}");
        assert_eq!(histogram.percentile(1_000), 1_000_000);
        assert_eq!(histogram.greatest(), 1_000_000);
    }
}
