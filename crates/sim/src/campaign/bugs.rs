//! Self-test of the simulator: known bugs, and the scenario and judge that must catch
//! each.
//!
//! A [`Catch`] lists for a bug the scenario that catches it, the judge that reports it,
//! and the number of seeds that took. Every judge and every class of faults must have a
//! bug of its own, which a test verifies.

use std::fmt;
use std::ops::Range;

use coeval_types::planted::Bug;

use crate::{Options, Report, Scenario, run};

/// A bug, and the scenario that catches it.
#[derive(Clone, Copy, Debug)]
pub struct Catch {
    /// The bug to inject.
    pub bug: Bug,
    /// The scenario that catches the bug.
    pub scenario: &'static str,
    /// The judge that must report a violation.
    pub judge: &'static str,
    /// Number of seeds that were needed when they were last counted.
    pub seeds: u64,
}

impl Catch {
    /// Number of seeds within which the bug must be caught: more than were needed,
    /// because any change of the engine changes the runs of a seed.
    #[must_use]
    pub const fn within(&self) -> u64 {
        20 + 4 * self.seeds
    }
}

impl fmt::Display for Catch {
    /// Formats a line of the table in `docs/internals/testing.md`.
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

/// The judges of a simulated run: those of `coeval_check`, with that of transactions
/// split by level, and the run's own. `panic` comes in addition.
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
    "pipelines",
    "start",
    "liveness",
    "consensus",
    "replicas",
    "outcomes",
    "definitions",
    "reports",
    "gamma",
];

/// Bugs that show only under faults that the simulator does not inject. They are caught
/// [in processes](coeval_workload::faults::harness::planted): the simulator never shuts a
/// server down while it has clients.
pub const ELSEWHERE: &[Bug] = &[Bug::CommitOnStop];

/// Bugs of clusters whose circumstances no simulated run meets: tests of
/// `coeval_consensus`, `coeval_leader` and `coeval_sql` catch them.
///
/// - Trailing marks at the end of a log ([`Bug::BelieveTrailingMarks`]) occur only if a
///   leader dies between storing its mark and sending it, and the previous leader, whose
///   log is longer by a membership change that no other node has, becomes leader once
///   more.
/// - Leases are disabled in campaigns ([`Bug::VoteInLease`], [`Bug::VoteAfterStart`]).
/// - A new node ([`Bug::TrustNewcomers`]) breaks promises only under the number of a
///   voter whose disk was lost. The simulated operator never reuses a number.
/// - An unconfirmed answer ([`Bug::AnswerUnconfirmed`]) is stale only if a client reads
///   on a partitioned leader what is written under the next leader, without waiting for a
///   write there. Through the transaction contract a client stays with its leader until
///   its term ends: before that, no client writes under the next one. Among whole servers
///   a partitioned leader steps down as soon as another may be elected, and one that was
///   paused handles the messages of the others before it answers: 1,100 runs of eleven
///   scenarios met neither.
/// - A version of the catalog that names two states ([`Bug::CatalogVersionWithoutTerm`])
///   shows where a cache outlives a serving term, and none does.
/// - Numbers of sequences that come twice ([`Bug::SequenceWithoutRow`]) show in the tests of
///   `coeval-sql`: no workload here takes any.
/// - What a directory or a founding is, and the cluster version, only worlds show whose nodes
///   lose their directories or are of two builds ([`Bug::RaiseUnasked`],
///   [`Bug::VoteWithUnknownIdentity`], [`Bug::FoundAtOnce`], [`Bug::ForgetRemoval`],
///   [`Bug::AdoptVouched`]): those of `coeval-leader`.
/// - One asker and its leader are a majority of three nodes, so its question confirms the
///   leader: that takes five ([`Bug::TrustAsker`]). Simulated clusters have three.
/// - The leader of an earlier term answers ([`Bug::AskOldTerm`]) only before it has got any
///   message of the later term, and its answer is taken only while the later leader's is
///   still on its way: when a leader is paused or cut off, both send to it, and what waited
///   arrives at one moment. 700 runs of `questions`, `partition` and `pause` met it never.
/// - No judge of a run looks at memory ([`Bug::CollectWithoutReaders`]): what is not collected
///   changes no answer. The model of `coeval-occ` counts versions.
/// - A follower builds an index and shows it in one step of its replay task, in which no task
///   of its node runs that could read ([`Bug::ShowUnbuiltIndex`]): the model of `coeval-occ`
///   reads in the middle of it.
/// - A commit spares readers their question ([`Bug::StampAfterMessage`],
///   [`Bug::StampByOldCommit`]) where questions take longer than commits, which they do on no
///   simulated link: a test of `coeval-leader` makes them.
/// - No scenario has epochs ([`Bug::is_of_epochs`]): the runs of `coeval-epoch` have nothing else.
pub const BENEATH: &[Bug] = &[
    Bug::BelieveTrailingMarks,
    Bug::VoteInLease,
    Bug::VoteAfterStart,
    Bug::TrustNewcomers,
    Bug::AnswerUnconfirmed,
    Bug::CatalogVersionWithoutTerm,
    Bug::SequenceWithoutRow,
    Bug::RaiseUnasked,
    Bug::VoteWithUnknownIdentity,
    Bug::FoundAtOnce,
    Bug::StampAfterMessage,
    Bug::StampByOldCommit,
    Bug::AskOldTerm,
    Bug::TrustAsker,
    Bug::CollectWithoutReaders,
    Bug::ShowUnbuiltIndex,
    Bug::ForgetRemoval,
    Bug::AdoptVouched,
    Bug::CloseBeforeDrained,
    Bug::DrawInClosedEpoch,
    Bug::ReadInTheGap,
    Bug::ReadOpenEpoch,
    Bug::AnswerBeforeCaps,
    Bug::CapWithoutFlush,
    Bug::ForgetAbortMark,
    Bug::CountAborted,
    Bug::CountEveryCopy,
    Bug::ResolveLastEpochOnly,
    Bug::AcceptOldConfiguration,
    Bug::ReuseIncarnation,
    Bug::TwoManagers,
    Bug::CollectUnderReader,
    Bug::CopyOpenEpoch,
    Bug::PromoteAtOnce,
    Bug::OpenAtTakeOver,
];

/// Every other bug, with the scenarios that must catch it.
pub const CATCHES: &[Catch] = &[
    by(
        Bug::PublishBeforeInstall,
        "occ/list-append/serializable/none",
        "serializable",
        1,
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
        2,
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
        4,
    ),
    by(
        Bug::ForgetName,
        "occ/list-append/read-committed/power",
        "start",
        12,
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
        18,
    ),
    by(
        Bug::CommitWithoutMajority,
        "cluster/list-append/snapshot-isolation/partition",
        "recency",
        9,
    ),
    by(
        Bug::CommitWithoutMajority,
        "cluster/list-append/snapshot-isolation/partition",
        "sessions",
        9,
    ),
    by(
        Bug::CommitWithoutMajority,
        "cluster/bank/read-committed/loss",
        "consensus",
        1,
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
        2,
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
        13,
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
        1,
    ),
    by(
        Bug::AcknowledgeStaleTerm,
        "cluster/seats/snapshot-isolation/partition",
        "start",
        10,
    ),
    by(
        Bug::ForgetIndex,
        "cluster/bank/read-committed/partition",
        "start",
        6,
    ),
    by(
        Bug::ReusedOffset,
        "cluster/bank/read-committed/partition",
        "start",
        6,
    ),
    by(
        Bug::ReusedOffset,
        "cluster/bank/read-committed/kill",
        "replicas",
        37,
    ),
    by(
        Bug::SkipQuestion,
        "cluster/list-append/snapshot-isolation/none",
        "recency",
        2,
    ),
    by(
        Bug::StampBeforeArrival,
        "cluster/list-append/snapshot-isolation/none",
        "strong-snapshot-isolation",
        2,
    ),
    by(
        Bug::ReuseQuestion,
        "cluster/list-append/snapshot-isolation/questions",
        "recency",
        76,
    ),
    by(
        Bug::VerifiedForSettled,
        "cluster/list-append/snapshot-isolation/none",
        "recency",
        2,
    ),
    by(
        Bug::ComparePacked,
        "cluster/list-append/snapshot-isolation/none",
        "recency",
        3,
    ),
    by(
        Bug::ReadUncutTail,
        "cluster/bank/read-committed/partition",
        "consensus",
        6,
    ),
    by(
        Bug::ForgetDisplaced,
        "cluster/seats/serializable/none",
        "seats",
        2,
    ),
    by(
        Bug::SkipQuestion,
        "servers/rw-register/read-committed/none",
        "registers",
        2,
    ),
    by(
        Bug::StampBeforeArrival,
        "servers/list-append/read-committed/ddl",
        "definitions",
        1,
    ),
    by(
        Bug::ReadEndedSnapshot,
        "cluster/bank/serializable/memory",
        "reports",
        1,
    ),
    by(
        Bug::SkipAtLimit,
        "cluster/bank/serializable/memory",
        "replicas",
        1,
    ),
    by(
        Bug::ReadEndedSnapshot,
        "servers/seats/read-committed/memory",
        "reports",
        1,
    ),
    by(
        Bug::EndHoldByOldAnswer,
        "servers/rw-register/read-committed/away",
        "gamma",
        3,
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
        11,
    ),
    by(
        Bug::CommitWithoutMajority,
        "servers/bank/read-committed/none",
        "consensus",
        1,
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
    by(
        Bug::ForgetOwedSync,
        "servers/pipelines/read-committed/pause",
        "pipelines",
        2,
    ),
];

/// A bug that was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The run that caught it.
    pub options: Options,
    /// Report of that run.
    pub report: Report,
    /// Number of seeds that were needed.
    pub seeds: u64,
}

/// Tries these seeds until the judge reports a violation; `None` if it never does.
///
/// # Panics
/// In a build without planted bugs, and for an unknown scenario.
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
