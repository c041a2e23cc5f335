//! Where the writes of a transaction are to be registered, so that whoever has scanned
//! there meets them: every key that comes or goes, in every order that it has a place in.
//!
//! ```text
//!   row 7 (a, 1) becomes (a, 2)     by RID: 7     index on the first: a
//!                                                 index on the second: 1 goes, 2 comes
//! ```
//!
//! They are noted before the commit draws its place, sorted, and registered group by
//! group.

use coeval_types::{IndexId, RowRef};

use super::commit::Write;
use super::handle::Handle;
use super::state::{Footing, StorageAt};

/// Where the writes of a transaction are to be registered.
pub(super) struct Footings<'state> {
    pub(super) footings: &'state mut Vec<Footing>,
    pub(super) bytes: &'state mut Vec<u8>,
    pub(super) scratch: &'state mut Vec<u8>,
    pub(super) arrivals_only: bool,
}

impl Footings<'_> {
    /// Notes where one write is to be registered: in the order that its row has in any
    /// case, and in every other index in which a key comes or goes. Under some validators
    /// only what comes is.
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
                // Where a primary key has always been, another would be another record's.
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
        self.footings.push(Footing {
            storage,
            index,
            head: head_of(entry),
            start,
            end: self.bytes.len(),
        });
    }

    /// Bytes of memory that they take, and the keys.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.footings.capacity() * size_of::<Footing>() + self.bytes.capacity()
    }

    /// By storage and index, then by key.
    pub(super) fn sort(&mut self) {
        let bytes = &*self.bytes;
        self.footings.sort_unstable_by(|one, other| {
            let place = |footing: &Footing| (footing.storage, footing.index, footing.head);
            place(one)
                .cmp(&place(other))
                .then_with(|| bytes[one.start..one.end].cmp(&bytes[other.start..other.end]))
        });
    }
}

/// The first bytes of a key as a number that orders as they do, zeros behind its end.
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
