//! What every account has to hold, from what clients were told.
//!
//! Transactions lock an account before they change it, so by how much they did is
//! certain once they have committed, at any level of isolation:
//!
//! ```text
//! account        opening   told: committed       nobody knows        found
//! 3, savings     1000000   -500  +20             -70                 999520 or 999450
//! 4, checking    1000000   +480                  +70                 1000480 or 1000550
//! ```
//!
//! Those of which nobody knows were done whole or not at all: 999450 beside 1000480 is
//! half of one. So which of them were done is looked for, by trying each with and
//! without, as long as no account is further off than those left can bring it.
//!
//! Invariant: an accusation is a proof. A search that takes too long accuses nobody of
//! more than an account that no choice could explain.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::workload::Done;

/// Choices that are tried.
const TRIED: u32 = 200_000;
/// How many accounts are told of.
const TOLD: usize = 3;

/// By how much one account has grown: its number, and the amount.
pub(super) type Change = (usize, i64);
/// What a transaction changes: at most three accounts, with nothing for those it leaves.
pub(super) type Changes = [Change; 3];

/// What was told of all accounts.
#[derive(Debug)]
pub(super) struct Accounts {
    opening: i64,
    /// Whether they were opened for this run; else nobody knows what they held before.
    opened: AtomicBool,
    /// By account: by how much it has grown for certain.
    certain: Vec<AtomicI64>,
    /// Of those whose end nobody knows.
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

    /// They are new.
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

    /// What is wrong with these accounts, by name; `None` stands for one that is not
    /// there.
    pub(super) fn judge(
        &self,
        found: &[Option<i64>],
        name: impl Fn(usize) -> String,
    ) -> Vec<String> {
        let perhaps = self.perhaps();
        // By how much accounts are off, of those that are, or that doubt touches.
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
                "balances are those of no choice among {} transactions whose end nobody knows",
                perhaps.len()
            ));
        }
        wrong
    }
}

/// By account: how far these transactions can bring it down, and up.
fn doubts(perhaps: &[Changes]) -> BTreeMap<usize, (i64, i64)> {
    let mut doubts: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    for (account, amount) in perhaps.iter().flatten() {
        let (least, most) = doubts.entry(*account).or_default();
        *least += amount.min(&0);
        *most += amount.max(&0);
    }
    doubts
}

/// Those with accounts in common beside each other, so that what cannot be shows soon.
fn in_order(perhaps: &[Changes]) -> Vec<Changes> {
    let mut ordered = perhaps.to_vec();
    ordered.retain(|changes| changes.iter().any(|(_, amount)| *amount != 0));
    ordered.sort_by_key(|changes| changes.map(|(account, _)| account));
    ordered
}

/// A search for the transactions that were done.
struct Choice {
    /// By account: what those chosen so far leave to be explained.
    off: BTreeMap<usize, i64>,
    /// By account: what those that are left can do to it.
    doubts: BTreeMap<usize, (i64, i64)>,
    /// So much more is tried.
    left: u32,
}

impl Choice {
    /// Whether some of these transactions, each whole, make up for what accounts are
    /// off; `None` when that takes too long to say.
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

    /// Whether those that are left can explain what their accounts are off.
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

    /// Wrong with what is there of three accounts that opened with 100.
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
        // The sum is right, the accounts are not.
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
        // Each by itself is within bounds.
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
        // Which of so many make 1001? None: all are even. To see that, all are tried.
        let told = vec![([(0, 2), (1, 0), (1, 0)], Done::Perhaps); 1000];
        assert_eq!(judged(&told, [1101, 100, 100]), [""; 0]);
        let few = vec![([(0, 2), (1, 0), (1, 0)], Done::Perhaps); 8];
        assert_eq!(judged(&few, [107, 100, 100]).len(), 1);
    }
}
