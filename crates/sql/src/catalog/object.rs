//! Objects of the catalog that share the names of tables and are none: sequences and views.
//!
//! Each has a row of its own beside the tables' rows. Its first byte differs from each format of a
//! table, so a build that knows no such objects refuses it and says that a newer build wrote it.
//!
//! ```text
//! u8 format (16)   u8 kind   u32 number   string name   owned
//!   1  a sequence   as in `sequence`
//!   2  a view       string query   u16 n × column { string name, u32 type, i32 modifier }
//!                   u16 n × option { string name, string value }
//!                   u16 n × use { u32 number, u16 n × u16 attribute }
//! ```
//!
//! `owned` is as in `access::store`. In a cluster such rows are written from cluster version 7 on.

use super::sequence::{self, Sequence};
use crate::access::Owned;
use crate::access::store::{decode_owned, encode_owned};
use crate::error::Result;
use crate::record::{Reader, count, damaged, string};
use crate::value::{ColumnType, DataType};

/// First byte of an object's row.
pub(super) const FORMAT: u8 = 16;
const SEQUENCE: u8 = 1;
const VIEW: u8 = 2;
/// A sequence or a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// OID of the object; it never changes.
    pub oid: u32,
    /// Name of the object in `public`.
    pub name: String,
    /// Owner of the object, and privileges granted on it.
    pub owned: Owned,
    /// What it is.
    pub content: Content,
}

impl Object {
    /// What the object is called in messages.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.content {
            Content::Sequence(_) => "sequence",
            Content::View(_) => "view",
        }
    }
}

/// What an object is.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A sequence.
    Sequence(Sequence),
    /// A view.
    View(View),
}

/// A view's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The query, in SQL.
    pub query: String,
    /// Columns that the query had when the view was made.
    pub columns: Vec<ViewColumn>,
    /// Options, such as `check_option`.
    pub options: Vec<(String, String)>,
    /// What the query reads: OIDs of tables and views, and numbers of their columns.
    pub uses: Vec<(u32, Vec<i16>)>,
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub column_type: ColumnType,
}

/// Encodes an object.
pub(super) fn encode(object: &Object) -> Vec<u8> {
    let kind = match object.content {
        Content::Sequence(_) => SEQUENCE,
        Content::View(_) => VIEW,
    };
    let mut out = vec![FORMAT, kind];
    out.extend_from_slice(&object.oid.to_le_bytes());
    string(&mut out, &object.name);
    encode_owned(&mut out, &object.owned);
    match &object.content {
        Content::Sequence(sequence) => sequence::encode(&mut out, sequence),
        Content::View(view) => encode_view(&mut out, view),
    }
    out
}

fn encode_view(out: &mut Vec<u8>, view: &View) {
    string(out, &view.query);
    count(out, view.columns.len());
    for column in &view.columns {
        string(out, &column.name);
        out.extend_from_slice(&column.column_type.data_type.oid().to_le_bytes());
        out.extend_from_slice(&column.column_type.modifier.to_le_bytes());
    }
    count(out, view.options.len());
    for (name, value) in &view.options {
        string(out, name);
        string(out, value);
    }
    count(out, view.uses.len());
    for (number, attributes) in &view.uses {
        out.extend_from_slice(&number.to_le_bytes());
        count(out, attributes.len());
        for attribute in attributes {
            out.extend_from_slice(&(*attribute as u16).to_le_bytes());
        }
    }
}

/// Decodes an object.
pub(super) fn decode(bytes: &[u8]) -> Result<Object> {
    let mut reader = Reader(bytes);
    if reader.u8()? != FORMAT {
        return Err(damaged("it is neither a table nor a sequence nor a view"));
    }
    let kind = reader.u8()?;
    let oid = reader.u32()?;
    let name = reader.string()?;
    let owned = decode_owned(&mut reader)?;
    let content = match kind {
        SEQUENCE => Content::Sequence(sequence::decode(&mut reader)?),
        VIEW => Content::View(decode_view(&mut reader)?),
        other => {
            return Err(damaged(&format!("there is no object of kind {other}"))
                .with_hint("It was probably written by a newer version of this program."));
        }
    };
    reader.end()?;
    Ok(Object {
        oid,
        name,
        owned,
        content,
    })
}

fn decode_view(reader: &mut Reader<'_>) -> Result<View> {
    let query = reader.string()?;
    let columns = reader.list(|reader| {
        let name = reader.string()?;
        let number = reader.u32()?;
        let data_type = DataType::from_oid(number)
            .ok_or_else(|| damaged(&format!("no column is of type {number}")))?;
        let modifier = reader.i32()?;
        Ok(ViewColumn {
            name,
            column_type: ColumnType {
                data_type,
                modifier,
            },
        })
    })?;
    let options = reader.list(|reader| Ok((reader.string()?, reader.string()?)))?;
    let uses = reader.list(|reader| Ok((reader.u32()?, reader.list(attribute)?)))?;
    Ok(View {
        query,
        columns,
        options,
        uses,
    })
}

fn attribute(reader: &mut Reader<'_>) -> Result<i16> {
    i16::try_from(reader.u16()?).map_err(|_| damaged("a column's number is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::FIRST_ROLE;

    fn sequence() -> Object {
        Object {
            oid: 16_400,
            name: "t_id_seq".to_owned(),
            owned: Owned::by(FIRST_ROLE),
            content: Content::Sequence(sequence::tests::sequence()),
        }
    }

    fn view() -> Object {
        Object {
            oid: 16_401,
            name: "v".to_owned(),
            owned: Owned::by(FIRST_ROLE),
            content: Content::View(View {
                query: "SELECT 1".to_owned(),
                columns: vec![ViewColumn {
                    name: "ä".to_owned(),
                    column_type: DataType::Text.into(),
                }],
                options: vec![("check_option".to_owned(), "local".to_owned())],
                uses: vec![(16_384, vec![1, 3]), (16_390, Vec::new())],
            }),
        }
    }

    #[test]
    fn objects_come_back() {
        for object in [sequence(), view()] {
            assert_eq!(decode(&encode(&object)).unwrap(), object);
        }
    }

    #[test]
    fn damaged_rows_are_refused() {
        for object in [sequence(), view()] {
            let bytes = encode(&object);
            for length in 0..bytes.len() {
                decode(&bytes[..length]).unwrap_err();
            }
            let mut long = bytes.clone();
            long.push(0);
            decode(&long).unwrap_err();
            let mut newer = bytes;
            newer[1] = 99;
            let error = decode(&newer).unwrap_err();
            assert!(format!("{error:?}").contains("newer version"), "{error:?}");
        }
    }
}
