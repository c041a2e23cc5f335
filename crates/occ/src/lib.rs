//! Transactions on one node: optimistic where it pays, locks where users expect
//! them to wait.
//!
//! # One transaction's way
//!
//! ```text
//!   begin     snapshot = end of the installed prefix, registered
//!   read      the record's version at the snapshot; own writes first
//!             SERIALIZABLE: note (record, cts), or a predicate for a range or an
//!             absent key
//!   write     lock the record, put a private version beside the committed one
//!   commit    register the written keys in their logical ranges
//!             draw the commit timestamp = place in the log
//!             SERIALIZABLE: has anything read changed between snapshot and now?
//!             copy to the log, install, free the locks
//! ```
//!
//! # Why it is serializable
//!
//! A transaction T with snapshot *s* and commit timestamp *c* read the state of
//! *s*. Validation shows that nothing it read changed in (*s*, *c*), so it read the
//! state just before *c*, as if it had run alone there. Its writes are the newest
//! versions at *c* because it holds their locks. So committed transactions behave
//! as in a run one after another in the order of their timestamps. What could slip
//! through is a writer W with *s* < *c*(W) < *c* that T does not notice. W locked
//! its records and registered its keys before it drew; T looks after it drew. W's
//! draw came before T's, so T's look finds W's lock, its registration, or its
//! installed version (the fences are argued in [`ranges::ring`] and [`running`]).
//!
//! Writers of every level lock and register alike, or a serializable transaction
//! beside them would not be protected.
//!
//! # The rooms
//!
//! - [`shared`]: what all transactions of an engine share.
//! - [`transaction`]: the calls of the contract.
//! - [`validation`]: how a scan is found to hold.
//! - [`ranges`]: logical ranges, registrations, predicates.
//! - [`locks`]: queues, keys, tables, the wait-for graph.
//! - [`running`]: who has drawn a timestamp.
//! - [`conflicts`]: who had to give way, and why, for people.
//! - [`statistics`]: what is counted.
//! - [`storage`]: a table's records and indexes together.
//! - [`sweeper`]: garbage, and what was dropped.
//! - [`memory`]: the budget, and who gives way at its end.
//! - [`checkpointer`]: checkpoints, when and of what.
//! - [`backup`]: a copy of it all, sent while it changes.
//! - [`recovery`]: rows back from a checkpoint and the log.
//! - [`following`]: the same as the log grows, until the node leads.
//! - [`building`]: indexes of rows that are there.
//!
//! Sources: ROCC (chapter 3 of the thesis) for ranges, predicates and the order of
//! the commit; EMS (chapter 2) for records. Departures are in `docs/decisions`.

mod backup;
mod building;
mod checkpointer;
mod checkpoints;
mod committers;
mod conflicts;
mod engine;
mod following;
mod locks;
mod memory;
#[cfg(feature = "planted")]
mod planted;
mod pool;
mod ranges;
mod recovery;
mod running;
mod settings;
mod shared;
mod statistics;
mod storage;
mod sweeper;
mod transaction;
mod validation;

pub use checkpoints::CheckpointStatus;
pub use coeval_log::{Checkpoint, Error as OpenError, RecoveryProgress, RecoverySummary};
pub use engine::Engine;
pub use following::{FollowedTables, FollowedView, Leadership};
pub use memory::{Budget, MemoryAccounts};
pub use settings::Settings;
pub use statistics::{AbortCause, Statistics};
#[cfg(feature = "comparators")]
pub use validation::comparators;
pub use validation::{Validations, Validator};
