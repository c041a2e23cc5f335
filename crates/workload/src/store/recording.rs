//! History recorder of one client's session: it notes the operations of each transaction.
//!
//! ```text
//!   transactions   T0: 2 operations   T1: 1       …
//!   operations     append 7 to 3 │ read 4: [0..2) │ write 9 to 1 …
//!   elements       5 6 …
//! ```
//!
//! The recorder must not distort the measurement. So it allocates nothing per
//! transaction: operations are appended to three preallocated buffers, which belong to
//! one client alone (no lock, nothing shared); a list that was read is copied, and its
//! own allocation is reused. The history is assembled once, when the run is over.
//!
//! Invariants:
//! - A transaction's operations are those recorded since the previous transaction was
//!   closed.

use coeval_check::history::{Operation, Outcome, Register, Transaction};

/// Initial capacity, in transactions, operations and elements.
const ROOM: [usize; 3] = [1 << 14, 1 << 16, 1 << 18];

/// An operation; a list that it read is a range of the elements.
#[derive(Clone, Copy, Debug)]
enum RecordedOperation {
    Append { key: u64, element: i64 },
    ReadList { key: u64, elements: Option<usize> },
    Write { key: u64, value: i64 },
    Read { key: u64, value: Option<Register> },
}

impl RecordedOperation {
    /// Converts to a history's operation, taking the next elements for its list.
    fn whole(self, elements: &mut impl Iterator<Item = i64>) -> Operation {
        match self {
            Self::Append { key, element } => Operation::Append { key, element },
            Self::Write { key, value } => Operation::Write { key, value },
            Self::Read { key, value } => Operation::Read { key, value },
            Self::ReadList {
                key,
                elements: count,
            } => Operation::ReadList {
                key,
                elements: count.map(|count| elements.take(count).collect()),
            },
        }
    }
}

/// A transaction without its operations.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Process of the transaction.
    pub process: u64,
    /// Start time, in nanoseconds since the start of the run.
    pub started: u64,
    /// Time at which the outcome was known, in nanoseconds since the start of the run;
    /// `None` if it never was.
    pub finished: Option<u64>,
    /// Outcome of the transaction.
    pub outcome: Outcome,
    /// Whether the transaction was declared read-only.
    pub read_only: bool,
}

/// Recorded transactions of one client; see the [module](self).
#[derive(Debug)]
pub struct Recording {
    /// Each transaction with the end of its operations.
    transactions: Vec<(Head, usize)>,
    operations: Vec<RecordedOperation>,
    elements: Vec<i64>,
}

impl Recording {
    pub(super) fn new() -> Self {
        Self {
            transactions: Vec::with_capacity(ROOM[0]),
            operations: Vec::with_capacity(ROOM[1]),
            elements: Vec::with_capacity(ROOM[2]),
        }
    }

    #[inline]
    pub(super) fn note(&mut self, operation: Operation) {
        self.operations.push(match operation {
            Operation::Append { key, element } => RecordedOperation::Append { key, element },
            Operation::Write { key, value } => RecordedOperation::Write { key, value },
            Operation::Read { key, value } => RecordedOperation::Read { key, value },
            Operation::ReadList { key, elements } => RecordedOperation::ReadList {
                key,
                elements: elements.map(|elements| {
                    self.elements.extend_from_slice(&elements);
                    elements.len()
                }),
            },
        });
    }

    #[inline]
    pub(super) fn close(&mut self, head: Head) {
        self.transactions.push((head, self.operations.len()));
    }

    /// Removes and returns the operations recorded since the last transaction was closed.
    pub(super) fn take(&mut self) -> Vec<Operation> {
        let from = self.transactions.last().map_or(0, |&(_, end)| end);
        let noted = self.operations.split_off(from);
        let lists = noted.iter().map(|noted| match noted {
            RecordedOperation::ReadList { elements, .. } => elements.unwrap_or(0),
            _ => 0,
        });
        let first = self.elements.len() - lists.sum::<usize>();
        let elements = self.elements.split_off(first);
        let mut elements = elements.into_iter();
        noted
            .into_iter()
            .map(|noted| noted.whole(&mut elements))
            .collect()
    }

    /// Converts to the transactions of a history.
    #[must_use]
    pub fn into_transactions(self) -> Vec<Transaction> {
        let mut elements = self.elements.into_iter();
        let mut operations = self.operations.into_iter();
        let mut from = 0;
        let mut operation = |noted: RecordedOperation| noted.whole(&mut elements);
        let transaction = |(head, end): (Head, usize)| {
            let count = end - std::mem::replace(&mut from, end);
            Transaction {
                process: head.process,
                started: head.started,
                finished: head.finished,
                outcome: head.outcome,
                read_only: head.read_only,
                operations: operations
                    .by_ref()
                    .take(count)
                    .map(&mut operation)
                    .collect(),
            }
        };
        self.transactions.into_iter().map(transaction).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_comes_back() {
        let mut recording = Recording::new();
        let list = |key, elements: Option<&[i64]>| Operation::ReadList {
            key,
            elements: elements.map(<[i64]>::to_vec),
        };
        let did = [
            vec![
                Operation::Append { key: 1, element: 7 },
                list(2, Some(&[4, 5])),
            ],
            vec![],
            vec![
                list(3, None),
                list(1, Some(&[])),
                list(1, Some(&[7])),
                Operation::Write { key: 9, value: -1 },
                Operation::Read {
                    key: 9,
                    value: Some(Register::Value(-1)),
                },
                Operation::Read {
                    key: 8,
                    value: None,
                },
            ],
        ];
        for (number, operations) in (0_u64..).zip(&did) {
            for operation in operations {
                recording.note(operation.clone());
            }
            recording.close(Head {
                process: number,
                started: 10 * number,
                finished: (number != 1).then_some(10 * number + 1),
                outcome: Outcome::Committed,
                read_only: number == 2,
            });
        }
        let transactions = recording.into_transactions();
        assert_eq!(transactions.len(), did.len());
        for ((number, transaction), operations) in (0..).zip(transactions).zip(did) {
            assert_eq!(transaction.operations, operations);
            assert_eq!(
                (transaction.process, transaction.started),
                (number, 10 * number)
            );
            assert_eq!(transaction.finished.is_some(), number != 1);
            assert_eq!(transaction.read_only, number == 2);
        }
    }
}
