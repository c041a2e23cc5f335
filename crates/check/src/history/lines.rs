//! JSON lines reader and writer of histories: one line per transaction.
//!
//! ```text
//! {"process":0,"started":10,"finished":25,"outcome":"committed","operations":[["append",3,1],["read_list",3,[1]]]}
//! {"process":1,"started":12,"finished":30,"outcome":"committed","read_only":true,"operations":[["read",7,null]]}
//! {"process":2,"started":15,"outcome":"unknown","operations":[["write",7,4],["read_list",3]]}
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | `process` | the session, from 0 |
//! | `started` | nanoseconds, taken before the client sent the first statement |
//! | `finished` | nanoseconds, taken after the client received the answer to COMMIT; missing or null: it received none, so the outcome is not `committed` |
//! | `outcome` | `committed`, `aborted`, `unknown` |
//! | `read_only` | whether the transaction was declared so; default: no |
//! | `operations` | in their order, each a list as below |
//!
//! | operation | meaning |
//! | --- | --- |
//! | `["append", key, element]` | appends an element to a list |
//! | `["read_list", key, [element, …]]` | reads a list; without the third part, the client received no answer |
//! | `["write", key, value]` | writes a register |
//! | `["read", key, value]` | reads a register; null: it was never written; without the third part, the client received no answer |
//!
//! Lines stand in any order; empty ones are passed over. When the first line has a
//! field `type`, all are [`events`](super::events) instead, with words where EDN has
//! keywords: `{"process":0,"type":"ok","value":[["append",3,1],["r",3,[1]]]}`.
//!
//! Some tools (elle-cli) write one array of all transactions instead of lines. The reader
//! treats a text that begins with `[` as such an array, wherever its lines end
//! ([`array`](mod@array)).

mod array;

use std::fmt;
use std::io;

use serde::de::{self, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::events::Assembler;
use super::value::Value;
use super::{History, Operation, Outcome, ReadError, Register, Transaction};

/// Reads a history of transactions or events.
///
/// # Errors
/// When a line is not JSON or not a transaction, or when a transaction ends before it
/// started, or committed without a finish time.
pub fn read(text: &[u8]) -> Result<History, ReadError> {
    if text.trim_ascii_start().starts_with(b"[") {
        read_each(text, array::elements(text)?.into_iter())
    } else {
        read_each(text, lines(text))
    }
}

/// Reads transactions or events, each given with its offset in the text.
fn read_each<'text>(
    text: &[u8],
    lines: impl Iterator<Item = (usize, &'text [u8])> + Clone,
) -> Result<History, ReadError> {
    let first = lines.clone().next();
    if first.is_some_and(|(_, line)| is_event(line)) {
        let mut events = Assembler::default();
        for (offset, line) in lines {
            let event: serde_json::Value =
                serde_json::from_slice(line).map_err(|error| unreadable(text, offset, &error))?;
            events.event(text, offset, &datum(event))?;
        }
        return events.finish(text);
    }
    let transactions = lines.map(|(offset, line)| transaction(text, offset, line));
    let transactions = transactions.collect::<Result<_, _>>()?;
    Ok(History { transactions })
}

/// Whether a line is an event rather than a whole transaction.
pub(super) fn is_event(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(line).is_ok_and(|line| line.get("type").is_some())
}

/// Reads the transaction of a line, which begins at `offset` in the text.
pub(super) fn transaction(
    text: &[u8],
    offset: usize,
    line: &[u8],
) -> Result<Transaction, ReadError> {
    let line: Line =
        serde_json::from_slice(line).map_err(|error| unreadable(text, offset, &error))?;
    let outcome = match line.outcome {
        OutcomeWord::Committed => Outcome::Committed,
        OutcomeWord::Aborted => Outcome::Aborted,
        OutcomeWord::Unknown => Outcome::Unknown,
    };
    let transaction = Transaction {
        process: line.process,
        started: line.started,
        finished: line.finished,
        outcome,
        read_only: line.read_only,
        operations: line.operations.into_iter().map(|part| part.0).collect(),
    };
    match transaction.contradiction() {
        Some(problem) => Err(ReadError::at(text, offset, problem)),
        None => Ok(transaction),
    }
}

/// Iterates over the lines that are not blank, with their offsets.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> + Clone {
    let mut offset = 0;
    text.split(|byte| *byte == b'\n').filter_map(move |line| {
        let start = offset;
        offset += line.len() + 1;
        (!line.trim_ascii().is_empty()).then_some((start, line))
    })
}

/// Converts an error of the JSON library to an error at the right position in the text.
fn unreadable(text: &[u8], offset: usize, error: &serde_json::Error) -> ReadError {
    // The library counts lines and columns from the start of its own input.
    let said = error.to_string();
    let problem = match said.rsplit_once(" at line ") {
        Some((problem, _)) => problem.to_owned(),
        None => said,
    };
    let rest = &text[offset..];
    let mut ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let line = match error.line().checked_sub(2) {
        Some(before) => ends.nth(before).map_or(0, |(end, _)| end + 1),
        None => 0,
    };
    let offset = offset + line + error.column().saturating_sub(1);
    ReadError::at(text, offset, problem)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    process: u64,
    started: u64,
    #[serde(default)]
    finished: Option<u64>,
    outcome: OutcomeWord,
    #[serde(default)]
    read_only: bool,
    operations: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OutcomeWord {
    Committed,
    Aborted,
    Unknown,
}

/// An operation, deserialized from a list.
struct Part(Operation);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an operation such as [\"append\", key, element]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Part, A::Error> {
        let missing = |what| de::Error::custom(format!("an operation without {what}"));
        let name: &str = parts.next_element()?.ok_or_else(|| missing("a name"))?;
        let key = parts.next_element()?.ok_or_else(|| missing("a key"))?;
        let operation = match name {
            "append" => Operation::Append {
                key,
                element: parts.next_element()?.ok_or_else(|| missing("an element"))?,
            },
            "write" => Operation::Write {
                key,
                value: parts.next_element()?.ok_or_else(|| missing("a value"))?,
            },
            "read_list" => Operation::ReadList {
                key,
                elements: parts.next_element()?,
            },
            "read" => Operation::Read {
                key,
                value: parts
                    .next_element::<Option<i64>>()?
                    .map(|value| value.map_or(Register::Absent, Register::Value)),
            },
            other => {
                return Err(de::Error::custom(format!(
                    "operation {other:?} is none of append, read_list, write, read"
                )));
            }
        };
        if parts.next_element::<IgnoredAny>()?.is_some() {
            return Err(de::Error::custom("an operation has at most three parts"));
        }
        Ok(Part(operation))
    }
}

fn datum(value: serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(value) => Value::Boolean(value),
        serde_json::Value::Number(number) => number.as_i64().map_or(Value::Other, Value::Integer),
        // Some tools keep the colon of a keyword.
        serde_json::Value::String(text) => Value::Text(match text.strip_prefix(':') {
            Some(name) => name.to_owned(),
            None => text,
        }),
        serde_json::Value::Array(values) => {
            Value::Sequence(values.into_iter().map(datum).collect())
        }
        serde_json::Value::Object(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (Value::Text(key), datum(value)))
                .collect(),
        ),
    }
}

/// Writes a history, one line per transaction.
///
/// # Errors
/// Any error of the writer `to`.
pub fn write(history: &History, to: &mut dyn io::Write) -> io::Result<()> {
    history
        .transactions
        .iter()
        .try_for_each(|transaction| write_transaction(transaction, to))
}

/// Writes one line, so that a recorder can write while it records.
///
/// # Errors
/// Any error of the writer `to`.
pub fn write_transaction(transaction: &Transaction, to: &mut dyn io::Write) -> io::Result<()> {
    write!(
        to,
        "{{\"process\":{},\"started\":{}",
        transaction.process, transaction.started
    )?;
    if let Some(finished) = transaction.finished {
        write!(to, ",\"finished\":{finished}")?;
    }
    let outcome = match transaction.outcome {
        Outcome::Committed => "committed",
        Outcome::Aborted => "aborted",
        Outcome::Unknown => "unknown",
    };
    write!(to, ",\"outcome\":\"{outcome}\"")?;
    if transaction.read_only {
        to.write_all(b",\"read_only\":true")?;
    }
    to.write_all(b",\"operations\":[")?;
    for (at, operation) in transaction.operations.iter().enumerate() {
        if at > 0 {
            to.write_all(b",")?;
        }
        match operation {
            Operation::Append { key, element } => write!(to, "[\"append\",{key},{element}]")?,
            Operation::Write { key, value } => write!(to, "[\"write\",{key},{value}]")?,
            Operation::ReadList {
                key,
                elements: None,
            } => write!(to, "[\"read_list\",{key}]")?,
            Operation::ReadList {
                key,
                elements: Some(elements),
            } => {
                write!(to, "[\"read_list\",{key},[")?;
                for (at, element) in elements.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(to, "{comma}{element}")?;
                }
                to.write_all(b"]]")?;
            }
            Operation::Read { key, value: None } => write!(to, "[\"read\",{key}]")?,
            Operation::Read {
                key,
                value: Some(Register::Absent),
            } => write!(to, "[\"read\",{key},null]")?,
            Operation::Read {
                key,
                value: Some(Register::Value(value)),
            } => write!(to, "[\"read\",{key},{value}]")?,
        }
    }
    to.write_all(b"]}\n")
}
