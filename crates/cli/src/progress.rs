//! Progress display of a long command, for the user who waits for it.
//!
//! On a terminal a bar that is redrawn in place; in a pipe or a file a plain line at
//! intervals. It goes to standard error, so that it never mixes with a command's output.
//!
//! ```text
//! reading the log  [##############..........................]  35 %  180 of 512 MB, 3 s left
//! reading the log: 35 %, 180 of 512 MB
//! ```

use std::io::{IsTerminal, Write};
use std::time::Duration;

use coeval_env::Instant;

/// Width of the bar, in characters.
const BAR: u64 = 40;
/// Interval between two drawings of the bar.
const FRAME: Duration = Duration::from_millis(100);
/// Interval between two lines. A task that ends before the first one gets no line.
const LINE: Duration = Duration::from_secs(5);

/// The unit of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes, shown as megabytes.
    Bytes,
    /// Milliseconds, shown as seconds.
    Milliseconds,
    /// Any other thing, shown as a number with this name.
    Of(&'static str),
}

/// The progress of one task. Dropping it removes the bar.
#[derive(Debug)]
pub(crate) struct ProgressBar {
    what: String,
    unit: Unit,
    bar: bool,
    started: Instant,
    shown: Instant,
    drawn: bool,
}

impl ProgressBar {
    /// A progress display that shows nothing yet.
    pub(crate) fn new(what: impl Into<String>, unit: Unit) -> Self {
        let now = coeval_env::now();
        Self {
            what: what.into(),
            unit,
            bar: std::io::stderr().is_terminal(),
            started: now,
            shown: now,
            drawn: false,
        }
    }

    /// Changes the name of the task.
    pub(crate) fn rename(&mut self, what: String) {
        self.what = what;
    }

    /// Shows that `done` of `of` units are done; `of` may be an estimate. The call is
    /// cheap enough for every unit.
    pub(crate) fn at(&mut self, done: u64, of: u64) {
        let pause = if self.bar { FRAME } else { LINE };
        if self.shown.elapsed() < pause {
            return;
        }
        self.shown = coeval_env::now();
        let text = if self.bar {
            // Returns to the beginning of the line, and clears the rest after the bar.
            let bar = bar(&self.what, self.unit, (done, of), self.started.elapsed());
            format!("\r{bar}\x1b[K")
        } else {
            format!("{}\n", line(&self.what, self.unit, (done, of)))
        };
        self.drawn |= self.bar;
        // A closed standard error does not stop the work.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.drawn {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

fn percent((done, of): (u64, u64)) -> u64 {
    // An estimate may be too low, so the percentage is capped at 100.
    (u128::from(done.min(of)) * 100)
        .checked_div(u128::from(of))
        .map_or(100, |percent| percent as u64)
}

fn counts(unit: Unit, (done, of): (u64, u64)) -> String {
    let of = of.max(done);
    match unit {
        Unit::Bytes => format!("{} of {} MB", done / 1_000_000, of.div_ceil(1_000_000)),
        Unit::Milliseconds => format!("{} of {} s", done / 1_000, of.div_ceil(1_000)),
        Unit::Of(name) => format!("{done} of {of} {name}"),
    }
}

fn line(what: &str, unit: Unit, at: (u64, u64)) -> String {
    format!("{what}: {} %, {}", percent(at), counts(unit, at))
}

fn bar(what: &str, unit: Unit, at: (u64, u64), elapsed: Duration) -> String {
    let percent = percent(at);
    let full = (percent * BAR / 100) as usize;
    let empty = BAR as usize - full;
    let mut text = format!(
        "{what}  [{}{}] {percent:>3} %  {}",
        "#".repeat(full),
        ".".repeat(empty),
        counts(unit, at)
    );
    let left = elapsed.as_secs_f64() * (100 - percent) as f64 / percent as f64;
    if left.is_finite() && percent < 100 {
        text.push_str(&format!(", {left:.0} s left"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_and_says_how_long() {
        let half = bar(
            "reading",
            Unit::Bytes,
            (50_000_000, 99_500_000),
            Duration::from_secs(4),
        );
        assert_eq!(
            half,
            "reading  [####################....................]  50 %  50 of 100 MB, 4 s left"
        );
        let none = bar("reading", Unit::Of("rows"), (0, 10), Duration::from_secs(4));
        assert!(none.ends_with("]   0 %  0 of 10 rows"), "{none}");
        let all = bar(
            "reading",
            Unit::Of("rows"),
            (11, 10),
            Duration::from_secs(4),
        );
        assert!(all.ends_with("#] 100 %  11 of 11 rows"), "{all}");
    }

    #[test]
    fn a_line_is_plain() {
        assert_eq!(
            line("reading", Unit::Bytes, (180_000_000, 512_000_000)),
            "reading: 35 %, 180 of 512 MB"
        );
        assert_eq!(
            line("reading", Unit::Of("tables"), (0, 0)),
            "reading: 100 %, 0 of 0 tables"
        );
    }
}
