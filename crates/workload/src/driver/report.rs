//! The report of a run: its numbers, serialised as JSON, as CSV and as text.
//!
//! The fields are described for users in `docs/operations/bench.md`; a test checks that
//! page against them.

use std::collections::BTreeMap;
use std::time::Duration;

use coeval_txn::Isolation;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::tally::{OfKind, Tally};
use super::{Measured, Options};
use crate::workload::Parameters;

/// All numbers of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the workload.
    pub workload: String,
    /// Name of the in-process engine, or `wire`.
    pub backend: String,
    /// What commits survive: a crash of the process, or a loss of power.
    pub durability: String,
    /// Memory that the process preallocated before anything else, in megabytes.
    pub preallocated_megabytes: u64,
    /// Isolation level of the transactions.
    pub isolation: String,
    /// Number of threads that generate the load.
    pub threads: usize,
    /// Number of clients.
    pub clients: usize,
    /// Seed of the random number generators.
    pub seed: u64,
    /// Parameters of the workload.
    pub parameters: Parameters,
    /// Transactions that arrived per second; null for a closed loop.
    pub arrival_rate: Option<f64>,
    /// Time to fill the tables, in seconds; null if an earlier run had filled them.
    pub load_seconds: Option<f64>,
    /// Length of the warm-up, in seconds.
    pub warm_up_seconds: f64,
    /// Length of the measurement, in seconds.
    pub seconds: f64,
    /// Whether the run was stopped early.
    pub interrupted: bool,
    /// Completed requests: committed, or rolled back by the workload's own choice.
    pub completed: u64,
    /// Completed requests that the workload rolled back.
    pub rolled_back: u64,
    /// Aborted attempts, whether or not they were retried.
    pub aborted: u64,
    /// Attempts that were retried.
    pub retries: u64,
    /// Requests that the client gave up.
    pub failed: u64,
    /// Error message of the first failed request; null if none failed.
    pub first_failure: Option<String>,
    /// Requests of unknown outcome.
    pub unknown: u64,
    /// Arrivals for which no client was free before the end, or that were not done when
    /// the driver stopped waiting.
    pub unserved_arrivals: u64,
    /// `completed` per second.
    pub transactions_per_second: f64,
    /// CPU time of the process for each of `completed`, in microseconds.
    pub cpu_microseconds_per_transaction: f64,
    /// Which parts of the system that CPU time includes.
    pub cpu_includes: String,
    /// Latency from the (intended) beginning of a request to its end; of an abandoned
    /// arrival, the time that the driver waited for it.
    pub latency: Latency,
    /// Latency of the commit alone, from request to acknowledgement, of writing
    /// transactions with several statements; null unless over the wire.
    pub commit_latency: Option<Latency>,
    /// Aborted attempts by cause.
    pub aborts: BTreeMap<String, u64>,
    /// Numbers of each kind of transaction.
    pub kinds: Vec<KindReport>,
    /// Samples of the measurement, about one per second.
    pub timeline: Vec<Sample>,
    /// Whether the final check ran.
    pub checked: bool,
    /// Violations that the workload found, during the run or at the end.
    pub violations: Vec<String>,
    /// Version of the program.
    pub version: String,
}

/// Numbers of one kind of transaction.
#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    /// Name of the kind.
    pub name: String,
    /// Completed requests of this kind, as in [`Report`].
    pub completed: u64,
    /// Completed requests of this kind that the workload rolled back, as in [`Report`].
    pub rolled_back: u64,
    /// Aborted attempts of this kind, as in [`Report`].
    pub aborted: u64,
    /// Completed requests of this kind per second, as in [`Report`].
    pub transactions_per_second: f64,
    /// Latency of this kind, as in [`Report`].
    pub latency: Latency,
}

/// Latencies in microseconds, to three significant digits.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Mean latency.
    pub mean: f64,
    /// Smallest latency.
    pub min: f64,
    /// Median latency.
    pub p50: f64,
    /// 90th percentile of the latency.
    pub p90: f64,
    /// 95th percentile of the latency.
    pub p95: f64,
    /// 99th percentile of the latency.
    pub p99: f64,
    /// 99.9th percentile of the latency.
    pub p999: f64,
    /// Greatest latency.
    pub max: f64,
}

/// Throughput over about one second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// End of the sample, in seconds from the start of the measurement.
    pub seconds: f64,
    /// Completed requests per second.
    pub transactions_per_second: f64,
    /// Aborted attempts per second.
    pub aborts_per_second: f64,
}

/// Facts that a report states beside its measured numbers.
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

/// Name of an isolation level on the command line and in reports.
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
            // The histogram resizes itself, so the addition cannot fail.
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

    /// Whether no violation was found, and no request was given up.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.failed == 0
    }

    /// The report as JSON, with a final newline.
    #[must_use]
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        // Numbers, strings and maps with string keys are always serialisable.
        text.unwrap_or_default() + "\n"
    }
}
