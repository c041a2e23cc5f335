//! Columns whose values the database makes: a section of a table's description.
//!
//! ```text
//!   u16 n × { u16 attribute, u8 kind, [string expression] }
//!   kind 1 stored, with its expression; 2 identity ALWAYS; 3 identity BY DEFAULT
//! ```

use crate::error::Result;
use crate::record::{Reader, count, damaged, string};

const STORED: u8 = 1;
const ALWAYS: u8 = 2;
const BY_DEFAULT: u8 = 3;

/// How the database makes a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generation {
    /// GENERATED ALWAYS AS … STORED: from the other columns, by an expression in SQL.
    Stored(String),
    /// GENERATED … AS IDENTITY: by the sequence that belongs to the column.
    Identity {
        /// Whether a statement must say OVERRIDING SYSTEM VALUE to give another value.
        always: bool,
    },
}

impl Generation {
    /// The expression that the column is computed by.
    #[must_use]
    pub fn expression(&self) -> Option<&str> {
        match self {
            Self::Stored(expression) => Some(expression),
            Self::Identity { .. } => None,
        }
    }

    /// Whether the column is an identity column.
    #[must_use]
    pub const fn is_identity(&self) -> bool {
        matches!(self, Self::Identity { .. })
    }
}

/// Encodes how columns are made, by their attribute numbers.
pub(super) fn encode<'a>(made: impl Iterator<Item = (i16, &'a Generation)>) -> Vec<u8> {
    let made: Vec<_> = made.collect();
    let mut out = Vec::new();
    count(&mut out, made.len());
    for (attribute, generation) in made {
        out.extend_from_slice(&(attribute as u16).to_le_bytes());
        match generation {
            Generation::Stored(expression) => {
                out.push(STORED);
                string(&mut out, expression);
            }
            Generation::Identity { always: true } => out.push(ALWAYS),
            Generation::Identity { always: false } => out.push(BY_DEFAULT),
        }
    }
    out
}

/// Decodes how columns are made.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Vec<(i16, Generation)>> {
    reader.list(|reader| {
        let attribute = attribute(reader)?;
        let generation = match reader.u8()? {
            STORED => Generation::Stored(reader.string()?),
            ALWAYS => Generation::Identity { always: true },
            BY_DEFAULT => Generation::Identity { always: false },
            other => return Err(damaged(&format!("no column is made in way {other}"))),
        };
        Ok((attribute, generation))
    })
}

fn attribute(reader: &mut Reader<'_>) -> Result<i16> {
    i16::try_from(reader.u16()?).map_err(|_| damaged("a column's number is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_columns_come_back() {
        let made = vec![
            (1, Generation::Identity { always: true }),
            (2, Generation::Identity { always: false }),
            (4, Generation::Stored("a * 2".to_owned())),
        ];
        let all = made.iter().map(|(attribute, each)| (*attribute, each));
        let encoded = encode(all);
        let decoded = decode(&mut Reader(&encoded)).unwrap();
        assert_eq!(decoded, made);
        for length in 0..encoded.len() {
            assert!(decode(&mut Reader(&encoded[..length])).is_err());
        }
    }
}
