//! How large statements may be.
//!
//! A text is parsed into a tree that takes many times its length, and a prepared
//! statement stays for as long as its session; so there is an end to both that has
//! nothing to do with how long a message may be. Results are limited where they are
//! sent.

use crate::error::{Error, Result, SqlState};

/// The largest statements of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a text with one or several statements, in bytes: `max_statement_bytes`.
    pub statement_bytes: usize,
    /// Parameters of one statement: `max_parameters`.
    pub parameters: usize,
    /// Statements prepared by PREPARE: `max_prepared_statements`.
    pub prepared_statements: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            statement_bytes: 16 << 20,
            parameters: 65_535,
            prepared_statements: 10_000,
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

    /// There are so many prepared statements, and one more is to come.
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

/// 54000: `what` is over the limit of the server's setting `setting`. `instead` is
/// what the client may do, or have the setting raised.
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
