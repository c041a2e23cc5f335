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
