//! One client's session with either backend: a transaction at a time.

use std::time::Duration;

use coeval_check::history::Operation;
use coeval_txn::Isolation;
use coeval_types::RowRef;

use super::contract::Contract;
use super::recording::{Head, Recording};
use super::wire::Wire;
use super::{Failure, Row, Value};

/// A range to read: rows that agree in the first columns of an order, from one value
/// of the next column to another.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Which table, by its position.
    pub table: usize,
    /// In the order of this secondary index, by its position; of the primary key
    /// when absent.
    pub index: Option<usize>,
    /// What the first columns of the order are.
    pub prefix: &'a [Value<'a>],
    /// Where the next column begins, included. It holds numbers.
    pub from: Option<i64>,
    /// Where it ends, included.
    pub to: Option<i64>,
    /// From the end to the beginning.
    pub backward: bool,
    /// At most so many rows.
    pub limit: Option<usize>,
}

impl<'a> Scan<'a> {
    /// All rows whose primary key begins with these values.
    #[must_use]
    pub const fn of(table: usize, prefix: &'a [Value<'a>]) -> Self {
        Self {
            table,
            index: None,
            prefix,
            from: None,
            to: None,
            backward: false,
            limit: None,
        }
    }

    /// Whether it asks for everything, in no order.
    pub(super) fn is_everything(&self) -> bool {
        self.prefix.is_empty() && self.from.is_none() && self.to.is_none() && self.limit.is_none()
    }
}

/// How a transaction goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What it may see of others.
    pub isolation: Isolation,
    /// It changes nothing.
    pub read_only: bool,
    /// It is one operation: over the wire, a statement without BEGIN and COMMIT.
    pub single: bool,
}

/// Sees one row of a scan.
pub(super) type Visit<'v> = dyn FnMut(RowRef<'_>) + Send + 'v;

/// What is behind a session.
#[derive(Debug)]
pub(super) enum Backend {
    Contract(Contract),
    Wire(Wire),
}

/// A session. See the [module](super).
#[derive(Debug)]
pub struct Session {
    pub(super) backend: Backend,
    recording: Option<Recording>,
}

macro_rules! either {
    ($self:expr, $session:ident => $call:expr, $wire:ident => $over_wire:expr) => {
        match &mut $self.backend {
            Backend::Contract($session) => $call,
            Backend::Wire($wire) => $over_wire,
        }
    };
}

impl Session {
    pub(super) const fn new(backend: Backend) -> Self {
        Self {
            backend,
            recording: None,
        }
    }

    /// Over the wire, an operation that takes longer is given up together with its
    /// connection: a server that is stopped or cut off keeps nobody for ever. How a
    /// commit ended is not known then.
    #[must_use]
    pub fn with_timeout(mut self, limit: Option<Duration>) -> Self {
        if let Backend::Wire(wire) = &mut self.backend {
            wire.set_timeout(limit);
        }
        self
    }

    /// Notes what happens from now on, for a history.
    pub fn record(&mut self) {
        self.recording = Some(Recording::new());
    }

    /// Whether anybody wants to know.
    #[must_use]
    pub const fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Takes part in a history, if there is one.
    #[inline]
    pub fn note(&mut self, operation: impl FnOnce() -> Operation) {
        if let Some(recording) = &mut self.recording {
            recording.note(operation());
        }
    }

    /// What has been noted since the last time was a transaction.
    #[inline]
    pub fn noted(&mut self, head: impl FnOnce() -> Head) {
        if let Some(recording) = &mut self.recording {
            recording.close(head());
        }
    }

    /// Everything that was noted; there is no more from now on.
    pub fn end_recording(&mut self) -> Option<Recording> {
        self.recording.take()
    }

    /// Begins a transaction. Over the wire connects again when the connection is
    /// lost.
    pub async fn begin(&mut self, way: Way) -> Result<(), Failure> {
        either!(self, session => session.begin(way).await, wire => wire.begin(way).await)
    }

    /// Reads the row with this primary key, if there is one.
    pub async fn get(&mut self, table: usize, key: &[i64], row: &mut Row) -> Result<bool, Failure> {
        either!(self,
            session => session.get(table, key, row),
            wire => wire.get(table, key, row).await)
    }

    /// Reads the newest row with this primary key, if there is one, and keeps others
    /// from changing it until the transaction ends.
    pub async fn lock(
        &mut self,
        table: usize,
        key: &[i64],
        row: &mut Row,
    ) -> Result<bool, Failure> {
        either!(self,
            session => session.lock(table, key, row).await,
            wire => wire.lock(table, key, row).await)
    }

    /// Writes a row that this transaction has locked, in which no other columns than
    /// these have changed.
    pub async fn update(
        &mut self,
        table: usize,
        row: &Row,
        columns: &[usize],
    ) -> Result<(), Failure> {
        either!(self,
            session => session.update(table, row).await,
            wire => wire.update(table, row, columns).await.map(drop))
    }

    /// Writes these columns of the row with the key that `row` has, without reading
    /// it. Whether there is one.
    pub async fn put(
        &mut self,
        table: usize,
        row: &Row,
        columns: &[usize],
    ) -> Result<bool, Failure> {
        either!(self,
            session => session.put(table, row, columns).await,
            wire => wire.update(table, row, columns).await)
    }

    /// Inserts a row. That its key is there already is a failure.
    pub async fn insert(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        either!(self,
            session => session.insert(table, row).await,
            wire => wire.insert(table, row).await)
    }

    /// Deletes a row that this transaction has locked.
    pub async fn delete(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        either!(self,
            session => session.delete(table, row),
            wire => wire.delete(table, row).await)
    }

    /// Shows the rows of a range, and says how many there were.
    pub async fn scan(
        &mut self,
        scan: &Scan<'_>,
        visit: &mut (dyn FnMut(RowRef<'_>) + Send),
    ) -> Result<usize, Failure> {
        either!(self,
            session => session.scan(scan, visit),
            wire => wire.scan(scan, visit).await)
    }

    /// Commits, and waits until it is durable.
    pub async fn commit(&mut self) -> Result<(), Failure> {
        either!(self, session => session.commit().await, wire => wire.commit().await)
    }

    /// Undoes the transaction, if one runs.
    pub async fn abort(&mut self) {
        either!(self, session => session.abort(), wire => wire.abort().await);
    }
}
