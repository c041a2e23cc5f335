//! What a client counts while it is measured.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Wrong answers that are kept; more say nothing new.
const KEPT: usize = 20;

/// Latencies in nanoseconds, to three digits.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> Self {
        Self(Histogram::new(3).expect("three digits are possible"))
    }

    pub(super) fn record(&mut self, latency: Duration) {
        self.record_many(1, latency);
    }

    /// So many that took as long.
    pub(super) fn record_many(&mut self, count: u64, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        // An hour and more is an hour: what is longer is not measured by it.
        // Below that it grows as it needs to.
        let _ = self.0.record_n(nanoseconds.min(3_600_000_000_000), count);
    }

    pub(super) fn add(&mut self, other: &Self) {
        // Both grow as they need to.
        let _ = self.0.add(&other.0);
    }

    pub(super) fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

/// Of one kind of transactions.
#[derive(Clone, Debug)]
pub(super) struct OfKind {
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    pub(super) aborted: u64,
    pub(super) latencies: Latencies,
}

/// Of all kinds.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) kinds: Vec<OfKind>,
    /// From asking for a commit to hearing of it, over the wire, of transactions that wrote.
    pub(super) commits: Latencies,
    /// Attempts that were undone, by cause.
    pub(super) aborts: BTreeMap<Cow<'static, str>, u64>,
    /// Of them, how many were tried again.
    pub(super) retries: u64,
    /// Requests given up, and what the first said.
    pub(super) failed: u64,
    pub(super) failure: Option<String>,
    /// Requests of which nobody knows how they ended.
    pub(super) unknown: u64,
    /// Arrivals of an open loop that were not done before anybody gave up on them.
    pub(super) unserved: u64,
    /// How long those had waited that were never seen to be done, as far as it is known.
    pub(super) waited: Latencies,
    /// Answers that were wrong in themselves, counted from the first transaction on.
    pub(super) wrong: Vec<String>,
}

impl Tally {
    pub(super) fn new(kinds: usize) -> Self {
        let kind = OfKind {
            committed: 0,
            rolled_back: 0,
            aborted: 0,
            latencies: Latencies::new(),
        };
        Self {
            kinds: vec![kind; kinds],
            commits: Latencies::new(),
            aborts: BTreeMap::new(),
            retries: 0,
            failed: 0,
            failure: None,
            unknown: 0,
            unserved: 0,
            waited: Latencies::new(),
            wrong: Vec::new(),
        }
    }

    /// So many arrivals that were not done, and how long they had waited.
    pub(super) fn unserved(&mut self, count: u64, waited: Duration) {
        self.unserved += count;
        self.waited.record_many(count, waited);
    }

    pub(super) fn abort(&mut self, kind: usize, cause: Cow<'static, str>) {
        self.kinds[kind].aborted += 1;
        *self.aborts.entry(cause).or_default() += 1;
    }

    pub(super) fn wrong(&mut self, what: String) {
        if self.wrong.len() < KEPT {
            self.wrong.push(what);
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        for (kind, other) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.committed += other.committed;
            kind.rolled_back += other.rolled_back;
            kind.aborted += other.aborted;
            kind.latencies.add(&other.latencies);
        }
        self.commits.add(&other.commits);
        for (cause, count) in other.aborts {
            *self.aborts.entry(cause).or_default() += count;
        }
        self.retries += other.retries;
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.unknown += other.unknown;
        self.unserved += other.unserved;
        self.waited.add(&other.waited);
        for what in other.wrong {
            self.wrong(what);
        }
    }
}
