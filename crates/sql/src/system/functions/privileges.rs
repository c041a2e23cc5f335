//! SQL functions that inquire access privileges, such as `has_table_privilege`.
//!
//! ```text
//!   has_table_privilege('app', 'orders', 'select, insert with grant option')
//!                        │      │         true if the role has any of these
//!                        │      by name or by OID
//!                        the current role, if omitted
//! ```
//!
//! A column has the privileges of its table. On objects that have no privileges here
//! (functions, types, languages and so on) every role has all of them.

use super::{ANY, BOOL};
use crate::access::{ObjectKind, Owned, PUBLIC_ROLE, Privileges, no_role};
use crate::expression::{ArgumentKind, Body, EvaluationContext, Function};
use crate::system::object::find;
use crate::system::relation::{Relation, relation_by_oid};
use crate::system::{PUBLIC, SCHEMAS, role_by_name};
use crate::value::DataType;
use crate::{Error, Result, SqlState, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    asked("has_table_privilege", &[ANY, ANY], |a, context| {
        table(context.session.role, &a.values[0], a.text(1), context)
    }),
    asked("has_table_privilege", &[ANY, ANY, ANY], |a, context| {
        table(
            role(&a.values[0], context)?,
            &a.values[1],
            a.text(2),
            context,
        )
    }),
    asked("has_any_column_privilege", &[ANY, ANY], |a, context| {
        table(context.session.role, &a.values[0], a.text(1), context)
    }),
    asked(
        "has_any_column_privilege",
        &[ANY, ANY, ANY],
        |a, context| {
            table(
                role(&a.values[0], context)?,
                &a.values[1],
                a.text(2),
                context,
            )
        },
    ),
    asked("has_column_privilege", &[ANY, ANY, ANY], |a, context| {
        if !has_column(&a.values[0], &a.values[1], context)? {
            return Ok(Value::Null);
        }
        table(context.session.role, &a.values[0], a.text(2), context)
    }),
    asked(
        "has_column_privilege",
        &[ANY, ANY, ANY, ANY],
        |a, context| {
            if !has_column(&a.values[1], &a.values[2], context)? {
                return Ok(Value::Null);
            }
            table(
                role(&a.values[0], context)?,
                &a.values[1],
                a.text(3),
                context,
            )
        },
    ),
    asked("has_schema_privilege", &[ANY, ANY], |a, context| {
        schema(context.session.role, &a.values[0], a.text(1), context)
    }),
    asked("has_schema_privilege", &[ANY, ANY, ANY], |a, context| {
        schema(
            role(&a.values[0], context)?,
            &a.values[1],
            a.text(2),
            context,
        )
    }),
    asked("has_database_privilege", &[ANY, ANY], |a, context| {
        database(context.session.role, a.text(1), context)
    }),
    asked("has_database_privilege", &[ANY, ANY, ANY], |a, context| {
        database(role(&a.values[0], context)?, a.text(2), context)
    }),
    asked("pg_has_role", &[ANY, ANY], |a, context| {
        member(context.session.role, &a.values[0], a.text(1), context)
    }),
    asked("pg_has_role", &[ANY, ANY, ANY], |a, context| {
        member(
            role(&a.values[0], context)?,
            &a.values[1],
            a.text(2),
            context,
        )
    }),
    asked("has_sequence_privilege", &[ANY, ANY], |a, context| {
        sequence(context.session.role, &a.values[0], a.text(1), context)
    }),
    asked("has_sequence_privilege", &[ANY, ANY, ANY], |a, context| {
        let role = role(&a.values[0], context)?;
        sequence(role, &a.values[1], a.text(2), context)
    }),
    granted("has_function_privilege", &[ANY, ANY]),
    granted("has_function_privilege", &[ANY, ANY, ANY]),
    granted("has_type_privilege", &[ANY, ANY]),
    granted("has_type_privilege", &[ANY, ANY, ANY]),
    granted("has_language_privilege", &[ANY, ANY]),
    granted("has_language_privilege", &[ANY, ANY, ANY]),
    granted("has_tablespace_privilege", &[ANY, ANY]),
    granted("has_tablespace_privilege", &[ANY, ANY, ANY]),
    granted("has_foreign_data_wrapper_privilege", &[ANY, ANY]),
    granted("has_foreign_data_wrapper_privilege", &[ANY, ANY, ANY]),
    granted("has_server_privilege", &[ANY, ANY]),
    granted("has_server_privilege", &[ANY, ANY, ANY]),
    granted("has_parameter_privilege", &[ANY, ANY]),
    granted("has_parameter_privilege", &[ANY, ANY, ANY]),
    Function::new("row_security_active", &[ANY], BOOL, |_, _| {
        Ok(Value::Bool(false))
    })
    .stable(),
];

const fn granted(name: &'static str, arguments: &'static [ArgumentKind]) -> Function {
    asked(name, arguments, |_, _| Ok(Value::Bool(true)))
}

const fn asked(name: &'static str, arguments: &'static [ArgumentKind], body: Body) -> Function {
    Function::new(name, arguments, BOOL, body).stable()
}

/// The OID, if the argument is a number and not a name.
fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Oid(oid) | Value::Object(oid, _) => Some(*oid),
        Value::Int4(oid) => u32::try_from(*oid).ok(),
        Value::Int8(oid) => u32::try_from(*oid).ok(),
        _ => None,
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        _ => "",
    }
}

/// The role that an argument refers to; the pseudo-role of all roles for `public`.
fn role(value: &Value, context: &EvaluationContext<'_>) -> Result<u32> {
    if let Some(oid) = number(value) {
        return Ok(oid);
    }
    match text(value) {
        "public" => Ok(PUBLIC_ROLE),
        name => role_by_name(name, context).ok_or_else(|| no_role(name)),
    }
}

/// Whether a role has any of the privileges that a string lists.
fn has_any(
    role: u32,
    owned: &Owned,
    kind: ObjectKind,
    wanted: &str,
    context: &EvaluationContext<'_>,
) -> Result<Value> {
    let access = context.catalog.access();
    let (may, may_grant) = if role == PUBLIC_ROLE {
        let grants = owned.grants(kind);
        let of_all = grants.iter().filter(|each| each.grantee == PUBLIC_ROLE);
        let may = of_all.fold(Privileges::NONE, |all, each| all.with(each.privileges));
        (may, Privileges::NONE)
    } else {
        let may = access.privileges(role, owned, kind);
        (may, access.grantable(role, owned, kind))
    };
    let mut any = false;
    for (privilege, option) in wanted_privileges(wanted, kind)? {
        let among = if option { may_grant } else { may };
        any |= among.include(privilege);
    }
    Ok(Value::Bool(any))
}

/// Parses a list of privileges, such as `select, insert with grant option`.
fn wanted_privileges(wanted: &str, kind: ObjectKind) -> Result<Vec<(Privileges, bool)>> {
    wanted
        .split(',')
        .map(|word| {
            let word = word.trim().to_ascii_lowercase();
            let (name, option) = match word.strip_suffix("with grant option") {
                Some(name) => (name.trim_end(), true),
                None => (word.as_str(), false),
            };
            Privileges::named(name)
                .filter(|privilege| kind.all().include(*privilege))
                .map(|privilege| (privilege, option))
                .ok_or_else(|| unrecognized(name))
        })
        .collect()
}

fn unrecognized(name: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unrecognized privilege type: \"{name}\""),
    )
}

/// OID of the relation that an argument refers to.
fn relation(relation: &Value, context: &EvaluationContext<'_>) -> Result<u32> {
    Ok(match number(relation) {
        Some(oid) => oid,
        None => {
            let name = text(relation);
            find(DataType::Regclass, name, context)?.ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("relation \"{name}\" does not exist"),
                )
            })?
        }
    })
}

fn sequence(
    role: u32,
    sequence: &Value,
    wanted: &str,
    context: &EvaluationContext<'_>,
) -> Result<Value> {
    let oid = relation(sequence, context)?;
    match context.catalog.sequence(oid) {
        Some((object, _)) => has_any(role, &object.owned, ObjectKind::Sequence, wanted, context),
        None => match relation_by_oid(context.catalog, oid) {
            None => Ok(Value::Null),
            Some(other) => Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a sequence", other.name()),
            )),
        },
    }
}

fn table(role: u32, table: &Value, wanted: &str, context: &EvaluationContext<'_>) -> Result<Value> {
    let oid = relation(table, context)?;
    match relation_by_oid(context.catalog, oid) {
        None => Ok(Value::Null),
        Some(Relation::Table(table) | Relation::Index(table, _)) => {
            has_any(role, &table.owned, ObjectKind::Table, wanted, context)
        }
        Some(Relation::Object(object)) => {
            has_any(role, &object.owned, ObjectKind::Table, wanted, context)
        }
        Some(Relation::System(table)) => {
            let superuser = context.catalog.access().is_superuser(role);
            let wanted = wanted_privileges(wanted, ObjectKind::Table)?;
            let reads = wanted.contains(&(Privileges::SELECT, false));
            Ok(Value::Bool(superuser || (reads && !table.is_secret())))
        }
    }
}

/// Whether a relation has a column, which is given by its name or its number. One that is
/// given by a wrong name is an error, 42703.
fn has_column(relation: &Value, column: &Value, context: &EvaluationContext<'_>) -> Result<bool> {
    let oid = match number(relation) {
        Some(oid) => Some(oid),
        None => find(DataType::Regclass, text(relation), context)?,
    };
    // What is wrong with the relation is said for the relation.
    let Some(relation) = oid.and_then(|oid| relation_by_oid(context.catalog, oid)) else {
        return Ok(true);
    };
    let columns = relation.attributes();
    let wanted = match column {
        Value::Int2(number) => Some(i64::from(*number)),
        other => number(other).map(i64::from),
    };
    if let Some(wanted) = wanted {
        return Ok(columns.iter().any(|each| i64::from(each.number) == wanted));
    }
    match columns.iter().any(|each| each.name == text(column)) {
        true => Ok(true),
        false => Err(Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{}\" of relation \"{}\" does not exist",
                text(column),
                relation.name()
            ),
        )),
    }
}

fn schema(
    role: u32,
    schema: &Value,
    wanted: &str,
    context: &EvaluationContext<'_>,
) -> Result<Value> {
    let known = |(oid, name, _): &&(u32, &str, _)| match number(schema) {
        Some(number) => number == *oid,
        None => text(schema) == *name,
    };
    let Some((oid, ..)) = SCHEMAS.iter().find(known) else {
        return match number(schema) {
            Some(_) => Ok(Value::Null),
            None => Err(Error::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{}\" does not exist", text(schema)),
            )),
        };
    };
    let access = context.catalog.access();
    if *oid == PUBLIC {
        return has_any(role, &access.schema, ObjectKind::Schema, wanted, context);
    }
    let wanted = wanted_privileges(wanted, ObjectKind::Schema)?;
    let uses = wanted.contains(&(Privileges::USAGE, false));
    Ok(Value::Bool(access.is_superuser(role) || uses))
}

/// Every role may connect to the database; only superusers may create schemas in it.
fn database(role: u32, wanted: &str, context: &EvaluationContext<'_>) -> Result<Value> {
    let superuser = context.catalog.access().is_superuser(role);
    let mut any = false;
    for word in wanted.split(',') {
        let word = word.trim().to_ascii_lowercase();
        let name = word.strip_suffix("with grant option").map(str::trim_end);
        any |= match name.unwrap_or(&word) {
            "connect" | "temp" | "temporary" => name.is_none() || superuser,
            "create" => superuser,
            other => return Err(unrecognized(other)),
        };
    }
    Ok(Value::Bool(any))
}

fn member(member: u32, of: &Value, how: &str, context: &EvaluationContext<'_>) -> Result<Value> {
    let of = role(of, context)?;
    let access = context.catalog.access();
    let mut any = false;
    for word in how.split(',') {
        let word = word.trim().to_ascii_lowercase();
        any |= match word.as_str() {
            "usage" => access.has_privileges_of(member, of),
            "member" | "set" => access.is_member(member, of),
            _ if word.contains(" with ") => access.administers(member, of),
            other => return Err(unrecognized(other)),
        };
    }
    Ok(Value::Bool(any))
}
