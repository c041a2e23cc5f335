//! The accesses of a history: all operations, by object and transaction.
//!
//! This module also decides which transactions participate in the judgement. Committed
//! transactions do. A transaction of unknown outcome does when a participating transaction
//! has read one of its writes: then it did commit. One whose writes nothing has read is
//! left out, with its reads: whether it happened or not, no violation is based on it.

use std::collections::BTreeMap;

use super::Unjudgeable;
use super::graph::number;
use crate::history::{History, Operation, Outcome, Register};

/// The kind of an object: list or register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CollectionKind {
    List,
    Register,
}

impl CollectionKind {
    fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Append { .. } | Operation::ReadList { .. } => Self::List,
            Operation::Write { .. } | Operation::Read { .. } => Self::Register,
        }
    }
}

/// An operation, by its position in the history. Sorted by object, transaction and
/// position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Access {
    pub(super) key: u64,
    pub(super) transaction: u32,
    operation: u32,
}

impl Access {
    /// The operation itself.
    pub(super) fn operation<'history>(&self, history: &'history History) -> &'history Operation {
        &history.transactions[self.transaction as usize].operations[self.operation as usize]
    }
}

/// All operations on objects of one kind: those of participating transactions, and the
/// writes of aborted ones. Sorted by object, then transaction, then position.
pub(super) fn accesses(
    history: &History,
    takes_part: &[bool],
    kind: CollectionKind,
) -> Vec<Access> {
    let mut accesses = Vec::new();
    for (index, transaction) in history.transactions.iter().enumerate() {
        let aborted = transaction.outcome == Outcome::Aborted;
        if !takes_part[index] && !aborted {
            continue;
        }
        for (place, operation) in transaction.operations.iter().enumerate() {
            if CollectionKind::of(operation) == kind && (!aborted || operation.is_write()) {
                accesses.push(Access {
                    key: operation.key(),
                    transaction: number(index),
                    operation: number(place),
                });
            }
        }
    }
    accesses.sort_unstable();
    accesses
}

/// One write to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Written {
    pub(super) value: i64,
    pub(super) transaction: u32,
    /// Whether this is its transaction's last write to the object.
    pub(super) is_last: bool,
}

/// Collects the writes of one object, sorted by value.
///
/// # Errors
/// When a value was written twice: then a read of it does not identify its writer.
pub(super) fn written(
    history: &History,
    of_key: &[Access],
    into: &mut Vec<Written>,
) -> Result<(), Unjudgeable> {
    into.clear();
    for access in of_key {
        let value = match access.operation(history) {
            Operation::Append { element, .. } => *element,
            Operation::Write { value, .. } => *value,
            Operation::ReadList { .. } | Operation::Read { .. } => continue,
        };
        if let Some(before) = into.last_mut()
            && before.transaction == access.transaction
        {
            before.is_last = false;
        }
        into.push(Written {
            value,
            transaction: access.transaction,
            is_last: true,
        });
    }
    into.sort_unstable();
    match into.windows(2).find(|pair| pair[0].value == pair[1].value) {
        None => Ok(()),
        Some(pair) => Err(Unjudgeable::WrittenTwice {
            key: of_key[0].key,
            value: pair[0].value,
            by: [pair[0].transaction as usize, pair[1].transaction as usize],
        }),
    }
}

/// Finds the write of a value among an object's writes.
pub(super) fn find(written: &[Written], value: i64) -> Option<&Written> {
    let place = written.binary_search_by_key(&value, |write| write.value);
    place.ok().map(|place| &written[place])
}

/// Decides for each transaction whether it participates.
///
/// # Errors
/// When transactions of unknown outcome wrote the same value: then a read of it does not
/// tell which of them took effect.
pub(super) fn takes_part(history: &History) -> Result<Vec<bool>, Unjudgeable> {
    let transactions = &history.transactions;
    let mut takes_part: Vec<bool> = transactions
        .iter()
        .map(|transaction| transaction.is_committed())
        .collect();
    // The values that unknown transactions wrote, by object.
    let mut unknown: BTreeMap<(CollectionKind, u64), BTreeMap<i64, usize>> = BTreeMap::new();
    for (index, transaction) in transactions.iter().enumerate() {
        if transaction.outcome != Outcome::Unknown {
            continue;
        }
        for operation in &transaction.operations {
            if let Operation::Append {
                key,
                element: value,
            }
            | Operation::Write { key, value } = operation
            {
                let object = unknown
                    .entry((CollectionKind::of(operation), *key))
                    .or_default();
                if let Some(before) = object.insert(*value, index) {
                    return Err(Unjudgeable::WrittenTwice {
                        key: *key,
                        value: *value,
                        by: [before, index],
                    });
                }
            }
        }
    }
    if unknown.is_empty() {
        return Ok(takes_part);
    }
    let mut to_read: Vec<usize> = (0..transactions.len())
        .filter(|index| takes_part[*index])
        .collect();
    while let Some(reader) = to_read.pop() {
        for operation in &transactions[reader].operations {
            let Some(object) = unknown.get(&(CollectionKind::of(operation), operation.key()))
            else {
                continue;
            };
            let seen = match operation {
                Operation::ReadList {
                    elements: Some(elements),
                    ..
                } => elements.as_slice(),
                Operation::Read {
                    value: Some(Register::Value(value)),
                    ..
                } => std::slice::from_ref(value),
                _ => continue,
            };
            for value in seen {
                if let Some(writer) = object.get(value)
                    && !std::mem::replace(&mut takes_part[*writer], true)
                {
                    to_read.push(*writer);
                }
            }
        }
    }
    Ok(takes_part)
}
