//! Functions that make a JSON document of values.
//!
//! How a value becomes JSON depends on its type, as in PostgreSQL: numbers and truth values
//! as they are, `json` and `jsonb` as documents, arrays as arrays, dates and times in ISO 8601
//! with a `T`, everything else as the string that it prints as.

use smol_str::SmolStr;

use super::super::kinds::{ANY, ARRAY, BOOL, ELEMENT, JSON, JSONB, TEXTS};
use super::lookup::parts;
use super::{array, invalid, texts, value};
use crate::expression::function::{Arguments, Function};
use crate::expression::{EvaluationContext, ROW as ROW_OF_WORK};
use crate::value::json::{Json, RawKind, escape_into, kind_of, parse_json, value_of, write};
use crate::value::{ColumnType, DataType, Numeric, Style, Value};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("to_json", &[ELEMENT], JSON, |a, context| {
        print(a, context, |a, context, out| {
            append_json(&a.values[0], a.types[0], context, out)
        })
    })
    .stable(),
    Function::new("to_jsonb", &[ELEMENT], JSONB, |a, context| {
        value(&json_of(&a.values[0], a.types[0], context)?)
    })
    .stable(),
    Function::new("array_to_json", &[ARRAY], JSON, array_to_json).stable(),
    Function::new("array_to_json", &[ARRAY, BOOL], JSON, array_to_json).stable(),
    Function::new("row_to_json", &[JSON], JSON, |a, _| Ok(a.values[0].clone())),
    Function::new("row_to_json", &[JSON, BOOL], JSON, |a, context| {
        if !a.truth(1) {
            return Ok(a.values[0].clone());
        }
        print(a, context, row_in_lines)
    }),
    Function::new("json_build_array", &[], JSON, |_, _| Ok(Value::text("[]"))),
    Function::new("json_build_array", &[ANY], JSON, |a, context| {
        print(a, context, |a, context, out| {
            out.push(b'[');
            for (at, (each, column_type)) in a.values.iter().zip(a.types).enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                append_json(each, *column_type, context, out)?;
            }
            out.push(b']');
            Ok(())
        })
    })
    .variadic()
    .null_aware()
    .stable(),
    Function::new("jsonb_build_array", &[], JSONB, |_, _| {
        value(&Json::Array(Vec::new()))
    }),
    Function::new("jsonb_build_array", &[ANY], JSONB, |a, context| {
        let mut elements = Vec::with_capacity(a.values.len());
        for (each, column_type) in a.values.iter().zip(a.types) {
            elements.push(json_of(each, *column_type, context)?);
        }
        value(&Json::Array(elements))
    })
    .variadic()
    .null_aware()
    .stable(),
    Function::new("json_build_object", &[], JSON, |_, _| Ok(Value::text("{}"))),
    Function::new("json_build_object", &[ANY], JSON, |a, context| {
        print(a, context, json_build_object)
    })
    .variadic()
    .null_aware()
    .stable(),
    Function::new("jsonb_build_object", &[], JSONB, |_, _| {
        value(&Json::Object(Vec::new()))
    }),
    Function::new("jsonb_build_object", &[ANY], JSONB, jsonb_build_object)
        .variadic()
        .null_aware()
        .stable(),
    Function::new("json_object", &[TEXTS], JSON, |a, context| {
        print(a, context, json_object)
    }),
    Function::new("json_object", &[TEXTS, TEXTS], JSON, |a, context| {
        print(a, context, json_object)
    }),
    Function::new("jsonb_object", &[TEXTS], JSONB, jsonb_object),
    Function::new("jsonb_object", &[TEXTS, TEXTS], JSONB, jsonb_object),
    Function::new("json_strip_nulls", &[JSON], JSON, |a, context| {
        print(a, context, |a, context, out| {
            let text = value_of(a.text(0));
            strip_nulls(text, kind_of(text)?, context, out)
        })
    }),
];

/// A row as JSON, for the binder: names of the fields in an array, then their values. A row
/// is `{"a":1,"b":2}`.
pub(crate) static ROW: Function = Function::new("row", &[ANY], JSON, |a, context| {
    print(a, context, |a, context, out| {
        let names = texts(a, 0);
        out.push(b'{');
        for (at, name) in names.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            escape_into(name.unwrap_or_default(), out);
            out.push(b':');
            if let (Some(each), Some(column_type)) = (a.values.get(at + 1), a.types.get(at + 1)) {
                append_json(each, *column_type, context, out)?;
            }
        }
        out.push(b'}');
        Ok(())
    })
})
.variadic()
.null_aware()
.stable();

/// Prints a value of type `json`.
fn print(
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
    print: impl FnOnce(Arguments<'_>, &mut EvaluationContext<'_>, &mut Vec<u8>) -> Result<()>,
) -> Result<Value> {
    let mut out = Vec::new();
    print(a, context, &mut out)?;
    context.claim(out.len())?;
    Ok(Value::text(String::from_utf8_lossy(&out)))
}

/// How a type's values become JSON.
enum JsonClass {
    Number,
    Bool,
    Json,
    Jsonb,
    Array(DataType),
    /// A date or a time: with the date and the time apart.
    Moment,
    Text,
}

fn json_class(data_type: DataType) -> JsonClass {
    match data_type {
        DataType::Bool => JsonClass::Bool,
        DataType::Json => JsonClass::Json,
        DataType::Jsonb => JsonClass::Jsonb,
        each if each.is_number() => JsonClass::Number,
        each if each.is_moment() => JsonClass::Moment,
        each => match each.element() {
            Some(element) if !each.is_vector() => JsonClass::Array(element),
            _ => JsonClass::Text,
        },
    }
}

/// Whether the type's values are arrays, which `json_agg` puts on lines of their own.
pub(crate) fn is_structured(data_type: DataType) -> bool {
    matches!(json_class(data_type), JsonClass::Array(_))
}

/// The text of a value, dates and times as JSON has them.
fn text(value: &Value, column_type: ColumnType, context: &EvaluationContext<'_>) -> String {
    let style = match json_class(column_type.data_type) {
        // ISO 8601 whatever the session's style is.
        JsonClass::Moment => Style {
            time_zone: context.session.style.time_zone,
            ..Style::default()
        },
        _ => context.session.style,
    };
    let printed = value.to_text(column_type, &style).unwrap_or_default();
    match json_class(column_type.data_type) {
        JsonClass::Moment => with_t(&printed),
        _ => printed.to_string(),
    }
}

/// `2024-01-02 03:04:05+00` as `2024-01-02T03:04:05+00:00`.
fn with_t(text: &str) -> String {
    let Some((day, time)) = text.split_once(' ').filter(|(_, time)| *time != "BC") else {
        return text.to_owned();
    };
    let (time, era) = match time.strip_suffix(" BC") {
        Some(time) => (time, " BC"),
        None => (time, ""),
    };
    // A zone of hours alone gets its minutes.
    let minutes = match time.rfind(['+', '-']) {
        Some(sign) if time.len() - sign == 3 => ":00",
        _ => "",
    };
    format!("{day}T{time}{minutes}{era}")
}

/// Whether a number's text is one that JSON has.
fn is_json_number(text: &str) -> bool {
    text.bytes()
        .next_back()
        .is_some_and(|last| last.is_ascii_digit())
}

/// Appends a value as JSON text.
pub(crate) fn append_json(
    value: &Value,
    column_type: ColumnType,
    context: &mut EvaluationContext<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    context.work(ROW_OF_WORK)?;
    let before = out.len();
    match (value, json_class(column_type.data_type)) {
        (Value::Null, _) => out.extend_from_slice(b"null"),
        (Value::Bool(truth), JsonClass::Bool) => {
            out.extend_from_slice(if *truth { b"true" } else { b"false" });
        }
        (Value::Text(text), JsonClass::Json) => out.extend_from_slice(text.as_bytes()),
        (Value::Jsonb(document), JsonClass::Jsonb) => write(document.view(), out),
        (Value::Array(elements), JsonClass::Array(element)) => {
            append_array(elements, element, b",", context, out)?;
        }
        (value, JsonClass::Number) => {
            let text = text(value, column_type, context);
            if is_json_number(&text) {
                out.extend_from_slice(text.as_bytes());
            } else {
                escape_into(&text, out);
            }
        }
        (value, _) => escape_into(&text(value, column_type, context), out),
    }
    grown(before, out, context)
}

/// Counts the work of what was appended, and claims memory when the output has grown much.
fn grown(before: usize, out: &[u8], context: &mut EvaluationContext<'_>) -> Result<()> {
    const STEP: usize = 1 << 20;
    context.work(out.len() - before)?;
    if out.len() / STEP > before / STEP {
        context.claim(out.len().saturating_mul(2))?;
    }
    Ok(())
}

fn append_array(
    elements: &[Value],
    element: DataType,
    separator: &[u8],
    context: &mut EvaluationContext<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.push(b'[');
    for (at, each) in elements.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(separator);
        }
        append_json(each, element.into(), context, out)?;
    }
    out.push(b']');
    Ok(())
}

/// A value as the tree of a `jsonb` document.
pub(crate) fn json_of(
    value: &Value,
    column_type: ColumnType,
    context: &mut EvaluationContext<'_>,
) -> Result<Json> {
    context.work(ROW_OF_WORK)?;
    Ok(match (value, json_class(column_type.data_type)) {
        (Value::Null, _) => Json::Null,
        (Value::Bool(truth), JsonClass::Bool) => Json::Bool(*truth),
        (Value::Text(text), JsonClass::Json) => parse_json(text, &mut |bytes| context.work(bytes))?,
        (Value::Jsonb(document), JsonClass::Jsonb) => {
            context.work(document.bytes().len())?;
            document.tree()
        }
        (Value::Array(elements), JsonClass::Array(element)) => {
            let mut values = Vec::with_capacity(elements.len());
            for each in elements.iter() {
                values.push(json_of(each, element.into(), context)?);
            }
            Json::Array(values)
        }
        (value, JsonClass::Number) => {
            let text = text(value, column_type, context);
            match Numeric::parse(&text)? {
                Some(number) if is_json_number(&text) => Json::Number(number),
                _ => Json::text(text),
            }
        }
        (value, _) => Json::text(text(value, column_type, context)),
    })
}

/// The text of a value that is a key.
fn key(
    value: &Value,
    column_type: ColumnType,
    context: &mut EvaluationContext<'_>,
) -> Result<String> {
    context.work(ROW_OF_WORK)?;
    match (value, json_class(column_type.data_type)) {
        (_, JsonClass::Json | JsonClass::Jsonb | JsonClass::Array(_)) => Err(invalid(
            "key value must be scalar, not array, composite, or json",
        )),
        (Value::Bool(truth), _) => Ok(truth.to_string()),
        (value, _) => Ok(text(value, column_type, context)),
    }
}

/// Appends a key as JSON text, for `json_object_agg`.
pub(crate) fn append_key(
    value: &Value,
    column_type: ColumnType,
    context: &mut EvaluationContext<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let before = out.len();
    escape_into(&key(value, column_type, context)?, out);
    grown(before, out, context)
}

/// A key of a `jsonb` object, for `jsonb_object_agg`.
pub(crate) fn key_of(
    value: &Value,
    column_type: ColumnType,
    context: &mut EvaluationContext<'_>,
) -> Result<SmolStr> {
    key(value, column_type, context).map(SmolStr::from)
}

/// Fails unless there is a value for each key.
fn check_pairs(a: Arguments<'_>, function: &str) -> Result<()> {
    if a.values.len().is_multiple_of(2) {
        return Ok(());
    }
    Err(
        invalid("argument list must have even number of elements").with_hint(format!(
            "The arguments of {function}() must consist of alternating keys and values."
        )),
    )
}

fn json_build_object(
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    check_pairs(a, "json_build_object")?;
    out.push(b'{');
    for at in (0..a.values.len()).step_by(2) {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        if a.values[at].is_null() {
            return Err(invalid(format!("argument {} cannot be null", at + 1))
                .with_hint("Object keys should be text."));
        }
        append_key(&a.values[at], a.types[at], context, out)?;
        out.extend_from_slice(b" : ");
        append_json(&a.values[at + 1], a.types[at + 1], context, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn jsonb_build_object(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    check_pairs(a, "jsonb_build_object")?;
    let mut pairs = Vec::with_capacity(a.values.len() / 2);
    for at in (0..a.values.len()).step_by(2) {
        if a.values[at].is_null() {
            return Err(invalid(format!(
                "argument {}: key must not be null",
                at + 1
            )));
        }
        let name = key_of(&a.values[at], a.types[at], context)?;
        pairs.push((name, json_of(&a.values[at + 1], a.types[at + 1], context)?));
    }
    value(&Json::object(pairs))
}

/// Keys and values of `json_object`: of one array in turn, or of two.
fn pairs<'a>(a: Arguments<'a>) -> Result<Vec<(&'a str, Option<&'a str>)>> {
    let wrong = |message: &str| Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message);
    let keys = texts(a, 0);
    let pairs: Vec<(Option<&str>, Option<&str>)> = if a.values.len() == 1 {
        if keys.len() % 2 == 1 {
            return Err(wrong("array must have even number of elements"));
        }
        keys.chunks(2).map(|pair| (pair[0], pair[1])).collect()
    } else {
        let values = texts(a, 1);
        if keys.len() != values.len() {
            return Err(wrong("mismatched array dimensions"));
        }
        keys.into_iter().zip(values).collect()
    };
    pairs
        .into_iter()
        .map(|(key, value)| match key {
            Some(key) => Ok((key, value)),
            None => Err(Error::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "null value not allowed for object key",
            )),
        })
        .collect()
}

fn json_object(
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.push(b'{');
    for (at, (key, value)) in pairs(a)?.into_iter().enumerate() {
        let before = out.len();
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        escape_into(key, out);
        out.extend_from_slice(b" : ");
        match value {
            Some(value) => escape_into(value, out),
            None => out.extend_from_slice(b"null"),
        }
        grown(before, out, context)?;
    }
    out.push(b'}');
    Ok(())
}

fn jsonb_object(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut made = Vec::new();
    for (key, value) in pairs(a)? {
        context.work(key.len() + value.map_or(0, str::len))?;
        made.push((SmolStr::from(key), value.map_or(Json::Null, Json::text)));
    }
    value(&Json::object(made))
}

fn array_to_json(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    print(a, context, |a, context, out| {
        let Some(Value::Array(elements)) = a.values.first() else {
            return Ok(());
        };
        let element = a.types[0].data_type.element().unwrap_or(DataType::Text);
        let separator: &[u8] = if a.truth(1) { b",\n " } else { b"," };
        append_array(elements, element, separator, context, out)
    })
}

/// A row with each field on a line of its own.
fn row_in_lines(
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.push(b'{');
    for (at, part) in parts(a.text(0), context)?.into_iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b",\n ");
        }
        escape_into(&part.key.unwrap_or_default(), out);
        out.push(b':');
        out.extend_from_slice(part.text.as_bytes());
    }
    out.push(b'}');
    Ok(())
}

/// Prints a JSON text without blanks, and without the fields that are null.
fn strip_nulls(
    text: &str,
    kind: RawKind,
    context: &mut EvaluationContext<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let (open, close) = match kind {
        RawKind::Object => (b'{', b'}'),
        RawKind::Array => (b'[', b']'),
        RawKind::String => {
            escape_into(&crate::value::json::unescaped(text)?, out);
            return Ok(());
        }
        RawKind::Null | RawKind::Bool | RawKind::Number => {
            out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
    };
    out.push(open);
    let mut is_first = true;
    for part in parts(text, context)? {
        if part.key.is_some() && part.kind == RawKind::Null {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        if let Some(key) = &part.key {
            escape_into(key, out);
            out.push(b':');
        }
        crate::expression::with_stack(|| strip_nulls(part.text, part.kind, context, out))?;
    }
    out.push(close);
    Ok(())
}

/// An array of texts, for [`ROW`].
pub(crate) fn names(names: impl IntoIterator<Item = SmolStr>) -> Value {
    array(names.into_iter().map(Value::Text).collect())
}
