//! The record of a campaign, as a file of the repository with a line for each scenario,
//! build and length of runs. It is read when the campaign is resumed, on this machine or
//! another, and runs of the same build and length are skipped, except failed ones. Lines
//! of other builds are kept for information, and no run is skipped because of them.
//!
//! ```text
//! # scenario build length-ms seeds clean refused committed failed
//! occ/bank/serializable/power 76f5297303 1000 1-21 21 0 30122 -
//! occ/seats/serializable/corruption 76f5297303 1000 1-4,6-9 5 2 2214 3
//! ```
//!
//! The last column lists the seeds that failed, which are among those of the fourth. A
//! failure is permanent: a later build that does not fail has a line of its own, and a
//! build that has failed once counts as failed.
//!
//! Two lines of one scenario, build and length, as the merge of two machines' records
//! yields them, are combined: the seeds are the union, and a seed counts as failed if it
//! failed in either. A run is deterministic, so the result of a seed in both lines counts
//! once. The numbers of refused and committed runs have no seeds; if each line has seeds
//! that the other lacks and seeds in common, these numbers are split in proportion.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Done, Verdict};
use crate::Scenario;

/// Results of one scenario, build and length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) seeds: BTreeSet<u64>,
    pub(super) clean: u64,
    pub(super) refused: u64,
    pub(super) committed: u64,
    pub(super) failed: BTreeSet<u64>,
}

impl Tally {
    /// Merges another line of the same key.
    fn merge(&mut self, mut other: Self) {
        // Independent of the order in the file.
        let rank = |tally: &Self| (tally.seeds.len(), tally.refused, tally.committed);
        if rank(&other) > rank(self) {
            std::mem::swap(self, &mut other);
        }
        let new = other.seeds.difference(&self.seeds).count() as u64;
        let all = other.seeds.len() as u64;
        let of_new = |count: u64| match u128::from(count) * u128::from(new) {
            0 => 0,
            share => u64::try_from(share / u128::from(all)).unwrap_or(u64::MAX),
        };
        self.committed = self.committed.saturating_add(of_new(other.committed));
        let refused = self.refused.saturating_add(of_new(other.refused));
        self.seeds.extend(other.seeds);
        self.failed.extend(other.failed);
        let others = (self.seeds.len() - self.failed.len()) as u64;
        self.refused = refused.min(others);
        self.clean = others - self.refused;
    }
}

/// Key of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    scenario: Scenario,
    build: String,
    length_ms: u64,
}

/// All results on record, one line per key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    lines: BTreeMap<Key, Tally>,
}

/// Error for a malformed line.
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
    /// Adds a run of a build. A repeated run counts once, and as failed if it ever
    /// failed.
    pub fn add(&mut self, done: &Done, build: &str, length_ms: u64) {
        let key = Key {
            scenario: done.scenario,
            build: build.to_owned(),
            length_ms,
        };
        let tally = self.lines.entry(key).or_default();
        if !tally.seeds.insert(done.seed) {
            return;
        }
        tally.committed += done.committed;
        match done.verdict {
            Verdict::Clean => tally.clean += 1,
            Verdict::Refused => tally.refused += 1,
            Verdict::Failed => {
                tally.failed.insert(done.seed);
            }
        }
    }

    /// Whether this build's run of this length failed; `None` if it is not on record.
    #[must_use]
    pub fn failed(
        &self,
        scenario: Scenario,
        seed: u64,
        build: &str,
        length_ms: u64,
    ) -> Option<bool> {
        let tally = self.lines.get(&Key {
            scenario,
            build: build.to_owned(),
            length_ms,
        })?;
        let there = tally.seeds.contains(&seed);
        there.then(|| tally.failed.contains(&seed))
    }

    /// Scenario, build, length in milliseconds, and results of each line.
    pub(super) fn tallies(&self) -> impl Iterator<Item = (Scenario, &str, u64, &Tally)> {
        let lines = self.lines.iter();
        lines.map(|(key, tally)| (key.scenario, key.build.as_str(), key.length_ms, tally))
    }

    /// Parses the output of [`Record`].
    ///
    /// # Errors
    /// If a line is malformed.
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
            record.lines.entry(key).or_default().merge(tally);
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
    let failed = tally.failed.len() as u64;
    let counted = tally
        .clean
        .checked_add(tally.refused)?
        .checked_add(failed)?;
    let adds_up = counted == tally.seeds.len() as u64 && tally.failed.is_subset(&tally.seeds);
    adds_up.then_some((key, tally))
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
    fn a_run_is_of_its_build_and_length_and_what_failed_has_failed() {
        let scenario = done(1, Verdict::Clean).scenario;
        let mut record = Record::default();
        record.add(&done(1, Verdict::Clean), "old", 1000);
        record.add(&done(2, Verdict::Failed), "old", 1000);
        let failed =
            |record: &Record, seed, build, length| record.failed(scenario, seed, build, length);
        assert_eq!(failed(&record, 1, "old", 1000), Some(false));
        assert_eq!(failed(&record, 2, "old", 1000), Some(true));
        assert_eq!(failed(&record, 3, "old", 1000), None);
        assert_eq!(failed(&record, 1, "new", 1000), None, "another build");
        assert_eq!(failed(&record, 1, "old", 2000), None, "another length");

        record.add(&done(2, Verdict::Clean), "new", 1000);
        assert_eq!(failed(&record, 2, "new", 1000), Some(false));
        assert_eq!(failed(&record, 2, "old", 1000), Some(true));
        record.add(&done(2, Verdict::Clean), "old", 1000);
        assert_eq!(failed(&record, 2, "old", 1000), Some(true));
        assert_eq!(Record::read(&record.to_string()), Ok(record));
    }

    #[test]
    fn lines_of_the_same_runs_are_one() {
        let merged = |lines: [&str; 2]| {
            let line = |text: &str| format!("occ/bank/serializable/power abc 500 {text}\n");
            let both = |[one, two]: [&str; 2]| {
                let record = Record::read(&format!("{}{}", line(one), line(two))).unwrap();
                assert_eq!(Record::read(&record.to_string()), Ok(record.clone()));
                let text = record.to_string();
                let (_, text) = text.split_once(" 500 ").unwrap();
                text.trim().to_owned()
            };
            let [one, two] = lines;
            assert_eq!(both([one, two]), both([two, one]));
            both(lines)
        };
        // Lines of two machines.
        assert_eq!(merged(["1-3 2 0 80 2", "4-6 2 1 90 -"]), "1-6 4 1 170 2");
        assert_eq!(merged(["1-3 2 0 80 2", "4-6 2 0 90 5"]), "1-6 4 0 170 2,5");
        // Lines of one machine, where a branch has continued the record.
        assert_eq!(merged(["1-3 2 0 80 2", "1-6 4 1 170 2"]), "1-6 4 1 170 2");
        assert_eq!(merged(["1-3 2 0 80 2", "1-3 2 0 80 2"]), "1-3 2 0 80 2");
        // Both have continued: two of the three seeds of the first line are new.
        assert_eq!(merged(["1-3 1 2 90 -", "1,4-6 2 1 80 4"]), "1-6 3 2 140 4");
        // A seed that failed once counts as failed, no longer as clean or refused.
        assert_eq!(merged(["1-2 1 0 20 1", "1-2 0 1 20 2"]), "1-2 0 0 20 1-2");
        assert_eq!(merged(["1-2 0 2 20 -", "1-2 1 0 20 2"]), "1-2 0 1 20 2");
    }

    #[test]
    fn the_record_of_the_repository_is_one() {
        let text = include_str!("../../../../bench/record/court/runs");
        assert!(Record::read(text).is_ok_and(|record| record.tallies().count() > 400));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for line in [
            "occ/bank/serializable/power abc 1000 1-5 5 0 80",
            "occ/bank/serializable/nothing abc 1000 1-5 5 0 80 -",
            "occ/bank/serializable/power abc 1000 1-5 4 0 80 -",
            "occ/bank/serializable/power abc 1000 1-x 5 0 80 -",
            "occ/bank/serializable/power abc 1000 1-5 4 0 80 6",
            "occ/bank/serializable/power abc 1000 1-5 18446744073709551615 6 80 -",
        ] {
            let error = Record::read(line).unwrap_err();
            assert!(error.to_string().contains("line 1"), "{error}");
        }
    }
}
