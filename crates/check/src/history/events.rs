//! Events of a history in Jepsen's format, and the assembly of transactions from them.
//!
//! Jepsen records an event at the moment it happens: a process invokes a transaction, and
//! later learns that it is `ok` (committed), has `fail`ed (aborted), or is `info`
//! (unknown). Between the two the process does nothing else.
//!
//! ```text
//! {:process 0, :type :invoke, :f :txn, :value [[:append 3 1] [:r 3 nil]], :time 10}
//! {:process 0, :type :ok,     :f :txn, :value [[:append 3 1] [:r 3 [1]]], :time 25}
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | `process` | the session; the reader skips events of processes that are not numbers (`:nemesis`); without the field, all events belong to one process |
//! | `type` | `invoke`, `ok`, `fail`, `info` |
//! | `time` | nanoseconds, not negative; without it, the event's position in the file is its time |
//! | `f` | `txn` or nothing: a transaction; `read`, `write`: a single operation on a register |
//! | `value` | for `txn`: its operations, `[:append key element]`, `[:r key answer]`, `[:w key value]`; for `read` and `write`: the value, or `[key value]`; the default key is 0 |
//! | `read-only` | whether the transaction was declared so; an extension of this project |
//!
//! - `nil` as the answer of a read means an empty list or a register that was never written
//!   when the transaction is `ok`, and "not received" otherwise.
//! - Events are in the order in which they happened. Where times are equal, or contradict
//!   that order, the order counts: the reader makes an event's time at least one nanosecond
//!   greater than the previous event's.
//! - A key that is not a number from 0 up, such as `:x`, gets the smallest number that no
//!   other key has, in order of appearance.
//! - An invocation without completion has an unknown outcome.
//! - In a history of completions alone, transactions are sequential: each began when it
//!   ended. In a history with invocations, the reader rejects a completion without one: the
//!   transaction would have no start time, and so a wrong position in real time.
//! - The reader ignores what a `fail` or an `info` contains instead of its operations
//!   (`:timed-out`), since the invocation has named the attempted operations. Without an
//!   invocation, the reader rejects it: other transactions may have seen effects that the
//!   history does not contain.

use std::collections::{BTreeMap, BTreeSet};

use super::value::Value;
use super::{History, Operation, Outcome, ReadError, Register, Transaction};

/// A key before the assembler has assigned numbers to names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Name(usize),
}

/// An operation before the assembler knows which keys are lists.
#[derive(Clone, Debug)]
enum RawOperation {
    Append(Key, i64),
    Write(Key, i64),
    Read(Key, Answer),
}

#[derive(Clone, Debug)]
enum Answer {
    Nil,
    One(i64),
    Many(Vec<i64>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    Invoke,
    Done(Outcome),
}

/// A transaction whose steps have not been converted to operations yet.
struct Draft {
    process: u64,
    started: u64,
    finished: Option<u64>,
    outcome: Outcome,
    read_only: bool,
    steps: Vec<RawOperation>,
    offset: usize,
}

/// Assembles a history from events in order.
#[derive(Default)]
pub(super) struct Assembler {
    names: BTreeMap<String, usize>,
    pending: BTreeMap<u64, Draft>,
    done: Vec<Draft>,
    /// Whether any event was an invocation.
    has_invocations: bool,
    /// Offset of the first completion without an invocation.
    lone: Option<usize>,
    /// Whether events have times; decided by the first.
    timed: Option<bool>,
    clock: Option<u64>,
}

impl Assembler {
    /// Processes one event, which begins at `offset` in the text.
    pub(super) fn event(
        &mut self,
        text: &[u8],
        offset: usize,
        event: &Value,
    ) -> Result<(), ReadError> {
        self.take(offset, event)
            .map_err(|problem| ReadError::at(text, offset, problem))
    }

    fn take(&mut self, offset: usize, event: &Value) -> Result<(), String> {
        if !matches!(event, Value::Map(_)) {
            return Err(format!("an event is a map, not {}", event.kind()));
        }
        let process = match event.get("process") {
            None | Some(Value::Nil) => 0,
            Some(Value::Integer(process)) => u64::try_from(*process)
                .map_err(|_| format!("process {process}: they are numbered from 0"))?,
            // Events of the nemesis, and of other processes that are not clients.
            Some(_) => return Ok(()),
        };
        let kind = match event.get("type") {
            Some(Value::Text(kind)) => match kind.as_str() {
                "invoke" => EventKind::Invoke,
                "ok" => EventKind::Done(Outcome::Committed),
                "fail" => EventKind::Done(Outcome::Aborted),
                "info" => EventKind::Done(Outcome::Unknown),
                other => {
                    return Err(format!("type {other:?} is none of invoke, ok, fail, info"));
                }
            },
            Some(other) => {
                return Err(format!(
                    "the type of an event is a word, not {}",
                    other.kind()
                ));
            }
            None => return Err("an event has a type".to_owned()),
        };
        let time = self.time(event)?;
        let steps = match (self.steps(event), kind) {
            (Err(_), EventKind::Done(outcome))
                if outcome != Outcome::Committed && self.has_invoked(process) =>
            {
                None
            }
            (steps, _) => steps?,
        };
        let read_only = event.get("read-only") == Some(&Value::Boolean(true));
        match kind {
            EventKind::Invoke => {
                self.has_invocations = true;
                let draft = Draft {
                    process,
                    started: time,
                    finished: None,
                    outcome: Outcome::Unknown,
                    read_only,
                    steps: steps.unwrap_or_default(),
                    offset,
                };
                if self.pending.insert(process, draft).is_some() {
                    return Err(format!(
                        "process {process} invokes while its last invocation is not completed"
                    ));
                }
            }
            EventKind::Done(outcome) => {
                let invoked = self.pending.remove(&process);
                if invoked.is_none() {
                    self.lone.get_or_insert(offset);
                }
                let mut draft = invoked.unwrap_or(Draft {
                    process,
                    started: time,
                    finished: None,
                    outcome,
                    read_only,
                    steps: Vec::new(),
                    offset,
                });
                draft.outcome = outcome;
                draft.finished = (outcome != Outcome::Unknown).then_some(time);
                draft.read_only |= read_only;
                if let Some(steps) = steps {
                    draft.steps = steps;
                }
                self.done.push(draft);
            }
        }
        Ok(())
    }

    /// Whether the operations that a process is attempting are known.
    fn has_invoked(&self, process: u64) -> bool {
        let pending = self.pending.get(&process);
        pending.is_some_and(|draft| !draft.steps.is_empty())
    }

    fn time(&mut self, event: &Value) -> Result<u64, String> {
        let said = match event.get("time") {
            None | Some(Value::Nil) => None,
            Some(Value::Integer(time)) => Some(
                u64::try_from(*time).map_err(|_| format!("time {time}: it counts from 0 up"))?,
            ),
            Some(other) => return Err(format!("a time is a number, not {}", other.kind())),
        };
        if *self.timed.get_or_insert(said.is_some()) != said.is_some() {
            return Err("some events have a time and some have none".to_owned());
        }
        let least = match self.clock {
            None => 0,
            Some(clock) => clock.checked_add(1).ok_or("time is at its end")?,
        };
        let time = said.unwrap_or(least).max(least);
        self.clock = Some(time);
        Ok(time)
    }

    fn steps(&mut self, event: &Value) -> Result<Option<Vec<RawOperation>>, String> {
        let value = event.get("value").unwrap_or(&Value::Nil);
        let function = match event.get("f") {
            None | Some(Value::Nil) => "txn",
            Some(Value::Text(function)) => function.as_str(),
            Some(other) => return Err(format!("f is a word, not {}", other.kind())),
        };
        match (function, value) {
            ("txn", Value::Nil) => Ok(None),
            ("txn", Value::Sequence(operations)) => operations
                .iter()
                .map(|operation| self.step(operation))
                .collect::<Result<_, _>>()
                .map(Some),
            ("txn", other) => Err(format!(
                "the value of a transaction is a sequence of operations, not {}",
                other.kind()
            )),
            ("read" | "write", value) => {
                let (key, value) = match value {
                    Value::Sequence(pair) => match &pair[..] {
                        [key, value] => (self.key(key)?, value),
                        _ => return Err(format!("{function} has a value, or [key value]")),
                    },
                    value => (Key::Number(0), value),
                };
                let step = if function == "read" {
                    RawOperation::Read(key, answer(value)?)
                } else {
                    RawOperation::Write(key, integer(value, "what is written")?)
                };
                Ok(Some(vec![step]))
            }
            (other, _) => Err(format!("f {other:?} is none of txn, read, write")),
        }
    }

    fn step(&mut self, operation: &Value) -> Result<RawOperation, String> {
        let shape = "an operation is [:append key element], [:r key answer] or [:w key value]";
        let Value::Sequence(parts) = operation else {
            return Err(format!("{shape}, not {}", operation.kind()));
        };
        let [Value::Text(name), key, value] = &parts[..] else {
            return Err(shape.to_owned());
        };
        let key = self.key(key)?;
        match name.as_str() {
            "append" => Ok(RawOperation::Append(key, integer(value, "an element")?)),
            "w" | "write" => Ok(RawOperation::Write(key, integer(value, "what is written")?)),
            "r" | "read" => Ok(RawOperation::Read(key, answer(value)?)),
            other => Err(format!("operation {other:?} is none of append, r, w")),
        }
    }

    fn key(&mut self, key: &Value) -> Result<Key, String> {
        let name = match key {
            Value::Integer(number) => match u64::try_from(*number) {
                Ok(number) => return Ok(Key::Number(number)),
                Err(_) => number.to_string(),
            },
            Value::Text(name) => name.clone(),
            other => return Err(format!("a key is a number or a word, not {}", other.kind())),
        };
        let next = self.names.len();
        Ok(Key::Name(*self.names.entry(name).or_insert(next)))
    }

    /// Ends the assembly after the last event.
    pub(super) fn finish(mut self, text: &[u8]) -> Result<History, ReadError> {
        if let Some(offset) = self.lone.filter(|_| self.has_invocations) {
            let problem = "this was completed and never invoked: when did it begin?";
            return Err(ReadError::at(text, offset, problem));
        }
        let mut drafts = std::mem::take(&mut self.done);
        drafts.extend(std::mem::take(&mut self.pending).into_values());
        let steps = || drafts.iter().flat_map(|draft| &draft.steps);
        let mut numbers = BTreeSet::new();
        let mut lists = BTreeSet::new();
        let mut registers = BTreeSet::new();
        for step in steps() {
            let (RawOperation::Append(key, _)
            | RawOperation::Write(key, _)
            | RawOperation::Read(key, _)) = step;
            if let Key::Number(number) = key {
                numbers.insert(*number);
            }
            match step {
                RawOperation::Append(..) | RawOperation::Read(_, Answer::Many(_)) => {
                    lists.insert(key.clone())
                }
                RawOperation::Write(..) | RawOperation::Read(_, Answer::One(_)) => {
                    registers.insert(key.clone())
                }
                RawOperation::Read(_, Answer::Nil) => false,
            };
        }
        // A key that was only ever read as nil has the kind that all other keys have.
        let unwritten_is_list = !lists.is_empty() && registers.is_empty();
        let names = numbers_for(self.names.len(), &numbers);
        let is_list =
            |key: &Key| lists.contains(key) || (unwritten_is_list && !registers.contains(key));
        let mut transactions = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let learnt = draft.outcome == Outcome::Committed;
            let mut operations = Vec::with_capacity(draft.steps.len());
            for step in draft.steps {
                let (RawOperation::Append(key, _)
                | RawOperation::Write(key, _)
                | RawOperation::Read(key, _)) = &step;
                if lists.contains(key) && registers.contains(key) {
                    let problem = "a key of this transaction is a list here and a register there";
                    return Err(ReadError::at(text, draft.offset, problem));
                }
                let number = match key {
                    Key::Number(number) => *number,
                    Key::Name(index) => names[*index],
                };
                operations.push(operation(step.clone(), number, is_list(key), learnt));
            }
            transactions.push(Transaction {
                process: draft.process,
                started: draft.started,
                finished: draft.finished,
                outcome: draft.outcome,
                read_only: draft.read_only,
                operations,
            });
        }
        Ok(History { transactions })
    }
}

/// The smallest `count` numbers that are not taken.
fn numbers_for(count: usize, taken: &BTreeSet<u64>) -> Vec<u64> {
    (0..=u64::MAX)
        .filter(|number| !taken.contains(number))
        .take(count)
        .collect()
}

fn operation(step: RawOperation, key: u64, is_list: bool, learnt: bool) -> Operation {
    match step {
        RawOperation::Append(_, element) => Operation::Append { key, element },
        RawOperation::Write(_, value) => Operation::Write { key, value },
        RawOperation::Read(_, Answer::Nil) if is_list => Operation::ReadList {
            key,
            elements: learnt.then(Vec::new),
        },
        RawOperation::Read(_, Answer::Nil) => Operation::Read {
            key,
            value: learnt.then_some(Register::Absent),
        },
        RawOperation::Read(_, Answer::One(value)) => Operation::Read {
            key,
            value: Some(Register::Value(value)),
        },
        RawOperation::Read(_, Answer::Many(elements)) => Operation::ReadList {
            key,
            elements: Some(elements),
        },
    }
}

fn answer(value: &Value) -> Result<Answer, String> {
    match value {
        Value::Nil => Ok(Answer::Nil),
        Value::Integer(value) => Ok(Answer::One(*value)),
        Value::Sequence(elements) => elements
            .iter()
            .map(|element| integer(element, "an element"))
            .collect::<Result<_, _>>()
            .map(Answer::Many),
        other => Err(format!(
            "a read answers nil, a number or a list of numbers, not {}",
            other.kind()
        )),
    }
}

fn integer(value: &Value, what: &str) -> Result<i64, String> {
    match value {
        Value::Integer(value) => Ok(*value),
        other => Err(format!("{what} is a number, not {}", other.kind())),
    }
}
