//! The storage of statistics of tables: a row for each table that has been analyzed, under its
//! OID. `statistics` reads and writes it.

use std::sync::Arc;

use coeval_types::{IndexDefinition, IndexId, IndexKind, StorageDefinition, StorageId};

use crate::record::FirstCell;

/// The storage of statistics of tables, which each leader takes by itself.
pub const STATISTICS_STORAGE: StorageId = StorageId(5);
pub(crate) const INDEX: IndexId = IndexId(5);
/// Schema version of the storage, which never changes.
pub(crate) const SCHEMA: u64 = 1;

/// The storage definition for the engine.
pub(crate) fn definition() -> StorageDefinition {
    StorageDefinition {
        id: STATISTICS_STORAGE,
        schema_version: SCHEMA,
        indexes: vec![IndexDefinition {
            id: INDEX,
            kind: IndexKind::Primary,
            extractor: Arc::new(FirstCell),
        }],
    }
}
