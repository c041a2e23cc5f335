//! Functions and operators that look into a JSON document.

use super::super::kinds::{BOOL, INT4, JSON, JSONB, TEXT, TEXTS};
use super::{invalid, jsonb, part, position, subscript, text_of, text_of_raw, texts, view};
use crate::Result;
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function};
use crate::value::Value;
use crate::value::json::{JsonView, RawChild, RawKind, children, kind_of, value_of};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("jsonb_object_field", &[JSONB, TEXT], JSONB, |a, context| {
        part(binary_at(a, &Step::Key(a.text(1))), context)
    }),
    Function::new(
        "jsonb_object_field_text",
        &[JSONB, TEXT],
        TEXT,
        |a, context| as_text(binary_at(a, &Step::Key(a.text(1))), context),
    ),
    Function::new(
        "jsonb_array_element",
        &[JSONB, INT4],
        JSONB,
        |a, context| part(binary_at(a, &Step::Element(a.integer(1))), context),
    ),
    Function::new(
        "jsonb_array_element_text",
        &[JSONB, INT4],
        TEXT,
        |a, context| as_text(binary_at(a, &Step::Element(a.integer(1))), context),
    ),
    Function::new(
        "jsonb_extract_path",
        &[JSONB, TEXTS],
        JSONB,
        |a, context| part(binary_path(a, &texts(a, 1)), context),
    ),
    Function::new("jsonb_extract_path", &[JSONB, TEXT], JSONB, |a, context| {
        part(binary_path(a, &rest(a)), context)
    })
    .variadic(),
    Function::new(
        "jsonb_extract_path_text",
        &[JSONB, TEXTS],
        TEXT,
        |a, context| as_text(binary_path(a, &texts(a, 1)), context),
    ),
    Function::new(
        "jsonb_extract_path_text",
        &[JSONB, TEXT],
        TEXT,
        |a, context| as_text(binary_path(a, &rest(a)), context),
    )
    .variadic(),
    Function::new("json_object_field", &[JSON, TEXT], JSON, |a, context| {
        raw(a, &[Step::Key(a.text(1))], false, context)
    }),
    Function::new(
        "json_object_field_text",
        &[JSON, TEXT],
        TEXT,
        |a, context| raw(a, &[Step::Key(a.text(1))], true, context),
    ),
    Function::new("json_array_element", &[JSON, INT4], JSON, |a, context| {
        raw(a, &[Step::Element(a.integer(1))], false, context)
    }),
    Function::new(
        "json_array_element_text",
        &[JSON, INT4],
        TEXT,
        |a, context| raw(a, &[Step::Element(a.integer(1))], true, context),
    ),
    Function::new("json_extract_path", &[JSON, TEXTS], JSON, |a, context| {
        raw_path(a, &texts(a, 1), false, context)
    }),
    Function::new("json_extract_path", &[JSON, TEXT], JSON, |a, context| {
        raw_path(a, &rest(a), false, context)
    })
    .variadic(),
    Function::new(
        "json_extract_path_text",
        &[JSON, TEXTS],
        TEXT,
        |a, context| raw_path(a, &texts(a, 1), true, context),
    ),
    Function::new(
        "json_extract_path_text",
        &[JSON, TEXT],
        TEXT,
        |a, context| raw_path(a, &rest(a), true, context),
    )
    .variadic(),
    Function::new("jsonb_exists", &[JSONB, TEXT], BOOL, |a, context| {
        Ok(Value::Bool(has(&view(a, 0), a.text(1), context)?))
    }),
    Function::new("jsonb_exists_any", &[JSONB, TEXTS], BOOL, |a, context| {
        exists(a, false, context)
    }),
    Function::new("jsonb_exists_all", &[JSONB, TEXTS], BOOL, |a, context| {
        exists(a, true, context)
    }),
    Function::new("jsonb_contains", &[JSONB, JSONB], BOOL, |a, context| {
        contains_document(&view(a, 0), &view(a, 1), context).map(Value::Bool)
    }),
    Function::new("jsonb_contained", &[JSONB, JSONB], BOOL, |a, context| {
        contains_document(&view(a, 1), &view(a, 0), context).map(Value::Bool)
    }),
    Function::new("jsonb_typeof", &[JSONB], TEXT, |a, _| {
        Ok(Value::text(view(a, 0).kind()))
    }),
    Function::new("json_typeof", &[JSON], TEXT, |a, _| {
        Ok(Value::text(kind_of(a.text(0))?.name()))
    }),
    Function::new("jsonb_array_length", &[JSONB], INT4, |a, _| {
        match view(a, 0) {
            JsonView::Array(array) => count(array.len()),
            JsonView::Object(_) => Err(invalid("cannot get array length of a non-array")),
            _ => Err(invalid("cannot get array length of a scalar")),
        }
    }),
    Function::new(
        "json_array_length",
        &[JSON],
        INT4,
        |a, context| match kind_of(a.text(0))? {
            RawKind::Array => count(parts(a.text(0), context)?.len()),
            RawKind::Object => Err(invalid("cannot get array length of a non-array")),
            _ => Err(invalid("cannot get array length of a scalar")),
        },
    ),
];

fn count(number: usize) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(number).unwrap_or(i32::MAX)))
}

/// One step into a document.
enum Step<'a> {
    Key(&'a str),
    Element(i64),
    /// A key of an object, or the number of an element.
    Either(&'a str),
}

/// The arguments behind the first, which is a path's.
fn rest<'a>(a: Arguments<'a>) -> Vec<Option<&'a str>> {
    (1..a.values.len()).map(|at| Some(a.text(at))).collect()
}

fn step_into<'a>(document: &'a [u8], step: &Step<'_>) -> Option<&'a [u8]> {
    match (JsonView::of(document), step) {
        (JsonView::Object(object), Step::Key(key) | Step::Either(key)) => object.raw(key),
        (JsonView::Array(array), Step::Element(index)) => array.raw(position(*index, array.len())?),
        (JsonView::Array(array), Step::Either(step)) => {
            array.raw(position(subscript(step)?, array.len())?)
        }
        // PostgreSQL keeps a scalar document as an array of one.
        (scalar, Step::Element(0 | -1)) if scalar.is_scalar() => Some(document),
        _ => None,
    }
}

fn binary_at<'a>(a: Arguments<'a>, step: &Step<'_>) -> Option<&'a [u8]> {
    step_into(jsonb(a, 0)?.bytes(), step)
}

fn binary_path<'a>(a: Arguments<'a>, path: &[Option<&str>]) -> Option<&'a [u8]> {
    let document = jsonb(a, 0)?.bytes();
    path.iter().try_fold(document, |document, step| {
        step_into(document, &Step::Either((*step)?))
    })
}

fn as_text(bytes: Option<&[u8]>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    bytes.map_or(Ok(Value::Null), |bytes| {
        text_of(JsonView::of(bytes), context)
    })
}

/// The parts of a JSON text.
pub(super) fn parts<'a>(
    text: &'a str,
    context: &mut EvaluationContext<'_>,
) -> Result<Vec<RawChild<'a>>> {
    children(text, &mut |bytes| context.work(bytes))
}

/// Follows steps into a JSON text.
fn raw(
    a: Arguments<'_>,
    steps: &[Step<'_>],
    as_text: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let mut text = value_of(a.text(0));
    let mut kind = kind_of(text)?;
    for step in steps {
        let mut found = parts(text, context)?;
        let at = match (kind, step) {
            // The last of equal keys counts.
            (RawKind::Object, Step::Key(key) | Step::Either(key)) => found
                .iter()
                .rposition(|part| part.key.as_deref() == Some(*key)),
            (RawKind::Array, Step::Element(index)) => position(*index, found.len()),
            (RawKind::Array, Step::Either(step)) => {
                subscript(step).and_then(|index| position(index, found.len()))
            }
            _ => None,
        };
        let Some(at) = at else {
            return Ok(Value::Null);
        };
        let part = found.swap_remove(at);
        (text, kind) = (part.text, part.kind);
    }
    context.work(text.len())?;
    if as_text {
        return text_of_raw(text, kind);
    }
    Ok(Value::text(text))
}

fn raw_path(
    a: Arguments<'_>,
    path: &[Option<&str>],
    as_text: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let steps: Option<Vec<Step<'_>>> = path.iter().map(|step| step.map(Step::Either)).collect();
    match steps {
        Some(steps) => raw(a, &steps, as_text, context),
        None => Ok(Value::Null),
    }
}

/// Whether a key of an object, an element of an array, or a document that is a string, is
/// this string.
fn has(document: &JsonView<'_>, wanted: &str, context: &mut EvaluationContext<'_>) -> Result<bool> {
    Ok(match document {
        JsonView::Object(object) => object.raw(wanted).is_some(),
        JsonView::String(text) => *text == wanted,
        JsonView::Array(array) => {
            for element in array.iter() {
                context.work(crate::expression::ROW)?;
                if matches!(element, JsonView::String(text) if text == wanted) {
                    return Ok(true);
                }
            }
            false
        }
        _ => false,
    })
}

fn exists(a: Arguments<'_>, all: bool, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let document = view(a, 0);
    for wanted in texts(a, 1).into_iter().flatten() {
        if has(&document, wanted, context)? != all {
            return Ok(Value::Bool(!all));
        }
    }
    Ok(Value::Bool(all))
}

/// Whether a document contains another. An array contains a scalar that is one of its
/// elements.
fn contains_document(
    outer: &JsonView<'_>,
    inner: &JsonView<'_>,
    context: &mut EvaluationContext<'_>,
) -> Result<bool> {
    if let JsonView::Array(array) = outer
        && inner.is_scalar()
    {
        return any_equal(array.iter(), inner, context);
    }
    contains(outer, inner, context)
}

fn any_equal<'a>(
    elements: impl Iterator<Item = JsonView<'a>>,
    wanted: &JsonView<'_>,
    context: &mut EvaluationContext<'_>,
) -> Result<bool> {
    for element in elements {
        context.work(crate::expression::ROW)?;
        if is_same_scalar(&element, wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_same_scalar(left: &JsonView<'_>, right: &JsonView<'_>) -> bool {
    match (left, right) {
        (JsonView::Null, JsonView::Null) => true,
        (JsonView::Bool(left), JsonView::Bool(right)) => left == right,
        (JsonView::Number(left), JsonView::Number(right)) => left == right,
        (JsonView::String(left), JsonView::String(right)) => left == right,
        _ => false,
    }
}

fn contains(
    outer: &JsonView<'_>,
    inner: &JsonView<'_>,
    context: &mut EvaluationContext<'_>,
) -> Result<bool> {
    context.work(crate::expression::ROW)?;
    match (outer, inner) {
        (JsonView::Object(outer), JsonView::Object(inner)) => {
            if outer.len() < inner.len() {
                return Ok(false);
            }
            for (key, inner) in inner.iter() {
                let Some(outer) = outer.get(key) else {
                    return Ok(false);
                };
                if !crate::expression::with_stack(|| contains(&outer, &inner, context))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (JsonView::Array(outer), JsonView::Array(inner)) => {
            for inner in inner.iter() {
                let found = if inner.is_scalar() {
                    any_equal(outer.iter(), &inner, context)?
                } else {
                    let mut found = false;
                    for outer in outer.iter().filter(|outer| !outer.is_scalar()) {
                        let within = || contains(&outer, &inner, context);
                        if crate::expression::with_stack(within)? {
                            found = true;
                            break;
                        }
                    }
                    found
                };
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(is_same_scalar(outer, inner)),
    }
}
