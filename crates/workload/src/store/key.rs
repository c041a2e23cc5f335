//! Key encoding: byte strings that sort in the order of their values.
//!
//! A number is encoded big-endian with its sign bit inverted; a text is followed by a
//! zero byte, so that no key is a prefix of another.

use coeval_types::{ExtractedKey, KeyExtractor, RowRef};

use super::row::Cells;
use super::schema::{ColumnKind, Table};
use super::statement::Value;

/// Appends a number to a key.
pub(super) fn push_integer(kind: ColumnKind, value: i64, key: &mut Vec<u8>) {
    if kind == ColumnKind::Int {
        let value = i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX });
        key.extend_from_slice(&(value.cast_unsigned() ^ (1 << 31)).to_be_bytes());
    } else {
        key.extend_from_slice(&(value.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    }
}

/// Appends any value to a key; a null is the smallest text.
pub(super) fn push(kind: ColumnKind, value: Value<'_>, key: &mut Vec<u8>) {
    match value {
        Value::Integer(value) => push_integer(kind, value, key),
        Value::Text(text) => {
            key.extend_from_slice(text.as_bytes());
            key.push(0);
        }
        Value::Null => key.push(0),
    }
}

/// Extracts the key of an index from rows.
#[derive(Debug)]
pub(super) struct Columns(Vec<(usize, ColumnKind)>);

impl Columns {
    /// An extractor for these columns of a table.
    pub(super) fn of(table: &Table, columns: &[usize]) -> Self {
        let kinds = columns
            .iter()
            .map(|&column| (column, table.columns[column].kind));
        Self(kinds.collect())
    }
}

/// Converts a 32-bit number from its cell encoding to its key encoding.
#[inline]
fn int(cell: [u8; 4]) -> [u8; 4] {
    (u32::from_le_bytes(cell) ^ (1 << 31)).to_be_bytes()
}

/// Converts a 64-bit number from its cell encoding to its key encoding.
#[inline]
fn bigint(cell: [u8; 8]) -> [u8; 8] {
    (u64::from_le_bytes(cell) ^ (1 << 63)).to_be_bytes()
}

/// Whether two cells are equal; numbers are compared without a function call.
#[inline]
fn is_same(one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return one == other;
    };
    if let (Ok(one), Ok(other)) = (<[u8; 4]>::try_from(one), <[u8; 4]>::try_from(other)) {
        return one == other;
    }
    one == other
}

impl KeyExtractor for Columns {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        for &(column, kind) in &self.0 {
            let cell = row.cell(column).unwrap_or_default();
            match kind {
                ColumnKind::Int if let Ok(cell) = cell.try_into() => {
                    key.extend_from_slice(&int(cell))
                }
                ColumnKind::Bigint if let Ok(cell) = cell.try_into() => {
                    key.extend_from_slice(&bigint(cell));
                }
                ColumnKind::Int | ColumnKind::Bigint => {
                    push_integer(kind, row.integer(column), key)
                }
                ColumnKind::Text => {
                    key.extend_from_slice(cell);
                    key.push(0);
                }
            }
        }
        ExtractedKey::Comparable
    }

    fn has_key(&self, row: RowRef<'_>, key: &[u8]) -> Option<bool> {
        let mut rest = key;
        for &(column, kind) in &self.0 {
            let cell = row.cell(column)?;
            let behind = match kind {
                ColumnKind::Int => rest.strip_prefix(&int(cell.try_into().ok()?)),
                ColumnKind::Bigint => rest.strip_prefix(&bigint(cell.try_into().ok()?)),
                ColumnKind::Text => {
                    let behind = rest.strip_prefix(cell);
                    behind.and_then(|behind| behind.strip_prefix(&[0]))
                }
            };
            match behind {
                Some(behind) => rest = behind,
                None => return Some(false),
            }
        }
        Some(rest.is_empty())
    }

    fn is_surely_same(&self, one: RowRef<'_>, other: RowRef<'_>) -> bool {
        let mut columns = self.0.iter();
        columns.all(|&(column, _)| is_same(one.cell(column), other.cell(column)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Maker, Row};

    #[test]
    fn keys_sort_as_numbers_do() {
        for kind in [ColumnKind::Int, ColumnKind::Bigint] {
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
    fn a_row_has_the_key_that_is_extracted_from_it_and_no_other() {
        let table = Table::new(
            "t",
            1,
            &[
                ("a", ColumnKind::Int),
                ("b", ColumnKind::Text),
                ("c", ColumnKind::Bigint),
                ("d", ColumnKind::Text),
            ],
        );
        let columns = Columns::of(&table, &[0, 1, 2]);
        let mut rows = Vec::new();
        for (a, b, c) in [
            (-3, "BAR", 7),
            (-3, "BARBAR", 7),
            (2, "BAR", -7),
            (2, "", 0),
        ] {
            let (mut maker, mut row) = (Maker::new(), Row::default());
            maker.integer(&table, a).text(b).integer(&table, c);
            maker.text("beside").finish(&mut row);
            rows.push(row);
        }
        let (mut maker, mut nulls) = (Maker::new(), Row::default());
        maker.null().null().null().null().finish(&mut nulls);
        rows.push(nulls);
        for one in &rows {
            let mut key = Vec::new();
            columns.extract(one.row(), &mut key);
            for other in &rows {
                let mut its = Vec::new();
                columns.extract(other.row(), &mut its);
                assert_ne!(columns.has_key(other.row(), &key), Some(its != key));
                assert_eq!(columns.is_surely_same(one.row(), other.row()), its == key);
            }
            assert_ne!(
                columns.has_key(one.row(), &key[..key.len() - 1]),
                Some(true)
            );
            key.push(0);
            assert_ne!(columns.has_key(one.row(), &key), Some(true));
        }
    }

    #[test]
    fn a_text_that_begins_another_sorts_before_it() {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        push(ColumnKind::Text, Value::Text("BAR"), &mut short);
        push(ColumnKind::Text, Value::Text("BARBAR"), &mut long);
        assert!(short < long && !long.starts_with(&short));
    }
}
