//! EDN reader and writer: the subset of the format that histories need.
//!
//! EDN is how Clojure writes data: `nil`, `true`, `42`, `:keyword`, `symbol`,
//! `"text"`, `\c`, `(list)`, `[vector]`, `#{set}`, `{key value}`, `#tag datum`,
//! `#_ left-out`, `; comment`; commas are whitespace. A history is a sequence of events
//! (maps, see [`events`](super::events)), one after another or in one vector:
//!
//! ```text
//! {:index 0, :type :invoke, :process 0, :time 10, :f :txn, :value [[:append 3 1]]}
//! {:index 1, :type :ok, :process 0, :time 25, :f :txn, :value [[:append 3 1]]}
//! ```
//!
//! - The reader ignores tags: `#jepsen.history.Op{…}` is the map itself.
//! - Integers have 64 bits; the reader skips fractions and characters.
//! - Data nest at most [`DEPTH`] deep, so that a hostile file cannot exhaust the stack.
//!
//! Source: the extensible data notation, <https://github.com/edn-format/edn>.

use std::io;

use super::events::Assembler;
use super::value::Value;
use super::{History, Operation, Outcome, ReadError, Register};

/// Maximum nesting depth of data.
pub const DEPTH: usize = 64;

/// Reads a history of events.
///
/// # Errors
/// When the text is not EDN, or its events do not form a history.
pub fn read(text: &[u8]) -> Result<History, ReadError> {
    let mut parser = Parser { text, at: 0 };
    let mut events = Assembler::default();
    // The events may be wrapped in a vector or a list.
    let mut inside = None;
    loop {
        parser.blanks(0)?;
        let start = parser.at;
        match (parser.peek(), inside) {
            (None, None) => return events.finish(text),
            (None, Some(_)) => return Err(parser.wrong("the sequence of events does not end")),
            (Some(close), Some(closing)) if close == closing => {
                parser.at += 1;
                inside = None;
            }
            (Some(b'['), None) => {
                parser.at += 1;
                inside = Some(b']');
            }
            (Some(b'('), None) => {
                parser.at += 1;
                inside = Some(b')');
            }
            _ => {
                let event = parser.value(0)?;
                events.event(text, start, &event)?;
            }
        }
    }
}

struct Parser<'text> {
    text: &'text [u8],
    at: usize,
}

impl Parser<'_> {
    fn wrong(&self, problem: impl Into<String>) -> ReadError {
        ReadError::at(self.text, self.at, problem)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips whitespace, comments and discarded data.
    fn blanks(&mut self, depth: usize) -> Result<(), ReadError> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b',' | 0x0C => self.at += 1,
                b';' => {
                    let rest = &self.text[self.at..];
                    let line = rest.iter().position(|byte| *byte == b'\n');
                    self.at += line.unwrap_or(rest.len());
                }
                b'#' if self.text.get(self.at + 1) == Some(&b'_') => {
                    self.at += 2;
                    self.value(depth + 1)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Parses the next datum.
    fn value(&mut self, depth: usize) -> Result<Value, ReadError> {
        if depth > DEPTH {
            return Err(self.wrong(format!("data nest deeper than {DEPTH}")));
        }
        self.blanks(depth)?;
        let Some(byte) = self.peek() else {
            return Err(self.wrong("the text ends where a datum is due"));
        };
        match byte {
            b'[' => self.sequence(b']', depth).map(Value::Sequence),
            b'(' => self.sequence(b')', depth).map(Value::Sequence),
            b'{' => self.map(depth),
            b'"' => self.text(),
            b'\\' => {
                self.at += 1;
                // The character itself may be a delimiter.
                self.at += usize::from(self.peek().is_some());
                self.word();
                Ok(Value::Other)
            }
            b'#' => {
                self.at += 1;
                match self.peek() {
                    Some(b'{') => self.sequence(b'}', depth).map(Value::Sequence),
                    // ##Inf, ##NaN.
                    Some(b'#') => {
                        self.at += 1;
                        self.word();
                        Ok(Value::Other)
                    }
                    _ => {
                        if self.word().is_empty() {
                            return Err(self.wrong("a tag has a name"));
                        }
                        self.value(depth + 1)
                    }
                }
            }
            b']' | b')' | b'}' => {
                Err(self.wrong(format!("{:?} closes what was not opened", char::from(byte))))
            }
            _ => self.atom(),
        }
    }

    fn sequence(&mut self, close: u8, depth: usize) -> Result<Vec<Value>, ReadError> {
        let open = self.at;
        self.at += 1;
        let mut values = Vec::new();
        loop {
            self.blanks(depth)?;
            match self.peek() {
                None => {
                    let problem = "what is opened here is not closed";
                    return Err(ReadError::at(self.text, open, problem));
                }
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(values);
                }
                Some(_) => values.push(self.value(depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, ReadError> {
        let open = self.at;
        let values = self.sequence(b'}', depth)?;
        if values.len() % 2 != 0 {
            let problem = "a key of this map has no value";
            return Err(ReadError::at(self.text, open, problem));
        }
        let mut values = values.into_iter();
        let mut entries = Vec::with_capacity(values.len() / 2);
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            entries.push((key, value));
        }
        Ok(Value::Map(entries))
    }

    fn text(&mut self) -> Result<Value, ReadError> {
        let open = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let Some(byte) = self.peek() else {
                let problem = "this text is not closed";
                return Err(ReadError::at(self.text, open, problem));
            };
            self.at += 1;
            match byte {
                b'"' => return Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned())),
                // Histories do not need the escaped character; but an escaped quote does
                // not end the text.
                b'\\' => {
                    bytes.extend(self.peek());
                    self.at += usize::from(self.peek().is_some());
                }
                byte => bytes.push(byte),
            }
        }
    }

    /// Skips to the end of the word that begins here, and returns it.
    fn word(&mut self) -> &[u8] {
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b",;\"()[]{}\\".contains(byte);
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn atom(&mut self) -> Result<Value, ReadError> {
        let start = self.at;
        let word = String::from_utf8_lossy(self.word()).into_owned();
        let wrong = |problem: String| Err(ReadError::at(self.text, start, problem));
        let digits = word.strip_prefix(['+', '-']).unwrap_or(&word);
        if digits.starts_with(|character: char| character.is_ascii_digit()) {
            let whole = word.strip_suffix('N').unwrap_or(&word);
            if let Ok(number) = whole.parse() {
                return Ok(Value::Integer(number));
            }
            if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return wrong(format!("{word} does not fit into 64 bits"));
            }
            return Ok(Value::Other);
        }
        match word.as_str() {
            "nil" => Ok(Value::Nil),
            "true" => Ok(Value::Boolean(true)),
            "false" => Ok(Value::Boolean(false)),
            _ => match word.strip_prefix(':') {
                Some("") => wrong("a keyword has a name".to_owned()),
                Some(name) => Ok(Value::Text(name.to_owned())),
                None => Ok(Value::Text(word)),
            },
        }
    }
}

/// Writes a history as events, an invocation and a completion for each transaction, in the
/// order of their times.
///
/// Transactions without completion are written as `info`, at the end. Committed
/// transactions without a finish time are written there too, as `ok`.
///
/// # Errors
/// Any error of the writer `to`.
/// Those of the writer.
pub fn write(history: &History, to: &mut dyn io::Write) -> io::Result<()> {
    let transactions = &history.transactions;
    // Of events with equal times, invocations come first: equal times define no order. But
    // a process cannot invoke before it has completed.
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * transactions.len());
    let last = transactions
        .iter()
        .map(|transaction| transaction.started.max(transaction.finished.unwrap_or(0)))
        .max()
        .map_or(0, |time| time.saturating_add(1));
    for (index, transaction) in transactions.iter().enumerate() {
        moments.push((transaction.started, false, index));
        moments.push((transaction.finished.unwrap_or(last), true, index));
    }
    moments.sort_unstable();
    for (index, (time, completes, of)) in moments.into_iter().enumerate() {
        let transaction = &transactions[of];
        let kind = match (completes, transaction.outcome) {
            (false, _) => "invoke",
            (true, Outcome::Committed) => "ok",
            (true, Outcome::Aborted) => "fail",
            (true, Outcome::Unknown) => "info",
        };
        let read_only = if transaction.read_only {
            ", :read-only true"
        } else {
            ""
        };
        write!(
            to,
            "{{:index {index}, :type :{kind}, :process {}, :time {time}, :f :txn{read_only}, :value [",
            transaction.process
        )?;
        for (at, operation) in transaction.operations.iter().enumerate() {
            if at > 0 {
                to.write_all(b" ")?;
            }
            write_operation(operation, completes, to)?;
        }
        to.write_all(b"]}\n")?;
    }
    Ok(())
}

fn write_operation(
    operation: &Operation,
    completes: bool,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    match operation {
        Operation::Append { key, element } => write!(to, "[:append {key} {element}]"),
        Operation::Write { key, value } => write!(to, "[:w {key} {value}]"),
        Operation::ReadList {
            key,
            elements: Some(elements),
        } if completes => {
            write!(to, "[:r {key} [")?;
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    to.write_all(b" ")?;
                }
                write!(to, "{element}")?;
            }
            to.write_all(b"]]")
        }
        Operation::Read {
            key,
            value: Some(Register::Value(value)),
        } if completes => write!(to, "[:r {key} {value}]"),
        Operation::ReadList { key, .. } | Operation::Read { key, .. } => {
            write!(to, "[:r {key} nil]")
        }
    }
}
