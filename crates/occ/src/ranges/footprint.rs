//! What a registration says about the keys that were written, in four words.
//!
//! A registration lives in a slot of atomics, one cache line, so that it needs no
//! memory of its own and can be read while it is overwritten. Keys are therefore
//! cut: one key to 32 bytes, or the ends of an interval to 16 bytes each. What is
//! cut off can only make a validator see a conflict where there is none, never
//! miss one.

/// The number of 64-bit words in which keys are kept.
pub(crate) const WORDS: usize = 4;
const BYTES: usize = WORDS * 8;
const HALF: usize = BYTES / 2;

/// The shape's bit that says that the words hold an interval.
const INTERVAL: u64 = 1 << 63;

/// One key, or an interval with both its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Lengths of what the words hold, before cutting, and [`INTERVAL`].
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

/// Copies as much of `key` as fits, and returns its whole length.
fn cut(key: &[u8], into: &mut [u8]) -> u64 {
    let length = key.len().min(into.len());
    into[..length].copy_from_slice(&key[..length]);
    key.len().min(u16::MAX.into()) as u64
}

impl Footprint {
    /// Of one key.
    pub(crate) fn of_key(key: &[u8]) -> Self {
        let mut bytes = [0; BYTES];
        let shape = cut(key, &mut bytes);
        Self {
            shape,
            words: words_of(&bytes),
        }
    }

    /// Of every key from `first` to `last`.
    pub(crate) fn of_interval(first: &[u8], last: &[u8]) -> Self {
        let mut bytes = [0; BYTES];
        let (low, high) = bytes.split_at_mut(HALF);
        let shape = INTERVAL | cut(first, low) << 16 | cut(last, high);
        Self {
            shape,
            words: words_of(&bytes),
        }
    }

    /// Whether a key it stands for may be at or above `lower` and below `upper`.
    pub(crate) fn may_meet(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let mut bytes = [0; BYTES];
        for (word, chunk) in self.words.iter().zip(bytes.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        if self.shape & INTERVAL != 0 {
            let (low, high) = bytes.split_at(HALF);
            let first = Cut::new(low, self.shape >> 16 & 0xFFFF);
            let last = Cut::new(high, self.shape & 0xFFFF);
            last.may_reach(lower) && first.may_be_below(upper)
        } else {
            let key = Cut::new(&bytes, self.shape);
            key.may_reach(lower) && key.may_be_below(upper)
        }
    }
}

/// A key of which perhaps only the beginning is known.
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

    /// Whether the key may be below `bound`. What follows the known bytes only
    /// makes it larger.
    fn may_be_below(&self, bound: Option<&[u8]>) -> bool {
        bound.is_none_or(|bound| self.known < bound)
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
