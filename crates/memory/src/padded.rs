//! One value to a pair of cache lines.

use std::ops::Deref;

/// A value alone on its cache lines. 128 bytes, because processors fetch lines in
/// pairs: two values on neighbouring lines would still disturb each other.
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
