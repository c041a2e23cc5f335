//! Encoders on the hot path: answers sent once per statement.

use bytes::BufMut;

/// Transaction state of a session, as ReadyForQuery reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// The session is outside a transaction.
    Idle,
    /// The session is in a transaction.
    Transaction,
    /// The session is in a failed transaction, which the client must roll back.
    Failed,
}

/// Appends ParseComplete: the statement is prepared.
pub fn parse_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"1\0\0\0\x04");
}

/// Appends BindComplete: the portal is created.
pub fn bind_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"2\0\0\0\x04");
}

/// Appends CloseComplete: the statement or portal is dropped.
pub fn close_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"3\0\0\0\x04");
}

/// Appends NoData: the statement returns no rows.
pub fn no_data(out: &mut Vec<u8>) {
    out.extend_from_slice(b"n\0\0\0\x04");
}

/// Appends PortalSuspended: Execute's row limit was reached.
pub fn portal_suspended(out: &mut Vec<u8>) {
    out.extend_from_slice(b"s\0\0\0\x04");
}

/// Appends EmptyQueryResponse: the query string contained no statement.
pub fn empty_query_response(out: &mut Vec<u8>) {
    out.extend_from_slice(b"I\0\0\0\x04");
}

/// Appends CopyDone: the COPY data sent to the client ends.
pub fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"c\0\0\0\x04");
}

/// Appends CommandComplete; the tag names the statement and its number of rows.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    let length = i32::try_from(4 + tag.len() + 1).unwrap_or(i32::MAX);
    debug_assert!(!tag.as_bytes().contains(&0));
    out.reserve(1 + 4 + tag.len() + 1);
    out.put_u8(b'C');
    out.put_i32(length);
    out.put_slice(tag.as_bytes());
    out.put_u8(0);
}

/// Appends ReadyForQuery: the client may send the next series of messages.
pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    let status = match status {
        TransactionStatus::Idle => b'I',
        TransactionStatus::Transaction => b'T',
        TransactionStatus::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}
