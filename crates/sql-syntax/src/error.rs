//! Why a text is no statement: a message in PostgreSQL's words, with its place and SQLSTATE.

use std::fmt;

/// What kind of error it is, by the SQLSTATE that a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 42601: the grammar does not have it.
    Syntax,
    /// 0A000: the grammar has it, and PostgreSQL's grammar itself refuses it.
    NotSupported,
    /// 54001: nested more deeply than [`Limits`](crate::Limits) permits.
    TooDeep,
    /// 54000: longer than [`Limits`](crate::Limits) permits.
    TooLong,
    /// 22023: a number outside of what a clause takes.
    InvalidParameter,
    /// 22025: an escape in a string that is none.
    InvalidEscape,
    /// 22021: bytes that are no UTF-8.
    InvalidBytes,
    /// 42939: a name that is reserved.
    ReservedName,
    /// 42P20: a window's frame that makes no sense.
    Windowing,
}

impl Fault {
    /// The five characters a client is told.
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::Syntax => "42601",
            Self::NotSupported => "0A000",
            Self::TooDeep => "54001",
            Self::TooLong => "54000",
            Self::InvalidParameter => "22023",
            Self::InvalidEscape => "22025",
            Self::InvalidBytes => "22021",
            Self::ReservedName => "42939",
            Self::Windowing => "42P20",
        }
    }
}

/// The first error of a text. Parsing ends there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// TokenKind and SQLSTATE.
    pub fault: Fault,
    /// The primary message.
    pub message: String,
    /// What may help.
    pub hint: Option<&'static str>,
    /// Where, in bytes from the start of the text. [`SyntaxError::character`] has it as
    /// clients are told.
    pub at: u32,
}

impl SyntaxError {
    pub(crate) fn new(fault: Fault, message: impl Into<String>, at: u32) -> Box<Self> {
        Box::new(Self {
            fault,
            message: message.into(),
            hint: None,
            at,
        })
    }

    /// The position as PostgreSQL tells it: in characters, from 1.
    pub fn character(&self, text: &str) -> usize {
        let before = text.get(..self.at as usize).unwrap_or(text);
        before.chars().count() + 1
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// A result whose error is a pointer, so that what succeeds is moved cheaply.
pub(crate) type Parsed<T> = Result<T, Box<SyntaxError>>;
