//! Many keys of one table in one statement, so that an engine's waiting for memory
//! overlaps.

use coeval_txn::{Error, LockWait, LockedRow, Transaction};
use coeval_types::{Rid, RowRef};

use super::{Contract, index, storage};
use crate::store::{Failure, Row};

/// Keys that go to the engine together.
const GROUP: usize = 32;

/// Sees one row of many, with the position of its key.
pub(in crate::store) type VisitMany<'v> = dyn FnMut(usize, RowRef<'_>) + Send + 'v;

impl Contract {
    /// Shows what is there of the rows with these primary keys, which stand one behind
    /// the other.
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

    /// Locks them one after the other, and takes what they hold then. The position of
    /// the first key that no row has ends it.
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

    /// Encodes keys one behind the other. How long each is: numbers have a width.
    fn encode_many(&mut self, table: usize, keys: &[i64]) -> usize {
        let columns = self.tables[table].key;
        self.key.clear();
        for key in keys.chunks_exact(columns) {
            self.push_key(table, key);
        }
        self.key.len() / (keys.len() / columns).max(1)
    }
}

/// Shows which rows have these keys.
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
