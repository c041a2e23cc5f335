//! Limits on the length of a client's messages.

use crate::frame::kind;

/// Maximum lengths of messages accepted from a client, in bytes, length field included.
///
/// These limits times the number of connections bound the memory for messages. In practice
/// the memory follows the received bytes: a long message takes memory only as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit for Query, Parse, Bind and CopyData, which carry SQL and values, in bytes.
    pub long_message: usize,
    /// Limit for all other messages, which carry a name at most, in bytes.
    pub short_message: usize,
    /// Limit for messages between nodes, in bytes; `None` where a client sends.
    pub node_message: Option<usize>,
}

impl Limits {
    /// Maximum length of a startup packet, in bytes, as in PostgreSQL.
    pub const STARTUP: usize = 10_000;

    /// Limits for clients that have not authenticated: the length that SCRAM needs.
    pub const BEFORE_AUTHENTICATION: Self = Self {
        long_message: 10_000,
        short_message: 10_000,
        node_message: None,
    };

    /// The limit for a message of this type; `None` for a type that clients do not send.
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
            kind::BETWEEN_NODES => self.node_message,
            _ => None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            long_message: 64 << 20,
            short_message: 10_000,
            node_message: None,
        }
    }
}
