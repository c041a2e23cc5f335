//! Records back from the log.
//!
//! The log hands every committed entry over, a record's always to the same thread
//! and in commit order; tables take them as they come. Indexes follow when the
//! storages are attached: the log does not know them, and by then every record has
//! just its newest version.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use coeval_log::{Entry, Replay, ReplayError};
use coeval_memory::epoch::Domain;
use coeval_storage::Table;
use coeval_types::{StorageId, Timestamp};

/// The tables that are being filled.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    domain: Domain,
    tables: RwLock<BTreeMap<StorageId, Arc<Table>>>,
}

impl Recovery {
    fn table(&self, storage: StorageId) -> Arc<Table> {
        let tables = self.tables.read().expect("no panic while it was held");
        if let Some(table) = tables.get(&storage) {
            return Arc::clone(table);
        }
        drop(tables);
        let mut tables = self.tables.write().expect("no panic while it was held");
        Arc::clone(tables.entry(storage).or_default())
    }

    /// The tables, with everything in place. To be called when replay has ended.
    pub(crate) fn finish(&self) -> BTreeMap<StorageId, Table> {
        let mut tables = self.tables.write().expect("no panic while it was held");
        std::mem::take(&mut *tables)
            .into_iter()
            .map(|(storage, table)| {
                table.finish_replay();
                let table = Arc::into_inner(table).expect("replay has ended");
                (storage, table)
            })
            .collect()
    }
}

impl Replay for Recovery {
    fn apply(&self, timestamp: Timestamp, entry: Entry<'_>) -> Result<(), ReplayError> {
        let (storage, rid) = entry.record();
        if !Table::is_possible(rid) {
            return Err(ReplayError(format!("{storage:?} has no record {rid}")));
        }
        let table = self.table(storage);
        let guard = self.domain.pin();
        let replayed = match entry {
            Entry::Image { row, .. } => Ok(table.replay_image(rid, timestamp, row, &guard)),
            Entry::Delete { .. } => Ok(table.replay_delete(rid, timestamp, &guard)),
            Entry::Patch {
                previous, patch, ..
            } => table.replay_patch(rid, timestamp, previous, patch, &guard),
        };
        match replayed {
            Ok(_) => Ok(()),
            Err(error) => Err(ReplayError(error.to_string())),
        }
    }
}
