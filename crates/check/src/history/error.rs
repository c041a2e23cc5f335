//! Why a file is no history.

use coeval_types::Remedy;

/// A text that makes no history, and where it goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ReadError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: String,
}

impl ReadError {
    /// At an offset in bytes.
    pub(super) fn at(text: &[u8], offset: usize, problem: impl Into<String>) -> Self {
        let before = &text[..offset.min(text.len())];
        let start = before.iter().rposition(|byte| *byte == b'\n');
        let column = &before[start.map_or(0, |newline| newline + 1)..];
        Self {
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            // The later bytes of a character are not counted.
            column: 1 + column.iter().filter(|byte| (**byte & 0xC0) != 0x80).count(),
            problem: problem.into(),
        }
    }

    /// The file must be changed first.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        Remedy::Fix
    }
}
