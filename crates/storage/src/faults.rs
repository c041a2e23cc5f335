//! Faults that tests put back, to show that their checkers find them. Only in
//! builds for a checker.

use coeval_memory::sync::Fault;

/// Readers leave out the second look at a region's cts: see [`crate::record`].
pub static TORN_READS: Fault = Fault::new();

/// Registering leaves out the second look at the installed prefix: see
/// [`crate::snapshots`].
pub static REGISTERED_BLINDLY: Fault = Fault::new();

/// A secondary version is made invalid without being put into the list first: see
/// [`crate::record`], invariant 3.
pub static LATE_APPEND: Fault = Fault::new();

/// A reader looks whether its snapshot was ended before it reads, and not after: see
/// [`crate::snapshots`].
pub static ENDED_LOOKED_AT_EARLY: Fault = Fault::new();

/// Readers of the index tell what they have read without looking at the version again:
/// see [`crate::index::tree`], invariant 2.
pub static UNVALIDATED: Fault = Fault::new();

/// Going down, they do not look again whether the child is still what its parent says:
/// see `index/tree/search.rs`.
pub static ENTERED_BLINDLY: Fault = Fault::new();

/// Writers of the index may write before others see that they hold the latch: see
/// `index/tree/latch.rs`.
pub static UNFENCED: Fault = Fault::new();
