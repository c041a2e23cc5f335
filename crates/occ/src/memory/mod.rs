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
//! | indexes | the nodes of their trees, keys that are too long for a node, and logical ranges with their rings |
//! | log | the window of the log that is on its way to the disk |
//! | rest | sessions, statements, the catalog, and whatever else was allocated: what was, as it is counted, without the above |
//! | allocator | what is there of the allocator's arenas, without what it gave out |
//! | program | code, its constants and stacks: what is there outside the arenas |
//!
//! What is there, page by page, the kernel says ([`crate::Engine::set_occupied`]).
//!
//! # Between two looks
//!
//! The list of pages is looked at some times a second, and on a machine that is short of
//! cores more rarely. Growth must not pass the limit meanwhile, so it is not let in by
//! time but by accounts. What was allocated is known at any moment. What is there beside
//! it, the holes, cannot have grown by more than what was freed since the kernel was last
//! asked ([`heap::freed`]): a page that was not there before has been allocated from
//! since, and that is what was taken more, and what was taken and freed again.
//!
//! ```text
//!   asked          taken 100 + program 8 + holes 4                 = 112 there
//!   later, freed 30 meanwhile
//!     at most      taken 110 + program 8 + holes 4 + 30            = 152 there
//!     limit 192    let in, and nobody asks
//!   later, freed 65 meanwhile
//!     at most      taken 120 + program 8 + holes 4 + 65            = 197 there
//!     limit 192    asked: 130 there; let in, and holes are 2 from here on
//! ```
//!
//! Whoever wants to grow asks, on its own thread and for the price of one system call
//! ([`crate::Engine::ask_resident`]), when what is there at most comes within a margin of
//! the limit ([`budget::MARGIN`]); and is let in or refused by the answer. So far from the limit
//! nobody asks, near it every growing write does, and no clock is involved. Below three
//! quarters of the limit even the sum is not made: the holes that count cannot reach it.
//!
//! What the sum does not see is smaller than the margin: a batch of each thread's counts;
//! a buffer that was allocated before the kernel was asked and filled after; the rest of
//! a page, or of a huge page, of which a first part was used. And the kernel's answer is
//! itself a sum of counters of each core, right to some pages a core.
//!
//! Where the program's allocator does not count ([`coeval_memory::heap`]), used is the
//! sum of the first five, which the sweeper brings up to date, and every so many writes.
//!
//! # Holes
//!
//! What the allocator has and has not given out counts up to a quarter of the limit
//! ([`budget::HOLES_COUNTED`]). A table that only grows leaves fewer holes than that, so growth
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

pub(crate) mod budget;

use std::sync::atomic::Ordering;

use coeval_memory::heap;
use coeval_txn::Error;
use coeval_types::Timestamp;

use crate::shared::Shared;
pub use budget::{Budget, MemoryAccounts};

/// After so many growing writes of a transaction object the accounts are added up
/// anew, where the allocator does not count.
const WRITES_BETWEEN_SUMS: u32 = 64;

/// What is left of the limit, the reserve included: for what goes on at it.
pub(crate) fn spare(shared: &Shared) -> u64 {
    let memory = &shared.memory;
    match memory.budget.limit {
        u64::MAX => u64::MAX,
        limit => limit.saturating_sub(memory.taken() + memory.counted(memory.holes_now())),
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
    memory.is_tight(0) || old_versions > memory.budget.old_versions / 2
}

/// Refuses growth by so many bytes when the budget is used up. `writes` counts the
/// caller's writes.
#[inline]
pub(crate) fn check_growth(shared: &Shared, bytes: usize, writes: &mut u32) -> Result<(), Error> {
    let memory = &shared.memory;
    if memory.budget.limit == u64::MAX {
        return Ok(());
    }
    *writes = writes.wrapping_add(1);
    if writes.is_multiple_of(WRITES_BETWEEN_SUMS) && heap::bytes().is_none() {
        accounts(shared);
    }
    if !memory.is_tight(bytes as u64) {
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
    accounts.allocator = memory.holes.load(Ordering::Relaxed);
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
