//! The lock word of a record: the transaction that holds the lock, in which mode, and which
//! region is primary.
//!
//! ```text
//!   63      62        61           60                       0
//!  +-------+---------+------------+--------------------------+
//!  | write | primary | keeps keys | transaction id           |
//!  +-------+---------+------------+--------------------------+
//!
//!   (0, p, 0, 0)   not held; region p is primary
//!   (1, p, 0, t)   held by transaction t, which may change or delete the row: UPDATE
//!   (1, p, 1, t)   held by transaction t, which leaves the row its unique keys:
//!                  NO KEY UPDATE
//!   (1, p, 0, M)   held briefly by maintenance: sweep, reader's collection, replay
//!   (1, 0, 0, 0)   dead: no version, no holder, RID reusable
//! ```
//!
//! The mode means nothing to the record, in which either holder may write: it tells
//! transactions that want to share the row whether they may. Who shares it is not known here.
//!
//! Changed by compare-and-swap (EMS §2.3.1), except that replay releases it with a plain
//! store: while the lock is held, only its holder writes the word.

use coeval_types::{RowLock, TransactionId};

const WRITE: u64 = 1 << 63;
const PRIMARY: u64 = 1 << 62;
const KEEPS_KEYS: u64 = 1 << 61;

/// Id with which maintenance briefly holds locks. No transaction has this id.
pub(crate) const MAINTENANCE: TransactionId = TransactionId::MAX;

/// The two version regions of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    A,
    B,
}

impl Region {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockWord(pub(crate) u64);

impl LockWord {
    /// A record without version or holder, whose RID can be reused.
    pub(crate) const DEAD: Self = Self(WRITE);

    pub(crate) const fn is_dead(self) -> bool {
        self.0 & !PRIMARY == WRITE
    }

    pub(crate) const fn primary(self) -> Region {
        if self.0 & PRIMARY == 0 {
            Region::A
        } else {
            Region::B
        }
    }

    /// The transaction that holds the record; `None` also when it is dead.
    pub(crate) const fn holder(self) -> Option<TransactionId> {
        match self.0 & !(WRITE | PRIMARY | KEEPS_KEYS) {
            0 => None,
            id => Some(TransactionId(id)),
        }
    }

    pub(crate) const fn is_held_by(self, id: TransactionId) -> bool {
        id.0 != 0 && self.0 & !(PRIMARY | KEEPS_KEYS) == WRITE | id.0
    }

    /// The word of a record that was not held, now held by `id`.
    pub(crate) const fn held_by(self, id: TransactionId) -> Self {
        Self(self.0 & PRIMARY | WRITE | id.0)
    }

    /// The mode of the holder, if there is one.
    pub(crate) const fn mode(self) -> RowLock {
        match self.0 & KEEPS_KEYS {
            0 => RowLock::Update,
            _ => RowLock::NoKeyUpdate,
        }
    }

    /// The word with the same holder, in this mode. Sharers have no place in it.
    pub(crate) fn in_mode(self, mode: RowLock) -> Self {
        match mode {
            RowLock::Update => Self(self.0 & !KEEPS_KEYS),
            RowLock::NoKeyUpdate => Self(self.0 | KEEPS_KEYS),
            RowLock::Share | RowLock::KeyShare => unreachable!("{mode} has no place in a word"),
        }
    }

    /// The word without holder, with the same primary: after an abort.
    pub(crate) const fn released(self) -> Self {
        Self(self.0 & PRIMARY)
    }

    /// The word without holder, with the other region primary: after a commit.
    pub(crate) const fn flipped(self) -> Self {
        Self(self.released().0 ^ PRIMARY)
    }
}

impl std::fmt::Debug for LockWord {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "({}, {}, {}, {})",
            self.0 >> 63,
            (self.0 >> 62) & 1,
            (self.0 >> 61) & 1,
            self.0 & !(WRITE | PRIMARY | KEEPS_KEYS)
        )
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// EMS figure 2.3, with the direction of `release` corrected.
    #[test]
    fn acquire_and_release() {
        let free = LockWord(0);
        let held = free.held_by(TransactionId(123));
        assert_eq!(format!("{held:?}"), "(1, 0, 0, 123)");
        assert_eq!(format!("{:?}", held.flipped()), "(0, 1, 0, 0)");
        assert_eq!(format!("{:?}", held.released()), "(0, 0, 0, 0)");
        assert_eq!(
            held.flipped().held_by(TransactionId(5)).primary(),
            Region::B
        );
        assert!(held.is_held_by(TransactionId(123)) && !held.is_held_by(TransactionId(12)));
    }

    #[test]
    fn the_mode_goes_with_its_holder() {
        let weak = LockWord(0)
            .held_by(TransactionId(7))
            .in_mode(RowLock::NoKeyUpdate);
        assert_eq!(format!("{weak:?}"), "(1, 0, 1, 7)");
        assert_eq!(weak.mode(), RowLock::NoKeyUpdate);
        assert_eq!(weak.holder(), Some(TransactionId(7)));
        assert!(weak.is_held_by(TransactionId(7)) && !weak.is_dead());
        assert_eq!(weak.in_mode(RowLock::Update).mode(), RowLock::Update);
        assert_eq!(format!("{:?}", weak.flipped()), "(0, 1, 0, 0)");
        assert_eq!(format!("{:?}", weak.released()), "(0, 0, 0, 0)");
    }

    #[test]
    fn a_dead_record_is_nobodys() {
        assert!(LockWord::DEAD.is_dead() && LockWord::DEAD.holder().is_none());
        assert!(!LockWord::DEAD.is_held_by(TransactionId(0)));
        assert!(!LockWord(0).is_dead() && !LockWord(0).flipped().is_dead());
        assert!(!LockWord(0).held_by(MAINTENANCE).is_dead());
    }
}
