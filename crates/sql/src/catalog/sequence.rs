//! Sequences as the catalog describes them: how they count, and which state is theirs.
//!
//! ```text
//!   u32 type   i64 start   i64 increment   i64 minimum   i64 maximum   i64 cache
//!   u8 flags (1 cycles, 2 belongs to a column, 4 is an identity column's, 8 has been called)
//!   [u32 table   u16 attribute]
//!   u32 storage   u64 schema version   u64 state   i64 number that the state begins with
//! ```

use std::sync::Arc;

use coeval_types::{StorageDefinition, StorageId};

use super::{Catalog, Content, Object};
use crate::error::Result;
use crate::record::{Reader, damaged};
use crate::sequence::{Counting, Progress, Settled};
use crate::value::DataType;

const CYCLES: u8 = 1;
const OWNED: u8 = 2;
const IDENTITY: u8 = 4;
const CALLED: u8 = 8;

/// A sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Type of its numbers: smallint, integer or bigint.
    pub data_type: DataType,
    pub(crate) counting: Counting,
    /// Number of the state that says how far it is; see [`crate::sequence`].
    pub(crate) state: u64,
    /// Where the state begins.
    pub(crate) origin: Progress,
    /// The storage that has its table lock, and no rows.
    pub storage: StorageId,
    /// Version of its definition, as of a table's schema.
    pub schema_version: u64,
    /// The column with which it is dropped: the table's OID, and the attribute number.
    pub owned_by: Option<(u32, i16)>,
    /// Whether it is an identity column's.
    pub is_identity: bool,
}

impl Sequence {
    /// The storage definition for the engine.
    #[must_use]
    pub fn definition(&self) -> StorageDefinition {
        StorageDefinition {
            id: self.storage,
            schema_version: self.schema_version,
            indexes: Vec::new(),
        }
    }

    /// How it counts, and where its state begins.
    pub(crate) const fn settled(&self) -> Settled {
        Settled {
            data_type: self.data_type,
            counting: self.counting,
            progress: self.origin,
        }
    }
}

/// Encodes a sequence.
pub(super) fn encode(out: &mut Vec<u8>, sequence: &Sequence) {
    let counting = &sequence.counting;
    out.extend_from_slice(&sequence.data_type.oid().to_le_bytes());
    for number in [
        counting.start,
        counting.increment,
        counting.minimum,
        counting.maximum,
        counting.cache,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let flags = [
        (counting.cycle, CYCLES),
        (sequence.owned_by.is_some(), OWNED),
        (sequence.is_identity, IDENTITY),
        (sequence.origin.is_called, CALLED),
    ];
    let set = flags.iter().filter(|(set, _)| *set);
    out.push(set.fold(0, |all, (_, flag)| all | flag));
    if let Some((table, attribute)) = sequence.owned_by {
        out.extend_from_slice(&table.to_le_bytes());
        out.extend_from_slice(&(attribute as u16).to_le_bytes());
    }
    out.extend_from_slice(&sequence.storage.0.to_le_bytes());
    out.extend_from_slice(&sequence.schema_version.to_le_bytes());
    out.extend_from_slice(&sequence.state.to_le_bytes());
    out.extend_from_slice(&sequence.origin.last.to_le_bytes());
}

/// Decodes a sequence.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Sequence> {
    let number = reader.u32()?;
    let data_type = DataType::from_oid(number)
        .filter(|known| matches!(known, DataType::Int2 | DataType::Int4 | DataType::Int8))
        .ok_or_else(|| damaged(&format!("no sequence is of type {number}")))?;
    let mut counting = Counting {
        start: reader.i64()?,
        increment: reader.i64()?,
        minimum: reader.i64()?,
        maximum: reader.i64()?,
        cache: reader.i64()?,
        cycle: false,
    };
    let flags = reader.u8()?;
    counting.cycle = flags & CYCLES != 0;
    if counting.increment == 0 || counting.minimum > counting.maximum || counting.cache < 1 {
        return Err(damaged("a sequence has no numbers"));
    }
    let owned_by = if flags & OWNED == 0 {
        None
    } else {
        let (table, attribute) = (reader.u32()?, reader.u16()?);
        let attribute = i16::try_from(attribute)
            .map_err(|_| damaged("a sequence belongs to a column that there cannot be"))?;
        Some((table, attribute))
    };
    Ok(Sequence {
        data_type,
        counting,
        storage: StorageId(reader.u32()?),
        schema_version: reader.u64()?,
        state: reader.u64()?,
        origin: Progress {
            last: reader.i64()?,
            is_called: flags & CALLED != 0,
            reserved: 0,
        },
        owned_by,
        is_identity: flags & IDENTITY != 0,
    })
}

impl Catalog {
    /// All sequences, with their objects, ordered by OID.
    pub fn sequences(&self) -> impl Iterator<Item = (&Arc<Object>, &Sequence)> {
        self.objects().filter_map(|object| match &object.content {
            Content::Sequence(sequence) => Some((object, sequence)),
            Content::View(_) => None,
        })
    }

    /// The sequence with this OID.
    #[must_use]
    pub fn sequence(&self, oid: u32) -> Option<(&Arc<Object>, &Sequence)> {
        let object = self.object_by_oid(oid)?;
        match &object.content {
            Content::Sequence(sequence) => Some((object, sequence)),
            Content::View(_) => None,
        }
    }

    /// The sequence that belongs to a column: its identity's, if it has one.
    #[must_use]
    pub fn sequence_of_column(
        &self,
        table: u32,
        attribute: i16,
    ) -> Option<(&Arc<Object>, &Sequence)> {
        let of_column = |(_, sequence): &(&Arc<Object>, &Sequence)| {
            sequence.owned_by == Some((table, attribute))
        };
        let identity = self.sequences().filter(of_column);
        let identity = identity.filter(|(_, sequence)| sequence.is_identity);
        identity.chain(self.sequences().filter(of_column)).next()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::catalog) fn sequence() -> Sequence {
        Sequence {
            data_type: DataType::Int4,
            counting: Counting {
                start: 5,
                increment: -2,
                minimum: -100,
                maximum: 9,
                cache: 7,
                cycle: true,
            },
            state: 1 << 33,
            origin: Progress {
                last: 3,
                is_called: true,
                reserved: 0,
            },
            storage: StorageId(77),
            schema_version: 12,
            owned_by: Some((16_384, 3)),
            is_identity: true,
        }
    }

    #[test]
    fn a_sequence_comes_back() {
        for sequence in [
            sequence(),
            Sequence {
                owned_by: None,
                is_identity: false,
                ..sequence()
            },
        ] {
            let mut bytes = Vec::new();
            encode(&mut bytes, &sequence);
            let mut reader = Reader(&bytes);
            assert_eq!(decode(&mut reader).unwrap(), sequence);
            reader.end().unwrap();
        }
    }
}
