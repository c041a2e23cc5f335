//! The optimistic concurrency control engine of one node: MVCC transactions that validate
//! their reads at commit, and wait in lock queues where SQL users expect a writer to
//! wait.
//!
//! # The steps of a transaction
//!
//! ```text
//!   begin     snapshot = end of the installed prefix, registered
//!   read      the record's version at the snapshot; own writes first
//!             SERIALIZABLE: note (record, cts), or a predicate for a range or an
//!             absent key
//!   write     lock the record, put a private version beside the committed one
//!   commit    register the written keys in their logical ranges
//!             be assigned the commit timestamp = log offset
//!             SERIALIZABLE: has anything read changed between snapshot and now?
//!             copy to the log, install, free the locks
//! ```
//!
//! # Why it is serializable
//!
//! A transaction T with snapshot *s* and commit timestamp *c* read the state of *s*.
//! Validation shows that nothing T read changed in (*s*, *c*), so T read the state just
//! before *c*, as if it had run alone at that point. T's writes are the newest versions
//! at *c* because T holds their locks. So committed transactions behave as in a serial
//! run in the order of their timestamps. The case to exclude is a writer W with *s* <
//! *c*(W) < *c* that T does not notice. W locked its records and registered its keys
//! before it was assigned its timestamp; T validates after it was assigned its own. W's
//! timestamp was assigned before T's, so T's validation finds W's lock, W's registration,
//! or the version W installed (the fences are argued in [`ranges::ring`] and
//! [`active_transactions`]).
//!
//! Writers of every isolation level lock and register alike, or a concurrent serializable
//! transaction would not be protected from them.
//!
//! # The modules
//!
//! - [`shared`]: the state that all transactions of an engine share.
//! - [`transaction`]: the calls of the transaction contract.
//! - [`reading`]: the read path, over a storage at a snapshot.
//! - [`validation`]: the validators that check scans at commit.
//! - [`ranges`]: logical ranges, registrations, predicates.
//! - [`locks`]: lock queues, key locks, table locks, the wait-for graph.
//! - [`active_transactions`]: the table of active transactions and their commit phases.
//! - [`conflicts`]: conflict counters by table, index and reason.
//! - [`statistics`]: counters and gauges.
//! - [`storage`]: a table's records and indexes together.
//! - [`displaced`]: records with a key to which a follower's primary index does not lead.
//! - [`garbage_collector`]: the background garbage collector.
//! - [`memory`]: the memory budget, and which transactions fail when it is used up.
//! - [`checkpointer`]: when checkpoints are taken, and the walk through the tables.
//! - [`backup`]: online backups, streamed while transactions run.
//! - [`table_recovery`]: rows restored from a checkpoint and the log.
//! - [`following`]: a follower's tables, replayed as the log grows, until the node leads.
//! - [`building`]: bulk building of indexes from existing rows.
//!
//! Sources: ROCC (chapter 3 of the thesis) for ranges, predicates and the order of
//! the commit; EMS (chapter 2) for records. Departures are in `docs/decisions`.

mod active_transactions;
mod backup;
mod building;
mod checkpointer;
mod checkpoints;
mod committers;
mod conflicts;
mod displaced;
mod engine;
mod following;
mod garbage_collector;
mod locks;
mod memory;
#[cfg(feature = "planted")]
mod planted;
mod pool;
mod ranges;
mod reading;
mod settings;
mod shared;
mod statistics;
mod storage;
mod table_recovery;
mod transaction;
mod validation;

pub use checkpoints::CheckpointStatus;
pub use coeval_log::{Checkpoint, Error as OpenError, RecoveryProgress, RecoverySummary};
pub use engine::Engine;
pub use following::{
    FollowedTables, FollowedView, FollowerEngine, Leadership, Marks, Questions, Reached, Sending,
};
pub use memory::{Budget, MemoryAccounts};
pub use settings::Settings;
pub use statistics::{AbortCause, Statistics};
#[cfg(feature = "comparators")]
pub use validation::comparators;
pub use validation::{Validations, Validator};
