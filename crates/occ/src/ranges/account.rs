//! How much memory the ranges of one space take.
//!
//! Ranges come and go while commits hold some of them, so each adds itself and takes
//! itself away again: what stands here is right at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes, added up by all ranges of a space.
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
