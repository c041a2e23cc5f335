//! Order of `jsonb`, and the index keys that compare as it does.
//!
//! Null < string < number < boolean < array < object. Of two arrays or two objects the one with
//! fewer parts is less; then the parts decide, from the first: in an object key, value,
//! key, value. Strings and keys compare by their bytes. One exception is PostgreSQL's: a
//! document that is an empty array is less than every other.
//!
//! ```text
//!   document       00                     an empty array
//!                  value                  any other
//!   value          01                     null
//!                  02 UTF-8 00            string, which has no NUL
//!                  03 key of a numeric    number
//!                  04, 05                 false, true
//!                  06 u32 count, values
//!                  07 u32 count, (UTF-8 00, value)…
//! ```
//!
//! Counts are big endian. No value's key is the beginning of another's.

use std::cmp::Ordering;

use smol_str::SmolStr;

use super::super::key_read::KeyReader;
use super::super::operations::{Representation, TypeOperations};
use super::super::{Value, types};
use super::{DEEPEST, Json, JsonView, Jsonb, deeper};

const EMPTY_ARRAY: u8 = 0;
const NULL: u8 = 1;
const STRING: u8 = 2;
const NUMBER: u8 = 3;
const FALSE: u8 = 4;
const TRUE: u8 = 5;
const ARRAY: u8 = 6;
const OBJECT: u8 = 7;

const fn class(view: &JsonView<'_>) -> u8 {
    match view {
        JsonView::Null => NULL,
        JsonView::String(_) => STRING,
        JsonView::Number(_) => NUMBER,
        JsonView::Bool(false) => FALSE,
        JsonView::Bool(true) => TRUE,
        JsonView::Array(_) => ARRAY,
        JsonView::Object(_) => OBJECT,
    }
}

/// Whether a document is an empty array.
fn is_empty_array(view: &JsonView<'_>) -> bool {
    matches!(view, JsonView::Array(array) if array.len() == 0)
}

/// Compares two documents.
pub(in crate::value) fn compare(left: &Jsonb, right: &Jsonb) -> Ordering {
    if left.bytes() == right.bytes() {
        return Ordering::Equal;
    }
    let (left, right) = (left.view(), right.view());
    match (is_empty_array(&left), is_empty_array(&right)) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => compare_values(&left, &right),
    }
}

/// Compares two values.
pub(crate) fn compare_values(left: &JsonView<'_>, right: &JsonView<'_>) -> Ordering {
    match (left, right) {
        (JsonView::String(left), JsonView::String(right)) => left.as_bytes().cmp(right.as_bytes()),
        (JsonView::Number(left), JsonView::Number(right)) => left.cmp(right),
        (JsonView::Array(left), JsonView::Array(right)) => {
            left.len().cmp(&right.len()).then_with(|| {
                deeper(|| {
                    left.iter()
                        .zip(right.iter())
                        .map(|(left, right)| compare_values(&left, &right))
                        .find(|order| order.is_ne())
                        .unwrap_or(Ordering::Equal)
                })
            })
        }
        (JsonView::Object(left), JsonView::Object(right)) => {
            left.len().cmp(&right.len()).then_with(|| {
                deeper(|| {
                    left.iter()
                        .zip(right.iter())
                        .map(|((key, left), (other, right))| {
                            key.as_bytes()
                                .cmp(other.as_bytes())
                                .then_with(|| compare_values(&left, &right))
                        })
                        .find(|order| order.is_ne())
                        .unwrap_or(Ordering::Equal)
                })
            })
        }
        _ => class(left).cmp(&class(right)),
    }
}

/// Appends the key of a document.
pub(in crate::value) fn write_key(jsonb: &Jsonb, key: &mut Vec<u8>) {
    let view = jsonb.view();
    if is_empty_array(&view) {
        key.push(EMPTY_ARRAY);
    } else {
        write_value(&view, key);
    }
}

fn write_value(view: &JsonView<'_>, key: &mut Vec<u8>) {
    key.push(class(view));
    match view {
        JsonView::Null | JsonView::Bool(_) => {}
        JsonView::String(text) => {
            key.extend_from_slice(text.as_bytes());
            key.push(0);
        }
        JsonView::Number(number) => types::Numeric::write_key(number, key),
        JsonView::Array(array) => {
            key.extend_from_slice(&(array.len() as u32).to_be_bytes());
            deeper(|| array.iter().for_each(|element| write_value(&element, key)));
        }
        JsonView::Object(object) => {
            key.extend_from_slice(&(object.len() as u32).to_be_bytes());
            deeper(|| {
                for (name, value) in object.iter() {
                    key.extend_from_slice(name.as_bytes());
                    key.push(0);
                    write_value(&value, key);
                }
            });
        }
    }
}

/// Decodes the key of a document.
pub(in crate::value) fn read_key(key: &mut KeyReader<'_>) -> Option<Jsonb> {
    let class = key.u8()?;
    let json = if class == EMPTY_ARRAY {
        Json::Array(Vec::new())
    } else {
        read_value(class, key, 0)?
    };
    json.encode().ok()
}

fn read_text(key: &mut KeyReader<'_>) -> Option<SmolStr> {
    String::from_utf8(key.until_zero()?).ok().map(SmolStr::from)
}

fn read_value(class: u8, key: &mut KeyReader<'_>, depth: usize) -> Option<Json> {
    if depth > DEEPEST {
        return None;
    }
    Some(match class {
        NULL => Json::Null,
        STRING => Json::String(read_text(key)?),
        // The number's reader may leave the key inverted, which is for it alone.
        NUMBER => {
            let Value::Numeric(number) = key.apart(types::Numeric::read_key)? else {
                return None;
            };
            Json::Number(*number)
        }
        FALSE => Json::Bool(false),
        TRUE => Json::Bool(true),
        ARRAY => {
            let count = key.u32()?;
            let mut elements = Vec::new();
            deeper(|| {
                for _ in 0..count {
                    let class = key.u8()?;
                    elements.push(read_value(class, key, depth + 1)?);
                }
                Some(())
            })?;
            Json::Array(elements)
        }
        OBJECT => {
            let count = key.u32()?;
            let mut pairs = Vec::new();
            deeper(|| {
                for _ in 0..count {
                    let name = read_text(key)?;
                    let class = key.u8()?;
                    pairs.push((name, read_value(class, key, depth + 1)?));
                }
                Some(())
            })?;
            Json::object(pairs)
        }
        _ => return None,
    })
}
