//! Randomness: a random number generator that the simulator can seed.

use crate::real;
use crate::world::{World, current};

/// Returns a random number, unpredictable in the real environment.
#[must_use]
pub fn random_u64() -> u64 {
    match current() {
        World::Real => real::random::random_u64(),
        #[cfg(feature = "sim")]
        World::Sim(context) => context.random_u64(),
    }
}

/// Fills `bytes` with random bytes, cryptographically secure in the real environment.
pub fn random_bytes(bytes: &mut [u8]) {
    match current() {
        World::Real => real::random::random_bytes(bytes),
        #[cfg(feature = "sim")]
        World::Sim(context) => context.random_bytes(bytes),
    }
}
