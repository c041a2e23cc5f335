//! Injected known bugs: random runs detect each, by the judges named.

use coeval_types::planted::{Bug, plant};

use crate::runs::{Faults, run};
use crate::world::Layout;

/// A bug that the runs detect.
struct Catch {
    bug: Bug,
    /// Number of seeds needed, from 0 on, when they were last counted.
    seeds: u64,
    /// The judge that objects first there.
    judge: &'static str,
}

const fn by(bug: Bug, seeds: u64, judge: &'static str) -> Catch {
    Catch { bug, seeds, judge }
}

const CATCHES: &[Catch] = &[
    by(Bug::CloseBeforeDrained, 2, "copies"),
    by(Bug::DrawInClosedEpoch, 1, "invented"),
    by(Bug::ReadInTheGap, 1, "replay"),
    by(Bug::ReadOpenEpoch, 1, "replay"),
    by(Bug::AnswerBeforeCaps, 1, "ledger"),
    by(Bug::CapWithoutFlush, 37, "atomic visibility"),
    by(Bug::ForgetAbortMark, 12, "copies"),
    by(Bug::CountAborted, 14, "invented"),
    by(Bug::CountEveryCopy, 18, "torn"),
    by(Bug::ResolveLastEpochOnly, 6, "copies"),
    by(Bug::AcceptOldConfiguration, 21, "copies"),
    by(Bug::ReuseIncarnation, 1, "liveness"),
    by(Bug::TwoManagers, 53, "ledger"),
    by(Bug::CollectUnderReader, 10, "replay"),
    by(Bug::CopyOpenEpoch, 3, "copies"),
    by(Bug::PromoteAtOnce, 2, "copies"),
    by(Bug::OpenAtTakeOver, 47, "copies"),
];

/// Seeds within which a bug must be found.
const WITHIN: u64 = 60;

/// Faults that meet the bug often.
fn faults(bug: Bug) -> Faults {
    match bug {
        // Front ends die in the middle of a transaction, and back ends keep their memory.
        Bug::CountEveryCopy => Faults {
            lost: 6,
            fences: 60,
            ..Faults::NONE
        },
        // Managers change all the time, and all members stay.
        Bug::TwoManagers => Faults {
            elections: 120,
            kills: 1200,
            removals: 0,
            fences: 0,
            ..Faults::ALL
        },
        // A back end that has lost closed epochs is removed: it must have answered before.
        Bug::CapWithoutFlush => Faults {
            elections: 250,
            removals: 0,
            ..Faults::ALL
        },
        // Back ends die with their closing records under way, and managers before they are through.
        Bug::OpenAtTakeOver => Faults {
            elections: 250,
            kills: 250,
            ..Faults::ALL
        },
        _ => Faults::ALL,
    }
}

fn layout(bug: Bug) -> Layout {
    match bug {
        Bug::CollectUnderReader => Layout {
            history: 1,
            ..Layout::of(3)
        },
        // Back ends that have the same copy, and none that has the other key.
        Bug::CountEveryCopy | Bug::TwoManagers | Bug::OpenAtTakeOver => Layout::of(5),
        _ => Layout::of(3),
    }
}

fn found(bug: Bug, mut seeds: impl Iterator<Item = u64>) -> Option<(u64, String)> {
    seeds.find_map(|seed| {
        let report = run(seed, layout(bug), faults(bug), 3000);
        let first = report.objections.into_iter().next()?;
        Some((seed + 1, first))
    })
}

/// The first seed at which this judge objects first.
fn found_by(judge: &str, bug: Bug) -> Option<(u64, String)> {
    let mut seeds = 0..WITHIN;
    std::iter::from_fn(|| found(bug, &mut seeds)).find(|(_, what)| what.starts_with(judge))
}

/// The recorded seed is tried first. After a change that makes other runs of the same seeds, the
/// message names the seed to record.
#[test]
fn every_bug_is_found_and_nothing_without_it() {
    let mut wrong = String::new();
    for case in CATCHES {
        let kept = case.seeds - 1;
        if let Some((_, what)) = found(case.bug, kept..case.seeds) {
            wrong += &format!("without {} seed {kept} finds {what}\n", case.bug);
        }
        let planted = plant(case.bug).expect("a build with bugs");
        match found(case.bug, kept..case.seeds) {
            Some((_, what)) if what.starts_with(case.judge) => {}
            _ => {
                let now = found_by(case.judge, case.bug).map(|(seeds, mut what)| {
                    what.truncate(150);
                    (seeds, what)
                });
                wrong += &format!("{}: now {now:?}\n", case.bug);
            }
        }
        drop(planted);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_bug_of_epochs_is_planted() {
    let planted = CATCHES.iter().map(|case| case.bug);
    let all = Bug::ALL.iter().copied().filter(|bug| bug.is_of_epochs());
    assert!(all.eq(planted));
}
