//! Keys as byte strings that sort as their values do.
//!
//! A number is written with its sign bit turned over, high byte first; a text with a
//! zero byte behind it, so that no key is the beginning of another.

use coeval_types::{ExtractedKey, KeyExtractor, RowRef};

use super::row::Cells;
use super::schema::{Kind, Table};
use super::statement::Value;

/// Appends a number.
pub(super) fn push_integer(kind: Kind, value: i64, key: &mut Vec<u8>) {
    if kind == Kind::Int {
        let value = i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX });
        key.extend_from_slice(&(value.cast_unsigned() ^ (1 << 31)).to_be_bytes());
    } else {
        key.extend_from_slice(&(value.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    }
}

/// Appends any value; a null is the smallest text.
pub(super) fn push(kind: Kind, value: Value<'_>, key: &mut Vec<u8>) {
    match value {
        Value::Integer(value) => push_integer(kind, value, key),
        Value::Text(text) => {
            key.extend_from_slice(text.as_bytes());
            key.push(0);
        }
        Value::Null => key.push(0),
    }
}

/// Takes the key of an index out of rows.
#[derive(Debug)]
pub(super) struct Columns(Vec<(usize, Kind)>);

impl Columns {
    /// Of these columns of a table.
    pub(super) fn of(table: &Table, columns: &[usize]) -> Self {
        let kinds = columns
            .iter()
            .map(|&column| (column, table.columns[column].kind));
        Self(kinds.collect())
    }
}

impl KeyExtractor for Columns {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        for &(column, kind) in &self.0 {
            if kind == Kind::Text {
                key.extend_from_slice(row.cell(column).unwrap_or_default());
                key.push(0);
            } else {
                push_integer(kind, row.integer(column), key);
            }
        }
        ExtractedKey::Comparable
    }

    fn is_surely_same(&self, one: RowRef<'_>, other: RowRef<'_>) -> bool {
        let mut columns = self.0.iter();
        columns.all(|&(column, _)| one.cell(column) == other.cell(column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_numbers_do() {
        for kind in [Kind::Int, Kind::Bigint] {
            let keys: Vec<Vec<u8>> = [i64::from(i32::MIN), -2, -1, 0, 1, 300, i64::from(i32::MAX)]
                .iter()
                .map(|&value| {
                    let mut key = Vec::new();
                    push_integer(kind, value, &mut key);
                    key
                })
                .collect();
            assert!(keys.is_sorted());
        }
    }

    #[test]
    fn a_text_that_begins_another_sorts_before_it() {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        push(Kind::Text, Value::Text("BAR"), &mut short);
        push(Kind::Text, Value::Text("BARBAR"), &mut long);
        assert!(short < long && !long.starts_with(&short));
    }
}
