//! Γ over time as text for people: the table, the worst values, the summary.

use std::fmt;

use super::{Analysis, Correlation, share};
use crate::history::Register;
use crate::registers::{Because, Score};

/// Greatest number of values that are listed.
const LISTED: usize = 10;

impl fmt::Display for Analysis {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table(to)?;
        self.worst(to)?;
        let report = &self.report;
        let threshold = milliseconds(super::nanoseconds(self.options.threshold));
        writeln!(
            to,
            "\n{} operations on {} registers; {} values, {} with a positive score",
            report.operations,
            report.keys,
            report.values,
            report.scores.len()
        )?;
        write!(to, "gamma {} ms", milliseconds(report.gamma))?;
        if !self.percentiles.is_empty() {
            write!(to, "; of the positive scores")?;
            told(to, &self.percentiles)?;
        }
        writeln!(
            to,
            "\nabove {threshold} ms: {} values, {}",
            self.above,
            percent(self.share_above())
        )?;
        if let Some((pauses, correlation)) = &self.pauses {
            self.pauses(to, pauses, correlation)?;
        }
        let early = report.scores.iter();
        let early = early.filter(|score| score.because == Because::ReadBeforeWrite);
        let early = early.count();
        if early > 0 {
            let values = report.values;
            writeln!(
                to,
                "{early} of {values} values were read before they were written: the times are \
                 perhaps not of one clock"
            )?;
        }
        Ok(())
    }
}

impl Analysis {
    fn table(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threshold = milliseconds(super::nanoseconds(self.options.threshold));
        let above = format!("above {threshold} ms");
        writeln!(
            to,
            "{:>12} {:>9} {:>14} {:>12}",
            "from, s", "positive", above, "greatest, ms"
        )?;
        for row in &self.rows {
            let from = seconds(row.from - self.origin());
            let (positive, above) = (row.positive, row.above);
            let gamma = milliseconds(row.gamma);
            writeln!(to, "{from:>12} {positive:>9} {above:>14} {gamma:>12}")?;
        }
        Ok(())
    }

    fn worst(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threshold = super::nanoseconds(self.options.threshold);
        let above = self.report.scores.iter();
        let mut worst: Vec<&Score> = above.filter(|score| score.gamma > threshold).collect();
        worst.sort_by_key(|score| std::cmp::Reverse(score.gamma));
        if !worst.is_empty() {
            writeln!(to)?;
        }
        for score in worst.iter().take(LISTED) {
            let (key, value) = (self.names.key(score.key), self.state(score.value));
            let why = match score.because {
                Because::ReadBeforeWrite => "was read before it was written".to_owned(),
                Because::Other(other) => {
                    let other = self.state(other);
                    format!("and {other} each had to last beyond the other")
                }
            };
            let gamma = milliseconds(score.gamma);
            let at = |time: u64| seconds(time.saturating_sub(self.origin()));
            let (begins, ends) = (at(score.begins), at(score.ends));
            writeln!(
                to,
                "  {key}: {value} {why}, by {gamma} ms, from {begins} s to {ends} s"
            )?;
        }
        more(to, worst.len())?;
        for impossible in self.report.impossible.iter().take(LISTED) {
            let key = self.names.key(impossible.key);
            let value = self.names.value(Register::Value(impossible.value));
            let readers = impossible.readers;
            let why = match impossible.writer {
                Some(_) => "whose write had failed",
                None => "which no operation wrote",
            };
            writeln!(to, "  {key}: {value} was read {readers} times, {why}")?;
        }
        more(to, self.report.impossible.len())
    }

    fn pauses(
        &self,
        to: &mut fmt::Formatter<'_>,
        pauses: &[super::pauses::Pause],
        correlation: &Correlation,
    ) -> fmt::Result {
        let longest = pauses.iter().map(|pause| pause.finished - pause.started);
        let shadow = milliseconds(super::nanoseconds(self.options.shadow));
        writeln!(
            to,
            "pauses: {}, the longest {} ms; their shadows, to {shadow} ms after the end, are {} of \
             the time",
            pauses.len(),
            milliseconds(longest.max().unwrap_or(0)),
            percent(correlation.covered)
        )?;
        let (inside, outside) = (correlation.in_shadow, correlation.outside);
        if inside + outside == 0 {
            return Ok(());
        }
        writeln!(
            to,
            "{inside} violations began in a shadow, {}, of {} pauses; {outside} outside",
            percent(share(inside, inside + outside)),
            correlation.followed
        )?;
        if inside > 0 {
            write!(to, "they began after a pause's start")?;
            told(to, &correlation.begins_after)?;
            write!(to, "\nthey ended after a pause's end")?;
            told(to, &correlation.ends_after)?;
            writeln!(to)?;
        }
        Ok(())
    }

    fn state(&self, value: Register) -> String {
        match value {
            Register::Absent => "the initial state".to_owned(),
            value => self.names.value(value),
        }
    }
}

fn more(to: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.checked_sub(LISTED) {
        Some(more) if more > 0 => writeln!(to, "  and {more} more"),
        _ => Ok(()),
    }
}

fn told(to: &mut fmt::Formatter<'_>, percentiles: &[(u64, u64)]) -> fmt::Result {
    for (place, (thousandths, time)) in percentiles.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let percent = *thousandths as f64 / 10.0;
        write!(to, "{comma} p{percent} {}", milliseconds(*time))?;
    }
    write!(to, " ms")
}

/// Nanoseconds as milliseconds, with what is significant.
pub(super) fn milliseconds(nanoseconds: u64) -> String {
    let text = format!("{:.3}", nanoseconds as f64 / 1e6);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "0" if nanoseconds > 0 => "0.001".to_owned(),
        text => text.to_owned(),
    }
}

fn seconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e9)
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        small if small > 0.0 && small < 0.01 => format!("{small:.4} %"),
        percent => format!("{percent:.2} %"),
    }
}
