//! Recovery: rebuilds the tables from the newest checkpoint and the log after it.
//!
//! Several threads load the blocks of the checkpoint first, each record once. Then the
//! log hands over every committed entry, all entries of a record to the same thread and
//! in commit order, and the tables apply them. Indexes are built when the storages are
//! attached: the log does not know them, and by then every record has only its newest
//! version.
//!
//! The log delivers entries in groups. For each group, recovery prefetches all records,
//! then all rows, and then replays: the processor spends most of the time waiting for
//! memory, so it waits for many cache misses at once.

use std::collections::BTreeMap;
use std::sync::RwLock;

use coeval_log::{Block, Entry, RecoveryProgress, Replay, ReplayError, SavedRecord};
use coeval_storage::{RecoveringRecord, RecoveringTable, Replayed, Table};
use coeval_types::{StorageId, Timestamp};

use crate::storage::Recovered;

/// Number of entries that are prefetched together.
const GROUP: usize = 32;

/// Callback that recovery reports its progress to.
type Watcher = Box<dyn Fn(RecoveryProgress) + Send + Sync>;

/// The tables under recovery.
#[derive(Default)]
pub(crate) struct Recovery {
    tables: RwLock<BTreeMap<StorageId, RecoveringTable>>,
    watcher: Option<Watcher>,
}

/// Why a group was not replayed.
enum Refused {
    /// The table must be created first; no entry of the group has been replayed.
    Missing(StorageId),
    Error(ReplayError),
}

impl Recovery {
    /// A recovery that reports its progress to `watcher`.
    pub(crate) fn watched(watcher: impl Fn(RecoveryProgress) + Send + Sync + 'static) -> Self {
        Self {
            tables: RwLock::default(),
            watcher: Some(Box::new(watcher)),
        }
    }

    /// Finishes and returns the tables. To be called when replay has ended.
    pub(crate) fn finish(&self) -> BTreeMap<StorageId, Table> {
        let mut tables = self.tables.write().expect("no panic while it was held");
        std::mem::take(&mut *tables)
            .into_iter()
            .map(|(storage, table)| (storage, table.finish()))
            .collect()
    }

    /// As [`Self::finish`], in the form in which an engine takes the tables.
    pub(crate) fn recovered(&self) -> BTreeMap<StorageId, Recovered> {
        let tables = self.finish().into_iter();
        let recovered = |records| Recovered {
            records,
            indexes: Vec::new(),
        };
        tables.map(|(id, table)| (id, recovered(table))).collect()
    }

    fn replay(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), Refused> {
        let tables = self.tables.read().expect("no panic while it was held");
        let records = records(&tables, entries)?;
        let records = || records.iter().flatten();
        records().for_each(|record| record.prefetch_row());
        for (&(timestamp, entry), record) in entries.iter().zip(records()) {
            let replayed = match entry {
                Entry::Image { row, .. } => Ok(record.image(timestamp, row)),
                Entry::Delete { .. } => Ok(record.delete(timestamp)),
                Entry::Patch {
                    previous, patch, ..
                } => record.patch(timestamp, previous, patch),
            };
            if let Err(error) = replayed {
                let reason = error.to_string();
                return Err(Refused::Error(ReplayError { timestamp, reason }));
            }
        }
        Ok(())
    }
}

/// Looks up and prefetches the records of a group.
fn records<'tables>(
    tables: &'tables BTreeMap<StorageId, RecoveringTable>,
    entries: &[(Timestamp, Entry<'_>)],
) -> Result<[Option<RecoveringRecord<'tables>>; GROUP], Refused> {
    let mut records = [None; GROUP];
    // Neighbouring entries often belong to the same table.
    let mut last: Option<(StorageId, &RecoveringTable)> = None;
    for (place, (timestamp, entry)) in records.iter_mut().zip(entries) {
        let (storage, rid) = entry.record();
        let table = match last {
            Some((same, table)) if same == storage => table,
            _ => tables.get(&storage).ok_or(Refused::Missing(storage))?,
        };
        last = Some((storage, table));
        let Some(record) = table.record(rid) else {
            return Err(Refused::Error(ReplayError {
                timestamp: *timestamp,
                reason: format!("{storage:?} has no record {rid}"),
            }));
        };
        record.prefetch();
        *place = Some(record);
    }
    Ok(records)
}

impl Replay for Recovery {
    fn apply(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError> {
        for group in entries.chunks(GROUP) {
            loop {
                match self.replay(group) {
                    Ok(()) => break,
                    Err(Refused::Missing(storage)) => {
                        let mut tables = self.tables.write().expect("no panic while it was held");
                        tables.entry(storage).or_default();
                    }
                    Err(Refused::Error(error)) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn progress(&self, progress: RecoveryProgress) {
        if let Some(watcher) = &self.watcher {
            watcher(progress);
        }
    }

    fn restore(&self, block: &Block<'_>) -> Result<(), String> {
        let storage = block.storage();
        let known = |tables: &BTreeMap<_, _>| tables.contains_key(&storage);
        if !known(&self.tables.read().expect("no panic while it was held")) {
            let mut tables = self.tables.write().expect("no panic while it was held");
            tables.entry(storage).or_default();
        }
        let tables = self.tables.read().expect("no panic while it was held");
        let table = &tables[&storage];
        block.each(|saved| {
            let SavedRecord {
                rid,
                timestamp,
                row,
            } = saved;
            let Some(record) = table.record(rid) else {
                return Err(format!("{storage:?} has no record {rid}"));
            };
            match record.image(timestamp, row) {
                Replayed::Applied => Ok(()),
                Replayed::AlreadyThere => Err(format!("{storage:?} has record {rid} twice")),
            }
        })
    }
}
