//! Comments on objects, as COMMENT ON sets them.
//!
//! The comments on an object and on its columns are one row beside the tables' rows, and no part
//! of the object's own row: a comment changes nothing that a plan depends on, so setting one
//! waits for no reader and no writer of a table.
//!
//! ```text
//! u8 format (18)   u32 number of the row   u32 class   u32 object
//! u16 n × { i32 part, string comment }
//! ```
//!
//! Class and object are OIDs as in `pg_description`; part 0 is the object, other parts are
//! columns by attribute number. In a cluster such rows are written from cluster version 7 on.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Result;
use crate::record::{Reader, count, damaged, string};

/// First byte of the row of an object's comments.
pub(super) const FORMAT: u8 = 18;

/// OID of `pg_class`, the class of relations.
pub const RELATIONS: u32 = 1259;
/// OID of `pg_constraint`.
pub const CONSTRAINTS: u32 = 2606;
/// OID of `pg_namespace`.
pub const SCHEMAS: u32 = 2615;
/// OID of `pg_type`.
pub const TYPES: u32 = 1247;
/// OID of `pg_authid`, the class of roles.
pub const ROLES: u32 = 1260;
/// OID of `pg_database`.
pub const DATABASES: u32 = 1262;

/// The comments on an object and its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Key of the row, from the counter of OIDs.
    pub number: u32,
    /// Class of the object: OID of the system table that lists it.
    pub class: u32,
    /// OID of the object.
    pub object: u32,
    /// Comments by part: 0 is the object, other parts are columns.
    pub texts: BTreeMap<i32, String>,
}

/// All comments, by class and object.
pub type Comments = BTreeMap<(u32, u32), Arc<Comment>>;

/// Encodes the comments on an object.
pub(super) fn encode(comment: &Comment) -> Vec<u8> {
    let mut out = vec![FORMAT];
    for number in [comment.number, comment.class, comment.object] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    count(&mut out, comment.texts.len());
    for (part, text) in &comment.texts {
        out.extend_from_slice(&part.to_le_bytes());
        string(&mut out, text);
    }
    out
}

/// Decodes the comments on an object.
pub(super) fn decode(bytes: &[u8]) -> Result<Comment> {
    let mut reader = Reader(bytes);
    if reader.u8()? != FORMAT {
        return Err(damaged("it is no comment"));
    }
    let [number, class, object] = [reader.u32()?, reader.u32()?, reader.u32()?];
    let texts = reader.list(|reader| Ok((reader.i32()?, reader.string()?)))?;
    reader.end()?;
    Ok(Comment {
        number,
        class,
        object,
        texts: texts.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_come_back() {
        let comment = Comment {
            number: 16_500,
            class: RELATIONS,
            object: 16_384,
            texts: [(0, "ä table".to_owned()), (2, "a column".to_owned())].into(),
        };
        let bytes = encode(&comment);
        assert_eq!(decode(&bytes).unwrap(), comment);
        for length in 0..bytes.len() {
            decode(&bytes[..length]).unwrap_err();
        }
    }
}
