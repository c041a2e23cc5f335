//! Per-client counters and latency histograms of the measurement.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Number of violations that are kept; further ones add no information.
const KEPT: usize = 20;

/// A histogram of latencies in nanoseconds, to three significant digits.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> Self {
        Self(Histogram::new(3).expect("three digits are possible"))
    }

    pub(super) fn record(&mut self, latency: Duration) {
        self.record_many(1, latency);
    }

    /// Records `count` requests of the same latency.
    pub(super) fn record_many(&mut self, count: u64, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        // Latencies are capped at an hour. Below that the histogram resizes itself.
        let _ = self.0.record_n(nanoseconds.min(3_600_000_000_000), count);
    }

    pub(super) fn add(&mut self, other: &Self) {
        // Both histograms resize themselves.
        let _ = self.0.add(&other.0);
    }

    pub(super) fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

/// Counters of one kind of transaction.
#[derive(Clone, Debug)]
pub(super) struct OfKind {
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    pub(super) aborted: u64,
    pub(super) latencies: Latencies,
}

/// All counters of a client, or of several clients together.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) kinds: Vec<OfKind>,
    /// Commit latency over the wire of transactions that wrote, from request to
    /// acknowledgement.
    pub(super) commits: Latencies,
    /// Aborted attempts by cause.
    pub(super) aborts: BTreeMap<Cow<'static, str>, u64>,
    /// Aborted attempts that were retried.
    pub(super) retries: u64,
    /// Requests given up, and the error message of the first.
    pub(super) failed: u64,
    pub(super) failure: Option<String>,
    /// Requests of unknown outcome.
    pub(super) unknown: u64,
    /// Arrivals of an open loop that were not done before the driver stopped waiting.
    pub(super) unserved: u64,
    /// How long arrivals without an observed end had waited, as far as known.
    pub(super) waited: Latencies,
    /// Violations in the answers themselves, collected from the first transaction on.
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

    /// Counts `count` unserved arrivals that had waited for `waited`.
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
