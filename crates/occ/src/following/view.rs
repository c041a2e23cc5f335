//! A view of followed tables: all their rows at one commit, for a checkpoint.

use std::sync::Arc;

use coeval_log::SavedRecord;
use coeval_types::{Rid, StorageId, Timestamp};

use super::reader::Reader;
use super::tables::Followed;

/// A view of the tables at one commit, which stays while replay continues. Replay keeps
/// the versions that the view shows until the caller drops it, which it must do before an
/// engine takes the tables.
#[derive(Debug)]
pub struct FollowedView {
    reader: Reader,
    storages: Vec<StorageId>,
}

impl FollowedView {
    pub(super) fn new(followed: &Arc<Followed>) -> Self {
        Self {
            reader: followed.begin_view(),
            storages: followed.undropped(),
        }
    }

    /// The last commit that the view shows.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        self.reader.timestamp()
    }

    /// The storages in the view; some may be empty.
    pub fn storages(&self) -> impl Iterator<Item = StorageId> {
        self.storages.iter().copied()
    }

    /// Visits the rows of the next `records` records from `from` on, and returns the RID
    /// to continue from. Steps should be short: taking back waits for them.
    pub fn rows(
        &self,
        storage: StorageId,
        from: Rid,
        records: usize,
        visit: &mut dyn FnMut(SavedRecord<'_>),
    ) -> Option<Rid> {
        if !self.storages.contains(&storage) {
            return None;
        }
        let followed = &self.reader.followed;
        let _beside = followed.gate.read().expect("no panic under it");
        followed.rows_at(self.timestamp(), storage, from, records, visit)
    }
}

impl Drop for FollowedView {
    fn drop(&mut self) {
        self.reader.followed.end_view(self.timestamp());
    }
}
