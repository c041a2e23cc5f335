//! The memory budget and its accounts, which know nothing of the engine that uses them.
//! The [parent module](super) says what counts.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use coeval_memory::heap;

/// Settings of the memory budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes that the process may take; `u64::MAX` for no limit.
    pub limit: u64,
    /// Bytes of the limit that growth must leave to deletes and to running transactions.
    pub reserve: u64,
    /// Bytes that old versions may take before the oldest snapshot is ended.
    pub old_versions: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl Budget {
    /// A budget without limit.
    pub const UNLIMITED: Self = Self {
        limit: u64::MAX,
        reserve: 0,
        old_versions: u64::MAX,
    };

    /// A budget of `limit` bytes, with a reserve of a sixteenth, and this percentage for
    /// old versions.
    #[must_use]
    pub const fn of(limit: u64, old_versions_percent: u64) -> Self {
        Self {
            limit,
            reserve: limit / 16,
            old_versions: limit / 100 * old_versions_percent,
        }
    }
}

/// Memory in use, by purpose, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAccounts {
    /// The limit; `u64::MAX` for none.
    pub limit: u64,
    /// The sum of all accounts.
    pub used: u64,
    /// Rows: newest versions and uncommitted ones.
    pub rows: u64,
    /// Versions that only older snapshots see.
    pub old_versions: u64,
    /// Record headers.
    pub records: u64,
    /// Index entries.
    pub indexes: u64,
    /// The log's window of records on their way to the disk.
    pub log: u64,
    /// All other allocations. 0 where the allocator does not count.
    pub rest: u64,
    /// Resident bytes of the allocator's arenas that are not allocated. 0 where the
    /// allocator does not count, or before the first measurement.
    pub allocator: u64,
    /// Code and stacks, as set by [`crate::Engine::set_occupied`].
    pub program: u64,
    /// Number of refused requests for growth.
    pub refused: u64,
    /// Number of snapshots that were ended for the memory they held.
    pub ended_snapshots: u64,
}

/// Returns the resident memory of the process, in bytes; `None` where the platform does
/// not tell.
pub(crate) type AskResident = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// The state of the memory budget.
pub(crate) struct Memory {
    pub(super) budget: Budget,
    /// The sum of the accounts when they were last added up.
    pub(super) estimate: AtomicU64,
    /// Resident bytes of the allocator's arenas that were not allocated, at the last
    /// measurement of the pages.
    pub(super) holes: AtomicU64,
    /// Code and stacks, at the last measurement.
    pub(super) program: AtomicU64,
    /// Holes when the kernel was last asked, less the bytes freed by then. One word, so
    /// that of two threads that ask at once one overwrites the other's answer as a whole.
    holes_without_freed: AtomicI64,
    resident: OnceLock<AskResident>,
    pub(super) refused: AtomicU64,
    pub(super) ended_snapshots: AtomicU64,
}

/// Divisor of the limit: holes count up to this part of it.
pub(super) const HOLES_COUNTED: u64 = 4;

/// Divisor of the limit: the kernel is asked when usage comes within this part of it. The
/// error of the sums is smaller.
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

    /// Allocated bytes, or an estimate of them.
    pub(super) fn given(&self) -> u64 {
        heap::bytes().unwrap_or_else(|| self.estimate.load(Ordering::Relaxed))
    }

    pub(crate) fn set_occupied(&self, arenas: u64, program: u64) {
        let holes = heap::bytes().map_or(0, |given| arenas.saturating_sub(given));
        self.holes.store(holes, Ordering::Relaxed);
        self.program.store(program, Ordering::Relaxed);
        self.holes_now();
    }

    /// Sets the function that growing writes near the limit call for the resident memory.
    pub(crate) fn ask_resident(&self, resident: AskResident) {
        let _ = self.resident.set(resident);
        self.holes_now();
    }

    /// Allocated bytes, and the program's code and stacks.
    pub(super) fn taken(&self) -> u64 {
        self.given() + self.program.load(Ordering::Relaxed)
    }

    /// The part of the holes that counts against the limit.
    pub(super) fn counted(&self, holes: u64) -> u64 {
        holes.min(self.budget.limit / HOLES_COUNTED)
    }

    /// Resident bytes that are not allocated, by the kernel's answer at this moment;
    /// where the kernel cannot be asked, by the last measurement.
    pub(super) fn holes_now(&self) -> u64 {
        let seen = || self.holes.load(Ordering::Relaxed);
        let Some(resident) = self.resident.get() else {
            return seen();
        };
        // Both are read before the kernel is asked: changes in between make the holes too
        // large rather than too small.
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

    /// Upper bound on resident bytes that are not allocated. Does not ask the kernel.
    fn holes_at_most(&self) -> u64 {
        if self.resident.get().is_none() {
            return self.holes.load(Ordering::Relaxed);
        }
        let without_freed = self.holes_without_freed.load(Ordering::Relaxed);
        let holes = without_freed.wrapping_add(heap::freed() as i64);
        holes.try_into().unwrap_or(0)
    }

    /// Whether only the reserve is left after an allocation of `bytes`. Holes are charged
    /// to the reserve first.
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

    /// Whether the reserve is used up as well. Holes do not count here: an update writes
    /// about as many bytes as it replaces, and fits into them.
    pub(super) fn is_exhausted(&self) -> bool {
        let limit = self.budget.limit;
        limit != u64::MAX && self.taken() > limit
    }
}
