//! Which keys a load meets how often.
//!
//! **Zipfian**: the key of rank *i* is met in proportion to 1 / *i*^θ. Drawn in constant
//! time by the method of Gray et al., *Quickly Generating Billion-Record Synthetic
//! Databases* (SIGMOD 1994), which approximates the tail by its integral; exact for the
//! first two ranks. θ may be above 1, as in measurements of contention, but not 1.
//!
//! **Scrambled**: ranks are spread over the keys by a hash (FNV-1a of 64 bits, as YCSB
//! has it), so that the keys that are met often do not lie side by side.

use crate::chance::Chance;

/// A Zipfian distribution over the ranks 0..n, 0 the most frequent.
#[derive(Clone, Debug)]
pub struct Zipfian {
    n: u64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    second: f64,
}

impl Zipfian {
    /// Over `n` ranks, at least 1. Takes time in proportion to `n`, some ten
    /// nanoseconds for each.
    ///
    /// # Panics
    /// When there are no ranks, or θ is not at least 0.
    #[must_use]
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(n > 0, "no ranks");
        assert!(theta >= 0.0, "theta is at least 0");
        // At 1 the formulas divide by zero; this near it nobody can tell.
        let theta = if (theta - 1.0).abs() < 1e-6 {
            1.0 - 1e-6
        } else {
            theta
        };
        let second = 0.5_f64.powf(theta);
        let zeta: f64 = if theta == 0.0 {
            n as f64
        } else {
            // From the small ones up, which loses less.
            (1..=n).rev().map(|rank| (rank as f64).powf(-theta)).sum()
        };
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - (1.0 + second) / zeta);
        Self {
            n,
            theta,
            alpha: 1.0 / (1.0 - theta),
            zeta,
            eta,
            second,
        }
    }

    /// A rank.
    pub fn rank(&self, chance: &mut Chance) -> u64 {
        if self.theta == 0.0 {
            return chance.within(0..self.n);
        }
        // 53 bits, as a double has.
        let u = (chance.next() >> 11) as f64 / (1u64 << 53) as f64;
        let scaled = u * self.zeta;
        if scaled < 1.0 || self.n == 1 {
            return 0;
        }
        if scaled < 1.0 + self.second || self.n == 2 {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }
}

/// Where a rank lies among `n` keys. Several ranks may lie at one key.
#[must_use]
pub fn scramble(rank: u64, n: u64) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in rank.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash % n
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(theta: f64) -> Vec<f64> {
        const DRAWS: u32 = 400_000;
        let zipfian = Zipfian::new(1_000, theta);
        let mut chance = Chance::new(5);
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..DRAWS {
            counts[usize::try_from(zipfian.rank(&mut chance)).unwrap()] += 1;
        }
        let share = |count: u32| f64::from(count) / f64::from(DRAWS);
        counts.into_iter().map(share).collect()
    }

    #[test]
    fn ranks_come_as_often_as_they_should() {
        for theta in [0.5, 0.7, 0.88, 0.99, 1.04] {
            let zeta: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-theta)).sum();
            let shares = shares(theta);
            for rank in [0, 1] {
                let expected = (rank as f64 + 1.0).powf(-theta) / zeta;
                let off = shares[rank] / expected - 1.0;
                assert!(off.abs() < 0.05, "theta {theta}, rank {rank}: {off}");
            }
            // The tail is an approximation; of the first hundred together it is near.
            let expected: f64 = (1..=100)
                .map(|rank| f64::from(rank).powf(-theta) / zeta)
                .sum();
            let off = shares[..100].iter().sum::<f64>() / expected - 1.0;
            assert!(off.abs() < 0.05, "theta {theta}, first hundred: {off}");
        }
    }

    #[test]
    fn no_skew_is_even() {
        assert!(
            shares(0.0)
                .iter()
                .all(|share| (0.0005..0.0015).contains(share))
        );
    }

    #[test]
    fn few_ranks_stay_in_bounds() {
        let mut chance = Chance::new(1);
        for n in 1..5 {
            let zipfian = Zipfian::new(n, 0.99);
            assert!((0..1_000).all(|_| zipfian.rank(&mut chance) < n));
        }
    }

    #[test]
    fn scrambling_spreads_neighbours() {
        let places: Vec<u64> = (0..8).map(|rank| scramble(rank, 1_000)).collect();
        assert!(places.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1));
        assert!(places.iter().all(|&place| place < 1_000));
    }
}
