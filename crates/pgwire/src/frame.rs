//! Message framing: a type byte, a length that counts itself, contents.
//!
//! ```text
//!   +------+-----------------+----------------------+
//!   | type | length, 4 bytes | length - 4 bytes     |
//!   +------+-----------------+----------------------+
//! ```

use crate::{Error, Limits};

/// The types of messages that clients send.
pub mod kind {
    /// Query: one or more statements as text.
    pub const QUERY: u8 = b'Q';
    /// Parse: a statement to prepare.
    pub const PARSE: u8 = b'P';
    /// Bind: parameter values for a prepared statement.
    pub const BIND: u8 = b'B';
    /// Execute: requests the rows of a portal.
    pub const EXECUTE: u8 = b'E';
    /// Describe: requests the parameter and column types of a statement or portal.
    pub const DESCRIBE: u8 = b'D';
    /// Close: drops a prepared statement or a portal.
    pub const CLOSE: u8 = b'C';
    /// Flush: requests the answers produced so far.
    pub const FLUSH: u8 = b'H';
    /// Sync: ends a series of messages, and with it an implicit transaction.
    pub const SYNC: u8 = b'S';
    /// Terminate: ends the session.
    pub const TERMINATE: u8 = b'X';
    /// CopyData: a piece of COPY data.
    pub const COPY_DATA: u8 = b'd';
    /// CopyDone: the end of the COPY data.
    pub const COPY_DONE: u8 = b'c';
    /// CopyFail: the client aborts a COPY.
    pub const COPY_FAIL: u8 = b'f';
    /// The answer to an authentication request.
    pub const PASSWORD: u8 = b'p';
    /// FunctionCall: a legacy call by function number; known so that it can be refused.
    pub const FUNCTION_CALL: u8 = b'F';
    /// A message between the nodes of a cluster, which PostgreSQL does not have.
    pub const BETWEEN_NODES: u8 = b'!';
}

/// Bytes before the contents: type and length.
pub const HEADER: usize = 5;

/// A delimited message whose contents have not been decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'buffer> {
    /// The message type, one of [`kind`].
    pub kind: u8,
    /// The bytes after the length.
    pub contents: &'buffer [u8],
}

/// The length of the message at the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Length of the message in bytes, header included. The buffer may not hold all of
    /// them.
    Message(usize),
    /// The buffer holds too few bytes to determine the length.
    Unknown,
}

/// Measures the message at the start of `bytes`. Rejects an unknown type with the first
/// byte, an invalid length with the fifth.
pub fn measure(bytes: &[u8], limits: &Limits) -> Result<Measure, Error> {
    let Some(&kind) = bytes.first() else {
        return Ok(Measure::Unknown);
    };
    let Some(limit) = limits.of(kind) else {
        return Err(Error::UnknownType(kind));
    };
    let Some(length) = bytes.get(1..).and_then(|rest| rest.first_chunk::<4>()) else {
        return Ok(Measure::Unknown);
    };
    let length = i32::from_be_bytes(*length);
    let size = usize::try_from(length).map_err(|_| Error::Length { kind, length })?;
    if size < 4 {
        return Err(Error::Length { kind, length });
    }
    if size > limit {
        return Err(Error::TooLong {
            kind,
            length: size,
            limit,
        });
    }
    Ok(Measure::Message(1 + size))
}

/// The message at the start of `bytes`, if it is complete.
pub fn cut<'buffer>(
    bytes: &'buffer [u8],
    limits: &Limits,
) -> Result<Option<Frame<'buffer>>, Error> {
    let Measure::Message(size) = measure(bytes, limits)? else {
        return Ok(None);
    };
    Ok(bytes.get(..size).map(|message| Frame {
        kind: message[0],
        contents: &message[HEADER..],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        long_message: 1000,
        short_message: 100,
        node_message: None,
    };

    #[test]
    fn one_message_and_no_more() {
        let frame = cut(b"S\0\0\0\x04Q\0\0", &LIMITS).unwrap().unwrap();
        assert_eq!((frame.kind, frame.contents), (kind::SYNC, &b""[..]));
    }

    #[test]
    fn waits_for_the_rest() {
        assert_eq!(cut(b"Q\0\0\0\x06a", &LIMITS), Ok(None));
        assert_eq!(cut(b"Q\0\0", &LIMITS), Ok(None));
        assert_eq!(cut(b"", &LIMITS), Ok(None));
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_the_contents_arrive() {
        for length in [0, 3, -1, i32::MIN] {
            let mut bytes = vec![b'Q'];
            bytes.extend(length.to_be_bytes());
            let refused = Error::Length { kind: b'Q', length };
            assert_eq!(cut(&bytes, &LIMITS), Err(refused));
        }
        for (kind, limit) in [(b'Q', 1000), (b'E', 100)] {
            let mut bytes = vec![kind];
            bytes.extend((limit as i32 + 1).to_be_bytes());
            let refused = Error::TooLong {
                kind,
                length: limit + 1,
                limit,
            };
            assert_eq!(cut(&bytes, &LIMITS), Err(refused));
        }
    }

    #[test]
    fn types_that_do_not_exist_are_refused_at_once() {
        assert_eq!(cut(b"G", &LIMITS), Err(Error::UnknownType(b'G')));
    }
}
