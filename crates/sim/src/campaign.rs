//! The simulation campaign (`campaign`): runs many scenarios with many seeds, and tabulates
//! the results.
//!
//! The results are stored in a [`Record`], so that a campaign of hours can be interrupted
//! and resumed, as long as the build is the same. Failed runs are repeated when the
//! campaign is resumed, so that their failures are reported again.

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

/// Verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No judge found a violation.
    Clean,
    /// The server refused to start after its files were damaged.
    Refused,
    /// A judge found a violation.
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

/// A completed run of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Scenario of the run.
    pub scenario: Scenario,
    /// Seed of the run.
    pub seed: u64,
    /// Verdict on the run.
    pub verdict: Verdict,
    /// Number of committed transactions.
    pub committed: u64,
}

/// A failed run, and the smallest failing run derived from it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The run as it failed first, with the options that repeat it.
    pub options: Options,
    /// The smallest failing run that was found.
    pub smallest: Options,
    /// Report of the smallest run.
    pub report: Report,
}

/// A sample of scenarios for a campaign of minutes: all of single engines; of whole
/// servers, whose runs take ten times as long, every third, such that all pairs of
/// workload, level and class of faults occur; of clusters every eleventh, such that every
/// workload occurs at every level; of clusters of whole servers every twentieth.
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

/// An event of a campaign.
#[derive(Clone, Copy, Debug)]
pub enum News<'run> {
    /// A run is complete.
    Done(&'run Done, &'run Options, &'run Report),
    /// The search for a smaller failing run is complete.
    Shrunk(&'run Failure),
}

/// Performs these runs, each of `length` virtual time, on `threads` threads, until all
/// are complete or `is_over` returns true. Passes each event to `note`, one at a time.
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
