//! The catalog on a follower: derives storage definitions from replayed rows, without a
//! session or transaction.

use coeval_txn::{Definitions, Rows};
use coeval_types::{StorageDefinition, StorageId};

use super::statistics_storage;
use super::store::{Described, Store, TABLES_STORAGE, described};
use super::{Content, Object};
use crate::{outcome, sequence};

/// Knows which storages a database has: those of the catalog itself, the storage of
/// transaction outcomes, that of statistics, and those of the tables and sequences that the catalog describes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FollowedCatalog;

impl Definitions for FollowedCatalog {
    fn sources(&self) -> Vec<StorageId> {
        vec![TABLES_STORAGE]
    }

    fn read(&self, rows: Rows<'_>) -> Result<Vec<StorageDefinition>, String> {
        let mut storages = Vec::from(Store::definitions());
        storages.push(outcome::definition());
        storages.push(statistics_storage::definition());
        storages.push(sequence::definition());
        let mut read = Ok(());
        rows(
            TABLES_STORAGE,
            &mut |row| match described(row.cell(1).unwrap_or_default()) {
                Ok(Described::Table(table)) => storages.push(table.definition()),
                Ok(Described::Comment(_)) => {}
                Ok(Described::Object(Object { content, .. })) => {
                    if let Content::Sequence(sequence) = content {
                        storages.push(sequence.definition());
                    }
                }
                Ok(Described::Extension(_)) => {}
                Err(error) => read = Err(error.to_string()),
            },
        );
        read.map(|()| storages)
    }
}
