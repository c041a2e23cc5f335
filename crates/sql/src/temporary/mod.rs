//! Temporary tables: tables of one session, which end with it.
//!
//! Their definitions and rows are in the memory of the session, at the leader. The log, the
//! followers and the checkpoints know nothing of them: nothing of them is written to a disk or
//! sent to another node, and nothing is left after a crash. The serial
//! engine ([`coeval_txn::Serial`]) keeps the rows: a session runs one transaction at a time.
//!
//! ```text
//!   session ── transaction ─┬─ storage 70          the engine that all sessions share
//!                           └─ storage 2³¹ + 1     this session's own engine
//!   catalog ── that of all sessions, and over it this session's own tables
//! ```
//!
//! - [`transaction`]: one transaction over both engines. A storage whose number has the
//!   highest bit set ([`crate::catalog::is_own`]) is the session's.
//! - The definitions are an immutable map that each change replaces; a rollback, also one to a
//!   savepoint, puts the older map back.
//!
//! A commit asks the shared engine first, which may refuse; the session's own cannot. So a
//! transaction that changes tables of both kinds commits in both or in neither. It fails
//! in between only with the whole process, and then the session is gone as well.
//!
//! **What becomes of them when the leader changes.** The tables are lost with the leader that
//! had them, also by a handover. A session that went on without them would silently read
//! and write the permanent tables that they hid, so it ends, and its client connects
//! anew ([`lost_with_leader`]). Until then it is pinned: a node that follows reads nothing for
//! a session that has temporary tables ([`crate::session::SessionHandover::is_pinned`]).
//!
//! Invariants:
//! - A session reaches no other session's temporary tables: its catalog does not list them,
//!   and its transaction's storages are not theirs.
//! - While a transaction runs in a session that has a [`Temporary`], it is a
//!   [`transaction::WithTemporary`].
//! - The rows are charged to the session's memory, up to [`SLACK`] bytes.

mod transaction;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_txn::{Engine, Serial};
use coeval_types::{StorageDefinition, StorageId};

use crate::catalog::{Catalog, OWN_STORAGES, Store, Table};
use crate::error::{Error, Result, SqlState};
use crate::instance::{Charge, SessionMemory};
pub(crate) use transaction::WithTemporary;

/// How far the memory that is charged may be from what the tables take, in bytes.
const SLACK: u64 = 64 << 10;

/// What a commit does to a temporary table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCommit {
    /// Nothing.
    PreserveRows,
    /// It deletes the rows.
    DeleteRows,
    /// It drops the table.
    Drop,
}

/// A temporary table.
#[derive(Clone, Debug)]
struct Own {
    table: Arc<Table>,
    on_commit: OnCommit,
}

/// The definitions of a session's temporary tables, by OID.
#[derive(Clone, Debug, Default)]
struct Definitions {
    tables: Arc<BTreeMap<u32, Own>>,
    /// Names this state of the definitions in the session.
    number: u64,
}

#[derive(Debug, Default)]
struct State {
    /// The definitions as the running transaction sees them.
    now: Definitions,
    /// The definitions as they are if the running transaction rolls back.
    committed: Definitions,
    /// Counts states of the definitions.
    numbers: u64,
    /// Counts storages.
    storages: u32,
    charge: Option<Charge>,
    charged: u64,
    /// Why a write was refused for lack of memory.
    refused: Option<Error>,
}

impl State {
    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<u32, Own>)) {
        self.numbers += 1;
        self.now.number = self.numbers;
        change(Arc::make_mut(&mut self.now.tables));
    }
}

/// What the session and its transaction share.
#[derive(Debug)]
struct Shared {
    engine: Serial,
    memory: Arc<SessionMemory>,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it was held")
    }

    /// Charges the session for what the tables take; fails if it may not keep that much.
    fn charge(&self) -> Result<()> {
        let bytes = self.engine.bytes();
        let state = &mut *self.state();
        if bytes.abs_diff(state.charged) < SLACK {
            return Ok(());
        }
        match &mut state.charge {
            Some(charge) => charge.grow(bytes, "Temporary tables")?,
            none => *none = Some(self.memory.charge(bytes, "Temporary tables")?),
        }
        state.charged = bytes;
        Ok(())
    }

    /// The transaction has committed in the shared engine and in the session's own.
    fn committed(&self) {
        let mut state = self.state();
        let tables = Arc::clone(&state.now.tables);
        for own in tables.values() {
            if own.on_commit == OnCommit::DeleteRows {
                self.engine.clear(own.table.storage);
            }
        }
        if tables.values().any(|own| own.on_commit == OnCommit::Drop) {
            state.change(|tables| tables.retain(|_, own| own.on_commit != OnCommit::Drop));
        }
        state.committed = state.now.clone();
        self.end(state);
    }

    /// The transaction has rolled back.
    fn rolled_back(&self) {
        let mut state = self.state();
        state.now = state.committed.clone();
        self.end(state);
    }

    /// Drops the storages that no definition names.
    fn end(&self, state: MutexGuard<'_, State>) {
        let tables = Arc::clone(&state.now.tables);
        drop(state);
        let known: Vec<StorageId> = tables.values().map(|own| own.table.storage).collect();
        for storage in self.engine.storages() {
            if !known.contains(&storage) {
                self.engine.drop_storage(storage);
            }
        }
        // What the tables take has not grown by the end of the transaction.
        let _ = self.charge();
    }
}

/// A session's temporary tables.
#[derive(Debug)]
pub(crate) struct Temporary {
    shared: Arc<Shared>,
    /// The last catalog with these tables.
    seen: Mutex<Option<Seen>>,
}

/// A catalog of all sessions, the number of the definitions over it, and the catalog with
/// both.
type Seen = (Arc<Catalog>, u64, Arc<Catalog>);

impl Temporary {
    /// No tables yet; they will be charged to this memory.
    pub(crate) fn new(memory: &Arc<SessionMemory>) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine: Serial::new(),
                memory: Arc::clone(memory),
                state: Mutex::default(),
            }),
            seen: Mutex::default(),
        }
    }

    /// Whether the session has a temporary table, or a transaction runs that has had one.
    pub(crate) fn is_used(&self) -> bool {
        let state = self.shared.state();
        !state.now.tables.is_empty() || !state.committed.tables.is_empty()
    }

    /// Why the last write was refused for lack of memory, if it was.
    pub(crate) fn take_refused(&self) -> Option<Error> {
        self.shared.state().refused.take()
    }

    /// The catalog with the session's temporary tables. It has a version that no other
    /// catalog has, so that plans are made anew when either part has changed.
    pub(crate) fn over(&self, catalog: &Arc<Catalog>, store: &Store) -> Arc<Catalog> {
        let definitions = self.shared.state().now.clone();
        if definitions.tables.is_empty() {
            return Arc::clone(catalog);
        }
        let mut seen = self.seen.lock().expect("no panic while it was held");
        if let Some((below, number, with)) = &*seen
            && *number == definitions.number
            && Arc::ptr_eq(below, catalog)
        {
            return Arc::clone(with);
        }
        let own = definitions.tables.values();
        let own = own.map(|own| Arc::clone(&own.table));
        let with = catalog.with_temporary(store.counters.version(), own);
        let with = Arc::new(with);
        *seen = Some((Arc::clone(catalog), definitions.number, Arc::clone(&with)));
        with
    }

    /// A number for a new storage in the session's own engine.
    pub(crate) fn storage(&self) -> StorageId {
        let mut state = self.shared.state();
        state.storages += 1;
        StorageId(OWN_STORAGES | state.storages)
    }

    /// Creates a storage in the session's own engine, empty.
    pub(crate) fn attach(&self, definition: StorageDefinition) -> Result<()> {
        self.shared.engine.attach_storage(definition)?;
        Ok(())
    }

    /// Adds a table.
    pub(crate) fn insert(&self, table: Arc<Table>, on_commit: OnCommit) {
        let mut state = self.shared.state();
        state.change(|tables| {
            tables.insert(table.oid, Own { table, on_commit });
        });
    }

    /// Replaces the definition of a table.
    pub(crate) fn update(&self, table: Arc<Table>) -> Result<()> {
        let mut state = self.shared.state();
        if !state.now.tables.contains_key(&table.oid) {
            return Err(Error::internal("a temporary table is gone"));
        }
        state.change(|tables| {
            if let Some(own) = tables.get_mut(&table.oid) {
                own.table = table;
            }
        });
        Ok(())
    }

    /// Drops a table.
    pub(crate) fn delete(&self, oid: u32) {
        self.shared.state().change(|tables| {
            tables.remove(&oid);
        });
    }

    /// DISCARD TEMP: drops all tables, with the running transaction if there is one.
    pub(crate) fn discard(&self, in_transaction: bool) {
        self.shared.state().change(BTreeMap::clear);
        if !in_transaction {
            self.shared.committed();
        }
    }
}

/// SQLSTATE 57P01: the session's temporary tables were in the memory of a node that leads no
/// longer.
#[must_use]
pub(crate) fn lost_with_leader() -> Error {
    Error::new(
        SqlState("57P01"),
        "terminating connection because the leader of the cluster has changed",
    )
    .with_detail("The session had temporary tables, which the leader kept for it.")
    .with_hint("Connect again, and create them again.")
}
