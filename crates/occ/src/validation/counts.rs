//! What validating comes to, in numbers: the validators are compared by these as much as
//! by time.
//!
//! ```text
//!   writers   registrations                 slots taken, whether anybody scans or not
//!   scanners  commits, transactions         how many others each had to look at
//!             records                       how many versions were read a second time
//!             certain, granular             why ranges were refused
//! ```
//!
//! Refusals for other reasons are in [`Statistics::aborted`]: rings that went round
//! (`RingOverflow`), records read that have changed (`ReadChanged`), locks.
//!
//! [`Statistics::aborted`]: crate::Statistics::aborted

use std::ops::Sub;

use coeval_memory::counters::{Counter, Sharded};

use super::Others;

/// What validating has come to since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validations {
    /// Slots that writers have taken to be found by scans.
    pub registrations: u64,
    /// Commits that had scanned something, or found a key absent, and whose scans were
    /// validated.
    pub scans: u64,
    /// Transactions that these looked at: those that drew a timestamp between snapshot
    /// and commit and registered where the scan was. One counts again in each range, and
    /// where it registered several times with others between.
    pub transactions: u64,
    /// Records that were read again, whether a point read or a scan had shown them.
    pub records: u64,
    /// Commits refused for a range in which a key that lies in the scan was written.
    pub certain: u64,
    /// Commits refused for a range although no such key is known: only the range, or
    /// several keys together.
    pub granular: u64,
}

impl Sub for Validations {
    type Output = Self;

    /// What it has come to since `before`.
    fn sub(self, before: Self) -> Self {
        Self {
            registrations: self.registrations - before.registrations,
            scans: self.scans - before.scans,
            transactions: self.transactions - before.transactions,
            records: self.records - before.records,
            certain: self.certain - before.certain,
            granular: self.granular - before.granular,
        }
    }
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    registrations: Counter,
    scans: Counter,
    transactions: Counter,
    records: Counter,
    certain: Counter,
    granular: Counter,
}

impl Counters {
    #[inline]
    pub(crate) fn registered(&self, slots: usize) {
        self.registrations.add(slots as u64);
    }

    #[inline]
    pub(crate) fn read_again(&self, records: usize) {
        self.records.add(records as u64);
    }

    #[inline]
    pub(crate) fn scanned(&self, others: &Others) {
        self.scans.add(1);
        if others.count > 0 {
            self.transactions.add(others.count);
        }
    }

    #[cold]
    pub(crate) fn refused(&self, certain: bool) {
        let refused = if certain {
            &self.certain
        } else {
            &self.granular
        };
        refused.add(1);
    }
}

/// Adds up what all threads have counted.
pub(crate) fn sum<T>(threads: &Sharded<T>, of: impl Fn(&T) -> &Counters) -> Validations {
    Validations {
        registrations: threads.sum(|thread| &of(thread).registrations),
        scans: threads.sum(|thread| &of(thread).scans),
        transactions: threads.sum(|thread| &of(thread).transactions),
        records: threads.sum(|thread| &of(thread).records),
        certain: threads.sum(|thread| &of(thread).certain),
        granular: threads.sum(|thread| &of(thread).granular),
    }
}
