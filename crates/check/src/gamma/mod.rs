//! Consistency over time: how far a database was from linearizable, when, how often, and
//! whether that was after a pause.
//!
//! The register judge gives each value a score, the smallest time by which operations have
//! to be stretched for it ([`registers`](crate::registers)). A database that replicates
//! asynchronously has small scores at all times; what hurts are *spikes*, for which the
//! scores of many values rise at the same moment. So this judge puts scores on a time axis
//! and counts those above a threshold:
//!
//! ```text
//!  Γ
//!  200 ms ┤                  ·
//!         ┤              ⋮  ··                 ⋮ a pause: where it began, and how long
//!         ┤              ⋮  ···                  it took, on the axis of Γ
//!    5 ms ┼┄┄┄┄┄┄┄┄┄┄┄┄┄┄⋮┄┄··┄┄┄┄┄┄┄┄┄         the threshold
//!         ┤ .  . ..   .  ⋮  ....  .  . ..
//!         └──────────────────────────────── s
//! ```
//!
//! [`Judge`] takes a history piece by piece and keeps a bounded number of values;
//! [`Analysis`] is its result, told as text, as JSON ([`Analysis::json`]), as one line for
//! each score ([`Analysis::scores_csv`]) and as a picture ([`Analysis::picture`]).
//!
//! Of pauses ([`pauses`]) it says how many violations began in a pause's *shadow*, from its
//! start until some time after its end; how many would if they began at any time, which is
//! the share of the run in shadow; and how long after the pause they lasted.
//!
//! Source: Fan's thesis, §5.4, for scores and pauses on one axis.

mod json;
pub mod pauses;
mod picture;
mod text;

#[cfg(test)]
mod tests;

use std::io::{self, BufRead};
use std::time::Duration;

use crate::history::{Format, Names, Operation, Register, StreamError, Transaction, stream};
use crate::registers::{self, Report, Score};
use crate::transactions::Unjudgeable;
use pauses::Pause;

/// Greatest number of values of a history: each takes about two hundred bytes.
pub const MOST_VALUES: usize = 10_000_000;

/// Percentiles that are told, in thousandths.
const PERCENTILES: [u64; 4] = [500, 950, 990, 999];
/// Greatest number of rows of the table, unless a length was chosen.
const MOST_ROWS: u64 = 40;
/// Greatest number of rows in any case.
const FAR_TOO_MANY_ROWS: u64 = 100_000;

/// What counts as a violation, and how scores are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Scores above this are counted as violations.
    pub threshold: Duration,
    /// The length of a row of the table; without it, a round one with not too many rows.
    pub every: Option<Duration>,
    /// How long after its end a pause is taken to have caused what begins.
    pub shadow: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threshold: Duration::from_millis(5),
            every: None,
            shadow: Duration::from_millis(50),
        }
    }
}

/// Error: a history that Γ cannot be computed of.
#[derive(Debug, thiserror::Error)]
pub enum GammaError {
    /// The history cannot be read to its end.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A value was written twice.
    #[error(transparent)]
    Unjudgeable(#[from] Unjudgeable),
    /// It has too many values.
    #[error("it has more than {MOST_VALUES} values: judge it in parts, by key")]
    TooMany,
    /// It has no operation that was answered.
    #[error("nothing to judge: no answered operation on a register")]
    Nothing,
    /// It has reads of values, and no writes.
    #[error("nothing to judge: values were read, but none was written")]
    NoWrites,
    /// The table would have too many rows.
    #[error("the table would have more than {FAR_TOO_MANY_ROWS} rows: choose longer ones")]
    Rows,
}

/// The judge of a history that is read piece by piece.
#[derive(Debug)]
pub struct Judge {
    registers: registers::Judge,
    has_writes: bool,
    most_values: usize,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            registers: registers::Judge::default(),
            has_writes: false,
            most_values: MOST_VALUES,
        }
    }
}

/// Γ of a history over time.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// What the register judge found.
    pub report: Report,
    /// The texts of keys and values.
    pub names: Names,
    /// What was asked.
    pub options: Options,
    /// Number of scores above the threshold.
    pub above: usize,
    /// Percentiles of the positive scores, as thousandths and nanoseconds.
    pub percentiles: Vec<(u64, u64)>,
    /// The scores by time.
    pub rows: Vec<Row>,
    /// The pauses that were given, in the order of their starts, and what became of them.
    pub pauses: Option<(Vec<Pause>, Correlation)>,
}

/// The scores of some part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The beginning, on the clock of the history, in nanoseconds.
    pub from: u64,
    /// Number of values with a positive score.
    pub positive: usize,
    /// Number of those above the threshold.
    pub above: usize,
    /// The greatest score.
    pub gamma: u64,
}

/// What violations have to do with pauses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correlation {
    /// Number of scores above the threshold that began in a shadow.
    pub in_shadow: usize,
    /// Number of those that began outside.
    pub outside: usize,
    /// The share of the time that is in a shadow: that of violations that chance puts there.
    pub covered: f64,
    /// Number of pauses in whose shadow a violation began.
    pub followed: usize,
    /// Percentiles, as thousandths and nanoseconds, of the time from a pause's start until a
    /// violation in its shadow began.
    pub begins_after: Vec<(u64, u64)>,
    /// The same, from a pause's end until the violation ended; 0 if it ended before.
    pub ends_after: Vec<(u64, u64)>,
}

/// Reads a history in a format and judges it.
///
/// # Errors
/// When it cannot be read to its end, cannot be judged, or has nothing to judge.
pub fn judge(
    from: &mut dyn BufRead,
    format: Format,
    options: Options,
    pauses: Option<Vec<Pause>>,
) -> Result<Analysis, GammaError> {
    let mut judge = Judge::default();
    let mut is_full = false;
    let names = stream(from, format, &mut |transaction| {
        judge.take(&transaction).map_err(|error| {
            is_full |= matches!(error, GammaError::TooMany);
            error.to_string()
        })
    });
    match names {
        Err(_) if is_full => Err(GammaError::TooMany),
        names => judge.finish(names?, options, pauses),
    }
}

impl Judge {
    /// Takes the next transaction, in any order of time.
    ///
    /// # Errors
    /// When it writes a value that was written before, or when there are too many values.
    pub fn take(&mut self, transaction: &Transaction) -> Result<(), GammaError> {
        let mut operations = transaction.operations.iter();
        self.has_writes |= operations.any(|one| matches!(one, Operation::Write { .. }));
        self.registers.take(transaction)?;
        match self.registers.values() > self.most_values {
            true => Err(GammaError::TooMany),
            false => Ok(()),
        }
    }

    /// The judgement on everything that was taken.
    ///
    /// # Errors
    /// When there is nothing to judge.
    pub fn finish(
        self,
        names: Names,
        options: Options,
        pauses: Option<Vec<Pause>>,
    ) -> Result<Analysis, GammaError> {
        let has_writes = self.has_writes;
        let report = self.registers.finish();
        if report.operations == 0 {
            return Err(GammaError::Nothing);
        }
        // Reads of initial states alone are no evidence, but no contradiction either.
        if !has_writes && !report.impossible.is_empty() {
            return Err(GammaError::NoWrites);
        }
        Analysis::new(report, names, options, pauses)
    }
}

impl Analysis {
    fn new(
        report: Report,
        names: Names,
        options: Options,
        pauses: Option<Vec<Pause>>,
    ) -> Result<Self, GammaError> {
        let threshold = nanoseconds(options.threshold);
        let above = |score: &&Score| score.gamma > threshold;
        let pauses = pauses.map(|mut pauses| {
            pauses.sort_by_key(|pause| (pause.started, pause.finished));
            let violations: Vec<&Score> = report.scores.iter().filter(above).collect();
            let correlation = correlate(&violations, &pauses, &report, &options);
            (pauses, correlation)
        });
        Ok(Self {
            above: report.scores.iter().filter(above).count(),
            percentiles: percentiles(report.scores.iter().map(|score| score.gamma).collect()),
            rows: rows(&report, &options)?,
            pauses,
            report,
            names,
            options,
        })
    }

    /// Whether a score is above the threshold, or a value was read that no operation wrote.
    #[must_use]
    pub fn is_violated(&self) -> bool {
        self.above > 0 || !self.report.impossible.is_empty()
    }

    /// The share of values whose score is above the threshold.
    #[must_use]
    pub fn share_above(&self) -> f64 {
        share(self.above, self.report.values)
    }

    /// Each positive score as a line of CSV, in the order of their times.
    ///
    /// # Errors
    /// Any error of the writer `to`.
    pub fn scores_csv(&self, to: &mut dyn io::Write) -> io::Result<()> {
        writeln!(to, "time_ns,key,value,gamma_ns,begins_ns,ends_ns")?;
        for score in &self.report.scores {
            let key = quoted(self.names.key(score.key));
            let value = match score.value {
                Register::Absent => String::new(),
                value => quoted(self.names.value(value)),
            };
            let Score {
                time,
                gamma,
                begins,
                ends,
                ..
            } = score;
            writeln!(to, "{time},{key},{value},{gamma},{begins},{ends}")?;
        }
        Ok(())
    }

    /// The picture of scores and pauses over time, as an SVG document.
    #[must_use]
    pub fn picture(&self, title: &str) -> String {
        picture::draw(self, title)
    }

    /// The time of the first start.
    fn origin(&self) -> u64 {
        self.report.span.map_or(0, |span| span.0)
    }
}

/// A field of CSV.
fn quoted(text: String) -> String {
    match text.contains([',', '"', '\n', '\r']) || text.trim() != text {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The percentiles of these numbers, by the nearest rank; none of none.
fn percentiles(mut numbers: Vec<u64>) -> Vec<(u64, u64)> {
    numbers.sort_unstable();
    let count = numbers.len() as u64;
    let at = |thousandths: u64| {
        let rank = (count * thousandths).div_ceil(1000).max(1);
        (thousandths, numbers[rank as usize - 1])
    };
    match count {
        0 => Vec::new(),
        _ => PERCENTILES.into_iter().map(at).collect(),
    }
}

/// The scores by the row in which their time is.
fn rows(report: &Report, options: &Options) -> Result<Vec<Row>, GammaError> {
    let Some((first, last)) = report.span else {
        return Ok(Vec::new());
    };
    let length = last - first;
    let every = match options.every {
        Some(every) => nanoseconds(every).max(1),
        None => round(length / MOST_ROWS + 1),
    };
    if length / every >= FAR_TOO_MANY_ROWS {
        return Err(GammaError::Rows);
    }
    let mut rows: Vec<Row> = (0..=length / every)
        .map(|row| Row {
            from: first + row * every,
            positive: 0,
            above: 0,
            gamma: 0,
        })
        .collect();
    for score in &report.scores {
        // The initial state may have to last from before all operations.
        let place = score.time.saturating_sub(first) / every;
        let place = (place as usize).min(rows.len() - 1);
        let row = &mut rows[place];
        row.positive += 1;
        row.above += usize::from(score.gamma > nanoseconds(options.threshold));
        row.gamma = row.gamma.max(score.gamma);
    }
    Ok(rows)
}

/// The least of one, two and five times a power of ten that is not less.
fn round(least: u64) -> u64 {
    let mut power: u64 = 1;
    loop {
        for factor in [1, 2, 5] {
            match power.checked_mul(factor) {
                Some(round) if round >= least => return round,
                Some(_) => {}
                None => return u64::MAX,
            }
        }
        match power.checked_mul(10) {
            Some(next) => power = next,
            None => return u64::MAX,
        }
    }
}

/// Which violations began in the shadow of a pause. The pauses are in the order of their
/// starts.
fn correlate(
    violations: &[&Score],
    pauses: &[Pause],
    report: &Report,
    options: &Options,
) -> Correlation {
    let shadow = nanoseconds(options.shadow);
    let ends: Vec<u64> = pauses
        .iter()
        .map(|pause| pause.finished.saturating_add(shadow))
        .collect();
    // The greatest end of a shadow up to each pause: where that is past, no earlier one counts.
    let mut last = 0;
    let reach: Vec<u64> = ends
        .iter()
        .map(|end| {
            last = last.max(*end);
            last
        })
        .collect();
    let mut correlation = Correlation::default();
    let mut followed = vec![false; pauses.len()];
    let (mut begins_after, mut ends_after) = (Vec::new(), Vec::new());
    for violation in violations {
        let begun = pauses.partition_point(|pause| pause.started <= violation.begins);
        let candidates = (0..begun).rev();
        let mut candidates = candidates.take_while(|place| reach[*place] >= violation.begins);
        match candidates.find(|place| ends[*place] >= violation.begins) {
            Some(place) => {
                let pause = &pauses[place];
                followed[place] = true;
                correlation.in_shadow += 1;
                begins_after.push(violation.begins - pause.started);
                ends_after.push(violation.ends.saturating_sub(pause.finished));
            }
            None => correlation.outside += 1,
        }
    }
    correlation.followed = followed.iter().filter(|is| **is).count();
    correlation.begins_after = percentiles(begins_after);
    correlation.ends_after = percentiles(ends_after);
    correlation.covered = report.span.map_or(0.0, |span| covered(pauses, &ends, span));
    correlation
}

/// The share of a span that is covered by shadows, which may overlap.
fn covered(pauses: &[Pause], ends: &[u64], (first, last): (u64, u64)) -> f64 {
    let (mut total, mut until) = (0, first);
    for (pause, end) in pauses.iter().zip(ends) {
        let from = pause.started.max(until);
        let to = (*end).min(last);
        if to > from {
            total += to - from;
            until = to;
        }
    }
    total as f64 / (last - first).max(1) as f64
}
