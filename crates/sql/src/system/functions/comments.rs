//! SQL functions for comments on objects. COMMENT is not supported, so only the
//! built-in rows of `pg_description` have comments.

use super::{INT4, NAME, OID, TEXT};
use crate::Value;
use crate::expression::Function;
use crate::system::SCHEMAS;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("obj_description", &[OID], TEXT, |a, _| {
        Ok(comment(a.oid(0), "pg_namespace"))
    })
    .stable(),
    Function::new("obj_description", &[OID, NAME], TEXT, |a, _| {
        Ok(comment(a.oid(0), a.text(1)))
    })
    .stable(),
    Function::new("shobj_description", &[OID, NAME], TEXT, |_, _| {
        Ok(Value::Null)
    })
    .stable(),
    Function::new("col_description", &[OID, INT4], TEXT, |_, _| {
        Ok(Value::Null)
    })
    .stable(),
];

fn comment(oid: u32, catalog: &str) -> Value {
    SCHEMAS
        .iter()
        .find(|(schema, ..)| *schema == oid && catalog == "pg_namespace")
        .and_then(|(_, _, comment)| *comment)
        .map_or(Value::Null, Value::text)
}
