//! YCSB workload: reads and writes by key, and short scans.
//!
//! | letter | read | update | insert | scan | read-modify-write | keys |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | A | 50 | 50 | | | | Zipfian, scrambled |
//! | B | 95 | 5 | | | | likewise |
//! | C | 100 | | | | | likewise |
//! | D | 95 | | 5 | | | the newest most often |
//! | E | | | 5 | 95 | | Zipfian, scrambled; 1 to 100 rows |
//! | F | 50 | | | | 50 | likewise |
//!
//! A transaction is one operation by default, as in the original, or several. A read
//! returns all fields, an update writes one. Keys are dense integers, because neither
//! engine benefits from the spread of YCSB's text keys.
//!
//! A field begins with a tag; its other bytes follow from the tag, the key and the
//! field's number. So a row shows whether its fields are whole and its own: the workload
//! checks one in 64 rows that it reads (or as many as configured), and all rows at the
//! end.
//!
//! In a history each field is a register whose value is its tag, and each recorded write
//! has a tag of its own. A field that only the load has written has the tag 0, and counts
//! as never written. A scan is recorded as reads of the rows that it returned; the
//! absence of rows between them is not recorded.
//!
//! Source: Cooper et al.: *Benchmarking Cloud Serving Systems with YCSB* (SoCC 2010).

pub(super) mod fields;
mod mix;

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use coeval_check::history::{Operation as RecordedOperation, Register};
use coeval_types::RowRef;
use serde_json::json;

use super::sized;
use crate::chance::Chance;
use crate::distribution::{Scrambled, Zipfian};
use crate::store::{Cells, ColumnKind, Failure, Loader, Maker, Row, Scan, Session, Table};
use crate::workload::{Client, Done, Nature, Parameters, Workload};

use fields::{fill, is_whole, tag};
pub use mix::Letter;
use mix::Operation;

/// Rows per part of the load.
const PART: u64 = 20_000;

/// Size of the table and the access pattern.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Mix of operations.
    pub letter: Letter,
    /// Initial number of rows, at least 1.
    pub records: u64,
    /// Number of fields of a row, 1 to 60.
    pub fields: usize,
    /// Length of each field, in bytes, at least 8.
    pub field_bytes: usize,
    /// Skew of the Zipfian distribution; 0 for uniform.
    pub theta: f64,
    /// Operations per transaction, at least 1.
    pub operations: u64,
    /// One in this many rows read is checked, so that the check does not dominate the
    /// measurement; at least 1.
    pub looked_at: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            letter: Letter::A,
            records: 100_000,
            fields: 10,
            field_bytes: 100,
            theta: 0.99,
            operations: 1,
            looked_at: 64,
        }
    }
}

/// Distribution of the keys.
#[derive(Debug)]
enum Keys {
    /// Zipfian, with the newest keys the most frequent.
    Newest(Zipfian),
    /// Uniform over this many keys.
    Even(u64),
    /// Zipfian, with the frequent keys spread over the key space.
    Scrambled(Scrambled),
}

impl Keys {
    fn new(settings: &Settings) -> Self {
        let &Settings {
            letter,
            records,
            theta,
            ..
        } = settings;
        match letter {
            Letter::D => Self::Newest(Zipfian::new(records, theta)),
            _ if theta == 0.0 => Self::Even(records),
            _ => Self::Scrambled(Scrambled::new(records, theta)),
        }
    }
}

/// The YCSB workload.
#[derive(Debug)]
pub struct Ycsb {
    settings: Settings,
    keys: Keys,
    table: Table,
    /// The first key that no client has drawn for an insert.
    next: AtomicU64,
    /// The first key beyond those that reads access.
    readable: AtomicU64,
    /// Number of rows before the first request.
    before: AtomicU64,
    inserted: AtomicU64,
    perhaps: AtomicU64,
}

/// Operations with their keys, and a number that decides the values to write. A single
/// operation needs no heap memory.
#[derive(Clone, Debug)]
pub enum Request {
    /// One operation.
    One(YcsbOperation),
    /// Several operations, one after the other.
    Many(Vec<YcsbOperation>),
}

impl Deref for Request {
    type Target = [YcsbOperation];

    fn deref(&self) -> &[YcsbOperation] {
        match self {
            Self::One(step) => std::slice::from_ref(step),
            Self::Many(steps) => steps,
        }
    }
}

/// One operation, with its random choices made.
#[derive(Clone, Copy, Debug)]
pub struct YcsbOperation {
    operation: Operation,
    key: u64,
    tag: u64,
}

impl Ycsb {
    /// A workload with these settings, clamped to their bounds.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = Settings {
            records: settings.records.max(1),
            fields: settings.fields.clamp(1, 60),
            field_bytes: settings.field_bytes.max(fields::TAG),
            operations: settings.operations.max(1),
            theta: settings.theta.max(0.0),
            looked_at: settings.looked_at.max(1),
            ..settings
        };
        let names: Vec<String> = (0..settings.fields)
            .map(|number| format!("field{number}"))
            .collect();
        let mut columns = vec![("key", ColumnKind::Bigint)];
        columns.extend(names.iter().map(|name| (name.as_str(), ColumnKind::Text)));
        Self {
            keys: Keys::new(&settings),
            table: Table::new("ycsb_usertable", 1, &columns),
            next: AtomicU64::new(settings.records),
            readable: AtomicU64::new(settings.records),
            before: AtomicU64::new(settings.records),
            inserted: AtomicU64::new(0),
            perhaps: AtomicU64::new(0),
            settings,
        }
    }

    fn key(&self, chance: &mut Chance) -> u64 {
        match &self.keys {
            Keys::Newest(ranks) => {
                let newest = self.readable.load(Ordering::Relaxed) - 1;
                newest - ranks.rank(chance).min(newest)
            }
            Keys::Even(records) => chance.within(0..*records),
            Keys::Scrambled(scrambled) => scrambled.key(chance),
        }
    }

    fn row(&self, maker: &mut Maker, key: u64, tag: u64, text: &mut String, row: &mut Row) {
        maker.integer(&self.table, key.cast_signed());
        for field in 0..self.settings.fields {
            fill(text, key, field, tag, self.settings.field_bytes);
            maker.text(text);
        }
        maker.finish(row);
    }

    /// Makes a row in which only one field has a value.
    fn only(&self, key: u64, field: usize, text: &str, row: &mut Row) {
        let mut maker = Maker::new();
        maker.integer(&self.table, key.cast_signed());
        for other in 0..self.settings.fields {
            if other == field {
                maker.text(text);
            } else {
                maker.null();
            }
        }
        maker.finish(row);
    }

    fn judge(&self, row: RowRef<'_>) -> Option<String> {
        let bytes = self.settings.field_bytes;
        (!is_whole(row, self.settings.fields, bytes)).then(|| format!("a torn row: {row:?}"))
    }

    async fn step(
        &self,
        step: &YcsbOperation,
        client: &mut Client,
        row: &mut Row,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let written = if session.is_recording() {
            client.unique()
        } else {
            step.tag
        };
        let mut text = String::new();
        let key = [step.key.cast_signed()];
        let field = usize::try_from(step.tag % self.settings.fields as u64).unwrap_or(0);
        let is_looked_at = step.tag.is_multiple_of(self.settings.looked_at);
        match step.operation {
            Operation::Read => {
                // The key may have been drawn for an insert that has not committed yet.
                if session.get(0, &key, row).await? {
                    if is_looked_at && let Some(torn) = self.judge(row.row()) {
                        return Err(Failure::Wrong(torn));
                    }
                    self.note_read(row.row(), session);
                } else {
                    self.note_absent(step.key, session);
                }
            }
            Operation::Update => {
                session.note(|| self.write(step.key, field, written));
                fill(
                    &mut text,
                    step.key,
                    field,
                    written,
                    self.settings.field_bytes,
                );
                self.only(step.key, field, &text, row);
                if !session.put(0, row, &[field + 1]).await? {
                    return Err(Failure::Wrong(format!("key {} is missing", step.key)));
                }
            }
            Operation::ReadModifyWrite => {
                if !session.lock(0, &key, row).await? {
                    return Err(Failure::Wrong(format!("key {} is missing", step.key)));
                }
                self.note_read(row.row(), session);
                session.note(|| self.write(step.key, field, written));
                fill(
                    &mut text,
                    step.key,
                    field,
                    written,
                    self.settings.field_bytes,
                );
                row.set_text(field + 1, &text);
                session.update(0, row, &[field + 1]).await?;
            }
            Operation::Insert => {
                let mut maker = Maker::new();
                self.row(&mut maker, step.key, written, &mut text, row);
                for field in 0..self.settings.fields {
                    session.note(|| self.write(step.key, field, written));
                }
                session.insert(0, row).await?;
            }
            Operation::Scan(limit) => {
                let scan = Scan {
                    from: Some(key[0]),
                    limit: usize::try_from(limit).ok(),
                    ..Scan::of(0, &[])
                };
                let mut torn = None;
                let is_recording = session.is_recording();
                let mut seen = Vec::new();
                session
                    .scan(&scan, &mut |row| {
                        if is_looked_at && torn.is_none() {
                            torn = self.judge(row);
                        }
                        if is_recording {
                            seen.extend(self.reads(row));
                        }
                    })
                    .await?;
                for read in seen {
                    session.note(|| read);
                }
                if let Some(torn) = torn {
                    return Err(Failure::Wrong(torn));
                }
            }
        }
        Ok(())
    }

    /// Runs consecutive reads as one batch.
    async fn read_many(
        &self,
        reads: &[YcsbOperation],
        session: &mut Session,
    ) -> Result<(), Failure> {
        let keys: Vec<i64> = reads.iter().map(|step| step.key.cast_signed()).collect();
        let mut torn = None;
        session
            .get_many(0, &keys, &mut |at, row| {
                if torn.is_none() && reads[at].tag.is_multiple_of(self.settings.looked_at) {
                    torn = self.judge(row);
                }
            })
            .await?;
        torn.map_or(Ok(()), |torn| Err(Failure::Wrong(torn)))
    }

    /// Register number of a field, for a history.
    fn register(&self, key: u64, field: usize) -> u64 {
        key * self.settings.fields as u64 + field as u64
    }

    /// History entry for a write of a field with a tag.
    fn write(&self, key: u64, field: usize, tag: u64) -> RecordedOperation {
        RecordedOperation::Write {
            key: self.register(key, field),
            // Only the lower 32 bits of a tag are significant.
            value: i64::from(tag as u32),
        }
    }

    /// Records reads of all fields of an absent row, for a history.
    fn note_absent(&self, key: u64, session: &mut Session) {
        for field in 0..self.settings.fields {
            session.note(|| RecordedOperation::Read {
                key: self.register(key, field),
                value: Some(Register::Absent),
            });
        }
    }

    /// Records reads of all fields of a row, for a history.
    fn note_read(&self, row: RowRef<'_>, session: &mut Session) {
        if !session.is_recording() {
            return;
        }
        for read in self.reads(row) {
            session.note(|| read);
        }
    }

    fn reads(&self, row: RowRef<'_>) -> impl Iterator<Item = RecordedOperation> {
        let key = row.integer(0).cast_unsigned();
        (0..self.settings.fields).map(move |field| {
            let value = tag(row.text(field + 1)).filter(|tag| *tag != 0);
            let value = value.map(i64::from);
            RecordedOperation::Read {
                key: self.register(key, field),
                value: Some(value.map_or(Register::Absent, Register::Value)),
            }
        })
    }

    /// Violation shown by the number of rows, if any.
    fn judge_count(&self, rows: u64) -> Option<String> {
        let least = self.before.load(Ordering::Acquire) + self.inserted.load(Ordering::Acquire);
        let most = least + self.perhaps.load(Ordering::Acquire);
        (!(least..=most).contains(&rows))
            .then(|| format!("{rows} rows instead of {least} to {most}"))
    }
}

fn inserts(request: &Request) -> u64 {
    let insert = |step: &&YcsbOperation| step.operation == Operation::Insert;
    request.iter().filter(insert).count() as u64
}

impl Workload for Ycsb {
    type Request = Request;
    type Effect = ();

    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn tables(&self) -> Vec<Table> {
        vec![self.table.clone()]
    }

    fn kinds(&self) -> &'static [&'static str] {
        self.settings.letter.kinds()
    }

    fn parameters(&self) -> Parameters {
        let settings = &self.settings;
        Parameters::from([
            ("letter".to_owned(), json!(format!("{:?}", settings.letter))),
            ("records".to_owned(), json!(settings.records)),
            ("fields".to_owned(), json!(settings.fields)),
            ("field_bytes".to_owned(), json!(settings.field_bytes)),
            ("theta".to_owned(), json!(settings.theta)),
            ("operations".to_owned(), json!(settings.operations)),
        ])
    }

    fn parts(&self) -> u64 {
        self.settings.records.div_ceil(PART)
    }

    async fn load(&self, part: u64, loader: &mut Loader) -> Result<(), Failure> {
        let (mut maker, mut row, mut text) = (Maker::new(), Row::default(), String::new());
        let end = ((part + 1) * PART).min(self.settings.records);
        for key in part * PART..end {
            self.row(&mut maker, key, 0, &mut text, &mut row);
            loader.row(0, &row).await?;
        }
        Ok(())
    }

    async fn resume(&self, session: &mut Session) -> Result<u64, Failure> {
        let Settings {
            records,
            fields,
            field_bytes,
            ..
        } = self.settings;
        let (mut loaded, mut greatest, mut bytes) = (0, 0, field_bytes);
        let rows = session
            .scan(&Scan::of(0, &[]), &mut |row| {
                let key = row.integer(0).cast_unsigned();
                greatest = greatest.max(key + 1);
                // An inserted row has a non-zero tag in each of its fields.
                let untouched = |field| tag(row.text(field + 1)) == Some(0);
                if key < records || (0..fields).any(untouched) {
                    loaded = loaded.max(key + 1);
                }
                let lengths = (0..fields).map(|field| row.text(field + 1).len());
                let other = lengths.into_iter().find(|length| *length != field_bytes);
                bytes = other.unwrap_or(bytes);
            })
            .await? as u64;
        sized(&self.table, "rows from its load", loaded.min(rows), records)?;
        sized(
            &self.table,
            "bytes in a field",
            bytes as u64,
            field_bytes as u64,
        )?;
        self.before.store(rows, Ordering::Release);
        self.inserted.store(0, Ordering::Release);
        self.perhaps.store(0, Ordering::Release);
        self.next.fetch_max(greatest, Ordering::Relaxed);
        self.readable.fetch_max(greatest, Ordering::Relaxed);
        Ok(0)
    }

    fn draw(&self, client: &mut Client) -> Request {
        let chance = &mut client.chance;
        let mut step = || {
            let percent = chance.within(0..100);
            let operation = self.settings.letter.operation(percent, chance);
            YcsbOperation {
                operation,
                key: if operation == Operation::Insert {
                    self.next.fetch_add(1, Ordering::Relaxed)
                } else {
                    self.key(chance)
                },
                tag: chance.next(),
            }
        };
        match self.settings.operations {
            1 => Request::One(step()),
            operations => Request::Many((0..operations).map(|_| step()).collect()),
        }
    }

    fn nature(&self, request: &Request) -> Nature {
        let reads =
            |step: &YcsbOperation| matches!(step.operation, Operation::Read | Operation::Scan(_));
        let read_only = request.iter().all(reads);
        let one_statement = |step: &YcsbOperation| step.operation != Operation::ReadModifyWrite;
        Nature {
            kind: usize::from(!read_only),
            read_only,
            single: request.len() == 1 && request.iter().all(one_statement),
        }
    }

    async fn run(
        &self,
        request: &Request,
        client: &mut Client,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let mut row = std::mem::take(&mut client.row);
        // A history must record the absence of a row, so the reads run one by one.
        if session.is_recording() {
            for step in &**request {
                self.step(step, client, &mut row, session).await?;
            }
            return Ok(());
        }
        let both_read = |one: &YcsbOperation, other: &YcsbOperation| {
            one.operation == Operation::Read && other.operation == Operation::Read
        };
        for steps in request.chunk_by(both_read) {
            match steps {
                [step] => self.step(step, client, &mut row, session).await?,
                reads => self.read_many(reads, session).await?,
            }
        }
        client.row = row;
        Ok(())
    }

    fn ended(&self, request: &Request, _effect: Option<()>, done: Done) {
        let count = inserts(request);
        if count == 0 {
            return;
        }
        let counter = match done {
            Done::Committed => &self.inserted,
            Done::Perhaps => &self.perhaps,
        };
        counter.fetch_add(count, Ordering::AcqRel);
        let newest = request.iter().map(|step| step.key + 1).max().unwrap_or(0);
        self.readable.fetch_max(newest, Ordering::Relaxed);
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let mut wrong = None;
        let is_recording = session.is_recording();
        let mut all = Vec::new();
        let rows = session
            .scan(&Scan::of(0, &[]), &mut |row| {
                if wrong.is_none() {
                    wrong = self.judge(row);
                }
                if is_recording {
                    all.extend(self.reads(row));
                }
            })
            .await?;
        for read in all {
            session.note(|| read);
        }
        Ok(wrong
            .into_iter()
            .chain(self.judge_count(rows as u64))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_row_and_a_missing_row_are_seen() {
        let ycsb = Ycsb::new(Settings {
            records: 10,
            fields: 2,
            field_bytes: 20,
            ..Settings::default()
        });
        let (mut row, mut text) = (Row::default(), String::new());
        ycsb.row(&mut Maker::new(), 3, 99, &mut text, &mut row);
        assert_eq!(ycsb.judge(row.row()), None);
        fill(&mut text, 4, 1, 99, 20);
        row.set_text(2, &text);
        assert!(ycsb.judge(row.row()).is_some(), "a field of another row");
        assert!(ycsb.judge_count(9).is_some());
        assert_eq!(ycsb.judge_count(10), None);
    }
}
