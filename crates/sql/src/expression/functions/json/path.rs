//! Functions and operators that evaluate a `jsonpath` on a `jsonb`.

use std::borrow::Cow;

use super::super::kinds::{BOOL, JSONB, JSONPATH};
use super::path_items::{Evaluation, Fault};
use super::{invalid, tree, value};
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function};
use crate::value::Value;
use crate::value::json::Json;
use crate::value::path::parse;
use crate::{Error, Result, SqlState};

/// The signatures of a function with a document, a path, variables, and whether to be silent.
macro_rules! functions {
    ($($name:literal: $result:expr, $body:expr;)*) => {
        &[$(
            Function::new($name, &[JSONB, JSONPATH], $result, $body),
            Function::new($name, &[JSONB, JSONPATH, JSONB], $result, $body),
            Function::new($name, &[JSONB, JSONPATH, JSONB, BOOL], $result, $body),
        )*]
    };
}

pub(super) const FUNCTIONS: &[Function] = functions! {
    "jsonb_path_exists": BOOL, |a, context| exists(a, a.truth(3), context);
    "jsonb_path_exists_tz": BOOL, |a, context| exists(a, a.truth(3), context);
    "jsonb_path_match": BOOL, |a, context| matches(a, a.truth(3), context);
    "jsonb_path_match_tz": BOOL, |a, context| matches(a, a.truth(3), context);
    "jsonb_path_query_array": JSONB, query_array;
    "jsonb_path_query_array_tz": JSONB, query_array;
    "jsonb_path_query_first": JSONB, query_first;
    "jsonb_path_query_first_tz": JSONB, query_first;
    // The operators @? and @@.
    "jsonb_path_exists_opr": BOOL, |a, context| exists(a, true, context);
    "jsonb_path_match_opr": BOOL, |a, context| matches(a, true, context);
};

/// The items that the path finds. An error of the document's shape finds nothing if `silent`.
fn items(
    a: Arguments<'_>,
    silent: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Option<Vec<Json>>> {
    let document = tree(a, 0, context)?;
    let variables = match a.values.get(2) {
        None => Json::Object(Vec::new()),
        Some(_) => tree(a, 2, context)?,
    };
    let Json::Object(variables) = &variables else {
        return Err(invalid("\"vars\" argument is not an object").with_detail(
            "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.",
        ));
    };
    let path = parse(a.text(1))?;
    let mut evaluation = Evaluation::new(&path, &document, variables, context);
    match evaluation.items(&path.root, &Cow::Borrowed(&document)) {
        Ok(items) => Ok(Some(items.into_iter().map(Cow::into_owned).collect())),
        Err(Fault::OfDocument(_)) if silent => Ok(None),
        Err(Fault::OfDocument(error) | Fault::OfStatement(error)) => Err(error),
    }
}

/// The rows of `jsonb_path_query`.
pub(super) fn query(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Vec<Value>> {
    let items = items(a, a.truth(3), context)?.unwrap_or_default();
    items.iter().map(value).collect()
}

fn exists(a: Arguments<'_>, silent: bool, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(match items(a, silent, context)? {
        Some(items) => Value::Bool(!items.is_empty()),
        None => Value::Null,
    })
}

fn matches(a: Arguments<'_>, silent: bool, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let Some(items) = items(a, silent, context)? else {
        return Ok(Value::Null);
    };
    match items.as_slice() {
        [Json::Bool(truth)] => Ok(Value::Bool(*truth)),
        [Json::Null] => Ok(Value::Null),
        _ if silent => Ok(Value::Null),
        _ => Err(Error::new(
            SqlState("22038"),
            "single boolean result is expected",
        )),
    }
}

fn query_array(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let items = items(a, a.truth(3), context)?.unwrap_or_default();
    value(&Json::Array(items))
}

fn query_first(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let items = items(a, a.truth(3), context)?.unwrap_or_default();
    items.first().map_or(Ok(Value::Null), value)
}
