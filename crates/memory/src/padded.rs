//! Cache-line padding: keeps a value alone on a pair of cache lines, against false sharing.

use std::ops::Deref;

/// A value alone on its cache lines. Aligned to 128 bytes, because processors fetch lines
/// in pairs: values on two adjacent lines would still suffer false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
