//! The relations that `pg_class` lists: tables, their indexes, and the system tables.

use std::sync::Arc;

use super::table::{SystemTable, TableKind, all, by_oid};
use super::tables::is_primary;
use super::{COEVAL, PUBLIC, TEMPORARY, constraint_oid, listed, schema_name};
use crate::access::ObjectKind;
use crate::catalog::over_columns;
use crate::catalog::{self, Catalog, Check, Content, Generation, Index, Object, Table, View};
use crate::expression::EvaluationContext;
use crate::statement::parse_expression;
use crate::value::{ColumnType, DataType};

/// A relation of `pg_class`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Relation<'a> {
    Table(&'a Arc<Table>),
    Index(&'a Arc<Table>, &'a Arc<Index>),
    /// A sequence or a view.
    Object(&'a Arc<Object>),
    System(&'static SystemTable),
}

/// The columns that SELECT finds in a sequence.
const SEQUENCE_COLUMNS: [(&str, DataType); 3] = [
    ("last_value", DataType::Int8),
    ("log_cnt", DataType::Int8),
    ("is_called", DataType::Bool),
];

/// Kind of the privileges that an object has.
pub(super) fn object_kind(object: &Object) -> ObjectKind {
    match object.content {
        Content::Sequence(_) => ObjectKind::Sequence,
        Content::View(_) => ObjectKind::Table,
    }
}

/// A column of a relation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute<'a> {
    pub(super) relation: Relation<'a>,
    pub(super) name: &'a str,
    pub(super) column_type: ColumnType,
    pub(super) number: i16,
    pub(super) not_null: bool,
    pub(super) default: Option<&'a str>,
    pub(super) generation: Option<&'a Generation>,
}

/// All relations that are listed, in this order: tables, indexes, sequences and views, system
/// tables. Those of the schema `coeval` are not: tools that compare or dump what a database
/// has would take them for a user's.
pub(super) fn relations(catalog: &Catalog) -> impl Iterator<Item = Relation<'_>> {
    let system = all().filter(|table| table.namespace != COEVAL);
    tables_and_indexes(catalog)
        .chain(catalog.objects().map(Relation::Object))
        .chain(system.map(Relation::System))
}

fn tables_and_indexes(catalog: &Catalog) -> impl Iterator<Item = Relation<'_>> {
    listed(catalog).flat_map(|table| {
        std::iter::once(Relation::Table(table)).chain(
            table
                .indexes
                .iter()
                .map(move |index| Relation::Index(table, index)),
        )
    })
}

/// All indexes, with their tables.
pub(super) fn indexes(catalog: &Catalog) -> impl Iterator<Item = (&Arc<Table>, &Arc<Index>)> {
    listed(catalog).flat_map(|table| table.indexes.iter().map(move |index| (table, index)))
}

/// All indexes that enforce constraints, with their tables.
pub(super) fn constraints(catalog: &Catalog) -> impl Iterator<Item = (&Arc<Table>, &Arc<Index>)> {
    indexes(catalog).filter(|(_, index)| index.constraint)
}

/// A constraint of a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Constraint<'a> {
    /// A primary key or a unique constraint.
    Key(&'a Arc<Table>, &'a Arc<Index>),
    /// A CHECK constraint.
    Check(&'a Arc<Table>, &'a Check),
}

/// All constraints: keys, then CHECK constraints.
pub(super) fn all_constraints(catalog: &Catalog) -> impl Iterator<Item = Constraint<'_>> {
    let keys = constraints(catalog).map(|(table, index)| Constraint::Key(table, index));
    let checks = listed(catalog).flat_map(|table| {
        let checks = table.checks.iter();
        checks.map(move |check| Constraint::Check(table, check))
    });
    keys.chain(checks)
}

impl<'a> Constraint<'a> {
    pub(super) fn table(self) -> &'a Arc<Table> {
        match self {
            Self::Key(table, _) | Self::Check(table, _) => table,
        }
    }

    pub(super) fn oid(self) -> u32 {
        match self {
            Self::Key(_, index) => constraint_oid(index.oid),
            Self::Check(_, check) => check.oid,
        }
    }

    pub(super) fn name(self) -> &'a str {
        match self {
            Self::Key(_, index) => &index.name,
            Self::Check(_, check) => &check.name,
        }
    }

    /// Kind of the constraint, as in `pg_constraint.contype`.
    pub(super) fn kind(self) -> u8 {
        match self {
            Self::Key(_, index) if is_primary(index) => b'p',
            Self::Key(..) => b'u',
            Self::Check(..) => b'c',
        }
    }

    /// OID of its index; 0 if it has none.
    pub(super) fn index(self) -> u32 {
        match self {
            Self::Key(_, index) => index.oid,
            Self::Check(..) => 0,
        }
    }

    /// Attribute numbers of its columns.
    pub(super) fn attributes(self) -> Vec<i16> {
        match self {
            Self::Key(_, index) => index.columns.iter().map(|key| key.attribute).collect(),
            Self::Check(table, check) => {
                let Ok(parsed) = parse_expression(&check.condition) else {
                    return Vec::new();
                };
                let (_, columns) = over_columns(parsed, table);
                let attributes = columns
                    .iter()
                    .map(|column| table.columns[*column].attribute);
                attributes.collect()
            }
        }
    }
}

/// The index with this OID, with its table.
pub(super) fn index_by_oid(catalog: &Catalog, oid: u32) -> Option<(&Arc<Table>, &Arc<Index>)> {
    indexes(catalog).find(|(_, index)| index.oid == oid)
}

/// The relation with this OID.
pub(super) fn relation_by_oid(catalog: &Catalog, oid: u32) -> Option<Relation<'_>> {
    if let Some(table) = catalog.table_by_oid(oid) {
        return Some(Relation::Table(table));
    }
    if let Some((table, index)) = index_by_oid(catalog, oid) {
        return Some(Relation::Index(table, index));
    }
    if let Some(object) = catalog.object_by_oid(oid) {
        return Some(Relation::Object(object));
    }
    by_oid(oid).map(Relation::System)
}

/// All views.
pub(super) fn views(catalog: &Catalog) -> impl Iterator<Item = (&Arc<Object>, &View)> {
    let objects = catalog.objects();
    objects.filter_map(|object| Some((object, object.view()?)))
}

/// All columns of all relations.
pub(super) fn attributes(catalog: &Catalog) -> impl Iterator<Item = Attribute<'_>> {
    relations(catalog).flat_map(Relation::attributes)
}

impl<'a> Attribute<'a> {
    /// The expression of `pg_attrdef`: the default, or what the column is computed by.
    pub(super) fn expression(&self) -> Option<&'a str> {
        let computed = self.generation.and_then(Generation::expression);
        self.default.or(computed)
    }
}

impl<'a> Relation<'a> {
    pub(super) fn oid(self) -> u32 {
        match self {
            Self::Table(table) => table.oid,
            Self::Index(_, index) => index.oid,
            Self::Object(object) => object.oid,
            Self::System(table) => table.oid,
        }
    }

    pub(super) fn name(self) -> &'a str {
        match self {
            Self::Table(table) => &table.name,
            Self::Index(_, index) => &index.name,
            Self::Object(object) => &object.name,
            Self::System(table) => table.name,
        }
    }

    pub(super) fn namespace(self) -> u32 {
        match self {
            Self::System(table) => table.namespace,
            Self::Table(table) | Self::Index(table, _) => namespace_of(table),
            Self::Object(_) => PUBLIC,
        }
    }

    /// How long the relation lives, as in `pg_class.relpersistence`.
    pub(super) fn persistence(self) -> u8 {
        match self {
            Self::Table(table) | Self::Index(table, _) if table.is_temporary() => b't',
            Self::Table(table) | Self::Index(table, _) if table.is_unlogged => b'u',
            _ => b'p',
        }
    }

    /// OID of the role that owns the relation.
    pub(super) fn owner(self) -> u32 {
        match self {
            Self::Table(table) | Self::Index(table, _) => table.owned.owner,
            Self::Object(object) => object.owned.owner,
            Self::System(_) => super::ROLE,
        }
    }

    /// Kind of the relation, as in `pg_class.relkind`.
    pub(super) fn kind(self) -> u8 {
        match self {
            Self::Table(_) => b'r',
            Self::Index(..) => b'i',
            Self::Object(object) => match object.content {
                Content::Sequence(_) => b'S',
                Content::View(_) => b'v',
            },
            Self::System(table) if table.kind == TableKind::View => b'v',
            Self::System(_) => b'r',
        }
    }

    /// Number of columns, including dropped ones.
    pub(super) fn attribute_count(self) -> i16 {
        let count = match self {
            Self::Table(table) => table.cells,
            Self::Index(_, index) => index.columns.len(),
            Self::Object(object) => match &object.content {
                Content::Sequence(_) => SEQUENCE_COLUMNS.len(),
                Content::View(view) => view.columns.len(),
            },
            Self::System(table) => table.columns.len(),
        };
        i16::try_from(count).unwrap_or(i16::MAX)
    }

    /// Whether the unqualified name resolves to this relation: its schema is in the
    /// search path, and no earlier schema contains the name.
    pub(super) fn is_visible(self, context: &EvaluationContext<'_>) -> bool {
        search_path(context)
            .iter()
            .find_map(|schema| relation_in(context.catalog, schema, self.name()))
            .is_some_and(|found| found == self.oid())
    }

    /// The columns of the relation.
    pub(super) fn attributes(self) -> Vec<Attribute<'a>> {
        match self {
            Self::Table(table) => table
                .columns
                .iter()
                .map(|column| Attribute {
                    relation: self,
                    name: &column.name,
                    column_type: column.column_type,
                    number: column.attribute,
                    not_null: column.not_null,
                    default: column.default.as_deref(),
                    generation: column.generation.as_ref(),
                })
                .collect(),
            Self::Index(table, index) => index
                .columns
                .iter()
                .zip(1..)
                .map(|(key, number)| Attribute {
                    relation: self,
                    name: &table.columns[key.column].name,
                    column_type: key.column_type,
                    number,
                    not_null: false,
                    default: None,
                    generation: None,
                })
                .collect(),
            Self::Object(object) => match &object.content {
                Content::Sequence(_) => SEQUENCE_COLUMNS
                    .iter()
                    .zip(1..)
                    .map(|((name, data_type), number)| Attribute {
                        relation: self,
                        name,
                        column_type: ColumnType::from(*data_type),
                        number,
                        not_null: true,
                        default: None,
                        generation: None,
                    })
                    .collect(),
                Content::View(view) => view
                    .columns
                    .iter()
                    .zip(1..)
                    .map(|(column, number)| Attribute {
                        relation: self,
                        name: &column.name,
                        column_type: column.column_type,
                        number,
                        not_null: false,
                        default: column.default.as_deref(),
                        generation: None,
                    })
                    .collect(),
            },
            Self::System(table) => table
                .columns
                .iter()
                .zip(1..)
                .map(|((name, data_type), number)| Attribute {
                    relation: self,
                    name,
                    column_type: ColumnType::from(*data_type),
                    number,
                    // The OID and name columns of system tables are never null.
                    not_null: table.kind == TableKind::Table
                        && number <= 2
                        && matches!(data_type, DataType::Oid | DataType::Name),
                    default: None,
                    generation: None,
                })
                .collect(),
        }
    }
}

/// OID of the schema of a table and its indexes.
pub(super) fn namespace_of(table: &Table) -> u32 {
    match table.is_temporary() {
        true => TEMPORARY,
        false => PUBLIC,
    }
}

/// The schemas in which unqualified names are searched, in order, including implicit
/// ones.
pub(super) fn search_path<'a>(context: &'a EvaluationContext<'_>) -> Vec<&'a str> {
    let mut path: Vec<&str> = context
        .session
        .search_path
        .iter()
        .map(smol_str::SmolStr::as_str)
        .map(|name| match catalog::is_temporary_schema(name) {
            true => catalog::TEMPORARY,
            false => name,
        })
        .filter(|name| super::schemas(context.catalog).any(|(_, known, _)| known == *name))
        .collect();
    if !path.contains(&"pg_catalog") {
        path.insert(0, "pg_catalog");
    }
    if context.catalog.has_temporary() && !path.contains(&catalog::TEMPORARY) {
        path.insert(0, catalog::TEMPORARY);
    }
    path
}

/// OID of the relation of this name in a schema.
pub(super) fn relation_in(catalog: &Catalog, schema: &str, name: &str) -> Option<u32> {
    let found = if Some(schema) == schema_name(PUBLIC) {
        catalog.relation(name)
    } else if catalog::is_temporary_schema(schema) {
        catalog.temporary_relation(name)
    } else {
        return super::table(schema, name).map(|table| table.oid);
    };
    found.map(|found| match found {
        catalog::Relation::Table(table) => table.oid,
        catalog::Relation::Index(_, index) => index.oid,
        catalog::Relation::Object(object) => object.oid,
    })
}
