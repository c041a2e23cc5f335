//! Storage: versioned records in tables, registered snapshots, ordered indexes.
//!
//! - [`record`]: one row's versions, in a cache line and a list. Start here.
//! - [`table`]: a growing array of records, addressed by RID.
//! - [`snapshots`]: who reads at which timestamp, and which versions have expired.
//! - [`collector`]: how index entries go with the versions that had them.
//! - [`index`]: byte strings in order, each with a RID.
//! - [`value`]: a row behind a thin pointer.
//! - [`usage`]: what all this takes in memory.
//! - `comparators`, with the feature of that name: other ways to keep versions, for
//!   measurements.
//!
//! It does not know what a transaction is beyond a number that holds locks, does
//! not know the log beyond two timestamps, and does not know columns.
//!
//! # How it is checked
//!
//! ```text
//! cargo test -p coeval-storage
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p coeval-storage --tests
//! RUSTFLAGS="--cfg shuttle" cargo test --target-dir target/shuttle -p coeval-storage --tests
//! PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p coeval-storage \
//!     --lib --test it
//! ```
//!
//! A record against a plain list of versions, an index against a plain map, in
//! random histories; threads of every kind at once; and the races of a record
//! under loom and shuttle, each with a fault put back that must be found.

pub mod collector;
#[cfg(feature = "comparators")]
pub mod comparators;
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
pub use table::{
    FollowedRecord, RecordRef, RecoveringRecord, RecoveringTable, SweepProgress, Table,
};
pub use usage::Memory;
pub use value::Value;
