//! The operating system's random number generator, expanded by a stream cipher on each
//! thread.

use rand::Rng;

pub(crate) fn random_u64() -> u64 {
    rand::rng().next_u64()
}

pub(crate) fn random_bytes(bytes: &mut [u8]) {
    rand::rng().fill_bytes(bytes);
}
