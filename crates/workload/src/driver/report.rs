//! The numbers of a run, as JSON, as CSV and for people.
//!
//! The fields are described for users in `docs/operations/bench.md`; a test holds that
//! page to them.

use std::collections::BTreeMap;
use std::time::Duration;

use coeval_txn::Isolation;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::tally::{OfKind, Tally};
use super::{Measured, Options};
use crate::workload::Parameters;

/// The whole of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The workload's name.
    pub workload: String,
    /// The engine's name in this process, or `wire`.
    pub backend: String,
    /// What commits survive.
    pub durability: String,
    /// How much memory the process had taken before anything else, in megabytes.
    pub preallocated_megabytes: u64,
    /// The isolation level of transactions.
    pub isolation: String,
    /// Threads of the load.
    pub threads: usize,
    /// Clients.
    pub clients: usize,
    /// Where chance began.
    pub seed: u64,
    /// What the workload was told.
    pub parameters: Parameters,
    /// Transactions that arrived in a second; null for a closed loop.
    pub arrival_rate: Option<f64>,
    /// How long the tables took to fill; null when they were there.
    pub load_seconds: Option<f64>,
    /// How long the warm-up was.
    pub warm_up_seconds: f64,
    /// How long was measured.
    pub seconds: f64,
    /// Whether it was told to end before its time.
    pub interrupted: bool,
    /// Requests done: committed, or rolled back as they wanted to.
    pub completed: u64,
    /// Of them, those rolled back.
    pub rolled_back: u64,
    /// Attempts that were undone, whether or not they were tried again.
    pub aborted: u64,
    /// Attempts that were tried again.
    pub retries: u64,
    /// Requests that were given up.
    pub failed: u64,
    /// What the first of them was told; null without any.
    pub first_failure: Option<String>,
    /// Requests of which nobody knows how they ended.
    pub unknown: u64,
    /// Arrivals for which there was no free client until the end, or that were not done
    /// when nobody waited for them any more.
    pub unserved_arrivals: u64,
    /// `completed` in a second.
    pub transactions_per_second: f64,
    /// CPU time of the process for each of `completed`.
    pub cpu_microseconds_per_transaction: f64,
    /// Whose CPU time that is.
    pub cpu_includes: String,
    /// From the (intended) beginning of a request to its end; of an arrival whose end
    /// nobody saw, as far as was waited for it.
    pub latency: Latency,
    /// Of it, from asking for a commit to hearing of it, of transactions that wrote in
    /// several statements; null unless that is over the wire.
    pub commit_latency: Option<Latency>,
    /// Attempts that were undone, by cause.
    pub aborts: BTreeMap<String, u64>,
    /// By kind of transaction.
    pub kinds: Vec<KindReport>,
    /// Second by second.
    pub timeline: Vec<Sample>,
    /// Whether everything was looked at in the end.
    pub checked: bool,
    /// What was wrong, during the run or at the end.
    pub violations: Vec<String>,
    /// The version of the program.
    pub version: String,
}

/// Of one kind of transactions.
#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    /// Its name.
    pub name: String,
    /// As in [`Report`].
    pub completed: u64,
    /// As in [`Report`].
    pub rolled_back: u64,
    /// As in [`Report`].
    pub aborted: u64,
    /// As in [`Report`].
    pub transactions_per_second: f64,
    /// As in [`Report`].
    pub latency: Latency,
}

/// Latencies in microseconds, to three digits.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// Half of them took at most so long.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// All of them.
    pub max: f64,
}

/// One second or so.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// When it ended, from the beginning of what is measured.
    pub seconds: f64,
    /// Requests done in a second.
    pub transactions_per_second: f64,
    /// Attempts undone in a second.
    pub aborts_per_second: f64,
}

/// What a report says beside numbers.
pub(super) struct Facts {
    pub(super) workload: &'static str,
    pub(super) kinds: &'static [&'static str],
    pub(super) parameters: Parameters,
    pub(super) backend: &'static str,
    pub(super) over_wire: bool,
    pub(super) loaded: Option<Duration>,
    pub(super) checked: bool,
    pub(super) violations: Vec<String>,
}

/// The name of a level on the command line and in reports.
#[must_use]
pub const fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read-committed",
        Isolation::SnapshotIsolation => "snapshot",
        Isolation::Serializable => "serializable",
    }
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let micros = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let at = |quantile| micros(histogram.value_at_quantile(quantile));
        Self {
            mean: (histogram.mean()).round() / 1e3,
            min: micros(histogram.min()),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: micros(histogram.max()),
        }
    }

    pub(super) fn values(&self) -> [f64; 8] {
        [
            self.mean, self.min, self.p50, self.p90, self.p95, self.p99, self.p999, self.max,
        ]
    }
}

fn per(amount: f64, of: f64) -> f64 {
    if of > 0.0 { amount / of } else { 0.0 }
}

impl Report {
    pub(super) fn new(facts: Facts, options: &Options, measured: Measured, tally: &Tally) -> Self {
        let seconds = measured.elapsed.as_secs_f64();
        let mut all = Histogram::new(3).expect("three digits are possible");
        let mut kinds = Vec::new();
        let _ = all.add(tally.waited.histogram());
        for (name, kind) in facts.kinds.iter().zip(&tally.kinds) {
            // It grows as it has to.
            let _ = all.add(kind.latencies.histogram());
            let completed = kind.committed + kind.rolled_back;
            kinds.push(KindReport {
                name: (*name).to_owned(),
                completed,
                rolled_back: kind.rolled_back,
                aborted: kind.aborted,
                transactions_per_second: per(completed as f64, seconds),
                latency: Latency::of(kind.latencies.histogram()),
            });
        }
        let sum = |of: fn(&OfKind) -> u64| tally.kinds.iter().map(of).sum::<u64>();
        let rolled_back = sum(|kind| kind.rolled_back);
        let completed = sum(|kind| kind.committed) + rolled_back;
        let cpu = measured.processor.as_secs_f64() * 1e6;
        let cpu_includes = if facts.over_wire {
            "this process: the load generation and its side of the wire, not the server"
        } else {
            "this process: the engine with its background work, and the load generation"
        };
        let aborts = tally.aborts.iter();
        Self {
            workload: facts.workload.to_owned(),
            backend: facts.backend.to_owned(),
            durability: options.durability.clone(),
            preallocated_megabytes: options.preallocated_megabytes,
            isolation: isolation_name(options.isolation).to_owned(),
            threads: options.threads.clamp(1, options.clients.max(1)),
            clients: options.clients,
            seed: options.seed,
            parameters: facts.parameters,
            arrival_rate: options.rate,
            load_seconds: facts.loaded.map(|loaded| loaded.as_secs_f64()),
            warm_up_seconds: options.warm_up.as_secs_f64(),
            seconds,
            interrupted: measured.interrupted,
            completed,
            rolled_back,
            aborted: sum(|kind| kind.aborted),
            retries: tally.retries,
            failed: tally.failed,
            first_failure: tally.failure.clone(),
            unknown: tally.unknown,
            unserved_arrivals: tally.unserved,
            transactions_per_second: per(completed as f64, seconds),
            cpu_microseconds_per_transaction: per(cpu, completed as f64),
            cpu_includes: cpu_includes.to_owned(),
            latency: Latency::of(&all),
            commit_latency: facts
                .over_wire
                .then(|| Latency::of(tally.commits.histogram())),
            aborts: aborts
                .map(|(cause, count)| (cause.to_string(), *count))
                .collect(),
            kinds,
            timeline: measured.timeline,
            checked: facts.checked,
            violations: facts.violations,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Whether nothing was wrong, and no request was given up.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.failed == 0
    }

    /// As JSON, with a line end.
    #[must_use]
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        // Numbers, texts and maps of texts can all be written.
        text.unwrap_or_default() + "\n"
    }
}
