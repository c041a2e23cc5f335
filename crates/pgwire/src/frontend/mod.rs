//! Frontend messages: decodes a client's messages in place, without copying or allocating.
//!
//! [`Message::decode`] checks the whole message, so that the iterators over its parts, for
//! example [`Bind::parameters`], cannot fail later.

mod bind;
mod sasl;

pub use bind::{Bind, Format, FormatCodes, Parameter, Parameters};
pub use sasl::SaslInitial;

use crate::Error;
use crate::frame::{Frame, kind};
use crate::reader::{self, Reader};

/// The kind of object that Describe and Close refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescribeTarget {
    /// A prepared statement.
    Statement,
    /// A portal: a prepared statement with its parameter values.
    Portal,
}

/// The Parse message, which prepares a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'buffer> {
    /// Name of the prepared statement; empty for the unnamed one.
    pub statement: &'buffer str,
    /// Text of the statement.
    pub query: &'buffer str,
    /// The types of the first parameters, four bytes each.
    types: &'buffer [u8],
}

impl<'buffer> Parse<'buffer> {
    /// The type OIDs that the client gives for the first parameters; 0 leaves the type to
    /// the server.
    pub fn parameter_types(&self) -> impl ExactSizeIterator<Item = u32> + use<'buffer> {
        let (types, _) = self.types.as_chunks();
        types.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// A decoded and checked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'buffer> {
    /// Statements as text, to be run at once.
    Query(&'buffer str),
    /// A statement to prepare.
    Parse(Parse<'buffer>),
    /// Parameter values for a prepared statement.
    Bind(Bind<'buffer>),
    /// A request for the parameter and column types of a statement or portal.
    Describe(DescribeTarget, &'buffer str),
    /// A request to run a portal.
    Execute {
        /// Name of the portal; empty for the unnamed one.
        portal: &'buffer str,
        /// The number of rows after which to suspend the portal; `None` for all rows.
        max_rows: Option<u32>,
    },
    /// A request to drop a prepared statement or a portal.
    Close(DescribeTarget, &'buffer str),
    /// A request to send the answers produced so far.
    Flush,
    /// The end of a series of messages.
    Sync,
    /// A piece of COPY data: any bytes, cut anywhere.
    CopyData(&'buffer [u8]),
    /// The end of the COPY data.
    CopyDone,
    /// The client aborts a COPY, for this reason.
    CopyFail(&'buffer str),
    /// The answer to an authentication request.
    Password(&'buffer [u8]),
    /// A call by function number, which the server does not support.
    FunctionCall,
    /// The client ends the session.
    Terminate,
}

impl<'buffer> Message<'buffer> {
    /// Decodes one message.
    #[inline]
    pub fn decode(frame: Frame<'buffer>) -> Result<Self, Error> {
        let mut reader = Reader::new(frame.kind, frame.contents);
        let message = match frame.kind {
            kind::BIND => Self::Bind(Bind::read(&mut reader)?),
            kind::EXECUTE => Self::Execute {
                portal: reader.string()?,
                max_rows: match reader.i32()? {
                    ..=0 => None,
                    limit => Some(limit.unsigned_abs()),
                },
            },
            kind::SYNC => Self::Sync,
            kind::PARSE => {
                let statement = reader.string()?;
                let query = reader.string()?;
                let count = reader.count()?;
                let types = reader.bytes(count * 4)?;
                Self::Parse(Parse {
                    statement,
                    query,
                    types,
                })
            }
            kind::DESCRIBE => Self::Describe(target(&mut reader)?, reader.string()?),
            kind::QUERY => Self::Query(reader.string()?),
            kind::CLOSE => Self::Close(target(&mut reader)?, reader.string()?),
            kind::FLUSH => Self::Flush,
            kind::COPY_DATA => return Ok(Self::CopyData(frame.contents)),
            kind::COPY_DONE => Self::CopyDone,
            kind::COPY_FAIL => Self::CopyFail(reader.string()?),
            kind::TERMINATE => Self::Terminate,
            kind::PASSWORD => return Ok(Self::Password(frame.contents)),
            kind::FUNCTION_CALL => return Ok(Self::FunctionCall),
            other => return Err(Error::UnknownType(other)),
        };
        reader.end()?;
        Ok(message)
    }
}

fn target(reader: &mut Reader<'_>) -> Result<DescribeTarget, Error> {
    match reader.byte()? {
        b'S' => Ok(DescribeTarget::Statement),
        b'P' => Ok(DescribeTarget::Portal),
        other => Err(Error::Subtype(other)),
    }
}

/// Checks that a value is valid text: UTF-8 without a zero byte. For values that do not
/// arrive in text format or in one piece.
pub fn check_text(bytes: &[u8]) -> Result<&str, Error> {
    reader::text(bytes)
}
