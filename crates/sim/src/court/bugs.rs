//! Whether the court would find anything: bugs that are put back, and where they have
//! to be caught.
//!
//! A [`Catch`] says of a bug in which scenario it is caught, which judge objects, and
//! within how many seeds. Together they leave no judge and no class of faults without a
//! bug of its own, which a test holds them to.

use std::fmt;
use std::ops::Range;

use coeval_types::planted::Bug;

use crate::{Options, Report, Scenario, run};

/// A bug, and where it is caught.
#[derive(Clone, Copy, Debug)]
pub struct Catch {
    /// What is put back.
    pub bug: Bug,
    /// Where it is caught.
    pub scenario: &'static str,
    /// Which judge has to object.
    pub judge: &'static str,
    /// How many seeds that took when it was last counted.
    pub seeds: u64,
}

impl Catch {
    /// It has to be caught within so many seeds. Some more than it took: whatever
    /// changes in the engine makes other runs of the same seeds.
    #[must_use]
    pub const fn within(&self) -> u64 {
        20 + 4 * self.seeds
    }
}

impl fmt::Display for Catch {
    /// As a line of the table in `docs/internals/testing.md`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bug, scenario, judge) = (self.bug, self.scenario, self.judge);
        write!(
            formatter,
            "| {bug} | `{scenario}` | {judge} | {} | {} |",
            self.seeds,
            self.within()
        )
    }
}

const fn by(bug: Bug, scenario: &'static str, judge: &'static str, seeds: u64) -> Catch {
    Catch {
        bug,
        scenario,
        judge,
        seeds,
    }
}

/// Who objects in a simulated run: judges of `coeval_check`, that of transactions by
/// its levels, and the run's own. Beside them stands `panic`.
pub const JUDGES: &[&str] = &[
    "read-committed",
    "snapshot-isolation",
    "strong-session-snapshot-isolation",
    "strong-snapshot-isolation",
    "serializable",
    "strict-serializable",
    "registers",
    "recency",
    "sessions",
    "bank",
    "ledger",
    "seats",
    "ycsb",
    "smallbank",
    "tpcc",
    "start",
    "liveness",
    "consensus",
    "replicas",
    "outcomes",
];

/// Bugs under faults that the simulator does not make. They are caught
/// [in processes](coeval_workload::faults::dock::planted): nobody asks a simulated server
/// to stop while it has clients.
pub const ELSEWHERE: &[Bug] = &[Bug::CommitOnStop];

/// Bugs of clusters of which no run of the court meets the circumstances: tests of
/// `coeval_consensus` and `coeval_leader` find them.
///
/// - Marks at the end of a log ([`Bug::BelieveTrailingMarks`]) lie only where a leader died
///   between keeping its mark and sending it, and the leader before it, whose log is as long
///   by a change of members that nobody else has, leads once more.
/// - Leases are off in the court ([`Bug::VoteInLease`], [`Bug::VoteAfterStart`]).
/// - A newcomer ([`Bug::TrustNewcomers`]) promises what it may not only under the number of a
///   voter whose disk was lost. The court's operator never gives a number twice.
/// - An answer is old where it is not confirmed ([`Bug::AnswerUnconfirmed`]) only if somebody
///   reads on a leader that is cut off what is written under the next one, and waits for
///   nothing that is written there. By the contract a client lives with its leader until that
///   leads no more: before, nobody writes under the next one. Of whole servers a leader that
///   hears nobody gives up as soon as another may be elected, and one that was paused handles
///   what others said meanwhile before it answers: 1,100 runs of eleven scenarios met neither.
pub const BENEATH: &[Bug] = &[
    Bug::BelieveTrailingMarks,
    Bug::VoteInLease,
    Bug::VoteAfterStart,
    Bug::TrustNewcomers,
    Bug::AnswerUnconfirmed,
];

/// Every other bug, with the scenarios that have to catch it.
pub const CATCHES: &[Catch] = &[
    by(
        Bug::PublishBeforeInstall,
        "occ/list-append/serializable/none",
        "serializable",
        2,
    ),
    by(
        Bug::PublishBeforeInstall,
        "server/rw-register/snapshot-isolation/none",
        "snapshot-isolation",
        1,
    ),
    by(
        Bug::SkipPredicate,
        "occ/seats/serializable/none",
        "seats",
        1,
    ),
    by(Bug::WrongSlot, "occ/seats/serializable/none", "seats", 1),
    by(
        Bug::SkipRead,
        "occ/list-append/serializable/none",
        "serializable",
        1,
    ),
    by(
        Bug::LoseUpdate,
        "occ/list-append/snapshot-isolation/none",
        "snapshot-isolation",
        2,
    ),
    by(
        Bug::FreeUnexpired,
        "occ/list-append/snapshot-isolation/none",
        "snapshot-isolation",
        1,
    ),
    by(
        Bug::StaleSnapshot,
        "occ/rw-register/snapshot-isolation/none",
        "strong-session-snapshot-isolation",
        1,
    ),
    by(
        Bug::StaleSnapshot,
        "occ/rw-register/snapshot-isolation/none",
        "strong-snapshot-isolation",
        1,
    ),
    by(
        Bug::StaleSnapshot,
        "occ/rw-register/serializable/none",
        "strict-serializable",
        1,
    ),
    by(
        Bug::StaleSnapshot,
        "occ/rw-register/read-committed/none",
        "registers",
        2,
    ),
    by(
        Bug::StaleSnapshot,
        "occ/list-append/snapshot-isolation/none",
        "recency",
        1,
    ),
    by(
        Bug::StaleSnapshot,
        "occ/list-append/snapshot-isolation/none",
        "sessions",
        1,
    ),
    by(
        Bug::AcknowledgeBeforeWrite,
        "occ/bank/read-committed/kill",
        "ledger",
        1,
    ),
    by(
        Bug::ForgetTombstone,
        "occ/seats/read-committed/kill",
        "seats",
        1,
    ),
    by(
        Bug::AcknowledgeBeforeSync,
        "occ/list-append/read-committed/power",
        "read-committed",
        1,
    ),
    by(
        Bug::ForgetName,
        "occ/list-append/read-committed/power",
        "start",
        5,
    ),
    by(
        Bug::TruncateEarly,
        "occ/list-append/snapshot-isolation/power",
        "start",
        12,
    ),
    by(
        Bug::EndOldSnapshots,
        "occ/list-append/snapshot-isolation/pause",
        "snapshot-isolation",
        2,
    ),
    by(
        Bug::IgnoreFailedSync,
        "occ/bank/read-committed/sync",
        "ledger",
        5,
    ),
    by(Bug::StayFull, "occ/bank/read-committed/full", "liveness", 4),
    by(
        Bug::IgnoreFullDisk,
        "occ/bank/serializable/full",
        "start",
        5,
    ),
    by(
        Bug::DropChecksum,
        "occ/bank/read-committed/corruption",
        "ledger",
        21,
    ),
    by(
        Bug::ForgetTombstone,
        "occ/tpcc/read-committed/kill",
        "tpcc",
        1,
    ),
    by(
        Bug::AcknowledgeBeforeSync,
        "occ/tpcc/serializable/power",
        "tpcc",
        1,
    ),
    by(
        Bug::AcknowledgeBeforeWrite,
        "occ/smallbank/read-committed/kill",
        "smallbank",
        1,
    ),
    by(
        Bug::AcknowledgeBeforeWrite,
        "occ/ycsb/read-committed/kill",
        "ycsb",
        8,
    ),
    by(
        Bug::LoseUpdate,
        "occ/ycsb/snapshot-isolation/none",
        "snapshot-isolation",
        11,
    ),
    by(
        Bug::UnknownIsFailed,
        "server/bank/read-committed/network",
        "ledger",
        1,
    ),
    by(
        Bug::SendAgain,
        "server/list-append/read-committed/network",
        "read-committed",
        3,
    ),
    by(
        Bug::CommitOnDisconnect,
        "server/bank/snapshot-isolation/network",
        "bank",
        2,
    ),
    by(
        Bug::SlowIsFailed,
        "server/bank/read-committed/sync",
        "ledger",
        1,
    ),
    by(
        Bug::SessionOutlivesTimeout,
        "server/bank/read-committed/partition",
        "ledger",
        1,
    ),
    by(
        Bug::OrderByClock,
        "occ/bank/read-committed/clock",
        "ledger",
        1,
    ),
    by(
        Bug::AcknowledgeBeforeSync,
        "server/bank/read-committed/all",
        "ledger",
        3,
    ),
    by(
        Bug::CommitWithoutMajority,
        "cluster/bank/read-committed/none",
        "consensus",
        1,
    ),
    by(
        Bug::CommitWithoutMajority,
        "cluster/bank/serializable/power",
        "ledger",
        21,
    ),
    by(
        Bug::CommitWithoutMajority,
        "cluster/list-append/snapshot-isolation/partition",
        "recency",
        11,
    ),
    by(
        Bug::CommitWithoutMajority,
        "cluster/list-append/snapshot-isolation/partition",
        "sessions",
        11,
    ),
    by(
        Bug::CommitWithoutMajority,
        "cluster/bank/read-committed/loss",
        "ledger",
        5,
    ),
    by(
        Bug::PromiseAtOnce,
        "cluster/bank/read-committed/power",
        "consensus",
        1,
    ),
    by(
        Bug::ForgetTerm,
        "cluster/bank/read-committed/power",
        "consensus",
        1,
    ),
    by(
        Bug::ForgetMarkRule,
        "cluster/bank/read-committed/power",
        "consensus",
        4,
    ),
    by(
        Bug::ForgetVote,
        "cluster/bank/serializable/kill",
        "consensus",
        1,
    ),
    by(
        Bug::ForgetCheckpointTerm,
        "cluster/bank/read-committed/all",
        "consensus",
        8,
    ),
    by(
        Bug::CheckpointUncommitted,
        "cluster/bank/read-committed/partition",
        "start",
        7,
    ),
    by(
        Bug::AcknowledgeStaleTerm,
        "cluster/bank/read-committed/network",
        "start",
        9,
    ),
    by(
        Bug::AcknowledgeStaleTerm,
        "cluster/seats/snapshot-isolation/partition",
        "start",
        21,
    ),
    by(
        Bug::ForgetIndex,
        "cluster/bank/read-committed/kill",
        "start",
        2,
    ),
    by(
        Bug::ForgetIndex,
        "cluster/bank/read-committed/partition",
        "start",
        7,
    ),
    by(
        Bug::ReusedOffset,
        "cluster/bank/read-committed/partition",
        "start",
        11,
    ),
    by(
        Bug::ReusedOffset,
        "cluster/bank/read-committed/kill",
        "replicas",
        35,
    ),
    by(
        Bug::RecordApart,
        "servers/bank/read-committed/power",
        "ledger",
        4,
    ),
    by(
        Bug::RecordApart,
        "servers/bank/read-committed/sync",
        "ledger",
        2,
    ),
    by(
        Bug::ForgetOutcomes,
        "servers/bank/read-committed/kill",
        "outcomes",
        4,
    ),
    by(
        Bug::CommitWithoutMajority,
        "servers/bank/read-committed/none",
        "consensus",
        1,
    ),
    by(
        Bug::ForgetIndex,
        "servers/list-append/read-committed/partition",
        "replicas",
        8,
    ),
    by(
        Bug::StaleSnapshot,
        "servers/list-append/snapshot-isolation/none",
        "strong-session-snapshot-isolation",
        1,
    ),
    by(
        Bug::SkipPredicate,
        "servers/seats/serializable/none",
        "seats",
        1,
    ),
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

/// Tries these seeds until the judge objects; `None` when it never does.
///
/// # Panics
/// In a build without planted bugs, and for a scenario that there is not.
#[must_use]
pub fn catch(catch: Catch, mut seeds: Range<u64>) -> Option<Caught> {
    let scenario: Scenario = catch.scenario.parse().expect("a scenario");
    seeds.find_map(|seed| {
        let options = Options {
            bug: Some(catch.bug),
            ..Options::new(scenario, seed)
        };
        let report = run(&options);
        let objects = report.objections_of(catch.judge).next().is_some();
        objects.then_some(Caught {
            options,
            report,
            seeds: seed + 1,
        })
    })
}
