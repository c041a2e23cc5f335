//! What a run has shown: Γ over time, latencies, and whether the probe kept its schedule.

use std::time::Duration;

use coeval_check::gamma;
use coeval_check::history::Names;
use serde_json::{Value, json};

use crate::latency::Histogram;
use crate::options::Options;
use crate::record::Recorded;
use crate::schedule::Kept;

/// Exit code: some score was above the threshold.
const VIOLATED: u8 = 1;
/// Exit code: the probe fell behind its schedule.
const VOID: u8 = 3;

/// A run that has ended.
pub struct Run {
    /// How the schedule was kept.
    pub kept: Kept,
    /// What was recorded.
    pub recorded: Recorded,
}

/// Prints the report, draws the picture, and returns the exit code.
///
/// # Errors
/// When there is nothing to judge, or the picture cannot be written.
pub fn report(options: &Options, run: Run) -> Result<u8, String> {
    let Run { kept, recorded } = run;
    let wanted = gamma::Options {
        threshold: options.threshold,
        ..gamma::Options::default()
    };
    let (reads, writes, failed) = (recorded.reads, recorded.writes, recorded.failed);
    let judged = recorded.judge.finish(Names::default(), wanted, None);
    let found = judged.map_err(|error| format!("{error}{}", failures(&kept)))?;
    let is_void = kept.is_void(options);
    if let Some(file) = &options.svg {
        let void = if is_void { "VOID: " } else { "" };
        let title = format!(
            "{void}{} operations a second for {} s, {} % reads, {} % on {} % of {} keys, seed {}",
            options.rate,
            options.seconds,
            options.reads,
            options.hot_operations,
            options.hot_keys,
            options.keys,
            options.seed
        );
        std::fs::write(file, found.picture(&title))
            .map_err(|error| format!("cannot write {file}: {error}"))?;
    }
    let slipped = share(kept.slipped, kept.due);
    let slip_ms = milliseconds(nanoseconds(options.slip));
    if options.json {
        let mut all = found.json();
        all["seed"] = options.seed.into();
        all["due"] = kept.due.into();
        all["slipped"] = kept.slipped.into();
        all["left_out"] = kept.left_out.into();
        all["worst_slip_ns"] = nanoseconds(kept.worst).into();
        all["void"] = is_void.into();
        all["interrupted"] = kept.interrupted.into();
        all["failed"] = failed.into();
        all["reads"] = latencies(&reads);
        all["writes"] = latencies(&writes);
        println!("{all}");
    } else {
        println!("{found}");
        for (name, histogram) in [("reads", &reads), ("writes", &writes)] {
            println!(
                "{name}: {} answered, mean {} ms, p50 {} ms, p95 {} ms, p99 {} ms, at most {} ms",
                histogram.count(),
                milliseconds(histogram.mean()),
                milliseconds(histogram.percentile(500)),
                milliseconds(histogram.percentile(950)),
                milliseconds(histogram.percentile(990)),
                milliseconds(histogram.greatest())
            );
        }
        if failed > 0 {
            println!("{failed} operations failed{}", failures(&kept));
        }
        if kept.interrupted {
            println!("the run was ended early");
        }
        println!(
            "schedule: {} of {} operations started more than {slip_ms} ms late, {slipped:.3} %; \
             the latest {} ms",
            kept.slipped,
            kept.due,
            milliseconds(nanoseconds(kept.worst))
        );
        if kept.left_out > 0 {
            let left_out = kept.left_out;
            println!("{left_out} of them never started: the store did not keep up with the rate");
        }
    }
    if is_void {
        eprintln!(
            "coeval-probe: the run is void: {slipped:.3} % of its operations started more than \
             {slip_ms} ms late, and {} % may; use a machine with less to do, or a lower --rate",
            options.slip_percent
        );
        return Ok(VOID);
    }
    if let Some(file) = &options.history {
        eprintln!("{file}: coeval check {file} --model gamma judges it again, beside --pauses");
    }
    Ok(if found.is_violated() { VIOLATED } else { 0 })
}

fn latencies(histogram: &Histogram) -> Value {
    json!({
        "answered": histogram.count(),
        "mean_ns": histogram.mean(),
        "p50_ns": histogram.percentile(500),
        "p95_ns": histogram.percentile(950),
        "p99_ns": histogram.percentile(990),
        "max_ns": histogram.greatest(),
    })
}

fn failures(kept: &Kept) -> String {
    let each = kept.failures.iter();
    each.map(|(text, count)| format!("\n  {count} times: {text}"))
        .collect()
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e6)
}
