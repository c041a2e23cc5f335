//! CSV reader and writer of histories: one operation on a register per line, as most tools
//! that measure a database can write it.
//!
//! ```text
//! process,operation,key,value,started,finished,outcome
//! 0,write,user7,1,10,25,committed
//! 1,read,user7,1,30,41,committed
//! 1,read,user8,,50,61,
//! 2,write,user7,2,15,,unknown
//! ```
//!
//! The first line names the columns, in any order:
//!
//! | column | meaning |
//! | --- | --- |
//! | `operation` | `read` or `write`, or `r`, `w` |
//! | `key`, `value` | a number, or any text; an empty value of a read: the register was never written |
//! | `started` | when the client sent the operation |
//! | `finished` | when it received the answer; empty: it received none |
//! | `process` | optional: the session, a number; without the column each operation is by itself |
//! | `outcome` | optional: `committed` or `ok`, `aborted` or `fail`, `unknown` or `info`; empty, or without the column: committed if there is an answer |
//!
//! - Times are nanoseconds, in columns named `started_us`, `started_ms` or `started_s`
//!   micro-, milli- or seconds, and may have decimals. They count from any moment before the
//!   first of them; all are of one clock.
//! - A column whose name begins with `_` is passed over. Any other name is rejected: a
//!   misspelt `outcome` would make every failed operation a good one.
//! - A field may be in double quotes, in which two stand for one. A line ends where its
//!   line ends, in quotes too.
//! - A key that is no number from 0 up and a value that is no integer of 64 bits get
//!   numbers that no file is likely to contain, from the ends of their ranges; [`Names`]
//!   has their texts.

use std::collections::BTreeMap;
use std::io;

use super::{History, Operation, Outcome, ReadError, Register, Transaction};

/// The texts of keys and values that are no numbers.
#[derive(Clone, Debug, Default)]
pub struct Names {
    keys: BTreeMap<String, u64>,
    values: BTreeMap<String, i64>,
    /// The same by number, in the order of appearance.
    key_texts: Vec<String>,
    value_texts: Vec<String>,
}

impl Names {
    /// The key as the file has it.
    #[must_use]
    pub fn key(&self, key: u64) -> String {
        let text = usize::try_from(u64::MAX - key).ok();
        let text = text.and_then(|place| self.key_texts.get(place));
        text.map_or_else(|| key.to_string(), Clone::clone)
    }

    /// The value as the file has it; the initial state is empty.
    #[must_use]
    pub fn value(&self, value: Register) -> String {
        let Register::Value(value) = value else {
            return String::new();
        };
        let text = usize::try_from(value.abs_diff(i64::MIN)).ok();
        let text = text.and_then(|place| self.value_texts.get(place));
        text.map_or_else(|| value.to_string(), Clone::clone)
    }

    fn key_of(&mut self, text: &str) -> Result<u64, String> {
        let number = text.parse().ok();
        if let Some(number) = number.filter(|number: &u64| number.to_string() == text) {
            return match (u64::MAX - number) < (1 << 32) {
                true => Err(format!(
                    "key {text}: numbers end at {}",
                    u64::MAX - (1 << 32)
                )),
                false => Ok(number),
            };
        }
        if let Some(number) = self.keys.get(text) {
            return Ok(*number);
        }
        let number = u64::MAX - self.key_texts.len() as u64;
        self.keys.insert(text.to_owned(), number);
        self.key_texts.push(text.to_owned());
        Ok(number)
    }

    fn value_of(&mut self, text: &str) -> Result<i64, String> {
        let number = text.parse().ok();
        if let Some(number) = number.filter(|number: &i64| number.to_string() == text) {
            return match number.abs_diff(i64::MIN) < (1 << 32) {
                true => Err(format!(
                    "value {text}: numbers begin at {}",
                    i64::MIN + (1 << 32)
                )),
                false => Ok(number),
            };
        }
        if let Some(number) = self.values.get(text) {
            return Ok(*number);
        }
        let number = i64::MIN + self.value_texts.len() as i64;
        self.values.insert(text.to_owned(), number);
        self.value_texts.push(text.to_owned());
        Ok(number)
    }
}

/// A unit of time, by the number of its decimal digits in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit(usize);

/// The places of the columns in a line.
#[derive(Debug, Default)]
struct Columns {
    operation: usize,
    key: usize,
    value: usize,
    started: (usize, Option<Unit>),
    finished: (usize, Option<Unit>),
    process: Option<usize>,
    outcome: Option<usize>,
    count: usize,
}

/// A reader that is given the lines one by one.
#[derive(Debug, Default)]
pub(super) struct Reader {
    columns: Option<Columns>,
    operations: u64,
    names: Names,
}

/// Splits the name of a column into its stem and its unit.
pub(crate) fn time_column(name: &str, stem: &str) -> Option<usize> {
    match name.strip_prefix(stem)? {
        "" | "_ns" => Some(0),
        "_us" => Some(3),
        "_ms" => Some(6),
        "_s" => Some(9),
        _ => None,
    }
}

/// Reads a time of a unit that is this power of ten in nanoseconds.
pub(crate) fn time(text: &str, power: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let kept = &part[..part.len().min(power)];
    let kept: u64 = format!("{kept:0<power$}").parse().unwrap_or(0);
    let whole: u64 = whole.parse().ok()?;
    whole
        .checked_mul(10_u64.pow(power as u32))?
        .checked_add(kept)
}

/// Splits a line into its fields, each with the offset at which it begins.
pub(crate) fn fields(line: &str) -> Result<Vec<(usize, String)>, (usize, String)> {
    let line = line.trim_end_matches(['\r', '\n']);
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let at = line.len() - rest.len();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let text = &rest[blanks..];
        let (field, behind) = match text.strip_prefix('"') {
            None => {
                let end = text.find(',').unwrap_or(text.len());
                (text[..end].trim_end().to_owned(), &text[end..])
            }
            Some(quoted) => {
                let (field, behind) = quoted_field(quoted)
                    .ok_or_else(|| (at + blanks, "the quoted field does not end".to_owned()))?;
                let behind = behind.trim_start_matches([' ', '\t']);
                if !behind.is_empty() && !behind.starts_with(',') {
                    let what = "behind a quoted field there is a comma";
                    return Err((line.len() - behind.len(), what.to_owned()));
                }
                (field, behind)
            }
        };
        fields.push((at + blanks, field));
        match behind.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Ok(fields),
        }
    }
}

/// The field of which the opening quote was taken, and what follows its closing quote.
fn quoted_field(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Some((field, rest)),
        }
    }
}

impl Columns {
    fn of(fields: &[(usize, String)]) -> Result<Self, (usize, String)> {
        let mut columns = Self {
            count: fields.len(),
            ..Self::default()
        };
        let mut found = [None; 7];
        for (place, (offset, name)) in fields.iter().enumerate() {
            let name = name.to_ascii_lowercase();
            let which = match name.as_str() {
                "operation" => 0,
                "key" => 1,
                "value" => 2,
                "process" => 3,
                "outcome" => 4,
                passed if passed.starts_with('_') => continue,
                time => {
                    let started = time_column(time, "started").map(Unit);
                    let finished = time_column(time, "finished").map(Unit);
                    if started.is_some() {
                        columns.started = (place, started);
                        5
                    } else if finished.is_some() {
                        columns.finished = (place, finished);
                        6
                    } else {
                        let known = "operation, key, value, started, finished, process and outcome";
                        return Err((
                            *offset,
                            format!(
                                "column {name:?}: there are {known}; a name that begins with _ is \
                                 passed over"
                            ),
                        ));
                    }
                }
            };
            if found[which].replace(place).is_some() {
                return Err((*offset, format!("column {name:?} is there twice")));
            }
        }
        let wanted = |which: usize, name: &str| {
            found[which].ok_or_else(|| (0, format!("the first line names no column {name:?}")))
        };
        columns.operation = wanted(0, "operation")?;
        columns.key = wanted(1, "key")?;
        columns.value = wanted(2, "value")?;
        wanted(5, "started")?;
        wanted(6, "finished")?;
        (columns.process, columns.outcome) = (found[3], found[4]);
        Ok(columns)
    }
}

impl Reader {
    /// Reads the next line; the first names the columns and is no operation.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<Transaction>, ReadError> {
        let wrong = |(offset, problem): (usize, String)| ReadError::at(line, offset, problem);
        let text = std::str::from_utf8(line)
            .map_err(|error| ReadError::at(line, error.valid_up_to(), "not UTF-8"))?;
        // Some tools begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let fields = fields(text).map_err(wrong)?;
        let Some(columns) = &self.columns else {
            self.columns = Some(Columns::of(&fields).map_err(wrong)?);
            return Ok(None);
        };
        if fields.len() != columns.count {
            let (has, wants) = (fields.len(), columns.count);
            return Err(wrong((
                0,
                format!("{has} fields, and the first line names {wants} columns"),
            )));
        }
        let operation = self.operations;
        self.operations += 1;
        transaction(columns, &fields, operation, &mut self.names)
            .map(Some)
            .map_err(wrong)
    }

    /// The texts of keys and values that are no numbers.
    pub(super) fn names(self) -> Names {
        self.names
    }
}

fn transaction(
    columns: &Columns,
    fields: &[(usize, String)],
    index: u64,
    names: &mut Names,
) -> Result<Transaction, (usize, String)> {
    let field = |place: usize| (fields[place].0, fields[place].1.as_str());
    let moment = |(place, unit): (usize, Option<Unit>)| {
        let (offset, text) = field(place);
        let power = unit.map_or(0, |unit| unit.0);
        time(text, power).ok_or_else(|| {
            let what = "a time is a number from 0 up, at most 2^64 - 1 ns";
            let remedy = "of negative ones, add the same to all: only differences count";
            (offset, format!("{text:?}: {what}; {remedy}"))
        })
    };
    let started = moment(columns.started)?;
    let finished = match field(columns.finished.0).1 {
        "" => None,
        _ => Some(moment(columns.finished)?),
    };
    let outcome = match columns.outcome.map_or((0, ""), field) {
        (_, "") if finished.is_some() => Outcome::Committed,
        (_, "" | "unknown" | "info") => Outcome::Unknown,
        (_, "committed" | "ok") => Outcome::Committed,
        (_, "aborted" | "fail") => Outcome::Aborted,
        (offset, other) => {
            let known = "committed (ok), aborted (fail), unknown (info)";
            return Err((offset, format!("outcome {other:?} is none of {known}")));
        }
    };
    let process = match columns.process.map(field) {
        None => index,
        Some((offset, text)) => text.parse().map_err(|_| {
            let what = "a process is a number from 0 up";
            (
                offset,
                format!("{text:?}: {what}; leave the column out, or name it _process"),
            )
        })?,
    };
    let (at_key, key) = field(columns.key);
    let (at_value, value) = field(columns.value);
    let key = names.key_of(key).map_err(|problem| (at_key, problem))?;
    let mut number = |text: &str| names.value_of(text).map_err(|problem| (at_value, problem));
    let operation = match field(columns.operation) {
        (_, "write" | "w") if value.is_empty() => {
            return Err((at_value, "a write has a value".to_owned()));
        }
        (_, "write" | "w") => Operation::Write {
            key,
            value: number(value)?,
        },
        (_, "read" | "r") => Operation::Read {
            key,
            value: match value {
                _ if outcome != Outcome::Committed => None,
                "" => Some(Register::Absent),
                value => Some(Register::Value(number(value)?)),
            },
        },
        (offset, other) => {
            return Err((
                offset,
                format!("operation {other:?} is neither read nor write"),
            ));
        }
    };
    let transaction = Transaction {
        process,
        started,
        finished,
        outcome,
        read_only: false,
        operations: vec![operation],
    };
    match transaction.contradiction() {
        Some(problem) => Err((fields[columns.started.0].0, problem.to_owned())),
        None => Ok(transaction),
    }
}

/// Reads a history of single operations.
///
/// # Errors
/// When the first line does not name the columns, or a line is no operation.
pub fn read(text: &[u8]) -> Result<History, ReadError> {
    let mut reader = Reader::default();
    let mut transactions = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if !line.trim_ascii().is_empty() {
            let transaction = reader
                .line(line)
                .map_err(|error| error.on_line(number + 1))?;
            transactions.extend(transaction);
        }
    }
    Ok(History { transactions })
}

/// Writes a history of single operations on registers.
///
/// # Errors
/// Any error of the writer `to`; [`io::ErrorKind::InvalidInput`] when a transaction is not
/// one operation on a register, or has a number that is reserved for texts.
pub fn write(history: &History, to: &mut dyn io::Write) -> io::Result<()> {
    writeln!(to, "process,operation,key,value,started,finished,outcome")?;
    for transaction in &history.transactions {
        let (operation, key, value) = match transaction.operations[..] {
            [Operation::Write { key, value }] => ("write", key, Some(value)),
            [
                Operation::Read {
                    key,
                    value: Some(Register::Value(value)),
                },
            ] => ("read", key, Some(value)),
            [Operation::Read { key, .. }] => ("read", key, None),
            _ => {
                let problem = "CSV has single operations on registers only";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
            }
        };
        let outcome = match transaction.outcome {
            Outcome::Committed => "committed",
            Outcome::Aborted => "aborted",
            Outcome::Unknown => "unknown",
        };
        let empty = String::new;
        let value = value.map_or_else(empty, |value| value.to_string());
        let finished = transaction
            .finished
            .map_or_else(empty, |time| time.to_string());
        let (process, started) = (transaction.process, transaction.started);
        writeln!(
            to,
            "{process},{operation},{key},{value},{started},{finished},{outcome}"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn lines_become_operations() {
        let text = "\u{feff}Operation,KEY,value,finished_us,started_ms,_latency\r\n\
                    write,7,1,2.5,0.001,\r\n\
                    \n\
                    r,\"a \"\"b\"\", c\",x,\"5\",0.004,9\n\
                    r , 7 , , 6, 0.006,9\n\
                    w,7,y,,0.006,9";
        let history = read(text.as_bytes()).unwrap();
        let key = u64::MAX;
        let text = i64::MIN;
        let expected = [
            (1_000, Some(2_500), Operation::Write { key: 7, value: 1 }),
            (
                4_000,
                Some(5_000),
                Operation::Read {
                    key,
                    value: Some(Register::Value(text)),
                },
            ),
            (
                6_000,
                Some(6_000),
                Operation::Read {
                    key: 7,
                    value: Some(Register::Absent),
                },
            ),
            (
                6_000,
                None,
                Operation::Write {
                    key: 7,
                    value: text + 1,
                },
            ),
        ];
        let found = history.transactions.iter().zip(expected).enumerate();
        for (index, (transaction, (started, finished, operation))) in found {
            assert_eq!(transaction.process, index as u64);
            assert_eq!(
                (transaction.started, transaction.finished),
                (started, finished)
            );
            assert_eq!(transaction.operations, [operation]);
            assert_eq!(transaction.is_committed(), finished.is_some());
        }
        assert_eq!(history.transactions.len(), 4);
    }

    #[test]
    fn texts_are_told_as_they_were() {
        let mut reader = Reader::default();
        for line in [
            "operation,key,value,started,finished",
            "w,a,b,1,2",
            "w,007,c,1,2",
        ] {
            reader.line(line.as_bytes()).unwrap();
        }
        let names = reader.names();
        assert_eq!([names.key(u64::MAX), names.key(u64::MAX - 1)], ["a", "007"]);
        assert_eq!(names.key(5), "5");
        assert_eq!(names.value(Register::Value(i64::MIN + 1)), "c");
        assert_eq!(names.value(Register::Value(-3)), "-3");
        assert_eq!(names.value(Register::Absent), "");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let header = "operation,key,value,started,finished,outcome";
        for (line, expected) in [
            (
                "read,1,2,3",
                "line 2, column 1: 4 fields, and the first line names 6 columns",
            ),
            ("read,1,2,3,4,5", "line 2, column 14: outcome \"5\""),
            (
                "read,1,2,-3,4,",
                "line 2, column 10: \"-3\": a time is a number from 0 up",
            ),
            (
                "read,1,2,9,4,",
                "line 2, column 10: finished before it started",
            ),
            (
                "read,1,2,9,,ok",
                "line 2, column 10: committed, and without finished",
            ),
            ("scan,1,2,3,4,", "line 2, column 1: operation \"scan\""),
            ("write,1,,3,4,", "line 2, column 9: a write has a value"),
            (
                "write,18446744073709551615,1,3,4,",
                "line 2, column 7: key 18446744073709551615",
            ),
            (
                "write,1,\"2,3,4,",
                "line 2, column 9: the quoted field does not end",
            ),
            (
                "write,1,\"2\"3,4,",
                "line 2, column 12: behind a quoted field",
            ),
        ] {
            let said = refused(&format!("{header}\n{line}\n"));
            assert!(said.starts_with(expected), "{line}: {said}");
        }
        assert!(refused("operation,key,value,started\n").contains("no column \"finished\""));
        assert!(refused("operation,key,key\n").contains("is there twice"));
        assert!(refused("operation,status\n").contains("passed over"));
        assert!(refused("\n\noperation,\u{fffd}\n").starts_with("line 3, column 11"));
    }

    #[test]
    fn times_keep_their_digits() {
        assert_eq!(
            time("1700000000.123456789", 9),
            Some(1_700_000_000_123_456_789)
        );
        assert_eq!(time("1.5", 0), Some(1));
        assert_eq!(time("18446744073709551615", 0), Some(u64::MAX));
        for wrong in ["", ".5", "1e9", "-1", "+1", "18446744073709551616", "1.2.3"] {
            assert_eq!(time(wrong, 0), None, "{wrong}");
        }
        assert_eq!(time("18446744074", 9), None);
    }
}
