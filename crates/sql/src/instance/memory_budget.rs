//! The memory budget of statements: limits the memory that all statements together take.
//!
//! The engine counts the memory of rows, and refuses to grow beyond its limit. Statements
//! take memory too, for as long as they run: a text becomes a tree and a plan of many
//! times its bytes, and sorting and grouping keep rows. Each statement has a limit of its
//! own (`max_statement_bytes`, `work_mem`); [`MemoryBudget`] limits all of them together, by the
//! bytes that the engine has available:
//!
//! ```text
//!   limit ──────────────────────────────────────────────┐
//!     rows, indexes, … and the memory of statements     │ spare │
//!     ──────────────────────────────────────────────────┴───────┘
//!                                          reserved: about to be taken
//! ```
//!
//! Because neither parsing nor planning can stop halfway, the session *reserves* the
//! memory a text will take before it parses it, and again before it plans it. That memory
//! then counts twice for a while, so statements that check at the same moment cannot
//! exceed the limit together. Sorting and grouping check the budget as they grow, a
//! [`STEP`] at a time.
//!
//! Small statements do not check the budget. So at the limit reads and deletes continue
//! to work, as long as they take no more than a [`STEP`].

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Bytes that a statement takes without checking the budget, and then between two checks.
pub const STEP: u64 = 1 << 20;

/// Function that returns the available bytes; `u64::MAX` without a limit.
pub(crate) type Spare = Box<dyn Fn() -> u64 + Send + Sync>;

/// The memory budget of all statements.
#[derive(Default)]
pub struct MemoryBudget {
    spare: OnceLock<Spare>,
    reserved: AtomicU64,
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MemoryBudget")
            .field("spare", &self.spare.get().map(|spare| spare()))
            .field("reserved", &self.reserved)
            .finish()
    }
}

/// Memory that a statement is about to take. Dropping it returns the bytes: by then the
/// statement has allocated them, so that the engine counts them, or has freed them.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget
            .reserved
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl MemoryBudget {
    /// Makes `spare` the source of the available bytes. Before the first call the budget
    /// is unlimited; further calls change nothing.
    pub(crate) fn ask(&self, spare: Spare) {
        let _ = self.spare.set(spare);
    }

    fn spare(&self) -> u64 {
        self.spare.get().map_or(u64::MAX, |spare| spare())
    }

    /// Reserves this many bytes for `purpose`, or fails with SQLSTATE 53200. Returns
    /// `None` for an amount too small to check.
    pub(crate) fn reserve(&self, bytes: u64, purpose: &str) -> Result<Option<Reservation<'_>>> {
        if bytes <= STEP {
            return Ok(None);
        }
        let before = self.reserved.fetch_add(bytes, Ordering::Relaxed);
        let reservation = Reservation {
            budget: self,
            bytes,
        };
        let spare = self.spare();
        if before.saturating_add(bytes) > spare {
            return Err(Error::no_room(purpose, bytes, spare.saturating_sub(before)));
        }
        Ok(Some(reservation))
    }

    /// Fails with SQLSTATE 53200 when this many bytes for `purpose` are not available.
    /// Small amounts are not checked.
    pub fn ask_for(&self, bytes: u64, purpose: &str) -> Result<()> {
        self.reserve(bytes, purpose).map(drop)
    }

    /// Fails with SQLSTATE 53200 unless a [`STEP`] is available.
    fn check(&self) -> Result<()> {
        let spare = self.spare();
        let left = spare.saturating_sub(self.reserved.load(Ordering::Relaxed));
        if left < STEP {
            return Err(Error::no_room("Keeping more rows", STEP, left));
        }
        Ok(())
    }
}

/// Memory of one statement, checked against its own limit and the budget of all
/// statements.
#[derive(Clone, Debug)]
pub struct StatementMemory<'a> {
    used: usize,
    limit: usize,
    /// Bytes taken since the budget was last checked.
    unseen: usize,
    budget: &'a MemoryBudget,
}

impl<'a> StatementMemory<'a> {
    /// Starts with nothing used of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize, budget: &'a MemoryBudget) -> Self {
        Self {
            used: 0,
            limit,
            unseen: 0,
            budget,
        }
    }

    /// Takes this many bytes, or fails with SQLSTATE 53200.
    pub fn take(&mut self, bytes: usize) -> Result<()> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.limit {
            return Err(Error::work_memory(self.limit));
        }
        self.unseen = self.unseen.saturating_add(bytes);
        if self.unseen.min(self.used) > STEP as usize {
            self.unseen = 0;
            self.budget.check()?;
        }
        Ok(())
    }

    /// Returns this many bytes.
    pub fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;

    fn budget(spare: u64) -> MemoryBudget {
        let budget = MemoryBudget::default();
        budget.ask(Box::new(move || spare));
        budget
    }

    #[test]
    fn what_is_reserved_is_nobody_elses() {
        let budget = budget(10 * STEP);
        let first = budget.reserve(6 * STEP, "Parsing").unwrap();
        let refused = budget.reserve(6 * STEP, "Parsing").unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        let second = budget.reserve(4 * STEP, "Parsing").unwrap();
        drop(first);
        assert!(budget.reserve(7 * STEP, "Parsing").is_err());
        assert!(budget.reserve(6 * STEP, "Parsing").unwrap().is_some());
        drop(second);
        assert!(budget.reserve(10 * STEP, "Parsing").is_ok());
        assert_eq!(budget.reserved.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn little_is_to_be_had_when_nothing_is_left() {
        let budget = budget(0);
        assert!(budget.reserve(STEP, "Parsing").unwrap().is_none());
        let mut memory = StatementMemory::new(1 << 30, &budget);
        for _ in 0..STEP / 1024 {
            memory.take(1024).unwrap();
        }
        let refused = memory.take(1).unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
    }

    #[test]
    fn each_step_is_looked_at() {
        let left = std::sync::Arc::new(AtomicU64::new(3 * STEP));
        let budget = MemoryBudget::default();
        let asked = std::sync::Arc::clone(&left);
        budget.ask(Box::new(move || asked.load(Ordering::Relaxed)));
        let mut memory = StatementMemory::new(usize::MAX, &budget);
        let mut taken = 0;
        // The test counts the bytes as if it had allocated them.
        while memory.take(4096).is_ok() {
            taken += 4096;
            left.fetch_sub(4096.min(left.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
        assert!((STEP..=3 * STEP).contains(&taken), "{taken}");
    }

    #[test]
    fn without_a_limit_there_is_always_room() {
        let budget = MemoryBudget::default();
        assert!(budget.reserve(u64::MAX / 2, "Parsing").unwrap().is_some());
    }
}
