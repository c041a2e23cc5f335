//! A node of a cluster: tables that follow, an engine that leads, and back.
//!
//! ```text
//!   ReplicaLog::open ──entries──▶ FollowedTables::replay    filled, by several threads
//!                                    │ follow
//!   Replayer ──────────entries──▶ FollowedTables            replayed, settled, committed,
//!                                    │                      or taken back; read by views
//!   ReplicaLog::lead ───▶ Log ───────┤
//!                                    ▼
//!                                  Engine ──retire──▶ ReplicaLog, to be closed
//! ```
//!
//! # Replay ahead of the commit point
//!
//! Log is replayed as soon as it has been received, before it is flushed here and before
//! anybody knows that it is committed. So whoever is elected has little left to do. Three
//! ends move through a follower's log, each behind the one before:
//!
//! ```text
//!   ───────────────┬──────────────────┬──────────────────┬────────────── log
//!                visible            settled           received
//!     what it replaced is gone    records and indexes
//!     views show it               agree; may be taken back
//! ```
//!
//! - *Replay* goes in batches. In a batch every record belongs to one worker, which installs
//!   its changes in the order of the log, as versions beside those they replace. Workers do
//!   not wait for each other; in between, tables show the end of no commit.
//! - A batch is whole commits, so when all workers are done, the newest versions are those
//!   of one place in the log. Now it is *settled*: indexes get the entries of what is new,
//!   and the [`journal`] notes which commits have changed which records. A patch that leaves
//!   a row's keys as they were has its entries already (invariant 3). Whatever moves a key
//!   within the batch, an image, a deletion or another patch, is looked at.
//! - When the commit point passes settled commits they become *visible*, in the order of
//!   the log: [`FollowedTables::visible`] moves to the last of them. What they have
//!   replaced is removed, with the entries that only it had, unless a view shows it.
//! - When the log is *cut*, because a new leader has replaced its tail, the journal says
//!   what is to be taken back: every version from there on, then its entries, then the
//!   entries of what is the newest again are made sure of.
//!
//! # Worked example
//!
//! Two records of a table with a primary index. Node 2 has received, of term 2, at 200 the
//! deletion of key `k` in record 5, and at 300 its insertion in record 9, which node 1 could
//! do because record 5 was free for it by then. Everything up to 100 is committed.
//!
//! ```text
//!                     record 5           record 9      entry of k    visible
//!   committed 100     100 k              –             5             100
//!   replayed          200 deleted, 100   300 k         5             100
//!   settled           200 deleted, 100   300 k         9             100
//! ```
//!
//! Whichever worker was the first, in the end `k` leads to record 9: of the newest versions
//! only that one is a row with `k`. Node 3 is elected in term 3; it has the log up to 200
//! and not 300, and puts its mark `(3, 300)` there. Node 2 cuts its log at 300:
//!
//! ```text
//!   taken back        200 deleted, 100   –  (free)     –             100
//! ```
//!
//! and at 200, had node 3 not had that either: `100 k` is the newest of record 5 again, and
//! the entry of `k` is made sure of, and leads to 5. That version is there for certain,
//! because nothing goes before what has replaced it is visible.
//!
//! The commit that comes at 300 now has the timestamp (3, 300), which is not (2, 300). Who
//! took the place in the log for the timestamp would believe that it is there already.
//!
//! # Taking the lead, and giving it up
//!
//! A node has replayed its log up to 4296, and is elected in term 3. Its log goes on behind
//! that with `c d` of term 2, which some other nodes have as well, and which are replayed
//! and not visible. It writes its mark: `c d S₃`. Once `S₃` is committed `c` and `d` are;
//! [`Engine::lead`](crate::Engine::lead) takes the tables with their indexes.
//!
//! Later, cut off from the others, it has `S₃ e f` and tables that show `f`, of which nobody
//! has been told, and node 2 leads term 4 with `S₃ e S₄`. An engine keeps no journal, and
//! has let go what `f` has replaced. So it is given up whole:
//! [`Engine::retire`](crate::Engine::retire) leaves a log, and the tables are filled anew
//! from checkpoint and log.
//!
//! # Invariants
//!
//! 1. *A version is removed only when what has replaced it is visible*, and no view is older.
//!    So everything that is not visible can be taken back.
//! 2. *Visible is committed*, settled, and never taken back: that is refused.
//! 3. *Between batches an index leads to the newest version of every record*, and to those
//!    before it that are not visible's past, except that a key of a primary index leads to
//!    the one record whose newest version has it, if one does. Nothing leads to a record
//!    that has no version with the key.
//! 4. *A record's changes come in the order of the log*, from one thread at a time.
//! 5. *Nobody reads while something is taken back*: views go in steps, and a cut waits for
//!    the step. What it removes no view shows.
//! 6. *An engine leads once, in one term.* What it shows ahead of the commit point goes
//!    with it.
//! 7. *Nothing leaves before it is committed.* New snapshots show what is installed, as
//!    on one node; what a transaction saw or did is told when
//!    [`poll_durable`](coeval_txn::Engine::poll_durable) says so, and in a cluster that
//!    follows the committed end, not what this disk has.
//! 8. *A retired engine begins nothing*, not even to read: another node may have gone on.
//! 9. *What was only read leaves when it is certain that this node led after it was read*
//!    ([`Leadership`]): all that is committed here may be old, where another node leads.
//! 10. *A checkpoint covers what is committed.* A leader's waits until its snapshot is, and
//!     until it is on this disk; it ends with the engine.
//!
//! Which indexes there are the log does not say. [`FollowedTables::define`] is told, from
//! what is visible; so nothing of that is ever taken back. An index that was not defined is
//! built when the engine hears of it, as at a start. A storage comes with its first row, and
//! when that is taken back it is left without one.
//!
//! Sources: QuorumX §5.4 for replay without waiting and for taking back; it leaves open what
//! becomes of indexes and of places in the log that are used again. The journal and the
//! order of settling are ours (decision 0027).

mod journal;
mod leadership;
mod storage;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use coeval_log::{
    Block, Entry, Error as LogError, RecoveryProgress, RecoverySummary, Replay, ReplayError,
};
use coeval_memory::epoch::Domain;
use coeval_txn::Definitions;
use coeval_types::{Lsn, Rid, StorageDefinition, StorageId, Timestamp};

use crate::recovery::Recovery;
use crate::storage::Recovered;
pub use leadership::Leadership;
use tables::Followed;
pub use tables::FollowedView;

/// Records that are read in one step.
const STEP_RECORDS: usize = 256;

/// The tables of a node that follows. See the module.
#[derive(Clone)]
pub struct FollowedTables(Arc<Inner>);

impl std::fmt::Debug for FollowedTables {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FollowedTables")
            .field("visible", &self.visible())
            .finish_non_exhaustive()
    }
}

/// What fills them.
struct Inner {
    /// As long as they are opened.
    filled: Recovery,
    /// From then on.
    followed: OnceLock<Arc<Followed>>,
    /// What was defined last.
    defined: Mutex<Vec<StorageDefinition>>,
}

impl Default for FollowedTables {
    fn default() -> Self {
        Self::new()
    }
}

impl FollowedTables {
    /// Empty ones.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            filled: Recovery::default(),
            followed: OnceLock::new(),
            defined: Mutex::default(),
        }))
    }

    /// What fills them: for [`ReplicaLog::open`](coeval_log::ReplicaLog::open), then for its
    /// [`Replayer`](coeval_log::Replayer).
    #[must_use]
    pub fn replay(&self) -> Arc<dyn Replay> {
        Arc::clone(&self.0) as Arc<dyn Replay>
    }

    /// The log has been opened: all that was replayed is committed, and from now on what is
    /// replayed may not be. Without this call only committed log may be replayed, and
    /// nothing is taken back or read. Indexes are kept by so many threads.
    pub fn follow(&self, opened: &RecoverySummary, threads: usize) {
        let snapshot = opened
            .checkpoint
            .map(|checkpoint| checkpoint.start.snapshot);
        let visible = opened.last_commit.max(snapshot.unwrap_or(Timestamp::ZERO));
        let followed = || Arc::new(Followed::new(self.0.filled.finish(), visible, threads));
        self.0.followed.get_or_init(followed);
    }

    fn followed(&self) -> Option<&Arc<Followed>> {
        self.0.followed.get()
    }

    /// All that was replayed so far are whole commits, and nobody replays meanwhile:
    /// indexes follow.
    pub fn settle(&self) {
        if let Some(followed) = self.followed() {
            followed.settle();
        }
    }

    /// Everything before `end` is committed; what of it is settled is visible from now on.
    /// Nobody replays meanwhile. Says which storages have changed.
    pub fn commit(&self, end: Lsn) -> Vec<StorageId> {
        let followed = self.followed();
        followed.map_or(Vec::new(), |followed| followed.commit(end))
    }

    /// Takes back everything that stands at `from` in the log and behind, before the log
    /// is cut there. Everything replayed has been settled, and nobody replays meanwhile.
    ///
    /// # Errors
    /// When any of that is visible.
    pub fn take_back(&self, from: Lsn) -> Result<(), LogError> {
        match self.followed() {
            Some(followed) => followed.take_back(from),
            None => Ok(()),
        }
    }

    /// The storages that there are at the visible commit, all of them. Their indexes are
    /// kept from now on; those of other storages are not, and a storage that was named
    /// before and is not any more is forgotten. Nobody replays meanwhile.
    pub fn define(&self, definitions: Vec<StorageDefinition>) {
        let mut defined = self.0.defined.lock().expect("no panic while it was held");
        let is_there = |id| definitions.iter().any(|definition| definition.id == id);
        let dropped = defined.iter().map(|definition| definition.id);
        let dropped: Vec<_> = dropped.filter(|id| !is_there(*id)).collect();
        if let Some(followed) = self.followed() {
            followed.define(&definitions, &dropped);
            *defined = definitions;
        }
    }

    /// [`FollowedTables::define`], by what the visible rows say. Nobody replays meanwhile.
    ///
    /// # Errors
    /// When they make no sense: nothing has changed then.
    pub fn define_by(&self, definitions: &dyn Definitions) -> Result<(), String> {
        let Some(view) = self.view() else {
            return Ok(());
        };
        let defined = definitions.read(&mut |storage, visit| {
            let mut next = Some(Rid(0));
            while let Some(from) = next {
                next = view.rows(storage, from, STEP_RECORDS, &mut |saved| visit(saved.row));
            }
        })?;
        drop(view);
        self.define(defined);
        Ok(())
    }

    /// The last commit that is visible.
    #[must_use]
    pub fn visible(&self) -> Timestamp {
        let followed = self.followed();
        followed.map_or(Timestamp::ZERO, |followed| followed.visible())
    }

    /// What is visible, to be read while replay goes on; `None` before
    /// [`FollowedTables::follow`].
    #[must_use]
    pub fn view(&self) -> Option<FollowedView> {
        self.followed().map(Followed::view)
    }

    /// For an engine: everything that was replayed is committed.
    pub(crate) fn finish(&self) -> Result<(Arc<Domain>, BTreeMap<StorageId, Recovered>), LogError> {
        match self.followed() {
            Some(followed) => Ok((Arc::clone(&followed.domain), followed.finish()?)),
            None => Ok((Arc::default(), self.0.filled.recovered())),
        }
    }
}

impl Replay for Inner {
    fn apply(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError> {
        match self.followed.get() {
            Some(followed) => followed.apply(entries),
            None => self.filled.apply(entries),
        }
    }

    fn restore(&self, block: &Block<'_>) -> Result<(), String> {
        self.filled.restore(block)
    }

    fn progress(&self, progress: RecoveryProgress) {
        self.filled.progress(progress);
    }
}
