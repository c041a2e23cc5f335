//! A stop handle, through which a caller ends a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a run early: clients finish the transactions they have begun, and the run ends as
/// usual. Clones refer to the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end of the run.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the end of the run was requested.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
