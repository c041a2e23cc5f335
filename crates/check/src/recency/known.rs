//! The order of versions as far as it is known without a graph of transactions.
//!
//! Every later read of a list must contain every acknowledged element, since lists only
//! grow. In a register, state a is older than b if
//!
//! - a is the initial state,
//! - b was written by a transaction that had read a,
//! - the write of a was acknowledged before that of b started: only where real time is
//!   guaranteed, which it is not in [`sessions`](super::sessions),
//!
//! or if a chain of such steps leads from a to b. [`registers`](super::registers) shows how
//! to answer that in constant time.

use crate::history::{History, Operation, Outcome};
use crate::transactions::Unjudgeable;

/// An append or a write, with its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    pub(super) key: u64,
    pub(super) value: i64,
    pub(super) transaction: usize,
}

/// All appends, or all writes, of whatever outcome, sorted by key and value.
///
/// # Errors
/// When a value was written twice: then a read of it does not identify its writer.
pub(super) fn all(
    history: &History,
    select: impl Fn(&Operation) -> Option<(u64, i64)>,
) -> Result<Vec<Write>, Unjudgeable> {
    let mut writes = Vec::new();
    for (transaction, of) in history.transactions.iter().enumerate() {
        let selected = of.operations.iter().filter_map(&select);
        writes.extend(selected.map(|(key, value)| Write {
            key,
            value,
            transaction,
        }));
    }
    writes.sort_unstable();
    let mut pairs = writes.windows(2);
    match pairs.find(|pair| (pair[0].key, pair[0].value) == (pair[1].key, pair[1].value)) {
        None => Ok(writes),
        Some(pair) => Err(Unjudgeable::WrittenTwice {
            key: pair[0].key,
            value: pair[0].value,
            by: [pair[0].transaction, pair[1].transaction],
        }),
    }
}

/// The acknowledged appends to lists.
pub(super) struct Appends {
    /// Sorted by key, then by the time of acknowledgement.
    acknowledged: Vec<(u64, u64, Write)>,
}

impl Appends {
    pub(super) fn new(history: &History) -> Result<Self, Unjudgeable> {
        let appends = all(history, |operation| match operation {
            Operation::Append { key, element } => Some((*key, *element)),
            _ => None,
        })?;
        let mut acknowledged: Vec<_> = appends
            .into_iter()
            .filter_map(|write| {
                let at = history.transactions[write.transaction].acknowledged_at()?;
                Some((write.key, at, write))
            })
            .collect();
        acknowledged.sort_unstable();
        Ok(Self { acknowledged })
    }

    /// The first element of a list that was acknowledged before `moment` and that a read
    /// does not contain; with the time of acknowledgement.
    ///
    /// The search skips an element only if the read contains it, and each element occurs
    /// once: so it takes at most one step more than the read has elements.
    pub(super) fn missing(&self, key: u64, moment: u64, shown: &Shown) -> Option<(u64, Write)> {
        let first = self.acknowledged.partition_point(|(of, ..)| *of < key);
        let of_key = self.acknowledged[first..].iter();
        of_key
            .take_while(|(of, at, _)| *of == key && *at < moment)
            .find(|(.., write)| !shown.has(write.value))
            .map(|(_, at, write)| (*at, *write))
    }
}

/// The set of elements of a read.
#[derive(Default)]
pub(super) struct Shown(Vec<i64>);

impl Shown {
    /// Replaces the elements by those of another read.
    pub(super) fn set(&mut self, elements: &[i64]) {
        self.0.clear();
        self.0.extend_from_slice(elements);
        self.0.sort_unstable();
    }

    pub(super) fn has(&self, element: i64) -> bool {
        self.0.binary_search(&element).is_ok()
    }
}

/// Whether other transactions may ever see this write.
pub(super) fn may_be_seen(history: &History, write: &Write) -> bool {
    history.transactions[write.transaction].outcome != Outcome::Aborted
}
