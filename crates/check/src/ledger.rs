//! The ledger judge: compares the database after a crash with the answers that clients
//! received.
//!
//! Clients move money between accounts. Each transfer is one transaction that debits one
//! account, credits another, and adds a line to a ledger under a number that only this
//! client uses, and only once. Every client records the answers that it received. After a
//! crash, the judge compares them with the lines and balances in the database:
//!
//! ```text
//! client's answer       the line is there      the line is not there
//! acknowledged          correct                LOST
//! failed                INVENTED               correct
//! unknown               correct, and from      correct, and from
//!                       now on acknowledged    now on failed
//! none: never sent      INVENTED               –
//! ```
//!
//! The outcome is unknown when the connection breaks after the client has sent the commit.
//! The first check after the crash settles it: a line that was there once must stay, and
//! one that was not must not appear later.
//!
//! A client also reads other clients' newest lines during the run. A line that one client
//! has *seen* of another must survive as if it had been acknowledged: so the judge detects
//! a database that returns a commit before it is durable, although each client's own
//! answers are correct ([`Loss::Seen`]). It also detects a database that returns a transfer
//! that never committed.
//!
//! Balances must equal the opening balance plus the lines in the ledger; else a transaction
//! was recovered in part (torn).

use std::collections::BTreeMap;
use std::fmt;

/// A client that sends transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u32);

/// The sequence number of a client's transfer; used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// Identifies a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId {
    /// The client that sent the transfer.
    pub client: Client,
    /// The transfer's number among those of its client.
    pub sequence: Sequence,
}

impl fmt::Display for TransferId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "transfer {} of client {}",
            self.sequence.0, self.client.0
        )
    }
}

/// An account, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account(pub u32);

/// The contents of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The account that is debited.
    pub from: Account,
    /// The account that is credited.
    pub to: Account,
    /// The amount that is moved.
    pub amount: i64,
}

/// The answer that a client received for its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The database confirmed the commit.
    Acknowledged,
    /// The transfer did not commit, and will not: the client received an error, or rolled
    /// back.
    Failed,
    /// The client received no answer that settles the outcome.
    Unknown,
}

/// The state of the database at one moment, read in one snapshot.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The lines of the ledger, in any order.
    pub lines: Vec<(TransferId, Transfer)>,
    /// All accounts with their balances.
    pub balances: BTreeMap<Account, i64>,
}

/// Violation: a transfer that must be in the database is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The client received the confirmation that the transfer had committed.
    Acknowledged(TransferId),
    /// Another client has read the transfer.
    Seen(TransferId),
    /// The transfer was there after an earlier crash.
    Survived(TransferId),
}

/// Violation: a transfer is in the database that must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invention {
    /// No client sent the transfer.
    NeverSent(TransferId),
    /// The client received an error for the transfer.
    Failed(TransferId),
    /// The transfer was missing after an earlier crash.
    Returned(TransferId),
    /// The transfer is there with other contents.
    Altered(TransferId),
    /// The transfer is there more than once.
    Doubled(TransferId),
}

/// Violation: an account whose balance does not match the ledger's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The account with the wrong balance.
    pub account: Account,
    /// The balance according to the lines; `None` when there should be no such account.
    pub expected: Option<i64>,
    /// The balance in the database; `None` when the account is missing.
    pub shown: Option<i64>,
}

/// Result of the ledger judge. [`Verdict::is_clean`] when it found no violation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Transfers that are missing.
    pub lost: Vec<Loss>,
    /// Transfers that must not be there.
    pub invented: Vec<Invention>,
    /// Accounts with wrong balances: transactions that were recovered in part.
    pub torn: Vec<Torn>,
    /// Number of lines in the ledger.
    pub lines: usize,
    /// Number of unknown transfers that turned out to have committed.
    pub settled_committed: usize,
    /// Number of unknown transfers that turned out not to have committed.
    pub settled_failed: usize,
}

impl Verdict {
    /// Whether the database agrees with the clients' answers.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.invented.is_empty() && self.torn.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} lost, {} invented, {} torn in {} lines",
            self.lost.len(),
            self.invented.len(),
            self.torn.len(),
            self.lines
        )
    }
}

/// The contents and known state of a transfer.
#[derive(Clone, Copy, Debug)]
struct Record {
    transfer: Transfer,
    state: State,
    seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Told(Told),
    /// The outcome was unknown, and the line was there at an earlier check.
    Survived,
    /// The outcome was unknown, and the line was missing at an earlier check.
    Vanished,
}

/// All transfers that clients sent and the answers they received, over all crashes.
#[derive(Clone, Debug)]
pub struct Ledger {
    accounts: u32,
    opening: i64,
    records: BTreeMap<TransferId, Record>,
}

impl Ledger {
    /// Creates a ledger without transfers: accounts `0..accounts`, each with `opening`.
    #[must_use]
    pub fn new(accounts: u32, opening: i64) -> Self {
        Self {
            accounts,
            opening,
            records: BTreeMap::new(),
        }
    }

    /// Records a transfer that a client sent, and the answer it received.
    ///
    /// # Panics
    /// When the client has used the number before: then the workload is wrong, and a
    /// verdict would be meaningless.
    pub fn record(&mut self, id: TransferId, transfer: Transfer, told: Told) {
        let record = Record {
            transfer,
            state: State::Told(told),
            seen: false,
        };
        let before = self.records.insert(id, record);
        assert!(before.is_none(), "{id} was sent twice");
    }

    /// Records that a committed read returned this transfer to some client. The caller
    /// calls this when it has recorded all transfers of the round.
    ///
    /// Returns whether any client sent the transfer. If not, the read returned a transfer
    /// that never existed, and the caller reports [`Invention::NeverSent`].
    #[must_use]
    pub fn saw(&mut self, id: TransferId) -> bool {
        match self.records.get_mut(&id) {
            Some(record) => {
                record.seen = true;
                true
            }
            None => false,
        }
    }

    /// Number of transfers whose commit was confirmed to their clients.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.count(State::Told(Told::Acknowledged))
    }

    /// Number of transfers whose outcome is not known yet.
    #[must_use]
    pub fn unknown(&self) -> usize {
        self.count(State::Told(Told::Unknown))
    }

    fn count(&self, state: State) -> usize {
        self.records
            .values()
            .filter(|record| record.state == state)
            .count()
    }

    /// Compares the ledger with the state of the database, and settles unknown outcomes.
    pub fn judge(&mut self, shown: &Shown) -> Verdict {
        let mut verdict = Verdict {
            lines: shown.lines.len(),
            ..Verdict::default()
        };
        let mut lines = BTreeMap::new();
        for (id, transfer) in &shown.lines {
            if lines.insert(*id, *transfer).is_some() {
                verdict.invented.push(Invention::Doubled(*id));
            }
        }
        for (id, transfer) in &lines {
            match self.records.get(id) {
                None => verdict.invented.push(Invention::NeverSent(*id)),
                Some(record) if record.transfer != *transfer => {
                    verdict.invented.push(Invention::Altered(*id));
                }
                Some(_) => {}
            }
        }
        for (id, record) in &mut self.records {
            record.judge(*id, lines.contains_key(id), &mut verdict);
        }
        self.judge_balances(lines.values(), &shown.balances, &mut verdict);
        verdict
    }

    fn judge_balances<'line>(
        &self,
        lines: impl Iterator<Item = &'line Transfer>,
        shown: &BTreeMap<Account, i64>,
        verdict: &mut Verdict,
    ) {
        let mut expected: BTreeMap<Account, i64> = (0..self.accounts)
            .map(|account| (Account(account), self.opening))
            .collect();
        for transfer in lines {
            for (account, change) in [
                (transfer.from, transfer.amount.wrapping_neg()),
                (transfer.to, transfer.amount),
            ] {
                if let Some(balance) = expected.get_mut(&account) {
                    *balance = balance.wrapping_add(change);
                }
            }
        }
        let accounts = expected.keys().chain(
            shown
                .keys()
                .filter(|account| !expected.contains_key(account)),
        );
        for account in accounts {
            let (expected, shown) = (expected.get(account), shown.get(account));
            if expected != shown {
                verdict.torn.push(Torn {
                    account: *account,
                    expected: expected.copied(),
                    shown: shown.copied(),
                });
            }
        }
    }
}

impl Record {
    fn judge(&mut self, id: TransferId, is_there: bool, verdict: &mut Verdict) {
        match (self.state, is_there) {
            (State::Told(Told::Acknowledged), true)
            | (State::Survived, true)
            | (State::Vanished, false) => {}
            // Violation if another client has read it, although it never committed.
            (State::Told(Told::Failed), false) => {
                if self.seen {
                    verdict.lost.push(Loss::Seen(id));
                }
            }
            (State::Told(Told::Acknowledged), false) => {
                verdict.lost.push(Loss::Acknowledged(id));
            }
            (State::Told(Told::Failed), true) => verdict.invented.push(Invention::Failed(id)),
            (State::Survived, false) => verdict.lost.push(Loss::Survived(id)),
            (State::Vanished, true) => verdict.invented.push(Invention::Returned(id)),
            (State::Told(Told::Unknown), true) => {
                self.state = State::Survived;
                verdict.settled_committed += 1;
            }
            (State::Told(Told::Unknown), false) => {
                self.state = State::Vanished;
                verdict.settled_failed += 1;
                if self.seen {
                    verdict.lost.push(Loss::Seen(id));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENING: i64 = 100;

    fn id(client: u32, sequence: u64) -> TransferId {
        TransferId {
            client: Client(client),
            sequence: Sequence(sequence),
        }
    }

    fn transfer(from: u32, to: u32, amount: i64) -> Transfer {
        Transfer {
            from: Account(from),
            to: Account(to),
            amount,
        }
    }

    /// The state of a correct database after these transfers.
    fn shown(lines: &[(TransferId, Transfer)]) -> Shown {
        let mut balances: BTreeMap<Account, i64> =
            (0..3).map(|account| (Account(account), OPENING)).collect();
        for (_, transfer) in lines {
            *balances.entry(transfer.from).or_default() -= transfer.amount;
            *balances.entry(transfer.to).or_default() += transfer.amount;
        }
        Shown {
            lines: lines.to_vec(),
            balances,
        }
    }

    fn told(all: &[(TransferId, Transfer, Told)]) -> Ledger {
        let mut ledger = Ledger::new(3, OPENING);
        for (id, transfer, told) in all {
            ledger.record(*id, *transfer, *told);
        }
        ledger
    }

    #[test]
    fn honest_databases_pass() {
        let (a, b, c) = (transfer(0, 1, 5), transfer(1, 2, 7), transfer(2, 0, 9));
        let mut ledger = told(&[
            (id(1, 1), a, Told::Acknowledged),
            (id(1, 2), b, Told::Failed),
            (id(2, 1), c, Told::Unknown),
        ]);
        for lines in [&[(id(1, 1), a)][..], &[(id(1, 1), a), (id(2, 1), c)]] {
            assert!(ledger.clone().judge(&shown(lines)).is_clean());
        }
        let verdict = ledger.judge(&shown(&[(id(1, 1), a), (id(2, 1), c)]));
        assert_eq!((verdict.settled_committed, verdict.settled_failed), (1, 0));
        assert_eq!((ledger.acknowledged(), ledger.unknown()), (1, 0));
    }

    #[test]
    fn a_lost_acknowledgement_is_found() {
        let mut ledger = told(&[(id(1, 1), transfer(0, 1, 5), Told::Acknowledged)]);
        let verdict = ledger.judge(&shown(&[]));
        assert_eq!(verdict.lost, [Loss::Acknowledged(id(1, 1))]);
        assert!(!verdict.is_clean());
    }

    #[test]
    fn what_somebody_saw_may_not_go() {
        let mut ledger = told(&[(id(1, 1), transfer(0, 1, 5), Told::Unknown)]);
        assert!(ledger.saw(id(1, 1)));
        assert!(!ledger.saw(id(1, 2)));
        assert_eq!(ledger.judge(&shown(&[])).lost, [Loss::Seen(id(1, 1))]);
    }

    #[test]
    fn what_never_committed_may_not_be_seen() {
        let mut ledger = told(&[
            (id(1, 1), transfer(0, 1, 5), Told::Failed),
            (id(1, 2), transfer(0, 1, 5), Told::Failed),
        ]);
        assert!(ledger.saw(id(1, 2)));
        assert_eq!(ledger.judge(&shown(&[])).lost, [Loss::Seen(id(1, 2))]);
    }

    #[test]
    fn inventions_are_found() {
        let a = transfer(0, 1, 5);
        let mut ledger = told(&[
            (id(1, 1), a, Told::Failed),
            (id(1, 2), a, Told::Acknowledged),
        ]);
        let other = transfer(0, 2, 5);
        let verdict = ledger.judge(&shown(&[(id(1, 1), a), (id(1, 2), other), (id(9, 9), a)]));
        assert_eq!(
            verdict.invented,
            [
                Invention::Altered(id(1, 2)),
                Invention::NeverSent(id(9, 9)),
                Invention::Failed(id(1, 1)),
            ]
        );
    }

    #[test]
    fn a_doubled_line_is_found() {
        let a = transfer(0, 1, 5);
        let mut ledger = told(&[(id(1, 1), a, Told::Acknowledged)]);
        let mut doubled = shown(&[(id(1, 1), a)]);
        doubled.lines.push((id(1, 1), a));
        assert_eq!(
            ledger.judge(&doubled).invented,
            [Invention::Doubled(id(1, 1))]
        );
    }

    #[test]
    fn unknown_is_settled_once() {
        let a = transfer(0, 1, 5);
        let unknown = told(&[(id(1, 1), a, Told::Unknown)]);
        let mut came = unknown.clone();
        assert!(came.judge(&shown(&[(id(1, 1), a)])).is_clean());
        assert_eq!(came.judge(&shown(&[])).lost, [Loss::Survived(id(1, 1))]);
        let mut went = unknown;
        assert!(went.judge(&shown(&[])).is_clean());
        let verdict = went.judge(&shown(&[(id(1, 1), a)]));
        assert_eq!(verdict.invented, [Invention::Returned(id(1, 1))]);
    }

    #[test]
    fn half_a_transaction_is_found() {
        let a = transfer(0, 1, 5);
        // The line was recovered and the credit was not.
        let mut ledger = told(&[(id(1, 1), a, Told::Acknowledged)]);
        let mut half = shown(&[(id(1, 1), a)]);
        half.balances.insert(Account(1), OPENING);
        let verdict = ledger.judge(&half);
        assert_eq!(
            verdict.torn,
            [Torn {
                account: Account(1),
                expected: Some(OPENING + 5),
                shown: Some(OPENING),
            }]
        );
        // Both balances moved, and the line is missing.
        let mut ledger = told(&[(id(1, 1), a, Told::Unknown)]);
        let mut moved = shown(&[(id(1, 1), a)]);
        moved.lines.clear();
        assert_eq!(ledger.judge(&moved).torn.len(), 2);
    }

    #[test]
    fn accounts_may_neither_go_nor_come() {
        let mut ledger = told(&[]);
        let mut gone = shown(&[]);
        gone.balances.remove(&Account(2));
        gone.balances.insert(Account(7), 0);
        let torn = ledger.judge(&gone).torn;
        assert_eq!(torn.len(), 2);
        assert_eq!((torn[0].expected, torn[0].shown), (Some(OPENING), None));
        assert_eq!((torn[1].expected, torn[1].shown), (None, Some(0)));
    }

    #[test]
    #[should_panic(expected = "was sent twice")]
    fn a_number_is_used_once() {
        let a = transfer(0, 1, 5);
        let _ = told(&[(id(1, 1), a, Told::Unknown), (id(1, 1), a, Told::Unknown)]);
    }
}
