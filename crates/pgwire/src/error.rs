//! Protocol errors: why a client's bytes are no valid message.

use coeval_types::Remedy;

/// Why a message could not be decoded or encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The message type does not exist.
    #[error("invalid frontend message type {0}")]
    UnknownType(u8),
    /// The length is one that no message of this type has.
    #[error("invalid length {length} of a message of type \"{}\"", char::from(*.kind))]
    Length {
        /// The message's type.
        kind: u8,
        /// The announced length, length field included, in bytes.
        length: i32,
    },
    /// The message is longer than the server accepts.
    #[error(
        "a message of type \"{}\" with {length} bytes is over the limit of {limit}",
        char::from(*.kind)
    )]
    TooLong {
        /// The message's type.
        kind: u8,
        /// The announced length, in bytes.
        length: usize,
        /// The server's limit, in bytes.
        limit: usize,
    },
    /// The length is one that no startup packet has.
    #[error("invalid length of startup packet: {0}")]
    StartupLength(i32),
    /// The contents of the startup packet are malformed.
    #[error("invalid startup packet: {0}")]
    Startup(&'static str),
    /// The client asked for another major version of the protocol.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    Version {
        /// The requested major version.
        major: u16,
        /// The requested minor version.
        minor: u16,
    },
    /// The message ends before its last field.
    #[error("insufficient data left in message of type \"{}\"", char::from(*.0))]
    Truncated(u8),
    /// The message continues after its last field.
    #[error("unexpected bytes at the end of a message of type \"{}\"", char::from(*.0))]
    TrailingBytes(u8),
    /// A string has no terminating zero byte.
    #[error("invalid string in message of type \"{}\"", char::from(*.0))]
    UnterminatedString(u8),
    /// A text is not UTF-8.
    #[error("invalid byte sequence for encoding \"UTF8\": 0x{0:02x}")]
    InvalidUtf8(u8),
    /// A text contains a zero byte.
    #[error("invalid byte sequence for encoding \"UTF8\": 0x00")]
    NulInText,
    /// A format code is neither text (0) nor binary (1).
    #[error("unsupported format code: {0}")]
    FormatCode(i16),
    /// The number of parameter formats is neither 0, 1 nor the number of parameters.
    #[error("bind message has {formats} parameter formats but {parameters} parameters")]
    FormatCount {
        /// Number of formats.
        formats: usize,
        /// Number of parameters.
        parameters: usize,
    },
    /// A value's length is below -1.
    #[error("invalid parameter length: {0}")]
    ParameterLength(i32),
    /// Describe or Close names neither a statement nor a portal.
    #[error("invalid message subtype {0}")]
    Subtype(u8),
    /// A message to the client is too long for the protocol.
    #[error("a message of {0} bytes is too long to be sent")]
    Unsendable(usize),
}

impl Error {
    /// The error's SQLSTATE.
    #[must_use]
    pub const fn sqlstate(&self) -> &'static str {
        match self {
            Self::UnknownType(_)
            | Self::Length { .. }
            | Self::StartupLength(_)
            | Self::Startup(_)
            | Self::Truncated(_)
            | Self::TrailingBytes(_)
            | Self::UnterminatedString(_)
            | Self::FormatCount { .. }
            | Self::ParameterLength(_)
            | Self::Subtype(_) => "08P01",
            Self::TooLong { .. } | Self::Unsendable(_) => "54000",
            Self::Version { .. } => "0A000",
            Self::InvalidUtf8(_) | Self::NulInText => "22021",
            Self::FormatCode(_) => "22023",
        }
    }

    /// Whether the start of the next message is unknown after this error, so that the
    /// connection must end.
    #[must_use]
    pub const fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::UnknownType(_)
                | Self::Length { .. }
                | Self::TooLong { .. }
                | Self::StartupLength(_)
                | Self::Startup(_)
                | Self::Version { .. }
        )
    }

    /// What the client can do: send something else.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        Remedy::Fix
    }
}
