//! Built-in functions that return rows of several columns, or sets that no operator
//! computes: they compute all of their rows at once.

use coeval_sql_syntax::keyword::{self, Category};

use super::database::database_name;
use super::functions::TABLESPACES;
use crate::expression::{ArgumentKind, EvaluationContext, Place, TableFunction};
use crate::value::DataType;
use crate::{Result, Value};

const TEXT: ArgumentKind = ArgumentKind::Is(DataType::Text);
const BOOL: ArgumentKind = ArgumentKind::Is(DataType::Bool);
const INT4: ArgumentKind = ArgumentKind::Is(DataType::Int4);
const OID: ArgumentKind = ArgumentKind::Is(DataType::Oid);

/// All of them.
pub(super) static SETS: &[TableFunction] = &[
    TableFunction {
        name: "pg_get_keywords",
        arguments: &[],
        columns: &[
            ("word", TEXT),
            ("catcode", ArgumentKind::Is(DataType::InternalChar)),
            ("barelabel", BOOL),
            ("catdesc", TEXT),
            ("baredesc", TEXT),
        ],
        place: Place::Anywhere,
        body: |_, _| Ok(keywords()),
    },
    TableFunction {
        name: "_pg_expandarray",
        arguments: &[ArgumentKind::AnyArray],
        columns: &[("x", ArgumentKind::AnyElement), ("n", INT4)],
        place: Place::Anywhere,
        body: numbered,
    },
    TableFunction {
        name: "pg_options_to_table",
        arguments: &[ArgumentKind::Is(DataType::TextArray)],
        columns: &[("option_name", TEXT), ("option_value", TEXT)],
        place: Place::Anywhere,
        body: options,
    },
    TableFunction {
        name: "pg_tablespace_databases",
        arguments: &[OID],
        columns: &[("pg_tablespace_databases", OID)],
        place: Place::Anywhere,
        body: |arguments, context| {
            let wanted = match arguments.first() {
                Some(Value::Oid(oid)) => *oid,
                _ => return Ok(Vec::new()),
            };
            let holds = TABLESPACES[0].0 == wanted;
            let databases = super::database::databases(context).into_iter();
            let rows = databases.filter(|each| holds && database_name(each.oid, context).is_some());
            Ok(rows.map(|each| vec![Value::Oid(each.oid)]).collect())
        },
    },
    TableFunction {
        name: "string_to_table",
        arguments: &[TEXT, TEXT],
        columns: &[("string_to_table", TEXT)],
        place: Place::Anywhere,
        body: parts,
    },
    TableFunction {
        name: "string_to_table",
        arguments: &[TEXT, TEXT, TEXT],
        columns: &[("string_to_table", TEXT)],
        place: Place::Anywhere,
        body: parts,
    },
];

/// The key words of the grammar, each with what it may name.
fn keywords() -> Vec<Vec<Value>> {
    keyword::all()
        .map(|(word, category, bare)| {
            let (code, description) = match category {
                Category::Unreserved => (b'U', "unreserved"),
                Category::ColumnName => (b'C', "unreserved (cannot be function or type name)"),
                Category::TypeOrFunction => (b'T', "reserved (can be function or type name)"),
                Category::Reserved => (b'R', "reserved"),
            };
            vec![
                Value::text(word),
                Value::Char(code),
                Value::Bool(bare),
                Value::text(description),
                Value::text(if bare {
                    "can be bare label"
                } else {
                    "requires AS"
                }),
            ]
        })
        .collect()
}

/// The elements of an array, each with its place from 1 on.
fn numbered(arguments: &[Value], context: &mut EvaluationContext<'_>) -> Result<Vec<Vec<Value>>> {
    let Some(Value::Array(elements)) = arguments.first() else {
        return Ok(Vec::new());
    };
    context.claim(elements.len().saturating_mul(3 * size_of::<Value>()))?;
    let rows = elements.iter().zip(1..);
    Ok(rows
        .map(|(element, number)| vec![element.clone(), Value::Int4(number)])
        .collect())
}

/// Options written as `name=value`, taken apart.
fn options(arguments: &[Value], context: &mut EvaluationContext<'_>) -> Result<Vec<Vec<Value>>> {
    let Some(Value::Array(elements)) = arguments.first() else {
        return Ok(Vec::new());
    };
    context.claim(elements.len().saturating_mul(3 * size_of::<Value>()))?;
    let texts = elements.iter().filter_map(|element| match element {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    });
    Ok(texts
        .map(|text| match text.split_once('=') {
            Some((name, value)) => vec![Value::text(name), Value::text(value)],
            None => vec![Value::text(text), Value::Null],
        })
        .collect())
}

/// The parts of a text between delimiters, as `string_to_array` makes them.
fn parts(arguments: &[Value], context: &mut EvaluationContext<'_>) -> Result<Vec<Vec<Value>>> {
    let types = [DataType::Text.into(); 3];
    let all = crate::expression::split_string(
        crate::expression::Arguments {
            values: arguments,
            types: &types[..arguments.len()],
        },
        context,
    )?;
    Ok(match all {
        Value::Array(parts) => parts.iter().map(|part| vec![part.clone()]).collect(),
        _ => Vec::new(),
    })
}
