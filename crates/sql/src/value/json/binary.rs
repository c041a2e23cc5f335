//! The binary form of `jsonb`, which rows store and operators read in place.
//!
//! ```text
//!   value   payload, then its kind (u8)
//!     0 null, 1 false, 2 true     no payload
//!     3 number                    the cell of a numeric
//!     4 string                    UTF-8
//!     5 array                     values, end of each, count
//!     6 object                    keys, values, end of each key, end of each value, count
//! ```
//!
//! A value's length is known from outside: a document is a whole cell, and a container knows
//! where each of its parts ends, counted from the first value or key. Ends and counts are
//! little endian and as wide as the container needs: kinds 5 and 6 have 0x00, 0x10 or 0x20
//! added for 1, 2 or 4 bytes. Because the kind comes last, an encoder writes front to back
//! and never moves a byte.
//!
//! A reader finds an element by its position in two steps, and a key by binary search. It
//! checks every bound: bytes that are not what [`encode`] writes read as null or as absent.

use super::super::Value;
use super::super::data_type::DataType;
use super::super::operations::Representation;
use super::super::types;
use super::{DEEPEST, Json, LONGEST, Numeric, deeper, key_order, too_deep, too_long};
use crate::Result;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

/// Width of ends and counts: 1, 2 or 4 bytes.
#[derive(Clone, Copy)]
struct Width(u8);

impl Width {
    fn for_largest(number: usize) -> Self {
        Self(if number <= usize::from(u8::MAX) {
            0
        } else if number <= usize::from(u16::MAX) {
            1
        } else {
            2
        })
    }

    const fn bytes(self) -> usize {
        1 << self.0
    }

    fn put(self, number: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&(number as u32).to_le_bytes()[..self.bytes()]);
    }

    fn get(self, bytes: &[u8], position: usize) -> Option<usize> {
        let start = position.checked_mul(self.bytes())?;
        let taken = bytes.get(start..start.checked_add(self.bytes())?)?;
        let number = taken
            .iter()
            .rev()
            .fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        usize::try_from(number).ok()
    }
}

/// Appends the encoding of a value that has `depth` containers around it.
pub(super) fn encode(json: &Json, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    let start = out.len();
    match json {
        Json::Null => out.push(NULL),
        Json::Bool(truth) => out.push(if *truth { TRUE } else { FALSE }),
        Json::Number(number) => {
            types::Numeric::write_cell(number, out);
            out.push(NUMBER);
        }
        Json::String(text) => {
            out.extend_from_slice(text.as_bytes());
            out.push(STRING);
        }
        Json::Array(elements) => {
            let mut ends = Vec::with_capacity(elements.len());
            deeper(|| -> Result<()> {
                for element in elements {
                    encode(element, depth + 1, out)?;
                    ends.push(out.len() - start);
                }
                Ok(())
            })?;
            close(start, &ends, elements.len(), ARRAY, out)
                .ok_or_else(|| too_long("array elements"))?;
        }
        Json::Object(pairs) => {
            let mut ends = Vec::with_capacity(2 * pairs.len());
            for (key, _) in pairs {
                out.extend_from_slice(key.as_bytes());
                ends.push(out.len() - start);
            }
            deeper(|| -> Result<()> {
                for (_, value) in pairs {
                    encode(value, depth + 1, out)?;
                    ends.push(out.len() - start);
                }
                Ok(())
            })?;
            close(start, &ends, pairs.len(), OBJECT, out)
                .ok_or_else(|| too_long("object elements"))?;
        }
    }
    Ok(())
}

/// Appends the ends of a container's parts, their count and the container's kind; `None` if
/// it is too long.
fn close(start: usize, ends: &[usize], count: usize, kind: u8, out: &mut Vec<u8>) -> Option<()> {
    let length = out.len() - start;
    if length > LONGEST {
        return None;
    }
    let width = Width::for_largest(length.max(count));
    for end in ends {
        width.put(*end, out);
    }
    width.put(count, out);
    out.push(kind | width.0 << 4);
    Some(())
}

/// A value of a document, read in place.
#[derive(Clone, Debug)]
pub(crate) enum JsonView<'a> {
    Null,
    Bool(bool),
    Number(Numeric),
    String(&'a str),
    Array(ArrayView<'a>),
    Object(ObjectView<'a>),
}

/// An array of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayView<'a> {
    values: &'a [u8],
    ends: &'a [u8],
    width: u8,
    count: usize,
}

/// An object of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectView<'a> {
    /// Keys, then values.
    parts: &'a [u8],
    /// Ends of the keys, then of the values.
    ends: &'a [u8],
    width: u8,
    count: usize,
}

impl<'a> JsonView<'a> {
    /// Reads an encoded value.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let Some((kind, payload)) = bytes.split_last() else {
            return Self::Null;
        };
        match kind {
            &FALSE => Self::Bool(false),
            &TRUE => Self::Bool(true),
            &NUMBER => match Value::from_cell(Some(payload), DataType::Numeric) {
                Ok(Value::Numeric(number)) => Self::Number(*number),
                Ok(_) | Err(_) => Self::Null,
            },
            &STRING => Self::String(std::str::from_utf8(payload).unwrap_or_default()),
            kind => container(kind & 0x0F, kind >> 4, payload).unwrap_or(Self::Null),
        }
    }

    /// Whether the value is neither an array nor an object.
    pub(crate) const fn is_scalar(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Object(_))
    }

    /// The kind of the value, as `jsonb_typeof` names it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

fn container(kind: u8, width: u8, payload: &[u8]) -> Option<JsonView<'_>> {
    if width > 2 {
        return None;
    }
    let bytes = Width(width).bytes();
    let (rest, count) = payload.split_at_checked(payload.len().checked_sub(bytes)?)?;
    let count = Width(width).get(count, 0)?;
    let lists = match kind {
        ARRAY => 1,
        OBJECT => 2,
        _ => return None,
    };
    let table = count.checked_mul(lists)?.checked_mul(bytes)?;
    let (parts, ends) = rest.split_at_checked(rest.len().checked_sub(table)?)?;
    Some(if kind == ARRAY {
        JsonView::Array(ArrayView {
            values: parts,
            ends,
            width,
            count,
        })
    } else {
        JsonView::Object(ObjectView {
            parts,
            ends,
            width,
            count,
        })
    })
}

/// The part with this number, of parts that end where `ends` says.
fn part<'a>(parts: &'a [u8], ends: &[u8], width: u8, number: usize) -> Option<&'a [u8]> {
    let start = match number.checked_sub(1) {
        None => 0,
        Some(before) => Width(width).get(ends, before)?,
    };
    parts.get(start..Width(width).get(ends, number)?)
}

impl<'a> ArrayView<'a> {
    /// Number of elements.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// The encoding of the element at a position, counted from 0.
    pub(crate) fn raw(&self, position: usize) -> Option<&'a [u8]> {
        if position >= self.count {
            return None;
        }
        part(self.values, self.ends, self.width, position)
    }

    /// The element at a position, counted from 0.
    pub(crate) fn get(&self, position: usize) -> Option<JsonView<'a>> {
        self.raw(position).map(JsonView::of)
    }

    /// All elements.
    pub(crate) fn iter(self) -> impl Iterator<Item = JsonView<'a>> {
        (0..self.count).map(move |position| self.get(position).unwrap_or(JsonView::Null))
    }
}

impl<'a> ObjectView<'a> {
    /// Number of pairs.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// The key of the pair with this number.
    fn key(&self, number: usize) -> &'a str {
        part(self.parts, self.ends, self.width, number)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    /// The value of the pair with this number.
    fn value(&self, number: usize) -> JsonView<'a> {
        part(self.parts, self.ends, self.width, self.count + number)
            .map_or(JsonView::Null, JsonView::of)
    }

    /// The value of a key.
    pub(crate) fn get(&self, wanted: &str) -> Option<JsonView<'a>> {
        self.raw(wanted).map(JsonView::of)
    }

    /// The encoding of a key's value.
    pub(crate) fn raw(&self, wanted: &str) -> Option<&'a [u8]> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match key_order(self.key(middle), wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    return part(self.parts, self.ends, self.width, self.count + middle);
                }
            }
        }
        None
    }

    /// All keys, with the encodings of their values.
    pub(crate) fn raw_pairs(self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        (0..self.count).map(move |number| {
            let value = part(self.parts, self.ends, self.width, self.count + number);
            (self.key(number), value.unwrap_or_default())
        })
    }

    /// All pairs, in the order of their keys.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a str, JsonView<'a>)> {
        (0..self.count).map(move |number| (self.key(number), self.value(number)))
    }
}
