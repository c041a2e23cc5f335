//! Built-in SQL functions on `json` and `jsonb`. Operators such as `->` and `@>` are these
//! functions, too, under PostgreSQL's names (`expression/bind/json.rs` maps them).
//!
//! | file | functions that |
//! | --- | --- |
//! | `lookup` | look into a document: `->`, `#>`, `?`, `@>`, `jsonb_typeof` |
//! | `build` | make a document of values: `to_jsonb`, `json_build_object` |
//! | `change` | make a changed copy of a `jsonb`: `jsonb_set`, `-`, `\|\|` |
//! | `record` | make values of a document: casts, `jsonb_to_record` |
//! | `sets` | return a row for each part: `jsonb_each` |
//! | `path` | evaluate a `jsonpath`: `jsonb_path_query`, `@?` |

mod build;
mod change;
mod lookup;
mod path;
mod path_items;
mod record;
mod sets;

use std::sync::Arc;

pub(crate) use build::{ROW, append_json, append_key, is_structured, json_of, key_of, names};
pub(crate) use record::cast_scalar;
pub(crate) use sets::{JsonSet, Record, RecordColumn, json_set, record_arguments};

use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function};
use crate::value::json::{Json, JsonView, RawKind, unescaped};
use crate::value::{Jsonb, Value};
use crate::{Error, Result, SqlState};

/// The functions of all files, but for those that return sets.
pub(super) const FUNCTIONS: &[&[Function]] = &[
    lookup::FUNCTIONS,
    build::FUNCTIONS,
    change::FUNCTIONS,
    path::FUNCTIONS,
];

/// Length of a document in bytes from which making a tree of it claims memory.
const CLAIMED_FROM: usize = 64 << 10;

/// Bytes of a tree for each byte of its document: `[0,0]` has a node for every two bytes.
pub(crate) const TREE_PER_BYTE: usize = 24;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A `jsonb` argument; `None` if the value is not one.
fn jsonb<'a>(a: Arguments<'a>, position: usize) -> Option<&'a Jsonb> {
    match a.values.get(position) {
        Some(Value::Jsonb(document)) => Some(document),
        _ => None,
    }
}

/// Views a `jsonb` argument; null if the value is not one.
fn view<'a>(a: Arguments<'a>, position: usize) -> JsonView<'a> {
    jsonb(a, position).map_or(JsonView::Null, Jsonb::view)
}

/// The tree of a `jsonb` argument.
fn tree(a: Arguments<'_>, position: usize, context: &mut EvaluationContext<'_>) -> Result<Json> {
    let Some(document) = jsonb(a, position) else {
        return Ok(Json::Null);
    };
    let bytes = document.bytes().len();
    if bytes > CLAIMED_FROM {
        context.claim(bytes.saturating_mul(TREE_PER_BYTE))?;
    }
    context.work(bytes)?;
    Ok(document.tree())
}

/// The value of a tree.
fn value(json: &Json) -> Result<Value> {
    json.encode().map(Value::Jsonb)
}

/// A part of a document as a value of type `jsonb`.
fn part(bytes: Option<&[u8]>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let Some(bytes) = bytes else {
        return Ok(Value::Null);
    };
    context.work(bytes.len())?;
    Ok(Value::Jsonb(Jsonb::from_bytes(bytes)))
}

/// A part of a document as text: a string without its quotes, SQL NULL for null.
fn text_of(view: JsonView<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(match view {
        JsonView::Null => Value::Null,
        JsonView::String(text) => {
            context.work(text.len())?;
            Value::text(text)
        }
        other => {
            let mut out = Vec::new();
            crate::value::json::write(other, &mut out);
            context.work(out.len())?;
            Value::text(String::from_utf8_lossy(&out))
        }
    })
}

/// A JSON text as text: a string without its quotes, SQL NULL for null.
fn text_of_raw(text: &str, kind: RawKind) -> Result<Value> {
    Ok(match kind {
        RawKind::Null => Value::Null,
        RawKind::String => Value::text(unescaped(text)?),
        RawKind::Bool | RawKind::Number | RawKind::Array | RawKind::Object => Value::text(text),
    })
}

/// The elements of an argument that is an array of text; an element may be null.
fn texts<'a>(a: Arguments<'a>, position: usize) -> Vec<Option<&'a str>> {
    let elements: &[Value] = match a.values.get(position) {
        Some(Value::Array(elements)) => elements,
        _ => &[],
    };
    elements
        .iter()
        .map(|element| match element {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// An array of values.
fn array(values: Vec<Value>) -> Value {
    Value::Array(Arc::from(values))
}

/// The position of an element, which is counted from the end if it is negative.
fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let at = if index < 0 { length + index } else { index };
    usize::try_from(at).ok().filter(|_| at < length)
}

/// The number that a step of a path gives for an array.
fn subscript(step: &str) -> Option<i64> {
    step.trim_start().parse::<i32>().ok().map(i64::from)
}
