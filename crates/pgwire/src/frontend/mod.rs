//! What a client asks for, read in place: nothing is copied or allocated.
//!
//! [`Message::decode`] checks the whole message, so that the iterators over its
//! parts, [`Bind::parameters`] for one, cannot fail later.

mod bind;
mod sasl;

pub use bind::{Bind, Format, FormatCodes, Parameter, Parameters};
pub use sasl::SaslInitial;

use crate::Error;
use crate::frame::{Frame, kind};
use crate::reader::{self, Reader};

/// What Describe and Close are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement,
    /// A portal: a statement with its values.
    Portal,
}

/// Parse: a statement to prepare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'buffer> {
    /// Its name; empty for the unnamed one.
    pub statement: &'buffer str,
    /// Its text.
    pub query: &'buffer str,
    /// The types of its first parameters, four bytes each.
    types: &'buffer [u8],
}

impl<'buffer> Parse<'buffer> {
    /// The types the client gives for the first parameters; 0 leaves it to us.
    pub fn parameter_types(&self) -> impl ExactSizeIterator<Item = u32> + use<'buffer> {
        let (types, _) = self.types.as_chunks();
        types.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// A checked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'buffer> {
    /// Statements as text, to be run at once.
    Query(&'buffer str),
    /// A statement to prepare.
    Parse(Parse<'buffer>),
    /// Values for a prepared statement.
    Bind(Bind<'buffer>),
    /// What does it take, what does it give?
    Describe(Target, &'buffer str),
    /// Run a portal.
    Execute {
        /// Its name; empty for the unnamed one.
        portal: &'buffer str,
        /// After this many rows, stop; `None` for all of them.
        max_rows: Option<u32>,
    },
    /// Forget a statement or a portal.
    Close(Target, &'buffer str),
    /// Send what there is.
    Flush,
    /// The end of a series of messages.
    Sync,
    /// Data of a COPY: any bytes, cut anywhere.
    CopyData(&'buffer [u8]),
    /// The end of a COPY.
    CopyDone,
    /// The client gives up a COPY, for this reason.
    CopyFail(&'buffer str),
    /// An answer to an authentication request.
    Password(&'buffer [u8]),
    /// A call by function number, which we do not offer.
    FunctionCall,
    /// Good-bye.
    Terminate,
}

impl<'buffer> Message<'buffer> {
    /// Reads one message.
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

fn target(reader: &mut Reader<'_>) -> Result<Target, Error> {
    match reader.byte()? {
        b'S' => Ok(Target::Statement),
        b'P' => Ok(Target::Portal),
        other => Err(Error::Subtype(other)),
    }
}

/// Checks a value that is to become text: UTF-8 without a zero byte. For values
/// that do not come in text format or in one piece.
pub fn check_text(bytes: &[u8]) -> Result<&str, Error> {
    reader::text(bytes)
}
