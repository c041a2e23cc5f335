//! Contention statistics for operators: which transaction waits for which lock now, and
//! which conflicts have occurred.
//!
//! ```text
//!   session 7                session 9                        coeval.locks
//!   update a … (row locked)  update a … ─ waits ──────────▶   9 waits for 7: row (id)=(1) of a
//!   commit                   ─ 40001, WriteWrite ─────────▶   coeval.conflicts: a, 1 more
//! ```
//!
//! These reports are never an input to the protocol: an engine may forget entries, and an
//! entry may be outdated by the time it is read.

use std::time::Duration;

use coeval_types::{IndexId, StorageId, TransactionId};

use crate::{Cause, ConflictLocation, TableLock};

/// A transaction and the session that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// The transaction's id.
    pub transaction: TransactionId,
    /// [`BeginOptions::session`](crate::BeginOptions::session) as given at begin; `None`
    /// when the engine no longer knows it.
    pub session: Option<i32>,
}

/// The kind of lock that a transaction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// A lock on a row, to change it or to prevent other transactions from changing it.
    Row,
    /// A lock on a key of a unique index, to insert a row with that key.
    Key,
    /// A lock on a table, in one of its modes.
    Table(TableLock),
}

impl LockKind {
    /// The kind's name in messages and views.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Key => "key",
            Self::Table(mode) => mode.name(),
        }
    }
}

/// A transaction that waits for a lock, as reported to operators.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// The transaction that waits.
    pub waiter: Party,
    /// The transactions that hold the lock or are queued before the waiter. Empty when the
    /// lock has just been released.
    pub holders: Vec<Party>,
    /// The row, key or table that the lock protects.
    pub place: ConflictLocation,
    /// The kind of the lock.
    pub kind: LockKind,
    /// Time since the wait began.
    pub waited: Duration,
}

/// Why a transaction was aborted in favour of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GaveWay {
    /// The transaction failed with [`Error::Conflict`](crate::Error::Conflict), for this
    /// cause.
    Conflict(Cause),
    /// The transaction failed with [`Error::Deadlock`](crate::Error::Deadlock).
    Deadlock,
    /// The transaction failed with [`Error::LockTimeout`](crate::Error::LockTimeout).
    LockTimeout,
}

impl GaveWay {
    /// The reason's name in messages and views.
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

/// Counter of the conflicts of one kind in one table or index, since the engine started.
#[derive(Clone, Debug)]
pub struct ConflictCount {
    /// The storage in which they occurred.
    pub storage: StorageId,
    /// The index in which they occurred, if they concerned keys.
    pub index: Option<IndexId>,
    /// Why the transactions were aborted.
    pub why: GaveWay,
    /// Number of conflicts.
    pub count: u64,
    /// Wall-clock time of the latest conflict, since the Unix epoch.
    pub last: Duration,
    /// The row, key or range of the latest conflict.
    pub last_place: ConflictLocation,
    /// The transaction that the latest conflict aborted.
    pub last_loser: Party,
    /// The transaction that won the latest conflict, if known.
    pub last_winner: Option<Party>,
}

impl ConflictLocation {
    /// The storage that contains this place.
    #[must_use]
    pub const fn storage(&self) -> StorageId {
        match self {
            Self::Row { storage, .. }
            | Self::Key { storage, .. }
            | Self::Range { storage, .. }
            | Self::Table { storage } => *storage,
        }
    }

    /// The index that contains this place, if it is a key or a range.
    #[must_use]
    pub const fn index(&self) -> Option<IndexId> {
        match self {
            Self::Key { index, .. } | Self::Range { index, .. } => Some(*index),
            Self::Row { .. } | Self::Table { .. } => None,
        }
    }
}
