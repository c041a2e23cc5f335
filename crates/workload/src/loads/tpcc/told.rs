//! What clients were told of the transactions that leave a row for good.
//!
//! ```text
//!   orders    those of the load + acknowledged ≤ rows ≤ that + those of unknown end
//! ```
//!
//! Says nothing of tables that a run before has filled: what was told then is not known.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::workload::Done;

/// How many, and how many perhaps.
#[derive(Debug, Default)]
pub(super) struct Count {
    certain: AtomicU64,
    perhaps: AtomicU64,
}

impl Count {
    pub(super) fn add(&self, done: Done) {
        let count = match done {
            Done::Committed => &self.certain,
            Done::Perhaps => &self.perhaps,
        };
        count.fetch_add(1, Ordering::AcqRel);
    }

    fn judge(&self, what: &str, loaded: u64, rows: u64) -> Option<String> {
        let least = loaded + self.certain.load(Ordering::Acquire);
        let most = least + self.perhaps.load(Ordering::Acquire);
        let holds = (least..=most).contains(&rows);
        (!holds).then(|| format!("{rows} {what} instead of {least} to {most}"))
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Told {
    loaded: AtomicBool,
    pub(super) orders: Count,
    pub(super) payments: Count,
}

impl Told {
    /// The tables are filled by this run.
    pub(super) fn loaded(&self) {
        self.loaded.store(true, Ordering::Release);
    }

    /// What is wrong with so many orders and payments, of which the load made `loaded`
    /// each.
    pub(super) fn judge(&self, loaded: u64, orders: u64, payments: u64) -> Vec<String> {
        if !self.loaded.load(Ordering::Acquire) {
            return Vec::new();
        }
        let orders = self.orders.judge("orders", loaded, orders);
        let payments = self.payments.judge("payments", loaded, payments);
        orders.into_iter().chain(payments).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_and_what_was_never_done_is_seen_and_what_may_be_is_not() {
        let told = Told::default();
        assert_eq!(told.judge(10, 0, 0), Vec::<String>::new());
        told.loaded();
        told.orders.add(Done::Committed);
        told.payments.add(Done::Perhaps);
        assert!(told.judge(10, 11, 10).is_empty() && told.judge(10, 11, 11).is_empty());
        assert_eq!(told.judge(10, 10, 10).len(), 1);
        assert_eq!(told.judge(10, 12, 12).len(), 2);
    }
}
