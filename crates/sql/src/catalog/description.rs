//! Encoding of a table descriptor: the bytes that a catalog row stores for a table.
//!
//! ```text
//! u8 format (3)
//! u32 number   string name   u32 storage   u64 schema version   u32 cells
//! u16 n × column { string name, u32 type, i32 modifier, u16 attribute,
//!                  u8 flags (1 not null, 2 has default), [string default] }
//! u16 n × index  { u32 number, u32 index id, string name, u8 kind,
//!                  u8 flags (1 constraint), u16 n × { u16 attribute,
//!                  u8 flags (1 descending, 2 nulls first) } }
//! u16 n × option { string name, string value }
//! owner and grants, as in `access::store`; format 1 ends before (owner: bootstrap role)
//! u16 n × section { u8 tag, u32 length, bytes }; formats 1 and 2 end before
//!
//! section 1: u16 n × check { u32 number, string name, string condition,
//!                            u8 flags (1 valid, 2 local) }
//! section 3: columns that are made, as in `generation`
//! section 5: u8 persistence (1 unlogged)
//! ```
//!
//! What tables could not always have is in sections. A table without any, all of whose types
//! builds have always known, is written in format 2, which those builds read. In a cluster, a
//! table in format 3 is written from the cluster version on that its row needs.
//!
//! Integers are little endian; a string is a u32 length and UTF-8. The decoder refuses
//! unknown formats: an older server must not misread what a newer one wrote. A decoder
//! for a new format must still read the old ones.

use std::sync::Arc;

use coeval_types::{IndexId, IndexKind, StorageId};

use super::versions::{ALWAYS, NAMED_OBJECTS, SQL_OBJECTS, of_type};
use super::{Check, Generation, Index, KeyColumn, Table, TableColumn, generation};
use crate::access::store::{decode_owned, encode_owned};
use crate::access::{FIRST_ROLE, Owned};
use crate::error::Result;
use crate::record::{Reader, count, damaged, string};
use crate::value::{ColumnType, DataType, KeyOrder};

const FORMAT: u8 = 3;
/// The format before tables had sections.
const WITHOUT_SECTIONS: u8 = 2;
/// The format before tables had owners.
const WITHOUT_OWNER: u8 = 1;
const NOT_NULL: u8 = 1;
const HAS_DEFAULT: u8 = 2;
const CONSTRAINT: u8 = 1;
const DESCENDING: u8 = 1;
const NULLS_FIRST: u8 = 2;
const CHECKS: u8 = 1;
const GENERATIONS: u8 = 3;
const VALID: u8 = 1;
const LOCAL: u8 = 2;
const PERSISTENCE: u8 = 5;
const UNLOGGED: u8 = 1;

/// The cluster version that the table's row needs.
pub(crate) fn needed_version(table: &Table) -> u32 {
    let of_section = |(tag, _): &(u8, Vec<u8>)| match *tag {
        PERSISTENCE => SQL_OBJECTS,
        _ => NAMED_OBJECTS,
    };
    let columns = table.columns.iter();
    let types = columns.map(|column| of_type(column.column_type.data_type));
    let sections = sections(table);
    let needed = sections.iter().map(of_section).chain(types);
    needed.max().unwrap_or(ALWAYS)
}

/// What tables could not always have, as tags and contents; only what the table has.
fn sections(table: &Table) -> Vec<(u8, Vec<u8>)> {
    let mut sections = Vec::new();
    if !table.checks.is_empty() {
        let mut out = Vec::new();
        count(&mut out, table.checks.len());
        for check in &table.checks {
            out.extend_from_slice(&check.oid.to_le_bytes());
            string(&mut out, &check.name);
            string(&mut out, &check.condition);
            let valid = if check.is_valid { VALID } else { 0 };
            out.push(valid | if check.is_local { LOCAL } else { 0 });
        }
        sections.push((CHECKS, out));
    }
    if made(table).next().is_some() {
        sections.push((GENERATIONS, generation::encode(made(table))));
    }
    if table.is_unlogged {
        sections.push((PERSISTENCE, vec![UNLOGGED]));
    }
    sections
}

/// The columns whose values the database makes, by attribute number.
fn made(table: &Table) -> impl Iterator<Item = (i16, &Generation)> {
    let columns = table.columns.iter();
    columns.filter_map(|column| Some((column.attribute, column.generation.as_ref()?)))
}

/// Reads a section into the table.
fn read_section(tag: u8, reader: &mut Reader<'_>, table: &mut Table) -> Result<()> {
    match tag {
        CHECKS => {
            table.checks = reader.list(|reader| {
                let (oid, name, condition) = (reader.u32()?, reader.string()?, reader.string()?);
                let flags = reader.u8()?;
                Ok(Check {
                    oid,
                    name,
                    condition,
                    is_valid: flags & VALID != 0,
                    is_local: flags & LOCAL != 0,
                })
            })?;
        }
        GENERATIONS => {
            for (attribute, generation) in generation::decode(reader)? {
                let mut columns = table.columns.iter_mut();
                let column = columns.find(|column| column.attribute == attribute);
                let column = column.ok_or_else(|| damaged("a column that is made is not there"))?;
                column.generation = Some(generation);
            }
        }
        PERSISTENCE => {
            if reader.u8()? != UNLOGGED {
                return Err(damaged("a table is neither permanent nor unlogged"));
            }
            table.is_unlogged = true;
        }
        other => {
            return Err(damaged(&format!("tables have no section {other}"))
                .with_hint("It was probably written by a newer version of this program."));
        }
    }
    Ok(())
}

/// Encodes a table descriptor.
pub(super) fn encode(table: &Table) -> Vec<u8> {
    let is_new = needed_version(table) > ALWAYS;
    let mut out = vec![if is_new { FORMAT } else { WITHOUT_SECTIONS }];
    out.extend_from_slice(&table.oid.to_le_bytes());
    string(&mut out, &table.name);
    out.extend_from_slice(&table.storage.0.to_le_bytes());
    out.extend_from_slice(&table.schema_version.to_le_bytes());
    out.extend_from_slice(&(table.cells as u32).to_le_bytes());
    count(&mut out, table.columns.len());
    for column in &table.columns {
        string(&mut out, &column.name);
        out.extend_from_slice(&column.column_type.data_type.oid().to_le_bytes());
        out.extend_from_slice(&column.column_type.modifier.to_le_bytes());
        out.extend_from_slice(&(column.attribute as u16).to_le_bytes());
        let mut flags = 0;
        if column.not_null {
            flags |= NOT_NULL;
        }
        if column.default.is_some() {
            flags |= HAS_DEFAULT;
        }
        out.push(flags);
        if let Some(default) = &column.default {
            string(&mut out, default);
        }
    }
    count(&mut out, table.indexes.len());
    for index in &table.indexes {
        out.extend_from_slice(&index.oid.to_le_bytes());
        out.extend_from_slice(&index.id.0.to_le_bytes());
        string(&mut out, &index.name);
        out.push(match index.kind {
            IndexKind::Primary => 0,
            IndexKind::Unique => 1,
            IndexKind::Secondary => 2,
        });
        out.push(if index.constraint { CONSTRAINT } else { 0 });
        count(&mut out, index.columns.len());
        for column in &index.columns {
            out.extend_from_slice(&(column.attribute as u16).to_le_bytes());
            let mut flags = 0;
            if column.order.descending {
                flags |= DESCENDING;
            }
            if column.order.nulls_first {
                flags |= NULLS_FIRST;
            }
            out.push(flags);
        }
    }
    count(&mut out, table.options.len());
    for (name, value) in &table.options {
        string(&mut out, name);
        string(&mut out, value);
    }
    encode_owned(&mut out, &table.owned);
    if is_new {
        let sections = sections(table);
        count(&mut out, sections.len());
        for (tag, content) in sections {
            out.push(tag);
            out.extend_from_slice(&(content.len() as u32).to_le_bytes());
            out.extend_from_slice(&content);
        }
    }
    out
}

/// Decodes a table descriptor.
pub(super) fn decode(bytes: &[u8]) -> Result<Table> {
    let mut reader = Reader(bytes);
    let format = reader.u8()?;
    if !matches!(format, FORMAT | WITHOUT_SECTIONS | WITHOUT_OWNER) {
        return Err(damaged(&format!("its format is {format}, not {FORMAT}"))
            .with_hint("It was probably written by a newer version of this program."));
    }
    let oid = reader.u32()?;
    let name = reader.string()?;
    let storage = StorageId(reader.u32()?);
    let schema_version = reader.u64()?;
    let cells = reader.u32()? as usize;
    let columns = reader.list(|reader| {
        let name = reader.string()?;
        let number = reader.u32()?;
        let data_type = DataType::from_oid(number)
            .filter(|data_type| data_type.is_storable())
            .ok_or_else(|| damaged(&format!("no column is of type {number}")))?;
        let modifier = reader.i32()?;
        let attribute = attribute(reader, cells)?;
        let flags = reader.u8()?;
        Ok(TableColumn {
            name,
            column_type: ColumnType {
                data_type,
                modifier,
            },
            attribute,
            not_null: flags & NOT_NULL != 0,
            default: if flags & HAS_DEFAULT == 0 {
                None
            } else {
                Some(reader.string()?)
            },
            generation: None,
        })
    })?;
    let indexes = reader.list(|reader| {
        let oid = reader.u32()?;
        let id = IndexId(reader.u32()?);
        let name = reader.string()?;
        let kind = match reader.u8()? {
            0 => IndexKind::Primary,
            1 => IndexKind::Unique,
            2 => IndexKind::Secondary,
            other => return Err(damaged(&format!("there is no index kind {other}"))),
        };
        let constraint = reader.u8()? & CONSTRAINT != 0;
        let keys = reader.list(|reader| {
            let attribute = attribute(reader, cells)?;
            let flags = reader.u8()?;
            let order = KeyOrder {
                descending: flags & DESCENDING != 0,
                nulls_first: flags & NULLS_FIRST != 0,
            };
            Ok((attribute, order))
        })?;
        let mut key = Vec::with_capacity(keys.len());
        for (attribute, order) in keys {
            let column = columns
                .iter()
                .position(|column| column.attribute == attribute)
                .ok_or_else(|| damaged("an index is on a column that is not there"))?;
            key.push(KeyColumn {
                column,
                attribute,
                column_type: columns[column].column_type,
                order,
            });
        }
        Ok(Arc::new(Index::new(oid, id, name, kind, constraint, key)))
    })?;
    let options = reader.list(|reader| Ok((reader.string()?, reader.string()?)))?;
    let owned = match format {
        WITHOUT_OWNER => Owned::by(FIRST_ROLE),
        _ => decode_owned(&mut reader)?,
    };
    let mut table = Table {
        oid,
        name,
        storage,
        schema_version,
        columns,
        cells,
        indexes,
        options,
        checks: Vec::new(),
        is_unlogged: false,
        owned,
    };
    if format == FORMAT {
        for _ in 0..reader.u16()? {
            let tag = reader.u8()?;
            let length = reader.u32()? as usize;
            let mut section = reader.part(length)?;
            read_section(tag, &mut section, &mut table)?;
            section.end()?;
        }
    }
    reader.end()?;
    Ok(table)
}

/// Decodes a column's attribute number, in a table with `cells` cells.
fn attribute(reader: &mut Reader<'_>, cells: usize) -> Result<i16> {
    let attribute = reader.u16()?;
    if attribute == 0 || usize::from(attribute) > cells {
        return Err(damaged("a column's number is out of range"));
    }
    i16::try_from(attribute).map_err(|_| damaged("a column's number is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |name: &str, data_type, attribute| TableColumn {
            name: name.to_owned(),
            column_type: ColumnType::from(data_type),
            attribute,
            not_null: attribute == 1,
            default: (attribute == 3).then(|| "'ä' || 'b'".to_owned()),
            generation: None,
        };
        Table {
            oid: 16_384,
            name: "t".to_owned(),
            storage: StorageId(7),
            schema_version: 3,
            columns: vec![
                column("a", DataType::Int4, 1),
                column("c", DataType::Text, 3),
            ],
            cells: 3,
            indexes: vec![Arc::new(Index::new(
                16_385,
                IndexId(5),
                "t_pkey".to_owned(),
                IndexKind::Primary,
                true,
                vec![KeyColumn {
                    column: 0,
                    attribute: 1,
                    column_type: DataType::Int4.into(),
                    order: KeyOrder::DESCENDING,
                }],
            ))],
            options: vec![("fillfactor".to_owned(), "100".to_owned())],
            checks: Vec::new(),
            is_unlogged: false,
            owned: Owned::by(FIRST_ROLE),
        }
    }

    #[test]
    fn a_description_comes_back() {
        let table = table();
        let read = decode(&encode(&table)).unwrap();
        assert_eq!(format!("{read:?}"), format!("{table:?}"));
    }

    #[test]
    fn sections_come_back() {
        let mut table = table();
        assert_eq!(encode(&table)[0], WITHOUT_SECTIONS);
        table.checks.push(Check {
            oid: 16_390,
            name: "t_a_check".to_owned(),
            condition: "(a > 0)".to_owned(),
            is_valid: true,
            is_local: false,
        });
        table.is_unlogged = true;
        table.columns[0].generation = Some(Generation::Identity { always: true });
        let bytes = encode(&table);
        assert_eq!(bytes[0], FORMAT);
        let read = decode(&bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{table:?}"));
        for length in 0..bytes.len() {
            decode(&bytes[..length]).unwrap_err();
        }
    }

    #[test]
    fn tables_from_before_there_were_owners_are_the_first_roles() {
        let mut old = encode(&table());
        old[0] = WITHOUT_OWNER;
        // Removes the owner and the flag for default grants.
        old.truncate(old.len() - 5);
        let read = decode(&old).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", table()));
    }

    #[test]
    fn damage_is_an_error() {
        let good = encode(&table());
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err());
        }
        let mut newer = good.clone();
        newer[0] = 3;
        assert!(decode(&newer).is_err());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0xFF;
            // The decoder refuses the bytes or reads another table, but never panics.
            let _ = decode(&bad);
        }
    }
}
