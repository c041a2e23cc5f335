//! A seeded pseudo-random number generator, for randomised election timeouts.
//!
//! The caller provides the seed, so that two nodes differ and a run can be repeated.
//!
//! Source: Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*,
//! OOPSLA 2014.

/// A sequence of pseudo-random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform below `limit`, which must not be 0.
    pub(crate) const fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (((bits >> 32) * limit as u64) >> 32) as u32
    }
}
