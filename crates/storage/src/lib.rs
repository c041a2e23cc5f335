//! The storage engine: multi-version records in tables, registered snapshots, ordered
//! indexes.
//!
//! - [`record`]: the versions of one row, in a cache line and a list. Start here.
//! - [`table`]: a growing array of records, addressed by RID.
//! - [`snapshots`]: the timestamps at which transactions read, and which versions have
//!   expired.
//! - [`collector`]: removal of index entries together with the versions that had them.
//! - [`index`]: a concurrent map from byte strings to RIDs, in key order.
//! - [`value`]: a row behind a thin pointer.
//! - [`usage`]: memory accounting of tables.
//! - `chain`, with the feature `comparators`: lists of versions, for measurements of other
//!   designs of version storage.
//!
//! This crate knows a transaction only as a number that holds locks, the log only as two
//! timestamps, and no columns.
//!
//! # Tests
//!
//! ```text
//! cargo test -p coeval-storage
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p coeval-storage --tests
//! RUSTFLAGS="--cfg shuttle" cargo test --target-dir target/shuttle -p coeval-storage --tests
//! PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p coeval-storage \
//!     --lib --test it
//! ```
//!
//! Model tests compare a record with a plain list of versions, and an index with a plain
//! map, in random histories; stress tests run threads of every kind at once; loom and
//! shuttle check the races of a record, each with an injected fault that they must find.

#[cfg(feature = "comparators")]
pub mod chain;
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
pub use table::{
    FollowedRecord, RecordRef, RecoveringRecord, RecoveringTable, SweepProgress, Table,
};
pub use usage::Memory;
pub use value::Value;
