//! The state of a running transaction. It is boxed and reused for the next transaction,
//! so that its buffers grow only once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use coeval_log::{EntryBuilder, SpaceWait};
use coeval_storage::{Snapshot, Value};
use coeval_txn::{Isolation, LockObserver, TableLock};
use coeval_types::{IndexId, Rid, RowLock, Timestamp, TransactionId};

use super::handle::Handle;
use super::waiting::Waiting;
use crate::active_transactions::TransactionSlot;
use crate::statistics::counters::AbortCause;
use crate::storage::{Index, Storage};
use crate::validation::{self, Notes};

/// A counted reference to a storage handle of this state.
pub(super) type StorageHandle = Arc<Handle>;

/// Position of a storage in [`State::storages`].
pub(super) type StorageAt = usize;

/// A record whose lock this transaction holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) storage: StorageAt,
    pub(super) rid: Rid,
}

/// One step to undo, or a private version whose index entries may have to be removed.
#[derive(Debug)]
pub(super) enum Undo {
    /// The record's previous private version; `None` if it had none.
    Row {
        storage: StorageAt,
        rid: Rid,
        previous: Option<Value>,
    },
    /// The storage's previous schema version.
    Schema { storage: StorageAt, previous: u64 },
    /// The storage had no such index.
    IndexBuilt { storage: StorageAt, index: IndexId },
    /// The index was not dropped.
    IndexDropped {
        storage: StorageAt,
        index: Arc<Index>,
    },
}

/// What a transaction had when a savepoint was set, as lengths of its lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) undo: usize,
    pub(super) held: usize,
    pub(super) keys: usize,
    pub(super) tables: usize,
    pub(super) strengthened: usize,
    pub(super) shares: usize,
}

/// A row that this transaction shares, or shares in a stronger mode than before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) storage: StorageAt,
    pub(super) rid: Rid,
    /// The mode in which the transaction shared it before.
    pub(super) before: Option<RowLock>,
}

/// A record in the read set, and the version that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) storage: StorageAt,
    pub(super) rid: Rid,
    pub(super) cts: Timestamp,
}

/// A table lock that the transaction holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableHeld {
    pub(super) storage: StorageAt,
    pub(super) mode: TableLock,
}

/// A key to register; its bytes are in [`State::bytes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct RegistrationKey {
    pub(super) storage: StorageAt,
    /// The index that orders the key, or `None` for RID order.
    pub(super) index: Option<IndexId>,
    /// The first bytes of the key.
    pub(super) head: u128,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(super) place: TransactionSlot,
    pub(super) id: TransactionId,
    pub(super) isolation: Isolation,
    pub(super) read_only: bool,
    pub(super) cancel: Option<Arc<AtomicBool>>,
    pub(super) observer: Option<Arc<dyn LockObserver>>,
    pub(super) lock_timeout: Option<Duration>,
    /// Registered for as long as the transaction runs.
    pub(super) snapshot: Option<Snapshot>,
    pub(super) newest_seen: Timestamp,
    /// Whether the client learns only which rows exist.
    pub(super) presence_only: bool,
    /// Whether all statements that write only free space; `None` before one was announced.
    pub(super) only_frees: Option<bool>,
    /// The newest version worked upon that `newest_seen` may omit.
    pub(super) undisclosed: Timestamp,
    /// The newest commit made before a strong table lock was acquired: the snapshots of
    /// later statements include it.
    pub(super) includes: Timestamp,
    /// The cause that an abort would be counted under.
    pub(super) failure: AbortCause,

    /// Storages that this transaction uses, and possibly some that earlier transactions
    /// of this state used.
    pub(super) storages: Vec<StorageHandle>,
    /// The generation of [`crate::pool::Pool`] when the storages were last checked.
    generation: u64,
    pub(super) held: Vec<Held>,
    /// Records in `held` whose lock was first taken in mode NO KEY UPDATE, and then made
    /// stronger.
    pub(super) strengthened: Vec<Held>,
    pub(super) shares: Vec<Shares>,
    /// Whether the log was notified that this transaction is about to commit.
    pub(super) announced: bool,
    /// Number of rows in `held`, from the first, that a begun commit has to install.
    pub(super) written: usize,
    pub(super) tables: Vec<TableHeld>,
    pub(super) keys: Vec<(IndexId, Box<[u8]>)>,
    /// Number of keys, from the first, that may belong to rows that were written.
    pub(super) keys_used: usize,
    pub(super) undo: Vec<Undo>,
    pub(super) savepoints: Vec<Mark>,

    pub(super) reads: Vec<Read>,
    pub(super) notes: Notes,

    pub(super) waiting: Option<Waiting>,
    /// The previous holder of the row that is being locked, to be named if the row
    /// changed.
    pub(super) had_row: Option<TransactionId>,
    /// Whether a commit has begun: its log entries are collected.
    pub(super) prepared: bool,
    #[cfg(feature = "planted")]
    pub(super) planted: super::planted::Left,
    pub(super) entries: EntryBuilder,
    pub(super) space_wait: SpaceWait,
    pub(super) registration_keys: Vec<RegistrationKey>,
    pub(super) bytes: Vec<u8>,
    /// Buffer for keys during one call.
    pub(super) scratch: Vec<u8>,
    /// Number of writes that grew memory, over all transactions of this state.
    pub(super) growing_writes: u32,
}

impl State {
    pub(crate) fn new(place: TransactionSlot, entries: EntryBuilder) -> Self {
        Self {
            place,
            id: TransactionId(0),
            isolation: Isolation::default(),
            read_only: false,
            cancel: None,
            observer: None,
            lock_timeout: None,
            snapshot: None,
            newest_seen: Timestamp::ZERO,
            presence_only: false,
            only_frees: None,
            undisclosed: Timestamp::ZERO,
            includes: Timestamp::ZERO,
            failure: AbortCause::Rollback,
            storages: Vec::new(),
            generation: 0,
            held: Vec::new(),
            strengthened: Vec::new(),
            shares: Vec::new(),
            announced: false,
            written: 0,
            tables: Vec::new(),
            keys: Vec::new(),
            keys_used: 0,
            undo: Vec::new(),
            savepoints: Vec::new(),
            reads: Vec::new(),
            notes: Notes::default(),
            waiting: None,
            had_row: None,
            prepared: false,
            #[cfg(feature = "planted")]
            planted: super::planted::Left::default(),
            entries,
            space_wait: SpaceWait::new(),
            registration_keys: Vec::new(),
            bytes: Vec::new(),
            scratch: Vec::new(),
            growing_writes: 0,
        }
    }

    pub(crate) fn place(&self) -> &TransactionSlot {
        &self.place
    }

    /// Clears the transaction, keeping its buffers unless a large transaction made them
    /// huge; keeps the read set's buffer if it has at most `reads_kept` bytes.
    pub(super) fn clear(&mut self, reads_kept: usize) {
        const KEPT: usize = 1 << 16;
        fn clear<T>(list: &mut Vec<T>) {
            validation::clear(list, KEPT);
        }
        self.cancel = None;
        self.observer = None;
        self.had_row = None;
        self.failure = AbortCause::Rollback;
        self.snapshot = None;
        // Until then the log keeps chunks of a transaction.
        self.entries.clear();
        debug_assert!(!self.announced, "the log would wait for it");
        clear(&mut self.held);
        clear(&mut self.strengthened);
        clear(&mut self.shares);
        clear(&mut self.tables);
        clear(&mut self.keys);
        clear(&mut self.undo);
        clear(&mut self.savepoints);
        validation::clear(&mut self.reads, reads_kept.max(KEPT));
        self.notes.clear(KEPT);
        clear(&mut self.registration_keys);
        clear(&mut self.bytes);
        clear(&mut self.scratch);
        self.presence_only = false;
        self.only_frees = None;
        self.undisclosed = Timestamp::ZERO;
        self.space_wait = SpaceWait::new();
        self.prepared = false;
        #[cfg(feature = "planted")]
        self.planted.clear();
        self.written = 0;
        self.keys_used = 0;
    }

    /// Between transactions: keeps the storages for the next one, if they are few and no
    /// drop has happened since the state's generation. `generation` is the current one.
    pub(crate) fn keep_storages(&mut self, generation: u64) {
        const KEPT: usize = 16;
        if self.generation != generation || self.storages.len() > KEPT {
            self.storages.clear();
            self.storages.shrink_to(KEPT);
            self.generation = generation;
        }
    }

    /// Adds a storage that is not in the list yet.
    #[cold]
    pub(super) fn add_storage(&mut self, storage: Arc<Storage>) -> StorageAt {
        self.storages.push(Arc::new(Handle::new(storage)));
        self.storages.len() - 1
    }

    pub(super) fn snapshot(&self) -> Timestamp {
        let snapshot = self.snapshot.as_ref();
        snapshot.expect("kept while it runs").timestamp()
    }

    /// Notes that a version was returned or built upon.
    pub(super) fn seen(&mut self, cts: Timestamp) {
        if cts.is_finite() && cts > self.newest_seen {
            self.newest_seen = cts;
        }
    }

    /// Notes that a version was worked upon without the client learning anything of it.
    pub(super) fn worked_upon(&mut self, cts: Timestamp) {
        if cts.is_finite() && cts > self.undisclosed {
            self.undisclosed = cts;
        }
    }

    /// Notes that the client was shown a version of its own transaction.
    pub(super) fn seen_own(&mut self) {
        if !self.presence_only {
            self.seen(self.undisclosed);
        }
    }

    /// Counts everything worked upon as seen.
    pub(super) fn disclose_all(&mut self) {
        self.presence_only = false;
        self.seen(self.undisclosed);
    }

    pub(super) fn is_serializable(&self) -> bool {
        self.isolation == Isolation::Serializable && !self.read_only
    }

    /// Whether the transaction may work upon a version newer than its snapshot.
    pub(super) fn follows_newest(&self) -> bool {
        self.isolation == Isolation::ReadCommitted
    }
}
