//! How long a message may be.

use crate::frame::kind;

/// The longest messages taken from a client, in bytes, their length field
/// included.
///
/// Memory is bounded by these times the number of connections, and in practice by
/// what clients really send: a long message takes memory only as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of Query, Parse, Bind and CopyData, which carry SQL and values.
    pub long_message: usize,
    /// Of all others, which carry a name at most.
    pub short_message: usize,
}

impl Limits {
    /// The longest first packet, in bytes, as in PostgreSQL.
    pub const STARTUP: usize = 10_000;

    /// For clients that have not shown who they are: what SCRAM takes, and no more.
    pub const BEFORE_AUTHENTICATION: Self = Self {
        long_message: 10_000,
        short_message: 10_000,
    };

    /// The limit for a message of this type; `None` for a type that clients do
    /// not send.
    #[must_use]
    pub const fn of(&self, message: u8) -> Option<usize> {
        match message {
            kind::QUERY | kind::PARSE | kind::BIND | kind::COPY_DATA | kind::FUNCTION_CALL => {
                Some(self.long_message)
            }
            kind::EXECUTE
            | kind::DESCRIBE
            | kind::CLOSE
            | kind::FLUSH
            | kind::SYNC
            | kind::TERMINATE
            | kind::COPY_DONE
            | kind::COPY_FAIL
            | kind::PASSWORD => Some(self.short_message),
            _ => None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            long_message: 64 << 20,
            short_message: 10_000,
        }
    }
}
