//! The court: many scenarios, many seeds, and a table of what came of it.
//!
//! What was done is a [`Record`], so that a court of hours can be interrupted and goes
//! on where it was, as long as the build is the same. Runs that failed are done again when
//! the court is called again, so that what failed is told again.

mod bugs;
mod record;
mod table;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub use bugs::{BENEATH, CATCHES, Catch, Caught, ELSEWHERE, JUDGES, catch};
pub use record::{Record, Unreadable};
pub use table::Table;

use crate::{Engine, Options, Report, Scenario, run, shrink::shrink};

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
    fn of(report: &Report) -> Self {
        match (report.is_clean(), &report.refused) {
            (false, _) => Self::Failed,
            (true, Some(_)) => Self::Refused,
            (true, None) => Self::Clean,
        }
    }
}

/// A run that is done.
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

/// Scenarios for a court of minutes: all of the engines alone; of whole servers, whose
/// runs take ten times as long, every third, such that every two of workload, level and
/// class of faults are met together; of clusters every eleventh, such that every workload
/// is met at every level; of whole servers as a cluster every twentieth.
#[must_use]
pub fn sample(seed: u64) -> Vec<Scenario> {
    let place = |scenario: &Scenario| {
        let isolation = scenario.isolation as usize;
        scenario.load as usize + isolation + scenario.class as usize
    };
    let mut scenarios = Scenario::all();
    scenarios.retain(|scenario| {
        let turn = (place(scenario) as u64).wrapping_add(seed);
        turn.is_multiple_of(match scenario.engine {
            Engine::Serial | Engine::Occ => 1,
            Engine::Server => 3,
            Engine::Cluster => 11,
            Engine::Servers => 20,
        })
    });
    scenarios
}

/// What a court tells, as it happens.
#[derive(Clone, Copy, Debug)]
pub enum News<'run> {
    /// A run is done.
    Done(&'run Done, &'run Options, &'run Report),
    /// The smallest like one that failed was looked for.
    Shrunk(&'run Failure),
}

/// Holds court over these runs, each of so much virtual time, on so many threads, until
/// all are done or `is_over`. Tells `note` its [`News`], one at a time.
pub fn hold(
    runs: &[(Scenario, u64)],
    length: Duration,
    threads: usize,
    is_over: impl Fn() -> bool + Sync,
    note: impl Fn(News<'_>) + Sync,
) {
    let next = AtomicUsize::new(0);
    let noting = Mutex::new(());
    let tell = |news: News<'_>| {
        let _one_at_a_time = noting.lock().expect("no panic while it was held");
        note(news);
    };
    coeval_env::scatter(threads.max(1), |_| {
        while !is_over()
            && let Some(&(scenario, seed)) = runs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let options = Options {
                length,
                ..Options::new(scenario, seed)
            };
            let report = run(&options);
            let done = Done {
                scenario,
                seed,
                verdict: Verdict::of(&report),
                committed: report.committed,
            };
            tell(News::Done(&done, &options, &report));
            if !report.is_clean() {
                let (smallest, report) = shrink(&options, report, |_| {});
                tell(News::Shrunk(&Failure {
                    options,
                    smallest,
                    report,
                }));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Load;

    type Pair = fn(&Scenario) -> (usize, usize);

    #[test]
    fn a_sample_has_every_two_together_and_twenty_samples_have_all() {
        let all: BTreeSet<Scenario> = Scenario::all().into_iter().collect();
        let server = |scenario: &&Scenario| scenario.engine == Engine::Server;
        for seed in 0..3 {
            let sample = sample(seed);
            let of = |key: fn(&Scenario) -> (usize, usize),
                      from: &mut dyn Iterator<Item = Scenario>| {
                from.map(|scenario| key(&scenario)).collect::<BTreeSet<_>>()
            };
            let keys: [Pair; 3] = [
                |scenario| (scenario.load as usize, scenario.isolation as usize),
                |scenario| (scenario.load as usize, scenario.class as usize),
                |scenario| (scenario.isolation as usize, scenario.class as usize),
            ];
            for key in keys {
                assert_eq!(
                    of(key, &mut sample.iter().filter(server).copied()),
                    of(key, &mut all.iter().filter(server).copied())
                );
            }
        }
        let is_cluster = |scenario: &Scenario| scenario.engine.nodes() > 1;
        let mut three: BTreeSet<Scenario> = (0..3).flat_map(sample).collect();
        three.retain(|scenario| !is_cluster(scenario));
        let of_one_node = all.iter().copied().filter(|one| !is_cluster(one));
        assert!(three.into_iter().eq(of_one_node));
        let mut eleven: BTreeSet<Scenario> = (0..11).flat_map(sample).collect();
        let of_servers = |scenario: &Scenario| scenario.engine == Engine::Servers;
        eleven.retain(|scenario| !of_servers(scenario));
        let others = all.iter().copied().filter(|one| !of_servers(one));
        assert!(eleven.into_iter().eq(others));
        let twenty: BTreeSet<Scenario> = (0..20).flat_map(sample).collect();
        assert_eq!(twenty, all);
        assert!((0..20).all(|seed| sample(seed).iter().any(of_servers)));
        assert!(Load::ALL.len() > 3);
    }
}
