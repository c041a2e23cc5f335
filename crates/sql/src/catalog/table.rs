//! Table and column descriptors.

use std::sync::Arc;

use coeval_types::{IndexId, IndexKind, StorageDefinition, StorageId};

use super::{Generation, Index};
use crate::access::Owned;
use crate::value::ColumnType;

/// Descriptor of a table.
#[derive(Clone, Debug)]
pub struct Table {
    /// OID of the table; it never changes.
    pub oid: u32,
    /// Name of the table in `public`.
    pub name: String,
    /// Current storage of the table's rows.
    pub storage: StorageId,
    /// Version of the table's schema; writers pass it to the engine when they lock the
    /// table.
    pub schema_version: u64,
    /// Columns, without dropped ones.
    pub columns: Vec<TableColumn>,
    /// Number of cells in a row, including those of dropped columns. Older rows may
    /// have fewer; missing cells are null.
    pub cells: usize,
    /// Indexes, the primary key's first.
    pub indexes: Vec<Arc<Index>>,
    /// Storage parameters, such as `fillfactor`: stored and shown, without effect.
    pub options: Vec<(String, String)>,
    /// CHECK constraints, ordered by name.
    pub checks: Vec<Check>,
    /// Whether the table was created UNLOGGED, which is shown and has no effect.
    pub is_unlogged: bool,
    /// Owner of the table, and privileges granted on it.
    pub owned: Owned,
}

/// A CHECK constraint: no row makes its expression false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// OID of the constraint.
    pub oid: u32,
    /// Name of the constraint, unique among those of the table.
    pub name: String,
    /// The condition, in SQL.
    pub condition: String,
    /// Whether all rows were found to meet it: not so after NOT VALID.
    pub is_valid: bool,
    /// Whether NO INHERIT was asked for, which is shown and has no effect.
    pub is_local: bool,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub column_type: ColumnType,
    /// Attribute number, from 1. Dropped columns keep theirs, so numbers may have gaps.
    pub attribute: i16,
    /// Whether the column has a NOT NULL constraint.
    pub not_null: bool,
    /// Default expression, in SQL.
    pub default: Option<String>,
    /// How the database makes the column's values, if it does.
    pub generation: Option<Generation>,
}

impl TableColumn {
    /// Position of the column's cell in a row.
    #[must_use]
    pub fn cell(&self) -> usize {
        self.attribute as usize - 1
    }
}

impl Table {
    /// Index of the primary key.
    #[must_use]
    pub fn primary_key(&self) -> Option<&Arc<Index>> {
        self.indexes
            .first()
            .filter(|index| index.kind == IndexKind::Primary)
    }

    /// Position of the column with this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The index with this id.
    #[must_use]
    pub fn index(&self, id: IndexId) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// The storage definition for the engine.
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
