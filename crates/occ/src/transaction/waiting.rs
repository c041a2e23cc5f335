//! The lock that a transaction waits for: a row, a key or a table, and the start of the
//! wait.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use coeval_env::Instant;
use coeval_txn::{Blocked, ConflictLocation, LockKind, Party, TableLock};
use coeval_types::{Rid, TransactionId};

use crate::locks::keys::KeyLocks;
use crate::locks::queues::LockName;
use crate::storage::{Index, Storage};

/// A lock that a transaction waits for, with references to find its holder.
#[derive(Clone)]
pub(crate) enum Wait {
    Row(Arc<Storage>, Rid),
    Key(Arc<Storage>, Arc<Index>, Box<[u8]>),
    Table {
        storage: Arc<Storage>,
        mode: TableLock,
        waiter: TransactionId,
    },
}

impl Wait {
    pub(super) fn name(&self) -> LockName {
        match self {
            Self::Row(storage, rid) => LockName::Row(storage.id, *rid),
            Self::Key(_, index, key) => LockName::Key(index.id, key.clone()),
            Self::Table { storage, .. } => LockName::Table(storage.id),
        }
    }

    pub(super) fn place(&self) -> ConflictLocation {
        match self {
            Self::Row(storage, rid) => ConflictLocation::Row {
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
            Self::Row(..) => LockKind::Row,
            Self::Key(..) => LockKind::Key,
            Self::Table { mode, .. } => LockKind::Table(*mode),
        }
    }

    pub(super) fn holders(&self, keys: &KeyLocks, holders: &mut Vec<TransactionId>) {
        match self {
            Self::Row(storage, rid) => {
                let record = storage.records.record(*rid);
                holders.extend(record.and_then(|record| record.holder()));
            }
            Self::Key(_, index, key) => holders.extend(keys.holder(index.id, key)),
            Self::Table {
                storage,
                mode,
                waiter,
            } => storage.locks.holders(*waiter, *mode, holders),
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
    pub(crate) fn describe(
        self,
        waiter: TransactionId,
        keys: &KeyLocks,
        party: impl Fn(TransactionId) -> Party,
    ) -> Blocked {
        let mut holders = Vec::new();
        self.wait.holders(keys, &mut holders);
        Blocked {
            waiter: party(waiter),
            holders: holders
                .into_iter()
                .filter(|holder| *holder != waiter)
                .map(&party)
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
