//! Built-in SQL functions on arrays.

use std::ops::ControlFlow;

use super::kinds::{ARRAY, ELEMENT, INT4, TEXT, TEXTS};
use crate::Result;
use crate::expression::function::{Arguments, Function};
use crate::expression::{EvaluationContext, ROW, metered};
use crate::value::{ColumnType, DataType, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("array_length", &[ARRAY, INT4], INT4, |a, _| {
        Ok(match elements(a, 0) {
            [] => Value::Null,
            elements if a.integer(1) == 1 => Value::Int4(elements.len() as i32),
            _ => Value::Null,
        })
    }),
    Function::new("array_upper", &[ARRAY, INT4], INT4, |a, _| {
        let first = first_subscript(a);
        Ok(match elements(a, 0) {
            [] => Value::Null,
            elements if a.integer(1) == 1 => Value::Int4(elements.len() as i32 - 1 + first),
            _ => Value::Null,
        })
    }),
    Function::new("array_lower", &[ARRAY, INT4], INT4, |a, _| {
        let first = first_subscript(a);
        Ok(match elements(a, 0) {
            [] => Value::Null,
            _ if a.integer(1) == 1 => Value::Int4(first),
            _ => Value::Null,
        })
    }),
    Function::new("cardinality", &[ARRAY], INT4, |a, _| {
        Ok(Value::Int4(elements(a, 0).len() as i32))
    }),
    Function::new("array_position", &[ARRAY, ELEMENT], INT4, |a, context| {
        let wanted = a.values.get(1).unwrap_or(&Value::Null);
        for (at, element) in elements(a, 0).iter().enumerate() {
            context.work(ROW)?;
            if element.is_null() == wanted.is_null() && element.order(wanted).is_eq() {
                return Ok(Value::Int4(at as i32 + 1));
            }
        }
        Ok(Value::Null)
    })
    .null_aware(),
    Function::new("array_to_string", &[ARRAY, TEXT], TEXT, to_string).stable(),
    Function::new("array_to_string", &[ARRAY, TEXT, TEXT], TEXT, to_string)
        .null_aware()
        .stable(),
    Function::new("string_to_array", &[TEXT, TEXT], TEXTS, from_string).null_aware(),
    Function::new("string_to_array", &[TEXT, TEXT, TEXT], TEXTS, from_string).null_aware(),
    Function::new("array_append", &[ARRAY, ELEMENT], ARRAY, |a, context| {
        context.work(elements(a, 0).len() * ROW)?;
        let mut joined = elements(a, 0).to_vec();
        joined.extend(a.values.get(1).cloned());
        Ok(Value::Array(joined.into()))
    })
    .null_aware(),
    Function::new("array_remove", &[ARRAY, ELEMENT], ARRAY, |a, context| {
        if a.values.first().is_none_or(Value::is_null) {
            return Ok(Value::Null);
        }
        let unwanted = a.values.get(1).unwrap_or(&Value::Null);
        let mut kept = Vec::new();
        for element in elements(a, 0) {
            context.work(ROW)?;
            if element.order(unwanted).is_ne() {
                kept.push(element.clone());
            }
        }
        Ok(Value::Array(kept.into()))
    })
    .null_aware(),
];

/// SQL `string_to_array()`: a delimiter that is null separates all characters, and parts
/// equal to the third argument are null.
pub(crate) fn from_string(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    if is_null(a, 0) {
        return Ok(Value::Null);
    }
    let mut parts = if a.text(0).is_empty() {
        Vec::new()
    } else if is_null(a, 1) {
        characters(a.text(0), context)?
    } else if a.text(1).is_empty() {
        vec![Value::text(a.text(0))]
    } else {
        split(a.text(0), a.text(1), context)?
    };
    if !is_null(a, 2) {
        let null = a.text(2);
        for part in &mut parts {
            context.work(ROW)?;
            if matches!(part, Value::Text(text) if &**text == null) {
                *part = Value::Null;
            }
        }
    }
    Ok(Value::Array(parts.into()))
}

/// Whether the argument is null, or was not given.
fn is_null(a: Arguments<'_>, position: usize) -> bool {
    a.values.get(position).is_none_or(Value::is_null)
}

/// The characters of a text, each as an element.
fn characters(text: &str, context: &mut EvaluationContext<'_>) -> Result<Vec<Value>> {
    // Claims the memory twice, because the list is copied into the array.
    context.claim(text.len().saturating_mul(2 * size_of::<Value>()))?;
    let mut parts = Vec::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        context.work(ROW)?;
        parts.push(Value::text(&text[at..at + character.len_utf8()]));
    }
    Ok(parts)
}

/// The parts of a text between delimiters.
fn split(text: &str, delimiter: &str, context: &mut EvaluationContext<'_>) -> Result<Vec<Value>> {
    let mut count = 1_usize;
    metered::each_occurrence(text, delimiter, context, &mut |_| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    // Claims the memory twice, because the list is copied into the array.
    context.claim(count.saturating_mul(2 * size_of::<Value>()))?;
    let mut parts = Vec::with_capacity(count);
    let mut start = 0;
    metered::each_occurrence(text, delimiter, context, &mut |at| {
        parts.push(Value::text(&text[start..at]));
        start = at + delimiter.len();
        ControlFlow::Continue(())
    })?;
    parts.push(Value::text(&text[start..]));
    Ok(parts)
}

fn elements<'a>(a: Arguments<'a>, position: usize) -> &'a [Value] {
    match a.values.get(position) {
        Some(Value::Array(elements)) => elements,
        _ => &[],
    }
}

/// Vectors of the system catalogs have subscripts from 0.
fn first_subscript(a: Arguments<'_>) -> i32 {
    let vector = a
        .types
        .first()
        .is_some_and(|given| given.data_type.is_vector());
    i32::from(!vector)
}

fn to_string(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    if is_null(a, 0) || is_null(a, 1) {
        return Ok(Value::Null);
    }
    let element_type = a
        .types
        .first()
        .and_then(|array| array.data_type.element())
        .unwrap_or(DataType::Text);
    let mut parts = Vec::new();
    let mut bytes = a.text(1).len().saturating_mul(elements(a, 0).len());
    let mut asked = 0;
    for element in elements(a, 0) {
        // Bytes of the parts plus bytes of the joined string.
        if 2 * bytes > asked {
            asked = 2 * bytes + (1 << 20);
            context.claim(asked / 2)?;
        }
        context.work(ROW)?;
        bytes += parts.last().map_or(0, String::len);
        match element.to_text(ColumnType::from(element_type), &context.session.style) {
            Some(text) => parts.push(text.to_string()),
            None if !is_null(a, 2) => parts.push(a.text(2).to_owned()),
            None => {}
        }
    }
    Ok(Value::text(parts.join(a.text(1))))
}
