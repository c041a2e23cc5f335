//! Privileges as `aclitem`s.

use super::role_name;
use super::table::array;
use crate::Value;
use crate::access::{Kind, Owned};
use crate::expression::EvaluationContext;

/// What is granted on something, for a column of type `aclitem[]`: null when nobody
/// has said anything.
pub(super) fn grants(owned: &Owned, kind: Kind, context: &EvaluationContext<'_>) -> Value {
    // Everybody sees the same schema in PostgreSQL: its first grants are made when
    // the database is.
    if owned.grants.is_none() && kind == Kind::Table {
        return Value::Null;
    }
    let name = |oid| quoted(oid, context);
    array(owned.grants(kind).iter().map(|grant| grant.show(name)))
}

/// A role's name as an `aclitem` has it: in quotes if it has other characters than
/// letters, digits and underscores.
fn quoted(oid: u32, context: &EvaluationContext<'_>) -> String {
    let Some(name) = role_name(oid, context) else {
        return oid.to_string();
    };
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain && !name.is_empty() {
        name.to_string()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}
