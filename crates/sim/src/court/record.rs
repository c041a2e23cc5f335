//! What a long court has come to, as a file of the repository: a line for each scenario,
//! build and length of runs. It is read when the court is held again, on this machine or
//! another, and what is in it is not done again, but for runs that failed.
//!
//! ```text
//! # scenario build length-ms seeds clean refused committed failed
//! occ/bank/serializable/power 76f5297303 1000 1-21 21 0 30122 -
//! occ/seats/serializable/corruption 76f5297303 1000 1-4,6-9 5 2 2214 3
//! ```
//!
//! The last column names the seeds that failed, which are among those of the fourth.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Done, Verdict};
use crate::Scenario;

/// Of one build and one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) seeds: BTreeSet<u64>,
    pub(super) clean: u64,
    pub(super) refused: u64,
    pub(super) committed: u64,
    pub(super) failed: BTreeSet<u64>,
}

/// Which line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    scenario: Scenario,
    build: String,
    length_ms: u64,
}

/// Everything that has been done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    lines: BTreeMap<Key, Tally>,
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    line: usize,
    text: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, text } = self;
        write!(
            formatter,
            "line {line} is no line of a court's record: {text}; take it out, and its runs \
             are done again"
        )
    }
}

impl std::error::Error for Unreadable {}

impl Record {
    /// Adds a run of a build. What was known of it from another build goes.
    pub fn add(&mut self, done: &Done, build: &str, length_ms: u64) {
        let Done { scenario, seed, .. } = *done;
        for (key, tally) in &mut self.lines {
            if key.scenario == scenario && tally.failed.remove(&seed) {
                tally.seeds.remove(&seed);
            }
        }
        self.lines.retain(|_, tally| !tally.seeds.is_empty());
        let key = Key {
            scenario,
            build: build.to_owned(),
            length_ms,
        };
        let tally = self.lines.entry(key).or_default();
        if !tally.seeds.insert(seed) {
            return;
        }
        tally.committed += done.committed;
        match done.verdict {
            Verdict::Clean => tally.clean += 1,
            Verdict::Refused => tally.refused += 1,
            Verdict::Failed => {
                tally.failed.insert(seed);
            }
        }
    }

    /// Whether a run was done, by any build, and did not fail.
    #[must_use]
    pub fn has(&self, scenario: Scenario, seed: u64) -> bool {
        self.lines.iter().any(|(key, tally)| {
            key.scenario == scenario && tally.seeds.contains(&seed) && !tally.failed.contains(&seed)
        })
    }

    pub(super) fn tallies(&self) -> impl Iterator<Item = (Scenario, &Tally)> {
        let lines = self.lines.iter();
        lines.map(|(key, tally)| (key.scenario, tally))
    }

    /// Reads what [`Record`] prints.
    ///
    /// # Errors
    /// When a line is none.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        let mut record = Self::default();
        for (at, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, tally) = read_line(line).ok_or_else(|| Unreadable {
                line: at + 1,
                text: line.to_owned(),
            })?;
            record.lines.insert(key, tally);
        }
        Ok(record)
    }
}

fn read_line(line: &str) -> Option<(Key, Tally)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[
        scenario,
        build,
        length,
        seeds,
        clean,
        refused,
        committed,
        failed,
    ] = &words[..]
    else {
        return None;
    };
    let key = Key {
        scenario: scenario.parse().ok()?,
        build: build.to_owned(),
        length_ms: length.parse().ok()?,
    };
    let tally = Tally {
        seeds: read_seeds(seeds)?,
        clean: clean.parse().ok()?,
        refused: refused.parse().ok()?,
        committed: committed.parse().ok()?,
        failed: read_seeds(failed)?,
    };
    let counted = tally.clean + tally.refused + tally.failed.len() as u64;
    (counted == tally.seeds.len() as u64).then_some((key, tally))
}

fn read_seeds(text: &str) -> Option<BTreeSet<u64>> {
    if text == "-" {
        return Some(BTreeSet::new());
    }
    let mut seeds = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        seeds.extend(first.parse::<u64>().ok()?..=last.parse().ok()?);
    }
    Some(seeds)
}

fn seeds(seeds: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &seed in seeds {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == seed => *last = seed,
            _ => ranges.push((seed, seed)),
        }
    }
    if ranges.is_empty() {
        return "-".to_owned();
    }
    let texts = ranges.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    texts.collect::<Vec<String>>().join(",")
}

impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "# scenario build length-ms seeds clean refused committed failed"
        )?;
        for (key, tally) in &self.lines {
            writeln!(
                formatter,
                "{} {} {} {} {} {} {} {}",
                key.scenario,
                key.build,
                key.length_ms,
                seeds(&tally.seeds),
                tally.clean,
                tally.refused,
                tally.committed,
                seeds(&tally.failed)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(seed: u64, verdict: Verdict) -> Done {
        Done {
            scenario: "occ/bank/serializable/power".parse().unwrap(),
            seed,
            verdict,
            committed: 10,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut record = Record::default();
        for seed in [1, 2, 3, 7, 9, 10] {
            record.add(&done(seed, Verdict::Clean), "abc", 1000);
        }
        record.add(&done(4, Verdict::Refused), "abc", 1000);
        record.add(&done(5, Verdict::Failed), "abc", 1000);
        let text = record.to_string();
        let line = "occ/bank/serializable/power abc 1000 1-5,7,9-10 6 1 80 5\n";
        assert!(text.ends_with(line), "{text}");
        assert_eq!(Record::read(&text), Ok(record));
    }

    #[test]
    fn a_run_that_failed_is_to_be_done_again_and_its_last_verdict_counts() {
        let scenario = done(1, Verdict::Clean).scenario;
        let mut record = Record::default();
        record.add(&done(1, Verdict::Clean), "old", 1000);
        record.add(&done(2, Verdict::Failed), "old", 1000);
        assert!(record.has(scenario, 1) && !record.has(scenario, 2) && !record.has(scenario, 3));
        record.add(&done(2, Verdict::Clean), "new", 1000);
        assert!(record.has(scenario, 2));
        let failed: usize = record.tallies().map(|(_, tally)| tally.failed.len()).sum();
        assert_eq!(failed, 0);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for line in [
            "occ/bank/serializable/power abc 1000 1-5 5 0 80",
            "occ/bank/serializable/nothing abc 1000 1-5 5 0 80 -",
            "occ/bank/serializable/power abc 1000 1-5 4 0 80 -",
            "occ/bank/serializable/power abc 1000 1-x 5 0 80 -",
        ] {
            let error = Record::read(line).unwrap_err();
            assert!(error.to_string().contains("line 1"), "{error}");
        }
    }
}
