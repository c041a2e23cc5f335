//! From a run that fails to the smallest that still does: by time, then by faults.

use std::time::Duration;

use crate::{Options, Report, run};

/// No run is made shorter than this.
const SHORTEST: Duration = Duration::from_millis(100);

/// A smaller run that still has objections, with its report; the given one if there is
/// none. Calls `tried` before each attempt.
///
/// A shorter or quieter run is another run: what a disk or a link does is drawn as it
/// is needed. So this is a search, and what it ends with is what it has seen fail.
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
    // By time: as long as a half fails, else three quarters.
    loop {
        // In whole milliseconds, which is what the command says.
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
    // By faults: half of them at once, then one after the other.
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
