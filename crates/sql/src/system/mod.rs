//! The system catalogs `pg_catalog`, `information_schema` and `coeval`: virtual tables
//! computed from the catalog.
//!
//! Clients query a server about itself in SQL: psql's `\d`, a driver that looks up a
//! type, an object-relational mapper that compares the existing tables with its models.
//! They query PostgreSQL's system tables, so Coeval offers those as tables without
//! storage: a [`SystemTable`] has PostgreSQL's columns, and computes its rows, when a
//! query reads it, from the schema that the statement's snapshot shows.
//!
//! ```text
//!   \dt        select … from pg_catalog.pg_class c left join pg_catalog.pg_namespace n …
//!                                 │ table("pg_catalog", "pg_class")
//!                                 ▼
//!   catalog ──each table, index and system table──▶ rows ──▶ joined like any other
//! ```
//!
//! Tables of objects that Coeval does not support (triggers, policies, publications and
//! so on) are empty, which is correct. A column whose numbers the server does not
//! track, such as a relation's size, is null, or the value that PostgreSQL uses for
//! "unknown".
//!
//! `pg_proc`, `pg_operator`, `pg_cast` and the operator families list only user-defined
//! objects, of which there are none, and what other system tables refer to; built-in
//! functions and operators have no rows.
//!
//! OIDs of objects:
//!
//! | object | OID |
//! | --- | --- |
//! | tables, indexes, sequences, CHECK constraints | the catalog's |
//! | types, schemas, access methods, operator classes, system tables | PostgreSQL 15's |
//! | constraints with an index | its OID, with the second highest bit set |
//! | rules of views | their view's OID, with the third highest bit set |
//! | defaults | computed from the table's OID and the column's number, with the highest bit set |
//! | the schema `coeval` and its objects | from 15000 on |
//! | roles | the catalog's; the bootstrap role has 10, and owns the system objects |
//! | the database | 5: the server has one database, under whatever name the client connects to |
//!
//! Invariants:
//! - A row has a value for every column; the macro that declares a table states a
//!   column's name, type and value in one line.
//! - Computing rows reads the catalog, the session, its instance
//!   ([`Instance`](crate::instance::Instance)) and the engine's reports about
//!   itself. It never waits and never fails.
//!
//! - `table`: the macro that declares a system table, and the list of all.
//! - `tables`: the tables, by subject.
//! - `relation`: the rows of `pg_class`, one by one.
//! - `definition`: the deparser, which prints parts of the schema as SQL.
//! - `database`: the names of the database.
//! - `object`: `regclass` and its like: conversion between names and OIDs.
//! - `sets`: functions that return rows.
//! - `functions`: SQL functions over the system tables.

mod database;
mod definition;
mod functions;
mod grants;
mod object;
mod relation;
mod sets;
mod table;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use smol_str::SmolStr;

use crate::catalog::{Catalog, Table};
use crate::expression::{EvaluationContext, SystemObjects};
use functions::FUNCTIONS;
use functions::sequences::NEXT_OF_IDENTITY;
pub(crate) use functions::sequences::{SEQUENCE_COLUMNS, SEQUENCE_PARAMETERS};
use object::{object_by_name, object_by_oid};
pub(crate) use table::by_oid as table_by_oid;
pub use table::{SystemTable, table};

/// The system tables' interface for expressions.
pub(crate) const OBJECTS: &SystemObjects = &SystemObjects {
    functions: FUNCTIONS,
    sets: sets::SETS,
    by_name: object_by_name,
    by_oid: object_by_oid,
    next_of_identity: &NEXT_OF_IDENTITY,
};

/// OID of the role that owns the system objects.
pub(crate) const ROLE: u32 = crate::access::FIRST_ROLE;
/// OID of the only database.
pub(crate) const DATABASE: u32 = crate::access::DATABASE;

/// All schemas: OID, name, comment.
pub(crate) const SCHEMAS: [(u32, &str, Option<&str>); 4] = [
    (PG_CATALOG, "pg_catalog", Some("system catalog schema")),
    (PUBLIC, "public", Some("standard public schema")),
    (INFORMATION_SCHEMA, "information_schema", None),
    (COEVAL, "coeval", Some("what the server does")),
];
/// The schema of the session's temporary tables, once it has one.
const TEMPORARY_SCHEMA: (u32, &str, Option<&str>) = (TEMPORARY, crate::catalog::TEMPORARY, None);
pub(crate) const TEMPORARY: u32 = 15_999;
pub(crate) const PG_CATALOG: u32 = 11;
pub(crate) const PUBLIC: u32 = crate::access::store::PUBLIC_OID;
pub(crate) const INFORMATION_SCHEMA: u32 = 13_207;
pub(crate) const COEVAL: u32 = 15_000;
/// OID of the access method of tables.
const HEAP: u32 = 2;
/// OID of the access method of indexes.
const BTREE: u32 = 403;
/// OID of the collation of strings.
const DEFAULT_COLLATION: u32 = 100;
/// OID of the collation of names.
const C_COLLATION: u32 = 950;

/// Name of the role with this OID. The bootstrap role is shown under the name that the
/// client logged in with, unless another role has that name.
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

/// OID of the role of this name.
pub(crate) fn role_by_name(name: &str, context: &EvaluationContext<'_>) -> Option<u32> {
    let found = context.catalog.access().role_by_name(name);
    found.map(|role| role.oid).or_else(|| {
        let alias = context.session.alias.as_deref() == Some(name);
        alias.then_some(ROLE)
    })
}

/// Name of the role, and of its table, in which a cluster writes and reads to estimate its
/// own consistency (`coeval.gamma`). Neither is listed among those of users.
pub const PROBE: &str = "coeval_probe";

/// The tables that are listed: all but the probe's.
fn listed(catalog: &Catalog) -> impl Iterator<Item = &Arc<Table>> {
    let access = catalog.access();
    catalog.tables().filter(move |table| {
        let owner = access.role(table.owned.owner);
        table.name != PROBE || owner.is_none_or(|owner| owner.name != PROBE)
    })
}

/// The schemas that the session sees: OID, name, comment.
fn schemas(
    catalog: &Catalog,
) -> impl Iterator<Item = (u32, &'static str, Option<&'static str>)> + use<> {
    let temporary = catalog.has_temporary().then_some(TEMPORARY_SCHEMA);
    SCHEMAS.into_iter().chain(temporary)
}

/// The schemas that are listed: all but that of what the server itself does.
pub(crate) fn listed_schemas(
    catalog: &Catalog,
) -> impl Iterator<Item = (u32, &'static str, Option<&'static str>)> + use<> {
    schemas(catalog).filter(|(oid, ..)| *oid != COEVAL)
}

/// Name of the schema with this OID.
pub(crate) fn schema_name(oid: u32) -> Option<&'static str> {
    SCHEMAS
        .iter()
        .chain([&TEMPORARY_SCHEMA])
        .find(|(number, _, _)| *number == oid)
        .map(|(_, name, _)| *name)
}

/// OID of the constraint that an index enforces.
pub(crate) const fn constraint_oid(index: u32) -> u32 {
    index | 1 << 30
}

/// OID of the rule that makes a relation a view.
const fn rule_oid(view: u32) -> u32 {
    view | 1 << 29
}

/// OID of a column's default. Unique for the columns of the first million tables.
const fn default_oid(table: u32, attribute: i16) -> u32 {
    1 << 31 | (table << 11 & 0x7fff_ffff) | attribute as u32
}
