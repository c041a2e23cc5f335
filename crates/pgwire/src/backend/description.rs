//! What the rows of a result will look like. Clients that prepare a statement once
//! still ask with every execution, so this is written in place.

use bytes::BufMut;

use crate::Error;
use crate::frontend::Format;

/// A column of a result.
#[derive(Clone, Copy, Debug)]
pub struct Column<'text> {
    /// Its name. Sent up to a zero byte, if it has one.
    pub name: &'text str,
    /// The table it comes from, else 0.
    pub table: u32,
    /// Its number in that table, from 1, else 0.
    pub number: i16,
    /// Its type's object id.
    pub data_type: u32,
    /// Its type's size in bytes, negative when it varies.
    pub size: i16,
    /// What is between the type's parentheses, -1 for nothing.
    pub modifier: i32,
    /// How its values are sent.
    pub format: Format,
}

/// Appends RowDescription, or nothing.
///
/// # Errors
/// When there are more columns than the protocol can count (32,767), or their
/// names are too long together.
pub fn row_description<'text>(
    out: &mut Vec<u8>,
    columns: impl ExactSizeIterator<Item = Column<'text>>,
) -> Result<(), Error> {
    let count = i16::try_from(columns.len()).map_err(|_| Error::Unsendable(columns.len()))?;
    let start = out.len();
    out.extend_from_slice(b"T\0\0\0\0");
    out.put_i16(count);
    for column in columns {
        let name = column.name.as_bytes();
        let end = name.iter().position(|&byte| byte == 0);
        out.put_slice(&name[..end.unwrap_or(name.len())]);
        out.put_u8(0);
        out.put_u32(column.table);
        out.put_i16(column.number);
        out.put_u32(column.data_type);
        out.put_i16(column.size);
        out.put_i32(column.modifier);
        out.put_i16(column.format.code());
    }
    super::finish(out, start)
}
