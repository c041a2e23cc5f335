//! Advisory locks: locks on numbers whose meaning only applications know, kept by the node
//! that leads.
//!
//! ```text
//!   session 7   pg_advisory_lock(42)          ─▶ held by the session, until it unlocks or ends
//!   session 9   pg_advisory_xact_lock(42)     ─▶ waits in the lock's queue
//!   session 7   pg_advisory_unlock(42)        ─▶ granted to 9, until its transaction ends
//! ```
//!
//! They are no part of the database: nothing of them is logged or replicated, so they end
//! with the process that leads, as all locks do. The functions that take them run on the
//! leader only ([`crate::route`]), wherever the client is connected, so that two sessions
//! of one cluster exclude each other.
//!
//! **The queue.** A release grants the lock to the requests at the head of the queue that
//! no holder excludes, and wakes them: a request that is woken has the lock, and none is
//! passed over. A session that holds the lock in some mode does not queue behind others
//! for another mode, because those may wait for it.
//!
//! **Deadlocks.** The engine's wait-for graph knows transactions, and these locks outlive
//! transactions. So a request looks for a cycle itself ([`deadlock`]): over the waits for
//! advisory locks and those for rows and tables that the engine reports, when it begins to
//! wait and once a second from then on. The request that finds a cycle with itself in it
//! fails.
//!
//! Invariants:
//! - A session waits for at most one lock, and while it waits it runs nothing else.
//! - Entries (a lock held or awaited by a session in one mode) are bounded for each session
//!   and for all of them, so that a loop over numbers cannot take the server's memory.
//! - A session's entries end with its [`SessionLocks`].

mod deadlock;
mod session_locks;
mod table;

pub(crate) use session_locks::{AdvisoryWait, Locking, SessionLocks, Timer};
pub(crate) use table::AdvisoryLocks;

/// What is locked. One bigint and two integers are different locks, whatever their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AdvisoryKey {
    /// A bigint.
    One(i64),
    /// Two integers.
    Two(i32, i32),
}

impl AdvisoryKey {
    /// `classid`, `objid` and `objsubid` of the lock in `pg_locks`.
    pub(crate) const fn numbers(self) -> (u32, u32, i16) {
        match self {
            Self::One(number) => ((number >> 32) as u32, number as u32, 1),
            Self::Two(first, second) => (first as u32, second as u32, 2),
        }
    }
}

/// Whether others may hold the lock, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AdvisoryMode {
    Shared,
    Exclusive,
}

impl AdvisoryMode {
    const fn excludes(self, other: Self) -> bool {
        !matches!((self, other), (Self::Shared, Self::Shared))
    }

    /// Name of the mode in PostgreSQL.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shared => "ShareLock",
            Self::Exclusive => "ExclusiveLock",
        }
    }
}

/// How long the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// Until the session gives it back or ends.
    Session,
    /// Until the transaction ends, or is rolled back to before the call.
    Transaction,
}

/// An advisory lock that is held or waited for, as `pg_locks` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownLock {
    pub(crate) key: AdvisoryKey,
    pub(crate) process_id: i32,
    pub(crate) mode: AdvisoryMode,
    pub(crate) granted: bool,
    /// When the wait began, in microseconds since 2000 UTC.
    pub(crate) waits_since: Option<i64>,
}

#[cfg(test)]
mod tests;
