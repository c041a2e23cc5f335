//! Table schemas: a workload's description of its tables, the same for both backends.

/// Type of a column. Over the wire: `integer`, `bigint`, `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A 32-bit signed integer.
    Int,
    /// A 64-bit signed integer.
    Bigint,
    /// Text without zero bytes.
    Text,
}

impl ColumnKind {
    /// Name of the type in SQL.
    #[must_use]
    pub const fn sql(self) -> &'static str {
        match self {
            Self::Int => "integer",
            Self::Bigint => "bigint",
            Self::Text => "text",
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column in SQL.
    pub name: String,
    /// Type of the column. Every column except those of the primary key may be null.
    pub kind: ColumnKind,
}

/// A secondary index, which is not unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Name of the index in SQL.
    pub name: String,
    /// Positions of the indexed columns, in order. None of them is ever null.
    pub columns: Vec<usize>,
}

/// A table. A workload refers to its tables by their position in its list of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name of the table in SQL. It begins with the workload's name, so that it cannot
    /// collide with a user's table.
    pub name: String,
    /// Columns of the table, at most 64.
    pub columns: Vec<Column>,
    /// Number of leading columns that form the primary key; 0 for none. They hold
    /// numbers.
    pub key: usize,
    /// Secondary indexes of the table.
    pub indexes: Vec<Index>,
}

impl Table {
    /// A table with these columns, the first `key` of which form the primary key.
    ///
    /// # Panics
    /// If there are more than 64 columns, or a column of the key holds text.
    #[must_use]
    pub fn new(name: &str, key: usize, columns: &[(&str, ColumnKind)]) -> Self {
        assert!(columns.len() <= 64, "at most 64 columns");
        assert!(
            columns[..key]
                .iter()
                .all(|(_, kind)| *kind != ColumnKind::Text),
            "primary keys are numbers"
        );
        Self {
            name: name.to_owned(),
            columns: columns
                .iter()
                .map(|(name, kind)| Column {
                    name: (*name).to_owned(),
                    kind: *kind,
                })
                .collect(),
            key,
            indexes: Vec::new(),
        }
    }

    /// Adds a secondary index.
    #[must_use]
    pub fn with_index(mut self, name: &str, columns: &[usize]) -> Self {
        self.indexes.push(Index {
            name: name.to_owned(),
            columns: columns.to_vec(),
        });
        self
    }

    /// The columns of an index, or of the primary key.
    #[must_use]
    pub fn order(&self, index: Option<usize>) -> Vec<usize> {
        match index {
            None => (0..self.key).collect(),
            Some(index) => self.indexes[index].columns.clone(),
        }
    }
}
