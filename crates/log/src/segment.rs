//! Segment files.

/// Bytes of a segment file before the stream's.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 4096;
