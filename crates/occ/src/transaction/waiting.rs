//! The lock that a transaction waits for: a row, a key or a table, and the start of the
//! wait.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use coeval_env::Instant;
use coeval_txn::{Blocked, ConflictLocation, LockKind, TableLock};
use coeval_types::{Rid, RowLock, TransactionId};

use crate::locks::graph::{Edge, Locks};
use crate::locks::queues::LockName;
use crate::shared::Shared;
use crate::storage::{Index, Storage};

/// A lock that a transaction waits for, with references to find its holder.
#[derive(Clone)]
pub(crate) enum Wait {
    Row {
        storage: Arc<Storage>,
        rid: Rid,
        /// The mode that is wanted; `None` to insert a key that the record has, which waits
        /// until no writer holds the record.
        mode: Option<RowLock>,
    },
    Key(Arc<Storage>, Arc<Index>, Box<[u8]>),
    Table {
        storage: Arc<Storage>,
        mode: TableLock,
    },
}

impl Wait {
    pub(super) fn name(&self) -> LockName {
        match self {
            Self::Row { storage, rid, .. } => LockName::Row(storage.id, *rid),
            Self::Key(_, index, key) => LockName::Key(index.id, key.clone()),
            Self::Table { storage, .. } => LockName::Table(storage.id),
        }
    }

    pub(super) fn place(&self) -> ConflictLocation {
        match self {
            Self::Row { storage, rid, .. } => ConflictLocation::Row {
                storage: storage.id,
                rid: *rid,
            },
            Self::Key(storage, index, key) => ConflictLocation::Key {
                storage: storage.id,
                index: index.id,
                key: key.to_vec(),
            },
            Self::Table { storage, .. } => ConflictLocation::Table {
                storage: storage.id,
            },
        }
    }

    pub(super) fn kind(&self) -> LockKind {
        match self {
            Self::Row { .. } => LockKind::Row,
            Self::Key(..) => LockKind::Key,
            Self::Table { mode, .. } => LockKind::Table(*mode),
        }
    }

    /// The mode that is wanted of a row.
    pub(super) fn mode(&self) -> Option<RowLock> {
        match self {
            Self::Row { mode, .. } => *mode,
            Self::Key(..) | Self::Table { .. } => None,
        }
    }

    /// Whether the waiter may come to wait for a transaction that begins to wait for it
    /// only now, without either of them waiting anew.
    pub(super) fn has_late_holders(&self) -> bool {
        match self {
            Self::Table { .. } => true,
            Self::Row { mode, .. } => mode.is_some_and(RowLock::is_shared),
            Self::Key(..) => false,
        }
    }

    /// Appends the transactions that `waiter` waits for here.
    pub(super) fn holders(
        &self,
        waiter: TransactionId,
        shared: &Shared,
        holders: &mut Vec<TransactionId>,
    ) {
        let mut edges = Vec::new();
        self.edges(waiter, shared, &mut edges);
        holders.extend(edges.into_iter().map(|edge| edge.to));
    }

    fn edges(&self, waiter: TransactionId, shared: &Shared, edges: &mut Vec<Edge>) {
        match self {
            Self::Row { storage, rid, mode } => {
                let record = storage.records.record(*rid);
                let Some(mode) = *mode else {
                    let holder = record.and_then(|record| record.holder());
                    edges.extend(holder.map(Edge::to_holder));
                    return;
                };
                let (wanted, name) = ((waiter, mode), (storage.id, *rid));
                let mut holders = Vec::new();
                let rows = &shared.rows;
                rows.holders(name, record.as_ref(), wanted, &mut holders);
                edges.extend(holders.iter().copied().map(Edge::to_holder));
                if mode.is_shared()
                    && let Some(to) = shared.queues.reserved(&self.name(), waiter, mode)
                    && !holders.contains(&to)
                {
                    edges.push(Edge { to, queued: true });
                }
            }
            Self::Key(_, index, key) => {
                let holder = shared.keys.holder(index.id, key);
                edges.extend(holder.map(Edge::to_holder));
            }
            Self::Table { storage, mode } => storage.locks.edges(waiter, *mode, edges),
        }
    }
}

/// The request of a table behind which one was that passes another.
pub(crate) struct Behind(Option<TransactionId>);

impl Locks<Entered> for Shared {
    type Turn = Behind;

    fn edges(&self, waiter: TransactionId, entry: &Entered, edges: &mut Vec<Edge>) {
        entry.wait.edges(waiter, self, edges);
    }

    fn pass(&self, waiter: TransactionId, entry: &Entered, other: TransactionId) -> Option<Behind> {
        match &entry.wait {
            Wait::Table { storage, .. } => {
                let behind = storage.locks.pass(waiter, other)?;
                Some(Behind(Some(behind)))
            }
            Wait::Row { .. } => {
                let name = entry.wait.name();
                let passes = self.queues.let_pass(&name, waiter, true);
                passes.then_some(Behind(None))
            }
            Wait::Key(..) => None,
        }
    }

    fn take_back(&self, waiter: TransactionId, entry: &Entered, behind: Behind) {
        match (&entry.wait, behind) {
            (Wait::Table { storage, .. }, Behind(Some(other))) => {
                storage.locks.put_back(waiter, other);
            }
            (wait, _) => {
                self.queues.let_pass(&wait.name(), waiter, false);
            }
        }
    }
}

/// An entry of the wait-for graph: the lock that is waited for, and the start of the
/// wait.
#[derive(Clone)]
pub(crate) struct Entered {
    pub(super) wait: Wait,
    pub(super) since: Instant,
}

impl Entered {
    /// Describes the wait for users.
    pub(crate) fn describe(self, waiter: TransactionId, shared: &Shared) -> Blocked {
        let mut holders = Vec::new();
        self.wait.holders(waiter, shared, &mut holders);
        let party = |id| shared.party(id);
        Blocked {
            waiter: party(waiter),
            holders: holders
                .into_iter()
                .filter(|holder| *holder != waiter)
                .map(party)
                .collect(),
            place: self.wait.place(),
            kind: self.wait.kind(),
            waited: self.since.elapsed(),
        }
    }
}

/// A wait under way.
pub(crate) struct Waiting {
    pub(super) wait: Wait,
    pub(super) name: LockName,
    pub(super) since: Instant,
    /// Whether, in this poll, the lock was tried after the queue was notified of the
    /// wait.
    pub(super) tried: bool,
    pub(super) timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, formatter)
    }
}
