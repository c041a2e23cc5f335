//! Shared helpers of the tests: rows and timestamps.

use coeval_storage::Value;
use coeval_types::{RowBuilder, RowRef, Timestamp};

/// A timestamp from its packed word.
pub fn at(bits: u64) -> Timestamp {
    Timestamp::from_bits(bits)
}

/// The bytes of a row with these cells.
pub fn row_bytes(cells: &[&[u8]]) -> Vec<u8> {
    let (mut builder, mut bytes) = (RowBuilder::new(), Vec::new());
    for cell in cells {
        builder.push(Some(cell));
    }
    builder.finish(&mut bytes);
    bytes
}

/// A row of one cell that holds a number.
pub fn numbered(number: u64) -> Value {
    Value::row(RowRef::trusted(&row_bytes(&[&number.to_le_bytes()])))
}

/// The number in such a row.
pub fn number(row: RowRef<'_>) -> u64 {
    u64::from_le_bytes(row.cell(0).unwrap().try_into().unwrap())
}
