//! The operating system's randomness, stretched by a cipher on each thread.

use rand::Rng;

pub(crate) fn random_u64() -> u64 {
    rand::rng().next_u64()
}

pub(crate) fn random_bytes(bytes: &mut [u8]) {
    rand::rng().fill_bytes(bytes);
}
