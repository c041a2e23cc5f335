//! The names under which clients reach the database, each as a row of `pg_database`.
//!
//! There is one database, and every name leads to it. So a list of databases can only be
//! of names that clients use or expect: that of this session, those of the sessions
//! that are connected, `postgres`, and the default name. The templates, which every
//! PostgreSQL has, are names like any other that accept connections; only `template0` says
//! that it does not.

use smol_str::SmolStr;

use super::DATABASE;
use crate::expression::EvaluationContext;

/// OID of the first name that is not this session's.
const FIRST_OTHER: u32 = 14_000;

/// A name of the database.
pub(super) struct DatabaseName {
    pub(super) oid: u32,
    pub(super) name: SmolStr,
    pub(super) is_template: bool,
    /// Whether clients are told that they can connect under this name.
    pub(super) allows_connections: bool,
}

/// All names of the database: this session's, then the others in their order.
pub(super) fn databases(context: &EvaluationContext<'_>) -> Vec<DatabaseName> {
    let own = context.session.database.clone();
    let sessions = context.session.around.activities().all();
    let mut others: Vec<SmolStr> = sessions
        .into_iter()
        .map(|session| SmolStr::from(session.database))
        .chain(["postgres", "coeval"].map(SmolStr::new_static))
        .filter(|name| *name != own && !name.is_empty() && !name.starts_with("template"))
        .collect();
    others.sort_unstable();
    others.dedup();
    let name = |oid, name| DatabaseName {
        oid,
        is_template: name == "template0" || name == "template1",
        allows_connections: name != "template0",
        name,
    };
    let templates = [(1, "template1"), (4, "template0")];
    let templates = templates
        .into_iter()
        .filter(|(_, template)| *template != own)
        .map(|(oid, template)| name(oid, SmolStr::new_static(template)));
    let others = others.iter().zip(FIRST_OTHER..);
    std::iter::once(name(DATABASE, own.clone()))
        .chain(others.map(|(other, oid)| name(oid, other.clone())))
        .chain(templates)
        .collect()
}

/// The name with this OID.
pub(super) fn database_name(oid: u32, context: &EvaluationContext<'_>) -> Option<SmolStr> {
    let mut all = databases(context).into_iter();
    all.find(|each| each.oid == oid).map(|each| each.name)
}
