//! Checks the data of a COPY FROM STDIN in batches.
//!
//! A batch is some whole rows. The judge runs the script's own COPY on it; when the
//! server refuses a row, the report names it, and the next batch begins after it. So
//! every row is checked, and only one batch is in memory.
//!
//! ```text
//!   rows 1 ─ 9000    ok
//!   rows 9001 ─ …    COPY t, line 17: row 9017 is refused
//!   rows 9018 ─ …    ok
//! ```
//!
//! Only in text format does the end of a line show where a row ends (a backslash before
//! it continues the row). Data in another format, or with a header, is one batch, and
//! rows after a refused one are not checked.
//!
//! Rows of different batches are not compared, unless rows are kept: then a duplicate key
//! is found wherever its rows are.

use std::io::Write;

use coeval_sql::Error;

use super::Failure;
use super::judge::Judge;
use super::report::{Report, ScriptLocation};

/// Approximate size of a batch, in bytes.
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of refused rows of one COPY that are reported; further ones are
/// counted.
const MAX_TOLD: u64 = 20;

/// The data of one COPY.
#[derive(Debug)]
pub(super) struct Data {
    copy: String,
    /// Whether each line is a row.
    lines_are_rows: bool,
    buffer: Vec<u8>,
    /// The beginning of each row: its offset in the buffer, and its line in the script.
    rows: Vec<(usize, u64)>,
    /// Whether the last line ended inside a row.
    continues: bool,
    refused: u64,
    /// Whether the remaining data cannot be checked.
    ended: bool,
}

impl Data {
    /// The data after this COPY statement.
    pub(super) fn new(copy: &str) -> Self {
        // Finds the options in any syntax; a table whose name contains such a word is
        // only checked in one batch.
        let lower = copy.to_ascii_lowercase();
        let others = ["csv", "header", "binary"];
        Self {
            copy: copy.to_owned(),
            lines_are_rows: !others.iter().any(|option| lower.contains(option)),
            buffer: Vec::new(),
            rows: Vec::new(),
            continues: false,
            refused: 0,
            ended: false,
        }
    }

    /// Adds one line of data; returns whether a batch is complete.
    pub(super) fn push(&mut self, bytes: &[u8], line: u64) -> bool {
        if !self.continues {
            self.rows.push((self.buffer.len(), line));
        }
        self.buffer.extend_from_slice(bytes);
        self.buffer.push(b'\n');
        let backslashes = bytes
            .iter()
            .rev()
            .take_while(|&&byte| byte == b'\\')
            .count();
        self.continues = self.lines_are_rows && backslashes % 2 == 1;
        self.lines_are_rows && !self.continues && self.buffer.len() >= BATCH_BYTES
    }

    /// Checks the collected rows.
    pub(super) async fn judge<W: Write>(
        &mut self,
        judge: &mut Judge,
        file: &str,
        report: &mut Report<W>,
    ) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        let buffer = std::mem::take(&mut self.buffer);
        let mut first = 0;
        while let Some(&(start, line)) = rows.get(first) {
            if self.ended {
                report.counts().lines_passed_over += (rows.len() - first) as u64;
                return Ok(());
            }
            let error = match judge.data(&self.copy, &buffer[start..]).await {
                Ok(count) => {
                    report.counts().rows += count;
                    return Ok(());
                }
                Err(error) => super::answerable(error)?,
            };
            let at =
                row_number(&error).filter(|&row| self.lines_are_rows && first + row < rows.len());
            let (row, line) = match at {
                Some(row) => (first + row, rows[first + row].1),
                None => {
                    self.ended = true;
                    (first, line)
                }
            };
            if at.is_some() && row > first {
                // The rows before it are valid, but the failed COPY dropped them as well.
                let before = judge.data(&self.copy, &buffer[start..rows[row].0]).await;
                report.counts().rows += match before {
                    Ok(count) => count,
                    Err(error) => {
                        super::answerable(error)?;
                        0
                    }
                };
            }
            self.refused += 1;
            if self.refused <= MAX_TOLD {
                let statement = &self.copy;
                report.row_refused(
                    ScriptLocation {
                        file,
                        line,
                        statement,
                    },
                    &error,
                )?;
            } else {
                report.counts().rows_refused += 1;
            }
            first = row + 1;
        }
        Ok(())
    }
}

/// The index of the row that an error of COPY is about, from 0: its context is `COPY
/// account, line 17, …`.
fn row_number(error: &Error) -> Option<usize> {
    let context = error.report().context.as_deref()?.strip_prefix("COPY ")?;
    let (_, number) = context.split_once(", line ")?;
    let digits = number.len()
        - number
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    number[..digits].parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use coeval_sql::SqlState;

    use super::*;

    #[test]
    fn rows_end_with_lines_but_for_backslashes() {
        let mut data = Data::new("COPY t FROM stdin;");
        for (line, bytes) in [(3, &b"a\\"[..]), (4, b"b"), (5, b"c\\\\"), (6, b"d")] {
            data.push(bytes, line);
        }
        assert_eq!(data.rows, [(0, 3), (5, 5), (9, 6)]);
    }

    #[test]
    fn errors_say_which_row() {
        let error =
            |context: &str| Error::new(SqlState::BAD_COPY_FILE_FORMAT, "…").with_context(context);
        assert_eq!(
            row_number(&error("COPY t, line 17, column a: \"x\"")),
            Some(16)
        );
        assert_eq!(row_number(&error("COPY t, line 1")), Some(0));
        assert_eq!(row_number(&error("COPY t, line 0")), None);
        assert_eq!(row_number(&error("something else")), None);
    }
}
