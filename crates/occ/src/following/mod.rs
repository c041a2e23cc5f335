//! Follower tables: replay of the leader's log on a follower, the step to leader, and
//! back.
//!
//! ```text
//!   ReplicaLog::open ──entries──▶ FollowedTables::replay    filled, by several threads
//!                                    │ follow
//!   Replayer ──────────entries──▶ FollowedTables            replayed, settled, committed,
//!                                    │                      or taken back; read by views
//!                                    │ FollowerEngine       and by read-only transactions
//!   ReplicaLog::lead ───▶ Log ───────┤
//!                                    ▼
//!                                  Engine ──retire──▶ ReplicaLog, then closed
//! ```
//!
//! # Replay ahead of the commit point
//!
//! A follower replays log as soon as it has received it, before it has flushed it and
//! before it knows that the log is committed. So a newly elected leader has little left
//! to replay. Three offsets move through a follower's log, each at most as far as the
//! next:
//!
//! ```text
//!   ───────────────┬──────────────────┬──────────────────┬────────────── log
//!                visible            settled           received
//!     replaced versions removed    records and indexes
//!     readers see these commits    agree; may be taken back
//! ```
//!
//! - *Replay* runs in batches. In a batch every record belongs to one worker, which
//!   installs the record's changes in log order, as versions beside those they replace.
//!   Workers do not wait for each other; within a batch, the tables show the end of no
//!   commit.
//! - A batch consists of whole commits, so when all workers are done, the newest versions
//!   are those of one log offset. Now the batch is *settled*: indexes get the entries of
//!   new versions, and the [`journal`] notes which commits have changed which records. A
//!   patch that leaves a row's keys unchanged has its entries already (invariant 3).
//!   Records whose key may have moved within the batch, by an image, a deletion or
//!   another patch, are checked.
//! - When the commit point passes settled commits they become *visible*, in log order:
//!   [`FollowedTables::visible`] moves to the last of them. Before that the follower learns
//!   the definitions that they hold. After it, the follower removes
//!   the versions that they have replaced, and the index entries that only those had. What
//!   a reader's snapshot holds goes when that snapshot has ended ([`garbage`]).
//! - When the log is *cut*, because a new leader has replaced its tail, the journal tells
//!   which records are to be taken back: the follower removes every version from the cut
//!   on, then its entries, then restores missing entries of the versions that are the
//!   newest again.
//!
//! # Worked example
//!
//! Two records of a table with a primary index. Node 2 has received, from term 2, the
//! deletion of key `k` in record 5 at 200, and its insertion in record 9 at 300, which
//! node 1 could do because record 5 had freed the key by then. Everything up to 100 is
//! committed.
//!
//! ```text
//!                     record 5           record 9    entry of k  displaced  visible
//!   committed 100     100 k              –           5           –          100
//!   replayed          200 deleted, 100   300 k       5           –          100
//!   settled           200 deleted, 100   300 k       9           5          100
//! ```
//!
//! Whichever worker was first, in the end `k` leads to record 9: of the newest versions
//! only that one is a row with `k`. A reader at 100 finds nothing in record 9, and record 5
//! among those that were [displaced](crate::displaced). Node 3 is elected in term 3; it has the log up to 200
//! but not 300, and appends its mark `(3, 300)` there. Node 2 cuts its log at 300:
//!
//! ```text
//!   taken back        200 deleted, 100   –  (free)   5           5          100
//! ```
//!
//! Record 5 inherits the entry of `k`, since a version of it has that key. It is the newest
//! again if the log is cut at 200, had node 3 not had that either. That version is certainly
//! there, because no version is removed before its successor is visible.
//!
//! The next commit at 300 has the timestamp (3, 300), which differs from (2, 300). A
//! follower that compared only log offsets would believe that it had that commit already.
//!
//! # Becoming leader, and stepping down
//!
//! A node has replayed its log up to 4296, and is elected in term 3. Its log continues
//! after that with `c d` of term 2, which some other nodes have as well, and which are
//! replayed and not visible. The node appends its mark: `c d S₃`. Once `S₃` is committed,
//! `c` and `d` are; [`Engine::lead`](crate::Engine::lead) takes the tables with their
//! indexes.
//!
//! Later, cut off from the other nodes, it has `S₃ e f` and tables that show `f`, which
//! no client has been informed of, and node 2 leads term 4 with `S₃ e S₄`. An engine
//! keeps no journal, and has removed the versions that `f` replaced. So the node drops
//! the whole engine: [`Engine::retire`](crate::Engine::retire) leaves a log, and the node
//! fills the tables anew from checkpoint and log.
//!
//! # Invariants
//!
//! 1. *A version is removed only when its successor is visible*, and no snapshot shows it. So
//!    everything that is not visible can be taken back.
//! 2. *A visible commit is committed*, settled, and never taken back: an attempt is
//!    refused.
//! 3. *Between batches every version of every record is found under its key*, of the indexes
//!    that its readers may use. A key of a primary index leads to the one record whose newest
//!    version has it, if one does, and any other record with a version of that key is
//!    displaced. No entry leads to a record that has no version with the key. When the node
//!    leads, no old version is left, and no record is displaced.
//! 4. *A record's changes are applied in log order*, by one thread at a time.
//! 5. *No reader is in a step while something is taken back*, while a record leaves the
//!    displaced ones although its version stays, or when the tables end: readers read in
//!    steps, and the replay thread waits for those. A cut removes no version that a snapshot
//!    shows. Between two steps a transaction keeps nothing but its snapshot, so no session
//!    keeps a node from leading; its next step finds that the tables have ended.
//! 6. *An engine leads once, in one term.* Versions that it shows ahead of the commit
//!    point are dropped with it.
//! 7. *No result leaves before it is committed.* New snapshots show installed versions,
//!    as on one node; the client gets a transaction's results when
//!    [`poll_durable`](coeval_txn::Engine::poll_durable) is ready, and in a cluster that
//!    waits for the commit index, not for this disk.
//! 8. *A retired engine begins no transaction*, not even to read: another node may lead.
//! 9. *A read-only result leaves when it is certain that this node led after the read*
//!    ([`Leadership`]): all that is committed here may be stale, if another node leads.
//! 10. *A checkpoint covers committed log only.* A leader's checkpoint waits until its
//!     snapshot is committed, and until it is on this disk; it is abandoned with the
//!     engine.
//!
//! 11. *A definition is visible when it is true.* A snapshot that shows the catalog row of an
//!     index has the index, or finds it among the unbuilt ones, with which no plan is made; an
//!     older one is refused it ([`Error::SchemaChanged`]), and one that does not show the end
//!     of a storage or an index still has it. An index is built beside replay, in steps
//!     ([`backfill`]); no commit waits for it, in any table.
//!
//! The log does not name the indexes. The caller passes them to
//! [`FollowedTables::commit_defining`], from catalog rows that are committed; so no
//! definition is ever taken back. An index that was not defined is built when the engine attaches its storage, as
//! at a start. A storage is created with its first row, and when that row is taken back
//! the storage stays, empty.
//!
//! Sources: QuorumX §5.4 for replay without waiting and for taking back; it leaves open what
//! becomes of indexes and of places in the log that are used again. The journal and the
//! order of settling are ours (decision 0027).

mod backfill;
mod engine;
mod garbage;
mod journal;
mod leadership;
mod marks;
mod questions;
mod reader;
mod storage;
mod tables;
#[cfg(test)]
mod tests;
mod transaction;
mod view;
mod visibility;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};

use coeval_log::{
    Block, Entry, Error as LogError, RecoveryProgress, RecoverySummary, Replay, ReplayError,
    SavedRecord,
};
use coeval_memory::epoch::Domain;
use coeval_txn::{Definitions, Error};
use coeval_types::{Lsn, Rid, StorageDefinition, StorageId, Timestamp};

use crate::storage::Recovered;
use crate::table_recovery::Recovery;
pub use engine::FollowerEngine;
pub use leadership::Leadership;
pub use marks::Marks;
pub use questions::{Questions, Reached, Sending};
use tables::{BUILT_ALONE, Building, Followed};
pub use view::FollowedView;

/// Records that a view reads in one step.
const STEP_RECORDS: usize = 256;

/// The error of a reader whose tables have ended.
fn ended() -> Error {
    let reason = "this node does not follow with these tables any more; ask again";
    Error::Stopped(reason.to_owned())
}

/// The tables of a follower: replayed ahead of the commit point, and read by views.
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

/// The state behind the handle.
struct Inner {
    /// The tables while the log is being opened.
    filled: Recovery,
    /// The tables from then on.
    followed: OnceLock<Arc<Followed>>,
    /// The latest definitions of storages.
    defined: Mutex<Vec<StorageDefinition>>,
}

impl Default for FollowedTables {
    fn default() -> Self {
        Self::new()
    }
}

/// What [`FollowedTables::learn`] learns definitions by.
struct Change<'storages> {
    /// The commit whose rows of the catalog say which tables there are.
    since: Timestamp,
    building: Building,
    /// Storages with committed rows, of which some may have ended unknown.
    filled: &'storages [StorageId],
}

impl FollowedTables {
    /// Empty tables.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            filled: Recovery::default(),
            followed: OnceLock::new(),
            defined: Mutex::default(),
        }))
    }

    /// The replay target: for [`ReplicaLog::open`](coeval_log::ReplicaLog::open), then
    /// for its [`Replayer`](coeval_log::Replayer).
    #[must_use]
    pub fn replay(&self) -> Arc<dyn Replay> {
        Arc::clone(&self.0) as Arc<dyn Replay>
    }

    /// Starts following once the log has been opened: everything replayed so far is
    /// committed, and later replay may not be. Without this call only committed log may
    /// be replayed, and nothing is taken back or read. Indexes are maintained by
    /// `threads` threads.
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

    /// Settles everything replayed so far, which must be whole commits: updates the
    /// indexes. No replay may run meanwhile.
    pub fn settle(&self) {
        if let Some(followed) = self.followed() {
            followed.settle();
        }
    }

    /// Makes settled commits before `end` visible: all log before it is replayed and
    /// committed. No replay may run meanwhile. Returns the storages that have changed.
    pub fn commit(&self, end: Lsn) -> Vec<StorageId> {
        let followed = self.followed();
        followed.map_or(Vec::new(), |followed| followed.commit(end, |_, _| {}))
    }

    /// As [`FollowedTables::commit`]; when the rows of the catalog are among those that
    /// change, it learns the new definitions from them before the rows are visible. Indexes
    /// of large tables are unbuilt at first ([`backfill`]).
    ///
    /// # Errors
    /// When the rows are inconsistent: they are visible all the same, and the definitions
    /// are those of before.
    pub fn commit_defining(&self, end: Lsn, definitions: &dyn Definitions) -> Result<(), String> {
        let mut learnt = Ok(());
        if let Some(followed) = self.followed() {
            followed.commit(end, |changed, last| {
                if definitions
                    .sources()
                    .iter()
                    .any(|its| changed.contains(its))
                {
                    // A table that was created and dropped since the last call has rows and
                    // was never defined.
                    let change = Change {
                        since: last,
                        building: Building::Beside,
                        filled: changed,
                    };
                    learnt = self.learn(followed, definitions, change);
                }
            });
        }
        learnt
    }

    /// Ready when [`FollowedTables::work`] has something to do: readers have ended that held
    /// old versions, or what was dropped, or an index is being built.
    pub fn poll_work(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.followed() {
            Some(followed) if followed.is_building() => Poll::Ready(()),
            Some(followed) => followed.poll_due(context),
            None => Poll::Pending,
        }
    }

    /// Whether an index is being built.
    #[must_use]
    pub fn is_building(&self) -> bool {
        self.followed().is_some_and(|its| its.is_building())
    }

    /// Frees some of what ended readers held, and goes on with the index that is being built;
    /// returns whether there was anything to do. No replay may run meanwhile. Making commits
    /// visible does a little of the same, so a caller needs this only when there is nothing
    /// else to do.
    pub fn work(&self) -> bool {
        self.followed().is_some_and(|followed| {
            let builds = followed.build_some(BUILT_ALONE);
            followed.collect_due() || builds
        })
    }

    /// Takes back everything from `from` on, before the log is cut there. Everything
    /// replayed must have been settled, and no replay may run meanwhile.
    ///
    /// # Errors
    /// When any of that is visible.
    pub fn take_back(&self, from: Lsn) -> Result<(), LogError> {
        match self.followed() {
            Some(followed) => followed.take_back(from),
            None => Ok(()),
        }
    }

    /// Defines all storages that exist at the visible commit. Replay maintains their
    /// indexes from now on, and no indexes of other storages. A storage or an index that
    /// was defined before and is missing now goes when no snapshot knows it. No replay may
    /// run meanwhile.
    pub fn define(&self, definitions: Vec<StorageDefinition>) {
        if let Some(followed) = self.followed() {
            let since = (followed.visible(), Building::AtOnce);
            self.define_since(followed, definitions, since, BTreeSet::new());
        }
    }

    /// As [`FollowedTables::define`], and builds large indexes beside replay.
    #[cfg(test)]
    fn define_beside(&self, definitions: Vec<StorageDefinition>) {
        if let Some(followed) = self.followed() {
            let since = (followed.visible(), Building::Beside);
            self.define_since(followed, definitions, since, BTreeSet::new());
        }
    }

    /// As [`FollowedTables::define`], with definitions read from the visible rows; a storage
    /// that holds rows and is not among them goes, too: the log or the checkpoint that the
    /// tables were filled from was older than its end. No replay may run meanwhile.
    ///
    /// # Errors
    /// When the rows are inconsistent; nothing has changed then.
    pub fn define_by(&self, definitions: &dyn Definitions) -> Result<(), String> {
        match self.followed() {
            Some(followed) => {
                let since = followed.visible();
                let mut filled = followed.undropped();
                filled.retain(|storage| followed.has_rows_at(since, *storage));
                let change = Change {
                    since,
                    building: Building::AtOnce,
                    filled: &filled,
                };
                self.learn(followed, definitions, change)
            }
            None => Ok(()),
        }
    }

    /// Learns the definitions that the rows of this commit hold, which is visible or next
    /// to be, and which of these storages with committed rows they do not name.
    fn learn(
        &self,
        followed: &Followed,
        definitions: &dyn Definitions,
        change: Change<'_>,
    ) -> Result<(), String> {
        let Change {
            since,
            building,
            filled,
        } = change;
        let defined = definitions.read(&mut |storage, visit| {
            let mut next = Some(Rid(0));
            while let Some(from) = next {
                let mut visit = |saved: SavedRecord<'_>| visit(saved.row);
                next = followed.rows_at(since, storage, from, STEP_RECORDS, &mut visit);
            }
        })?;
        let sources = definitions.sources();
        let filled = filled.iter().filter(|storage| !sources.contains(storage));
        self.define_since(
            followed,
            defined,
            (since, building),
            filled.copied().collect(),
        );
        Ok(())
    }

    fn define_since(
        &self,
        followed: &Followed,
        definitions: Vec<StorageDefinition>,
        since: (Timestamp, Building),
        mut before: BTreeSet<StorageId>,
    ) {
        let mut defined = self.0.defined.lock().expect("no panic while it was held");
        before.extend(defined.iter().map(|definition| definition.id));
        let is_there = |id| definitions.iter().any(|definition| definition.id == id);
        let dropped: Vec<_> = before.into_iter().filter(|id| !is_there(*id)).collect();
        let (since, building) = since;
        followed.define(&definitions, &dropped, since, building);
        *defined = definitions;
    }

    /// The last commit that is visible.
    #[must_use]
    pub fn visible(&self) -> Timestamp {
        let followed = self.followed();
        followed.map_or(Timestamp::ZERO, |followed| followed.visible())
    }

    /// Ready when all log before `at` is visible; [`Error::Stopped`] when the tables end
    /// before that.
    pub fn poll_visible(&self, at: Lsn, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.followed() {
            Some(followed) => followed.visibility.poll(at, context),
            None => Poll::Ready(Err(ended())),
        }
    }

    /// A view of the visible commits, which reads while replay continues; `None` before
    /// [`FollowedTables::follow`].
    #[must_use]
    pub fn view(&self) -> Option<FollowedView> {
        self.followed().map(FollowedView::new)
    }

    /// Converts the tables for an engine. Everything replayed must be committed.
    pub(crate) fn finish(&self) -> Result<(Arc<Domain>, BTreeMap<StorageId, Recovered>), LogError> {
        match self.followed() {
            Some(followed) => Ok((Arc::clone(&followed.domain), followed.finish()?)),
            None => Ok((Arc::default(), self.0.filled.recovered())),
        }
    }
}

impl Drop for Inner {
    /// Frees the tables when their owner has dropped them, though sessions may still hold
    /// transactions.
    fn drop(&mut self) {
        if let Some(followed) = self.followed.get() {
            followed.clear();
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
