//! Tables, as a workload describes them to either backend.

/// What a column holds. Over the wire: `integer`, `bigint`, `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of 32 bits.
    Int,
    /// A number of 64 bits.
    Bigint,
    /// Text without zero bytes.
    Text,
}

impl Kind {
    /// Its name in SQL.
    #[must_use]
    pub const fn sql(self) -> &'static str {
        match self {
            Self::Int => "integer",
            Self::Bigint => "bigint",
            Self::Text => "text",
        }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name in SQL.
    pub name: String,
    /// What it holds. Every column but those of the primary key may be null.
    pub kind: Kind,
}

/// A secondary index: any number of rows with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name in SQL.
    pub name: String,
    /// Which columns, in order. None of them is ever null.
    pub columns: Vec<usize>,
}

/// A table. A workload knows its tables by their position in the list it gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name in SQL, which begins with that of the workload: nobody's own tables
    /// are to be met.
    pub name: String,
    /// Its columns, at most 64.
    pub columns: Vec<Column>,
    /// So many columns at the front are the primary key; 0 for none. They hold
    /// numbers.
    pub key: usize,
    /// Its secondary indexes.
    pub indexes: Vec<Index>,
}

impl Table {
    /// A table of these columns, the first `key` of which are the primary key.
    ///
    /// # Panics
    /// When there are more than 64 columns, or a column of the key holds text.
    #[must_use]
    pub fn new(name: &str, key: usize, columns: &[(&str, Kind)]) -> Self {
        assert!(columns.len() <= 64, "at most 64 columns");
        assert!(
            columns[..key].iter().all(|(_, kind)| *kind != Kind::Text),
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

    /// The same with a further index.
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
