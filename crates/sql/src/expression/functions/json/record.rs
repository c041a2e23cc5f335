//! Conversion of JSON to SQL values: casts of `jsonb` to scalars, and the fields of
//! `json_to_record` and `json_populate_record`.

use super::{invalid, text_of, text_of_raw};
use crate::expression::{EvaluationContext, ROW};
use crate::value::json::{JsonView, RawKind, children};
use crate::value::{ColumnType, DataType, Jsonb, Value};
use crate::{Error, Result, SqlState};

/// A part of a JSON value: encoded, or as text.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Binary(&'a [u8]),
    Raw(&'a str, RawKind),
}

/// The scalar that a `jsonb` is, for a cast to `target`: a truth value, or a numeric. Error
/// 22023 if it is another.
pub(crate) fn cast_scalar(document: &Jsonb, target: DataType) -> Result<Value> {
    let view = document.view();
    match view {
        JsonView::Bool(truth) if target == DataType::Bool => Ok(Value::Bool(truth)),
        JsonView::Number(number) if target != DataType::Bool => {
            Ok(Value::Numeric(Box::new(number)))
        }
        other => {
            let kind = match other.kind() {
                "number" => "numeric",
                kind => kind,
            };
            Err(invalid(format!(
                "cannot cast jsonb {kind} to type {target}"
            )))
        }
    }
}

/// The value of a column for a part of a document.
pub(super) fn field(
    part: Part<'_>,
    column_type: ColumnType,
    name: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    context.work(ROW)?;
    let is_string = match part {
        Part::Binary(bytes) => match JsonView::of(bytes) {
            JsonView::Null => return Ok(Value::Null),
            JsonView::String(_) => true,
            _ => false,
        },
        Part::Raw(_, RawKind::Null) => return Ok(Value::Null),
        Part::Raw(_, kind) => kind == RawKind::String,
    };
    if let Some(element) = column_type.data_type.element()
        && !is_string
    {
        return elements(part, element, name, context);
    }
    match (part, column_type.data_type) {
        (Part::Binary(bytes), DataType::Jsonb) => {
            context.work(bytes.len())?;
            return Ok(Value::Jsonb(Jsonb::from_bytes(bytes)));
        }
        (Part::Binary(bytes), DataType::Json) => {
            let text = Jsonb::from_bytes(bytes).to_text();
            context.work(text.len())?;
            return Ok(Value::text(text));
        }
        (Part::Raw(text, _), DataType::Json | DataType::Jsonb) => {
            context.work(text.len())?;
            return Value::parse(text, column_type, &context.session.style);
        }
        _ => {}
    }
    let text = match part {
        Part::Binary(bytes) => text_of(JsonView::of(bytes), context)?,
        Part::Raw(text, kind) => text_of_raw(text, kind)?,
    };
    match text {
        Value::Text(text) => {
            context.work(text.len())?;
            Value::parse(&text, column_type, &context.session.style)
        }
        _ => Ok(Value::Null),
    }
}

/// An array of the elements of a JSON array.
fn elements(
    part: Part<'_>,
    element: DataType,
    name: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let no_array = || {
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array")
            .with_hint(format!("See the value of key \"{name}\"."))
    };
    let is_json = matches!(element, DataType::Json | DataType::Jsonb);
    let nested = || Error::unsupported("an array of more than one dimension");
    let mut values = Vec::new();
    match part {
        Part::Binary(bytes) => {
            let JsonView::Array(array) = JsonView::of(bytes) else {
                return Err(no_array());
            };
            for at in 0..array.len() {
                let bytes = array.raw(at).unwrap_or_default();
                if !is_json && matches!(JsonView::of(bytes), JsonView::Array(_)) {
                    return Err(nested());
                }
                values.push(field(Part::Binary(bytes), element.into(), name, context)?);
            }
        }
        Part::Raw(text, kind) => {
            if kind != RawKind::Array {
                return Err(no_array());
            }
            for part in children(text, &mut |bytes| context.work(bytes))? {
                if !is_json && part.kind == RawKind::Array {
                    return Err(nested());
                }
                let part = Part::Raw(part.text, part.kind);
                values.push(field(part, element.into(), name, context)?);
            }
        }
    }
    Ok(super::array(values))
}
