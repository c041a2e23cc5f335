//! The results of `json_agg`, `json_object_agg` and their forms for `jsonb`.

use super::Row;
use crate::expression::json::{append_json, append_key, json_of, key_of};
use crate::expression::{AggregateCall, AggregateFunction, EvaluationContext};
use crate::value::DataType;
use crate::value::json::Json;
use crate::{Error, Result, SqlState, Value};

fn null_key() -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        "field name must not be null",
    )
}

/// The document of collected rows: sort keys, value or key, and the value of the key.
pub(super) fn document(
    rows: Vec<(Row, Value, Value)>,
    call: &AggregateCall,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let given = call.argument_type;
    let json = DataType::Json.into();
    let mut out = Vec::new();
    match call.function {
        AggregateFunction::JsonArray { lines } => {
            out.push(b'[');
            for (at, (_, value, _)) in rows.iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                    if lines && !value.is_null() {
                        out.extend_from_slice(b"\n ");
                    }
                }
                append_json(value, given, context, &mut out)?;
            }
            out.push(b']');
        }
        AggregateFunction::JsonObject => {
            out.extend_from_slice(b"{ ");
            for (at, (_, key, value)) in rows.iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                if key.is_null() {
                    return Err(null_key());
                }
                append_key(key, given, context, &mut out)?;
                out.extend_from_slice(b" : ");
                append_json(value, json, context, &mut out)?;
            }
            out.extend_from_slice(b" }");
        }
        AggregateFunction::JsonbObject => {
            let mut pairs = Vec::with_capacity(rows.len());
            for (_, key, value) in &rows {
                if key.is_null() {
                    return Err(null_key());
                }
                let key = key_of(key, given, context)?;
                pairs.push((key, json_of(value, DataType::Jsonb.into(), context)?));
            }
            return Json::object(pairs).encode().map(Value::Jsonb);
        }
        _ => {
            let mut elements = Vec::with_capacity(rows.len());
            for (_, value, _) in &rows {
                elements.push(json_of(value, given, context)?);
            }
            return Json::Array(elements).encode().map(Value::Jsonb);
        }
    }
    context.claim(out.len())?;
    Ok(Value::text(String::from_utf8_lossy(&out)))
}
