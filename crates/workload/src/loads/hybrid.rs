//! Hybrid YCSB workload: short transactions by key, and bulk transactions with a scan.
//!
//! | kind | does | of a hundred |
//! | --- | --- | --- |
//! | simple | five reads and writes by key | 90 |
//! | bulk | four reads and writes by key, and one scan of a fixed number of keys | 10 |
//!
//! Half of the operations by key are writes. Keys, and the starts of scans, follow one
//! Zipfian distribution; the key of rank *i* is *i*, so that hot keys are neighbours, and
//! scans include them:
//!
//! ```text
//!   key      0 1 2 3 4 5 6 7 8 9 …                          n
//!   met      ▇ ▆ ▅ ▄ ▄ ▃ ▃ ▃ ▂ ▂ ▂ ▂ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁
//!   a scan       ╶──────────╴
//! ```
//!
//! A write reads the row under its lock, increments the row's write counter and writes a
//! text, as in [`ycsb`](super::ycsb), that follows from its tag. So at the end every row
//! is whole, none is missing or new, and the counters of all rows add up to the number of
//! acknowledged writes: a lost update is detected. A scan returns every key of its range
//! once, in order.
//!
//! In a history each row is a register whose value is its tag, and a scan reads all
//! registers of its range. Since no row is inserted or deleted, a scan depends on nothing
//! else, and the judge of histories can tell whether scans were validated.
//!
//! # Where the source is silent
//!
//! - The share of writes; here it is that of YCSB's workload A.
//! - The order of operations. Here rows are locked as they are written, so keys ascend
//!   to avoid deadlocks. The scan may come at any position among them.
//! - Read-only transactions. They are not validated here, so the first operation of a
//!   bulk transaction is a write.
//!
//! Source: ROCC §3.5.2.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coeval_check::history::{Operation as RecordedOperation, Register};
use coeval_types::RowRef;
use serde_json::json;

use super::sized;
use super::ycsb::fields::{TAG, fill, is_whole, tag};
use crate::distribution::Zipfian;
use crate::store::{Cells, ColumnKind, Failure, Loader, Maker, Row, Scan, Session, Table};
use crate::workload::{Client, Done, Nature, Parameters, Workload};

/// Rows per part of the load.
const PART: u64 = 20_000;
/// Operations by key in a simple transaction.
const OPERATIONS: usize = 5;
/// Indexes of the text column and of the write counter.
const FIELD: usize = 1;
const WRITES: usize = 2;

/// Size of the tables and the access pattern.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of rows, at least 10.
    pub records: u64,
    /// Length of a row's text, in bytes, at least 8.
    pub field_bytes: usize,
    /// Skew of the Zipfian distribution; 0 for uniform.
    pub theta: f64,
    /// Share of transactions with a scan, in per cent.
    pub bulk_percent: u64,
    /// Number of keys in a scan, at least 1.
    pub scan: u64,
    /// Share of operations by key that write, in per cent.
    pub write_percent: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            records: 100_000,
            field_bytes: 100,
            theta: 0.7,
            bulk_percent: 10,
            scan: 100,
            write_percent: 50,
        }
    }
}

/// Number of acknowledged writes, and of writes of unknown outcome.
#[derive(Debug, Default)]
struct Acknowledged {
    /// Whether this workload loaded the rows itself; otherwise the initial write counters
    /// are unknown.
    from_the_start: AtomicU64,
    certain: AtomicU64,
    perhaps: AtomicU64,
}

/// The hybrid YCSB workload.
#[derive(Debug)]
pub struct Hybrid {
    settings: Settings,
    zipfian: Zipfian,
    table: Table,
    acknowledged: Arc<Acknowledged>,
}

/// One operation by key.
#[derive(Clone, Copy, Debug)]
struct Point {
    key: u64,
    /// Tag to write, if the operation is a write.
    writes: Option<u32>,
}

/// One transaction, with its random choices made.
#[derive(Clone, Debug)]
pub struct Request {
    points: Vec<Point>,
    /// Position of the scan among the operations, and the key at which it begins.
    scan: Option<(usize, u64)>,
}

impl Request {
    fn writes(&self) -> u64 {
        let writes = |point: &&Point| point.writes.is_some();
        self.points.iter().filter(writes).count() as u64
    }
}

impl Hybrid {
    /// A workload with these settings, clamped to their bounds.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let records = settings.records.max(2 * OPERATIONS as u64);
        let settings = Settings {
            records,
            field_bytes: settings.field_bytes.max(TAG),
            theta: settings.theta.max(0.0),
            bulk_percent: settings.bulk_percent.min(100),
            scan: settings.scan.clamp(1, records),
            write_percent: settings.write_percent.min(100),
        };
        let columns = [
            ("key", ColumnKind::Bigint),
            ("field", ColumnKind::Text),
            ("writes", ColumnKind::Bigint),
        ];
        Self {
            zipfian: Zipfian::new(settings.records, settings.theta),
            table: Table::new("hybrid_usertable", 1, &columns),
            acknowledged: Arc::default(),
            settings,
        }
    }

    /// A workload on the same rows with another access pattern: both share the count of
    /// acknowledged writes, so they can run on one database, one after the other. The
    /// size of the table stays the same.
    #[must_use]
    pub fn met(&self, settings: Settings) -> Self {
        let Settings {
            records,
            field_bytes,
            ..
        } = self.settings;
        Self {
            acknowledged: Arc::clone(&self.acknowledged),
            ..Self::new(Settings {
                records,
                field_bytes,
                ..settings
            })
        }
    }

    fn row(&self, maker: &mut Maker, key: u64, text: &mut String, row: &mut Row) {
        fill(text, key, 0, 0, self.settings.field_bytes);
        maker.integer(&self.table, key.cast_signed()).text(text);
        maker.integer(&self.table, 0).finish(row);
    }

    async fn read(&self, key: u64, session: &mut Session, row: &mut Row) -> Result<(), Failure> {
        if !session.get(0, &[key.cast_signed()], row).await? {
            return Err(missing(key));
        }
        note_read(row.row(), session);
        Ok(())
    }

    async fn write(
        &self,
        key: u64,
        tag: u64,
        session: &mut Session,
        row: &mut Row,
    ) -> Result<(), Failure> {
        if !session.lock(0, &[key.cast_signed()], row).await? {
            return Err(missing(key));
        }
        note_read(row.row(), session);
        session.note(|| RecordedOperation::Write {
            key,
            // Only the lower 32 bits of a tag are significant.
            value: i64::from(tag as u32),
        });
        let mut text = String::new();
        fill(&mut text, key, 0, tag, self.settings.field_bytes);
        row.set_text(FIELD, &text);
        row.set_integer(&self.table, WRITES, row.integer(WRITES) + 1);
        session.update(0, row, &[FIELD, WRITES]).await
    }

    async fn scan(&self, start: u64, session: &mut Session) -> Result<(), Failure> {
        let first = start.cast_signed();
        let length = self.settings.scan.cast_signed();
        let range = Scan {
            from: Some(first),
            to: Some(first + length - 1),
            ..Scan::of(0, &[])
        };
        let (mut next, mut in_order, mut writes) = (first, true, 0);
        let is_recording = session.is_recording();
        let mut seen = Vec::new();
        session
            .scan(&range, &mut |row| {
                in_order &= row.integer(0) == next;
                next += 1;
                writes += row.integer(WRITES);
                if is_recording {
                    seen.push(row.bytes().to_vec());
                }
            })
            .await?;
        std::hint::black_box(writes);
        for row in &seen {
            note_read(RowRef::trusted(row), session);
        }
        if !in_order || next != first + length {
            let last = first + length;
            return Err(Failure::Wrong(format!(
                "a scan of keys {first} to {last} does not show each of them once, in order"
            )));
        }
        Ok(())
    }
}

fn missing(key: u64) -> Failure {
    Failure::Wrong(format!("key {key} is missing"))
}

/// Records the read of a row as a register, for a history. Tag 0 is the initial value.
fn note_read(row: RowRef<'_>, session: &mut Session) {
    session.note(|| {
        let written = tag(row.text(FIELD)).filter(|tag| *tag != 0);
        let value = written.map_or(Register::Absent, |tag| Register::Value(i64::from(tag)));
        RecordedOperation::Read {
            key: row.integer(0).cast_unsigned(),
            value: Some(value),
        }
    });
}

impl Workload for Hybrid {
    type Request = Request;
    type Effect = ();

    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn tables(&self) -> Vec<Table> {
        vec![self.table.clone()]
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["simple", "bulk"]
    }

    fn parameters(&self) -> Parameters {
        let settings = &self.settings;
        Parameters::from([
            ("records".to_owned(), json!(settings.records)),
            ("field_bytes".to_owned(), json!(settings.field_bytes)),
            ("theta".to_owned(), json!(settings.theta)),
            ("bulk_percent".to_owned(), json!(settings.bulk_percent)),
            ("scan".to_owned(), json!(settings.scan)),
            ("write_percent".to_owned(), json!(settings.write_percent)),
        ])
    }

    fn parts(&self) -> u64 {
        self.settings.records.div_ceil(PART)
    }

    async fn load(&self, part: u64, loader: &mut Loader) -> Result<(), Failure> {
        self.acknowledged.from_the_start.store(1, Ordering::Release);
        let (mut maker, mut row, mut text) = (Maker::new(), Row::default(), String::new());
        let end = ((part + 1) * PART).min(self.settings.records);
        for key in part * PART..end {
            self.row(&mut maker, key, &mut text, &mut row);
            loader.row(0, &row).await?;
        }
        Ok(())
    }

    async fn resume(&self, session: &mut Session) -> Result<u64, Failure> {
        let (mut found, mut bytes) = (0, 0);
        let last = Scan {
            backward: true,
            limit: Some(1),
            ..Scan::of(0, &[])
        };
        session
            .scan(&last, &mut |row| {
                // No row is inserted or deleted after the load.
                found = row.integer(0).cast_unsigned() + 1;
                bytes = row.text(FIELD).len() as u64;
            })
            .await?;
        sized(&self.table, "rows", found, self.settings.records)?;
        let wanted = self.settings.field_bytes as u64;
        sized(&self.table, "bytes in a field", bytes, wanted)?;
        Ok(0)
    }

    fn draw(&self, client: &mut Client) -> Request {
        let chance = &mut client.chance;
        let settings = &self.settings;
        let is_bulk = chance.within(0..100) < settings.bulk_percent;
        let count = OPERATIONS - usize::from(is_bulk);
        let mut points: Vec<Point> = Vec::with_capacity(count);
        while points.len() < count {
            let key = self.zipfian.rank(chance);
            if points.iter().any(|point| point.key == key) {
                continue;
            }
            let writes = chance.within(0..100) < settings.write_percent;
            points.push(Point {
                key,
                writes: writes.then_some(chance.next() as u32 | 1),
            });
        }
        points.sort_unstable_by_key(|point| point.key);
        let scan = is_bulk.then(|| {
            points[0].writes = Some(chance.next() as u32 | 1);
            let last = settings.records - settings.scan;
            let start = self.zipfian.rank(chance).min(last);
            let before = chance.within(0..count as u64 + 1);
            (usize::try_from(before).unwrap_or(0), start)
        });
        Request { points, scan }
    }

    fn nature(&self, request: &Request) -> Nature {
        Nature {
            kind: usize::from(request.scan.is_some()),
            read_only: request.writes() == 0,
            single: false,
        }
    }

    async fn run(
        &self,
        request: &Request,
        client: &mut Client,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let mut row = Row::default();
        let scan_before = |at: usize| request.scan.filter(|scan| scan.0 == at);
        for (at, point) in request.points.iter().enumerate() {
            if let Some((_, start)) = scan_before(at) {
                self.scan(start, session).await?;
            }
            let Some(tag) = point.writes else {
                self.read(point.key, session, &mut row).await?;
                continue;
            };
            let tag = match session.is_recording() {
                true => client.unique(),
                false => tag.into(),
            };
            self.write(point.key, tag, session, &mut row).await?;
        }
        if let Some((_, start)) = scan_before(request.points.len()) {
            self.scan(start, session).await?;
        }
        Ok(())
    }

    fn ended(&self, request: &Request, effect: Option<()>, done: Done) {
        // A transaction without an effect was lost before its commit, so it cannot have
        // committed.
        if effect.is_some() {
            let count = match done {
                Done::Committed => &self.acknowledged.certain,
                Done::Perhaps => &self.acknowledged.perhaps,
            };
            count.fetch_add(request.writes(), Ordering::AcqRel);
        }
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let (mut rows, mut writes, mut torn) = (0, 0, None);
        let is_recording = session.is_recording();
        let mut all = Vec::new();
        session
            .scan(&Scan::of(0, &[]), &mut |row| {
                rows += 1;
                writes += row.integer(WRITES).cast_unsigned();
                if torn.is_none() && !is_whole(row, 1, self.settings.field_bytes) {
                    torn = Some(format!("a torn row: {row:?}"));
                }
                if is_recording {
                    all.push(row.bytes().to_vec());
                }
            })
            .await?;
        for row in &all {
            note_read(RowRef::trusted(row), session);
        }
        let mut wrong: Vec<String> = torn.into_iter().collect();
        if rows != self.settings.records {
            wrong.push(format!("{rows} rows instead of {}", self.settings.records));
        }
        let told = &self.acknowledged;
        let least = told.certain.load(Ordering::Acquire);
        let most = least + told.perhaps.load(Ordering::Acquire);
        let known = told.from_the_start.load(Ordering::Acquire) == 1;
        if known && !(least..=most).contains(&writes) {
            wrong.push(format!(
                "rows count {writes} writes, and {least} to {most} were acknowledged"
            ));
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_they_are_said_to_be() {
        let settings = Settings {
            records: 1_000,
            scan: 300,
            ..Settings::default()
        };
        let hybrid = Hybrid::new(settings);
        let mut client = Client::new(0, 1, 5);
        let (mut bulk, mut points, mut writes, mut places) = (0, 0, 0, [0; 5]);
        for _ in 0..20_000 {
            let request = hybrid.draw(&mut client);
            let keys: Vec<u64> = request.points.iter().map(|point| point.key).collect();
            assert!(keys.is_sorted_by(|one, other| one < other));
            match request.scan {
                Some((before, start)) => {
                    assert_eq!(keys.len(), 4);
                    assert!(start + settings.scan <= settings.records);
                    assert!(!hybrid.nature(&request).read_only, "it is validated");
                    bulk += 1;
                    places[before] += 1;
                }
                None => {
                    assert_eq!(keys.len(), 5);
                    points += keys.len();
                    writes += request.writes();
                }
            }
        }
        assert!((1_850..2_150).contains(&bulk), "{bulk}");
        assert!(places.iter().all(|&count| count > 300), "{places:?}");
        let share = writes as f64 / points as f64;
        assert!((0.48..0.52).contains(&share), "{share}");
    }
}
