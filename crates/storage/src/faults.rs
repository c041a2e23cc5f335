//! Faults that tests put back, to show that their checkers find them. Only in
//! builds for a checker.

use std::sync::atomic::AtomicBool;

/// Readers leave out the second look at a region's cts: see [`crate::record`].
pub static TORN_READS: AtomicBool = AtomicBool::new(false);
