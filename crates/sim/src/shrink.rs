//! The shrinker: searches for the smallest run that still fails, by length, then by
//! faults.

use std::time::Duration;

use crate::{Options, Report, run};

/// Length below which no run is shortened.
const SHORTEST: Duration = Duration::from_millis(100);

/// Returns a smaller run that still has violations, with its report; the given run if
/// there is none. Calls `tried` before each attempt.
///
/// A shorter run, or one with fewer faults, is a different run, because disks and links
/// draw random numbers as they need them. So this is a search, and its result is a run
/// that was observed to fail.
#[must_use]
pub fn shrink(
    options: &Options,
    report: Report,
    mut tried: impl FnMut(&Options),
) -> (Options, Report) {
    let mut best = (options.clone(), report);
    let mut attempt = |candidate: Options, best: &mut (Options, Report)| {
        tried(&candidate);
        let report = run(&candidate);
        let fails = !report.is_clean();
        if fails {
            *best = (candidate, report);
        }
        fails
    };
    // By length: half of it while that fails, else three quarters.
    loop {
        // In whole milliseconds, the unit of the command line.
        let length = u64::try_from(best.0.length.as_millis()).unwrap_or(u64::MAX);
        let shorter = [length / 2, length / 4 * 3]
            .into_iter()
            .map(Duration::from_millis)
            .filter(|length| *length >= SHORTEST)
            .any(|length| {
                let candidate = Options {
                    length,
                    ..best.0.clone()
                };
                attempt(candidate, &mut best)
            });
        if !shorter {
            break;
        }
    }
    // By faults: first half of them at once, finally one at a time.
    let mut kept: Vec<usize> = best.0.plan().iter().map(|fault| fault.number).collect();
    let mut width = kept.len().div_ceil(2);
    while width > 0 {
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + width).min(kept.len()));
            let candidate = Options {
                faults: Some(fewer.clone()),
                ..best.0.clone()
            };
            if attempt(candidate, &mut best) {
                kept = fewer;
            } else {
                at += width;
            }
        }
        width /= 2;
    }
    best
}
