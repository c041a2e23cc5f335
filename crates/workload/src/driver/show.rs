//! Output formats of a report: CSV, a chart, and text for people.

use std::fmt::Write;

use super::Length;
use super::report::{KindReport, Latency, Report, Sample};
use crate::plot::{Axis, Chart, Series};

impl Report {
    /// The report as CSV: a header, a line for each kind, and a line `all`.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = "workload,backend,isolation,threads,clients,kind,completed,rolled_back,\
                        aborted,transactions_per_second,mean,min,p50,p90,p95,p99,p999,max\n"
            .to_owned();
        let all = KindReport {
            name: "all".to_owned(),
            completed: self.completed,
            rolled_back: self.rolled_back,
            aborted: self.aborted,
            transactions_per_second: self.transactions_per_second,
            latency: self.latency,
        };
        for kind in self.kinds.iter().chain([&all]) {
            let _ = write!(
                text,
                "{},{},{},{},{},{},{},{},{},{:.3}",
                self.workload,
                self.backend,
                self.isolation,
                self.threads,
                self.clients,
                kind.name,
                kind.completed,
                kind.rolled_back,
                kind.aborted,
                kind.transactions_per_second,
            );
            for value in kind.latency.values() {
                let _ = write!(text, ",{value:.3}");
            }
            text.push('\n');
        }
        text
    }

    /// A chart of throughput and aborts, second by second.
    #[must_use]
    pub fn chart(&self) -> Chart {
        let axis = |name: &str| Axis {
            name: name.to_owned(),
            logarithmic: false,
        };
        let series = |name: &str, value: fn(&Sample) -> f64| Series {
            name: name.to_owned(),
            points: self
                .timeline
                .iter()
                .map(|sample| (sample.seconds, value(sample)))
                .collect(),
        };
        Chart {
            title: format!(
                "{} on {}, {}, {} clients on {} threads",
                self.workload, self.backend, self.isolation, self.clients, self.threads
            ),
            x: axis("seconds"),
            y: axis("per second"),
            series: vec![
                series("transactions", |sample| sample.transactions_per_second),
                series("attempts undone", |sample| sample.aborts_per_second),
            ],
        }
    }

    /// The report as text for people.
    #[must_use]
    pub fn text(&self, length: Length) -> String {
        let mut text = format!(
            "{} on {} ({}), {}, {} clients on {} threads, seed {}",
            self.workload,
            self.backend,
            self.durability,
            self.isolation,
            self.clients,
            self.threads,
            self.seed
        );
        if let Some(rate) = self.arrival_rate {
            let _ = write!(text, ", {rate} arrivals per second");
        }
        if let Length::Transactions(count) = length {
            let _ = write!(text, ", {count} transactions");
        }
        if self.preallocated_megabytes > 0 {
            let _ = write!(text, ", {} MB preallocated", self.preallocated_megabytes);
        }
        let _ = writeln!(text, "\n");
        let _ = writeln!(
            text,
            "{:<18} {:>10} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9}   (latency in µs)",
            "", "completed", "per second", "aborted", "mean", "p50", "p99", "max"
        );
        let line = |name: &str, completed, per_second, aborted, latency: &Latency| {
            format!(
                "{name:<18} {completed:>10} {per_second:>11.0} {aborted:>9} {:>9.1} {:>9.1} {:>9.1} {:>9.1}\n",
                latency.mean, latency.p50, latency.p99, latency.max
            )
        };
        for kind in &self.kinds {
            let rate = kind.transactions_per_second;
            text += &line(
                &kind.name,
                kind.completed,
                rate,
                kind.aborted,
                &kind.latency,
            );
        }
        let rate = self.transactions_per_second;
        text += &line("all", self.completed, rate, self.aborted, &self.latency);
        if let Some(commit) = &self.commit_latency {
            let _ = writeln!(
                text,
                "{:<50} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
                "commits, of those that wrote", commit.mean, commit.p50, commit.p99, commit.max
            );
        }
        let _ = writeln!(
            text,
            "\n{:.2} s, {:.2} µs of CPU for each transaction ({})",
            self.seconds, self.cpu_microseconds_per_transaction, self.cpu_includes
        );
        for (cause, count) in &self.aborts {
            let _ = writeln!(text, "aborted by {cause}: {count}");
        }
        for (what, count) in [
            ("rolled back as wanted", self.rolled_back),
            ("tried again", self.retries),
            ("given up", self.failed),
            ("outcome unknown", self.unknown),
            ("arrivals not served", self.unserved_arrivals),
        ] {
            if count > 0 {
                let _ = writeln!(text, "{what}: {count}");
            }
        }
        if let Some(failure) = &self.first_failure {
            let _ = writeln!(text, "the first failure: {failure}");
        }
        if self.interrupted {
            text.push_str("interrupted: the run was stopped early\n");
        }
        for violation in &self.violations {
            let _ = writeln!(text, "WRONG: {violation}");
        }
        if self.checked && self.violations.is_empty() {
            text.push_str("checked at the end: everything is as it has to be\n");
        }
        text
    }
}
