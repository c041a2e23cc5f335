//! One client's session with either backend: a transaction at a time.

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

/// What a session does between its statements, where an engine in the same process answers
/// at once: to simulated time, or for the others of its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The longest rest before a statement, of which chance decides, so that others come
    /// between two statements.
    pub think: Duration,
    /// What a statement that reads costs on the processor.
    pub read: Duration,
    /// What one that locks or writes costs.
    pub write: Duration,
    /// What beginning and committing cost together.
    pub commit: Duration,
    /// Before each statement, and within a scan of many rows, the others of the thread go
    /// on: so many transactions overlap as there are clients, not threads.
    pub interleaved: bool,
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
    tables: Arc<[Table]>,
    /// What is noted of rows that are read and written.
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
    /// Before a statement.
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

    /// The same, and these columns of all rows that are read and written by key, or read
    /// in a range.
    pub fn record_versions(&mut self, versions: Vec<Versions>) {
        self.record();
        self.versions = versions;
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
            let head = head();
            if head.outcome == Outcome::Aborted && !self.versions.is_empty() {
                recording.take();
            }
            recording.close(head);
        }
    }

    /// Takes part in a history with a row that was read.
    #[inline]
    fn note_read(&mut self, table: usize, row: &Row) {
        if let Some(recording) = &mut self.recording {
            registers::reads(&self.versions, &self.tables, table, row, |operation| {
                recording.note(operation);
            });
        }
    }

    /// What has been noted since the last time, of one transaction. A session is asked for
    /// this, or for a whole recording, but not for both.
    pub fn recorded(&mut self) -> Vec<Operation> {
        self.recording
            .as_mut()
            .map(Recording::take)
            .unwrap_or_default()
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
        self.pace.wait(self.pace.read).await;
        let found = either!(self,
            session => session.get(table, key, row),
            wire => wire.get(table, key, row).await)?;
        if found {
            self.note_read(table, row);
        }
        Ok(found)
    }

    /// Reads the newest row with this primary key, if there is one, and keeps others
    /// from changing it until the transaction ends.
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

    /// Shows what is there of the rows with these primary keys, which stand one behind
    /// the other, each with the position of its key. In this process the engine is asked
    /// for all of them at once.
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

    /// [`Session::lock`] for many keys, which stand one behind the other, in their order:
    /// as many rows. The position of the first key that no row has ends it.
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

    /// Writes a row that this transaction has locked, in which no other columns than
    /// these have changed.
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

    /// Writes these columns of the row with the key that `row` has, without reading
    /// it. Whether there is one.
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

    /// Inserts a row. That its key is there already is a failure.
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

    /// Shows the rows of a range, and says how many there were.
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

    /// Commits, and waits until it is durable.
    pub async fn commit(&mut self) -> Result<(), Failure> {
        if self.pace.interleaved {
            coeval_env::yield_now().await;
        }
        if !self.pace.commit.is_zero() {
            coeval_env::spend(self.pace.commit);
        }
        either!(self, session => session.commit().await, wire => wire.commit().await)
    }

    /// Undoes the transaction, if one runs.
    pub async fn abort(&mut self) {
        either!(self, session => session.abort(), wire => wire.abort().await);
    }
}
