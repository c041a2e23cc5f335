//! The bank judge: money is moved, and none is made.
//!
//! Accounts are registers that hold balances, and every transaction moves an amount
//! between them. Then whoever reads all accounts in one snapshot finds the same total:
//!
//! ```text
//! T0   read 1: 10, read 2: 5, write 1: 7, write 2: 8
//! T1   read 1: 7, read 2: 5        12 instead of 15: saw one half of T0
//! ```
//!
//! Values are balances here and come again, so the judge of transactions cannot be
//! asked about such a history. This one sees less: a wrong total needs a snapshot that
//! is torn, or an update that is lost. What survives a crash is the matter of
//! [`ledger`](crate::ledger).
//!
//! Only committed transactions that read every account, and write none, are looked at.
//! They have to run at repeatable read or above: at read committed, each statement has
//! a snapshot of its own. An account that is absent counts as 0.
//!
//! Source: the bank workload of Jepsen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::{History, Operation, Register};

/// A read of all accounts that found another total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongTotal {
    /// The reader, by its place in the history.
    pub reader: usize,
    /// What it found in all.
    pub found: i128,
    /// What there is.
    pub expected: i128,
}

impl fmt::Display for WrongTotal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reader,
            found,
            expected,
        } = self;
        write!(
            formatter,
            "T{reader} found {found} in all accounts, instead of {expected}"
        )
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many accounts there are.
    pub accounts: usize,
    /// How many transactions read all of them. When none did, nothing was judged.
    pub reads: usize,
    /// In the order of the history.
    pub wrong: Vec<WrongTotal>,
}

/// Judges every read of all accounts. Without a total, the earliest says what it is.
#[must_use]
pub fn judge(history: &History, total: Option<i128>) -> Report {
    let operations = || {
        let committed = history.transactions.iter();
        let committed = committed.filter(|transaction| transaction.is_committed());
        committed.flat_map(|transaction| &transaction.operations)
    };
    let accounts: BTreeSet<u64> = operations()
        .filter(|operation| matches!(operation, Operation::Read { .. } | Operation::Write { .. }))
        .map(Operation::key)
        .collect();
    let mut report = Report {
        accounts: accounts.len(),
        ..Report::default()
    };
    let mut totals: Vec<(u64, usize, i128)> = Vec::new();
    for (reader, transaction) in history.transactions.iter().enumerate() {
        if !transaction.is_committed() || transaction.writes() {
            continue;
        }
        let mut balances: BTreeMap<u64, i128> = BTreeMap::new();
        for operation in &transaction.operations {
            if let Operation::Read {
                key,
                value: Some(value),
            } = operation
            {
                let balance = match value {
                    Register::Absent => 0,
                    Register::Value(balance) => i128::from(*balance),
                };
                balances.entry(*key).or_insert(balance);
            }
        }
        if !balances.is_empty() && balances.len() == accounts.len() {
            totals.push((transaction.started, reader, balances.values().sum()));
        }
    }
    report.reads = totals.len();
    let first = totals.iter().min().map(|(_, _, total)| *total);
    if let Some(expected) = total.or(first) {
        let wrong = totals
            .into_iter()
            .filter(|(_, _, found)| *found != expected);
        report.wrong = wrong
            .map(|(_, reader, found)| WrongTotal {
                reader,
                found,
                expected,
            })
            .collect();
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Format, read};

    const MOVES: &str = "
        {:type :ok :process 0 :value [[:w 1 10] [:w 2 5]]}
        {:type :ok :process 1 :value [[:r 1 10] [:r 2 5]]}
        {:type :ok :process 0 :value [[:r 1 10] [:r 2 5] [:w 1 7] [:w 2 8]]}";

    fn judged(last: &str, total: Option<i128>) -> Report {
        let history = read(format!("{MOVES}{last}").as_bytes(), Format::Edn).unwrap();
        judge(&history, total)
    }

    #[test]
    fn half_a_move_is_seen() {
        let torn = judged("{:type :ok :process 1 :value [[:r 1 7] [:r 2 5]]}", None);
        assert_eq!((torn.accounts, torn.reads), (2, 2));
        assert_eq!(
            torn.wrong,
            [WrongTotal {
                reader: 3,
                found: 12,
                expected: 15
            }]
        );
        let whole = judged("{:type :ok :process 1 :value [[:r 1 7] [:r 2 8]]}", None);
        assert_eq!(whole.wrong, []);
    }

    #[test]
    fn a_total_that_was_wrong_from_the_start_is_seen() {
        assert_eq!(judged("", Some(16)).wrong.len(), 1);
        assert_eq!(judged("", Some(15)).wrong, []);
    }

    #[test]
    fn who_read_only_some_accounts_or_wrote_says_nothing() {
        let one = judged("{:type :ok :process 1 :value [[:r 1 999]]}", None);
        assert_eq!((one.reads, one.wrong.len()), (1, 0));
        let aborted = judged(
            "{:type :fail :process 1 :value [[:r 1 999] [:r 2 0]]}",
            None,
        );
        assert_eq!(aborted.wrong, []);
        let history = read(b"{:type :ok :value [[:w 1 1]]}", Format::Edn).unwrap();
        assert_eq!(judge(&history, Some(1)).reads, 0);
    }
}
