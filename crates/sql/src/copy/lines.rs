//! Line splitter of COPY: assembles whole records from data that the client splits
//! anywhere.

use super::options::{CopyFormat, Layout};
use crate::error::{Error, Result, SqlState};

/// Maximum length of a line in bytes, for a client that never ends a line.
const MAX_LINE_BYTES: usize = 256 << 20;

/// Line ending of the data, determined by the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Newline,
    Return,
    ReturnNewline,
}

/// Splits data into records.
#[derive(Debug)]
pub(super) struct Lines {
    layout: Layout,
    quote: u8,
    escape: u8,
    ending: Option<Ending>,
    /// Data received and not yet returned.
    buffer: Vec<u8>,
    /// Start of the current record in `buffer`.
    start: usize,
    /// Position in `buffer` up to which the splitter has scanned.
    looked: usize,
    in_quotes: bool,
    /// Whether the last byte was an escape character, which affects the next byte.
    escaped: bool,
    /// Number of lines scanned, including those that end inside quotes, because a CSV
    /// record may contain several lines.
    passed: u64,
}

/// A record, and the number of its last line, from 1, which errors report, as in
/// PostgreSQL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'buffer> {
    pub(super) bytes: &'buffer [u8],
    pub(super) line: u64,
}

impl Lines {
    pub(super) fn new(format: &CopyFormat) -> Self {
        Self {
            layout: format.layout,
            quote: format.quote,
            escape: format.escape,
            ending: None,
            buffer: Vec::new(),
            start: 0,
            looked: 0,
            in_quotes: false,
            escaped: false,
            passed: 0,
        }
    }

    /// Number of the line being scanned, from 1.
    pub(super) fn line(&self) -> u64 {
        self.passed + 1
    }

    /// Bytes received and not yet returned.
    pub(super) fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Appends received data.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<()> {
        self.buffer.drain(..self.start);
        self.looked -= self.start;
        self.start = 0;
        if self.buffer.len() + data.len() > MAX_LINE_BYTES {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a line of COPY data cannot be longer than {MAX_LINE_BYTES} bytes"),
            ));
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    /// The next complete record, without its line ending. `last` means that no more
    /// data will arrive, so that a record without a line ending is complete, too.
    pub(super) fn next(&mut self, last: bool) -> Result<Option<Record<'_>>> {
        while self.looked < self.buffer.len() {
            let byte = self.buffer[self.looked];
            let is_end = match self.layout {
                Layout::Text => self.look_text(byte),
                Layout::Csv => self.look_csv(byte),
            };
            if !is_end {
                self.looked += 1;
                continue;
            }
            let end = self.looked;
            let next = self.buffer.get(end + 1).copied();
            if byte == b'\r' && self.ending.is_none() && next.is_none() && !last {
                // A newline may follow in the next message.
                return Ok(None);
            }
            let ending = *self.ending.get_or_insert(match (byte, next) {
                (b'\n', _) => Ending::Newline,
                (_, Some(b'\n')) => Ending::ReturnNewline,
                _ => Ending::Return,
            });
            let length = match (ending, byte, next) {
                (Ending::Newline, b'\n', _) | (Ending::Return, b'\r', _) => 1,
                (Ending::ReturnNewline, b'\r', Some(b'\n')) => 2,
                (Ending::ReturnNewline, b'\r', None) if !last => return Ok(None),
                _ => return Err(self.mixed(byte)),
            };
            let start = self.start;
            self.start = end + length;
            self.looked = self.start;
            return Ok(Some(self.record(start, end)));
        }
        if !last || self.start == self.buffer.len() {
            return Ok(None);
        }
        let start = self.start;
        self.start = self.buffer.len();
        self.looked = self.start;
        Ok(Some(self.record(start, self.start)))
    }

    fn record(&mut self, start: usize, end: usize) -> Record<'_> {
        self.passed += 1;
        Record {
            bytes: &self.buffer[start..end],
            line: self.passed,
        }
    }

    /// Whether the byte ends a line in text format: a byte after a backslash does not.
    fn look_text(&mut self, byte: u8) -> bool {
        if self.escaped {
            self.escaped = false;
            return false;
        }
        self.escaped = byte == b'\\';
        matches!(byte, b'\n' | b'\r')
    }

    /// Whether the byte ends a line in CSV: a byte inside quotes does not.
    fn look_csv(&mut self, byte: u8) -> bool {
        // In the first record the line ending is not known yet; PostgreSQL then counts
        // carriage returns.
        let ends_lines = match self.ending {
            Some(Ending::Newline) => b'\n',
            Some(Ending::Return | Ending::ReturnNewline) | None => b'\r',
        };
        if self.in_quotes && byte == ends_lines {
            self.passed += 1;
        }
        if self.in_quotes && self.escape != self.quote {
            if self.escaped {
                self.escaped = false;
                return false;
            }
            if byte == self.escape {
                self.escaped = true;
                return false;
            }
        }
        // A doubled quote ends and restarts the quoted part, which has the same effect
        // as a literal quote.
        if byte == self.quote {
            self.in_quotes = !self.in_quotes;
        }
        !self.in_quotes && matches!(byte, b'\n' | b'\r')
    }

    fn mixed(&self, byte: u8) -> Error {
        let what = if byte == b'\n' {
            "newline"
        } else {
            "carriage return"
        };
        let (kind, hint) = match self.layout {
            Layout::Text => (
                "literal",
                format!(
                    "Use \"\\{}\" to represent {what}.",
                    if byte == b'\n' { 'n' } else { 'r' }
                ),
            ),
            Layout::Csv => (
                "unquoted",
                format!("Use quoted CSV field to represent {what}."),
            ),
        };
        Error::new(
            SqlState::BAD_COPY_FILE_FORMAT,
            format!("{kind} {what} found in data"),
        )
        .with_hint(hint)
    }
}
