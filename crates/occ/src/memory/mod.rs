//! The memory budget: accounts of memory, admission of growth, and the transactions that
//! fail at the limit.
//!
//! ```text
//!   0 ───────────────────────────────── limit − reserve ──────── limit
//!     all requests are admitted        │ growth: 53200          │ updates: 53200
//!                                      │ deletes, reads, updates that make no row
//!                                      │ longer and move no key: admitted
//! ```
//!
//! # What counts
//!
//! The bytes that an operator pays for: everything that the process occupies.
//!
//! | account | counted |
//! | --- | --- |
//! | rows | the newest committed version of each row, and uncommitted ones |
//! | old versions | versions that only older snapshots see, and their list nodes |
//! | records | headers, a cache line for each row and each deleted row |
//! | indexes | the nodes of their trees, keys that are too long for a node, and logical ranges with their rings |
//! | log | the window of the log that is on its way to the disk |
//! | rest | sessions, statements, the catalog, and all other allocations: the allocator's count less the above |
//! | allocator | resident bytes of the allocator's arenas that are not allocated |
//! | program | code, its constants and stacks: resident bytes outside the arenas |
//!
//! The kernel tells which pages are resident ([`crate::Engine::set_occupied`]).
//!
//! # Between two measurements
//!
//! The server measures the pages some times a second, and more rarely on a machine short
//! of cores. Growth must not pass the limit meanwhile, so it is admitted by accounts, not
//! by time. The allocated bytes are known at any moment. The other resident bytes, the
//! holes, cannot have grown by more than what was freed since the kernel was last asked
//! ([`heap::freed`]): a page that was not resident before has been allocated from since,
//! and its bytes are either still allocated or were freed again.
//!
//! ```text
//!   asked          taken 100 + program 8 + holes 4                 = 112 resident
//!   later, freed 30 meanwhile
//!     at most      taken 110 + program 8 + holes 4 + 30            = 152 resident
//!     limit 192    admitted without asking
//!   later, freed 65 meanwhile
//!     at most      taken 120 + program 8 + holes 4 + 65            = 197 resident
//!     limit 192    asked: 130 resident; admitted, and holes are 2 from here on
//! ```
//!
//! A transaction that wants to grow asks the kernel, on its own thread and for the price
//! of one system call ([`crate::Engine::ask_resident`]), when the upper bound comes
//! within a margin of the limit ([`budget::MARGIN`]); the answer decides whether it is
//! admitted. So far from the limit no transaction asks, near it every growing write does,
//! and no clock is involved. Below three quarters of the limit even the sum is not
//! computed: the holes that count cannot reach it.
//!
//! The error of the sum is smaller than the margin: a batch of each thread's counts; a
//! buffer that was allocated before the kernel was asked and filled after; the rest of a
//! page, or of a huge page, of which a first part was used. And the kernel's answer is
//! itself a sum of per-core counters, exact to some pages a core.
//!
//! Where the program's allocator does not count ([`coeval_memory::heap`]), the used bytes
//! are the sum of the first five accounts, which the garbage collector updates, and a
//! writer every [`WRITES_BETWEEN_SUMS`] growing writes.
//!
//! # Holes
//!
//! Bytes that the allocator holds and has not allocated count up to a quarter of the
//! limit ([`budget::HOLES_COUNTED`]). A table that only grows leaves fewer holes than
//! that, so growth ends when the resident bytes reach the limit. After a delete the
//! allocator holds the same bytes, in holes that the next rows fit into: if they counted
//! in full, they would keep out the very rows that fit. So rows are admitted again at
//! once. Allocations of other sizes, which do not fit, can then take the process past its
//! limit, by the size of the holes beyond a quarter; that is the price of not moving
//! data.
//!
//! # Which transactions fail
//!
//! A follower has readers and replay only. Replay is never refused, so all that gives way
//! there is the oldest reader, and statements that ask for memory
//! ([`crate::FollowerEngine::with_budget`]). The oldest reader also ends when the process is
//! above its limit and what readers hold is a notable part of that.
//!
//! Old versions are collected as soon as no snapshot can see them, also those between two
//! snapshots; so a row that is updated all the time while one long transaction reads has
//! three versions, not one for each update. Versions that a snapshot holds are counted.
//! When they exceed their share of the limit, the garbage collector *ends* the oldest
//! snapshot: its transaction fails with 72000 at its next read, and the versions that
//! only it could see are collected. Writes cut a read short in no other way. The
//! collector never ends a snapshot that is younger than the last whole round, because
//! that round has not measured what it holds.
//!
//! An update that makes no row longer still needs memory until its transaction has ended:
//! the version it replaces stays, and with savepoints a copy for each. When the reserve
//! is used up, the update is refused as well. So no transaction takes the process past
//! its limit by updating everything again and again.
//!
//! Deletes need memory before they free any: list nodes, their transaction's notes, log
//! entries. The reserve is for them. A delete of very many rows at once may take more
//! than the reserve; it is not refused for that.

pub(crate) mod budget;

use std::sync::atomic::Ordering;

use coeval_memory::heap;
use coeval_storage::{Snapshots, Table};
use coeval_txn::Error;
use coeval_types::Timestamp;

use crate::shared::Shared;
pub(crate) use budget::Memory;
pub use budget::{Budget, MemoryAccounts};

/// Growing writes of a transaction object after which the accounts are added up anew,
/// where the allocator does not count.
const WRITES_BETWEEN_SUMS: u32 = 64;

/// Bytes left of the limit, including the reserve.
pub(crate) fn spare(memory: &Memory) -> u64 {
    match memory.budget.limit {
        u64::MAX => u64::MAX,
        limit => limit.saturating_sub(memory.taken() + memory.counted(memory.holes_now())),
    }
}

/// Whether the garbage collector should run without pauses: the budget is nearly used up,
/// or old versions take half of their share.
pub(crate) fn is_short(shared: &Shared) -> bool {
    let memory = &shared.memory;
    if memory.budget.limit == u64::MAX && memory.budget.old_versions == u64::MAX {
        return false;
    }
    let old_versions = accounts(shared).old_versions;
    memory.is_tight(0) || old_versions > memory.budget.old_versions / 2
}

/// Refuses growth by `bytes` when the budget is used up. `writes` counts the caller's
/// growing writes.
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

/// Refuses an update when the reserve is used up as well: the version it replaces stays
/// until its transaction, or the savepoint before it, has ended.
#[inline]
pub(crate) fn check_reserve(shared: &Shared) -> Result<(), Error> {
    let memory = &shared.memory;
    if !memory.is_exhausted() {
        return Ok(());
    }
    memory.refused.fetch_add(1, Ordering::Relaxed);
    Err(Error::OutOfMemory)
}

/// Adds up the accounts.
pub(crate) fn accounts(shared: &Shared) -> MemoryAccounts {
    let log = shared.log.window_bytes();
    let storages = shared.storages.read().expect("no panic while it was held");
    let tables = storages.values();
    let tables = tables.map(|storage| (&storage.records, storage.index_bytes()));
    add_up(&shared.memory, log, tables)
}

/// Adds up the accounts of these tables, each with the bytes of its indexes.
pub(crate) fn add_up<'a>(
    memory: &Memory,
    log: u64,
    tables: impl Iterator<Item = (&'a Table, u64)>,
) -> MemoryAccounts {
    let mut accounts = MemoryAccounts {
        limit: memory.budget.limit,
        log,
        refused: memory.refused.load(Ordering::Relaxed),
        ended_snapshots: memory.ended_snapshots.load(Ordering::Relaxed),
        ..MemoryAccounts::default()
    };
    for (table, indexes) in tables {
        let table = table.memory();
        accounts.rows += table.values.saturating_sub(table.old_values);
        accounts.old_versions += table.old_values + table.version_lists;
        accounts.records += table.records;
        accounts.indexes += indexes;
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

/// Ends the oldest snapshot if old versions take more than their share. `since` is the
/// begin of the garbage collection round that has just finished: older snapshots hold the
/// versions that it left.
pub(crate) fn end_oldest(shared: &Shared, since: Timestamp) {
    let memory = &shared.memory;
    if accounts(shared).old_versions <= memory.budget.old_versions {
        return;
    }
    end_oldest_of(memory, &shared.snapshots, since, &[]);
}

/// Whether a follower's old versions, which take this many bytes, are too much: more than
/// their share, or a notable part of the limit when the process is above it.
pub(crate) fn is_old_too_much(memory: &Memory, old_versions: u64) -> bool {
    let notable = memory.budget.limit / budget::MARGIN;
    old_versions > memory.budget.old_versions || (memory.is_exhausted() && old_versions > notable)
}

/// Ends the oldest snapshot but those with the timestamps `spared`, if it is older than
/// `since`.
pub(crate) fn end_oldest_of(
    memory: &Memory,
    snapshots: &Snapshots,
    since: Timestamp,
    spared: &[Timestamp],
) {
    if let Some(ended) = snapshots.end_oldest_but(since, spared) {
        memory.ended_snapshots.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            snapshot = %ended,
            "old versions take more than their share of memory: the oldest snapshot ends"
        );
    }
}
