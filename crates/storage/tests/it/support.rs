//! What several tests need: rows, timestamps, an index kept up with.

use std::collections::BTreeSet;
use std::sync::Mutex;

use coeval_storage::{IndexUpkeep, Remaining, Value};
use coeval_types::{Rid, RowBuilder, RowRef, Timestamp};

/// A timestamp from its packed word.
pub fn at(bits: u64) -> Timestamp {
    Timestamp::from_bits(bits)
}

/// The bytes of a row with these cells.
pub fn row_bytes(cells: &[&[u8]]) -> Vec<u8> {
    let (mut builder, mut bytes) = (RowBuilder::new(), Vec::new());
    for cell in cells {
        builder.push(Some(cell));
    }
    builder.finish(&mut bytes);
    bytes
}

/// A row of one cell that holds a number.
pub fn numbered(number: u64) -> Value {
    Value::row(RowRef::trusted(&row_bytes(&[&number.to_le_bytes()])))
}

/// The number in such a row.
pub fn number(row: RowRef<'_>) -> u64 {
    u64::from_le_bytes(row.cell(0).unwrap().try_into().unwrap())
}

/// A set of `(first cell, RID)` from which entries go as the records say.
#[derive(Default)]
pub struct Entries(pub Mutex<BTreeSet<(u64, Rid)>>);

impl Entries {
    /// Adds an entry, as an engine does under the record's lock.
    pub fn add(&self, key: u64, rid: Rid) {
        self.0.lock().unwrap().insert((key, rid));
    }

    /// Makes an entry be there or not.
    pub fn keep(&self, kept: bool, key: u64, rid: Rid) {
        let mut entries = self.0.lock().unwrap();
        if kept {
            entries.insert((key, rid));
        } else {
            entries.remove(&(key, rid));
        }
    }

    /// The keys that a record has entries for.
    pub fn keys(&self, rid: Rid) -> Vec<u64> {
        let entries = self.0.lock().unwrap();
        entries
            .iter()
            .filter(|entry| entry.1 == rid)
            .map(|entry| entry.0)
            .collect()
    }
}

impl IndexUpkeep for Entries {
    fn removed(&self, rid: Rid, removed: RowRef<'_>, remaining: &Remaining<'_>) {
        let key = number(removed);
        if !remaining.any(|row| number(row) == key) {
            self.0.lock().unwrap().remove(&(key, rid));
        }
    }
}
