//! Limits on the size of statements.
//!
//! The parser turns a text into a tree of many times its length, and a prepared statement
//! stays for as long as its session; so both have limits that are independent of the
//! maximum length of a message. The sender of a result limits the result's size.

use crate::error::{Error, Result, SqlState};

/// Maximum sizes of a session's statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length in bytes of a text with one or several statements:
    /// `max_statement_bytes`.
    pub statement_bytes: usize,
    /// Maximum number of parameters of one statement: `max_parameters`.
    pub parameters: usize,
    /// Maximum number of statements prepared by PREPARE: `max_prepared_statements`.
    pub prepared_statements: usize,
    /// Maximum number of bytes that the session keeps in prepared statements and portals:
    /// `max_session_memory_bytes`.
    pub session_memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            statement_bytes: 16 << 20,
            parameters: 65_535,
            prepared_statements: 10_000,
            session_memory: 64 << 20,
        }
    }
}

impl Limits {
    pub(crate) fn check_statement(&self, text: &str) -> Result<()> {
        if text.len() <= self.statement_bytes {
            return Ok(());
        }
        Err(over_limit(
            format!("a statement of {} bytes", text.len()),
            self.statement_bytes as u64,
            "max_statement_bytes",
            "Send values as parameters, load rows with COPY",
        ))
    }

    pub(crate) fn check_parameters(&self, parameters: usize) -> Result<()> {
        if parameters <= self.parameters {
            return Ok(());
        }
        Err(over_limit(
            format!("a statement with {parameters} parameters"),
            self.parameters as u64,
            "max_parameters",
            "Send fewer rows at once",
        ))
    }

    /// Fails when a session with this many prepared statements may not have another.
    pub(crate) fn check_prepared(&self, prepared: usize) -> Result<()> {
        if prepared < self.prepared_statements {
            return Ok(());
        }
        Err(over_limit(
            format!("a session with {} prepared statements", prepared + 1),
            self.prepared_statements as u64,
            "max_prepared_statements",
            "DEALLOCATE those that are not needed any more",
        ))
    }
}

/// SQLSTATE 54000: `what` exceeds the limit of the server's setting `setting`. The hint
/// tells the client to do `instead`, or to have the setting raised.
#[must_use]
pub fn over_limit(what: impl std::fmt::Display, limit: u64, setting: &str, instead: &str) -> Error {
    Error::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("{what} is over the limit of {limit}"),
    )
    .with_hint(format!(
        "{instead}, or raise the server's setting {setting}."
    ))
}
