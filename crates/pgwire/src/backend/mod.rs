//! What a server answers, written straight into the output buffer.
//!
//! [`hot`] and [`row`] hold what is sent for every statement and every row; their
//! functions write a few constant bytes or fill a length in afterwards, and cannot
//! fail but for a row too long for the protocol. [`cold`] holds the rest, by way of
//! the pgwire library's message types.

pub mod cold;
pub mod hot;
mod row;

pub use row::RowWriter;

/// The longest message we send, in bytes: what PostgreSQL and its clients can hold
/// in one piece.
pub const LONGEST: usize = (1 << 30) - 1;
