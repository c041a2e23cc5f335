//! SQL functions for comments on objects.

use super::{INT4, NAME, OID, TEXT};
use crate::Value;
use crate::catalog::{CONSTRAINTS, DATABASES, RELATIONS, ROLES, SCHEMAS as SCHEMA_CLASS, TYPES};
use crate::expression::{EvaluationContext, Function};
use crate::system::{SCHEMAS, table};

pub(super) const FUNCTIONS: &[Function] = &[
    // Without a class, any object with this number is meant.
    Function::new("obj_description", &[OID], TEXT, |a, context| {
        let context = &*context;
        let classes = [RELATIONS, CONSTRAINTS, SCHEMA_CLASS, TYPES];
        let found = classes
            .into_iter()
            .find_map(|class| comment(class, a.oid(0), 0, context));
        Ok(found.map_or(Value::Null, Value::text))
    })
    .stable(),
    Function::new("obj_description", &[OID, NAME], TEXT, |a, context| {
        Ok(of_class(a.text(1), a.oid(0), context))
    })
    .stable(),
    Function::new(
        "shobj_description",
        &[OID, NAME],
        TEXT,
        |a, context| match a.text(1) {
            "pg_authid" | "pg_database" => Ok(of_class(a.text(1), a.oid(0), context)),
            _ => Ok(Value::Null),
        },
    )
    .stable(),
    Function::new("col_description", &[OID, INT4], TEXT, |a, context| {
        let part = i32::try_from(a.integer(1)).unwrap_or_default();
        let found = comment(RELATIONS, a.oid(0), part, context).filter(|_| part != 0);
        Ok(found.map_or(Value::Null, Value::text))
    })
    .stable(),
];

/// The comment on an object of a class that a system table lists.
fn of_class(catalog: &str, object: u32, context: &EvaluationContext<'_>) -> Value {
    let class = match catalog {
        "pg_authid" => Some(ROLES),
        "pg_database" => Some(DATABASES),
        _ => table("pg_catalog", catalog).map(|table| table.oid),
    };
    let found = class.and_then(|class| comment(class, object, 0, context));
    found.map_or(Value::Null, Value::text)
}

/// The comment on an object or a part of one: that of COMMENT ON, or a built-in one.
fn comment<'a>(
    class: u32,
    object: u32,
    part: i32,
    context: &'a EvaluationContext<'_>,
) -> Option<&'a str> {
    let own = context.catalog.comment(class, object, part);
    own.or_else(|| {
        let mut schemas = SCHEMAS.into_iter().filter(|_| class == SCHEMA_CLASS);
        schemas.find(|(oid, ..)| *oid == object)?.2
    })
}
