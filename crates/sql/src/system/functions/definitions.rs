//! SQL functions that print objects as SQL (types, indexes, constraints, defaults), and
//! conversions between names and OIDs.

use super::{ANY, BOOL, INT4, OID, REGCLASS, REGTYPE, TEXT};
use crate::expression::{Arguments, EvaluationContext, Function};
use crate::system::definition::{
    constraint_definition, format_type, index_definition, key_column, without_brackets,
};
use crate::system::object::{find, parse_identifier};
use crate::system::relation::{
    Relation, all_constraints, index_by_oid, relation_by_oid, search_path,
};
use crate::system::tables::{updatable_columns, update_events};
use crate::system::{object_by_oid, role_name};
use crate::value::DataType;
use crate::view_text::view_text;
use crate::{Error, Result, SqlState, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("format_type", &[OID, INT4], TEXT, |a, _| {
        if a.values.first().is_none_or(Value::is_null) {
            return Ok(Value::Null);
        }
        let modifier = match a.values.get(1) {
            Some(Value::Int4(modifier)) => Some(*modifier),
            _ => None,
        };
        Ok(Value::text(format_type(a.oid(0), modifier)))
    })
    .null_aware(),
    Function::new("pg_get_userbyid", &[OID], super::NAME, |a, context| {
        Ok(match role_name(a.oid(0), context) {
            Some(name) => Value::Text(name),
            None => Value::text(format!("unknown (OID={})", a.oid(0))),
        })
    })
    .stable(),
    // The catalog stores expressions as SQL text, so there is no tree to deparse.
    Function::new("pg_get_expr", &[TEXT, OID], TEXT, first),
    Function::new("pg_get_expr", &[TEXT, OID, BOOL], TEXT, |a, _| {
        Ok(match a.truth(2) {
            true => Value::text(without_brackets(a.text(0).to_owned())),
            false => a.values[0].clone(),
        })
    }),
    Function::new("pg_get_indexdef", &[OID], TEXT, |a, context| {
        Ok(index(a, context, false))
    })
    .stable(),
    Function::new("pg_get_indexdef", &[OID, INT4, BOOL], TEXT, |a, context| {
        let column = a.integer(1);
        if column == 0 {
            // Pretty-printing qualifies the table's name only if the search path does
            // not find it.
            let bare = a.truth(2) && search_path(context).contains(&"public");
            return Ok(index(a, context, bare));
        }
        let Some((table, index)) = index_by_oid(context.catalog, a.oid(0)) else {
            return Ok(Value::Null);
        };
        let position = usize::try_from(column - 1).unwrap_or(usize::MAX);
        Ok(Value::text(
            key_column(table, index, position).unwrap_or_default(),
        ))
    })
    .stable(),
    Function::new("pg_get_constraintdef", &[OID], TEXT, constraint).stable(),
    Function::new("pg_get_constraintdef", &[OID, BOOL], TEXT, constraint).stable(),
    Function::new("pg_get_viewdef", &[OID], TEXT, view_by_oid).stable(),
    Function::new("pg_get_viewdef", &[OID, BOOL], TEXT, view_by_oid).stable(),
    Function::new("pg_get_viewdef", &[OID, INT4], TEXT, view_by_oid).stable(),
    Function::new("pg_get_viewdef", &[TEXT], TEXT, view_by_name).stable(),
    Function::new("pg_get_viewdef", &[TEXT, BOOL], TEXT, view_by_name).stable(),
    nothing("pg_get_ruledef", &[OID]),
    nothing("pg_get_ruledef", &[OID, BOOL]),
    nothing("pg_get_triggerdef", &[OID]),
    nothing("pg_get_triggerdef", &[OID, BOOL]),
    nothing("pg_get_functiondef", &[OID]),
    nothing("pg_get_function_arguments", &[OID]),
    nothing("pg_get_function_identity_arguments", &[OID]),
    nothing("pg_get_function_result", &[OID]),
    nothing("pg_get_function_sqlbody", &[OID]),
    nothing("pg_get_partkeydef", &[OID]),
    nothing("pg_get_partition_constraintdef", &[OID]),
    nothing("pg_get_statisticsobjdef", &[OID]),
    nothing("pg_get_statisticsobjdef_columns", &[OID]),
    Function::new(
        "pg_get_replica_identity_index",
        &[REGCLASS],
        REGCLASS,
        |_, _| Ok(Value::Null),
    ),
    Function::new(
        "pg_relation_is_publishable",
        &[REGCLASS],
        BOOL,
        |a, context| {
            Ok(match relation_by_oid(context.catalog, a.oid(0)) {
                Some(relation) => Value::Bool(matches!(relation, Relation::Table(_))),
                None => Value::Null,
            })
        },
    )
    .stable(),
    // Bit mask of the events INSERT, UPDATE and DELETE: 8 + 4 + 16.
    Function::new(
        "pg_relation_is_updatable",
        &[REGCLASS, BOOL],
        INT4,
        |a, context| {
            let found = relation_by_oid(context.catalog, a.oid(0));
            let events = found.map_or(0, |relation| update_events(relation, context));
            Ok(Value::Int4(events))
        },
    )
    .stable(),
    Function::new(
        "pg_column_is_updatable",
        &[REGCLASS, super::INT2, BOOL],
        BOOL,
        |a, context| {
            let Some(relation) = relation_by_oid(context.catalog, a.oid(0)) else {
                return Ok(Value::Bool(false));
            };
            let number = a.integer(1);
            let attributes = relation.attributes();
            let mut attributes = attributes.iter();
            let position = attributes.position(|each| i64::from(each.number) == number);
            let updatable = updatable_columns(relation, context);
            let is = position.and_then(|position| updatable.get(position).copied());
            Ok(Value::Bool(is.unwrap_or(false)))
        },
    )
    .stable(),
    Function::new("to_regclass", &[TEXT], REGCLASS, |a, context| {
        to_object(DataType::Regclass, a, context)
    })
    .stable(),
    Function::new("to_regtype", &[TEXT], REGTYPE, |a, context| {
        to_object(DataType::Regtype, a, context)
    })
    .stable(),
    Function::new(
        "to_regnamespace",
        &[TEXT],
        crate::expression::ArgumentKind::Is(DataType::Regnamespace),
        |a, context| to_object(DataType::Regnamespace, a, context),
    )
    .stable(),
    Function::new(
        "to_regrole",
        &[TEXT],
        crate::expression::ArgumentKind::Is(DataType::Regrole),
        |a, context| to_object(DataType::Regrole, a, context),
    )
    .stable(),
    Function::new(
        "to_regproc",
        &[TEXT],
        crate::expression::ArgumentKind::Is(DataType::Regproc),
        |a, context| to_object(DataType::Regproc, a, context),
    )
    .stable(),
    Function::new(
        "to_regprocedure",
        &[TEXT],
        crate::expression::ArgumentKind::Is(DataType::Regprocedure),
        |a, context| to_object(DataType::Regprocedure, a, context),
    )
    .stable(),
    Function::new(
        "to_regoper",
        &[TEXT],
        crate::expression::ArgumentKind::Is(DataType::Regoper),
        |a, context| to_object(DataType::Regoper, a, context),
    )
    .stable(),
    Function::new(
        "to_regoperator",
        &[TEXT],
        crate::expression::ArgumentKind::Is(DataType::Regoperator),
        |a, context| to_object(DataType::Regoperator, a, context),
    )
    .stable(),
    Function::new("parse_ident", &[TEXT], TEXTS, parse_ident),
    Function::new("parse_ident", &[TEXT, BOOL], TEXTS, parse_ident),
    Function::new("pg_typeof", &[ANY], REGTYPE, |a, context| {
        let oid = a.types.first().map_or(0, |given| given.data_type.oid());
        Ok(object_by_oid(DataType::Regtype, oid, context))
    })
    .null_aware()
    .stable(),
];

const TEXTS: crate::expression::ArgumentKind =
    crate::expression::ArgumentKind::Is(DataType::TextArray);

fn parse_ident(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    context.work(a.text(0).len())?;
    let strict = a.values.get(1) != Some(&Value::Bool(false));
    let parts = parse_identifier(a.text(0), strict)?;
    Ok(Value::Array(parts.into_iter().map(Value::text).collect()))
}

/// A function that is always null, for kinds of objects that Coeval does not have.
const fn nothing(
    name: &'static str,
    arguments: &'static [crate::expression::ArgumentKind],
) -> Function {
    Function::new(name, arguments, TEXT, |_, _| Ok(Value::Null))
}

fn first(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(a.values.first().cloned().unwrap_or_default())
}

/// The definition of an index; `bare` leaves the schema of its table out.
fn index(a: Arguments<'_>, context: &EvaluationContext<'_>, bare: bool) -> Value {
    match index_by_oid(context.catalog, a.oid(0)) {
        Some((table, index)) => Value::text(index_definition(table, index, bare)),
        None => Value::Null,
    }
}

fn view_by_oid(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    view(a.oid(0), is_pretty(&a), context)
}

fn view_by_name(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let found = find(DataType::Regclass, a.text(0), context)?;
    let oid = found.ok_or_else(|| {
        let message = format!("relation \"{}\" does not exist", a.text(0));
        Error::new(SqlState::UNDEFINED_TABLE, message)
    })?;
    view(oid, is_pretty(&a), context)
}

/// Whether a function that prints shall leave out brackets: as its second argument says, and
/// always where that is a width.
fn is_pretty(a: &Arguments<'_>) -> bool {
    matches!(a.values.get(1), Some(Value::Bool(true) | Value::Int4(_)))
}

fn view(oid: u32, pretty: bool, context: &EvaluationContext<'_>) -> Result<Value> {
    let object = context.catalog.object_by_oid(oid);
    let Some((object, view)) = object.and_then(|object| Some((object, object.view()?))) else {
        return Ok(Value::Null);
    };
    view_text(object, view, pretty, context).map(Value::text)
}

fn constraint(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let found = all_constraints(context.catalog).find(|each| each.oid() == a.oid(0));
    Ok(match found {
        Some(constraint) => Value::text(constraint_definition(constraint, a.truth(1), context)),
        None => Value::Null,
    })
}

fn to_object(
    data_type: DataType,
    a: Arguments<'_>,
    context: &EvaluationContext<'_>,
) -> Result<Value> {
    Ok(match find(data_type, a.text(0), context) {
        Ok(Some(oid)) => object_by_oid(data_type, oid, context),
        Ok(None) | Err(_) => Value::Null,
    })
}
