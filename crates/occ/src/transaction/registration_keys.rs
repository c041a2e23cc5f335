//! Registration keys: the keys that a transaction's commit registers in logical ranges,
//! so that validators of scans find its writes. These are every key that appears or
//! disappears, in each key space that orders it.
//!
//! ```text
//!   row 7 (a, 1) becomes (a, 2)     by RID: 7     index on the first column: a
//!                                                 index on the second: 1 removed, 2 added
//! ```
//!
//! The commit notes them before its timestamp is assigned, sorts them, and registers them
//! group by group.

use coeval_types::{IndexId, RowRef};

use super::commit::Write;
use super::handle::Handle;
use super::state::{RegistrationKey, StorageAt};

/// The registration keys of a transaction, and the buffers that hold them.
pub(super) struct RegistrationKeys<'state> {
    pub(super) registration_keys: &'state mut Vec<RegistrationKey>,
    pub(super) bytes: &'state mut Vec<u8>,
    pub(super) scratch: &'state mut Vec<u8>,
    pub(super) arrivals_only: bool,
}

impl RegistrationKeys<'_> {
    /// Notes the registration keys of one write: in the space that orders the rows in any
    /// case, and in every other index in which a key appears or disappears. Some
    /// validators register only keys that appear.
    pub(super) fn of_write(&mut self, storage: StorageAt, table: &Handle, write: &Write<'_, '_>) {
        let rid = write.record.rid();
        let (old, new) = (write.old.map(|(_, row)| row), write.new);
        if table.rows_by_rid().is_some() {
            self.note(storage, None, &rid.0.to_be_bytes(), old.is_none());
        }
        for index in table.indexes().iter() {
            let mut note_row = |row: RowRef<'_>, arrives| {
                let mut entry = std::mem::take(self.scratch);
                index.entry(row, rid, &mut entry);
                self.note(storage, Some(index.id), &entry, arrives);
                *self.scratch = entry;
            };
            match (old, new) {
                // A row keeps its primary key: a row with another one is in another
                // record.
                (Some(old), Some(new)) if index.orders_rows || index.same_key(old, new) => {
                    if index.orders_rows {
                        note_row(new, false);
                    }
                }
                (old, new) => {
                    old.into_iter().for_each(|row| note_row(row, false));
                    new.into_iter().for_each(|row| note_row(row, true));
                }
            }
        }
    }

    #[inline]
    fn note(&mut self, storage: StorageAt, index: Option<IndexId>, entry: &[u8], arrives: bool) {
        if self.arrivals_only && !arrives {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(entry);
        self.registration_keys.push(RegistrationKey {
            storage,
            index,
            head: head_of(entry),
            start,
            end: self.bytes.len(),
        });
    }

    /// Bytes of memory that the registration keys take.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.registration_keys.capacity() * size_of::<RegistrationKey>() + self.bytes.capacity()
    }

    /// Sorts by storage and index, then by key.
    pub(super) fn sort(&mut self) {
        let bytes = &*self.bytes;
        self.registration_keys.sort_unstable_by(|one, other| {
            let place = |registration_key: &RegistrationKey| {
                (
                    registration_key.storage,
                    registration_key.index,
                    registration_key.head,
                )
            };
            place(one)
                .cmp(&place(other))
                .then_with(|| bytes[one.start..one.end].cmp(&bytes[other.start..other.end]))
        });
    }
}

/// The first bytes of a key as a number that compares as the keys do, padded with zeros.
#[inline]
fn head_of(entry: &[u8]) -> u128 {
    match entry.first_chunk() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut first = [0; 16];
            first[..entry.len()].copy_from_slice(entry);
            u128::from_be_bytes(first)
        }
    }
}
