//! The court: many scenarios, many seeds, and a table of what came of it.
//!
//! Done runs are lines of a file, so that a court of hours can be interrupted and goes
//! on where it was. A line says scenario, seed, and what came of it; runs that failed
//! are done again when the court is called again, for they may have been mended.

mod bugs;
mod table;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use bugs::{CATCHES, Catch, Caught, JUDGES, catch};
pub use table::Table;

use crate::{Options, Report, Scenario, run, shrink::shrink};

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to object to.
    Clean,
    /// The server refused to start after its files were damaged.
    Refused,
    /// Something that must not be.
    Failed,
}

impl Verdict {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Clean, "clean"),
        (Self::Refused, "refused"),
        (Self::Failed, "FAILED"),
    ];

    fn of(report: &Report) -> Self {
        match (report.is_clean(), &report.refused) {
            (false, _) => Self::Failed,
            (true, Some(_)) => Self::Refused,
            (true, None) => Self::Clean,
        }
    }
}

/// A run that is done, as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub scenario: Scenario,
    /// Of which seed.
    pub seed: u64,
    /// What came of it.
    pub verdict: Verdict,
    /// How many transactions committed.
    pub committed: u64,
}

impl std::fmt::Display for Done {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = Verdict::ALL
            .iter()
            .find(|(verdict, _)| *verdict == self.verdict);
        let verdict = known.map_or("", |(_, name)| *name);
        let (scenario, seed, committed) = (self.scenario, self.seed, self.committed);
        write!(formatter, "{scenario} {seed} {verdict} {committed}")
    }
}

impl Done {
    /// Reads a line.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let scenario = words.next()?.parse().ok()?;
        let seed = words.next()?.parse().ok()?;
        let verdict = words.next()?;
        let (verdict, _) = *Verdict::ALL.iter().find(|(_, name)| *name == verdict)?;
        let committed = words.next()?.parse().ok()?;
        Some(Self {
            scenario,
            seed,
            verdict,
            committed,
        })
    }
}

/// A run that failed, and the smallest like it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// As it was found, and what repeats it.
    pub options: Options,
    /// The smallest that was found.
    pub smallest: Options,
    /// What is wrong with that.
    pub report: Report,
}

/// Holds court over `runs` that are not among `done` yet, on so many threads; tells
/// `note` of every run that is done, one at a time.
pub fn hold(
    runs: &[(Scenario, u64)],
    done: &[Done],
    threads: usize,
    note: impl Fn(&Done) + Sync,
) -> (Vec<Done>, Vec<Failure>) {
    let settled: BTreeSet<(Scenario, u64)> = done
        .iter()
        .filter(|done| done.verdict != Verdict::Failed)
        .map(|done| (done.scenario, done.seed))
        .collect();
    let waiting: Vec<_> = runs.iter().filter(|run| !settled.contains(run)).collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new((Vec::new(), Vec::new())));
    coeval_env::scatter(threads.max(1), |_| {
        while let Some(&&(scenario, seed)) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
            let options = Options::new(scenario, seed);
            let report = run(&options);
            let done = Done {
                scenario,
                seed,
                verdict: Verdict::of(&report),
                committed: report.committed,
            };
            let failure = (!report.is_clean()).then(|| {
                let (smallest, report) = shrink(&options, report, |_| {});
                Failure {
                    options,
                    smallest,
                    report,
                }
            });
            let mut results = results.lock().expect("no panic while it was held");
            note(&done);
            results.0.push(done);
            results.1.extend(failure);
        }
    });
    let (mut new, failures) = results.into_inner().expect("no panic while it was held");
    let mut all: Vec<Done> = done
        .iter()
        .filter(|done| runs.contains(&(done.scenario, done.seed)))
        .filter(|done| settled.contains(&(done.scenario, done.seed)))
        .cloned()
        .collect();
    all.append(&mut new);
    (all, failures)
}
