//! Keys as the index keeps them: short ones in place, long ones boxed; and the two
//! sentinels that are always there.

use std::cmp::Ordering;
use std::fmt;

use coeval_memory::heap::size_class;
use scc::{Comparable, Equivalent};

/// Bytes that fit without an allocation: what makes a key three words.
const INLINE: usize = 22;

/// A key in the index.
#[derive(Clone)]
pub(super) enum Key {
    /// Below every key.
    Lowest,
    Inline {
        length: u8,
        bytes: [u8; INLINE],
    },
    Boxed(Box<[u8]>),
    /// Above every key.
    Highest,
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

    /// The same key without owning its bytes.
    #[inline]
    pub(super) fn probe(&self) -> Probe<'_> {
        match self {
            Self::Lowest => Probe::Lowest,
            Self::Inline { length, bytes } => Probe::Key(&bytes[..usize::from(*length)]),
            Self::Boxed(bytes) => Probe::Key(bytes),
            Self::Highest => Probe::Highest,
        }
    }

    /// The bytes, unless it is a sentinel.
    #[inline]
    pub(super) fn as_bytes(&self) -> Option<&[u8]> {
        match self.probe() {
            Probe::Key(bytes) => Some(bytes),
            Probe::Lowest | Probe::Highest => None,
        }
    }

    /// Bytes it takes outside the tree's leaf.
    pub(super) fn boxed_bytes(key: &[u8]) -> i64 {
        if key.len() <= INLINE {
            0
        } else {
            size_class(key.len()) as i64
        }
    }
}

/// A place in the index to look for. The order of the variants is the order of the
/// index.
#[derive(Clone, Copy)]
pub(super) enum Probe<'key> {
    Lowest,
    Key(&'key [u8]),
    Highest,
}

impl Probe<'_> {
    #[inline]
    fn order(self, other: Probe<'_>) -> Ordering {
        match (self, other) {
            (Probe::Key(one), Probe::Key(two)) => one.cmp(two),
            (one, two) => one.rank().cmp(&two.rank()),
        }
    }

    fn rank(self) -> u8 {
        match self {
            Probe::Lowest => 0,
            Probe::Key(_) => 1,
            Probe::Highest => 2,
        }
    }
}

impl Equivalent<Key> for Probe<'_> {
    #[inline]
    fn equivalent(&self, key: &Key) -> bool {
        self.order(key.probe()).is_eq()
    }
}

impl Comparable<Key> for Probe<'_> {
    #[inline]
    fn compare(&self, key: &Key) -> Ordering {
        self.order(key.probe())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
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
        self.probe().order(other.probe())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_bytes() {
            Some(bytes) => write!(formatter, "{}", bytes.escape_ascii()),
            None => formatter.write_str("sentinel"),
        }
    }
}
