//! The budget: what takes memory, how much there may be, and who gives way.
//!
//! ```text
//!   0 ───────────────────────────────── limit − reserve ──────── limit
//!     everything goes on               │ growth: 53200          │ updates: 53200
//!                                      │ deletes, reads, updates that make no row
//!                                      │ longer and move no key: go on
//! ```
//!
//! # What counts
//!
//! What an operator pays for: everything that the process occupies.
//!
//! | account | counted |
//! | --- | --- |
//! | rows | the newest committed version of each row, and uncommitted ones |
//! | old versions | versions that only older snapshots see, and their list nodes |
//! | records | headers, a cache line for each row and each row that was |
//! | indexes | entries, by an average of what one takes |
//! | log | the window of the log that is on its way to the disk |
//! | rest | sessions, statements, the catalog, and whatever else was allocated: what was, as it is counted, without the above |
//! | allocator | what is there of the allocator's arenas, without what it gave out |
//! | program | code, its constants and stacks: what is there outside the arenas |
//!
//! What is there, page by page, the kernel says ([`crate::Engine::set_occupied`]).
//!
//! Where the program's allocator does not count ([`coeval_memory::heap`]), used is the
//! sum of the first five, which the sweeper brings up to date, and every so many writes.
//!
//! # Holes
//!
//! What the allocator has and has not given out counts up to a quarter of the limit
//! ([`HOLES_COUNTED`]). A table that only grows leaves fewer holes than that, so growth
//! ends when all that is there has come to the limit. After a delete the allocator has
//! what it had, in holes that the next rows fit into: counted whole, they would keep out
//! the very rows they are for. So rows come in again at once. What does not fit, because
//! it is of another size, can take the process past its limit then, by what the holes
//! beyond a quarter come to; that is the price of not moving what is there.
//!
//! # Who gives way
//!
//! Old versions go as soon as no snapshot can see them, also those between two
//! snapshots; so a row that is updated all the time while one long transaction reads
//! has three versions, not one for each update. What a snapshot does hold on to is
//! counted. Past its share of the limit the oldest snapshot *ends*: its transaction is
//! told so (72000) at its next read, and what only it could see goes. That is the only
//! way in which a read is ever cut short by writes. A snapshot that is younger than the
//! last whole sweep is never the one: what it holds was not looked at yet.
//!
//! An update that makes no row longer needs memory all the same until its transaction
//! has ended: the version it replaces stays, and with savepoints a copy for each. When
//! the reserve is used up it is refused as well. So no transaction takes the process past
//! its limit by updating everything again and again.
//!
//! Deletes need memory before they give any back: list nodes, their transaction's
//! notes, log entries. That is what the reserve is for. A delete of very many rows at
//! once may take more than the reserve; it is not refused for it.

use std::sync::atomic::{AtomicU64, Ordering};

use coeval_memory::heap;
use coeval_txn::Error;
use coeval_types::Timestamp;

use crate::engine::Shared;

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

/// How memory stands.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: Budget,
    /// The accounts' sum when they were last added up.
    estimate: AtomicU64,
    /// What was there of the allocator's arenas, and not given out, when somebody last
    /// looked.
    holes: AtomicU64,
    /// Code and stacks, likewise.
    program: AtomicU64,
    refused: AtomicU64,
    ended_snapshots: AtomicU64,
}

/// Which part of the limit holes count up to.
const HOLES_COUNTED: u64 = 4;

/// After so many growing writes of a transaction object the accounts are added up
/// anew, where the allocator does not count.
const WRITES_BETWEEN_SUMS: u32 = 64;

impl Memory {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            estimate: AtomicU64::new(0),
            holes: AtomicU64::new(0),
            program: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            ended_snapshots: AtomicU64::new(0),
        }
    }

    /// What was given out, or what is known of it.
    fn given(&self) -> u64 {
        heap::bytes().unwrap_or_else(|| self.estimate.load(Ordering::Relaxed))
    }

    pub(crate) fn set_occupied(&self, arenas: u64, program: u64) {
        let holes = heap::bytes().map_or(0, |given| arenas.saturating_sub(given));
        self.holes.store(holes, Ordering::Relaxed);
        self.program.store(program, Ordering::Relaxed);
    }

    /// What was there of the arenas and not given out when somebody last looked. What has
    /// been given out since is taken to have come from the kernel, so that growth does not
    /// run ahead of whoever looks.
    fn holes(&self) -> u64 {
        self.holes.load(Ordering::Relaxed)
    }

    /// What is used, with as much of the holes as counts.
    fn used(&self) -> u64 {
        let holes = self.holes().min(self.budget.limit / HOLES_COUNTED);
        self.given() + self.program.load(Ordering::Relaxed) + holes
    }

    /// Whether only the reserve is left. Holes are in the reserve first.
    fn is_tight(&self) -> bool {
        let Budget { limit, reserve, .. } = self.budget;
        if limit == u64::MAX {
            return false;
        }
        let taken = self.given() + self.program.load(Ordering::Relaxed);
        taken > limit - reserve || self.used() > limit
    }

    /// Whether the reserve is used up as well. Holes do not count here: what an update
    /// writes is of the size of what it replaces, and fits into them.
    fn is_exhausted(&self) -> bool {
        let limit = self.budget.limit;
        limit != u64::MAX && self.given() + self.program.load(Ordering::Relaxed) > limit
    }
}

/// What is left of the limit, the reserve included: for what goes on at it.
pub(crate) fn spare(shared: &Shared) -> u64 {
    let memory = &shared.memory;
    match memory.budget.limit {
        u64::MAX => u64::MAX,
        limit => limit.saturating_sub(memory.used()),
    }
}

/// Whether garbage should be looked for without rest: the budget is nearly used up, or
/// old versions take half of their share.
pub(crate) fn is_short(shared: &Shared) -> bool {
    let memory = &shared.memory;
    if memory.budget.limit == u64::MAX && memory.budget.old_versions == u64::MAX {
        return false;
    }
    let old_versions = accounts(shared).old_versions;
    memory.is_tight() || old_versions > memory.budget.old_versions / 2
}

/// Refuses growth when the budget is used up. `writes` counts the caller's writes.
#[inline]
pub(crate) fn check_growth(shared: &Shared, writes: &mut u32) -> Result<(), Error> {
    let memory = &shared.memory;
    if memory.budget.limit == u64::MAX {
        return Ok(());
    }
    *writes = writes.wrapping_add(1);
    if writes.is_multiple_of(WRITES_BETWEEN_SUMS) && heap::bytes().is_none() {
        accounts(shared);
    }
    if !memory.is_tight() {
        return Ok(());
    }
    memory.refused.fetch_add(1, Ordering::Relaxed);
    Err(Error::OutOfMemory)
}

/// Refuses an update when the reserve is used up, too: what it replaces stays until
/// its transaction has ended, or the savepoint before it.
#[inline]
pub(crate) fn check_reserve(shared: &Shared) -> Result<(), Error> {
    let memory = &shared.memory;
    if !memory.is_exhausted() {
        return Ok(());
    }
    memory.refused.fetch_add(1, Ordering::Relaxed);
    Err(Error::OutOfMemory)
}

/// Adds the accounts up.
pub(crate) fn accounts(shared: &Shared) -> MemoryAccounts {
    let memory = &shared.memory;
    let mut accounts = MemoryAccounts {
        limit: memory.budget.limit,
        log: shared.log.window_bytes(),
        refused: memory.refused.load(Ordering::Relaxed),
        ended_snapshots: memory.ended_snapshots.load(Ordering::Relaxed),
        ..MemoryAccounts::default()
    };
    {
        let storages = shared.storages.read().expect("no panic while it was held");
        for storage in storages.values() {
            let table = storage.records.memory();
            accounts.rows += table.values.saturating_sub(table.old_values);
            accounts.old_versions += table.old_values + table.version_lists;
            accounts.records += table.records;
            accounts.indexes += storage.index_bytes();
        }
    }
    let known =
        accounts.rows + accounts.old_versions + accounts.records + accounts.indexes + accounts.log;
    memory.estimate.store(known, Ordering::Relaxed);
    let given = memory.given();
    accounts.rest = given.saturating_sub(known);
    accounts.allocator = memory.holes();
    accounts.program = memory.program.load(Ordering::Relaxed);
    accounts.used = given + accounts.allocator + accounts.program;
    accounts
}

/// Ends the oldest snapshot if old versions take more than their share. `since` is when
/// the sweep began that has just looked at everything: older snapshots still hold what
/// is left.
pub(crate) fn end_oldest(shared: &Shared, since: Timestamp) {
    let memory = &shared.memory;
    if accounts(shared).old_versions <= memory.budget.old_versions {
        return;
    }
    if let Some(ended) = shared.snapshots.end_oldest(since) {
        memory.ended_snapshots.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            snapshot = %ended,
            "old versions take more than their share of memory: the oldest snapshot ends"
        );
    }
}
