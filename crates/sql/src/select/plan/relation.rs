//! Which relation a name in FROM stands for: a table, a sequence, a view or a system table,
//! along the search path; in a view's query what its definition says.

use std::sync::Arc;

use crate::catalog::{self, Definition, Object, PUBLIC, Table, is_temporary_schema};
use crate::expression::Binder;
use crate::system::{self, SystemTable};
use crate::{Error, Result, SqlState};

/// The table that a relation name resolves to.
pub(super) enum Resolved {
    Table(Arc<Table>),
    Sequence(Arc<Object>),
    View(Arc<Object>),
    System(&'static SystemTable),
}

/// A sequence or a view as a relation.
fn of_object(object: Arc<Object>) -> Resolved {
    match object.view() {
        Some(_) => Resolved::View(object),
        None => Resolved::Sequence(object),
    }
}

/// The relation of this name in `public`.
fn in_public(binder: &Binder<'_>, name: &str) -> Result<Resolved> {
    if let Some(catalog::Relation::Object(object)) = binder.catalog.relation(name) {
        return Ok(of_object(object));
    }
    let table = binder.catalog.table(name)?;
    Ok(Resolved::Table(Arc::clone(table)))
}

/// The relation that a name in a view's query stands for.
fn in_view(
    binder: &Binder<'_>,
    definition: &Definition,
    schema: Option<&str>,
    name: &str,
) -> Result<Resolved> {
    let oid = definition
        .reference(schema, name)
        .ok_or_else(|| Error::internal("a view names a relation that it does not know"))?
        .oid;
    if let Some(table) = binder.catalog.table_by_oid(oid) {
        return Ok(Resolved::Table(Arc::clone(table)));
    }
    if let Some(object) = binder.catalog.object_by_oid(oid) {
        return Ok(of_object(Arc::clone(object)));
    }
    system::table_by_oid(oid)
        .map(Resolved::System)
        .ok_or_else(|| Error::internal("a relation that a view reads is gone"))
}

/// Resolves a relation name, along the search path if it has no schema.
pub(super) fn resolve_relation(
    binder: &Binder<'_>,
    schema: Option<&str>,
    name: &str,
) -> Result<Resolved> {
    if let Some(definition) = &binder.views.definition {
        return in_view(binder, definition, schema, name);
    }
    let own = match schema {
        Some(schema) => is_temporary_schema(schema),
        // Temporary tables hide all others, unless the path has them elsewhere.
        None => !binder
            .session
            .search_path
            .iter()
            .any(|each| is_temporary_schema(each)),
    };
    if own && let Some(table) = binder.catalog.temporary_table(name) {
        return Ok(Resolved::Table(Arc::clone(table?)));
    }
    match schema {
        Some(PUBLIC) => in_public(binder, name).map_err(|error| match error.state() {
            SqlState::UNDEFINED_TABLE => undefined(&format!("public.{name}")),
            _ => error,
        }),
        Some(schema) => system::table(schema, name)
            .map(Resolved::System)
            .ok_or_else(|| undefined(&format!("{schema}.{name}"))),
        None => {
            let path = &binder.session.search_path;
            // PostgreSQL searches pg_catalog first, unless the path lists it elsewhere.
            if !path.iter().any(|schema| schema == "pg_catalog")
                && let Some(table) = system::table("pg_catalog", name)
            {
                return Ok(Resolved::System(table));
            }
            for schema in path {
                if is_temporary_schema(schema) {
                    if let Some(table) = binder.catalog.temporary_table(name) {
                        return Ok(Resolved::Table(Arc::clone(table?)));
                    }
                } else if schema == PUBLIC {
                    match in_public(binder, name) {
                        Ok(found) => return Ok(found),
                        Err(error) if error.state() == SqlState::UNDEFINED_TABLE => {}
                        Err(error) => return Err(error),
                    }
                } else if let Some(table) = system::table(schema, name) {
                    return Ok(Resolved::System(table));
                }
            }
            // With an empty search path, unqualified names still resolve in the only
            // schema, because scripts of pg_dump begin by emptying the path.
            if path.is_empty() {
                return match in_public(binder, name) {
                    Err(error) if error.state() == SqlState::UNDEFINED_TABLE => {
                        Err(undefined(name))
                    }
                    found => found,
                };
            }
            Err(undefined(name))
        }
    }
}

fn undefined(name: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_TABLE,
        format!("relation \"{name}\" does not exist"),
    )
}
