//! Tables and their columns.

use std::sync::Arc;

use coeval_types::{IndexId, IndexKind, StorageDefinition, StorageId};

use super::Index;
use crate::access::Owned;
use crate::value::ColumnType;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its number, for ever.
    pub oid: u32,
    /// Its name in `public`.
    pub name: String,
    /// Where its rows are now.
    pub storage: StorageId,
    /// Which state of its definition this is; writers say it when they lock it.
    pub schema_version: u64,
    /// Its columns, those that were dropped left out.
    pub columns: Vec<TableColumn>,
    /// Cells of a row, those of dropped columns included. Older rows may have
    /// fewer: what they lack is null.
    pub cells: usize,
    /// Its indexes, the primary key's first.
    pub indexes: Vec<Arc<Index>>,
    /// Storage parameters, such as `fillfactor`: kept and shown, without effect.
    pub options: Vec<(String, String)>,
    /// Who owns it, and who else may do what with it.
    pub owned: Owned,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// Its number, from 1. Dropped columns keep theirs, so there may be gaps.
    pub attribute: i16,
    /// Whether it refuses nulls.
    pub not_null: bool,
    /// The expression for rows that do not say, in SQL.
    pub default: Option<String>,
}

impl TableColumn {
    /// Where its value is in a row.
    #[must_use]
    pub fn cell(&self) -> usize {
        self.attribute as usize - 1
    }
}

impl Table {
    /// The primary key's index.
    #[must_use]
    pub fn primary_key(&self) -> Option<&Arc<Index>> {
        self.indexes
            .first()
            .filter(|index| index.kind == IndexKind::Primary)
    }

    /// The position of the column with this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The index with this number.
    #[must_use]
    pub fn index(&self, id: IndexId) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// As the engine needs to know it.
    #[must_use]
    pub fn definition(&self) -> StorageDefinition {
        StorageDefinition {
            id: self.storage,
            schema_version: self.schema_version,
            indexes: self
                .indexes
                .iter()
                .map(|index| index.definition())
                .collect(),
        }
    }
}
