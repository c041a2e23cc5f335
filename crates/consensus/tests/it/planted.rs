//! Bugs that are put back: random runs find each, by what it breaks.

use coeval_consensus::Recovery;
use coeval_types::planted::{Bug, plant};

use crate::random::{Plan, plan, run};

/// A bug that runs find.
struct Catch {
    bug: Bug,
    leaders_doze: bool,
    /// How many seeds it took, from 0 on, when that was last counted.
    seeds: u64,
    /// What is found broken.
    property: &'static str,
}

const CATCHES: [Catch; 4] = [
    Catch {
        bug: Bug::CommitWithoutMajority,
        leaders_doze: false,
        seeds: 1,
        property: "commit by a majority",
    },
    Catch {
        bug: Bug::ForgetMarkRule,
        leaders_doze: false,
        seeds: 1,
        property: "the mark rule",
    },
    Catch {
        bug: Bug::BelieveTrailingMarks,
        leaders_doze: false,
        seeds: 68,
        property: "log matching",
    },
    Catch {
        bug: Bug::AcknowledgeStaleTerm,
        leaders_doze: true,
        seeds: 254,
        property: "commit by a majority",
    },
];

impl Catch {
    fn plan(&self, seed: u64) -> Plan {
        Plan {
            leaders_doze: self.leaders_doze,
            ..plan(3, seed, Recovery::Marks)
        }
    }

    /// The number of seeds up to the first that finds it, and what that says.
    fn found(&self, seeds: impl Iterator<Item = u64>) -> Option<(u64, String)> {
        let mut seeds = seeds;
        seeds.find_map(|seed| {
            let fault = run(&self.plan(seed)).err()?;
            Some((seed + 1, fault.to_string()))
        })
    }
}

/// The seed that was kept is tried first. After a change that makes other runs of the
/// same seeds, the message says which to keep.
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
            _ => wrong += &format!("{}: now {:?}\n", case.bug, case.found(0..3000)),
        }
        drop(planted);
    }
    assert!(wrong.is_empty(), "{wrong}");
}
