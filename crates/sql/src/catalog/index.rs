//! Indexes, and how a row's key is taken.

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use coeval_types::{ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, RowRef};

use crate::value::{ColumnType, KeyOrder, write_cell_key};

/// An index of a table.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its number as an object of the catalog.
    pub oid: u32,
    /// Its number for the engine.
    pub id: IndexId,
    /// Its name in `public`; of a constraint, its name too.
    pub name: String,
    /// What it promises.
    pub kind: IndexKind,
    /// Whether it stands for a constraint: PRIMARY KEY or UNIQUE.
    pub constraint: bool,
    /// What it orders by, the most significant first.
    pub columns: Vec<KeyColumn>,
    extractor: Arc<RowKey>,
}

/// One column of an index's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its position among the table's columns.
    pub column: usize,
    /// Its number in the table.
    pub attribute: i16,
    /// Its type.
    pub column_type: ColumnType,
    /// Which way it runs.
    pub order: KeyOrder,
}

impl Index {
    /// An index over these columns.
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
            columns,
            extractor,
        }
    }

    /// Whether no two rows have the same key.
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

    /// A row's key; `None` when it holds a null and so is nobody else's.
    #[must_use]
    pub(crate) fn comparable_key(&self, row: RowRef<'_>) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        match self.extractor.extract(row, &mut key) {
            ExtractedKey::Comparable => Some(key),
            ExtractedKey::HoldsNull => None,
        }
    }

    /// As the engine needs to know it.
    #[must_use]
    pub fn definition(&self) -> IndexDefinition {
        IndexDefinition {
            id: self.id,
            kind: self.kind,
            extractor: Arc::clone(&self.extractor) as Arc<dyn KeyExtractor>,
        }
    }
}

/// Takes a key's columns out of a row. Knows cells and types only, so that
/// renaming a column changes no key.
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
            // A key must be made of every cell, and is: a column's type is one that
            // tables can have (`Catalog` refuses others as damage), which has cells and
            // keys or does not compile; and a cell was either encoded as that type by
            // this program, or read from a log or checkpoint whose checksum was right.
            // An engine cannot go on without a key, so a mistake here ends it.
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
