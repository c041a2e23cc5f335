//! What transactions do to each other, for people: who waits for whom now, and which
//! conflicts there have been.
//!
//! ```text
//!   session 7                session 9                        coeval.locks
//!   update a … (row locked)  update a … ─ waits ──────────▶   9 waits for 7: row (id)=(1) of a
//!   commit                   ─ 40001, WriteWrite ─────────▶   coeval.conflicts: a, 1 more
//! ```
//!
//! Nothing here decides anything: an engine may forget, and what it says may be over
//! by the time it is read.

use std::time::Duration;

use coeval_types::{IndexId, StorageId, TransactionId};

use crate::{Cause, Place};

/// A transaction, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// Its number.
    pub transaction: TransactionId,
    /// [`BeginOptions::session`](crate::BeginOptions::session) as it began; `None`
    /// when that is not known any more.
    pub session: Option<i32>,
}

/// What kind of lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// A row, to change it or to keep others from it.
    Row,
    /// A key of a unique index, to give it to a row.
    Key,
    /// A table, to write to it beside others.
    TableWrite,
    /// A table, to have it alone.
    TableExclusive,
}

impl LockKind {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Key => "key",
            Self::TableWrite => "table write",
            Self::TableExclusive => "table exclusive",
        }
    }
}

/// A transaction that waits for a lock.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// Who waits.
    pub waiter: Party,
    /// Who has the lock, or is to have it first. Nobody when it has just been freed.
    pub holders: Vec<Party>,
    /// For which lock.
    pub place: Place,
    /// In which way.
    pub kind: LockKind,
    /// For how long.
    pub waited: Duration,
}

/// Why a transaction had to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GaveWay {
    /// [`Error::Conflict`](crate::Error::Conflict), for this cause.
    Conflict(Cause),
    /// [`Error::Deadlock`](crate::Error::Deadlock).
    Deadlock,
    /// [`Error::LockTimeout`](crate::Error::LockTimeout).
    LockTimeout,
}

impl GaveWay {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conflict(Cause::WriteWrite) => "concurrent update",
            Self::Conflict(Cause::ReadChanged) => "changed read",
            Self::Conflict(Cause::RangeChanged) => "changed range",
            Self::Conflict(Cause::RingOverflow) => "too many writers",
            Self::Conflict(Cause::LockOrder) => "lock at commit",
            Self::Conflict(Cause::Schema) => "changed schema",
            Self::Deadlock => "deadlock",
            Self::LockTimeout => "lock timeout",
        }
    }
}

/// All conflicts of one kind in one table or index, since the engine was started.
#[derive(Clone, Debug)]
pub struct ConflictCount {
    /// Where.
    pub storage: StorageId,
    /// In which index, if it was about keys.
    pub index: Option<IndexId>,
    /// Why.
    pub why: GaveWay,
    /// How many.
    pub count: u64,
    /// When the last one was, since the Unix epoch.
    pub last: Duration,
    /// Where exactly that was.
    pub last_place: Place,
    /// Who gave way then.
    pub last_loser: Party,
    /// To whom, where that is known.
    pub last_winner: Option<Party>,
}

impl Place {
    /// The storage it is in.
    #[must_use]
    pub const fn storage(&self) -> StorageId {
        match self {
            Self::Row { storage, .. }
            | Self::Key { storage, .. }
            | Self::Range { storage, .. }
            | Self::Table { storage } => *storage,
        }
    }

    /// The index it is in, if it is about keys.
    #[must_use]
    pub const fn index(&self) -> Option<IndexId> {
        match self {
            Self::Key { index, .. } | Self::Range { index, .. } => Some(*index),
            Self::Row { .. } | Self::Table { .. } => None,
        }
    }
}
