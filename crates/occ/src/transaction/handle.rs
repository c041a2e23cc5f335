//! Storage handles: a transaction state's cached references to a storage and its indexes.
//!
//! Every call uses the storage and its indexes, and taking a counted reference to either
//! would write to a cache line that other cores read. So a state takes both references
//! once, and compares a change number to see whether the indexes are still current:
//!
//! ```text
//!   state ──▶ handle ──▶ storage (changes: 7)
//!                 └────▶ its indexes, as they were when the number was 7
//! ```
//!
//! A thread that changes the list of indexes raises the number after it has replaced the
//! list, and a handle reads the number before it loads the list: so a list may be newer
//! than its number, never older.

use std::ops::Deref;
use std::sync::Arc;

use coeval_types::StorageId;

use crate::storage::{Index, Indexes, Storage};

/// A storage with its indexes. No other transaction changes the reference count of a
/// handle.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(super) id: StorageId,
    storage: Arc<Storage>,
    changes: u64,
    indexes: Arc<Vec<Arc<Index>>>,
}

/// The indexes of a storage at this moment, from the handle or loaded anew.
pub(super) enum Known<'handle> {
    Kept(&'handle [Arc<Index>]),
    Changed(Indexes),
}

impl Handle {
    pub(super) fn new(storage: Arc<Storage>) -> Self {
        let changes = storage.index_changes();
        Self {
            id: storage.id,
            changes,
            indexes: storage.all_indexes(),
            storage,
        }
    }

    /// Whether the cached list of indexes is out of date.
    #[inline]
    pub(super) fn is_old(&self) -> bool {
        self.storage.index_changes() != self.changes
    }

    /// A new handle to the same storage, with its current indexes.
    pub(super) fn anew(&self) -> Self {
        Self::new(Arc::clone(&self.storage))
    }

    /// The current indexes, as [`Storage::indexes`].
    #[inline]
    pub(super) fn indexes(&self) -> Known<'_> {
        if self.is_old() {
            return Known::Changed(self.storage.indexes());
        }
        Known::Kept(&self.indexes)
    }
}

impl Deref for Handle {
    type Target = Arc<Storage>;

    #[inline]
    fn deref(&self) -> &Arc<Storage> {
        &self.storage
    }
}

impl Deref for Known<'_> {
    type Target = [Arc<Index>];

    #[inline]
    fn deref(&self) -> &[Arc<Index>] {
        match self {
            Self::Kept(indexes) => indexes,
            Self::Changed(indexes) => indexes,
        }
    }
}
