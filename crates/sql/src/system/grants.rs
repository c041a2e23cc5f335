//! Access control lists: prints privileges as `aclitem`s.

use super::role_name;
use super::table::array;
use crate::Value;
use crate::access::{ObjectKind, Owned};
use crate::expression::EvaluationContext;

/// The privileges on an object, as a value of type `aclitem[]`; null if they are still
/// the default.
pub(super) fn grants(owned: &Owned, kind: ObjectKind, context: &EvaluationContext<'_>) -> Value {
    // For schemas, PostgreSQL stores explicit grants from the start, so those are never
    // null.
    if owned.grants.is_none() && kind != ObjectKind::Schema {
        return Value::Null;
    }
    let name = |oid| quoted(oid, context);
    array(owned.grants(kind).iter().map(|grant| grant.show(name)))
}

/// Prints a role's name as an `aclitem` does: quoted if it contains characters other
/// than letters, digits and underscores.
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
