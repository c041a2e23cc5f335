//! Discovery of storages: which storages exist, read from catalog rows without an engine.

use std::fmt;

use coeval_types::{RowRef, StorageDefinition, StorageId};

/// Passes all rows of a storage to a visitor.
pub type Rows<'a> = &'a mut dyn FnMut(StorageId, &mut dyn FnMut(RowRef<'_>));

/// Derives the definitions of all storages from catalog rows. The leader's engine learns
/// them when SQL attaches its storages; a follower that replays the leader's log has only
/// the rows.
pub trait Definitions: fmt::Debug + Send + Sync + 'static {
    /// The storages whose rows hold the definitions.
    fn sources(&self) -> Vec<StorageId>;

    /// All storages that exist, the catalog's own included. `rows` passes a catalog
    /// storage's rows as of one commit.
    ///
    /// # Errors
    /// A description of the inconsistency, when the rows are not a valid catalog.
    fn read(&self, rows: Rows<'_>) -> Result<Vec<StorageDefinition>, String>;
}
