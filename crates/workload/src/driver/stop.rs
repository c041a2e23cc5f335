//! A word from outside that a run is to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a run before its time: clients end what they have begun, and then everything
/// goes on as at any other end. Clones are of the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends it.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
