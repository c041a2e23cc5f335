//! The bank judge: transfers between accounts must preserve the total balance.
//!
//! Accounts are registers that hold balances, and every transaction moves an amount between
//! them. Then every transaction that reads all accounts in one snapshot finds the same
//! total:
//!
//! ```text
//! T0   read 1: 10, read 2: 5, write 1: 7, write 2: 8
//! T1   read 1: 7, read 2: 5        12 instead of 15: saw only half of T0
//! ```
//!
//! Values are balances here and may recur, so the judge of transactions cannot check such a
//! history. The bank judge detects less: a wrong total needs a torn snapshot or a lost
//! update. [`ledger`](crate::ledger) checks what survives a crash.
//!
//! Neither format of a history marks a read of all accounts, so the judge relies on two
//! conventions of the workload: **every transaction that reads and does not write reads all
//! accounts**, and the set of accounts is constant: they are opened before the first of
//! these reads, and never closed. An account is one that some committed transaction has
//! written, or has found a balance in. A read of fewer accounts is a violation, whatever
//! the sum of the balances it returns:
//!
//! ```text
//! T0   read 1: 10, read 2: 10, read 3: 10      30
//! T1   read 1: 10, read 2: 10                  has lost account 3
//! ```
//!
//! If no read returns all accounts, the judge checks nothing. An account that a read
//! returns as absent counts as 0. The judge ignores reads whose answer the client did not
//! receive, and transactions without operations, as which transfers are recorded.
//!
//! The judge considers committed transactions only. They must run at repeatable read or
//! above: at read committed, each statement has a snapshot of its own.
//!
//! Source: the bank workload of Jepsen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::{History, Operation, Register, Transaction};

/// A violation: a read of all accounts with an impossible result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The reading transaction, by its index in the history.
    pub reader: usize,
    /// The fault of the read.
    pub fault: Fault,
}

/// The fault of a read of all accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The balances have a wrong total.
    Total {
        /// Total of the balances that the read returned.
        found: i128,
        /// The correct total.
        expected: i128,
    },
    /// The read returned fewer accounts than there are.
    Missing {
        /// The first account that is missing.
        account: u64,
        /// Number of accounts that the read returned.
        shown: usize,
        /// Number of accounts in the history.
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

/// Result of the bank judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of accounts in the history.
    pub accounts: usize,
    /// Number of reads that were checked: none if no read returned all accounts.
    pub reads: usize,
    /// The violations, in the order of the history.
    pub wrong: Vec<Wrong>,
}

/// Checks every read of the accounts. Without a given `total`, the earliest read that
/// returns all accounts defines it.
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

/// The accounts that committed transactions wrote, or in which they found a balance.
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

/// The balances that a read-only transaction has read; `None` if it is not committed or not
/// read-only, or if its client did not receive every answer.
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
        // The other reads' totals and order make no difference.
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
