//! RowDescription: the names and types of a result's columns. Clients request it with every
//! execution even of a statement prepared once, so it is encoded in place.

use bytes::BufMut;

use crate::Error;
use crate::frontend::Format;

/// A column of a result.
#[derive(Clone, Copy, Debug)]
pub struct Column<'text> {
    /// The column's name. Sent up to its first zero byte, if it has one.
    pub name: &'text str,
    /// OID of the table that the column comes from, else 0.
    pub table: u32,
    /// The column's number in that table, from 1, else 0.
    pub number: i16,
    /// OID of the column's type.
    pub data_type: u32,
    /// Size of the type in bytes, negative if it varies.
    pub size: i16,
    /// The type modifier (the values between the type's parentheses), -1 for none.
    pub modifier: i32,
    /// The format in which values are sent.
    pub format: Format,
}

/// Appends RowDescription, or nothing on an error.
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
