//! The answers of which every statement gets one.

use bytes::BufMut;

/// Where a session stands between two series of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// In no transaction.
    Idle,
    /// In a transaction.
    Transaction,
    /// In a transaction that failed and waits to be rolled back.
    Failed,
}

/// Parse succeeded.
pub fn parse_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"1\0\0\0\x04");
}

/// Bind succeeded.
pub fn bind_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"2\0\0\0\x04");
}

/// Close succeeded.
pub fn close_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"3\0\0\0\x04");
}

/// The statement gives no rows.
pub fn no_data(out: &mut Vec<u8>) {
    out.extend_from_slice(b"n\0\0\0\x04");
}

/// The row limit of Execute was reached.
pub fn portal_suspended(out: &mut Vec<u8>) {
    out.extend_from_slice(b"s\0\0\0\x04");
}

/// There was nothing to run.
pub fn empty_query_response(out: &mut Vec<u8>) {
    out.extend_from_slice(b"I\0\0\0\x04");
}

/// The data of a COPY to the client ends.
pub fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"c\0\0\0\x04");
}

/// A statement is done; the tag says which, and how many rows.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    let length = i32::try_from(4 + tag.len() + 1).unwrap_or(i32::MAX);
    debug_assert!(!tag.as_bytes().contains(&0));
    out.reserve(1 + 4 + tag.len() + 1);
    out.put_u8(b'C');
    out.put_i32(length);
    out.put_slice(tag.as_bytes());
    out.put_u8(0);
}

/// The next series of messages may come.
pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    let status = match status {
        TransactionStatus::Idle => b'I',
        TransactionStatus::Transaction => b'T',
        TransactionStatus::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}
