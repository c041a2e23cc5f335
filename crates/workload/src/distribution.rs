//! Key distributions (uniform and Zipfian): they decide how often a workload accesses
//! each key.
//!
//! **Zipfian**: the key of rank *i* is accessed in proportion to 1 / *i*^θ. The sampler
//! takes constant time by the method of Gray et al., *Quickly Generating Billion-Record
//! Synthetic Databases* (SIGMOD 1994), which approximates the tail by its integral and is
//! exact for the first two ranks. θ may be above 1, as in measurements of contention, but
//! not 1.
//!
//! **Scrambled**: a permutation of the keys, so that hot keys are not neighbours: every
//! key has a rank of its own, and is accessed as often as θ says. YCSB hashes ten
//! thousand million ranks onto its keys instead, which keeps the share of the hottest at
//! 3.8 % for θ = 0.99 however few keys there are; here that share is 1 / Σ 1/*i*^θ over
//! the keys, which is 7.8 % for a hundred thousand and 6.5 % for a million.

use crate::chance::Chance;

/// Number of leading terms of a sum that are added one by one; the rest is approximated.
const ADDED: u64 = 10_000;

/// A Zipfian distribution over the ranks `0..n`; rank 0 is the most frequent.
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
    /// A distribution over `n` ranks, at least 1. Construction takes time in proportion
    /// to the smaller of `n` and ten thousand, about ten nanoseconds for each.
    ///
    /// # Panics
    /// If `n` is 0, or θ is not at least 0.
    #[must_use]
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(n > 0, "no ranks");
        assert!(theta >= 0.0, "theta is at least 0");
        // At θ = 1 the formulas divide by zero; a θ this near to 1 is indistinguishable
        // from it.
        let theta = if (theta - 1.0).abs() < 1e-6 {
            1.0 - 1e-6
        } else {
            theta
        };
        let second = 0.5_f64.powf(theta);
        let zeta = zeta(n, theta);
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

    /// Draws a random rank.
    pub fn rank(&self, chance: &mut Chance) -> u64 {
        if self.theta == 0.0 {
            return chance.within(0..self.n);
        }
        // 53 bits: the precision of a double.
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

/// The sum of 1 / i^θ for all i from 1 to `n`, for a θ other than 1.
fn zeta(n: u64, theta: f64) -> f64 {
    if theta == 0.0 {
        return n as f64;
    }
    let added = n.min(ADDED);
    let term = |rank: u64| (rank as f64).powf(-theta);
    // Adding the small terms first loses less precision.
    let sum: f64 = (1..=added).rev().map(term).sum();
    if n == added {
        return sum;
    }
    // The other terms are approximated by the Euler–Maclaurin formula, whose error here
    // is below the precision of a double.
    let (first, last) = (added as f64, n as f64);
    let integral = (last.powf(1.0 - theta) - first.powf(1.0 - theta)) / (1.0 - theta);
    let slopes = theta * (first.powf(-theta - 1.0) - last.powf(-theta - 1.0)) / 12.0;
    sum + integral + (term(n) - term(added)) / 2.0 + slopes
}

/// A Zipfian distribution over keys, in which the frequent keys are spread over the key
/// space.
#[derive(Clone, Debug)]
pub struct Scrambled {
    ranks: Zipfian,
    step: u64,
}

impl Scrambled {
    /// A distribution over `keys` keys, at least 1.
    ///
    /// # Panics
    /// If `keys` is 0, or θ is not at least 0.
    #[must_use]
    pub fn new(keys: u64, theta: f64) -> Self {
        Self {
            ranks: Zipfian::new(keys, theta),
            step: step(keys),
        }
    }

    /// Draws a random key.
    pub fn key(&self, chance: &mut Chance) -> u64 {
        self.place(self.ranks.rank(chance))
    }

    /// The key that a rank is mapped to. The mapping is one to one, because the step is
    /// coprime to the number of keys.
    fn place(&self, rank: u64) -> u64 {
        let place = u128::from(rank) * u128::from(self.step) % u128::from(self.ranks.n);
        place as u64
    }
}

/// Distance between the keys of two consecutive ranks, out of `keys` keys: about the
/// golden section of the key space, which spreads the hottest keys as evenly as possible.
fn step(keys: u64) -> u64 {
    let golden = (keys as f64 * 0.618_033_988_749_894_9) as u64;
    let mut step = golden.max(1);
    while divisor(step, keys) > 1 {
        step += 1;
    }
    step
}

/// The greatest common divisor of two numbers.
fn divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
            // The tail is an approximation; summed over the first hundred ranks it is
            // close.
            let expected: f64 = (1..=100)
                .map(|rank| f64::from(rank).powf(-theta) / zeta)
                .sum();
            let off = shares[..100].iter().sum::<f64>() / expected - 1.0;
            assert!(off.abs() < 0.05, "theta {theta}, first hundred: {off}");
        }
    }

    #[test]
    fn sums_are_those_of_their_terms() {
        // The sum that YCSB ships for ten thousand million ranks, computed term by term.
        let known = 26.469_028_201_783_02;
        let off = zeta(10_000_000_000, 0.99) / known - 1.0;
        assert!(off.abs() < 1e-9, "{off}");
        for theta in [0.5, 0.99, 1.2] {
            let n = 2 * ADDED;
            let added: f64 = (1..=n).rev().map(|rank| (rank as f64).powf(-theta)).sum();
            let off = zeta(n, theta) / added - 1.0;
            assert!(off.abs() < 1e-12, "theta {theta}: {off}");
        }
    }

    #[test]
    fn scrambled_keys_all_have_a_rank_of_their_own() {
        for keys in (1..300).chain([1_000, 1_024, 9_973, 100_000]) {
            let scrambled = Scrambled::new(keys, 0.99);
            let places: BTreeSet<u64> = (0..keys).map(|rank| scrambled.place(rank)).collect();
            assert_eq!(places, (0..keys).collect(), "of {keys} keys");
        }
        let most = Scrambled::new(u64::MAX, 0.99);
        assert!(most.place(u64::MAX - 1) < u64::MAX);
    }

    #[test]
    fn scrambled_keys_are_met_as_often_as_their_ranks() {
        const KEYS: usize = 1_000;
        const DRAWS: u32 = 400_000;
        let scrambled = Scrambled::new(KEYS as u64, 0.99);
        let mut chance = Chance::new(5);
        let mut counts = vec![0_u32; KEYS];
        for _ in 0..DRAWS {
            counts[usize::try_from(scrambled.key(&mut chance)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|&count| count > 0), "a key nobody meets");
        for (rank, share) in shares(0.99).into_iter().enumerate().take(20) {
            let place = usize::try_from(scrambled.place(rank as u64)).unwrap();
            let met = f64::from(counts[place]) / f64::from(DRAWS);
            assert!(
                (met / share - 1.0).abs() < 0.1,
                "rank {rank}: {met}, {share}"
            );
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
        for keys in [100, 1_000, 100_000] {
            let scrambled = Scrambled::new(keys, 0.99);
            let mut places: Vec<u64> = (0..8).map(|rank| scrambled.place(rank)).collect();
            places.sort_unstable();
            assert!(
                places.windows(2).all(|pair| pair[1] - pair[0] >= keys / 20),
                "{places:?}"
            );
        }
    }
}
