//! Keys as the index keeps them: short ones in place, long ones boxed.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

/// Bytes that fit without an allocation: what makes a key three words.
const INLINE: usize = 22;

/// A key in the index.
#[derive(Clone)]
pub(super) enum Key {
    Inline { length: u8, bytes: [u8; INLINE] },
    Boxed(Box<[u8]>),
}

const _: () = assert!(size_of::<Key>() == 24, "a key is three words");

impl Key {
    pub(super) fn new(key: &[u8]) -> Self {
        if key.len() <= INLINE {
            let mut bytes = [0; INLINE];
            bytes[..key.len()].copy_from_slice(key);
            Self::Inline {
                length: key.len() as u8,
                bytes,
            }
        } else {
            Self::Boxed(key.into())
        }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Self::Boxed(bytes) => bytes,
        }
    }

    /// Bytes it takes outside the tree's leaf.
    pub(super) fn boxed_bytes(key: &[u8]) -> u64 {
        if key.len() <= INLINE {
            0
        } else {
            key.len() as u64
        }
    }
}

// Equality and order are those of the bytes, as `Borrow<[u8]>` demands.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.as_bytes().escape_ascii())
    }
}
