//! System tables of relations and their parts: `pg_class`, `pg_index`, `pg_constraint`,
//! `pg_namespace`, and the views over them.

use crate::Value;
use crate::access::ObjectKind;
use crate::expression::EvaluationContext;
use crate::system::definition::{condition, index_definition, options};
use crate::system::grants::grants;
use crate::system::relation::{
    Constraint, Relation, all_constraints, indexes, namespace_of, object_kind, relations,
};
use crate::system::table::{array, system_table};
use crate::system::{
    BTREE, HEAP, PUBLIC as PUBLIC_NAMESPACE, ROLE, listed_schemas, role_name, schema_name, tables,
};
use crate::value::DataType;

system_table! {
    /// Tables, indexes and system tables. Row counts are the engine's; −1 means not counted.
    PG_CLASS = PG_CATALOG 1259 Table pg_class;
    context => relations(context.catalog);
    each => {
        oid: Oid = each.oid(),
        relname: Name = each.name(),
        relnamespace: Oid = each.namespace(),
        reltype: Oid = 0u32,
        reloftype: Oid = 0u32,
        relowner: Oid = each.owner(),
        relam: Oid = match each.kind() { b'r' => HEAP, b'i' => BTREE, _ => 0 },
        relfilenode: Oid = match each.kind() {
            b'v' => 0,
            _ if matches!(each, Relation::System(_)) => 0,
            _ => each.oid(),
        },
        reltablespace: Oid = 0u32,
        relpages: Int4 = 0i32,
        reltuples: Float4 = match (&each, context.engine) {
            (Relation::Table(table), Some(engine)) => engine.estimated_rows(table.storage) as f32,
            _ => -1.0,
        },
        relallvisible: Int4 = 0i32,
        reltoastrelid: Oid = 0u32,
        relhasindex: Bool = matches!(each, Relation::Table(table) if !table.indexes.is_empty()),
        relisshared: Bool = false,
        relpersistence: InternalChar = each.persistence(),
        relkind: InternalChar = each.kind(),
        relnatts: Int2 = each.attribute_count(),
        relchecks: Int2 = match each {
            Relation::Table(table) => table.checks.len() as i16,
            _ => 0,
        },
        // A view has a rewrite rule.
        relhasrules: Bool = each.kind() == b'v',
        relhastriggers: Bool = false,
        relhassubclass: Bool = false,
        relrowsecurity: Bool = false,
        relforcerowsecurity: Bool = false,
        relispopulated: Bool = true,
        relreplident: InternalChar = if matches!(each, Relation::Table(_)) { b'd' } else { b'n' },
        relispartition: Bool = false,
        relrewrite: Oid = 0u32,
        relfrozenxid: Oid = 0u32,
        relminmxid: Oid = 0u32,
        relacl: AclItemArray = match each {
            Relation::Table(table) => grants(&table.owned, ObjectKind::Table, context),
            Relation::Object(object) => {
                grants(&object.owned, object_kind(object), context)
            }
            _ => Value::Null,
        },
        reloptions: TextArray = match each {
            Relation::Table(table) if !table.options.is_empty() => {
                array(options(&table.options))
            }
            Relation::Object(object) => match object.view() {
                Some(view) if !view.options.is_empty() => array(options(&view.options)),
                _ => Value::Null,
            },
            _ => Value::Null,
        },
        relpartbound: Text = Value::Null,
    }
}

system_table! {
    /// Indexes and their key columns.
    PG_INDEX = PG_CATALOG 2610 Table pg_index;
    context => indexes(context.catalog);
    (table, index) => {
        indexrelid: Oid = index.oid,
        indrelid: Oid = table.oid,
        indnatts: Int2 = index.columns.len() as i16,
        indnkeyatts: Int2 = index.columns.len() as i16,
        indisunique: Bool = index.is_unique(),
        indnullsnotdistinct: Bool = false,
        indisprimary: Bool = is_primary(index),
        indisexclusion: Bool = false,
        indimmediate: Bool = true,
        indisclustered: Bool = false,
        indisvalid: Bool = index.is_built,
        indcheckxmin: Bool = false,
        indisready: Bool = true,
        indislive: Bool = true,
        indisreplident: Bool = false,
        indkey: Int2Vector = array(index.columns.iter().map(|key| key.attribute)),
        indcollation: OidVector = array(
            index.columns.iter().map(|key| tables::collation_oid(key.column_type.data_type))
        ),
        indclass: OidVector = array(
            index.columns.iter().map(|key| super::access_methods::operator_class(key.column_type.data_type))
        ),
        indoption: Int2Vector = array(index.columns.iter().map(|key| {
            i16::from(key.order.descending) | i16::from(key.order.nulls_first) << 1
        })),
        indexprs: Text = Value::Null,
        indpred: Text = Value::Null,
    }
}

/// Whether the index enforces a primary key.
pub(in crate::system) fn is_primary(index: &crate::catalog::Index) -> bool {
    index.kind == coeval_types::IndexKind::Primary
}

system_table! {
    /// Constraints: primary keys, unique and CHECK constraints.
    PG_CONSTRAINT = PG_CATALOG 2606 Table pg_constraint;
    context => all_constraints(context.catalog);
    each => {
        oid: Oid = each.oid(),
        conname: Name = each.name(),
        connamespace: Oid = namespace_of(each.table()),
        contype: InternalChar = each.kind(),
        condeferrable: Bool = false,
        condeferred: Bool = false,
        convalidated: Bool = !matches!(each, Constraint::Check(_, check) if !check.is_valid),
        conrelid: Oid = each.table().oid,
        contypid: Oid = 0u32,
        conindid: Oid = each.index(),
        conparentid: Oid = 0u32,
        confrelid: Oid = 0u32,
        confupdtype: InternalChar = b' ',
        confdeltype: InternalChar = b' ',
        confmatchtype: InternalChar = b' ',
        conislocal: Bool = true,
        coninhcount: Int4 = 0i32,
        connoinherit: Bool = !matches!(each, Constraint::Check(_, check) if !check.is_local),
        conkey: Int2Array = array(each.attributes()),
        confkey: Int2Array = Value::Null,
        conpfeqop: OidArray = Value::Null,
        conppeqop: OidArray = Value::Null,
        conffeqop: OidArray = Value::Null,
        confdelsetcols: Int2Array = Value::Null,
        conexclop: OidArray = Value::Null,
        conbin: Text = match each {
            Constraint::Check(_, check) => Some(condition(&check.condition, context)),
            Constraint::Key(..) => None,
        },
    }
}

system_table! {
    /// Schemas and their owners.
    PG_NAMESPACE = PG_CATALOG 2615 Table pg_namespace;
    context => listed_schemas(context.catalog);
    (oid, name, _) => {
        oid: Oid = oid,
        nspname: Name = name,
        nspowner: Oid = schema_owner(oid, context),
        nspacl: AclItemArray = if oid == PUBLIC_NAMESPACE {
            grants(&context.catalog.access().schema, ObjectKind::Schema, context)
        } else {
            Value::Null
        },
    }
}

/// OID of the role that owns a schema.
pub(super) fn schema_owner(oid: u32, context: &EvaluationContext<'_>) -> u32 {
    match oid {
        PUBLIC_NAMESPACE => context.catalog.access().schema.owner,
        _ => ROLE,
    }
}

system_table! {
    /// Tables, by name.
    PG_TABLES = PG_CATALOG 12033 View pg_tables;
    context => relations(context.catalog).filter(|each| each.kind() == b'r');
    each => {
        schemaname: Name = schema_name(each.namespace()),
        tablename: Name = each.name(),
        tableowner: Name = role_name(each.owner(), context),
        tablespace: Name = Value::Null,
        hasindexes: Bool = matches!(each, Relation::Table(table) if !table.indexes.is_empty()),
        hasrules: Bool = false,
        hastriggers: Bool = false,
        rowsecurity: Bool = false,
    }
}

system_table! {
    /// Indexes, by name.
    PG_INDEXES = PG_CATALOG 12043 View pg_indexes;
    context => indexes(context.catalog);
    (table, index) => {
        schemaname: Name = schema_name(namespace_of(table)),
        tablename: Name = &table.name,
        indexname: Name = &index.name,
        tablespace: Name = Value::Null,
        indexdef: Text = index_definition(table, index, false),
    }
}

/// OID of a type's array type; 0 if it has none.
pub(super) fn array_oid(data_type: DataType) -> u32 {
    data_type.array().map_or(0, DataType::oid)
}
