//! Storage: versioned records in tables, registered snapshots, ordered indexes.
//!
//! - [`record`]: one row's versions, in a cache line and a list. Start here.
//! - [`table`]: a growing array of records, addressed by RID.
//! - [`snapshots`]: who reads at which timestamp, and which versions have expired.
//! - [`collector`]: how index entries go with the versions that had them.
//! - [`index`]: byte strings in order, each with a RID.
//! - [`value`]: a row behind a thin pointer.
//! - [`usage`]: what all this takes in memory.
//!
//! It does not know what a transaction is beyond a number that holds locks, does
//! not know the log beyond two timestamps, and does not know columns.

pub mod collector;
pub mod index;
pub mod record;
pub mod snapshots;
pub mod table;
pub mod usage;
pub mod value;

#[cfg(any(loom, shuttle))]
pub mod faults;

pub use collector::{Collector, IndexUpkeep, NoIndexes, Remaining};
pub use index::OrderedIndex;
pub use record::{Aborted, ReplayError, Replayed, TryLock, Version};
pub use snapshots::{Expiry, Horizon, Snapshot, Snapshots};
pub use table::{RecordRef, SweepProgress, Table};
pub use usage::Memory;
pub use value::Value;
