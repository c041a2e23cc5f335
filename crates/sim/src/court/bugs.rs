//! Whether the court would find anything: bugs that are put back, and where they have
//! to be caught.

use coeval_types::planted::Bug;

use crate::{Options, Report, Scenario, run};

/// A bug, and a scenario that catches it.
#[derive(Clone, Copy, Debug)]
pub struct Catch {
    /// What is put back.
    pub bug: Bug,
    /// Where it is caught.
    pub scenario: &'static str,
}

const fn by(bug: Bug, scenario: &'static str) -> Catch {
    Catch { bug, scenario }
}

/// Bugs with a scenario that has to catch them.
pub const CATCHES: &[Catch] = &[
    by(
        Bug::PublishBeforeInstall,
        "occ/list-append/serializable/none",
    ),
    by(
        Bug::PublishBeforeInstall,
        "server/rw-register/snapshot-isolation/none",
    ),
    by(Bug::SkipPredicate, "occ/seats/serializable/none"),
    by(Bug::WrongSlot, "occ/seats/serializable/none"),
    by(Bug::LoseUpdate, "occ/list-append/snapshot-isolation/none"),
    by(Bug::AcknowledgeBeforeSync, "server/bank/read-committed/all"),
    by(Bug::IgnoreFailedSync, "occ/rw-register/read-committed/sync"),
    by(Bug::ForgetTombstone, "occ/seats/read-committed/kill"),
];

/// Bugs that no scenario is known to catch yet: what is still to be done.
pub const NOT_CAUGHT: &[Bug] = &[
    Bug::FreeUnexpired,
    Bug::TruncateEarly,
    Bug::DropChecksum,
    Bug::UnknownIsFailed,
];

/// A bug that was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// By which run.
    pub options: Options,
    /// What it said.
    pub report: Report,
    /// How many seeds that took.
    pub seeds: u64,
}

/// Tries at most `seeds` seeds; `None` when none of them catches it.
///
/// # Panics
/// In a build without planted bugs, and for a scenario that there is not.
#[must_use]
pub fn catch(catch: Catch, seeds: u64) -> Option<Caught> {
    let scenario: Scenario = catch.scenario.parse().expect("a scenario");
    (0..seeds).find_map(|seed| {
        let options = Options {
            bug: Some(catch.bug),
            ..Options::new(scenario, seed)
        };
        let report = run(&options);
        (!report.is_clean()).then_some(Caught {
            options,
            report,
            seeds: seed + 1,
        })
    })
}
