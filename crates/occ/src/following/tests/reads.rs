//! What transactions of a run read, compared with the model.

use std::ops::{Bound, ControlFlow};
use std::task::{Context, Poll, Waker};

use coeval_txn::{
    Bounds, Direction, Engine as _, Error, Isolation, LockWait, ScanProgress, ScanRequest,
    ScanSource, TableLock, Transaction,
};
use coeval_types::{IndexKind, Lsn, Rid, RowRef, StorageId};

use super::{FollowingRun, KEYS, Numbers, STORAGES, begin, definitions_of, numbers};

impl FollowingRun {
    /// Reads everything in one of the snapshots, or at the visible commit.
    pub(super) fn check_reader(&mut self, visible: Lsn) -> Result<(), String> {
        let chosen = self.draw.below(self.readers.len() + 1);
        let now = (
            begin(&self.engine, Isolation::SnapshotIsolation),
            self.state_at(visible),
        );
        self.readers.push(now);
        let (mut reader, state) = self.readers.swap_remove(chosen);
        for storage in (1..=STORAGES).map(StorageId) {
            let its = state.rows.iter().filter(|((its, _), _)| *its == storage);
            let rows: Vec<_> = its.map(|((_, rid), (_, row))| (*rid, *row)).collect();
            self.check_storage(&mut *reader, storage, &rows)?;
        }
        self.readers.push((reader, state));
        // The one at the visible commit goes.
        let now = self.readers.len() - 1;
        self.readers.swap(chosen.min(now), now);
        self.readers.pop();
        Ok(())
    }

    fn check_storage(
        &mut self,
        reader: &mut dyn Transaction,
        storage: StorageId,
        rows: &[(Rid, Numbers)],
    ) -> Result<(), String> {
        let at = reader.snapshot();
        let differs = |what: &str, found: &dyn std::fmt::Debug| {
            Err(format!(
                "{what} of {storage:?} at {at}: {found:?} instead of {rows:?}"
            ))
        };
        let mut scanned = self.scan(reader, storage, ScanSource::Table)?;
        scanned.sort_unstable();
        if scanned != rows {
            return differs("the rows", &scanned);
        }
        let known = self.defined.iter().rfind(|(since, _)| *since <= at);
        let Some(&(_, generation)) = known else {
            return Ok(());
        };
        let definitions = definitions_of(generation);
        let its = definitions.iter().find(|its| its.id == storage);
        let its = its.expect("it is defined");
        for version in [0, 1, u64::from(generation), u64::from(generation) + 1] {
            let mut context = Context::from_waker(Waker::noop());
            let (mode, wait) = (TableLock::AccessShare, LockWait::Wait);
            let locked = reader.poll_lock_table(storage, mode, wait, version, &mut context);
            if (locked == Poll::Ready(Ok(()))) != (version == its.schema_version) {
                return differs(&format!("schema version {version}"), &its.schema_version);
            }
        }
        let unbuilt = self.engine.unbuilt_indexes().unwrap_or_default();
        for index in &its.indexes {
            if unbuilt.contains(&(storage, index.id)) {
                // A session does without it.
                continue;
            }
            let mut scanned = self.scan(reader, storage, ScanSource::Index(index.id))?;
            scanned.sort_unstable();
            if scanned != rows {
                return differs(&format!("a scan of {:?}", index.id), &scanned);
            }
            if index.kind == IndexKind::Secondary {
                continue;
            }
            let cell = index.id.0 as usize % 10;
            for number in 0..KEYS {
                let key = vec![number; 1 + usize::from(number % 3)];
                let mut found = Vec::new();
                let mut add = |rid, row: RowRef<'_>| found.push((rid, numbers(row)));
                let got = reader.get(storage, index.id, &key, &mut add);
                let mut many = Vec::new();
                let mut add = |_, rid, row: RowRef<'_>| many.push((rid, numbers(row)));
                let got_many = reader.get_many(storage, index.id, &[&key], &mut add);
                let has_key = |(_, row): &&(Rid, Numbers)| row[cell] == number;
                let expected: Vec<_> = rows.iter().filter(has_key).copied().collect();
                let all = (got, got_many, found, many);
                if all != (Ok(!expected.is_empty()), Ok(()), expected.clone(), expected) {
                    return differs(&format!("key {number} of {:?}", index.id), &all);
                }
            }
        }
        Ok(())
    }

    /// All rows in the order of a source, in steps of a random length and direction.
    fn scan(
        &mut self,
        reader: &mut dyn Transaction,
        storage: StorageId,
        source: ScanSource,
    ) -> Result<Vec<(Rid, Numbers)>, String> {
        let backward = self.draw.one_in(2);
        let limit = 1 + self.draw.below(8);
        let mut position: Option<Vec<u8>> = None;
        let mut rows = Vec::new();
        loop {
            let past = position
                .as_deref()
                .map_or(Bound::Unbounded, Bound::Excluded);
            let (lower, upper, direction) = match backward {
                false => (past, Bound::Unbounded, Direction::Forward),
                true => (Bound::Unbounded, past, Direction::Backward),
            };
            let request = ScanRequest {
                storage,
                source,
                bounds: Bounds { lower, upper },
                direction,
                limit,
            };
            let progress = reader.scan(&request, &mut |rid, row| {
                rows.push((rid, numbers(row)));
                ControlFlow::Continue(())
            });
            match progress {
                Ok(ScanProgress::Complete) => return Ok(rows),
                Ok(ScanProgress::More(at)) => position = Some(at),
                // No entry has been replayed that made the storage.
                Err(Error::Unknown("storage")) => return Ok(rows),
                Err(error) => return Err(format!("{source:?} of {storage:?}: {error}")),
            }
        }
    }
}
