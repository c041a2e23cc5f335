//! Balance check of the SmallBank workload: derives from acknowledged transactions what
//! each account must hold.
//!
//! Transactions lock an account before they change it, so the amount of each change is
//! known once they have committed, at any isolation level:
//!
//! ```text
//! account        opening   acknowledged          unknown outcome     found
//! 3, savings     1000000   -500  +20             -70                 999520 or 999450
//! 4, checking    1000000   +480                  +70                 1000480 or 1000550
//! ```
//!
//! A transaction of unknown outcome was applied entirely or not at all: 999450 beside
//! 1000480 is half of one. So the check searches for a subset of these transactions that
//! explains the balances: it tries each with and without, and prunes when the remaining
//! ones cannot bring some account to its balance.
//!
//! Invariant: a reported violation is a proof. A search that exceeds its limit reports
//! only the accounts that no subset could explain.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::workload::Done;

/// Limit of the search, in choices tried.
const TRIED: u32 = 200_000;
/// Number of accounts that a report lists.
const TOLD: usize = 3;

/// A change of one account: its number, and the amount.
pub(super) type Change = (usize, i64);
/// The changes of a transaction: at most three accounts, padded with changes of 0.
pub(super) type Changes = [Change; 3];

/// Expected balances of all accounts.
#[derive(Debug)]
pub(super) struct Accounts {
    opening: i64,
    /// Whether the accounts were opened by this run; otherwise their earlier balances are
    /// unknown.
    opened: AtomicBool,
    /// Sum of the acknowledged changes, by account.
    certain: Vec<AtomicI64>,
    /// Changes of transactions of unknown outcome.
    perhaps: Mutex<Vec<Changes>>,
}

impl Accounts {
    pub(super) fn new(count: usize, opening: i64) -> Self {
        Self {
            opening,
            opened: AtomicBool::new(false),
            certain: (0..count).map(|_| AtomicI64::new(0)).collect(),
            perhaps: Mutex::default(),
        }
    }

    fn perhaps(&self) -> MutexGuard<'_, Vec<Changes>> {
        self.perhaps.lock().expect("no panic while it was held")
    }

    /// Notes that this run has opened the accounts.
    pub(super) fn open(&self) {
        self.opened.store(true, Ordering::Release);
    }

    pub(super) fn add(&self, changes: Changes, done: Done) {
        match done {
            Done::Committed => {
                for (account, amount) in changes.into_iter().filter(|(_, amount)| *amount != 0) {
                    self.certain[account].fetch_add(amount, Ordering::AcqRel);
                }
            }
            Done::Perhaps => self.perhaps().push(changes),
        }
    }

    /// Violations shown by the balances `found`, where `None` is a missing account;
    /// `name` formats an account.
    pub(super) fn judge(
        &self,
        found: &[Option<i64>],
        name: impl Fn(usize) -> String,
    ) -> Vec<String> {
        let perhaps = self.perhaps();
        // Unexplained difference of each account that has one, or that a transaction of
        // unknown outcome changes.
        let mut off = BTreeMap::new();
        let mut wrong = Vec::new();
        for (account, certain) in self.certain.iter().enumerate() {
            let expected = self.opening + certain.load(Ordering::Acquire);
            match found.get(account).copied().flatten() {
                None => wrong.push(format!("{} is missing", name(account))),
                Some(_) if !self.opened.load(Ordering::Acquire) => {}
                Some(balance) if balance != expected => {
                    off.insert(account, balance - expected);
                }
                Some(_) => {}
            }
        }
        let doubts = doubts(&perhaps);
        for (&account, &by) in &off {
            let (least, most) = doubts.get(&account).copied().unwrap_or_default();
            if !(least..=most).contains(&by) {
                let expected = self.opening + self.certain[account].load(Ordering::Acquire);
                wrong.push(format!(
                    "{} holds {} instead of {} to {}",
                    name(account),
                    expected + by,
                    expected + least,
                    expected + most
                ));
            }
        }
        if wrong.len() > TOLD {
            let more = wrong.len() - TOLD;
            wrong.truncate(TOLD);
            wrong.push(format!("so are {more} accounts more"));
        }
        let mut choice = Choice {
            off,
            doubts,
            left: TRIED,
        };
        let is_known = self.opened.load(Ordering::Acquire);
        if is_known && wrong.is_empty() && choice.explains(&in_order(&perhaps)) == Some(false) {
            wrong.push(format!(
                "balances are those of no choice among {} transactions of unknown outcome",
                perhaps.len()
            ));
        }
        wrong
    }
}

/// The most that transactions of unknown outcome can lower and raise the balance of each
/// account.
fn doubts(perhaps: &[Changes]) -> BTreeMap<usize, (i64, i64)> {
    let mut doubts: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    for (account, amount) in perhaps.iter().flatten() {
        let (least, most) = doubts.entry(*account).or_default();
        *least += amount.min(&0);
        *most += amount.max(&0);
    }
    doubts
}

/// Sorts transactions so that those with common accounts are neighbours, which prunes the
/// search early.
fn in_order(perhaps: &[Changes]) -> Vec<Changes> {
    let mut ordered = perhaps.to_vec();
    ordered.retain(|changes| changes.iter().any(|(_, amount)| *amount != 0));
    ordered.sort_by_key(|changes| changes.map(|(account, _)| account));
    ordered
}

/// A search for the subset of transactions that were applied.
struct Choice {
    /// Difference of each account that the transactions chosen so far leave unexplained.
    off: BTreeMap<usize, i64>,
    /// Range of changes that the remaining transactions can make, by account.
    doubts: BTreeMap<usize, (i64, i64)>,
    /// Number of choices that may still be tried.
    left: u32,
}

impl Choice {
    /// Whether some subset of these transactions explains all differences; `None` if the
    /// search exceeds its limit.
    fn explains(&mut self, perhaps: &[Changes]) -> Option<bool> {
        let Some((changes, others)) = perhaps.split_first() else {
            return Some(self.off.values().all(|by| *by == 0));
        };
        self.left = self.left.checked_sub(1)?;
        self.doubt(changes, -1);
        for done in [1, 0] {
            self.take(changes, done);
            if self.is_possible(changes) && self.explains(others)? {
                return Some(true);
            }
            self.take(changes, -done);
        }
        self.doubt(changes, 1);
        Some(false)
    }

    fn take(&mut self, changes: &Changes, times: i64) {
        for (account, amount) in changes {
            *self.off.entry(*account).or_default() -= times * amount;
        }
    }

    fn doubt(&mut self, changes: &Changes, times: i64) {
        for (account, amount) in changes {
            let (least, most) = self.doubts.entry(*account).or_default();
            *least += times * amount.min(&0);
            *most += times * amount.max(&0);
        }
    }

    /// Whether the remaining transactions can explain the differences of these accounts.
    fn is_possible(&self, changes: &Changes) -> bool {
        changes.iter().all(|(account, _)| {
            let by = self.off.get(account).copied().unwrap_or_default();
            let (least, most) = self.doubts.get(account).copied().unwrap_or_default();
            (least..=most).contains(&by)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges three accounts that opened with 100.
    fn judged(told: &[(Changes, Done)], found: [i64; 3]) -> Vec<String> {
        let accounts = Accounts::new(3, 100);
        accounts.open();
        for &(changes, done) in told {
            accounts.add(changes, done);
        }
        accounts.judge(&found.map(Some), |account| format!("account {account}"))
    }

    const fn transfer(from: usize, to: usize, amount: i64) -> Changes {
        [(from, -amount), (to, amount), (to, 0)]
    }

    #[test]
    fn each_account_holds_what_it_was_told() {
        let told = [
            (transfer(0, 1, 10), Done::Committed),
            ([(2, 5), (0, 0), (0, 0)], Done::Committed),
        ];
        assert_eq!(judged(&told, [90, 110, 105]), [""; 0]);
        // The sum is right, but the single accounts are not.
        assert_eq!(
            judged(&told, [100, 100, 105]),
            [
                "account 0 holds 100 instead of 90 to 90",
                "account 1 holds 100 instead of 110 to 110"
            ]
        );
        let accounts = Accounts::new(2, 100);
        let wrong = accounts.judge(&[Some(100), None], |account| format!("account {account}"));
        assert_eq!(wrong, ["account 1 is missing"]);
    }

    #[test]
    fn of_accounts_from_a_run_before_only_that_they_are_there_is_known() {
        let accounts = Accounts::new(2, 100);
        let judge = |found: &[Option<i64>]| accounts.judge(found, |at| at.to_string());
        assert_eq!(judge(&[Some(90), Some(7)]), [""; 0]);
        assert_eq!(judge(&[Some(90), None]), ["1 is missing"]);
    }

    #[test]
    fn doubtful_transactions_are_whole() {
        let told = [
            (transfer(0, 1, 10), Done::Perhaps),
            (transfer(1, 2, 3), Done::Perhaps),
        ];
        for sound in [
            [100, 100, 100],
            [90, 110, 100],
            [100, 97, 103],
            [90, 107, 103],
        ] {
            assert_eq!(judged(&told, sound), [""; 0]);
        }
        // Each account by itself is within bounds.
        for halves in [
            [90, 100, 100],
            [100, 100, 103],
            [90, 97, 100],
            [90, 107, 100],
        ] {
            assert_eq!(judged(&told, halves).len(), 1, "{halves:?}");
        }
        assert_eq!(judged(&told, [101, 100, 100]).len(), 1);
    }

    #[test]
    fn what_takes_too_long_accuses_nobody() {
        // No subset sums up to 1001, since all changes are even; to find that out, the
        // search would have to try all.
        let told = vec![([(0, 2), (1, 0), (1, 0)], Done::Perhaps); 1000];
        assert_eq!(judged(&told, [1101, 100, 100]), [""; 0]);
        let few = vec![([(0, 2), (1, 0), (1, 0)], Done::Perhaps); 8];
        assert_eq!(judged(&few, [107, 100, 100]).len(), 1);
    }
}
