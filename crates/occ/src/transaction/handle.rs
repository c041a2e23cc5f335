//! A storage as one transaction's state keeps it.
//!
//! Every call looks at the storage and its indexes, and to take a reference to either
//! would write to a cache line that other cores read. So a state takes both once, and
//! looks at a number to see whether the indexes are still those:
//!
//! ```text
//!   state ──▶ handle ──▶ storage (changes: 7)
//!                 └────▶ its indexes, as they were when the number was 7
//! ```
//!
//! The number is raised after the list was replaced, and noted before it is loaded: so a
//! list may be newer than its number says, never older.

use std::ops::Deref;
use std::sync::Arc;

use coeval_types::StorageId;

use crate::storage::{Index, Indexes, Storage};

/// A storage with its indexes. References to a handle are counted where no other
/// transaction counts.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(super) id: StorageId,
    storage: Arc<Storage>,
    changes: u64,
    indexes: Arc<Vec<Arc<Index>>>,
}

/// The indexes of a storage at this moment.
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

    /// Whether what it keeps of the indexes is out of date.
    #[inline]
    pub(super) fn is_old(&self) -> bool {
        self.storage.index_changes() != self.changes
    }

    /// The same storage, with its indexes as they are now.
    pub(super) fn anew(&self) -> Self {
        Self::new(Arc::clone(&self.storage))
    }

    /// [`Storage::indexes`].
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
