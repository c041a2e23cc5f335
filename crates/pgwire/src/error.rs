//! How bytes can fail to be a message.

use coeval_types::Remedy;

/// What was wrong with what a client sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A message type that the protocol does not have.
    #[error("invalid frontend message type {0}")]
    UnknownType(u8),
    /// A length that no message of this type has.
    #[error("invalid length {length} of a message of type \"{}\"", char::from(*.kind))]
    Length {
        /// The message's type.
        kind: u8,
        /// The length it claimed, itself included, in bytes.
        length: i32,
    },
    /// A message longer than the server takes.
    #[error(
        "a message of type \"{}\" with {length} bytes is over the limit of {limit}",
        char::from(*.kind)
    )]
    TooLong {
        /// The message's type.
        kind: u8,
        /// The length it claimed, in bytes.
        length: usize,
        /// The longest allowed, in bytes.
        limit: usize,
    },
    /// A first packet whose length no first packet has.
    #[error("invalid length of startup packet: {0}")]
    StartupLength(i32),
    /// A first packet whose contents make no sense.
    #[error("invalid startup packet: {0}")]
    Startup(&'static str),
    /// A protocol of another major version.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    Version {
        /// The major version asked for.
        major: u16,
        /// The minor version asked for.
        minor: u16,
    },
    /// A message that ends before its contents do.
    #[error("insufficient data left in message of type \"{}\"", char::from(*.0))]
    Truncated(u8),
    /// A message whose contents end before it does.
    #[error("unexpected bytes at the end of a message of type \"{}\"", char::from(*.0))]
    TrailingBytes(u8),
    /// A string without its end.
    #[error("invalid string in message of type \"{}\"", char::from(*.0))]
    UnterminatedString(u8),
    /// Text that is not UTF-8.
    #[error("invalid byte sequence for encoding \"UTF8\": 0x{0:02x}")]
    InvalidUtf8(u8),
    /// Text with a zero byte in it.
    #[error("invalid byte sequence for encoding \"UTF8\": 0x00")]
    NulInText,
    /// A format that is neither text (0) nor binary (1).
    #[error("unsupported format code: {0}")]
    FormatCode(i16),
    /// Neither one parameter format for all nor one for each.
    #[error("bind message has {formats} parameter formats but {parameters} parameters")]
    FormatCount {
        /// How many formats.
        formats: usize,
        /// How many parameters.
        parameters: usize,
    },
    /// A value's length below -1.
    #[error("invalid parameter length: {0}")]
    ParameterLength(i32),
    /// Describe or Close of something that is neither statement nor portal.
    #[error("invalid message subtype {0}")]
    Subtype(u8),
    /// A message for the client that is too long for the protocol.
    #[error("a message of {0} bytes is too long to be sent")]
    Unsendable(usize),
}

impl Error {
    /// The five characters by which drivers know it.
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

    /// Whether the place of the next message is lost with this one, so that the
    /// connection has to end.
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
