//! Text of rows and keys for error messages.

use coeval_types::RowRef;

use super::{Index, Table};
use crate::error::Result;
use crate::value::{ColumnType, Style, Value};

/// Maximum number of characters of a value in an error message.
const SHOWN: usize = 64;

/// A value as text for error messages.
pub(crate) fn value_text(value: &Value, column_type: ColumnType) -> String {
    value
        .to_text(column_type, &Style::default())
        .map_or_else(|| "null".to_owned(), |text| text.to_string())
}

/// A row as text for error messages, with long values cut.
pub(crate) fn row_text(table: &Table, values: &[Value]) -> String {
    let shown: Vec<String> = table
        .columns
        .iter()
        .zip(values)
        .map(|(column, value)| {
            let text = value_text(value, column.column_type);
            match text.char_indices().nth(SHOWN) {
                None => text,
                Some((end, _)) => format!("{}...", &text[..end]),
            }
        })
        .collect();
    shown.join(", ")
}

/// A row's index key as text for error messages: `(a, b)=(1, 2)`.
pub(crate) fn key_text(table: &Table, index: &Index, row: RowRef<'_>) -> Result<String> {
    let mut names = Vec::new();
    let mut values = Vec::new();
    for key in &index.columns {
        let column = &table.columns[key.column];
        names.push(column.name.as_str());
        let value = Value::from_cell(row.cell(column.cell()), column.column_type.data_type)?;
        values.push(value_text(&value, column.column_type));
    }
    Ok(format!("({})=({})", names.join(", "), values.join(", ")))
}
