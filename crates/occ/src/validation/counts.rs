//! Counters of validation work and its outcomes, by which measurements compare the
//! validators besides by time.
//!
//! ```text
//!   writers   registrations                 slots taken, whether or not anyone scans
//!   scanners  commits, transactions         other transactions that each had to check
//!             records                       versions that were read a second time
//!             certain, granular             why ranges were refused
//! ```
//!
//! Refusals for other reasons are in [`Statistics::aborted`]: rings that wrapped around
//! (`RingOverflow`), records in the read set that have changed (`ReadChanged`), locks.
//!
//! [`Statistics::aborted`]: crate::Statistics::aborted

use std::ops::Sub;

use coeval_memory::counters::{Counter, Sharded};

use super::Others;

/// Validation counters since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validations {
    /// Slots that writers have taken so that scans find their writes.
    pub registrations: u64,
    /// Commits whose scans, or reads of absent keys, were validated.
    pub scans: u64,
    /// Transactions that these commits checked: those with a timestamp between snapshot
    /// and commit that registered where the scan was. A transaction counts once more for
    /// each further range, and for each further registration that does not directly
    /// follow its last.
    pub transactions: u64,
    /// Records that were read again, whether a point read or a scan had returned them.
    pub records: u64,
    /// Commits refused because a scanned key was certainly written.
    pub certain: u64,
    /// Commits refused although no such key is known: the validator knew only the range,
    /// or several keys together.
    pub granular: u64,
}

impl Sub for Validations {
    type Output = Self;

    /// The increase since `before`.
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

/// The counters of one thread.
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

/// The sum over all threads.
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
