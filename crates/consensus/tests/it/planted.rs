//! Injected known bugs: random runs must detect each by the property it violates.

use coeval_consensus::Recovery;
use coeval_types::planted::{Bug, plant};

use crate::random::{Plan, asking, leased, plan, run};

/// The kind of runs that detect a bug.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Plain,
    /// Leaders' clocks are slow, so that they do not notice when they are deposed.
    Dozing,
    /// Leases, with drifting clocks.
    Leased,
    /// Followers ask their leader for reads: of this many voters.
    Asking(u64),
}

/// A bug that the runs detect.
struct Catch {
    bug: Bug,
    runs: Runs,
    /// Number of seeds needed, from 0 on, when they were last counted.
    seeds: u64,
    /// The property that is found violated.
    property: &'static str,
}

const CATCHES: [Catch; 12] = [
    Catch {
        bug: Bug::CommitWithoutMajority,
        runs: Runs::Plain,
        seeds: 1,
        property: "commit by a majority",
    },
    Catch {
        bug: Bug::ForgetMarkRule,
        runs: Runs::Plain,
        seeds: 2,
        property: "the mark rule",
    },
    Catch {
        bug: Bug::BelieveTrailingMarks,
        runs: Runs::Plain,
        seeds: 80,
        property: "log matching",
    },
    Catch {
        bug: Bug::AcknowledgeStaleTerm,
        runs: Runs::Dozing,
        seeds: 254,
        property: "commit by a majority",
    },
    Catch {
        bug: Bug::PromiseAtOnce,
        runs: Runs::Plain,
        seeds: 1,
        property: "promises",
    },
    Catch {
        bug: Bug::ForgetTerm,
        runs: Runs::Plain,
        seeds: 1,
        property: "promises",
    },
    Catch {
        bug: Bug::VoteInLease,
        runs: Runs::Leased,
        seeds: 592,
        property: "a read sees up to",
    },
    Catch {
        bug: Bug::VoteAfterStart,
        runs: Runs::Leased,
        seeds: 2102,
        property: "a read sees up to",
    },
    Catch {
        bug: Bug::ReuseQuestion,
        runs: Runs::Asking(3),
        seeds: 10,
        property: "follower reads",
    },
    Catch {
        bug: Bug::SkipQuestion,
        runs: Runs::Asking(3),
        seeds: 1,
        property: "follower reads",
    },
    Catch {
        bug: Bug::AskOldTerm,
        runs: Runs::Asking(3),
        seeds: 27,
        property: "follower reads",
    },
    Catch {
        bug: Bug::TrustAsker,
        runs: Runs::Asking(5),
        seeds: 755,
        property: "follower reads",
    },
];

impl Catch {
    fn plan(&self, seed: u64) -> Plan {
        match self.runs {
            Runs::Plain => plan(3, seed, Recovery::Marks),
            Runs::Dozing => Plan {
                leaders_doze: true,
                ..plan(3, seed, Recovery::Marks)
            },
            Runs::Leased => leased(3, seed),
            Runs::Asking(voters) => asking(voters, seed),
        }
    }

    /// The number of seeds up to the first that detects the bug, and the violation.
    fn found(&self, seeds: impl Iterator<Item = u64>) -> Option<(u64, String)> {
        self.faults(seeds).next()
    }

    /// The numbers of the seeds that detect a fault, and the faults.
    fn faults(&self, seeds: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, String)> {
        seeds.filter_map(|seed| {
            let fault = run(&self.plan(seed)).err()?;
            Some((seed + 1, fault.to_string()))
        })
    }
}

/// The recorded seed is tried first. After a change that makes other runs of the same
/// seeds, the message names the seed to record.
#[test]
fn every_bug_is_found_and_nothing_without_it() {
    let mut wrong = String::new();
    for case in &CATCHES {
        let kept = case.seeds - 1;
        if let Some((_, fault)) = case.found(kept..case.seeds) {
            wrong += &format!("without {} seed {kept} finds {fault}\n", case.bug);
        }
        let planted = plant(case.bug).expect("a build with bugs");
        match case.found(kept..case.seeds) {
            Some((_, fault)) if fault.contains(case.property) => {}
            _ => {
                let mut faults = case.faults(0..3000);
                let now = faults.find(|(_, fault)| fault.contains(case.property));
                wrong += &format!("{}: now {now:?}\n", case.bug);
            }
        }
        drop(planted);
    }
    assert!(wrong.is_empty(), "{wrong}");
}
