//! Test support: a table that replay fills, and transactions on it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use coeval_log::{
    Block, Checkpoint, CheckpointWriter, Entry, Error, Log, RecoverySummary, Replay, ReplayError,
    SavedRecord, Settings,
};
use coeval_types::{Protocol, Rid, RowBuilder, RowRef, StorageId, Timestamp};

pub const STORAGE: StorageId = StorageId(3);

/// Small settings, so that tests cross every boundary.
pub fn small() -> Settings {
    Settings {
        segment_bytes: 8192,
        ring_bytes: 4096,
        frame_payload_bytes: 512,
        recovery_threads: 1,
        checkpoint_block_bytes: 64,
        log_keep_bytes: 0,
        reserve_bytes: 0,
        protocol: Protocol::Leader,
    }
}

/// The versions of one record, oldest first.
pub type History = Vec<(Timestamp, Option<Vec<u8>>)>;

/// A replay target that collects versions, and checks that each entry fits the previous
/// version.
#[derive(Debug, Default)]
pub struct Table(Mutex<BTreeMap<(StorageId, Rid), History>>);

impl Table {
    pub fn histories(&self) -> BTreeMap<(StorageId, Rid), History> {
        self.0.lock().unwrap().clone()
    }

    /// The newest value of each existing record.
    pub fn values(&self) -> BTreeMap<u64, Vec<u8>> {
        let histories = self.0.lock().unwrap();
        histories
            .iter()
            .filter_map(|((_, rid), history)| Some((rid.0, history.last()?.1.clone()?)))
            .collect()
    }

    /// Adds values that were committed after the table was filled.
    pub fn note(&self, timestamp: Timestamp, values: &[(u64, &[u8])]) {
        let mut histories = self.0.lock().unwrap();
        for (rid, value) in values {
            let history = histories.entry((STORAGE, Rid(*rid))).or_default();
            history.push((timestamp, Some(value.to_vec())));
        }
    }

    /// Timestamps of all commits that changed a record.
    pub fn commits(&self) -> Vec<Timestamp> {
        let histories = self.0.lock().unwrap();
        let mut commits: Vec<_> = histories
            .values()
            .flatten()
            .map(|&(timestamp, _)| timestamp)
            .collect();
        commits.sort();
        commits.dedup();
        commits
    }
}

impl Table {
    fn replay(&self, timestamp: Timestamp, entry: Entry<'_>) -> Result<(), String> {
        let mut histories = self.0.lock().unwrap();
        let history = histories.entry(entry.record()).or_default();
        if history.last().is_some_and(|&(last, _)| last > timestamp) {
            return Err("out of order".into());
        }
        let value = match entry {
            Entry::Image { row, .. } => Some(row.cell(0).unwrap().to_vec()),
            Entry::Delete { .. } => None,
            Entry::Patch {
                previous, patch, ..
            } => {
                let Some((last, Some(value))) = history.last() else {
                    return Err("a patch of nothing".into());
                };
                if *last != previous {
                    return Err("a patch of another version".into());
                }
                let mut patched = Vec::new();
                RowRef::trusted(&row(value))
                    .patched(patch, &mut patched)
                    .map_err(|error| error.to_string())?;
                Some(RowRef::trusted(&patched).cell(0).unwrap().to_vec())
            }
        };
        history.push((timestamp, value));
        Ok(())
    }
}

/// Records of a checkpoint of this state, block by block.
fn saved(block: &Block<'_>) -> Result<Vec<(Rid, Timestamp, Vec<u8>)>, String> {
    let mut records = Vec::new();
    block.each(|record| {
        let value = record.row.cell(0).ok_or("a row of one cell".to_owned())?;
        records.push((record.rid, record.timestamp, value.to_vec()));
        Ok::<_, String>(())
    })?;
    Ok(records)
}

impl Replay for Table {
    fn apply(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError> {
        for &(timestamp, entry) in entries {
            let replayed = self.replay(timestamp, entry);
            replayed.map_err(|reason| ReplayError { timestamp, reason })?;
        }
        Ok(())
    }

    fn restore(&self, block: &Block<'_>) -> Result<(), String> {
        let mut histories = self.0.lock().unwrap();
        for (rid, timestamp, value) in saved(block)? {
            let history = histories.entry((block.storage(), rid)).or_default();
            if !history.is_empty() {
                return Err(format!("record {rid} is there twice"));
            }
            history.push((timestamp, Some(value)));
        }
        Ok(())
    }
}

/// A row of one cell.
pub fn row(value: &[u8]) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    builder.push(Some(value));
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    bytes
}

pub async fn open(
    directory: &Path,
    settings: Settings,
) -> Result<(Log, RecoverySummary, Arc<Table>), Error> {
    let table = Arc::new(Table::default());
    let (log, summary) = Log::open(directory, settings, table.clone()).await?;
    Ok((log, summary, table))
}

/// Commits these values as images, without waiting for the disk.
pub async fn put(log: &Log, values: &[(u64, &[u8])]) -> Result<Timestamp, Error> {
    let mut entries = log.entry_builder();
    for (rid, value) in values {
        entries.image(STORAGE, Rid(*rid), RowRef::trusted(&row(value)));
    }
    let credit = log.prepare(&mut entries).await?;
    let reservation = log.reserve(credit);
    let timestamp = reservation.timestamp();
    reservation.commit(&entries).installed();
    Ok(timestamp)
}

/// Commits one value and waits until it is durable.
pub async fn put_durably(log: &Log, rid: u64, value: &[u8]) -> Result<Timestamp, Error> {
    let timestamp = put(log, &[(rid, value)]).await?;
    log.wait_durable(timestamp).await?;
    Ok(timestamp)
}

/// Takes a checkpoint of everything installed, which `table` holds.
pub async fn checkpoint(log: &Log, table: &Table) -> Result<Checkpoint, Error> {
    let writer = begin_checkpoint(log, table).await?;
    log.finish_checkpoint(writer).await
}

/// Writes a checkpoint, except for its end record.
pub async fn begin_checkpoint(log: &Log, table: &Table) -> Result<CheckpointWriter, Error> {
    let start = log
        .start_checkpoint(|| log.installed())
        .expect("it has a file");
    let mut writer = log.write_checkpoint(start, 0).await?;
    for ((storage, rid), history) in table.histories() {
        let seen = |&&(timestamp, _): &&(Timestamp, _)| timestamp <= start.snapshot;
        let Some((timestamp, Some(value))) = history.iter().rfind(seen) else {
            continue;
        };
        if writer.is_full(storage) {
            writer.write().await?;
        }
        let row = row(value);
        writer.add(
            storage,
            &SavedRecord {
                rid,
                timestamp: *timestamp,
                row: RowRef::trusted(&row),
            },
        );
    }
    Ok(writer)
}

/// Runs the test in the real environment, with two threads.
pub fn real<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
