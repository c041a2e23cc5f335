//! The budget and what is used of it, with nothing of the engine that uses it. The
//! [module above](super) says what counts.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use coeval_memory::heap;

/// The settings of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many bytes the database may take; `u64::MAX` for no limit.
    pub limit: u64,
    /// How many of them growth leaves to deletes and to what runs already.
    pub reserve: u64,
    /// How many bytes old versions may take before the oldest snapshot ends.
    pub old_versions: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl Budget {
    /// No limit.
    pub const UNLIMITED: Self = Self {
        limit: u64::MAX,
        reserve: 0,
        old_versions: u64::MAX,
    };

    /// So many bytes, of which a sixteenth is the reserve, and old versions may take so
    /// many per cent.
    #[must_use]
    pub const fn of(limit: u64, old_versions_percent: u64) -> Self {
        Self {
            limit,
            reserve: limit / 16,
            old_versions: limit / 100 * old_versions_percent,
        }
    }
}

/// What takes memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAccounts {
    /// How much there may be; `u64::MAX` for no limit.
    pub limit: u64,
    /// Everything together.
    pub used: u64,
    /// Rows: newest versions and uncommitted ones.
    pub rows: u64,
    /// Versions that only older snapshots see.
    pub old_versions: u64,
    /// Record headers.
    pub records: u64,
    /// Index entries.
    pub indexes: u64,
    /// The log's window.
    pub log: u64,
    /// Whatever else was allocated. 0 where the allocator does not count.
    pub rest: u64,
    /// What is there of the allocator's arenas, and not given out. 0 where it does not
    /// count, or nobody has said what is there.
    pub allocator: u64,
    /// Code and stacks, as [`crate::Engine::set_occupied`] was told.
    pub program: u64,
    /// How often growth was refused.
    pub refused: u64,
    /// How many snapshots were ended for the memory they held.
    pub ended_snapshots: u64,
}

/// Says what the process occupies at this moment, in bytes; `None` where nobody knows.
pub(crate) type AskResident = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// How memory stands.
pub(crate) struct Memory {
    pub(super) budget: Budget,
    /// The accounts' sum when they were last added up.
    pub(super) estimate: AtomicU64,
    /// What was there of the allocator's arenas, and not given out, when somebody last
    /// looked.
    pub(super) holes: AtomicU64,
    /// Code and stacks, likewise.
    pub(super) program: AtomicU64,
    /// What the holes came to when somebody last asked, less what had been freed by then.
    /// One word, so that two who ask at once leave what one of them has seen.
    holes_without_freed: AtomicI64,
    resident: OnceLock<AskResident>,
    pub(super) refused: AtomicU64,
    pub(super) ended_snapshots: AtomicU64,
}

/// Which part of the limit holes count up to.
pub(super) const HOLES_COUNTED: u64 = 4;

/// Which part of the limit the kernel is asked before it: what the sums in between do not
/// see is less.
pub(super) const MARGIN: u64 = 64;

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Memory")
            .field("budget", &self.budget)
            .field("given", &self.given())
            .field("holes", &self.holes)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Memory {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            estimate: AtomicU64::new(0),
            holes: AtomicU64::new(0),
            program: AtomicU64::new(0),
            holes_without_freed: AtomicI64::new(0),
            resident: OnceLock::new(),
            refused: AtomicU64::new(0),
            ended_snapshots: AtomicU64::new(0),
        }
    }

    /// What was given out, or what is known of it.
    pub(super) fn given(&self) -> u64 {
        heap::bytes().unwrap_or_else(|| self.estimate.load(Ordering::Relaxed))
    }

    pub(crate) fn set_occupied(&self, arenas: u64, program: u64) {
        let holes = heap::bytes().map_or(0, |given| arenas.saturating_sub(given));
        self.holes.store(holes, Ordering::Relaxed);
        self.program.store(program, Ordering::Relaxed);
        self.holes_now();
    }

    /// From now on whoever comes near the limit asks `resident`.
    pub(crate) fn ask_resident(&self, resident: AskResident) {
        let _ = self.resident.set(resident);
        self.holes_now();
    }

    /// What was given out, and the program.
    pub(super) fn taken(&self) -> u64 {
        self.given() + self.program.load(Ordering::Relaxed)
    }

    /// So much of holes counts at most.
    pub(super) fn counted(&self, holes: u64) -> u64 {
        holes.min(self.budget.limit / HOLES_COUNTED)
    }

    /// What is there and not given out, as the kernel says at this moment. Where nobody
    /// can ask it, what somebody has seen.
    pub(super) fn holes_now(&self) -> u64 {
        let seen = || self.holes.load(Ordering::Relaxed);
        let Some(resident) = self.resident.get() else {
            return seen();
        };
        // Both before the question: what changes meanwhile makes the holes too large
        // rather than too small.
        let (taken, freed) = (self.taken(), heap::freed());
        let Some(resident) = resident() else {
            return seen();
        };
        let holes = resident.saturating_sub(taken);
        let without_freed = (holes as i64).wrapping_sub(freed as i64);
        self.holes_without_freed
            .store(without_freed, Ordering::Relaxed);
        holes
    }

    /// What is there and not given out, at most. Asks nobody.
    fn holes_at_most(&self) -> u64 {
        if self.resident.get().is_none() {
            return self.holes.load(Ordering::Relaxed);
        }
        let without_freed = self.holes_without_freed.load(Ordering::Relaxed);
        let holes = without_freed.wrapping_add(heap::freed() as i64);
        holes.try_into().unwrap_or(0)
    }

    /// Whether only the reserve is left when so many bytes are taken. Holes are in the
    /// reserve first.
    pub(super) fn is_tight(&self, bytes: u64) -> bool {
        let Budget { limit, reserve, .. } = self.budget;
        if limit == u64::MAX {
            return false;
        }
        let taken = self.taken().saturating_add(bytes);
        if taken > limit - reserve {
            return true;
        }
        let near = limit - limit / MARGIN;
        if taken + self.counted(u64::MAX) <= near
            || taken + self.counted(self.holes_at_most()) <= near
        {
            return false;
        }
        taken + self.counted(self.holes_now()) > limit
    }

    /// Whether the reserve is used up as well. Holes do not count here: what an update
    /// writes is of the size of what it replaces, and fits into them.
    pub(super) fn is_exhausted(&self) -> bool {
        let limit = self.budget.limit;
        limit != u64::MAX && self.taken() > limit
    }
}
