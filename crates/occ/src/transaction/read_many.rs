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
use super::read::Observed;
use crate::ranges::interval::End;
use crate::storage::find;

/// Keys that are read together: somewhat more than the cache misses that a core can wait
/// for at once.
const GROUP: usize = 32;

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
        let (mut met, mut worked_upon) = (Observed::nothing(), Observed::nothing());
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let mut records = [None; GROUP];
            index.entries.get_many(keys, &guard, |at, rid| {
                let record = rid.and_then(|rid| table.records.record(rid));
                records[at] = record.inspect(|record| record.prefetch());
            });
            for record in records.iter().flatten() {
                record.prefetch_row();
            }
            for (position, (key, record)) in keys.iter().zip(records).enumerate() {
                let found = record.and_then(|record| {
                    let version = record.read(snapshot, id, &guard)?;
                    let row = version.row().filter(|&row| index.has_key(row, key));
                    match row {
                        Some(_) if self.state.presence_only => {
                            worked_upon.note(record.rid(), &version);
                        }
                        _ => met.note(record.rid(), &version),
                    }
                    Some((record.rid(), version, row?))
                });
                if let Some((rid, version, row)) = found {
                    self.note_read(at, rid, &version);
                    visit(group * GROUP + position, rid, row);
                } else if self.state.is_serializable() {
                    let upper = successor_of_prefix::<End>(key);
                    self.note_scan(&index.ranges, key, upper.as_deref());
                }
            }
        }
        self.leave(&met, at, &guard)?;
        if self.state.presence_only {
            self.leave_undisclosed(&worked_upon, at, &guard);
        }
        Ok(())
    }
}
