//! Known bugs that tests put back, to see their judges object.
//!
//! A judge that finds nothing has shown something only if it finds what is there. Each
//! [`Bug`] stands at one place in the engine; it is in force on a thread for as long as
//! a [`Planted`] lives there. In a simulated world, which is one thread, that is the
//! whole cluster.
//!
//! Only a build with the feature `planted` has them: in any other, [`is_planted`] is
//! `false` to the compiler, and nothing of a bug is left. The feature is for the tests
//! of `coeval-sim` and for its court.
//!
//! ```
//! use coeval_types::planted::{self, Bug};
//!
//! assert!(!planted::is_planted(Bug::ForgetTombstone));
//! if let Some(_bug) = planted::plant(Bug::ForgetTombstone) {
//!     assert!(planted::is_planted(Bug::ForgetTombstone));
//! }
//! assert!(!planted::is_planted(Bug::ForgetTombstone));
//! ```

#[cfg(feature = "planted")]
use std::cell::Cell;
use std::fmt;
#[cfg(feature = "planted")]
use std::sync::OnceLock;

/// Names, in a process's environment, the bug that the whole process has.
pub const VARIABLE: &str = "DOCK_BUG";

macro_rules! bugs {
    ($($(#[doc = $what:literal])+ $bug:ident = $name:literal,)+) => {
        /// A bug that can be put back.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $($(#[doc = $what])+ $bug,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$bug),+];

            /// Its name, as commands take it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)+
                }
            }

            /// The one with this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|bug| bug.name() == name)
            }
        }
    };
}

bugs! {
    /// A commit is part of new snapshots before its versions are in place.
    PublishBeforeInstall = "publish-before-install",
    /// SERIALIZABLE does not validate what was scanned.
    SkipPredicate = "skip-predicate",
    /// A predicate is validated from one slot behind the first that matters.
    WrongSlot = "wrong-slot",
    /// A version newer than the snapshot is overwritten, not refused.
    LoseUpdate = "lose-update",
    /// The log says durable before it has synced.
    AcknowledgeBeforeSync = "acknowledge-before-sync",
    /// The log goes on when a sync has failed.
    IgnoreFailedSync = "ignore-failed-sync",
    /// A deletion is not logged.
    ForgetTombstone = "forget-tombstone",
    /// Recovery believes frames whose checksum is wrong.
    DropChecksum = "drop-checksum",
    /// A version is freed although a snapshot needs it.
    FreeUnexpired = "free-unexpired",
    /// Log is removed before the checkpoint that stands for it is durable.
    TruncateEarly = "truncate-early",
    /// A client takes a broken connection during a commit for a failure.
    UnknownIsFailed = "unknown-is-failed",
    /// A client sends a transaction again whose commit had no answer.
    SendAgain = "send-again",
    /// The server commits what a client had done whose connection breaks.
    CommitOnDisconnect = "commit-on-disconnect",
    /// A session that ends because the server stops commits what its client had done.
    CommitOnStop = "commit-on-stop",
    /// A commit of which the sync takes more than a tenth of a second is told to have
    /// been undone.
    SlowIsFailed = "slow-is-failed",
    /// A session whose transaction a time limit has ended goes on without one.
    SessionOutlivesTimeout = "session-outlives-timeout",
    /// SERIALIZABLE does not validate single rows that were read.
    SkipRead = "skip-read",
    /// A transaction that only reads begins with the snapshot of another before it.
    StaleSnapshot = "stale-snapshot",
    /// A snapshot that is a second old is given up, and its reader is not told.
    EndOldSnapshots = "end-old-snapshots",
    /// The log says durable before it has written.
    AcknowledgeBeforeWrite = "acknowledge-before-write",
    /// The name of a new segment of the log is not made durable.
    ForgetName = "forget-name",
    /// A block of a checkpoint for which there is no room is taken for written.
    IgnoreFullDisk = "ignore-full-disk",
    /// A disk that was full once stays full.
    StayFull = "stay-full",
    /// Recovery takes a commit for a remnant that the wall clock says is older than
    /// the one before it.
    OrderByClock = "order-by-clock",
    /// A leader takes one node less than a majority for one.
    CommitWithoutMajority = "commit-without-majority",
    /// A leader takes proposals before the mark of its term is committed.
    ForgetMarkRule = "forget-mark-rule",
    /// A recovering follower takes marks at the end of its log for committed, and what
    /// its leader answers for the truth.
    BelieveTrailingMarks = "believe-trailing-marks",
    /// A follower takes and acknowledges entries of a leader whose term is over.
    AcknowledgeStaleTerm = "acknowledge-stale-term",
    /// A vote is sent before it is on the disk.
    PromiseAtOnce = "promise-at-once",
    /// A node tells others of a term before it is on its disk.
    ForgetTerm = "forget-term",
    /// A vote is not kept on the disk.
    ForgetVote = "forget-vote",
    /// With a lease, a node votes although it hears a leader.
    VoteInLease = "vote-in-lease",
    /// With a lease, a node votes as soon as it has started.
    VoteAfterStart = "vote-after-start",
    /// A leader's checkpoint covers what only its own disk has.
    CheckpointUncommitted = "checkpoint-uncommitted",
    /// A checkpoint takes the place of a log without the term that it ends in, and without
    /// the marks before.
    ForgetCheckpointTerm = "forget-checkpoint-term",
    /// A node that joins with nothing takes part at once, under whichever id.
    TrustNewcomers = "trust-newcomers",
    /// What a follower takes back of its records stays in its indexes.
    ForgetIndex = "forget-index",
    /// A leader answers what only reads without making sure that it still leads.
    AnswerUnconfirmed = "answer-unconfirmed",
    /// What a transaction came to is written behind its commit, and no part of it.
    RecordApart = "record-apart",
    /// A start takes the outcomes that are there for forgotten ones.
    ForgetOutcomes = "forget-outcomes",
    /// A follower takes what stands in the log where something else stood before for the
    /// same.
    ReusedOffset = "reused-offset",
}

impl Bug {
    /// Whether it takes more than one node to have it.
    #[must_use]
    pub const fn is_of_consensus(self) -> bool {
        matches!(
            self,
            Self::CommitWithoutMajority
                | Self::ForgetMarkRule
                | Self::BelieveTrailingMarks
                | Self::AcknowledgeStaleTerm
                | Self::PromiseAtOnce
                | Self::ForgetTerm
                | Self::ForgetVote
                | Self::VoteInLease
                | Self::VoteAfterStart
                | Self::CheckpointUncommitted
                | Self::ForgetCheckpointTerm
                | Self::TrustNewcomers
                | Self::ForgetIndex
                | Self::AnswerUnconfirmed
                | Self::ReusedOffset
        )
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// The bug of this whole process, if it has one.
///
/// # Panics
/// When the environment names one that there is not: a process without a bug must not
/// be taken for one that has it.
#[cfg(feature = "planted")]
fn of_process() -> Option<Bug> {
    static OF_PROCESS: OnceLock<Option<Bug>> = OnceLock::new();
    *OF_PROCESS.get_or_init(|| {
        let name = std::env::var_os(VARIABLE)?;
        let bug = name.to_str().and_then(Bug::named);
        assert!(bug.is_some(), "{VARIABLE} names no bug: {name:?}");
        bug
    })
}

/// A bug in force on this thread until this is dropped.
#[derive(Debug)]
#[must_use = "it goes when this is dropped"]
pub struct Planted {
    /// It belongs to the thread it was made on.
    _thread: std::marker::PhantomData<*const ()>,
}

/// Puts a bug in force on this thread; `None` in a build without them.
///
/// # Panics
/// When there is one already.
#[cfg_attr(
    not(feature = "planted"),
    expect(unused_variables, reason = "there is nothing to plant")
)]
pub fn plant(bug: Bug) -> Option<Planted> {
    #[cfg(feature = "planted")]
    {
        let before = PLANTED.replace(Some(bug));
        assert!(before.is_none(), "one bug at a time");
        Some(Planted {
            _thread: std::marker::PhantomData,
        })
    }
    #[cfg(not(feature = "planted"))]
    None
}

impl Drop for Planted {
    fn drop(&mut self) {
        #[cfg(feature = "planted")]
        PLANTED.set(None);
    }
}

/// Whether a bug is in force on this thread, or in the whole process.
#[inline]
#[must_use]
#[cfg_attr(
    not(feature = "planted"),
    expect(unused_variables, reason = "nothing is planted")
)]
pub fn is_planted(bug: Bug) -> bool {
    #[cfg(feature = "planted")]
    {
        PLANTED.try_with(Cell::get) == Ok(Some(bug)) || of_process() == Some(bug)
    }
    #[cfg(not(feature = "planted"))]
    {
        false
    }
}
