//! SQL statements of the workloads: a few statement shapes, and the SQL text of each.
//!
//! ```text
//!   Get       SELECT id, balance FROM bank_account WHERE id = $1
//!   Lock      SELECT id, balance FROM bank_account WHERE id = $1 FOR UPDATE
//!   Update    UPDATE bank_account SET balance = $1 WHERE id = $2
//!   Range     SELECT … WHERE w = $1 AND d = $2 AND o >= $3 ORDER BY w, d, o LIMIT $4
//! ```

use std::error::Error;
use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use coeval_txn::Isolation;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::schema::{ColumnKind, Table};

/// A value of a key or of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Integer(i64),
    /// A text.
    Text(&'a str),
    /// The SQL null.
    Null,
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Integer(value) if *kind == Type::INT4 => out.put_i32(i32::try_from(*value)?),
            Self::Integer(value) => out.put_i64(*value),
            Self::Text(text) => out.put_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT4, Type::INT8, Type::TEXT].contains(kind)
    }

    to_sql_checked!();
}

/// The shape of a statement, without its parameter values. Tables are positions, sets of
/// columns are bit masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    Begin(Isolation, bool),
    Commit,
    Get(usize),
    Lock(usize),
    Update(usize, u64),
    Insert(usize),
    Delete(usize),
    Range(Range),
}

/// The shape of a range scan of a table or a secondary index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub(super) table: usize,
    pub(super) index: Option<usize>,
    /// Number of leading columns compared for equality.
    pub(super) equal: usize,
    /// Whether the next column has a lower bound, and an upper bound.
    pub(super) bounds: (bool, bool),
    pub(super) backward: bool,
    pub(super) limited: bool,
    /// Whether the rows must be ordered.
    pub(super) ordered: bool,
}

fn level(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::SnapshotIsolation => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    }
}

/// Statement that sets the connection's default isolation level.
pub(super) fn set_isolation(isolation: Isolation) -> String {
    let level = level(isolation);
    format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")
}

/// Comma-separated names of columns.
fn names(table: &Table, columns: impl Iterator<Item = usize>) -> String {
    let names: Vec<&str> = columns
        .map(|column| table.columns[column].name.as_str())
        .collect();
    names.join(", ")
}

/// Condition for the first columns of an order, such as `a = $3 AND b = $4`.
fn equal(table: &Table, columns: &[usize], first: usize) -> String {
    let parts: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(at, &column)| format!("{} = ${}", table.columns[column].name, first + at))
        .collect();
    parts.join(" AND ")
}

impl Shape {
    /// SQL text of the statement.
    pub(super) fn sql(self, tables: &[Table]) -> String {
        match self {
            Self::Begin(isolation, read_only) => {
                let mode = if read_only { " READ ONLY" } else { "" };
                format!("BEGIN ISOLATION LEVEL {}{mode}", level(isolation))
            }
            Self::Commit => "COMMIT".to_owned(),
            Self::Get(table) => get(&tables[table]),
            Self::Lock(table) => get(&tables[table]) + " FOR UPDATE",
            Self::Update(table, columns) => {
                let table = &tables[table];
                let set: Vec<String> = bits(columns)
                    .enumerate()
                    .map(|(at, column)| format!("{} = ${}", table.columns[column].name, at + 1))
                    .collect();
                let key = equal(table, &table.order(None), set.len() + 1);
                format!("UPDATE {} SET {} WHERE {key}", table.name, set.join(", "))
            }
            Self::Insert(table) => {
                let table = &tables[table];
                let values: Vec<String> = (1..=table.columns.len())
                    .map(|number| format!("${number}"))
                    .collect();
                format!("INSERT INTO {} VALUES ({})", table.name, values.join(", "))
            }
            Self::Delete(table) => {
                let table = &tables[table];
                let key = equal(table, &table.order(None), 1);
                format!("DELETE FROM {} WHERE {key}", table.name)
            }
            Self::Range(range) => range.sql(&tables[range.table]),
        }
    }

    /// Types of the parameters, for a statement that is not prepared.
    pub(super) fn types(self, tables: &[Table]) -> Vec<Type> {
        let of = |table: usize, columns: &[usize]| -> Vec<Type> {
            let kinds = columns.iter().map(|&at| tables[table].columns[at].kind);
            kinds.map(sql_type).collect()
        };
        match self {
            Self::Begin(..) | Self::Commit => Vec::new(),
            Self::Get(table) | Self::Lock(table) | Self::Delete(table) => {
                of(table, &tables[table].order(None))
            }
            Self::Update(table, columns) => {
                let set: Vec<usize> = bits(columns).collect();
                [of(table, &set), of(table, &tables[table].order(None))].concat()
            }
            Self::Insert(table) => {
                let all: Vec<usize> = (0..tables[table].columns.len()).collect();
                of(table, &all)
            }
            Self::Range(range) => {
                let order = tables[range.table].order(range.index);
                let mut types = of(range.table, &order[..range.equal]);
                let bounds = usize::from(range.bounds.0) + usize::from(range.bounds.1);
                if let Some(&next) = order.get(range.equal) {
                    types.extend(of(range.table, &vec![next; bounds]));
                }
                types.extend(range.limited.then_some(Type::INT8));
                types
            }
        }
    }
}

fn sql_type(kind: ColumnKind) -> Type {
    match kind {
        ColumnKind::Int => Type::INT4,
        ColumnKind::Bigint => Type::INT8,
        ColumnKind::Text => Type::TEXT,
    }
}

fn get(table: &Table) -> String {
    format!(
        "SELECT {} FROM {} WHERE {}",
        names(table, 0..table.columns.len()),
        table.name,
        equal(table, &table.order(None), 1)
    )
}

impl Range {
    fn sql(self, table: &Table) -> String {
        let order = table.order(self.index);
        let all = names(table, 0..table.columns.len());
        let mut text = format!("SELECT {all} FROM {}", table.name);
        let mut number = self.equal;
        let mut conditions = Vec::new();
        if self.equal > 0 {
            conditions.push(equal(table, &order[..self.equal], 1));
        }
        for (wanted, operator) in [(self.bounds.0, ">="), (self.bounds.1, "<=")] {
            if wanted {
                number += 1;
                let column = &table.columns[order[self.equal]].name;
                conditions.push(format!("{column} {operator} ${number}"));
            }
        }
        if !conditions.is_empty() {
            let _ = write!(text, " WHERE {}", conditions.join(" AND "));
        }
        if self.ordered && !order.is_empty() {
            let way = if self.backward { " DESC" } else { "" };
            let order: Vec<String> = order
                .iter()
                .map(|&column| format!("{}{way}", table.columns[column].name))
                .collect();
            let _ = write!(text, " ORDER BY {}", order.join(", "));
        }
        if self.limited {
            let _ = write!(text, " LIMIT ${}", number + 1);
        }
        text
    }
}

/// Positions of the bits that are set.
pub(super) fn bits(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |bit| mask & (1 << bit) != 0)
}

/// Bit mask of some positions.
pub(super) fn mask(columns: &[usize]) -> u64 {
    columns.iter().fold(0, |mask, column| mask | 1 << column)
}

/// Statement that creates a table without its secondary indexes.
pub(super) fn create_table(table: &Table) -> String {
    let mut columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| format!("{} {}", column.name, column.kind.sql()))
        .collect();
    if table.key > 0 {
        columns.push(format!("PRIMARY KEY ({})", names(table, 0..table.key)));
    }
    format!("CREATE TABLE {} ({})", table.name, columns.join(", "))
}

/// Statements that create the secondary indexes of a table.
pub(super) fn create_indexes(table: &Table) -> Vec<String> {
    let index = |index: &super::Index| {
        let columns = names(table, index.columns.iter().copied());
        format!("CREATE INDEX {} ON {} ({columns})", index.name, table.name)
    };
    table.indexes.iter().map(index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_those_of_a_careful_application() {
        let columns = [
            ("w", ColumnKind::Int),
            ("o", ColumnKind::Int),
            ("name", ColumnKind::Text),
        ];
        let tables = [Table::new("t_order", 2, &columns).with_index("t_by_name", &[0, 2])];
        let sql = |shape: Shape| shape.sql(&tables);
        assert_eq!(
            sql(Shape::Lock(0)),
            "SELECT w, o, name FROM t_order WHERE w = $1 AND o = $2 FOR UPDATE"
        );
        assert_eq!(
            sql(Shape::Update(0, mask(&[2]))),
            "UPDATE t_order SET name = $1 WHERE w = $2 AND o = $3"
        );
        assert_eq!(
            sql(Shape::Insert(0)),
            "INSERT INTO t_order VALUES ($1, $2, $3)"
        );
        let range = Range {
            table: 0,
            index: None,
            equal: 1,
            bounds: (true, false),
            backward: true,
            limited: true,
            ordered: true,
        };
        assert_eq!(
            sql(Shape::Range(range)),
            "SELECT w, o, name FROM t_order WHERE w = $1 AND o >= $2 \
             ORDER BY w DESC, o DESC LIMIT $3"
        );
        assert_eq!(
            Shape::Range(range).types(&tables),
            [Type::INT4, Type::INT4, Type::INT8]
        );
        assert_eq!(
            Shape::Update(0, mask(&[2])).types(&tables),
            [Type::TEXT, Type::INT4, Type::INT4]
        );
        let by_name = Range {
            index: Some(0),
            equal: 2,
            bounds: (false, false),
            backward: false,
            limited: false,
            ..range
        };
        assert_eq!(
            sql(Shape::Range(by_name)),
            "SELECT w, o, name FROM t_order WHERE w = $1 AND name = $2 ORDER BY w, name"
        );
        assert_eq!(
            create_table(&tables[0]),
            "CREATE TABLE t_order (w integer, o integer, name text, PRIMARY KEY (w, o))"
        );
        assert_eq!(
            create_indexes(&tables[0]),
            ["CREATE INDEX t_by_name ON t_order (w, name)"]
        );
    }
}
