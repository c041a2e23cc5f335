//! The atomic words of which nodes are made, and the bytes of keys in them.
//!
//! A word is an atomic pointer, because some words hold pointers, and a pointer that was
//! once stored as a number may not be followed again. Numbers are stored as addresses
//! without provenance. All accesses are relaxed: see [`super::latch`].

use std::ptr;

use coeval_memory::sync::atomic::{AtomicPtr, Ordering};

const _: () = assert!(size_of::<usize>() == 8, "a word holds eight bytes of a key");

/// Eight bytes of a node.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Word(AtomicPtr<()>);

impl Word {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.pointer().addr() as u64
    }

    #[inline]
    pub(super) fn set(&self, number: u64) {
        self.set_pointer(as_pointer(number));
    }

    #[inline]
    pub(super) fn pointer(&self) -> *mut () {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_pointer(&self, pointer: *mut ()) {
        self.0.store(pointer, Ordering::Relaxed);
    }

    /// Copies another word, be it a number or a pointer.
    #[inline]
    pub(super) fn copy(&self, other: &Self) {
        self.set_pointer(other.pointer());
    }
}

/// Converts a number to the pointer representation of a word.
#[inline]
pub(super) fn as_pointer(number: u64) -> *mut () {
    ptr::without_provenance_mut(number as usize)
}

/// The eight bytes of `key` from `at` on as a number that orders as they do, padded with
/// zeros beyond the key's end.
#[inline]
pub(super) fn word_at(key: &[u8], at: usize) -> u64 {
    if let Some(bytes) = key.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        return u64::from_be_bytes(*bytes);
    }
    let missing = at + 8 - key.len();
    if missing >= 8 {
        return 0;
    }
    match key.last_chunk::<8>() {
        // The last eight bytes, without those before `at`.
        Some(bytes) => u64::from_be_bytes(*bytes) << (8 * missing),
        None => short_word(&key[at..]),
    }
}

/// Like [`word_at`] for a whole key of one to seven bytes. The loads overlap, and agree
/// where they do.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let count = bytes.len();
    let behind = 8 * (8 - count);
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
        return u64::from(first) << 32 | u64::from(last) << behind;
    }
    let (first, middle, last) = (bytes[0], bytes[count / 2], bytes[count - 1]);
    let middle = u64::from(middle) << (8 * (7 - count / 2));
    u64::from(first) << 56 | middle | u64::from(last) << behind
}

/// Number of leading bytes that two keys have in common.
#[inline]
pub(super) fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let most = one.len().min(other.len());
    let mut at = 0;
    while at + 8 <= most {
        let difference = word_at(one, at) ^ word_at(other, at);
        if difference != 0 {
            return at + difference.leading_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < most && one[at] == other[at] {
        at += 1;
    }
    at
}

/// The shortest key that is greater than `lower` and not greater than `upper`: a prefix of
/// `upper`.
pub(super) fn separator<'key>(lower: &[u8], upper: &'key [u8]) -> &'key [u8] {
    debug_assert!(lower < upper, "keys in order");
    &upper[..common_prefix(lower, upper) + 1]
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn words_of_keys_are_padded_with_zeros() {
        let key: Vec<u8> = (1..=11).collect();
        for length in 0..=key.len() {
            for at in 0..=length + 9 {
                let expected = (at..at + 8).fold(0, |word, at| {
                    word << 8 | u64::from(key[..length].get(at).copied().unwrap_or(0))
                });
                assert_eq!(word_at(&key[..length], at), expected, "{length} {at}");
            }
        }
    }

    #[test]
    fn common_prefixes_end_at_the_first_difference() {
        let key: Vec<u8> = (1..=20).collect();
        for different in 0..20 {
            let mut other = key.clone();
            other[different] = 100;
            assert_eq!(common_prefix(&key, &other), different);
            assert_eq!(common_prefix(&key, &key[..different]), different);
            assert_eq!(separator(&key, &other), &other[..=different]);
        }
        assert_eq!(separator(b"a", b"ab"), b"ab");
    }
}
