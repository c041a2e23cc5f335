//! System tables of views: `pg_rewrite`, `pg_views`, and the standard's `views` and what they use.

use crate::access::Privileges;
use crate::catalog::{CheckScope, FIRST_USER_OID, Object, View};
use crate::change;
use crate::expression::EvaluationContext;
use crate::system::relation::{Relation, relation_by_oid, views};
use crate::system::table::system_table;
use crate::system::tables::information::{may_see, yes_or_no};
use crate::system::{PUBLIC as PUBLIC_NAMESPACE, role_name, rule_oid, schema_name};
use crate::view_text::view_text;

/// The bits of `pg_relation_is_updatable`.
const UPDATE: i32 = 1 << 2;
const INSERT: i32 = 1 << 3;
const DELETE: i32 = 1 << 4;

/// Whether each column of a relation can be written.
pub(in crate::system) fn updatable_columns(
    relation: Relation<'_>,
    context: &EvaluationContext<'_>,
) -> Vec<bool> {
    match relation {
        Relation::Table(table) => vec![true; table.columns.len()],
        Relation::Object(object) => {
            let columns = change::updatable_columns(object, context.catalog, context.session);
            columns.unwrap_or_default()
        }
        Relation::Index(..) | Relation::System(_) => Vec::new(),
    }
}

/// The statements that can change a relation, as `pg_relation_is_updatable` says it.
pub(in crate::system) fn update_events(
    relation: Relation<'_>,
    context: &EvaluationContext<'_>,
) -> i32 {
    match updatable_columns(relation, context).as_slice() {
        [] => match relation {
            Relation::Table(_) => UPDATE | INSERT | DELETE,
            _ => 0,
        },
        _ => UPDATE | INSERT | DELETE,
    }
}

/// Whether rows can be inserted into a relation.
pub(super) fn is_insertable(relation: Relation<'_>, context: &EvaluationContext<'_>) -> bool {
    update_events(relation, context) & INSERT != 0
}

/// A view's definition, if it can be printed.
fn definition(object: &Object, view: &View, context: &EvaluationContext<'_>) -> Option<String> {
    view_text(object, view, false, context).ok()
}

system_table! {
    /// Rules: those that make relations views.
    PG_REWRITE = PG_CATALOG 2618 Table pg_rewrite;
    context => views(context.catalog);
    (object, _) => {
        oid: Oid = rule_oid(object.oid),
        rulename: Name = "_RETURN",
        ev_class: Oid = object.oid,
        ev_type: InternalChar = b'1',
        ev_enabled: InternalChar = b'O',
        is_instead: Bool = true,
        ev_qual: Text = "<>",
        ev_action: Text = "<>",
    }
}

system_table! {
    /// Views, by name.
    PG_VIEWS = PG_CATALOG 12028 View pg_views;
    context => views(context.catalog);
    (object, view) => {
        schemaname: Name = schema_name(PUBLIC_NAMESPACE),
        viewname: Name = &object.name,
        viewowner: Name = role_name(object.owned.owner, context),
        definition: Text = definition(object, view, context),
    }
}

/// Whether the current role owns a relation, by its OID.
fn owns(oid: u32, context: &EvaluationContext<'_>) -> bool {
    let access = context.catalog.access();
    let relation = relation_by_oid(context.catalog, oid);
    relation.is_some_and(|each| access.has_privileges_of(context.session.role, each.owner()))
}

system_table! {
    /// Views that the current role may see.
    VIEWS = INFORMATION_SCHEMA 13483 View views;
    context => views(context.catalog).filter(|(object, _)| {
        may_see(Relation::Object(object), Privileges::TABLE, context)
    });
    (object, view) => {
        table_catalog: Name = context.session.database.clone(),
        table_schema: Name = schema_name(PUBLIC_NAMESPACE),
        table_name: Name = &object.name,
        view_definition: VarChar = match owns(object.oid, context) {
            true => definition(object, view, context),
            false => None,
        },
        check_option: VarChar = match view.check_option() {
            None => "NONE",
            Some(CheckScope::Local) => "LOCAL",
            Some(CheckScope::Cascaded) => "CASCADED",
        },
        is_updatable: VarChar = yes_or_no(update_events(Relation::Object(object), context) != 0),
        is_insertable_into: VarChar = yes_or_no(is_insertable(Relation::Object(object), context)),
        is_trigger_updatable: VarChar = "NO",
        is_trigger_deletable: VarChar = "NO",
        is_trigger_insertable_into: VarChar = "NO",
    }
}

/// Relations that views read and the current role owns, each with the view.
fn used<'a>(
    context: &'a EvaluationContext<'_>,
) -> impl Iterator<Item = (&'a Object, Relation<'a>, &'a [i16])> {
    views(context.catalog).flat_map(move |(object, view)| {
        let relations = view.definition.relations.iter();
        relations.filter_map(move |each| {
            let relation = relation_by_oid(context.catalog, each.oid)?;
            let shown = each.oid >= FIRST_USER_OID && owns(each.oid, context);
            shown.then_some((&**object, relation, each.used.as_slice()))
        })
    })
}

system_table! {
    /// Relations of the current role that views read.
    VIEW_TABLE_USAGE = INFORMATION_SCHEMA 13478 View view_table_usage;
    context => used(context);
    (view, relation, _) => {
        view_catalog: Name = context.session.database.clone(),
        view_schema: Name = schema_name(PUBLIC_NAMESPACE),
        view_name: Name = &view.name,
        table_catalog: Name = context.session.database.clone(),
        table_schema: Name = schema_name(relation.namespace()),
        table_name: Name = relation.name(),
    }
}

system_table! {
    /// Columns of relations of the current role that views use.
    VIEW_COLUMN_USAGE = INFORMATION_SCHEMA 13468 View view_column_usage;
    context => used(context).flat_map(|(view, relation, used)| {
        let attributes = relation.attributes().into_iter();
        let attributes = attributes.filter(move |each| used.contains(&each.number));
        attributes.map(move |each| (view, relation, each.name))
    });
    (view, relation, column) => {
        view_catalog: Name = context.session.database.clone(),
        view_schema: Name = schema_name(PUBLIC_NAMESPACE),
        view_name: Name = &view.name,
        table_catalog: Name = context.session.database.clone(),
        table_schema: Name = schema_name(relation.namespace()),
        table_name: Name = relation.name(),
        column_name: Name = column,
    }
}
