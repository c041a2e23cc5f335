//! Injected faults: tests enable one to prove that loom and shuttle find it. Only in builds
//! for a checker.

use coeval_memory::sync::Fault;

/// Readers skip the second load of a region's cts: see [`crate::record`].
pub static TORN_READS: Fault = Fault::new();

/// Registering a snapshot skips the second load of the installed prefix: see
/// [`crate::snapshots`].
pub static REGISTERED_BLINDLY: Fault = Fault::new();

/// A writer invalidates the secondary version without appending it to the list first: see
/// [`crate::record`], invariant 3.
pub static LATE_APPEND: Fault = Fault::new();

/// A reader checks whether its snapshot was ended before it reads, and not after: see
/// [`crate::snapshots`].
pub static ENDED_LOOKED_AT_EARLY: Fault = Fault::new();

/// Index readers return results without validating the version: see [`crate::index::tree`],
/// invariant 2.
pub static UNVALIDATED: Fault = Fault::new();

/// Index readers descend without validating that the child still belongs to its parent: see
/// `index/tree/search.rs`.
pub static ENTERED_BLINDLY: Fault = Fault::new();

/// Index writers may write before other threads see that they hold the latch: see
/// `index/tree/latch.rs`.
pub static UNFENCED: Fault = Fault::new();
