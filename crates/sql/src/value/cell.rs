//! Values as cells of rows in storage and log: compact, and read without their
//! neighbours.
//!
//! | type | bytes |
//! | --- | --- |
//! | boolean | 1: 0 or 1 |
//! | integers, dates, timestamps, floats | little endian, of their width |
//! | strings | UTF-8; `char(n)` without its padding |
//! | numeric | scale, 2 bytes (65,533 −∞, 65,534 ∞, 65,535 NaN), then the unscaled number, two's complement, little endian, as short as can be |
//!
//! A null has no bytes: the row says so.

use num_bigint::BigInt;

use super::{DataType, Numeric, Value};
use crate::{Error, Result};

const NEGATIVE_INFINITY: u16 = u16::MAX - 2;
const INFINITY: u16 = u16::MAX - 1;
const NOT_A_NUMBER: u16 = u16::MAX;

impl Value {
    /// Appends the cell of a value that is not null and is of a storable type.
    pub fn write_cell(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(truth) => out.push(u8::from(*truth)),
            Self::Int2(number) => out.extend_from_slice(&number.to_le_bytes()),
            Self::Int4(number) | Self::Date(number) => out.extend_from_slice(&number.to_le_bytes()),
            Self::Int8(number) | Self::Timestamp(number) | Self::TimestampTz(number) => {
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::Float4(number) => out.extend_from_slice(&number.to_le_bytes()),
            Self::Float8(number) => out.extend_from_slice(&number.to_le_bytes()),
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Numeric(number) => match (number.parts(), &**number) {
                (Some((unscaled, scale)), _) => {
                    out.extend_from_slice(&(scale as u16).to_le_bytes());
                    out.extend_from_slice(&unscaled.to_signed_bytes_le());
                }
                (None, Numeric::Infinity) => out.extend_from_slice(&INFINITY.to_le_bytes()),
                (None, Numeric::NegativeInfinity) => {
                    out.extend_from_slice(&NEGATIVE_INFINITY.to_le_bytes());
                }
                (None, _) => out.extend_from_slice(&NOT_A_NUMBER.to_le_bytes()),
            },
            Self::Oid(number) | Self::Object(number, _) => {
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::Char(byte) => out.push(*byte),
            Self::Null | Self::Array(_) => {
                debug_assert!(false, "{self:?} has no cell");
            }
        }
    }

    /// Reads a cell. Fails only when the bytes are not what [`Value::write_cell`]
    /// wrote for this type: damage, or a mistake of this program.
    #[inline]
    pub fn from_cell(cell: Option<&[u8]>, data_type: DataType) -> Result<Self> {
        let Some(bytes) = cell else {
            return Ok(Self::Null);
        };
        Ok(match data_type {
            DataType::Bool => Self::Bool(exact::<1>(bytes)?[0] != 0),
            DataType::Int2 => Self::Int2(i16::from_le_bytes(exact(bytes)?)),
            DataType::Int4 => Self::Int4(i32::from_le_bytes(exact(bytes)?)),
            DataType::Int8 => Self::Int8(i64::from_le_bytes(exact(bytes)?)),
            DataType::Float4 => Self::Float4(f32::from_le_bytes(exact(bytes)?)),
            DataType::Float8 => Self::Float8(f64::from_le_bytes(exact(bytes)?)),
            DataType::Text | DataType::VarChar | DataType::Char | DataType::Name => {
                Self::text(std::str::from_utf8(bytes).map_err(|_| damaged())?)
            }
            DataType::Date => Self::Date(i32::from_le_bytes(exact(bytes)?)),
            DataType::Timestamp => Self::Timestamp(i64::from_le_bytes(exact(bytes)?)),
            DataType::TimestampTz => Self::TimestampTz(i64::from_le_bytes(exact(bytes)?)),
            DataType::Numeric => Self::Numeric(Box::new(numeric(bytes)?)),
            DataType::Oid => Self::Oid(u32::from_le_bytes(exact(bytes)?)),
            DataType::InternalChar => Self::Char(exact::<1>(bytes)?[0]),
            _ => return Err(damaged()),
        })
    }
}

fn damaged() -> Error {
    Error::internal("a cell is not of its column's type")
}

fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| damaged())
}

fn numeric(bytes: &[u8]) -> Result<Numeric> {
    let (scale, unscaled) = bytes.split_at_checked(2).ok_or_else(damaged)?;
    match u16::from_le_bytes(exact(scale)?) {
        NOT_A_NUMBER => Ok(Numeric::NaN),
        INFINITY => Ok(Numeric::Infinity),
        NEGATIVE_INFINITY => Ok(Numeric::NegativeInfinity),
        scale => Numeric::from_parts(BigInt::from_signed_bytes_le(unscaled), u32::from(scale)),
    }
}
