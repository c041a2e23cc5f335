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
//! Neither format of a history marks a read of all accounts, so it is as in the workload
//! that this comes from: **whoever reads and does not write reads all accounts**, and the
//! accounts are the same throughout: opened before the first of these reads, and never
//! closed. Those are accounts that some committed transaction has written, or found a
//! balance in. A read that shows fewer is objected to whatever the sum of what it shows:
//!
//! ```text
//! T0   read 1: 10, read 2: 10, read 3: 10      30
//! T1   read 1: 10, read 2: 10                  has lost account 3
//! ```
//!
//! Where no read shows all of them, nobody has read all, and nothing is judged. An account
//! that a read shows as absent counts as 0. What was not learnt says nothing, and nor does
//! a transaction without operations, as transfers are recorded.
//!
//! Only committed transactions are looked at. They have to run at repeatable read or
//! above: at read committed, each statement has a snapshot of its own.
//!
//! Source: the bank workload of Jepsen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::{History, Operation, Register, Transaction};

/// A read of all accounts that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The reader, by its place in the history.
    pub reader: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another total.
    Total {
        /// What it found in all.
        found: i128,
        /// What there is.
        expected: i128,
    },
    /// Fewer accounts than there are.
    Missing {
        /// The first that it does not show.
        account: u64,
        /// How many of them it shows.
        shown: usize,
        /// How many there are.
        accounts: usize,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reader = self.reader;
        match &self.fault {
            Fault::Total { found, expected } => write!(
                formatter,
                "T{reader} found {found} in all accounts, instead of {expected}"
            ),
            Fault::Missing {
                account,
                shown,
                accounts,
            } => write!(
                formatter,
                "T{reader} found {shown} of {accounts} accounts, and not account {account}"
            ),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many accounts there are.
    pub accounts: usize,
    /// How many reads were judged. When none showed all accounts, none was.
    pub reads: usize,
    /// In the order of the history.
    pub wrong: Vec<Wrong>,
}

/// Judges every read of the accounts. Without a total, the earliest that shows all of them
/// says what it is.
#[must_use]
pub fn judge(history: &History, total: Option<i128>) -> Report {
    let accounts = accounts(history);
    let mut report = Report {
        accounts: accounts.len(),
        ..Report::default()
    };
    let transactions = history.transactions.iter().enumerate();
    let reads: Vec<(usize, BTreeMap<u64, i128>)> = transactions
        .filter_map(|(reader, transaction)| Some((reader, balances(transaction)?)))
        .collect();
    let missing = |balances: &BTreeMap<u64, i128>| {
        let mut missing = accounts.iter();
        missing
            .find(|account| !balances.contains_key(*account))
            .copied()
    };
    let complete = reads.iter().filter(|(_, shown)| missing(shown).is_none());
    let first = complete.min_by_key(|(reader, _)| (history.transactions[*reader].started, *reader));
    let Some((_, first)) = first else {
        return report;
    };
    let expected = total.unwrap_or_else(|| first.values().sum());
    report.reads = reads.len();
    for (reader, balances) in &reads {
        let found: i128 = balances.values().sum();
        let fault = match missing(balances) {
            Some(account) => Fault::Missing {
                account,
                shown: accounts
                    .iter()
                    .filter(|account| balances.contains_key(*account))
                    .count(),
                accounts: accounts.len(),
            },
            None if found != expected => Fault::Total { found, expected },
            None => continue,
        };
        report.wrong.push(Wrong {
            reader: *reader,
            fault,
        });
    }
    report
}

/// Those that were written, or in which a balance was found.
fn accounts(history: &History) -> BTreeSet<u64> {
    let committed = history.transactions.iter();
    let committed = committed.filter(|transaction| transaction.is_committed());
    committed
        .flat_map(|transaction| &transaction.operations)
        .filter(|operation| {
            matches!(
                operation,
                Operation::Write { .. }
                    | Operation::Read {
                        value: Some(Register::Value(_)),
                        ..
                    }
            )
        })
        .map(Operation::key)
        .collect()
}

/// What a transaction has read that only reads; none if it is no such transaction, or did
/// not learn everything.
fn balances(transaction: &Transaction) -> Option<BTreeMap<u64, i128>> {
    if !transaction.is_committed() || transaction.writes() {
        return None;
    }
    let mut balances: BTreeMap<u64, i128> = BTreeMap::new();
    for operation in &transaction.operations {
        if let Operation::Read { key, value } = operation {
            let balance = match (*value)? {
                Register::Absent => 0,
                Register::Value(balance) => i128::from(balance),
            };
            balances.entry(*key).or_insert(balance);
        }
    }
    (!balances.is_empty()).then_some(balances)
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
            [Wrong {
                reader: 3,
                fault: Fault::Total {
                    found: 12,
                    expected: 15
                }
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
    fn a_read_that_has_lost_an_account_is_seen() {
        let text = "
            {:type :ok :process 1 :value [[:r 1 10] [:r 2 10] [:r 3 10]]}
            {:type :ok :process 1 :value [[:r 1 10] [:r 2 10]]}
            {:type :ok :process 1 :value [[:r 1 7] [:r 2 10]]}";
        for total in [None, Some(30)] {
            let report = judge(&read(text.as_bytes(), Format::Edn).unwrap(), total);
            let missing = |reader| Wrong {
                reader,
                fault: Fault::Missing {
                    account: 3,
                    shown: 2,
                    accounts: 3,
                },
            };
            assert_eq!(report.reads, 3);
            assert_eq!(report.wrong, [missing(1), missing(2)]);
        }
        // It makes no difference what the others come to, and who has come first.
        let early = judged("{:type :ok :process 1 :value [[:r 1 15]]}", None);
        assert_eq!(
            early.wrong[0].to_string(),
            "T3 found 1 of 2 accounts, and not account 2"
        );
    }

    #[test]
    fn who_wrote_or_did_not_learn_or_commit_says_nothing() {
        for last in [
            "{:type :ok :process 1 :value [[:r 1 999] [:w 1 10]]}",
            "{:type :ok :process 1 :value []}",
            "{:type :fail :process 1 :value [[:r 1 999] [:r 2 0]]}",
            "{:type :info :process 1 :value [[:r 1 999] [:r 3 0]]}",
        ] {
            let report = judged(last, None);
            assert_eq!((report.reads, report.wrong.len()), (1, 0), "{last}");
        }
        let absent = judged(
            "{:type :ok :process 1 :value [[:r 1 7] [:r 2 8] [:r 3 nil]]}",
            None,
        );
        assert_eq!((absent.accounts, absent.wrong.len()), (2, 0));
        let gone = read(b"{:type :ok :value [[:r 1 nil] [:r 2 nil]]}", Format::Edn).unwrap();
        assert_eq!(judge(&gone, Some(15)).wrong.len(), 1);
    }

    #[test]
    fn where_nobody_has_read_all_accounts_nothing_is_judged() {
        for text in [
            "{:type :ok :value [[:w 1 1]]}",
            "{:type :ok :value [[:r 1 1]]} {:type :ok :value [[:r 2 1]]}",
        ] {
            let report = judge(&read(text.as_bytes(), Format::Edn).unwrap(), Some(1));
            assert_eq!((report.reads, report.wrong.len()), (0, 0), "{text}");
        }
    }
}
