//! Fault injection of known bugs: tests re-enable one to prove that a checker reports it.
//!
//! A checker that finds no violation proves something only if it does find the violations
//! that are there. Each [`Bug`] is compiled in at one place in the engine; it is in force
//! on a thread for as long as a [`Planted`] guard lives there. In a simulated cluster,
//! which runs on one thread, that is the whole cluster.
//!
//! Only a build with the feature `planted` contains the bugs: in any other build
//! [`planted!`](crate::planted!) is `false` at compile time, and the compiler removes the
//! faulty branch. The feature is for the tests of `coeval-sim` and for its fault-injection
//! campaigns (`cargo xtask court`). A bug of more than one line has a function in the
//! module `planted` of its crate, which only that feature compiles.
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

/// Environment variable that names the bug in force in the whole process.
pub const VARIABLE: &str = "DOCK_BUG";

macro_rules! bugs {
    ($($(#[doc = $what:literal])+ $bug:ident = $name:literal,)+) => {
        /// A known bug that a test can inject.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $($(#[doc = $what])+ $bug,)+
        }

        impl Bug {
            /// All bugs, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$bug),+];

            /// The bug's name, as commands take it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)+
                }
            }

            /// The bug with this name, if one has it.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|bug| bug.name() == name)
            }
        }
    };
}

bugs! {
    /// The commit path makes a commit visible to new snapshots before its versions are
    /// installed.
    PublishBeforeInstall = "publish-before-install",
    /// SERIALIZABLE validation skips the predicates of the transaction's scans.
    SkipPredicate = "skip-predicate",
    /// Range validation starts one slot after the first slot that matters.
    WrongSlot = "wrong-slot",
    /// A writer overwrites a version newer than its snapshot, instead of failing with a
    /// conflict.
    LoseUpdate = "lose-update",
    /// The log reports a commit as durable before the fsync.
    AcknowledgeBeforeSync = "acknowledge-before-sync",
    /// The log continues after an fsync that failed.
    IgnoreFailedSync = "ignore-failed-sync",
    /// The writer does not log a deletion's tombstone.
    ForgetTombstone = "forget-tombstone",
    /// Recovery accepts frames whose checksum is wrong.
    DropChecksum = "drop-checksum",
    /// Garbage collection frees a version although a snapshot still needs it.
    FreeUnexpired = "free-unexpired",
    /// The log is truncated before the checkpoint that replaces it is durable.
    TruncateEarly = "truncate-early",
    /// A client treats a connection that breaks during COMMIT as a failed commit, although
    /// the outcome is unknown.
    UnknownIsFailed = "unknown-is-failed",
    /// A client retries a transaction whose COMMIT got no answer.
    SendAgain = "send-again",
    /// The server commits a client's open transaction when the client's connection breaks.
    CommitOnDisconnect = "commit-on-disconnect",
    /// A session that ends because the server shuts down commits its client's open
    /// transaction.
    CommitOnStop = "commit-on-stop",
    /// A leader draws versions of the catalog that another leader has drawn for another
    /// state.
    CatalogVersionWithoutTerm = "catalog-version-without-term",
    /// A commit whose fsync takes more than a tenth of a second is reported to the client
    /// as rolled back.
    SlowIsFailed = "slow-is-failed",
    /// A session whose transaction was ended by a timeout continues outside any
    /// transaction.
    SessionOutlivesTimeout = "session-outlives-timeout",
    /// SERIALIZABLE validation skips the single rows that the transaction read by key.
    SkipRead = "skip-read",
    /// A read-only transaction begins with the snapshot of an earlier transaction.
    StaleSnapshot = "stale-snapshot",
    /// The engine expires a snapshot that is a second old, and its reader gets no error.
    EndOldSnapshots = "end-old-snapshots",
    /// The log reports a commit as durable before it has written it.
    AcknowledgeBeforeWrite = "acknowledge-before-write",
    /// The directory entry of a new log segment is not fsynced.
    ForgetName = "forget-name",
    /// The checkpointer treats a block that the full disk had no room for as written.
    IgnoreFullDisk = "ignore-full-disk",
    /// The server treats a disk that was full once as full for ever.
    StayFull = "stay-full",
    /// Recovery discards a commit as a stale remnant when its wall-clock time is older than
    /// that of the commit before it.
    OrderByClock = "order-by-clock",
    /// A leader counts one node less than a majority as a quorum.
    CommitWithoutMajority = "commit-without-majority",
    /// A leader accepts proposals before the marker entry of its term is committed.
    ForgetMarkRule = "forget-mark-rule",
    /// A recovering follower treats trailing commit markers at the end of its log as
    /// committed, and its leader's answer as the truth.
    BelieveTrailingMarks = "believe-trailing-marks",
    /// A follower appends and acknowledges entries of a leader whose term is over.
    AcknowledgeStaleTerm = "acknowledge-stale-term",
    /// A node sends its vote before the vote is durable.
    PromiseAtOnce = "promise-at-once",
    /// A node announces a term to its peers before the term is durable.
    ForgetTerm = "forget-term",
    /// A node does not persist its vote.
    ForgetVote = "forget-vote",
    /// With leases on, a node votes although it still receives a leader's heartbeats.
    VoteInLease = "vote-in-lease",
    /// With leases on, a node votes immediately after its start.
    VoteAfterStart = "vote-after-start",
    /// A leader's checkpoint includes entries that only its own disk has.
    CheckpointUncommitted = "checkpoint-uncommitted",
    /// A checkpoint replaces a log without recording the term in which that log ends and
    /// the markers before it.
    ForgetCheckpointTerm = "forget-checkpoint-term",
    /// A node that joins with an empty log takes part in elections at once, under any id.
    TrustNewcomers = "trust-newcomers",
    /// A follower that rolls back records leaves their entries in its indexes.
    ForgetIndex = "forget-index",
    /// A leader answers read-only transactions without confirming that it is still the
    /// leader.
    AnswerUnconfirmed = "answer-unconfirmed",
    /// A transaction's outcome is logged after its commit, in a frame of its own.
    RecordApart = "record-apart",
    /// A start treats the transaction outcomes that it finds as forgotten ones.
    ForgetOutcomes = "forget-outcomes",
    /// The leader hands out numbers of a sequence that no row covers.
    SequenceWithoutRow = "sequence-without-row",
    /// A follower treats new log contents at an offset as the old contents that were stored
    /// there before.
    ReusedOffset = "reused-offset",
    /// A session that leaves a deposed leader forgets that it has taken its client's Sync,
    /// and waits for another one.
    ForgetOwedSync = "forget-owed-sync",
    /// A leader raises the cluster version without asking what its members read.
    RaiseUnasked = "raise-unasked",
    /// A member counts as itself although its data directory is another one.
    VoteWithUnknownIdentity = "vote-with-unknown-identity",
    /// A node that founds a cluster votes before the other founders have said that they
    /// hold no log.
    FoundAtOnce = "found-at-once",
    /// A follower's reads that come while a question to the leader is under way share its
    /// answer.
    ReuseQuestion = "reuse-question",
    /// A commit that the leader reports answers readers that asked after the message was sent
    /// that made it.
    StampAfterMessage = "stamp-after-message",
    /// A leader tells the newest commit of a session as one that it has made for the last
    /// message, however old it is.
    StampByOldCommit = "stamp-by-old-commit",
    /// A follower answers a read with the answer to a question that it asked before the read
    /// arrived.
    StampBeforeArrival = "stamp-before-arrival",
    /// A follower takes its log up to the leader's commit index for committed, although that
    /// may be the end of another leader's log, which is to be cut.
    ReadUncutTail = "read-uncut-tail",
    /// A follower compares the commit that it shows, term before offset, with the offset that
    /// a read has to reach.
    ComparePacked = "compare-packed",
    /// A follower answers its reads from the commit index that it knows itself.
    SkipQuestion = "skip-question",
    /// A follower asks the leader of the term before its own, and takes that answer.
    AskOldTerm = "ask-old-term",
    /// A leader takes one follower's question for the confirmation of a majority.
    TrustAsker = "trust-asker",
    /// A follower takes log that it has verified for log that it has replayed, and lets its
    /// reads begin.
    VerifiedForSettled = "verified-for-settled",
    /// A key of a follower's primary index leads only to the record that got it last, though
    /// a snapshot still shows it in another one.
    ForgetDisplaced = "forget-displaced",
    /// A follower collects the versions that a reader has held only when there is no reader at all.
    CollectWithoutReaders = "collect-without-readers",
    /// A follower shows the definition of an index before it has built the index.
    ShowUnbuiltIndex = "show-unbuilt-index",
    /// A follower's reader goes on to read although its snapshot was ended for the memory that
    /// it held.
    ReadEndedSnapshot = "read-ended-snapshot",
    /// A follower that is at its memory limit leaves out an entry of the log.
    SkipAtLimit = "skip-at-limit",
    /// A follower that did not run for a while takes the last answer from before for the one that
    /// ends the hold of its `any` reads.
    EndHoldByOldAnswer = "end-hold-by-old-answer",
    /// A node that has learned that it was removed forgets it at its next start.
    ForgetRemoval = "forget-removal",
    /// A founder without whose word a cluster was founded is let in with the log that it has.
    AdoptVouched = "adopt-vouched",
    /// An epoch manager seals an epoch in which transactions are still under way.
    CloseBeforeDrained = "close-before-drained",
    /// A front end draws timestamps in an epoch that it has reported drained.
    DrawInClosedEpoch = "draw-in-closed-epoch",
    /// A front end reads history up to an epoch that is drained there, and open elsewhere.
    ReadInTheGap = "read-in-the-gap",
    /// A front end reads at a timestamp of the open epoch.
    ReadOpenEpoch = "read-open-epoch",
    /// A front end answers a transaction once it is stored in memory.
    AnswerBeforeCaps = "answer-before-caps",
    /// A back end reports a closing record that is not on the disk.
    CapWithoutFlush = "cap-without-flush",
    /// A back end does not remember that a transaction was aborted.
    ForgetAbortMark = "forget-abort-mark",
    /// Operations of aborted transactions count when orphans are resolved.
    CountAborted = "count-aborted",
    /// Copies of an operation are counted as operations when orphans are resolved.
    CountEveryCopy = "count-every-copy",
    /// Orphans are resolved in the newest of several open epochs only.
    ResolveLastEpochOnly = "resolve-last-epoch-only",
    /// Messages sent under an older configuration are accepted.
    AcceptOldConfiguration = "accept-old-configuration",
    /// A node starts again under the incarnation that it had.
    ReuseIncarnation = "reuse-incarnation",
    /// An epoch manager is obeyed, and hears what was said to an earlier one, when another one has
    /// replaced it.
    TwoManagers = "two-managers",
    /// Versions are collected that a front end is reading.
    CollectUnderReader = "collect-under-reader",
    /// A copy that is made of a partition is taken from a copy in which epochs are still open.
    CopyOpenEpoch = "copy-open-epoch",
    /// A copy that is being made counts as whole at once.
    PromoteAtOnce = "promote-at-once",
    /// A new epoch manager opens an epoch before the close with which it takes over has ended.
    OpenAtTakeOver = "open-at-take-over",
}

impl Bug {
    /// Whether the bug needs a cluster of more than one node to show.
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
                | Self::ForgetOwedSync
                | Self::RaiseUnasked
                | Self::VoteWithUnknownIdentity
                | Self::FoundAtOnce
                | Self::ReuseQuestion
                | Self::StampBeforeArrival
                | Self::StampAfterMessage
                | Self::StampByOldCommit
                | Self::ReadUncutTail
                | Self::ComparePacked
                | Self::SkipQuestion
                | Self::AskOldTerm
                | Self::TrustAsker
                | Self::VerifiedForSettled
                | Self::ForgetDisplaced
                | Self::CollectWithoutReaders
                | Self::ShowUnbuiltIndex
                | Self::ReadEndedSnapshot
                | Self::SkipAtLimit
                | Self::EndHoldByOldAnswer
                | Self::ForgetRemoval
                | Self::AdoptVouched
        )
    }

    /// Whether it is a bug of epochs, which the tests of their crate plant.
    #[must_use]
    pub const fn is_of_epochs(self) -> bool {
        matches!(
            self,
            Self::CloseBeforeDrained
                | Self::DrawInClosedEpoch
                | Self::ReadInTheGap
                | Self::ReadOpenEpoch
                | Self::AnswerBeforeCaps
                | Self::CapWithoutFlush
                | Self::ForgetAbortMark
                | Self::CountAborted
                | Self::CountEveryCopy
                | Self::ResolveLastEpochOnly
                | Self::AcceptOldConfiguration
                | Self::ReuseIncarnation
                | Self::TwoManagers
                | Self::CollectUnderReader
                | Self::CopyOpenEpoch
                | Self::PromoteAtOnce
                | Self::OpenAtTakeOver
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

/// The bug in force in this whole process, if the environment names one.
///
/// # Panics
/// When the environment names an unknown bug: a process without a bug must not be mistaken
/// for one that has it.
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

/// Guard that keeps a bug in force on this thread until it is dropped.
#[derive(Debug)]
#[must_use = "it goes when this is dropped"]
pub struct Planted {
    /// Keeps the guard on the thread that created it.
    _thread: std::marker::PhantomData<*const ()>,
}

/// Puts a bug in force on this thread; `None` in a build without the feature `planted`.
///
/// # Panics
/// When a bug is already in force on this thread.
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

/// Whether the named bug is in force: `planted!(LoseUpdate)`.
///
/// The module and the macro have one name, so one `use` imports both. In a build without
/// the feature the macro is `false` at compile time, and the compiler removes the branch.
///
/// ```
/// use coeval_types::planted;
///
/// let _bug = planted::plant(planted::Bug::LoseUpdate);
/// assert_eq!(planted!(LoseUpdate), cfg!(feature = "planted"));
/// assert!(!planted!(SkipRead));
/// ```
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_planted($crate::planted::Bug::$bug)
    };
}

/// Whether `bug` is in force on this thread, or in the whole process.
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
