//! The transaction contract: the traits [`Engine`] and [`Transaction`], and the types they
//! use.

use std::any::Any;
use std::collections::BTreeSet;
use std::future::Future;
use std::ops::{Bound, ControlFlow};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coeval_types::{
    IndexDefinition, IndexId, Rid, RowLock, RowRef, StorageDefinition, StorageId, Term, Timestamp,
    TransactionId,
};

use crate::{
    Answered, Blocked, Confirmation, ConflictCount, ConflictLocation, Error, Party, Question,
    TableLock,
};

/// Isolation level: which effects of concurrent transactions a transaction may see.
/// Stronger levels permit fewer anomalies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Isolation {
    /// Each statement reads from a snapshot of its own. A writer that encounters a row lock
    /// waits, then works on the newest version.
    #[default]
    ReadCommitted,
    /// The whole transaction reads from one snapshot. Of two concurrent writers of a row
    /// the first to commit wins; the other fails with [`Error::Conflict`].
    SnapshotIsolation,
    /// Transactions behave as if executed one at a time, in the order of their commit
    /// timestamps.
    Serializable,
}

/// Parameters with which a transaction begins.
#[derive(Clone, Debug, Default)]
pub struct BeginOptions {
    /// The transaction's isolation level.
    pub isolation: Isolation,
    /// Makes the transaction refuse writes with [`Error::ReadOnly`]; the flag costs nothing
    /// at commit.
    pub read_only: bool,
    /// Commit that the snapshot must include; begin waits until the engine has it.
    pub minimum: Option<Timestamp>,
    /// Flag that another thread sets to end the transaction's waits and scans with
    /// [`Error::Canceled`]. Ignored once the transaction has been assigned its commit
    /// timestamp.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Observer that the engine notifies when the transaction waits for a lock.
    pub observer: Option<Arc<dyn LockObserver>>,
    /// Number of the session that runs the transaction, shown to operators who inspect
    /// locks and conflicts; 0 for a transaction without a session.
    pub session: i32,
}

/// Observer of a transaction's lock waits. The engine calls it while the transaction is
/// being polled. Must not block.
pub trait LockObserver: Send + Sync + std::fmt::Debug {
    /// The transaction starts to wait for a lock on `place`.
    fn waits(&self, place: &ConflictLocation);

    /// The transaction stops waiting: it has the lock, or has given up.
    fn goes_on(&self);
}

/// The outcome of a commit.
#[derive(Debug)]
pub enum Outcome {
    /// The transaction has committed with this timestamp. The commit is not yet durable:
    /// rule 3. A transaction that wrote nothing reports its snapshot.
    Committed(Timestamp),
    /// The transaction was rolled back; the error holds the reason and whether to retry.
    Aborted(Error),
    /// The engine cannot determine the outcome: the commit may or may not survive.
    Unknown(Error),
}

/// The behaviour of a call when another transaction holds the row lock that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockWait {
    /// The call waits in the lock's queue, up to the transaction's lock timeout.
    #[default]
    Wait,
    /// The call fails at once with [`Error::LockNotAvailable`].
    NoWait,
    /// The call returns [`LockedRow::Skipped`] at once.
    Skip,
}

/// Result of an attempt to lock a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedRow {
    /// The row is locked; its newest version is the one in the statement's snapshot.
    Unchanged,
    /// The row is locked and has a newer version than the snapshot: the caller must check
    /// again whether the row qualifies. Only at [`Isolation::ReadCommitted`].
    Changed,
    /// The row was deleted after the snapshot. Only at [`Isolation::ReadCommitted`].
    Gone,
    /// Another transaction holds the lock, and the caller asked not to wait.
    Skipped,
}

/// Result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// The row was inserted, and is visible to this transaction.
    Inserted(Rid),
    /// The insert did nothing: an existing row has the same key in this index.
    Duplicate {
        /// The primary or unique index that has the key.
        index: IndexId,
        /// The row that already has the key.
        rid: Rid,
    },
}

/// Result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The row was updated. It has a new RID if its primary key changed.
    Updated(Rid),
    /// The update did nothing: another row has the new key in this index.
    Duplicate {
        /// The primary or unique index that has the key.
        index: IndexId,
        /// The row that already has the key.
        rid: Rid,
    },
}

/// Result of building an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexBuild {
    /// The index is complete, and the engine maintains it from now on.
    Built,
    /// The engine dropped the new index again: these two rows have the same key, and the
    /// index is unique.
    Duplicate(Rid, Rid),
}

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// The scan goes from the lower bound up to the upper bound.
    #[default]
    Forward,
    /// The scan goes from the upper bound down to the lower bound.
    Backward,
}

/// The order in which a scan visits rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanSource {
    /// Every row of the storage, in an order that the engine chooses and keeps for the
    /// duration of the transaction. Bounds are keys of that order, which a caller may only
    /// take from [`ScanProgress::More`].
    Table,
    /// The rows in the key order of an index.
    Index(IndexId),
}

/// A range of encoded keys.
///
/// A bound stands for every key that has it as a prefix: an excluded lower bound excludes
/// all of them, an included upper bound includes all of them. So the encoding of the first
/// columns of a key bounds the rows that agree in these columns. A position from
/// [`ScanProgress::More`] is a prefix of its own index entry only, and bounds just that
/// entry.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'key> {
    /// The bound at which the range starts.
    pub lower: Bound<&'key [u8]>,
    /// The bound at which the range ends.
    pub upper: Bound<&'key [u8]>,
}

impl Bounds<'_> {
    /// The unbounded range: every key.
    pub const ALL: Self = Bounds {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
    };
}

/// Request for one chunk of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanRequest<'key> {
    /// The storage to scan.
    pub storage: StorageId,
    /// The order in which to visit the rows.
    pub source: ScanSource,
    /// The range of keys to visit.
    pub bounds: Bounds<'key>,
    /// Direction of the scan.
    pub direction: Direction,
    /// Maximum number of records to visit in this chunk. A few hundred keeps the time for
    /// which the scan is pinned short.
    pub limit: usize,
}

/// The point at which a chunk of a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanProgress {
    /// The scan has visited everything within the bounds.
    Complete,
    /// The visitor stopped the scan, or the limit was reached. The scan continues strictly
    /// after this position: the caller passes it as the next chunk's excluded lower bound
    /// (upper, for a backward scan). It is the whole index entry, so no row is skipped or
    /// repeated even when several rows share a key.
    More(Vec<u8>),
}

/// A savepoint of a transaction. Valid until it is released, or until the transaction rolls
/// back to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub u32);

/// The snapshot of a suspended statement, for the same transaction to resume later. Opaque
/// to callers: its contents belong to the engine.
#[derive(Debug)]
pub struct KeptSnapshot(pub Box<dyn Any + Send>);

/// Visitor of a read: receives one row as its record and its version.
pub type Visit<'visitor> = dyn FnMut(Rid, RowRef<'_>) + Send + 'visitor;

/// Visitor of a scan: receives one row, and returns whether the scan continues.
pub type VisitScan<'visitor> = dyn FnMut(Rid, RowRef<'_>) -> ControlFlow<()> + Send + 'visitor;

/// Indexes that are not complete, each with its storage.
pub type UnbuiltIndexes = BTreeSet<(StorageId, IndexId)>;

/// Memory that a storage takes, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageMemory {
    /// Memory of the rows, with the old versions of them that are kept.
    pub rows: u64,
    /// Memory of each index.
    pub indexes: Vec<(IndexId, u64)>,
}

/// A way to ask for the newest commit that is not the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// By a question that no other caller shares.
    Alone,
    /// Likewise, and the answer moves nothing here: [`Engine::poll_standing`] compares it.
    Silent,
    /// Not at all, until [`Engine::insist`]: something else may answer before.
    Later,
}

/// How far an engine that follows is towards a commit of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its log has not been written up to there.
    LacksLog,
    /// It does not know yet that its log is committed up to there.
    Uncommitted,
    /// It knows, and its snapshots do not include it yet.
    Replays,
    /// Its snapshots include it.
    Shows,
}

/// A transaction engine: one implementation of a concurrency control protocol.
pub trait Engine: Send + Sync + 'static {
    /// The engine's name, for messages.
    fn name(&self) -> &'static str;

    /// Begins a transaction. Waits until the engine has [`BeginOptions::minimum`], if
    /// given.
    fn poll_begin(
        &self,
        options: &BeginOptions,
        context: &mut Context<'_>,
    ) -> Poll<Result<Box<dyn Transaction>, Error>>;

    /// Ready when every commit up to `timestamp` is durable in the sense that the engine
    /// guarantees (rule 3); immediately if it already is.
    fn poll_durable(
        &self,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>>;

    /// Requests confirmation that no other engine has committed anything that is missing
    /// here (a read index). The engine starts confirming at once, and concurrent requests
    /// share one round. `None` when the confirmation is not needed, as always for an engine
    /// without replicas.
    ///
    /// A caller that has committed something after the reads in question, and waits until
    /// that is durable, needs no confirmation: the commit could only become durable because
    /// this engine was still the leader.
    fn ask_confirmation(&self) -> Option<Confirmation> {
        None
    }

    /// Whether the engine's lease holds: the nodes that could elect another leader promised
    /// a moment ago not to do so for a while. They may have lost that promise, or their
    /// clocks may differ. The lease suffices for reads that are confirmed later (rule 3),
    /// and for nothing else.
    fn is_unchallenged(&self) -> bool {
        true
    }

    /// Ready when the confirmation is granted. An error means that another engine may have
    /// replaced this one, which then stops its work.
    fn poll_confirmed(
        &self,
        _confirmation: Confirmation,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    /// Asks which commits a snapshot must include so that nothing that was acknowledged
    /// before this call is missing. `None` when the snapshots of this engine always include
    /// that: an engine that writes has its reads confirmed afterwards
    /// ([`Engine::ask_confirmation`]). Callers that ask before the engine has sent a
    /// question share it.
    fn ask_newest(&self) -> Option<Question> {
        None
    }

    /// Ready when every snapshot taken from now on includes everything that was acknowledged
    /// before the question was asked. [`Error::Stopped`] means that the question was lost,
    /// or that no leader is known: the caller may ask a new one, or have the leader execute
    /// the statement.
    fn poll_newest(
        &self,
        _question: Question,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    /// Forgets the caller of [`Engine::poll_begin`] or [`Engine::poll_newest`] that waits with
    /// this waker, because it has given up: what it waits for may never come. The waker is
    /// woken, because its task may wait for something else with it.
    fn stop_waiting(&self, _waker: &Waker) {}

    /// How the question was answered; `None` while it is not. From then on snapshots wait for
    /// this engine's own tables only.
    fn answered(&self, _question: Question) -> Option<Answered> {
        Some(Answered::Asked)
    }

    /// As [`Engine::ask_newest`], in another way, for measurements beside it.
    fn ask_as(&self, _way: Asking) -> Option<Question> {
        self.ask_newest()
    }

    /// Has a question of [`Asking::Later`] sent, if it is not answered yet.
    fn insist(&self, _question: Question) {}

    /// Ready with how far this engine was, when the answer to a question of
    /// [`Asking::Silent`] came, towards what the answer says. Errors are those of
    /// [`Engine::poll_newest`].
    fn poll_standing(
        &self,
        _question: Question,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Standing, Error>> {
        Poll::Ready(Ok(Standing::Shows))
    }

    /// Whether a transaction can begin while its caller has another one open. An engine of
    /// which that is not true keeps nothing beyond its process.
    fn begins_side_by_side(&self) -> bool {
        true
    }

    /// Whether this engine only reads: it refuses writes, row locks and table locks that
    /// only writers take with [`Error::ReadOnly`], whatever [`BeginOptions::read_only`] says.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Attaches a storage with its indexes: a new storage is empty; for one whose rows were
    /// recovered from the log the engine builds the indexes. Blocks while it builds.
    fn attach_storage(&self, definition: StorageDefinition) -> Result<(), Error>;

    /// Drops a storage, once no snapshot can reach it any more. Dropping an unknown storage
    /// does nothing.
    fn drop_storage(&self, storage: StorageId);

    /// All storages that are attached or were recovered from the log. After the caller has
    /// attached those in the catalog, the others are leftovers of transactions that never
    /// committed, and can be dropped.
    fn storages(&self) -> Vec<StorageId>;

    /// Estimated number of rows of a storage, for the planner. 0 when unknown.
    fn estimated_rows(&self, storage: StorageId) -> u64;

    /// Memory that a storage takes. `None` when unknown.
    fn storage_memory(&self, storage: StorageId) -> Option<StorageMemory> {
        let _ = storage;
        None
    }

    /// The indexes that a snapshot's definitions name and that are not complete yet, so that no
    /// plan may use them: a follower builds an index after the leader has committed it. `None`
    /// if there are none, as on every engine that writes. An index is in the answer before a
    /// snapshot shows its definition, and leaves it once.
    fn unbuilt_indexes(&self) -> Option<Arc<UnbuiltIndexes>> {
        None
    }

    /// Bytes of memory still available to statements before the process reaches its limit;
    /// `u64::MAX` without a limit.
    fn spare_memory(&self) -> u64 {
        u64::MAX
    }

    /// All transactions that wait for a lock. Empty for an engine without lock waits.
    fn blocked(&self) -> Vec<Blocked> {
        Vec::new()
    }

    /// Statistics of past conflicts, by place and reason. Empty for an engine without
    /// conflicts.
    fn conflicts(&self) -> Vec<ConflictCount> {
        Vec::new()
    }

    /// The session of a running or ended transaction, if the engine still knows it.
    fn party(&self, transaction: TransactionId) -> Party {
        Party {
            transaction,
            session: None,
        }
    }

    /// Passes the newest committed version of a record to `visit` outside any transaction,
    /// so that the caller can describe a conflict or a lock by the row's key. Returns the
    /// version's commit timestamp: the caller must not disclose the row before that is
    /// durable (rule 3).
    fn show_row(&self, storage: StorageId, rid: Rid, visit: &mut Visit<'_>) -> Option<Timestamp>;

    /// Like [`Engine::show_row`], for the row with exactly this key in a primary index.
    /// Includes the commits of all transactions that have ended, so that a client that
    /// missed the end of a transaction can learn its outcome.
    fn show_row_by_key(
        &self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Option<Timestamp>;

    /// The term of the commits that the engine makes from now on. No transaction of an
    /// earlier term is still running.
    fn term(&self) -> Term;

    /// Writes a checkpoint of everything committed so far, as fast as the disk allows, so
    /// that recovery can skip the log before it. The future completes when the checkpoint
    /// is in force; until then, and after an error, recovery uses the log. An in-memory
    /// engine has nothing to do.
    fn checkpoint(&self) -> Checkpointing {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Starts a backup of everything durable. Commits continue meanwhile.
    fn backup(&self) -> Result<Box<dyn BackupStream>, Error> {
        let reason = "a database in memory has nothing to back up";
        Err(Error::Io(reason.to_owned()))
    }
}

/// A running checkpoint. It continues when this future is dropped.
pub type Checkpointing = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A running backup, as a stream of bytes in the format of the restore command. Dropping it
/// ends the backup.
pub trait BackupStream: Send {
    /// The next bytes; `None` at the end of the backup.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Error>>>;
}

/// A running transaction. Used by one caller at a time; it may move between threads between
/// calls.
///
/// After any error but [`Error::LockNotAvailable`], [`Error::SchemaChanged`] at the start
/// of a statement, and [`Error::ReadOnly`], the caller must roll back to a savepoint or
/// abort; after [`Error::Conflict`] and [`Error::Deadlock`] only a new transaction can
/// succeed.
pub trait Transaction: Send {
    /// The transaction's id.
    fn id(&self) -> TransactionId;

    /// The transaction's isolation level.
    fn isolation(&self) -> Isolation;

    /// The newest commit that the transaction's current snapshot includes.
    fn snapshot(&self) -> Timestamp;

    /// The newest commit whose effect the transaction has read or overwritten: it must be
    /// durable before any result of the transaction leaves the process.
    fn newest_seen(&self) -> Timestamp;

    /// Promises, until the next statement begins or [`Transaction::disclose_all`] is
    /// called: of the rows that reads by key and row locks return, the caller discloses
    /// only which ones exist. It uses their contents only to compute its writes, which are
    /// part of its commit. So [`Transaction::newest_seen`] need not include a version that
    /// only changed a row, and the client can be answered while that version is not yet
    /// durable. If the transaction later reads its own version of such a row, that read
    /// discloses the contents, and is counted then. Engines may ignore this promise.
    fn disclose_presence_only(&mut self) {}

    /// From now on [`Transaction::newest_seen`] includes every version that the transaction
    /// has used: for an error, whose text may disclose row contents, and before a commit.
    fn disclose_all(&mut self) {}

    /// Says at the start of a statement that writes whether it only frees space: it deletes
    /// rows, or drops or empties tables. A transaction with no other statements may commit
    /// while the disk is full, as far as the engine has a reserve for that. Engines may ignore
    /// this.
    fn note_write(&mut self, only_frees: bool) {
        let _ = only_frees;
    }

    /// Sets the maximum duration of a lock wait; `None` waits for ever.
    fn set_lock_timeout(&mut self, timeout: Option<Duration>);

    /// Marks the start of a statement: takes a new snapshot at
    /// [`Isolation::ReadCommitted`], does nothing at the other levels.
    fn begin_statement(&mut self) -> Result<(), Error>;

    /// Takes a new snapshot at every level, and forgets what has been read. Only for a
    /// transaction whose statements have returned nothing and changed nothing so far: one
    /// that has only locked tables.
    fn renew_snapshot(&mut self) -> Result<(), Error>;

    /// Keeps the snapshot of the current statement, which is now suspended and will be
    /// resumed after other statements. Until it is dropped or resumed, it protects old
    /// versions from garbage collection. At the levels where all statements share a
    /// snapshot, it is empty.
    fn keep_snapshot(&mut self) -> KeptSnapshot;

    /// Resumes a suspended statement: until the next [`Transaction::begin_statement`],
    /// reads use its snapshot. In addition they see what this transaction has written
    /// since.
    fn resume_snapshot(&mut self, kept: KeptSnapshot) -> Result<(), Error>;

    /// Passes the row with exactly this key in a primary or unique index to `visit`, and
    /// returns whether one exists.
    fn get(
        &mut self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error>;

    /// Like [`Transaction::get`] for many keys: passes the rows that exist to `visit` in
    /// the order of the keys, each with the position of its key. Engines overlap the cache
    /// misses.
    fn get_many(
        &mut self,
        storage: StorageId,
        index: IndexId,
        keys: &[&[u8]],
        visit: &mut (dyn FnMut(usize, Rid, RowRef<'_>) + Send),
    ) -> Result<(), Error> {
        for (position, key) in keys.iter().enumerate() {
            self.get(storage, index, key, &mut |rid, row| {
                visit(position, rid, row);
            })?;
        }
        Ok(())
    }

    /// Passes the visible version of one record to `visit`, and returns whether it has one.
    /// The transaction must have found the record earlier.
    fn get_record(
        &mut self,
        storage: StorageId,
        rid: Rid,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error>;

    /// Passes the next chunk of a scan to `visit`.
    fn scan(
        &mut self,
        request: &ScanRequest<'_>,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error>;

    /// Locks a table and checks that the caller's plan was made for the table's current
    /// schema; otherwise fails with [`Error::SchemaChanged`], and has the lock all the
    /// same. A statement calls this before anything else, in any transaction, also in one
    /// that only reads. The lock is held until the transaction ends, or rolls back to a
    /// savepoint before this call. With [`LockWait::NoWait`] and [`LockWait::Skip`] it
    /// fails with [`Error::LockNotAvailable`] where it would have to wait.
    fn poll_lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        wait: LockWait,
        schema_version: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>>;

    /// Sets the schema version: the engine rejects plans made for any other version from
    /// now on. Requires a table lock that keeps writers out ([`TableLock::Share`] or
    /// stronger), and that no other transaction changes the schema at once. Undone if the transaction rolls back, or
    /// rolls back to a savepoint before this call.
    fn set_schema_version(&mut self, storage: StorageId, version: u64) -> Result<(), Error>;

    /// Builds a new index with an entry for the newest version of every row. Requires the
    /// same lock as [`Transaction::set_schema_version`]. The index is removed if the transaction rolls back, or rolls
    /// back to a savepoint before this call.
    fn poll_build_index(
        &mut self,
        storage: StorageId,
        definition: &IndexDefinition,
        context: &mut Context<'_>,
    ) -> Poll<Result<IndexBuild, Error>>;

    /// Drops a unique or secondary index. Requires the same lock as
    /// [`Transaction::set_schema_version`]. From this call
    /// on the index enforces no uniqueness, in this transaction either; the engine removes
    /// it after the commit, once no snapshot can reach it. Until then, older snapshots
    /// still read through it. Undone if the transaction rolls back, or rolls back to a
    /// savepoint before this call.
    ///
    /// A storage's primary index cannot be dropped, because it identifies the records.
    fn drop_index(&mut self, storage: StorageId, index: IndexId) -> Result<(), Error>;

    /// Locks a row until the transaction ends, and passes the version that a write would
    /// replace to `visit` (unless the result is `Gone` or `Skipped`). Waits for transactions
    /// that hold the row in a mode that conflicts. With [`RowLock::KeyShare`], a version that
    /// differs from the snapshot's in other columns than the unique keys counts as unchanged,
    /// and `visit` receives the snapshot's. At [`Isolation::Serializable`] an engine may defer
    /// the lock to the commit, and return `Unchanged`.
    fn poll_lock_row(
        &mut self,
        storage: StorageId,
        rid: Rid,
        mode: RowLock,
        wait: LockWait,
        visit: &mut Visit<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<LockedRow, Error>>;

    /// Inserts a row. Waits for any other transaction that is inserting or deleting the
    /// same key.
    fn poll_insert(
        &mut self,
        storage: StorageId,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Insert, Error>>;

    /// Replaces a row that this transaction has locked, in mode [`RowLock::NoKeyUpdate`] or
    /// [`RowLock::Update`]. A change of a unique key takes the latter, and may wait for it.
    fn poll_update(
        &mut self,
        storage: StorageId,
        rid: Rid,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Update, Error>>;

    /// Deletes a row that this transaction has locked, in mode [`RowLock::Update`].
    fn delete(&mut self, storage: StorageId, rid: Rid) -> Result<(), Error>;

    /// Creates a savepoint.
    fn savepoint(&mut self) -> Savepoint;

    /// Undoes everything since the savepoint, which remains valid, and frees the row and
    /// table locks taken since: transactions that wait for one go on.
    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error>;

    /// Releases a savepoint and all later ones; their changes remain part of the
    /// transaction.
    fn release(&mut self, savepoint: Savepoint);

    /// Commits. Ready means that the transaction has ended, with whatever outcome. A caller
    /// that stops waiting before must poll again or abort; the engine may refuse statements
    /// after the first call.
    fn poll_commit(&mut self, context: &mut Context<'_>) -> Poll<Outcome>;

    /// Rolls everything back and releases every lock. Does nothing if the transaction has
    /// ended.
    fn abort(&mut self);
}
