//! Footprints: the written keys of a registration, encoded in four words.
//!
//! A registration is stored in a slot of atomics, one cache line, so that it needs no
//! allocation and can be read while it is overwritten. Keys are therefore truncated: one
//! key to 32 bytes, or the ends of an interval to 16 bytes each. Truncation can only make
//! a validator see a false conflict, never miss a real one.

/// The number of 64-bit words in which keys are kept.
pub(crate) const WORDS: usize = 4;
const BYTES: usize = WORDS * 8;
const HALF: usize = BYTES / 2;

/// Bit of the shape that is set when the words hold an interval.
const INTERVAL: u64 = 1 << 63;

/// Bits of the shape that distinguish key spaces, where many share one ring.
#[cfg(any(test, feature = "comparators"))]
const TAG_SHIFT: u32 = 32;
#[cfg(any(test, feature = "comparators"))]
const TAG: u64 = (1 << 31) - 1;

/// Bits of a length.
const LENGTH: u64 = 0xFFFF;

/// One key, or an interval that includes both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Lengths of the keys in the words, before truncation; a tag; and [`INTERVAL`].
    pub(crate) shape: u64,
    /// The keys' first bytes, big-endian, padded with zeros.
    pub(crate) words: [u64; WORDS],
}

fn words_of(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_be_bytes(chunk.try_into().expect("eight bytes"));
    }
    words
}

/// Copies as much of `key` as fits, and returns the key's whole length.
fn cut(key: &[u8], into: &mut [u8]) -> u64 {
    let length = key.len().min(into.len());
    into[..length].copy_from_slice(&key[..length]);
    key.len().min(u16::MAX.into()) as u64
}

impl Footprint {
    /// The footprint of one key.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        let mut bytes = [0; BYTES];
        let shape = cut(key, &mut bytes);
        Self {
            shape,
            words: words_of(&bytes),
        }
    }

    /// The footprint of every key from `first` to `last`.
    #[must_use]
    pub fn of_interval(first: &[u8], last: &[u8]) -> Self {
        let mut bytes = [0; BYTES];
        let (low, high) = bytes.split_at_mut(HALF);
        let shape = INTERVAL | cut(first, low) << 16 | cut(last, high);
        Self {
            shape,
            words: words_of(&bytes),
        }
    }

    /// The same footprint with this tag, of which 31 bits are kept.
    #[cfg(any(test, feature = "comparators"))]
    #[must_use]
    pub fn tagged(self, tag: u64) -> Self {
        Self {
            shape: self.shape | (tag & TAG) << TAG_SHIFT,
            ..self
        }
    }

    /// Whether the footprint may have this tag.
    #[cfg(any(test, feature = "comparators"))]
    #[must_use]
    pub fn has_tag(&self, tag: u64) -> bool {
        self.shape >> TAG_SHIFT & TAG == tag & TAG
    }

    /// Calls `visit` with the known beginning of the footprint's least key.
    pub(crate) fn with_least<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> R {
        let bytes = self.bytes();
        visit(self.ends(&bytes).0.known)
    }

    /// Whether a key of the footprint may be at or above `lower` and below `upper`.
    #[must_use]
    pub fn may_meet(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let bytes = self.bytes();
        let (first, last) = self.ends(&bytes);
        last.may_reach(lower) && first.may_be_below(upper)
    }

    /// Whether a written key is certainly at or above `lower` and below `upper`: it is
    /// not truncated in a way that leaves doubt, and not merely between the ends of an
    /// interval.
    #[must_use]
    pub fn surely_meets(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let bytes = self.bytes();
        let (first, last) = self.ends(&bytes);
        first.is_surely_between(lower, upper) || last.is_surely_between(lower, upper)
    }

    fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (word, chunk) in self.words.iter().zip(bytes.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// The first and the last key, both of which were written.
    fn ends<'bytes>(&self, bytes: &'bytes [u8; BYTES]) -> (Cut<'bytes>, Cut<'bytes>) {
        if self.shape & INTERVAL != 0 {
            let (low, high) = bytes.split_at(HALF);
            let first = Cut::new(low, self.shape >> 16 & LENGTH);
            let last = Cut::new(high, self.shape & LENGTH);
            (first, last)
        } else {
            let key = Cut::new(bytes, self.shape & LENGTH);
            (key, key)
        }
    }
}

/// A key of which possibly only the beginning is known.
#[derive(Clone, Copy)]
struct Cut<'bytes> {
    known: &'bytes [u8],
    whole: bool,
}

impl<'bytes> Cut<'bytes> {
    fn new(bytes: &'bytes [u8], length: u64) -> Self {
        let length = length as usize;
        Self {
            known: &bytes[..length.min(bytes.len())],
            whole: length <= bytes.len(),
        }
    }

    /// Whether the key may be `bound` or above.
    fn may_reach(&self, bound: &[u8]) -> bool {
        self.known >= bound || (!self.whole && bound.starts_with(self.known))
    }

    /// Whether the key may be below `bound`. Bytes after the known ones only make it
    /// larger.
    fn may_be_below(&self, bound: Option<&[u8]>) -> bool {
        bound.is_none_or(|bound| self.known < bound)
    }

    /// Whether the key is at or above `lower` and below `upper`, whichever bytes follow
    /// the known ones.
    fn is_surely_between(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let below =
            |upper: &[u8]| self.known < upper && (self.whole || !upper.starts_with(self.known));
        self.known >= lower && upper.is_none_or(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meets(footprint: Footprint, lower: &str, upper: &str) -> bool {
        footprint.may_meet(lower.as_bytes(), Some(upper.as_bytes()))
    }

    #[test]
    fn a_short_key_is_exact() {
        let key = Footprint::of_key(b"m");
        assert!(meets(key, "m", "n"));
        assert!(meets(key, "a", "ma"));
        assert!(!meets(key, "a", "m"));
        assert!(!meets(key, "m\0", "z"));
        assert!(key.may_meet(b"", None));
        assert!(!key.may_meet(b"n", None));
    }

    #[test]
    fn a_long_key_may_be_anything_that_begins_so() {
        let long = [b'k'; 40];
        let key = Footprint::of_key(&long);
        let other = [&long[..32], b"z"].concat();
        assert!(key.may_meet(&other, None), "cannot be told apart");
        assert!(!key.may_meet(b"l", None));
        assert!(!key.may_meet(b"", Some(&long[..32])));
        assert!(key.may_meet(b"", Some(&other)));
    }

    #[test]
    fn what_is_beyond_doubt() {
        let surely = |footprint: Footprint, lower: &str, upper: &str| {
            footprint.surely_meets(lower.as_bytes(), Some(upper.as_bytes()))
        };
        let key = Footprint::of_key(b"m");
        assert!(surely(key, "m", "n") && !surely(key, "n", "z"));
        let interval = Footprint::of_interval(b"c", b"f");
        assert!(surely(interval, "a", "d") && surely(interval, "f", "g"));
        assert!(!surely(interval, "d", "e"), "nothing there may be written");
        let long = Footprint::of_key(&[b'k'; 40]);
        assert!(long.surely_meets(b"k", Some(b"l")));
        assert!(!long.surely_meets(&[b'k'; 33], None), "may be below");
        assert!(!long.surely_meets(b"", Some(&[b'k'; 33])), "may be above");
    }

    #[test]
    fn tags_tell_spaces_apart_and_change_no_key() {
        for footprint in [
            Footprint::of_key(&[b'k'; 40]),
            Footprint::of_interval(b"c", &[b'f'; 20]),
        ] {
            let tagged = footprint.tagged(u64::MAX);
            assert!(tagged.has_tag(u64::MAX) && !tagged.has_tag(0) && footprint.has_tag(0));
            for (lower, upper) in [("c", "d"), ("d", "e"), ("k", "l"), ("g", "h")] {
                assert_eq!(meets(tagged, lower, upper), meets(footprint, lower, upper));
            }
        }
    }

    #[test]
    fn an_interval_meets_what_it_overlaps() {
        let interval = Footprint::of_interval(b"c", b"f");
        assert!(meets(interval, "f", "g"));
        assert!(meets(interval, "a", "c\0"));
        assert!(meets(interval, "d", "e"));
        assert!(!meets(interval, "a", "c"));
        assert!(!meets(interval, "f\0", "z"));
        let long = Footprint::of_interval(b"c", &[b'f'; 20]);
        assert!(long.may_meet(&[b'f'; 18], None));
        assert!(!long.may_meet(b"g", None));
    }
}
