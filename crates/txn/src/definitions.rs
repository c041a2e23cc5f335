//! Which storages there are, read from rows without an engine.

use std::fmt;

use coeval_types::{RowRef, StorageDefinition, StorageId};

/// Shows all rows of a storage to a visitor.
pub type Rows<'a> = &'a mut dyn FnMut(StorageId, &mut dyn FnMut(RowRef<'_>));

/// Knows from rows which storages there are. To an engine it is told by whoever attaches
/// them; tables that follow another node's log have only the rows.
pub trait Definitions: fmt::Debug + Send + Sync + 'static {
    /// In whose rows it is written.
    fn sources(&self) -> Vec<StorageId>;

    /// Every storage that there is, its sources included. `rows` shows what the rows of a
    /// source are at one commit.
    ///
    /// # Errors
    /// In words, when the rows make no sense.
    fn read(&self, rows: Rows<'_>) -> Result<Vec<StorageDefinition>, String>;
}
