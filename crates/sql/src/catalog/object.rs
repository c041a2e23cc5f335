//! Objects of the catalog that share the names of tables and are none: sequences and views.
//!
//! Each has a row of its own beside the tables' rows. Its first byte differs from each format of a
//! table, so a build that knows no such objects refuses it and says that a newer build wrote it.
//!
//! ```text
//! u8 format (16)   u8 kind   u32 number   string name   owned
//!   1  a sequence   as in `sequence`
//!   2  a view       as in `view`
//! ```
//!
//! `owned` is as in `access::store`. In a cluster such rows are written from cluster version 7 on.

use super::sequence::{self, Sequence};
use super::view::{self, View};
use crate::access::Owned;
use crate::access::store::{decode_owned, encode_owned};
use crate::error::Result;
use crate::record::{Reader, damaged, string};

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
    /// The view that the object is.
    #[must_use]
    pub const fn view(&self) -> Option<&View> {
        match &self.content {
            Content::View(view) => Some(view),
            Content::Sequence(_) => None,
        }
    }

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
        Content::View(view) => view::encode(view, &mut out),
    }
    out
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
        VIEW => Content::View(view::decode(&mut reader)?),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::view::{Definition, ViewColumn};
    use super::*;
    use crate::access::FIRST_ROLE;
    use crate::value::DataType;

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
                columns: vec![ViewColumn {
                    name: "ä".to_owned(),
                    column_type: DataType::Text.into(),
                    default: None,
                }],
                definition: Arc::new(Definition::new("SELECT 1".to_owned(), Vec::new())),
                options: vec![("check_option".to_owned(), "local".to_owned())],
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
