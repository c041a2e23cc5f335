//! Functions and operators that make a changed copy of a `jsonb` document.

use super::super::kinds::{BOOL, INT4, JSONB, TEXT, TEXTS};
use super::{invalid, position, subscript, texts, tree, value, view};
use crate::expression::function::{Arguments, Function};
use crate::expression::{EvaluationContext, ROW, with_stack};
use crate::value::Value;
use crate::value::json::{Json, key_order, write_pretty};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("jsonb_concat", &[JSONB, JSONB], JSONB, |a, context| {
        let left = tree(a, 0, context)?;
        let right = tree(a, 1, context)?;
        value(&concatenate(left, right))
    }),
    Function::new("jsonb_delete", &[JSONB, TEXT], JSONB, |a, context| {
        delete(a, &[Some(a.text(1))], context)
    }),
    Function::new("jsonb_delete", &[JSONB, TEXTS], JSONB, |a, context| {
        delete(a, &texts(a, 1), context)
    }),
    Function::new("jsonb_delete", &[JSONB, INT4], JSONB, delete_element),
    Function::new("jsonb_delete_path", &[JSONB, TEXTS], JSONB, |a, context| {
        change(
            a,
            Operation::Delete,
            "cannot delete path in scalar",
            context,
        )
    }),
    Function::new("jsonb_set", &[JSONB, TEXTS, JSONB], JSONB, |a, context| {
        change(a, Operation::Create, "cannot set path in scalar", context)
    }),
    Function::new(
        "jsonb_set",
        &[JSONB, TEXTS, JSONB, BOOL],
        JSONB,
        |a, context| {
            let operation = match a.truth(3) {
                true => Operation::Create,
                false => Operation::Replace,
            };
            change(a, operation, "cannot set path in scalar", context)
        },
    ),
    Function::new("jsonb_set_lax", &[JSONB, TEXTS, JSONB], JSONB, set_lax).null_aware(),
    Function::new(
        "jsonb_set_lax",
        &[JSONB, TEXTS, JSONB, BOOL],
        JSONB,
        set_lax,
    )
    .null_aware(),
    Function::new(
        "jsonb_set_lax",
        &[JSONB, TEXTS, JSONB, BOOL, TEXT],
        JSONB,
        set_lax,
    )
    .null_aware(),
    Function::new(
        "jsonb_insert",
        &[JSONB, TEXTS, JSONB],
        JSONB,
        |a, context| {
            change(
                a,
                Operation::InsertBefore,
                "cannot set path in scalar",
                context,
            )
        },
    ),
    Function::new(
        "jsonb_insert",
        &[JSONB, TEXTS, JSONB, BOOL],
        JSONB,
        |a, context| {
            let operation = match a.truth(3) {
                true => Operation::InsertAfter,
                false => Operation::InsertBefore,
            };
            change(a, operation, "cannot set path in scalar", context)
        },
    ),
    Function::new("jsonb_strip_nulls", &[JSONB], JSONB, |a, context| {
        let mut document = tree(a, 0, context)?;
        strip_nulls(&mut document);
        value(&document)
    }),
    Function::new("jsonb_pretty", &[JSONB], TEXT, |a, context| {
        let mut out = Vec::new();
        write_pretty(view(a, 0), 0, &mut out);
        context.claim(out.len())?;
        context.work(out.len())?;
        Ok(Value::text(String::from_utf8_lossy(&out)))
    }),
];

/// Two objects are merged; of everything else the elements follow each other, and what is no
/// array is one element.
fn concatenate(left: Json, right: Json) -> Json {
    match (left, right) {
        (Json::Object(mut left), Json::Object(right)) => {
            left.extend(right);
            Json::object(left)
        }
        (left, right) => {
            let elements = |json| match json {
                Json::Array(elements) => elements,
                other => vec![other],
            };
            let mut joined = elements(left);
            joined.extend(elements(right));
            Json::Array(joined)
        }
    }
}

fn delete(
    a: Arguments<'_>,
    unwanted: &[Option<&str>],
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let mut document = tree(a, 0, context)?;
    let unwanted: std::collections::BTreeSet<&str> = unwanted.iter().copied().flatten().collect();
    context.work(unwanted.len() * ROW)?;
    match &mut document {
        Json::Object(pairs) => pairs.retain(|(key, _)| !unwanted.contains(key.as_str())),
        Json::Array(elements) => elements.retain(|element| match element {
            Json::String(text) => !unwanted.contains(text.as_str()),
            _ => true,
        }),
        _ => return Err(invalid("cannot delete from scalar")),
    }
    value(&document)
}

fn delete_element(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut document = tree(a, 0, context)?;
    match &mut document {
        Json::Array(elements) => {
            if let Some(at) = position(a.integer(1), elements.len()) {
                elements.remove(at);
            }
        }
        Json::Object(_) => {
            return Err(invalid("cannot delete from object using integer index"));
        }
        _ => return Err(invalid("cannot delete from scalar")),
    }
    value(&document)
}

/// What is done at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Delete,
    /// Replaces what is there.
    Replace,
    /// Replaces what is there, or adds it.
    Create,
    InsertBefore,
    InsertAfter,
}

impl Operation {
    /// Whether it adds what is not there.
    const fn adds(self) -> bool {
        matches!(self, Self::Create | Self::InsertBefore | Self::InsertAfter)
    }
}

/// A change at the end of a path.
struct Change<'a> {
    path: Vec<Option<&'a str>>,
    operation: Operation,
    new: Json,
}

fn change(
    a: Arguments<'_>,
    operation: Operation,
    of_scalar: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let mut document = tree(a, 0, context)?;
    let is_empty = match &document {
        Json::Object(pairs) => pairs.is_empty(),
        Json::Array(elements) => elements.is_empty(),
        _ => return Err(invalid(of_scalar)),
    };
    let change = Change {
        path: texts(a, 1),
        operation,
        new: tree(a, 2, context)?,
    };
    if change.path.is_empty() || is_empty && !operation.adds() {
        return Ok(a.values[0].clone());
    }
    change.apply(&mut document, 0)?;
    value(&document)
}

impl Change<'_> {
    /// Follows the path from its step number `level` on.
    fn apply(&self, json: &mut Json, level: usize) -> Result<()> {
        let Some(step) = self.path.get(level) else {
            return Ok(());
        };
        let Some(step) = step else {
            return Err(Error::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                format!("path element at position {} is null", level + 1),
            ));
        };
        let is_last = level + 1 == self.path.len();
        match json {
            Json::Object(pairs) => {
                let found = pairs.binary_search_by(|(key, _)| key_order(key, step));
                match found {
                    Ok(at) if !is_last => with_stack(|| self.apply(&mut pairs[at].1, level + 1)),
                    Ok(at) => match self.operation {
                        Operation::Delete => {
                            pairs.remove(at);
                            Ok(())
                        }
                        Operation::Replace | Operation::Create => {
                            pairs[at].1 = self.new.clone();
                            Ok(())
                        }
                        Operation::InsertBefore | Operation::InsertAfter => Err(invalid(
                            "cannot replace existing key",
                        )
                        .with_hint("Try using the function jsonb_set to replace key value.")),
                    },
                    Err(at) => {
                        if is_last && self.operation.adds() {
                            pairs.insert(at, ((*step).into(), self.new.clone()));
                        }
                        Ok(())
                    }
                }
            }
            Json::Array(elements) => self.apply_to_array(elements, step, level),
            _ => Ok(()),
        }
    }

    fn apply_to_array(&self, elements: &mut Vec<Json>, step: &str, level: usize) -> Result<()> {
        let index = subscript(step).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!(
                    "path element at position {} is not an integer: \"{step}\"",
                    level + 1
                ),
            )
        })?;
        let is_last = level + 1 == self.path.len();
        match position(index, elements.len()) {
            Some(at) if !is_last => with_stack(|| self.apply(&mut elements[at], level + 1)),
            Some(at) => {
                match self.operation {
                    Operation::Delete => {
                        elements.remove(at);
                    }
                    Operation::Replace | Operation::Create => elements[at] = self.new.clone(),
                    Operation::InsertBefore => elements.insert(at, self.new.clone()),
                    Operation::InsertAfter => elements.insert(at + 1, self.new.clone()),
                }
                Ok(())
            }
            // What is not there is added at the end that it lies behind.
            None => {
                if is_last && self.operation.adds() {
                    let at = if index < 0 { 0 } else { elements.len() };
                    elements.insert(at, self.new.clone());
                }
                Ok(())
            }
        }
    }
}

/// `jsonb_set_lax`: as `jsonb_set`, but a new value that is SQL NULL is treated as the last
/// argument says.
fn set_lax(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let is_null = |at: usize| a.values.get(at).is_some_and(Value::is_null);
    if is_null(0) || is_null(1) || is_null(3) {
        return Ok(Value::Null);
    }
    let creates = a.values.get(3).is_none() || a.truth(3);
    let of_scalar = "cannot set path in scalar";
    let operation = match creates {
        true => Operation::Create,
        false => Operation::Replace,
    };
    if !is_null(2) {
        return change(a, operation, of_scalar, context);
    }
    let treatment = match a.values.get(4) {
        None => "use_json_null",
        Some(Value::Null) => {
            return Err(invalid(
                "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
            ));
        }
        Some(_) => a.text(4),
    };
    match treatment {
        "use_json_null" => change(a, operation, of_scalar, context),
        "delete_key" => change(a, Operation::Delete, "cannot delete path in scalar", context),
        "return_target" => Ok(a.values[0].clone()),
        "raise_exception" => Err(Error::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "JSON value must not be null",
        )
        .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
        .with_hint("To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.")),
        _ => Err(invalid(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
        )),
    }
}

/// Removes the fields of objects that are null, at every level.
fn strip_nulls(json: &mut Json) {
    match json {
        Json::Object(pairs) => {
            pairs.retain(|(_, value)| !matches!(value, Json::Null));
            for (_, value) in pairs {
                with_stack(|| strip_nulls(value));
            }
        }
        Json::Array(elements) => {
            for element in elements {
                with_stack(|| strip_nulls(element));
            }
        }
        _ => {}
    }
}
