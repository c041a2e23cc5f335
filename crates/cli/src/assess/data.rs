//! The data of a COPY FROM STDIN, looked at in batches.
//!
//! A batch is some whole rows. It is copied for real, by the script's own COPY; when a
//! row is refused, that row is told, and the batch goes on behind it. So every row is
//! looked at, and no more than a batch is in memory.
//!
//! ```text
//!   rows 1 ─ 9000    ok
//!   rows 9001 ─ …    COPY t, line 17: row 9017 is refused
//!   rows 9018 ─ …    ok
//! ```
//!
//! Only in text format does the end of a line say where a row ends (a backslash before
//! it takes it into the row). Data in another format, or with a header, is one batch,
//! and what is behind a row that is refused is not looked at.
//!
//! Rows of different batches do not meet, unless rows are kept: then a key that two
//! rows share is found wherever they are.

use std::io::Write;

use coeval_sql::Error;

use super::Failure;
use super::judge::Judge;
use super::report::{Place, Report};

/// About how much data is looked at together, in bytes.
const BATCH_BYTES: usize = 1 << 20;
/// Rows refused in one COPY that are told; the others are counted.
const MOST_TOLD: u64 = 20;

/// The data of one COPY.
#[derive(Debug)]
pub(super) struct Data {
    copy: String,
    /// Whether lines are rows.
    lines_are_rows: bool,
    buffer: Vec<u8>,
    /// Where rows begin: in the buffer, and on which line of the script.
    rows: Vec<(usize, u64)>,
    /// Whether the last line ended inside a row.
    continues: bool,
    refused: u64,
    /// Nothing behind can be looked at.
    ended: bool,
}

impl Data {
    /// What follows this COPY.
    pub(super) fn new(copy: &str) -> Self {
        // The options in whatever form they are written; a table of such a name only
        // costs the batches.
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

    /// Takes one line of data; whether there is a batch.
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

    /// Looks at the rows that have come.
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
                // Those before it are good, but they went with it.
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
            if self.refused <= MOST_TOLD {
                let statement = &self.copy;
                report.row_refused(
                    Place {
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

/// Which row of the data an error of COPY is about, from 0: its context is
/// `COPY account, line 17, …`.
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
