//! `pg_catalog`, `information_schema` and `coeval`, made from the catalog.
//!
//! Clients ask a server about itself in SQL: psql's `\d`, a driver that looks up a
//! type, a mapper that compares the tables there are with those it wants. They ask
//! PostgreSQL's system tables, so those are here, as tables without storage: a
//! [`SystemTable`] has PostgreSQL's columns and makes its rows, when it is read,
//! from the schema that the statement's snapshot shows.
//!
//! ```text
//!   \dt        select … from pg_catalog.pg_class c left join pg_catalog.pg_namespace n …
//!                                 │ table("pg_catalog", "pg_class")
//!                                 ▼
//!   catalog ──each table, index and system table──▶ rows ──▶ joined like any other
//! ```
//!
//! What a table says of things that do not exist here (triggers, policies,
//! publications and so on) is true: it has no rows. A column that would need
//! numbers nobody keeps, such as a relation's size, is null, or what PostgreSQL
//! writes for "unknown".
//!
//! `pg_proc`, `pg_operator`, `pg_cast` and the operator families list what users
//! define, which is nothing; built-in functions and operators are not rows.
//!
//! Numbers of objects:
//!
//! | object | number |
//! | --- | --- |
//! | tables and indexes | the catalog's |
//! | types, schemas, access methods, operator classes, system tables | PostgreSQL 15's |
//! | constraints | their index's, with the second highest bit set |
//! | defaults | made from the table's and the column's, with the highest bit set |
//! | the schema `coeval` and what is in it | from 15000 on |
//! | roles | the catalog's; the first one's is 10, and system objects are its |
//! | the database | 5: whatever name was asked for is the one database there is |
//!
//! Invariants:
//! - A row has a value for every column; the macro that declares a table writes a
//!   column's name, type and value in one line.
//! - Making rows reads the catalog, the session, what is around it
//!   ([`Surroundings`](crate::instance::Surroundings)) and what the engine says of
//!   itself. It never waits and never fails.
//!
//! - `table`: the declaration of a system table, and the list of all.
//! - `tables`: the tables, by theme.
//! - `relation`: what `pg_class` lists, one item after the other.
//! - `definition`: parts of the schema as SQL.
//! - `object`: `regclass` and its like: from name to number and back.
//! - `functions`: the functions over all this.

mod definition;
mod functions;
mod grants;
mod object;
mod relation;
mod table;
mod tables;
#[cfg(test)]
mod tests;

use smol_str::SmolStr;

use crate::expression::{EvaluationContext, SystemObjects};
use functions::FUNCTIONS;
use object::{object_by_name, object_by_oid};
pub use table::{SystemTable, table};

/// What expressions take from here.
pub(crate) const OBJECTS: &SystemObjects = &SystemObjects {
    functions: FUNCTIONS,
    by_name: object_by_name,
    by_oid: object_by_oid,
};

/// The role that system objects belong to.
pub(crate) const ROLE: u32 = crate::access::FIRST_ROLE;
/// The database there is.
pub(crate) const DATABASE: u32 = 5;

/// The schemas there are: number, name, comment.
pub(crate) const SCHEMAS: [(u32, &str, Option<&str>); 4] = [
    (PG_CATALOG, "pg_catalog", Some("system catalog schema")),
    (PUBLIC, "public", Some("standard public schema")),
    (INFORMATION_SCHEMA, "information_schema", None),
    (COEVAL, "coeval", Some("what the server does")),
];
pub(crate) const PG_CATALOG: u32 = 11;
pub(crate) const PUBLIC: u32 = crate::access::store::PUBLIC_OID;
pub(crate) const INFORMATION_SCHEMA: u32 = 13_207;
pub(crate) const COEVAL: u32 = 15_000;
/// The access method of tables.
const HEAP: u32 = 2;
/// The access method of indexes.
const BTREE: u32 = 403;
/// The collation of strings.
const DEFAULT_COLLATION: u32 = 100;
/// The collation of names.
const C_COLLATION: u32 = 950;

/// The name of the role with this number. The first role goes by the name it was
/// let in under, as long as no other role has that.
pub(crate) fn role_name(oid: u32, context: &EvaluationContext<'_>) -> Option<SmolStr> {
    let access = context.catalog.access();
    if oid == ROLE
        && let Some(alias) = &context.session.alias
        && access.role_by_name(alias).is_none()
    {
        return Some(alias.clone());
    }
    access
        .role(oid)
        .map(|role| SmolStr::from(role.name.as_str()))
}

/// The number of the role of this name.
pub(crate) fn role_by_name(name: &str, context: &EvaluationContext<'_>) -> Option<u32> {
    let found = context.catalog.access().role_by_name(name);
    found.map(|role| role.oid).or_else(|| {
        let alias = context.session.alias.as_deref() == Some(name);
        alias.then_some(ROLE)
    })
}

/// The schema with this number.
pub(crate) fn schema_name(oid: u32) -> Option<&'static str> {
    SCHEMAS
        .iter()
        .find(|(number, _, _)| *number == oid)
        .map(|(_, name, _)| *name)
}

/// The number of the constraint that an index stands for.
const fn constraint_oid(index: u32) -> u32 {
    index | 1 << 30
}

/// The number of a column's default. Different for different columns of the first
/// million tables.
const fn default_oid(table: u32, attribute: i16) -> u32 {
    1 << 31 | (table << 11 & 0x7fff_ffff) | attribute as u32
}
