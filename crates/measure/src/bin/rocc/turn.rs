//! Results of one turn of the rocc benchmark.

use std::fmt::Write as _;

use coeval_occ::{AbortCause, Statistics, Validations};
use coeval_workload::driver::Report;

use super::Arguments;
use super::figures::Cell;

/// Causes of aborts, in the order of the columns.
const CAUSES: [AbortCause; 6] = [
    AbortCause::WriteWrite,
    AbortCause::ReadChanged,
    AbortCause::RangeChanged,
    AbortCause::RingOverflow,
    AbortCause::Deadlock,
    AbortCause::LockOrder,
];

/// The columns of [`Turn::csv`].
pub const HEAD: &str = "figure,series,x,load,validator,keys_of_range,slots,theta,scan,workers,\
    threads,round,seconds,processor_seconds,completed,aborted,scans,scans_aborted,latency_mean,\
    latency_p50,latency_p99,write_write,read_changed,range_changed,ring_overflow,deadlock,\
    lock_order,registrations,validated_scans,validated_transactions,validated_records,certain,\
    granular\n";

/// Results of a turn of a cell.
pub struct Turn {
    pub cell: Cell,
    threads: usize,
    round: usize,
    seconds: f64,
    /// CPU time of all threads, including the engine's own work.
    processor: f64,
    completed: u64,
    aborted: u64,
    /// Committed transactions with a scan, and aborted attempts at them.
    scans: u64,
    scans_aborted: u64,
    /// Latency of transactions with a scan, in microseconds: mean, median, 99th
    /// percentile.
    latency: [f64; 3],
    causes: [u64; CAUSES.len()],
    validation: Validations,
}

impl Turn {
    pub fn new(
        cell: &Cell,
        round: usize,
        arguments: &Arguments,
        report: &Report,
        [before, after]: [&Statistics; 2],
    ) -> Self {
        let kind = &report.kinds[cell.load.kind().1.min(report.kinds.len() - 1)];
        let processor = report.cpu_microseconds_per_transaction * report.completed as f64 / 1e6;
        let counted = |cause: AbortCause| {
            let at = AbortCause::ALL.iter().position(|other| *other == cause);
            at.map_or(0, |at| after.aborted[at] - before.aborted[at])
        };
        Self {
            cell: cell.clone(),
            threads: arguments.threads,
            round,
            seconds: report.seconds,
            processor,
            completed: report.completed,
            aborted: report.aborted,
            scans: kind.completed,
            scans_aborted: kind.aborted,
            latency: [kind.latency.mean, kind.latency.p50, kind.latency.p99],
            causes: CAUSES.map(counted),
            validation: after.validation - before.validation,
        }
    }

    /// Committed transactions per second of CPU time.
    pub fn transactions(&self) -> f64 {
        self.completed as f64 / self.processor
    }

    /// Millions of keys scanned by committed transactions, per second of CPU time.
    pub fn scanned(&self) -> f64 {
        (self.scans * self.cell.load.scan()) as f64 / self.processor / 1e6
    }

    /// Mean latency of a transaction with a scan, including retries, in milliseconds.
    pub fn latency(&self) -> f64 {
        self.latency[0] / 1e3
    }

    /// Aborted attempts at transactions with a scan, in per cent of all attempts.
    pub fn undone(&self) -> f64 {
        let attempts = self.scans + self.scans_aborted;
        100.0 * self.scans_aborted as f64 / attempts.max(1) as f64
    }

    /// Mean number of transactions that the commit of a scan examined.
    pub fn validated(&self) -> f64 {
        self.validation.transactions as f64 / self.validation.scans.max(1) as f64
    }

    /// Mean number of ring slots that a committed transaction took.
    pub fn registrations(&self) -> f64 {
        self.validation.registrations as f64 / self.completed.max(1) as f64
    }

    /// The turn as a line of CSV.
    pub fn csv(&self, figure: &str) -> String {
        let cell = &self.cell;
        let theta = cell.load.theta().map(|theta| theta.to_string());
        let mut line = format!(
            "{figure},{},{},{},{},{},{},{},{},{},{},{},{:.6},{:.6},{},{},{},{}",
            cell.series,
            cell.x,
            cell.load.kind().0,
            cell.setup.validator.name(),
            cell.setup.keys_of_range,
            cell.setup.slots,
            theta.unwrap_or_default(),
            cell.load.scan(),
            cell.workers,
            self.threads,
            self.round,
            self.seconds,
            self.processor,
            self.completed,
            self.aborted,
            self.scans,
            self.scans_aborted,
        );
        for value in self.latency {
            let _ = write!(line, ",{value:.1}");
        }
        let Validations {
            registrations,
            scans,
            transactions,
            records,
            certain,
            granular,
        } = self.validation;
        let validation = [
            registrations,
            scans,
            transactions,
            records,
            certain,
            granular,
        ];
        for count in self.causes.into_iter().chain(validation) {
            let _ = write!(line, ",{count}");
        }
        line.push('\n');
        line
    }
}
