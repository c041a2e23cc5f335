//! Streaming reader of histories: one transaction after another, for judges that keep less
//! than the whole.
//!
//! Lines of transactions, as JSON or CSV, are read one by one, each of a bounded length.
//! Events become transactions only once all have been seen, since a later event can make a
//! key a list; an array of JSON is one line or many. Of those the text is read whole, up to
//! a bound.

use std::io::{self, BufRead, Read};

use super::csv::{self, Names};
use super::{Format, ReadError, Transaction, edn, lines};

/// Greatest length of a line.
pub const LONGEST_LINE: usize = 64 << 20;
/// Greatest length of a text that has to be read whole.
pub const LARGEST_WHOLE: usize = 1 << 30;

/// Error: a history was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The text could not be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The text is not a history.
    #[error(transparent)]
    Text(#[from] ReadError),
    /// The receiver refused a transaction.
    #[error("line {line}: {problem}")]
    Refused {
        /// Line of the transaction, counted from 1.
        line: usize,
        /// Why it was refused.
        problem: String,
    },
    /// The receiver refused a transaction of a text without lines.
    #[error("{0}")]
    RefusedWhole(String),
    /// The text has to be read whole, and is too large.
    #[error(
        "it is larger than {} MiB, and only lines of transactions are read piece by piece",
        LARGEST_WHOLE >> 20
    )]
    TooLarge,
}

/// Reads a history, and hands each transaction to `each` in the order of the file.
///
/// # Errors
/// When the text cannot be read or is not in the format, or `each` refuses a transaction.
pub fn stream(
    from: &mut dyn BufRead,
    format: Format,
    each: &mut dyn FnMut(Transaction) -> Result<(), String>,
) -> Result<Names, StreamError> {
    match format {
        Format::Csv => by_line(from, each),
        Format::JsonLines => json(from, each).map(|()| Names::default()),
        Format::Edn => {
            let text = whole(Vec::new(), from)?;
            for transaction in edn::read(&text)?.transactions {
                each(transaction).map_err(StreamError::RefusedWhole)?;
            }
            Ok(Names::default())
        }
    }
}

fn by_line(
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(Transaction) -> Result<(), String>,
) -> Result<Names, StreamError> {
    let mut reader = csv::Reader::default();
    let mut lines = Lines::new(from);
    while let Some((number, line)) = lines.next()? {
        let transaction = reader.line(line).map_err(|error| error.on_line(number))?;
        if let Some(transaction) = transaction {
            each(transaction).map_err(|problem| StreamError::Refused {
                line: number,
                problem,
            })?;
        }
    }
    Ok(reader.names())
}

fn json(
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(Transaction) -> Result<(), String>,
) -> Result<(), StreamError> {
    let mut lines = Lines::new(from);
    let mut is_first = true;
    while let Some((number, line)) = lines.next()? {
        let is_array = line.trim_ascii_start().starts_with(b"[");
        if is_first && (is_array || lines::is_event(line)) {
            // As many lines as were passed over: positions count from the beginning.
            let mut text = vec![b'\n'; (number - 1).min(LARGEST_WHOLE)];
            text.extend_from_slice(line);
            text.extend(lines.had_end.then_some(b'\n'));
            let text = whole(text, lines.from)?;
            for transaction in lines::read(&text)?.transactions {
                each(transaction).map_err(StreamError::RefusedWhole)?;
            }
            return Ok(());
        }
        is_first = false;
        let transaction =
            lines::transaction(line, 0, line).map_err(|error| error.on_line(number))?;
        each(transaction).map_err(|problem| StreamError::Refused {
            line: number,
            problem,
        })?;
    }
    Ok(())
}

/// Reads the rest of a text that begins with `text`.
fn whole(mut text: Vec<u8>, from: &mut dyn BufRead) -> Result<Vec<u8>, StreamError> {
    let room = (LARGEST_WHOLE + 1).saturating_sub(text.len());
    from.take(room as u64).read_to_end(&mut text)?;
    match text.len() > LARGEST_WHOLE {
        true => Err(StreamError::TooLarge),
        false => Ok(text),
    }
}

/// The lines of a text that are not blank, each with its number.
struct Lines<'from> {
    from: &'from mut dyn BufRead,
    number: usize,
    line: Vec<u8>,
    /// Whether a line feed ended the last line.
    had_end: bool,
}

impl<'from> Lines<'from> {
    fn new(from: &'from mut dyn BufRead) -> Self {
        Self {
            from,
            number: 0,
            line: Vec::new(),
            had_end: false,
        }
    }

    /// The next line without its end, or `None` at the end of the text.
    fn next(&mut self) -> Result<Option<(usize, &[u8])>, StreamError> {
        loop {
            self.line.clear();
            let most = LONGEST_LINE as u64 + 1;
            let read = (&mut *self.from)
                .take(most)
                .read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.len() > LONGEST_LINE {
                let problem = format!("the line is longer than {} MiB", LONGEST_LINE >> 20);
                let line = self.number;
                return Err(StreamError::Refused { line, problem });
            }
            self.had_end = self.line.ends_with(b"\n");
            if self.had_end {
                self.line.pop();
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((self.number, &self.line)));
            }
        }
    }
}
