//! The error of the history readers: what is wrong in a file, and where.

use coeval_types::Remedy;

/// Error: a text is not a history; holds the position of the first problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ReadError {
    /// Line of the problem, counted from 1.
    pub line: usize,
    /// Column of the problem in characters, counted from 1.
    pub column: usize,
    /// Description of the problem.
    pub problem: String,
}

impl ReadError {
    /// Creates an error at a byte offset of the text.
    pub(super) fn at(text: &[u8], offset: usize, problem: impl Into<String>) -> Self {
        let before = &text[..offset.min(text.len())];
        let start = before.iter().rposition(|byte| *byte == b'\n');
        let column = &before[start.map_or(0, |newline| newline + 1)..];
        Self {
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            // Continuation bytes of a UTF-8 character are not counted.
            column: 1 + column.iter().filter(|byte| (**byte & 0xC0) != 0x80).count(),
            problem: problem.into(),
        }
    }

    /// The error of a text that is the given line of a larger one, counted from 1.
    pub(super) fn on_line(mut self, line: usize) -> Self {
        self.line += line - 1;
        self
    }

    /// The caller's remedy: the file must be changed first.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        Remedy::Fix
    }
}
