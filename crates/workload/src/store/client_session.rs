//! A client's session with either backend, which runs one transaction at a time.

use std::time::Duration;

use std::sync::Arc;

use coeval_check::history::{Operation, Outcome};
use coeval_txn::Isolation;
use coeval_types::RowRef;

use super::contract::{Contract, VisitMany};
use super::recording::{Head, Recording};
use super::registers::{self, Versions};
use super::schema::Table;
use super::wire::Wire;
use super::{Failure, Row, Value};

/// A range scan: rows with equal values in the leading columns of an index, and a range
/// of values in its next column.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Position of the table.
    pub table: usize,
    /// Position of the secondary index to scan; the primary key when absent.
    pub index: Option<usize>,
    /// Values of the index's leading columns.
    pub prefix: &'a [Value<'a>],
    /// Lower bound of the next column, inclusive. The column holds numbers.
    pub from: Option<i64>,
    /// Upper bound of the next column, inclusive.
    pub to: Option<i64>,
    /// Whether the scan runs in descending order.
    pub backward: bool,
    /// Greatest number of rows.
    pub limit: Option<usize>,
}

impl<'a> Scan<'a> {
    /// A scan of all rows whose primary key begins with these values.
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

    /// Whether the scan returns the whole table in any order.
    pub(super) fn is_everything(&self) -> bool {
        self.prefix.is_empty() && self.from.is_none() && self.to.is_none() && self.limit.is_none()
    }
}

/// Mode of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Isolation level of the transaction.
    pub isolation: Isolation,
    /// Whether the transaction is read-only.
    pub read_only: bool,
    /// Whether the transaction is one operation: over the wire, a statement without BEGIN
    /// and COMMIT.
    pub single: bool,
}

/// Pauses and CPU costs of a session's statements. An engine in the same process answers
/// at once; the pace lets simulated time pass, or lets other sessions of the thread run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The longest random pause before a statement, in which other sessions may run.
    pub think: Duration,
    /// CPU time of a statement that reads.
    pub read: Duration,
    /// CPU time of a statement that locks or writes.
    pub write: Duration,
    /// CPU time of begin and commit together.
    pub commit: Duration,
    /// Whether the session yields to the others of its thread before each statement and
    /// within long scans: then as many transactions overlap as there are clients, not
    /// threads.
    pub interleaved: bool,
}

/// Callback for one row of a scan.
pub(super) type Visit<'v> = dyn FnMut(RowRef<'_>) + Send + 'v;

/// Backend of a session.
#[derive(Debug)]
pub(super) enum Backend {
    Contract(Contract),
    Wire(Wire),
}

/// A client's session; see the [module](super).
#[derive(Debug)]
pub struct Session {
    pub(super) backend: Backend,
    recording: Option<Recording>,
    tables: Arc<[Table]>,
    /// Version columns that are recorded for rows that are read and written.
    versions: Vec<Versions>,
    pace: Pace,
}

macro_rules! either {
    ($self:expr, $session:ident => $call:expr, $wire:ident => $over_wire:expr) => {
        match &mut $self.backend {
            Backend::Contract($session) => $call,
            Backend::Wire($wire) => $over_wire,
        }
    };
}

impl Pace {
    /// Pauses before a statement and accounts for its cost.
    async fn wait(self, cost: Duration) {
        if self.interleaved {
            coeval_env::yield_now().await;
        }
        if !cost.is_zero() {
            coeval_env::spend(cost);
        }
        if !self.think.is_zero() {
            let micros = u64::try_from(self.think.as_micros()).unwrap_or(u64::MAX);
            let micros = coeval_env::random_u64() % micros.max(1);
            coeval_env::sleep(Duration::from_micros(micros)).await;
        }
    }
}

impl Session {
    pub(super) const fn new(backend: Backend, tables: Arc<[Table]>) -> Self {
        Self {
            backend,
            recording: None,
            tables,
            versions: Vec::new(),
            pace: Pace {
                think: Duration::ZERO,
                read: Duration::ZERO,
                write: Duration::ZERO,
                commit: Duration::ZERO,
                interleaved: false,
            },
        }
    }

    pub(super) const fn at(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Sets the timeout of an operation over the wire. At the timeout the session drops
    /// its connection, so that a stopped or partitioned server cannot block it for ever.
    /// The outcome of a commit in progress is then unknown.
    #[must_use]
    pub fn with_timeout(mut self, limit: Option<Duration>) -> Self {
        if let Backend::Wire(wire) = &mut self.backend {
            wire.set_timeout(limit);
        }
        self
    }

    /// Starts recording operations for a history.
    pub fn record(&mut self) {
        self.recording = Some(Recording::new());
    }

    /// Starts recording, including these version columns of all rows that are read and
    /// written by key, or read in a range.
    pub fn record_versions(&mut self, versions: Vec<Versions>) {
        self.record();
        self.versions = versions;
    }

    /// Whether the session is recording.
    #[must_use]
    pub const fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Records an operation, if the session is recording.
    #[inline]
    pub fn note(&mut self, operation: impl FnOnce() -> Operation) {
        if let Some(recording) = &mut self.recording {
            recording.note(operation());
        }
    }

    /// Closes a transaction: it consists of the operations recorded since the previous
    /// one was closed.
    #[inline]
    pub fn noted(&mut self, head: impl FnOnce() -> Head) {
        if let Some(recording) = &mut self.recording {
            let head = head();
            if head.outcome == Outcome::Aborted && !self.versions.is_empty() {
                recording.take();
            }
            recording.close(head);
        }
    }

    /// Records the version columns of a row that was read.
    #[inline]
    fn note_read(&mut self, table: usize, row: &Row) {
        if let Some(recording) = &mut self.recording {
            registers::reads(&self.versions, &self.tables, table, row, |operation| {
                recording.note(operation);
            });
        }
    }

    /// Removes and returns the operations recorded since the last call, which are those
    /// of one transaction. A caller uses either this or a whole recording, not both.
    pub fn recorded(&mut self) -> Vec<Operation> {
        self.recording
            .as_mut()
            .map(Recording::take)
            .unwrap_or_default()
    }

    /// Stops recording and returns the recording.
    pub fn end_recording(&mut self) -> Option<Recording> {
        self.recording.take()
    }

    /// Begins a transaction. Over the wire, reconnects if the connection was lost.
    pub async fn begin(&mut self, way: Way) -> Result<(), Failure> {
        either!(self, session => session.begin(way).await, wire => wire.begin(way).await)
    }

    /// Reads the row with this primary key. Returns whether it exists.
    pub async fn get(&mut self, table: usize, key: &[i64], row: &mut Row) -> Result<bool, Failure> {
        self.pace.wait(self.pace.read).await;
        let found = either!(self,
            session => session.get(table, key, row),
            wire => wire.get(table, key, row).await)?;
        if found {
            self.note_read(table, row);
        }
        Ok(found)
    }

    /// Reads the newest row with this primary key and locks it until the transaction
    /// ends. Returns whether it exists.
    pub async fn lock(
        &mut self,
        table: usize,
        key: &[i64],
        row: &mut Row,
    ) -> Result<bool, Failure> {
        self.pace.wait(self.pace.write).await;
        let found = either!(self,
            session => session.lock(table, key, row).await,
            wire => wire.lock(table, key, row).await)?;
        if found {
            self.note_read(table, row);
        }
        Ok(found)
    }

    /// Reads the rows with these primary keys, which are concatenated in `keys`, and
    /// passes each existing row to `visit` with the position of its key. In this process
    /// the engine looks up all of them at once.
    pub async fn get_many(
        &mut self,
        table: usize,
        keys: &[i64],
        visit: &mut VisitMany<'_>,
    ) -> Result<(), Failure> {
        let width = self.tables[table].key;
        let Self {
            backend,
            recording,
            tables,
            versions,
            pace,
        } = self;
        let mut visit = |at: usize, row: RowRef<'_>| {
            if let Some(recording) = recording {
                registers::reads(versions, tables, table, &row, |operation| {
                    recording.note(operation);
                });
            }
            visit(at, row);
        };
        match backend {
            Backend::Contract(session) => {
                pace.wait(pace.read * u32::try_from(keys.len() / width).unwrap_or(1))
                    .await;
                session.get_many(table, keys, &mut visit)
            }
            Backend::Wire(wire) => {
                let mut row = Row::default();
                for (at, key) in keys.chunks_exact(width).enumerate() {
                    pace.wait(pace.read).await;
                    if wire.get(table, key, &mut row).await? {
                        visit(at, row.row());
                    }
                }
                Ok(())
            }
        }
    }

    /// Locks the rows with these primary keys, which are concatenated in `keys`, in
    /// order, like [`Session::lock`], and fills `rows`. Stops at the first key without a
    /// row and returns its position.
    pub async fn lock_many(
        &mut self,
        table: usize,
        keys: &[i64],
        rows: &mut [Row],
    ) -> Result<Option<usize>, Failure> {
        let width = self.tables[table].key;
        match &mut self.backend {
            Backend::Contract(session) => {
                let pace = self.pace;
                let cost = pace.write * u32::try_from(rows.len()).unwrap_or(1);
                pace.wait(cost).await;
                let missing = session.lock_many(table, keys, rows).await?;
                for row in &rows[..missing.unwrap_or(rows.len())] {
                    self.note_read(table, row);
                }
                Ok(missing)
            }
            Backend::Wire(_) => {
                for (at, (key, row)) in keys.chunks_exact(width).zip(rows).enumerate() {
                    if !self.lock(table, key, row).await? {
                        return Ok(Some(at));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Writes a row that this transaction has locked, and in which only these columns
    /// have changed.
    pub async fn update(
        &mut self,
        table: usize,
        row: &Row,
        columns: &[usize],
    ) -> Result<(), Failure> {
        self.pace.wait(self.pace.write).await;
        if let Some(recording) = &mut self.recording {
            let note = |operation| recording.note(operation);
            registers::writes(&self.versions, &self.tables, table, row, columns, note);
        }
        either!(self,
            session => session.update(table, row).await,
            wire => wire.update(table, row, columns).await.map(drop))
    }

    /// Writes these columns of the row that has the primary key of `row`, without reading
    /// it. Returns whether it exists.
    pub async fn put(
        &mut self,
        table: usize,
        row: &Row,
        columns: &[usize],
    ) -> Result<bool, Failure> {
        self.pace.wait(self.pace.write).await;
        either!(self,
            session => session.put(table, row, columns).await,
            wire => wire.update(table, row, columns).await)
    }

    /// Inserts a row. An existing row with the same key is a failure.
    pub async fn insert(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        self.pace.wait(self.pace.write).await;
        either!(self,
            session => session.insert(table, row).await,
            wire => wire.insert(table, row).await)
    }

    /// Deletes a row that this transaction has locked.
    pub async fn delete(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        self.pace.wait(self.pace.write).await;
        either!(self,
            session => session.delete(table, row),
            wire => wire.delete(table, row).await)
    }

    /// Passes the rows of a range to `visit`, and returns their number.
    pub async fn scan(
        &mut self,
        scan: &Scan<'_>,
        visit: &mut (dyn FnMut(RowRef<'_>) + Send),
    ) -> Result<usize, Failure> {
        self.pace.wait(self.pace.read).await;
        let (versions, tables) = (&self.versions, &self.tables);
        let is_noted = versions.iter().any(|version| version.table == scan.table);
        let mut noting;
        let visit: &mut (dyn FnMut(RowRef<'_>) + Send) = match &mut self.recording {
            Some(recording) if is_noted => {
                noting = move |row: RowRef<'_>| {
                    let note = |operation| recording.note(operation);
                    registers::reads(versions, tables, scan.table, &row, note);
                    visit(row);
                };
                &mut noting
            }
            _ => visit,
        };
        either!(self,
            session => session.scan(scan, visit, self.pace.interleaved).await,
            wire => wire.scan(scan, visit).await)
    }

    /// Commits the transaction, and waits until it is durable.
    pub async fn commit(&mut self) -> Result<(), Failure> {
        if self.pace.interleaved {
            coeval_env::yield_now().await;
        }
        if !self.pace.commit.is_zero() {
            coeval_env::spend(self.pace.commit);
        }
        either!(self, session => session.commit().await, wire => wire.commit().await)
    }

    /// Rolls the transaction back, if one is running.
    pub async fn abort(&mut self) {
        either!(self, session => session.abort(), wire => wire.abort().await);
    }
}
