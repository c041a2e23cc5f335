//! The contract itself: [`Engine`] and [`Transaction`], and the words they use.

use std::any::Any;
use std::future::Future;
use std::ops::{Bound, ControlFlow};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use coeval_types::{
    IndexDefinition, IndexId, Rid, RowRef, StorageDefinition, StorageId, Term, Timestamp,
    TransactionId,
};

use crate::{Blocked, Confirmation, ConflictCount, Error, Party, Place};

/// What a transaction may see of others. Stronger levels permit fewer anomalies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Isolation {
    /// A snapshot for each statement; a writer that meets a lock waits, then
    /// works on the newest version.
    #[default]
    ReadCommitted,
    /// One snapshot for the transaction; of two writers of a row the first to
    /// commit wins, the other fails with [`Error::Conflict`].
    SnapshotIsolation,
    /// As if transactions had run one at a time, in commit timestamp order.
    Serializable,
}

/// How a transaction begins.
#[derive(Clone, Debug, Default)]
pub struct BeginOptions {
    /// What it may see of others.
    pub isolation: Isolation,
    /// Refuses writes with [`Error::ReadOnly`]; costs nothing at commit.
    pub read_only: bool,
    /// The snapshot includes at least this commit; begin waits for it.
    pub minimum: Option<Timestamp>,
    /// Set from outside to end waits and scans with [`Error::Canceled`]. Ignored
    /// once the commit has drawn its timestamp.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Told when the transaction waits for a lock.
    pub observer: Option<Arc<dyn LockObserver>>,
    /// Whose it is, for people who look at locks and conflicts: a session's number,
    /// 0 for nobody's.
    pub session: i32,
}

/// Told of a transaction's waits for locks, by the engine, while the transaction is
/// being polled. Must not block.
pub trait LockObserver: Send + Sync + std::fmt::Debug {
    /// The transaction begins to wait for a lock on `place`.
    fn waits(&self, place: &Place);

    /// It waits no more: it has the lock, or has given up.
    fn goes_on(&self);
}

/// How a commit ended.
#[derive(Debug)]
pub enum Outcome {
    /// Committed with this timestamp. Not yet durable: rule 3. A transaction that
    /// wrote nothing reports its snapshot.
    Committed(Timestamp),
    /// Undone; the error says why and whether to retry.
    Aborted(Error),
    /// The process lost sight of it: it may or may not survive.
    Unknown(Error),
}

/// What a call does when it meets another transaction's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockWait {
    /// Waits its turn, up to the transaction's lock timeout.
    #[default]
    Wait,
    /// Fails at once with [`Error::LockNotAvailable`].
    NoWait,
    /// Reports [`LockedRow::Skipped`] at once.
    Skip,
}

/// How much of a table a lock takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableLock {
    /// Held by every writer until it ends; any number at once.
    Write,
    /// Held alone, by a change of the schema. Readers go on.
    Exclusive,
}

/// What became of a row on the way to its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedRow {
    /// The newest version is the one the statement's snapshot shows.
    Unchanged,
    /// A newer version is there: look again whether the statement wants it. Only
    /// at [`Isolation::ReadCommitted`].
    Changed,
    /// The row was deleted since. Only at [`Isolation::ReadCommitted`].
    Gone,
    /// Another transaction holds it, and the caller did not want to wait.
    Skipped,
}

/// What became of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// It is there, visible to this transaction.
    Inserted(Rid),
    /// Nothing happened: this row has the same key in this index.
    Duplicate {
        /// The index that promises uniqueness.
        index: IndexId,
        /// The row that has the key already.
        rid: Rid,
    },
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Done. The record is another one when its primary key changed.
    Updated(Rid),
    /// Nothing happened: another row has the new key in this index.
    Duplicate {
        /// The index that promises uniqueness.
        index: IndexId,
        /// The row that has the key already.
        rid: Rid,
    },
}

/// What became of building an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexBuild {
    /// Complete, and maintained from now on.
    Built,
    /// Dropped again: these two rows have the same key, and the index promises
    /// that no two do.
    Duplicate(Rid, Rid),
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// From the lower bound up.
    #[default]
    Forward,
    /// From the upper bound down.
    Backward,
}

/// What a scan walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanSource {
    /// Every row of the storage, in an order of the engine's choosing that stays
    /// the same for the transaction. Bounds are keys of that order, to be taken
    /// from [`ScanProgress::More`] only.
    Table,
    /// The rows in the order of an index's keys.
    Index(IndexId),
}

/// A range of encoded keys.
///
/// A bound stands for every key that begins with it: an excluded lower bound
/// leaves all of them out, an included upper bound takes all of them in. So the
/// encoding of the first columns of a key bounds the rows that agree in them, and
/// a position from [`ScanProgress::More`], with which only its own index entry
/// begins, bounds just that entry.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'key> {
    /// Where it begins.
    pub lower: Bound<&'key [u8]>,
    /// Where it ends.
    pub upper: Bound<&'key [u8]>,
}

impl Bounds<'_> {
    /// Every key.
    pub const ALL: Self = Bounds {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
    };
}

/// One chunk of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanRequest<'key> {
    /// Whose rows.
    pub storage: StorageId,
    /// In which order.
    pub source: ScanSource,
    /// Between which keys.
    pub bounds: Bounds<'key>,
    /// Which way.
    pub direction: Direction,
    /// Most records to look at in this chunk. A few hundred keeps the pinned step
    /// short.
    pub limit: usize,
}

/// Where a chunk of a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanProgress {
    /// There is nothing further within the bounds.
    Complete,
    /// The visitor said stop, or the limit was reached. The scan goes on strictly
    /// behind this position: the next chunk has it as its excluded lower bound
    /// (upper, when going backward). It is the whole index entry, so of rows with
    /// one key none is skipped or repeated.
    More(Vec<u8>),
}

/// A point to which a transaction can go back. Valid until it is released, or an
/// earlier one is rolled back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub u32);

/// The snapshot of a suspended statement, to be given back to the transaction it is
/// from. What is in it is the engine's business.
#[derive(Debug)]
pub struct KeptSnapshot(pub Box<dyn Any + Send>);

/// Sees one row of a read: the record and its version.
pub type Visit<'visitor> = dyn FnMut(Rid, RowRef<'_>) + Send + 'visitor;

/// Sees one row of a scan, and says whether to go on.
pub type VisitScan<'visitor> = dyn FnMut(Rid, RowRef<'_>) -> ControlFlow<()> + Send + 'visitor;

/// A protocol.
pub trait Engine: Send + Sync + 'static {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// Begins a transaction. Waits for [`BeginOptions::minimum`], if any.
    fn poll_begin(
        &self,
        options: &BeginOptions,
        context: &mut Context<'_>,
    ) -> Poll<Result<Box<dyn Transaction>, Error>>;

    /// Ready when everything up to `timestamp` survives what the engine promises
    /// to survive (rule 3). At once when it does already.
    fn poll_durable(
        &self,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>>;

    /// Asks whether nobody else can have committed anything until now that is not here.
    /// Finding out begins at once, and whoever asks about the same time shares it. `None`
    /// when that is certain already, as it always is of an engine that is alone.
    ///
    /// Nobody has to ask who has committed something after the reads in question, and
    /// waits for that to be durable: it became so because this engine was the one.
    fn ask_confirmation(&self) -> Option<Confirmation> {
        None
    }

    /// Whether it is not to be expected that somebody else has taken this engine's place: those
    /// who could let them have said a moment ago that they will not for a while. They may have
    /// forgotten, or have other clocks. Enough for what is confirmed later on (rule 3), and for
    /// nothing else.
    fn is_unchallenged(&self) -> bool {
        true
    }

    /// Ready when the question is answered. An error says that somebody else may have
    /// taken the engine's place; then it does nothing more.
    fn poll_confirmed(
        &self,
        _confirmation: Confirmation,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    /// Makes a storage known with its indexes: a new one is empty; one whose rows
    /// came back from the log gets its indexes built. Blocks while it builds.
    fn attach_storage(&self, definition: StorageDefinition) -> Result<(), Error>;

    /// Forgets a storage, once no snapshot can reach it any more. A storage that
    /// is not known is none to forget.
    fn drop_storage(&self, storage: StorageId);

    /// Every storage that is known or came back from the log. After attaching
    /// what the catalog names, the rest is left over from transactions that never
    /// committed, and can be dropped.
    fn storages(&self) -> Vec<StorageId>;

    /// About how many rows a storage has, for planning. 0 when it is not known.
    fn estimated_rows(&self, storage: StorageId) -> u64;

    /// How many bytes of memory are left for statements, until everything together has
    /// reached the limit; `u64::MAX` where there is none.
    fn spare_memory(&self) -> u64 {
        u64::MAX
    }

    /// Every transaction that waits for a lock. None in an engine in which nobody
    /// does.
    fn blocked(&self) -> Vec<Blocked> {
        Vec::new()
    }

    /// What conflicts there have been, by where and why. None in an engine that has
    /// none.
    fn conflicts(&self) -> Vec<ConflictCount> {
        Vec::new()
    }

    /// Whose a transaction is or was, if that is still known.
    fn party(&self, transaction: TransactionId) -> Party {
        Party {
            transaction,
            session: None,
        }
    }

    /// Shows the newest committed version of a record outside any transaction, so
    /// that a conflict or a lock can be described by the row's key, and returns its
    /// commit timestamp. What is told of it waits for that to be durable (rule 3).
    fn show_row(&self, storage: StorageId, rid: Rid, visit: &mut Visit<'_>) -> Option<Timestamp>;

    /// [`Engine::show_row`], of the row with exactly this key in a primary index. It
    /// shows what has been committed by any transaction that has ended, so that
    /// somebody who has not seen a transaction's end can learn how it ended.
    fn show_row_by_key(
        &self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Option<Timestamp>;

    /// The term of the commits that it makes from now on. No transaction of an
    /// earlier term runs any more.
    fn term(&self) -> Term;

    /// Writes down what is committed by now so that a start need not go through the
    /// log before it, as fast as the disk takes it. Done when that is in force;
    /// until then, and after an error, the log says it all. An engine that keeps
    /// nothing has nothing to do.
    fn checkpoint(&self) -> Checkpointing {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Begins a copy of everything durable. Commits go on meanwhile.
    fn backup(&self) -> Result<Box<dyn BackupStream>, Error> {
        let reason = "a database in memory has nothing to back up";
        Err(Error::Io(reason.to_owned()))
    }
}

/// A checkpoint under way. Goes on when it is dropped.
pub type Checkpointing = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A backup on its way, as bytes that mean something to whoever restores it.
/// Dropping it ends it.
pub trait BackupStream: Send {
    /// The next bytes; `None` when that was all.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Error>>>;
}

/// A running transaction. One caller at a time; it may move between threads
/// between calls.
///
/// After any error but [`Error::LockNotAvailable`], [`Error::SchemaChanged`] at
/// the start of a statement, and [`Error::ReadOnly`], the caller rolls back to a
/// savepoint or aborts; after [`Error::Conflict`] and [`Error::Deadlock`] only a
/// whole new transaction can succeed.
pub trait Transaction: Send {
    /// Its number.
    fn id(&self) -> TransactionId;

    /// What it may see of others.
    fn isolation(&self) -> Isolation;

    /// The newest commit its current snapshot includes.
    fn snapshot(&self) -> Timestamp;

    /// The newest commit whose effect it was shown or works upon: what must be
    /// durable before any of its results leaves the process.
    fn newest_seen(&self) -> Timestamp;

    /// Until the next statement begins, or [`Transaction::disclose_all`]: of what
    /// reads by key and row locks show, the caller lets nobody know more than which
    /// rows are there. The rest is for its own work, whose result is part of its
    /// commit. So [`Transaction::newest_seen`] need not include a version that only
    /// changed a row, and the caller can be answered while the disk still works on
    /// that version. Who reads the transaction's own version of such a row later
    /// learns of it, and is counted then. Engines are free to ignore this.
    fn disclose_presence_only(&mut self) {}

    /// From now on [`Transaction::newest_seen`] includes everything worked upon: for
    /// an error, whose text may tell more, and before a commit.
    fn disclose_all(&mut self) {}

    /// How long a lock may be waited for; `None` for ever.
    fn set_lock_timeout(&mut self, timeout: Option<Duration>);

    /// Marks the start of a statement: at [`Isolation::ReadCommitted`] takes a new
    /// snapshot, at the other levels does nothing.
    fn begin_statement(&mut self) -> Result<(), Error>;

    /// Keeps the snapshot of the statement that runs, which is suspended now and goes
    /// on after others. It keeps old versions from being removed until it is dropped
    /// or resumed. At the levels where all statements share a snapshot there is
    /// nothing to keep.
    fn keep_snapshot(&mut self) -> KeptSnapshot;

    /// Goes on with a suspended statement: until the next
    /// [`Transaction::begin_statement`] it reads what it would have read then. Only
    /// what this transaction has written since is seen as well.
    fn resume_snapshot(&mut self, kept: KeptSnapshot) -> Result<(), Error>;

    /// Shows the row with exactly this key in a primary or unique index, and says
    /// whether there is one.
    fn get(
        &mut self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error>;

    /// [`Transaction::get`] for many keys: shows what is there in the keys' order,
    /// with the position of its key. Engines overlap the cache misses.
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

    /// Shows the visible version of one record, if it has one. The record was
    /// found by this transaction before.
    fn get_record(
        &mut self,
        storage: StorageId,
        rid: Rid,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error>;

    /// Shows the next chunk of a scan.
    fn scan(
        &mut self,
        request: &ScanRequest<'_>,
        visit: &mut VisitScan<'_>,
    ) -> Result<ScanProgress, Error>;

    /// Locks a table and checks that the caller's plan was made for its present
    /// schema, else [`Error::SchemaChanged`]. Writers do so before anything else
    /// in a statement. Held until the transaction ends.
    fn poll_lock_table(
        &mut self,
        storage: StorageId,
        mode: TableLock,
        schema_version: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>>;

    /// Under an exclusive table lock: plans made for any other schema version are
    /// refused from now on. Undone if the transaction, or a savepoint before this
    /// call, rolls back.
    fn set_schema_version(&mut self, storage: StorageId, version: u64) -> Result<(), Error>;

    /// Under an exclusive table lock: makes a new index with an entry for the
    /// newest version of every row. It is gone again if the transaction, or a
    /// savepoint before this call, rolls back.
    fn poll_build_index(
        &mut self,
        storage: StorageId,
        definition: &IndexDefinition,
        context: &mut Context<'_>,
    ) -> Poll<Result<IndexBuild, Error>>;

    /// Under an exclusive table lock: a unique or secondary index promises nothing
    /// any more, from this call on and to this transaction too, and is forgotten
    /// after the commit, once no snapshot can reach it. Until then snapshots that
    /// know it read by it. Undone if the transaction, or a savepoint before this
    /// call, rolls back: then the index promises what it did.
    ///
    /// A storage's primary index cannot be dropped, because its records are named
    /// by it.
    fn drop_index(&mut self, storage: StorageId, index: IndexId) -> Result<(), Error>;

    /// Locks a row against other writers until the transaction ends, and shows the
    /// version that a write would replace (unless `Gone` or `Skipped`). At
    /// [`Isolation::Serializable`] engines may take the lock at commit only, and
    /// answer `Unchanged`.
    fn poll_lock_row(
        &mut self,
        storage: StorageId,
        rid: Rid,
        wait: LockWait,
        visit: &mut Visit<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<LockedRow, Error>>;

    /// Inserts a row. Waits for a transaction that is inserting or deleting the
    /// same key.
    fn poll_insert(
        &mut self,
        storage: StorageId,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Insert, Error>>;

    /// Replaces a row that this transaction has locked.
    fn poll_update(
        &mut self,
        storage: StorageId,
        rid: Rid,
        row: RowRef<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Update, Error>>;

    /// Deletes a row that this transaction has locked.
    fn delete(&mut self, storage: StorageId, rid: Rid) -> Result<(), Error>;

    /// A point to go back to.
    fn savepoint(&mut self) -> Savepoint;

    /// Undoes everything since the savepoint, which stays. Row locks taken since
    /// may be kept until the transaction ends.
    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error>;

    /// Forgets a savepoint and those after it; what was done stays.
    fn release(&mut self, savepoint: Savepoint);

    /// Commits. Ready means the transaction has ended, however it ended. Who gives up before,
    /// asks again or aborts; statements may be refused from the first call on.
    fn poll_commit(&mut self, context: &mut Context<'_>) -> Poll<Outcome>;

    /// Undoes everything and releases every lock. Ending twice does nothing.
    fn abort(&mut self);
}
