//! Backend messages: encodes the server's answers directly into the output buffer.
//!
//! [`hot`], [`row_description`] and [`RowWriter`] encode the messages of every statement
//! and every row: a few constant bytes, or contents whose length is filled in afterwards.
//! They fail only on messages too long for the protocol. [`cold`] encodes all other
//! messages with the pgwire library's message types.

pub mod cold;
mod description;
pub mod hot;
mod row;

pub use description::{Column, row_description};
pub use row::RowWriter;

use crate::Error;

/// Maximum length of a message to the client, in bytes: what PostgreSQL and its clients can
/// hold in one piece.
pub const LONGEST: usize = (1 << 30) - 1;

/// Fills in the length of the message that begins at `start`, or removes the message if it
/// is too long.
fn finish(out: &mut Vec<u8>, start: usize) -> Result<(), Error> {
    let length = out.len() - start - 1;
    match u32::try_from(length) {
        Ok(sent) if length <= LONGEST => {
            out[start + 1..start + 5].copy_from_slice(&sent.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(Error::Unsendable(length))
        }
    }
}
