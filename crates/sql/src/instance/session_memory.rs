//! Session memory: bounds what a session keeps between statements.
//!
//! The memory budget of statements looks at what a statement takes while it runs. Prepared
//! statements and portals stay for as long as the session does, and their trees and plans take
//! a hundred times the bytes of their texts. So each is charged to its session, and all
//! sessions together to the instance:
//!
//! ```text
//!   session    Σ charges ≤ max_session_memory_bytes
//!   instance   Σ sessions, and messages that are still arriving ≤ a quarter of memory_limit
//! ```
//!
//! A charge is what the object takes by the count of the allocator, read before and after the
//! object was made ([`measured`]): no estimate has to know each kind of node. Where the
//! allocator does not count, as in a simulation, an estimate takes its place.
//!
//! Invariant: a [`Charge`] lives as long as the object that it is for, and dropping it gives
//! the bytes back, in whatever order objects and session end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result, SqlState};

/// Name of the server's setting for one session.
const SETTING: &str = "max_session_memory_bytes";

/// What all sessions keep.
#[derive(Debug)]
pub struct SessionsMemory {
    used: AtomicU64,
    limit: AtomicU64,
}

impl Default for SessionsMemory {
    fn default() -> Self {
        Self {
            used: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        }
    }
}

impl SessionsMemory {
    /// Sets how many bytes all sessions may keep together.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that all sessions keep.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Charges all sessions, and none by itself, for something that one of them keeps, or
    /// fails with SQLSTATE 53200.
    pub fn charge(self: &Arc<Self>, bytes: u64, what: &str) -> Result<SharedCharge> {
        let charge = self.charge_anyway(bytes);
        let all = self.used();
        let limit = self.limit.load(Ordering::Relaxed);
        if all > limit {
            return Err(beyond(what, bytes, all - bytes, limit, "all sessions"));
        }
        Ok(charge)
    }

    /// Charges all sessions for something that cannot be refused any more.
    pub fn charge_anyway(self: &Arc<Self>, bytes: u64) -> SharedCharge {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        SharedCharge {
            bytes,
            all: Arc::clone(self),
        }
    }
}

/// What one session keeps.
#[derive(Debug)]
pub struct SessionMemory {
    used: AtomicU64,
    limit: u64,
    all: Arc<SessionsMemory>,
}

impl SessionMemory {
    pub(crate) fn new(limit: u64, all: &Arc<SessionsMemory>) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicU64::new(0),
            limit,
            all: Arc::clone(all),
        })
    }

    /// Bytes that the session keeps.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Charges the session for something that it keeps, or fails with SQLSTATE 53200.
    pub fn charge(self: &Arc<Self>, bytes: u64, what: &str) -> Result<Charge> {
        let charge = self.charge_anyway(bytes);
        let (own, all) = (self.used(), self.all.used());
        if own > self.limit {
            return Err(beyond(what, bytes, own - bytes, self.limit, "its session"));
        }
        let limit = self.all.limit.load(Ordering::Relaxed);
        if all > limit {
            return Err(beyond(what, bytes, all - bytes, limit, "all sessions"));
        }
        Ok(charge)
    }

    /// Charges the session for something that cannot be refused any more.
    pub(crate) fn charge_anyway(self: &Arc<Self>, bytes: u64) -> Charge {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.all.used.fetch_add(bytes, Ordering::Relaxed);
        Charge {
            bytes,
            to: Arc::clone(self),
        }
    }

    /// Charges all sessions, and not this one by itself, for a message that arrives: its
    /// length has a limit of its own.
    pub fn charge_message(self: &Arc<Self>, bytes: u64) -> Result<SharedCharge> {
        self.all.charge(bytes, "A message")
    }
}

/// SQLSTATE 53200: a session, or all, would keep too much.
fn beyond(what: &str, bytes: u64, used: u64, limit: u64, who: &str) -> Error {
    let (setting, remedy) = match who {
        "all sessions" => (
            "memory_limit_megabytes",
            "Deallocate statements that are not needed any more, try again when other sessions \
             have ended",
        ),
        _ => (
            SETTING,
            "Deallocate statements that are not needed any more",
        ),
    };
    Error::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .with_detail(format!(
            "{what} takes {} kB, and of the {} kB that {who} may keep {} kB are taken.",
            bytes.div_ceil(1024),
            limit / 1024,
            used / 1024,
        ))
        .with_hint(format!(
            "{remedy}, or raise the server's setting {setting}."
        ))
}

/// Bytes charged to a session, until they are dropped.
#[derive(Debug)]
#[must_use]
pub struct Charge {
    bytes: u64,
    to: Arc<SessionMemory>,
}

impl Charge {
    /// Changes the charge, because the object has been made anew.
    pub(crate) fn resize(&mut self, bytes: u64) {
        *self = self.to.charge_anyway(bytes);
    }

    /// Changes the charge, because the object has grown or shrunk; fails with SQLSTATE 53200
    /// if it may not grow.
    pub(crate) fn grow(&mut self, bytes: u64, what: &str) -> Result<()> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.join(self.to.charge(more, what)?),
            None => self.give_back(self.bytes - bytes),
        }
        Ok(())
    }

    /// Takes over another charge of the same session.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives a part back, because a part of the object is gone.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.resize(self.bytes.saturating_sub(bytes));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.to.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.to.all.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes charged to all sessions, until they are dropped.
#[derive(Debug)]
#[must_use]
pub struct SharedCharge {
    bytes: u64,
    all: Arc<SessionsMemory>,
}

impl Drop for SharedCharge {
    fn drop(&mut self) {
        self.all.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Runs `make`, and measures the bytes that it has allocated and not freed; `estimate` where
/// the allocator does not count.
pub(crate) fn measured<T>(estimate: u64, make: impl FnOnce() -> T) -> (T, u64) {
    let before = coeval_memory::heap::of_this_thread();
    let made = make();
    let kept = coeval_memory::heap::of_this_thread() - before;
    let bytes = u64::try_from(kept).ok().filter(|bytes| *bytes > 0);
    (made, bytes.unwrap_or(estimate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(error: &Error) -> (&str, &str) {
        let report = error.report();
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
        (
            report.detail.as_deref().unwrap(),
            report.hint.as_deref().unwrap(),
        )
    }

    #[test]
    fn a_session_and_all_sessions_have_a_limit() {
        let all = Arc::<SessionsMemory>::default();
        all.set_limit(150 << 10);
        let one = SessionMemory::new(100 << 10, &all);
        let first = one.charge(60 << 10, "A statement").unwrap();
        let refused = one.charge(50 << 10, "A statement").unwrap_err();
        let (said, hint) = detail(&refused);
        assert_eq!(
            said,
            "A statement takes 50 kB, and of the 100 kB that its session may keep 60 kB are taken."
        );
        assert!(hint.contains("max_session_memory_bytes"), "{hint}");
        // What was refused is not charged.
        assert_eq!((one.used(), all.used()), (60 << 10, 60 << 10));
        let two = SessionMemory::new(100 << 10, &all);
        let message = two.charge_message(80 << 10).unwrap();
        let refused = two.charge(20 << 10, "A portal").unwrap_err();
        let (said, hint) = detail(&refused);
        assert!(
            said.contains("150 kB that all sessions may keep 140 kB"),
            "{said}"
        );
        assert!(hint.contains("memory_limit_megabytes"), "{hint}");
        assert!(two.charge_message(20 << 10).is_err());
        drop(message);
        let mut second = two.charge(70 << 10, "A portal").unwrap();
        second.join(two.charge_anyway(20 << 10));
        second.give_back(30 << 10);
        assert_eq!((two.used(), all.used()), (60 << 10, 120 << 10));
        second.grow(70 << 10, "A portal").unwrap();
        assert_eq!((two.used(), all.used()), (70 << 10, 130 << 10));
        assert!(second.grow(100 << 10, "A portal").is_err());
        second.grow(70 << 10, "A portal").unwrap();
        second.grow(20 << 10, "A portal").unwrap();
        assert_eq!((two.used(), all.used()), (20 << 10, 80 << 10));
        second.resize(10 << 10);
        drop(first);
        assert_eq!((one.used(), all.used()), (0, 10 << 10));
        drop((second, one, two));
        assert_eq!(all.used(), 0);
    }
}
