//! Functions that return a row for each part of a JSON document, and those that return
//! records.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::lookup::parts;
use super::record::{Part, field};
use super::{invalid, text_of, text_of_raw};
use crate::expression::function::Arguments;
use crate::expression::{EvaluationContext, Expression};
use crate::value::json::{JsonView, RawKind, kind_of, value_of};
use crate::value::{ColumnType, DataType, Jsonb, Value};
use crate::{Error, Result};

/// Rows that a function returns.
type Rows = Vec<Vec<Value>>;

/// A function that returns a set of rows, or a record.
pub(crate) struct JsonSet {
    /// Name by which SQL calls the function.
    pub(crate) name: &'static str,
    /// Types of its arguments.
    pub(crate) arguments: &'static [DataType],
    /// Number of arguments that a call must have.
    pub(crate) required: usize,
    /// Names and types of its columns; of a record none.
    pub(crate) columns: &'static [(&'static str, DataType)],
    /// Whether the call, or a first argument `NULL::table`, names the columns.
    pub(crate) record: Option<Record>,
    body: fn(&JsonSet, Arguments<'_>, &mut EvaluationContext<'_>) -> Result<Rows>,
}

/// Where the columns of a record come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// From a list behind AS.
    Listed,
    /// From the type of the first argument.
    Typed,
}

impl std::fmt::Debug for JsonSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

impl PartialEq for JsonSet {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for JsonSet {}

/// A column of a record.
#[derive(Clone, Debug)]
pub(crate) struct RecordColumn {
    pub(crate) name: SmolStr,
    pub(crate) column_type: ColumnType,
}

/// A record's columns as arguments behind the document: names, types and modifiers.
pub(crate) fn record_arguments(columns: &[RecordColumn]) -> [Value; 3] {
    let list =
        |each: &dyn Fn(&RecordColumn) -> Value| super::array(columns.iter().map(each).collect());
    [
        list(&|column| Value::Text(column.name.clone())),
        list(&|column| Value::Oid(column.column_type.data_type.oid())),
        list(&|column| Value::Int4(column.column_type.modifier)),
    ]
}

impl JsonSet {
    /// Names of the columns of a call with these bound arguments.
    pub(crate) fn column_names(&self, arguments: &[Expression]) -> Vec<String> {
        if self.record.is_none() {
            let names = self.columns.iter().map(|(name, _)| (*name).to_owned());
            return names.collect();
        }
        let names = arguments.iter().find_map(|argument| match argument {
            Expression::Constant(Value::Array(names)) => Some(names),
            _ => None,
        });
        let names = names.into_iter().flat_map(|names| names.iter());
        names
            .map(|name| match name {
                Value::Text(name) => name.to_string(),
                _ => String::new(),
            })
            .collect()
    }

    /// Rows that a call is expected to return: PostgreSQL's estimates.
    pub(crate) fn estimate(&self) -> f64 {
        match (self.record.is_some(), self.name.ends_with("set")) {
            (true, false) => 1.0,
            _ => 100.0,
        }
    }
}

const JSON: DataType = DataType::Json;
const JSONB: DataType = DataType::Jsonb;
const TEXT: DataType = DataType::Text;

const fn set(
    name: &'static str,
    arguments: &'static [DataType],
    columns: &'static [(&'static str, DataType)],
    body: fn(&JsonSet, Arguments<'_>, &mut EvaluationContext<'_>) -> Result<Rows>,
) -> JsonSet {
    JsonSet {
        name,
        arguments,
        required: arguments.len(),
        columns,
        record: None,
        body,
    }
}

const fn record(
    name: &'static str,
    arguments: &'static [DataType],
    record: Record,
    body: fn(&JsonSet, Arguments<'_>, &mut EvaluationContext<'_>) -> Result<Rows>,
) -> JsonSet {
    JsonSet {
        record: Some(record),
        ..set(name, arguments, &[], body)
    }
}

const fn path_query(name: &'static str, columns: &'static [(&'static str, DataType)]) -> JsonSet {
    JsonSet {
        required: 2,
        ..set(
            name,
            &[JSONB, DataType::JsonPath, JSONB, DataType::Bool],
            columns,
            |_, a, context| {
                let found = super::path::query(a, context)?;
                Ok(found.into_iter().map(|each| vec![each]).collect())
            },
        )
    }
}

static SETS: &[JsonSet] = &[
    set(
        "json_array_elements",
        &[JSON],
        &[("value", JSON)],
        array_elements,
    ),
    set(
        "json_array_elements_text",
        &[JSON],
        &[("value", TEXT)],
        array_elements,
    ),
    set(
        "jsonb_array_elements",
        &[JSONB],
        &[("value", JSONB)],
        array_elements,
    ),
    set(
        "jsonb_array_elements_text",
        &[JSONB],
        &[("value", TEXT)],
        array_elements,
    ),
    set(
        "json_each",
        &[JSON],
        &[("key", TEXT), ("value", JSON)],
        each,
    ),
    set(
        "json_each_text",
        &[JSON],
        &[("key", TEXT), ("value", TEXT)],
        each,
    ),
    set(
        "jsonb_each",
        &[JSONB],
        &[("key", TEXT), ("value", JSONB)],
        each,
    ),
    set(
        "jsonb_each_text",
        &[JSONB],
        &[("key", TEXT), ("value", TEXT)],
        each,
    ),
    set(
        "json_object_keys",
        &[JSON],
        &[("json_object_keys", TEXT)],
        object_keys,
    ),
    set(
        "jsonb_object_keys",
        &[JSONB],
        &[("jsonb_object_keys", TEXT)],
        object_keys,
    ),
    path_query("jsonb_path_query", &[("jsonb_path_query", JSONB)]),
    path_query("jsonb_path_query_tz", &[("jsonb_path_query_tz", JSONB)]),
    record("json_to_record", &[JSON], Record::Listed, to_record),
    record("jsonb_to_record", &[JSONB], Record::Listed, to_record),
    record("json_to_recordset", &[JSON], Record::Listed, to_recordset),
    record("jsonb_to_recordset", &[JSONB], Record::Listed, to_recordset),
    record("json_populate_record", &[JSON], Record::Typed, to_record),
    record("jsonb_populate_record", &[JSONB], Record::Typed, to_record),
    record(
        "json_populate_recordset",
        &[JSON],
        Record::Typed,
        to_recordset,
    ),
    record(
        "jsonb_populate_recordset",
        &[JSONB],
        Record::Typed,
        to_recordset,
    ),
];

/// The function of this name that returns rows of a JSON document.
pub(crate) fn json_set(name: &str) -> Option<&'static JsonSet> {
    SETS.iter().find(|set| set.name == name)
}

impl JsonSet {
    /// Calls the function: none of its arguments is null, or there are no rows.
    pub(crate) fn rows(
        &self,
        values: &[Value],
        context: &mut EvaluationContext<'_>,
    ) -> Result<Rows> {
        if values.iter().any(Value::is_null) {
            // A record is a row of nulls then, a set has no row.
            let is_row = self.record.is_some() && !self.name.ends_with("set");
            let width = match values.get(1) {
                Some(Value::Array(names)) => names.len(),
                _ => 0,
            };
            return Ok(match is_row {
                true => vec![vec![Value::Null; width]],
                false => Vec::new(),
            });
        }
        let types = vec![ColumnType::from(DataType::Jsonb); values.len()];
        let arguments = Arguments {
            values,
            types: &types,
        };
        let rows = (self.body)(self, arguments, context)?;
        if rows.len() > 1024 {
            context.claim(rows.len().saturating_mul(size_of::<Value>() * 4))?;
        }
        Ok(rows)
    }

    /// Whether values are returned as text.
    fn is_text(&self) -> bool {
        self.columns
            .last()
            .is_some_and(|(_, data_type)| *data_type == TEXT)
    }
}

/// A part of a document as the last column of a row.
fn shown(set: &JsonSet, part: Part<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(match part {
        Part::Binary(bytes) if set.is_text() => text_of(JsonView::of(bytes), context)?,
        Part::Binary(bytes) => {
            context.work(bytes.len())?;
            Value::Jsonb(Jsonb::from_bytes(bytes))
        }
        Part::Raw(text, kind) if set.is_text() => text_of_raw(text, kind)?,
        Part::Raw(text, _) => Value::text(text),
    })
}

fn array_elements(
    set: &JsonSet,
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
) -> Result<Rows> {
    let mut rows = Vec::new();
    if let Some(Value::Jsonb(document)) = a.values.first() {
        let array = match document.view() {
            JsonView::Array(array) => array,
            JsonView::Object(_) => {
                return Err(invalid("cannot extract elements from an object"));
            }
            _ => return Err(invalid("cannot extract elements from a scalar")),
        };
        for at in 0..array.len() {
            let bytes = array.raw(at).unwrap_or_default();
            rows.push(vec![shown(set, Part::Binary(bytes), context)?]);
        }
        return Ok(rows);
    }
    match kind_of(a.text(0))? {
        RawKind::Array => {}
        RawKind::Object => {
            return Err(invalid(format!("cannot call {} on a non-array", set.name)));
        }
        _ => return Err(invalid(format!("cannot call {} on a scalar", set.name))),
    }
    for part in parts(a.text(0), context)? {
        rows.push(vec![shown(set, Part::Raw(part.text, part.kind), context)?]);
    }
    Ok(rows)
}

fn each(set: &JsonSet, a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Rows> {
    let mut rows = Vec::new();
    if let Some(Value::Jsonb(document)) = a.values.first() {
        let JsonView::Object(object) = document.view() else {
            return Err(invalid(format!("cannot call {} on a non-object", set.name)));
        };
        for (key, bytes) in object.raw_pairs() {
            let value = shown(set, Part::Binary(bytes), context)?;
            rows.push(vec![Value::text(key), value]);
        }
        return Ok(rows);
    }
    match kind_of(a.text(0))? {
        RawKind::Object => {}
        RawKind::Array => return Err(invalid("cannot deconstruct an array as an object")),
        _ => return Err(invalid("cannot deconstruct a scalar")),
    }
    for part in parts(a.text(0), context)? {
        let value = shown(set, Part::Raw(part.text, part.kind), context)?;
        rows.push(vec![Value::text(part.key.unwrap_or_default()), value]);
    }
    Ok(rows)
}

fn object_keys(
    set: &JsonSet,
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
) -> Result<Rows> {
    let on = |what: &str| invalid(format!("cannot call {} on {what}", set.name));
    let key = |key: &str| vec![Value::text(key)];
    if let Some(Value::Jsonb(document)) = a.values.first() {
        return match document.view() {
            JsonView::Object(object) => {
                context.work(document.bytes().len())?;
                Ok(object.iter().map(|(name, _)| key(name)).collect())
            }
            JsonView::Array(_) => Err(on("an array")),
            _ => Err(on("a scalar")),
        };
    }
    match kind_of(a.text(0))? {
        RawKind::Object => {}
        RawKind::Array => return Err(on("an array")),
        _ => return Err(on("a scalar")),
    }
    let parts = parts(a.text(0), context)?;
    Ok(parts
        .iter()
        .map(|part| key(part.key.as_deref().unwrap_or_default()))
        .collect())
}

/// The columns that [`record_arguments`] has written.
fn columns(a: Arguments<'_>) -> Result<Vec<RecordColumn>> {
    let (Some(Value::Array(names)), Some(Value::Array(types)), Some(Value::Array(modifiers))) =
        (a.values.get(1), a.values.get(2), a.values.get(3))
    else {
        return Err(Error::internal("a record without columns"));
    };
    let column = |((name, data_type), modifier): ((&Value, &Value), &Value)| {
        let (Value::Text(name), Value::Oid(oid), Value::Int4(modifier)) =
            (name, data_type, modifier)
        else {
            return None;
        };
        Some(RecordColumn {
            name: name.clone(),
            column_type: ColumnType {
                data_type: DataType::from_oid(*oid)?,
                modifier: *modifier,
            },
        })
    };
    names
        .iter()
        .zip(types.iter())
        .zip(modifiers.iter())
        .map(column)
        .collect::<Option<_>>()
        .ok_or_else(|| Error::internal("a record of no type"))
}

/// The fields of a record, of an object.
fn record_of(
    columns: &[RecordColumn],
    part: Part<'_>,
    context: &mut EvaluationContext<'_>,
) -> Result<Vec<Value>> {
    let mut row = Vec::with_capacity(columns.len());
    match part {
        Part::Binary(bytes) => {
            let JsonView::Object(object) = JsonView::of(bytes) else {
                return Err(Error::internal("a record of no object"));
            };
            for column in columns {
                row.push(match object.raw(&column.name) {
                    Some(bytes) => field(
                        Part::Binary(bytes),
                        column.column_type,
                        &column.name,
                        context,
                    )?,
                    None => Value::Null,
                });
            }
        }
        Part::Raw(text, _) => {
            let fields: BTreeMap<String, Part<'_>> = parts(text, context)?
                .into_iter()
                .map(|part| {
                    (
                        part.key.unwrap_or_default(),
                        Part::Raw(part.text, part.kind),
                    )
                })
                .collect();
            for column in columns {
                row.push(match fields.get(column.name.as_str()) {
                    Some(part) => field(*part, column.column_type, &column.name, context)?,
                    None => Value::Null,
                });
            }
        }
    }
    Ok(row)
}

/// The document, and its kind.
fn document<'a>(a: Arguments<'a>) -> Result<(Part<'a>, RawKind)> {
    Ok(match a.values.first() {
        Some(Value::Jsonb(document)) => {
            let kind = match document.view() {
                JsonView::Object(_) => RawKind::Object,
                JsonView::Array(_) => RawKind::Array,
                _ => RawKind::Null,
            };
            (Part::Binary(document.bytes()), kind)
        }
        _ => {
            let kind = kind_of(a.text(0))?;
            (Part::Raw(value_of(a.text(0)), kind), kind)
        }
    })
}

fn to_record(_: &JsonSet, a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Rows> {
    let (part, kind) = document(a)?;
    // The name in PostgreSQL's messages is that of a function within.
    match kind {
        RawKind::Object => Ok(vec![record_of(&columns(a)?, part, context)?]),
        RawKind::Array => Err(invalid("cannot call populate_composite on an array")),
        _ => Err(invalid("cannot call populate_composite on a scalar")),
    }
}

fn to_recordset(
    set: &JsonSet,
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
) -> Result<Rows> {
    let on = |what: &str| invalid(format!("cannot call {} on {what}", set.name));
    let no_object = || {
        invalid(format!(
            "argument of {} must be an array of objects",
            set.name
        ))
    };
    let (part, kind) = document(a)?;
    match kind {
        RawKind::Array => {}
        RawKind::Object => return Err(on("an object")),
        _ => return Err(on("a scalar")),
    }
    let columns = columns(a)?;
    let mut rows = Vec::new();
    match part {
        Part::Binary(bytes) => {
            let JsonView::Array(array) = JsonView::of(bytes) else {
                return Err(on("a scalar"));
            };
            for at in 0..array.len() {
                let bytes = array.raw(at).unwrap_or_default();
                if !matches!(JsonView::of(bytes), JsonView::Object(_)) {
                    return Err(no_object());
                }
                rows.push(record_of(&columns, Part::Binary(bytes), context)?);
            }
        }
        Part::Raw(text, _) => {
            for part in parts(text, context)? {
                if part.kind != RawKind::Object {
                    return Err(no_object());
                }
                rows.push(record_of(
                    &columns,
                    Part::Raw(part.text, part.kind),
                    context,
                )?);
            }
        }
    }
    Ok(rows)
}
