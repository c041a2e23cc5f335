//! Batched reads of many keys, which overlap their cache misses.
//!
//! ```text
//!   keys ──▶ index: lookups that descend together ──▶ records prefetched
//!        ──▶ rows prefetched ──▶ each key read in turn
//! ```
//!
//! Each key is read as [`TransactionContext::get`] reads it, and leaves the same notes: a returned
//! version in the read set, a predicate for an absent key. The keys of a batch share only
//! the pin and the check that the snapshot was not ended.

use std::sync::Arc;

use coeval_types::key::successor_of_prefix;
use coeval_types::{IndexId, IndexKind, Rid, RowRef, StorageId};

use coeval_txn::Error;

use super::TransactionContext;
use crate::ranges::interval::End;
use crate::reading::Reading;
use crate::storage::find;

impl TransactionContext<'_> {
    pub(super) fn get_many(
        &mut self,
        storage: StorageId,
        index: IndexId,
        keys: &[&[u8]],
        visit: &mut (dyn FnMut(usize, Rid, RowRef<'_>) + Send),
    ) -> Result<(), Error> {
        self.check_read()?;
        let at = self.state.storage(self.shared, storage)?;
        let table = Arc::clone(&self.state.storages[at]);
        let indexes = table.indexes();
        let index = find(&indexes, index)?;
        if index.kind != IndexKind::Primary {
            // A key may belong to several records, which only a scan finds.
            for (position, key) in keys.iter().enumerate() {
                self.get(storage, index.id, key, &mut |rid, row| {
                    visit(position, rid, row);
                })?;
            }
            return Ok(());
        }
        let (snapshot, id) = (self.state.snapshot(), self.state.id);
        if !index.is_usable(snapshot) {
            return Err(Error::SchemaChanged(storage));
        }
        let guard = self.shared.domain.pin();
        let mut reading = Reading::new(&table.records, (snapshot, id), &guard);
        reading.presence_only = self.state.presence_only;
        reading.get_many(index, keys, |position, found| {
            if let Some((rid, version, row)) = found {
                self.note_read(at, rid, &version);
                visit(position, rid, row);
            } else if self.state.is_serializable() {
                let key = keys[position];
                let upper = successor_of_prefix::<End>(key);
                self.note_scan(&index.ranges, key, upper.as_deref());
            }
        });
        self.leave(&reading.met, at, &guard)?;
        Ok(())
    }
}
