//! A reader's registered snapshot of followed tables, and the steps in which it reads.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use coeval_memory::epoch::Guard;
use coeval_storage::Snapshot;
use coeval_txn::Error;
use coeval_types::{StorageId, Timestamp, planted};

use super::ended;
use super::storage::FollowedStorage;
use super::tables::Followed;

/// A registered snapshot. What only this snapshot could see may be collected once it is
/// dropped.
#[derive(Debug)]
pub(super) struct Reader {
    /// Taken when the reader is dropped.
    snapshot: Option<Snapshot>,
    pub(super) followed: Arc<Followed>,
}

impl Reader {
    /// Registers a snapshot at the visible commit.
    pub(super) fn new(followed: Arc<Followed>) -> Self {
        let snapshot = followed.register();
        Self {
            snapshot: Some(snapshot),
            followed,
        }
    }

    fn snapshot(&self) -> &Snapshot {
        self.snapshot.as_ref().expect("it is taken on drop only")
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        self.snapshot().timestamp()
    }

    /// Moves the snapshot to the visible commit.
    pub(super) fn refresh(&mut self) -> Result<(), Error> {
        if self.followed.visibility.is_closed() {
            return Err(ended());
        }
        let before = self.timestamp();
        let followed = &self.followed;
        let snapshot = self.snapshot.as_mut().expect("it is taken on drop only");
        snapshot.refresh(|| followed.visible());
        if snapshot.timestamp() != before {
            followed.released(before);
        }
        Ok(())
    }

    /// Reads a storage in one step: nothing is taken back meanwhile, and no table ends.
    pub(super) fn step<R>(
        &self,
        storage: StorageId,
        read: impl FnOnce(&FollowedStorage, Timestamp, &Guard<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let followed = &*self.followed;
        let _beside = followed.gate.read().expect("no panic under it");
        if followed.visibility.is_closed() {
            return Err(ended());
        }
        let storages = followed.storages();
        let storage = storages.get(&storage).ok_or(Error::Unknown("storage"))?;
        let guard = followed.domain.pin();
        let read = read(storage, self.timestamp(), &guard)?;
        match self.snapshot().is_ended() && !planted!(ReadEndedSnapshot) {
            true => Err(Error::SnapshotTooOld),
            false => Ok(read),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            let timestamp = snapshot.timestamp();
            drop(snapshot);
            self.followed.released(timestamp);
        }
    }
}
