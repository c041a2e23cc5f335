//! Memory accounting for the logical ranges of one key space.
//!
//! Ranges are created and dropped while commits still hold some of them, so each range
//! adds its size when it is created and subtracts it when it is dropped: the sum is exact
//! at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes taken by all ranges of a space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account(Arc<AtomicUsize>);

impl Account {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
