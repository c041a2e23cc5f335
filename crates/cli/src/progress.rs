//! How far something has come that takes a while, for whoever waits for it.
//!
//! On a terminal a bar that is drawn again and again; in a pipe or a file a plain line
//! now and then. On standard error, so that it never gets between a command's output.
//!
//! ```text
//! reading the log  [##############..........................]  35 %  180 of 512 MB, 3 s left
//! reading the log: 35 %, 180 of 512 MB
//! ```

use std::io::{IsTerminal, Write};
use std::time::Duration;

use coeval_env::Instant;

/// Cells of the bar.
const BAR: u64 = 40;
/// How often a bar is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// How often a line is written. What is done before needs none.
const LINE: Duration = Duration::from_secs(5);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Shown as megabytes.
    Bytes,
    /// Shown as seconds.
    Milliseconds,
    /// Shown as they are, under this name.
    Of(&'static str),
}

/// The progress of one undertaking. Dropping it takes the bar away.
#[derive(Debug)]
pub(crate) struct Progress {
    what: String,
    unit: Unit,
    bar: bool,
    started: Instant,
    shown: Instant,
    drawn: bool,
}

impl Progress {
    /// Begins, silently.
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

    /// Says what it is in other words from now on.
    pub(crate) fn rename(&mut self, what: String) {
        self.what = what;
    }

    /// So much is done, of so much; `of` may be an estimate. Cheap enough to be
    /// called for every piece.
    pub(crate) fn at(&mut self, done: u64, of: u64) {
        let pause = if self.bar { FRAME } else { LINE };
        if self.shown.elapsed() < pause {
            return;
        }
        self.shown = coeval_env::now();
        let text = if self.bar {
            // Back to the beginning of the line, and what was behind it goes.
            let bar = bar(&self.what, self.unit, (done, of), self.started.elapsed());
            format!("\r{bar}\x1b[K")
        } else {
            format!("{}\n", line(&self.what, self.unit, (done, of)))
        };
        self.drawn |= self.bar;
        // Whoever looked on may have gone; the work goes on.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

fn percent((done, of): (u64, u64)) -> u64 {
    // Estimates may fall short; more than all is all.
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
