//! Index descriptors, and extraction of an index key from a row.

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use coeval_types::{ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, RowRef};

use crate::value::{ColumnType, KeyOrder, write_cell_key};

/// An index of a table.
#[derive(Clone, Debug)]
pub struct Index {
    /// OID of the index.
    pub oid: u32,
    /// Id of the index in the storage engine.
    pub id: IndexId,
    /// Name of the index in `public`; also the name of its constraint.
    pub name: String,
    /// Kind of the index: primary, unique or plain.
    pub kind: IndexKind,
    /// Whether the index enforces a constraint: PRIMARY KEY or UNIQUE.
    pub constraint: bool,
    /// Whether plans may use the index: false while this node, a follower, builds it.
    pub is_built: bool,
    /// Key columns, the most significant first.
    pub columns: Vec<KeyColumn>,
    extractor: Arc<RowKey>,
}

/// One column of an index's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Position among the table's columns.
    pub column: usize,
    /// Attribute number of the column in the table.
    pub attribute: i16,
    /// Type of the column.
    pub column_type: ColumnType,
    /// Sort order of the column.
    pub order: KeyOrder,
}

impl Index {
    /// An index over these key columns.
    #[must_use]
    pub fn new(
        oid: u32,
        id: IndexId,
        name: String,
        kind: IndexKind,
        constraint: bool,
        columns: Vec<KeyColumn>,
    ) -> Self {
        let extractor = Arc::new(RowKey {
            cells: columns
                .iter()
                .map(|column| KeyCell {
                    cell: column.attribute as usize - 1,
                    column_type: column.column_type,
                    order: column.order,
                })
                .collect(),
        });
        Self {
            oid,
            id,
            name,
            kind,
            constraint,
            is_built: true,
            columns,
            extractor,
        }
    }

    /// Whether the index is unique: no two rows have the same key.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.kind != IndexKind::Secondary
    }

    /// Whether two rows have the same key.
    #[must_use]
    pub(crate) fn same_key(&self, one: RowRef<'_>, other: RowRef<'_>) -> bool {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        self.extractor.extract(one, &mut first);
        self.extractor.extract(other, &mut second);
        first == second
    }

    /// A row's encoded key; `None` if it contains a null, so that it duplicates no
    /// other key.
    #[must_use]
    pub(crate) fn comparable_key(&self, row: RowRef<'_>) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        match self.extractor.extract(row, &mut key) {
            ExtractedKey::Comparable => Some(key),
            ExtractedKey::HoldsNull => None,
        }
    }

    /// The index definition for the storage engine.
    #[must_use]
    pub fn definition(&self) -> IndexDefinition {
        IndexDefinition {
            id: self.id,
            kind: self.kind,
            extractor: Arc::clone(&self.extractor) as Arc<dyn KeyExtractor>,
        }
    }
}

/// Key extractor: takes a key's columns from a row. It knows cells and types only, so
/// that renaming a column changes no key.
#[derive(Debug)]
struct RowKey {
    cells: Box<[KeyCell]>,
}

#[derive(Clone, Copy, Debug)]
struct KeyCell {
    cell: usize,
    column_type: ColumnType,
    order: KeyOrder,
}

impl KeyExtractor for RowKey {
    fn extract(&self, row: RowRef<'_>, out: &mut Vec<u8>) -> ExtractedKey {
        let mut extracted = ExtractedKey::Comparable;
        for each in &self.cells {
            let cell = row.cell(each.cell);
            if cell.is_none() {
                extracted = ExtractedKey::HoldsNull;
            }
            // This never fails: a column has a storable type (`Catalog` rejects others
            // as corrupt), whose cells and keys must exist to compile; and a cell was
            // either encoded as that type by this server, or read from a log or
            // checkpoint with a valid checksum. An engine cannot continue without a
            // key, so a bug here ends the process.
            if let Err(error) = write_cell_key(cell, each.column_type.data_type, each.order, out) {
                panic!("cell {} of a row has no key: {error}", each.cell);
            }
        }
        extracted
    }

    fn is_surely_same(&self, one: RowRef<'_>, other: RowRef<'_>) -> bool {
        let mut cells = self.cells.iter();
        cells.all(|each| one.cell(each.cell) == other.cell(each.cell))
    }
}
