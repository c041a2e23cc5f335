//! Batched key lookups: one statement for many keys of a table, so that the engine
//! overlaps their cache misses.

use coeval_txn::{Error, LockWait, LockedRow, Transaction};
use coeval_types::{Rid, RowRef};

use super::{Contract, index, storage};
use crate::store::{Failure, Row};

/// Number of keys in one batch.
const GROUP: usize = 32;

/// Callback for one row of many, with the position of its key.
pub(in crate::store) type VisitMany<'v> = dyn FnMut(usize, RowRef<'_>) + Send + 'v;

impl Contract {
    /// Passes the existing rows with these primary keys, which are concatenated in
    /// `keys`, to `visit`.
    pub(in crate::store) fn get_many(
        &mut self,
        table: usize,
        keys: &[i64],
        visit: &mut VisitMany<'_>,
    ) -> Result<(), Failure> {
        let width = self.encode_many(table, keys);
        let mut read = || {
            let transaction = Self::statement(&mut self.transaction)?;
            find(transaction, table, &self.key, width, &mut |at, _, row| {
                visit(at, row);
            })
        };
        read().map_err(|error| Failure::aborted(&error))
    }

    /// Locks rows in order, and reads their contents once they are locked. Stops at the
    /// first key without a row and returns its position.
    pub(in crate::store) async fn lock_many(
        &mut self,
        table: usize,
        keys: &[i64],
        rows: &mut [Row],
    ) -> Result<Option<usize>, Failure> {
        let width = self.encode_many(table, keys);
        let key = std::mem::take(&mut self.key);
        let locked = self.lock_many_encoded(table, &key, width, rows).await;
        self.key = key;
        locked.map_err(|error| Failure::aborted(&error))
    }

    async fn lock_many_encoded(
        &mut self,
        table: usize,
        keys: &[u8],
        width: usize,
        rows: &mut [Row],
    ) -> Result<Option<usize>, Error> {
        let transaction = self.writing(table).await?;
        rows.iter_mut().for_each(|row| row.rid = None);
        find(transaction, table, keys, width, &mut |at, rid, _| {
            rows[at].rid = Some(rid);
        })?;
        for (at, row) in rows.iter_mut().enumerate() {
            let Some(rid) = row.rid else {
                return Ok(Some(at));
            };
            let mut visit = |rid: Rid, newest: RowRef<'_>| row.take(Some(rid), newest);
            let wait = LockWait::Wait;
            let locked = coeval_txn::lock_row(transaction, storage(table), rid, wait, &mut visit);
            if let LockedRow::Gone | LockedRow::Skipped = locked.await? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Encodes and concatenates keys. Returns the length of each, which is constant
    /// because keys are numbers.
    fn encode_many(&mut self, table: usize, keys: &[i64]) -> usize {
        let columns = self.tables[table].key;
        self.key.clear();
        for key in keys.chunks_exact(columns) {
            self.push_key(table, key);
        }
        self.key.len() / (keys.len() / columns).max(1)
    }
}

/// Passes the rows that have these encoded keys to `visit`.
fn find(
    transaction: &mut dyn Transaction,
    table: usize,
    keys: &[u8],
    width: usize,
    visit: &mut (dyn FnMut(usize, Rid, RowRef<'_>) + Send),
) -> Result<(), Error> {
    let mut first = 0;
    for keys in keys.chunks(GROUP * width.max(1)) {
        let mut group = [&[][..]; GROUP];
        let mut count = 0;
        for (place, key) in group.iter_mut().zip(keys.chunks_exact(width)) {
            *place = key;
            count += 1;
        }
        let index = index(table, None);
        transaction.get_many(
            storage(table),
            index,
            &group[..count],
            &mut |at, rid, row| visit(first + at, rid, row),
        )?;
        first += count;
    }
    Ok(())
}
