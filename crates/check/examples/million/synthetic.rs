//! Generator of strictly serializable histories of any length.
//!
//! Transaction i takes effect at time 1000 · i, starts up to 12,000 before and finishes up
//! to 12,000 after that; 32 processes take turns, so that the transactions of one do not
//! overlap. It has two to six operations on objects, 64 of which are in use at a time; an
//! object that was written 48 times is replaced by a new one.

use coeval_check::history::{History, Operation, Outcome, Register, Transaction};

/// The kind of objects that the transactions access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// Lists, by appends and reads.
    Lists,
    /// Registers, by writes, half of them after a read, and reads.
    Registers,
}

const PROCESSES: usize = 32;
const IN_USE: usize = 64;
const WRITES: usize = 48;

/// A pseudorandom number generator that is determined by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// An object, and the values written to it.
struct Object {
    key: u64,
    written: Vec<i64>,
}

/// Generates a history of `count` transactions.
pub fn history(count: usize, objects: Objects, seed: u64) -> History {
    let mut random = Random(seed);
    let mut next_key = IN_USE as u64;
    let mut in_use: Vec<Object> = (0..next_key)
        .map(|key| Object {
            key,
            written: Vec::new(),
        })
        .collect();
    let transactions = (0..count).map(|index| {
        let moment = 20_000 + 1_000 * index as u64;
        let mut operations = Vec::new();
        for _ in 0..2 + random.below(5) {
            let object = &mut in_use[random.below(IN_USE as u64) as usize];
            let key = object.key;
            let read = match objects {
                Objects::Lists => Operation::ReadList {
                    key,
                    elements: Some(object.written.clone()),
                },
                Objects::Registers => Operation::Read {
                    key,
                    value: Some(
                        object
                            .written
                            .last()
                            .copied()
                            .map_or(Register::Absent, Register::Value),
                    ),
                },
            };
            let writes = random.below(2) == 0;
            if !writes || random.below(2) == 0 {
                operations.push(read);
            }
            if writes {
                let value = object.written.len() as i64 + 1;
                object.written.push(value);
                operations.push(match objects {
                    Objects::Lists => Operation::Append {
                        key,
                        element: value,
                    },
                    Objects::Registers => Operation::Write { key, value },
                });
            }
            if object.written.len() == WRITES {
                *object = Object {
                    key: next_key,
                    written: Vec::new(),
                };
                next_key += 1;
            }
        }
        Transaction {
            process: (index % PROCESSES) as u64,
            started: moment - random.below(12_000),
            finished: Some(moment + random.below(12_000)),
            outcome: Outcome::Committed,
            read_only: operations.iter().all(|operation| !operation.is_write()),
            operations,
        }
    });
    History {
        transactions: transactions.collect(),
    }
}

/// Adds a transaction in the middle that reads one object as it was before a write that was
/// acknowledged before the transaction started. It has only this read, so that it violates
/// nothing but real time. Returns its index.
pub fn plant_stale_read(history: &mut History) -> Option<usize> {
    let transactions = &history.transactions;
    let middle = transactions.len() / 2;
    // A write, and the write before it, which had finished by then.
    let (writer, stale) = (middle..transactions.len()).find_map(|writer| {
        let mut writes = transactions[writer].operations.iter();
        let (key, value) = written(writes.find(|one| one.is_write())?)?;
        let before = (writer.saturating_sub(400)..writer).find(|before| {
            let mut writes = transactions[*before].operations.iter();
            writes.any(|one| written(one) == Some((key, value - 1)))
        })?;
        let is_before = transactions[before].precedes(&transactions[writer]);
        is_before.then(|| {
            let stale = match transactions[writer]
                .operations
                .iter()
                .find(|one| one.is_write())
            {
                Some(Operation::Append { .. }) => Operation::ReadList {
                    key,
                    elements: Some((1..value).collect()),
                },
                _ => Operation::Read {
                    key,
                    value: Some(Register::Value(value - 1)),
                },
            };
            (writer, stale)
        })
    })?;
    let started = transactions[writer].finished? + 1;
    history.transactions.push(Transaction {
        process: PROCESSES as u64,
        started,
        finished: Some(started + 500),
        outcome: Outcome::Committed,
        read_only: true,
        operations: vec![stale],
    });
    Some(history.transactions.len() - 1)
}

fn written(operation: &Operation) -> Option<(u64, i64)> {
    match operation {
        Operation::Append {
            key,
            element: value,
        }
        | Operation::Write { key, value } => Some((*key, *value)),
        _ => None,
    }
}
