//! Marks of messages in pieces of their own, or among the changes of a session
//! ([`coeval_txn::MarkedMessages`]). They are no part of the handover state: a session on
//! another leader has taken none.

use coeval_types::Timestamp;

use super::Writer;
use super::encoding::{self, Record};

/// The piece that is a mark, for the leader.
#[must_use]
pub fn mark(mark: u64) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.mark(mark);
    writer.finish().concat()
}

/// The mark that this piece is, if it is nothing else.
#[must_use]
pub fn mark_of(piece: &[u8]) -> Option<u64> {
    let mut records = encoding::records(piece).ok()?;
    match (records.next()?, records.next()) {
        (Ok(Record::Mark(mark)), None) => Some(mark),
        _ => None,
    }
}

/// The commit that the leader tells in this piece, with the mark after which it was made.
#[must_use]
pub fn marked_commit(piece: &[u8]) -> Option<(u64, Timestamp)> {
    let records = encoding::records(piece).ok()?;
    let marked = records.filter_map(|record| match record {
        Ok(Record::Marked { mark, commit }) => Some((mark, commit)),
        _ => None,
    });
    marked.last()
}
