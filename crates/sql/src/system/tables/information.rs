//! The `information_schema` views of the catalog, schemas, tables and constraints.
//!
//! Each view shows what the current role owns or has a privilege on, as the standard
//! requires and PostgreSQL does. The privileges that count differ from view to view:
//!
//! | view | privileges |
//! | --- | --- |
//! | `tables` | any |
//! | `columns`, `key_column_usage` | those of columns: SELECT, INSERT, UPDATE, REFERENCES |
//! | `table_constraints` | any but SELECT |
//! | `check_constraints`, `constraint_column_usage` | none: owners only |
//! | `schemata` | any on the schema |

use std::sync::Arc;

use super::relations::{is_primary, schema_owner};
use crate::Value;
use crate::access::{ObjectKind, Privileges};
use crate::catalog::{Catalog, Index, Table};
use crate::expression::EvaluationContext;
use crate::system::relation::{
    Constraint, Relation, all_constraints, constraints, namespace_of, object_kind, relations,
};
use crate::system::table::system_table;
use crate::system::{PUBLIC as PUBLIC_NAMESPACE, listed, listed_schemas, role_name, schema_name};

system_table! {
    /// Name of the database.
    CATALOG_NAME = INFORMATION_SCHEMA 13227 View information_schema_catalog_name;
    context => [context.session.database.clone()];
    name => {
        catalog_name: Name = name,
    }
}

system_table! {
    /// Schemas that the current role may see.
    SCHEMATA = INFORMATION_SCHEMA 13382 View schemata;
    context => listed_schemas(context.catalog).filter(|(oid, ..)| may_see_schema(*oid, context));
    (oid, name, _) => {
        catalog_name: Name = context.session.database.clone(),
        schema_name: Name = name,
        schema_owner: Name = role_name(schema_owner(oid, context), context),
        default_character_set_catalog: Name = Value::Null,
        default_character_set_schema: Name = Value::Null,
        default_character_set_name: Name = Value::Null,
        sql_path: VarChar = Value::Null,
    }
}

system_table! {
    /// Tables and views that the current role may see.
    TABLES = INFORMATION_SCHEMA 13425 View tables;
    context => relations(context.catalog)
        .filter(|each| !matches!(each.kind(), b'i' | b'S') && may_see(*each, Privileges::TABLE, context));
    each => {
        table_catalog: Name = context.session.database.clone(),
        table_schema: Name = schema_name(each.namespace()),
        table_name: Name = each.name(),
        table_type: VarChar = match (each.kind(), each.persistence()) {
            (b'v', _) => "VIEW",
            (_, b't') => "LOCAL TEMPORARY",
            _ => "BASE TABLE",
        },
        self_referencing_column_name: Name = Value::Null,
        reference_generation: VarChar = Value::Null,
        user_defined_type_catalog: Name = Value::Null,
        user_defined_type_schema: Name = Value::Null,
        user_defined_type_name: Name = Value::Null,
        is_insertable_into: VarChar = yes_or_no(super::views::is_insertable(each, context)),
        is_typed: VarChar = "NO",
        commit_action: VarChar = Value::Null,
    }
}

/// Privileges that exist on columns.
pub(super) const OF_COLUMNS: Privileges = Privileges::SELECT
    .with(Privileges::INSERT)
    .with(Privileges::UPDATE)
    .with(Privileges::REFERENCES);

/// Whether the current role owns a relation, or has any of these privileges on it.
pub(super) fn may_see(
    relation: Relation<'_>,
    any: Privileges,
    context: &EvaluationContext<'_>,
) -> bool {
    let (access, role) = (context.catalog.access(), context.session.role);
    if access.has_privileges_of(role, relation.owner()) {
        return true;
    }
    match relation {
        Relation::Table(table) | Relation::Index(table, _) => {
            let may = access.privileges(role, &table.owned, ObjectKind::Table);
            !may.both(any).is_none()
        }
        Relation::Object(object) => {
            let may = access.privileges(role, &object.owned, object_kind(object));
            !may.both(any).is_none()
        }
        Relation::System(table) => any.include(Privileges::SELECT) && !table.is_secret(),
    }
}

/// Whether the current role may see a schema. All roles may see schemas of system
/// tables.
fn may_see_schema(oid: u32, context: &EvaluationContext<'_>) -> bool {
    let (access, role) = (context.catalog.access(), context.session.role);
    let is_owner = access.has_privileges_of(role, schema_owner(oid, context));
    let may = || access.privileges(role, &access.schema, ObjectKind::Schema);
    is_owner || oid != PUBLIC_NAMESPACE || !may().is_none()
}

/// Boolean of the SQL standard: `YES` or `NO`.
pub(super) const fn yes_or_no(truth: bool) -> &'static str {
    if truth { "YES" } else { "NO" }
}

/// Name of the check constraint for NOT NULL, generated as PostgreSQL does.
pub(super) fn not_null_name(table: &Table, attribute: i16) -> String {
    format!("{PUBLIC_NAMESPACE}_{}_{attribute}_not_null", table.oid)
}

/// Constraints: name, table, kind.
fn table_constraints(
    catalog: &Catalog,
) -> impl Iterator<Item = (String, &Arc<Table>, &'static str)> {
    let keys = all_constraints(catalog).map(|constraint| {
        let kind = match constraint {
            Constraint::Key(_, index) if is_primary(index) => "PRIMARY KEY",
            Constraint::Key(..) => "UNIQUE",
            Constraint::Check(..) => "CHECK",
        };
        (constraint.name().to_owned(), constraint.table(), kind)
    });
    let checks = listed(catalog).flat_map(|table| {
        let columns = table.columns.iter().filter(|column| column.not_null);
        columns.map(move |column| (not_null_name(table, column.attribute), table, "CHECK"))
    });
    keys.chain(checks)
}

system_table! {
    /// Constraints of tables that the current role may see.
    TABLE_CONSTRAINTS = INFORMATION_SCHEMA 13411 View table_constraints;
    context => table_constraints(context.catalog).filter(|(_, table, _)| {
        let any = Privileges::TABLE.without(Privileges::SELECT);
        may_see(Relation::Table(table), any, context)
    });
    (name, table, kind) => {
        constraint_catalog: Name = context.session.database.clone(),
        constraint_schema: Name = schema_name(namespace_of(table)),
        constraint_name: Name = name,
        table_catalog: Name = context.session.database.clone(),
        table_schema: Name = schema_name(namespace_of(table)),
        table_name: Name = &table.name,
        constraint_type: VarChar = kind,
        is_deferrable: VarChar = "NO",
        initially_deferred: VarChar = "NO",
        enforced: VarChar = "YES",
        nulls_distinct: VarChar = (kind == "UNIQUE").then_some("YES"),
    }
}

/// Key columns of constraints, each with its position in the key.
fn key_columns(catalog: &Catalog) -> impl Iterator<Item = (&Arc<Table>, &Arc<Index>, &str, i32)> {
    constraints(catalog).flat_map(|(table, index)| {
        index
            .columns
            .iter()
            .zip(1..)
            .map(move |(key, place)| (table, index, table.columns[key.column].name.as_str(), place))
    })
}

system_table! {
    /// Columns of primary keys and unique constraints.
    KEY_COLUMN_USAGE = INFORMATION_SCHEMA 13329 View key_column_usage;
    context => key_columns(context.catalog)
        .filter(|(table, ..)| may_see(Relation::Table(table), OF_COLUMNS, context));
    (table, index, column, place) => {
        constraint_catalog: Name = context.session.database.clone(),
        constraint_schema: Name = schema_name(namespace_of(table)),
        constraint_name: Name = &index.name,
        table_catalog: Name = context.session.database.clone(),
        table_schema: Name = schema_name(namespace_of(table)),
        table_name: Name = &table.name,
        column_name: Name = column,
        ordinal_position: Int4 = place,
        position_in_unique_constraint: Int4 = Value::Null,
    }
}

/// Columns that constraints refer to: table, constraint, column.
fn constrained(catalog: &Catalog) -> impl Iterator<Item = (&Arc<Table>, &str, &str)> {
    all_constraints(catalog).flat_map(|constraint| {
        let table = constraint.table();
        let named = constraint
            .attributes()
            .into_iter()
            .filter_map(move |attribute| {
                let mut columns = table.columns.iter();
                let column = columns.find(|column| column.attribute == attribute)?;
                Some((table, constraint.name(), column.name.as_str()))
            });
        named.collect::<Vec<_>>()
    })
}

system_table! {
    /// Columns that constraints refer to.
    CONSTRAINT_COLUMN_USAGE = INFORMATION_SCHEMA 13300 View constraint_column_usage;
    context => constrained(context.catalog)
        .filter(|(table, ..)| may_see(Relation::Table(table), Privileges::NONE, context));
    (table, constraint, column) => {
        table_catalog: Name = context.session.database.clone(),
        table_schema: Name = schema_name(namespace_of(table)),
        table_name: Name = &table.name,
        column_name: Name = column,
        constraint_catalog: Name = context.session.database.clone(),
        constraint_schema: Name = schema_name(namespace_of(table)),
        constraint_name: Name = constraint,
    }
}
