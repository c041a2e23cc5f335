//! Views in FROM: a reference to a view is planned as the view's query, as a subquery.
//!
//! ```text
//!   select x from v where x > 5          v: select a + 1 as x from t       (owner: ada)
//!
//!   Filter x > 5                         SELECT on v        the reader needs
//!    └ Derived                           SELECT on t        ada needs
//!       └ Project a + 1 ─ Scan t
//! ```
//!
//! Inside of a view the binder is in another world: names are those of the view's
//! [`Definition`], WITH tables of the statement are not to be seen, there are no positions to
//! show in errors, and privileges are needed by the view's owner, unless the view is
//! `security_invoker`; then by who runs the statement, however deep the view is nested, as in
//! PostgreSQL.
//!
//! While CREATE VIEW binds a query, the binder keeps a record of the relations that the query
//! names and of the columns that it uses: that becomes the view's dictionary.

use std::sync::Arc;

use coeval_sql_syntax::tree::{Alias, Query, Relation};
use smol_str::SmolStr;

use super::node::Node;
use super::query::plan_with_shape;
use super::relation::{Resolved, resolve_relation};
use super::shape::Shape;
use crate::catalog::{Definition, Object, PUBLIC, Reference, Table, View};
use crate::expression::{
    Binder, Bound, CastContext, Expression, Frame, Locate, Recursion, Scope, ScopeColumn,
    ScopeRelation, fold_name,
};
use crate::output::Column;
use crate::statement::parse_query;
use crate::{Error, Result, SqlState};

/// Limit on views that a statement reads, those beneath others counted for each reader. Views
/// that read another one twice double the work with each level.
const VIEWS_AT_MOST: usize = 1000;

/// Number of views after which planning runs as blocking work, so that other sessions of the
/// thread need not wait.
const VIEWS_IN_A_STEP: usize = 16;

/// Where the binder is with regard to views.
#[derive(Debug, Default)]
pub(crate) struct Views {
    /// Definition of the view that is being planned, whose dictionary resolves names.
    pub(crate) definition: Option<Arc<Definition>>,
    /// OIDs of the views that are being planned, from the outermost in.
    open: Vec<u32>,
    /// Number of views planned.
    planned: usize,
    /// What the statement's own text names, if a definition is being made of it.
    record: Option<Vec<Reference>>,
}

impl Views {
    /// Starts a record of the relations that the statement's own text names.
    pub(crate) fn keep_record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// The record.
    pub(crate) fn take_record(&mut self) -> Vec<Reference> {
        self.record.take().unwrap_or_default()
    }

    fn record(&mut self) -> Option<&mut Vec<Reference>> {
        match self.open.is_empty() {
            true => self.record.as_mut(),
            false => None,
        }
    }

    /// Records that a name stands for a relation with these columns.
    pub(super) fn named(
        &mut self,
        schema: Option<&str>,
        name: &str,
        oid: u32,
        columns: impl Iterator<Item = (i16, String)>,
    ) {
        let Some(record) = self.record() else { return };
        let known = |each: &Reference| each.name == name && each.schema.as_deref() == schema;
        if !record.iter().any(known) {
            record.push(Reference {
                schema: schema.map(str::to_owned),
                name: name.to_owned(),
                oid,
                columns: columns.collect(),
                used: Vec::new(),
            });
        }
    }

    /// Records that a column is used.
    pub(crate) fn used(&mut self, origin: Option<(u32, i16)>) {
        let Some((oid, attribute)) = origin else {
            return;
        };
        let Some(record) = self.record() else { return };
        for each in record.iter_mut().filter(|each| each.oid == oid) {
            if each.column(attribute).is_some() && !each.used.contains(&attribute) {
                each.used.push(attribute);
            }
        }
    }
}

/// The place of everything inside of a view.
const NOWHERE: Locate<'static> = &nowhere;

const fn nowhere(_: u32) -> Option<u32> {
    None
}

/// Binds something inside of a view: its query, or the table beneath it.
pub(crate) fn inside_view<T>(
    binder: &mut Binder<'_>,
    object: &Object,
    view: &View,
    bind: impl FnOnce(&mut Binder<'_>, &Query) -> Result<T>,
) -> Result<T> {
    if binder.views.open.contains(&object.oid) {
        return Err(Error::new(
            SqlState("42P17"),
            format!(
                "infinite recursion detected in rules for relation \"{}\"",
                object.name
            ),
        ));
    }
    if binder.views.planned == VIEWS_AT_MOST {
        return Err(Error::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            format!(
                "views are read more than {VIEWS_AT_MOST} times in all, those beneath others counted for each reader"
            ),
        ));
    }
    let query = view.definition.query(parse_query)?;
    binder.views.planned += 1;
    binder.views.open.push(object.oid);
    let outside = binder
        .views
        .definition
        .replace(Arc::clone(&view.definition));
    let with = std::mem::take(&mut binder.with);
    let tables_planned = std::mem::take(&mut binder.tables_planned);
    let recursive_body = binder.recursive_body.take();
    let recursion = std::mem::replace(&mut binder.recursion, Recursion::Permitted);
    let levels = std::mem::take(&mut binder.levels);
    let locate = std::mem::replace(&mut binder.locate, NOWHERE);
    let role = (!view.is_invokers()).then_some(object.owned.owner);
    let acting = std::mem::replace(&mut binder.needs.acting, role);
    let planned = binder.views.planned;
    let bound = binder.below(1, |binder| {
        binder.apart(|binder| match planned > VIEWS_IN_A_STEP {
            true => coeval_env::block_in_place(|| bind(binder, &query)),
            false => bind(binder, &query),
        })
    });
    binder.needs.acting = acting;
    binder.locate = locate;
    binder.levels = levels;
    binder.recursion = recursion;
    binder.recursive_body = recursive_body;
    binder.tables_planned = tables_planned;
    binder.with = with;
    binder.views.definition = outside;
    binder.views.open.pop();
    bound
}

/// Plans the query of a view: a node, its logical form if the query around it may take it
/// apart, and the columns of the view. A `security_barrier` stays whole: a condition of the
/// reader must see no row that the view does not show.
pub(super) fn plan_view(
    binder: &mut Binder<'_>,
    object: &Object,
    view: &View,
) -> Result<(Node, Option<Shape>, Vec<Column>)> {
    let (plan, shape) = inside_view(binder, object, view, |binder, query| {
        let frame = Frame::outermost();
        let (plan, shape) = plan_with_shape(binder, query, &frame)?;
        if plan.columns().len() != view.columns.len() {
            return Err(Error::internal("a view with other columns than its query"));
        }
        Ok((plan, shape))
    })?;
    let mut casts = Vec::with_capacity(view.columns.len());
    let mut columns = Vec::with_capacity(view.columns.len());
    let mut differ = false;
    for (position, (own, made)) in view.columns.iter().zip(plan.columns()).enumerate() {
        let bound = Bound::new(Expression::Column(position), made.column_type);
        // The types were equal when the view was made, and stay so while nothing beneath it
        // changes its type.
        if made.column_type.data_type != own.column_type.data_type {
            differ = true;
            let cast = binder.cast(bound, own.column_type, CastContext::Explicit)?;
            casts.push(cast.expression);
        } else {
            casts.push(bound.expression);
        }
        columns.push(Column {
            name: own.name.clone(),
            column_type: own.column_type,
            table_oid: object.oid,
            attribute: position as i16 + 1,
        });
    }
    if differ {
        let node = Node::Project {
            input: Box::new(plan.root),
            expressions: casts,
        };
        return Ok((node, None, columns));
    }
    let shape = shape.filter(|_| !view.has("security_barrier"));
    Ok((plan.root, shape, columns))
}

/// What a view that stands for a table reads.
pub(crate) enum Beneath {
    /// A table, with its columns as the view's query may name them.
    Table(Arc<Table>, Vec<ScopeColumn>),
    /// Another view.
    View(Arc<Object>),
    /// A system table or a sequence.
    Other,
}

/// The relation that the query of a view names, inside of [`inside_view`].
pub(crate) fn beneath(binder: &mut Binder<'_>, relation: &Relation) -> Result<Beneath> {
    let (schema, name) = parts(relation)?;
    Ok(match resolve_relation(binder, schema.as_deref(), &name)? {
        Resolved::Table(table) => {
            let columns = table.columns.iter().enumerate();
            let columns = columns.map(|(position, column)| ScopeColumn {
                name: SmolStr::from(column.name.as_str()),
                expression: Expression::Column(position),
                column_type: column.column_type,
                origin: Some((table.oid, column.attribute)),
            });
            let columns = named_columns(binder, relation, columns.collect());
            Beneath::Table(table, columns)
        }
        Resolved::View(object) => Beneath::View(object),
        Resolved::Sequence(_) | Resolved::System(_) => Beneath::Other,
    })
}

/// The columns of a relation that a view's query names as it may name them: those of the time
/// when the view was made.
pub(crate) fn named_columns(
    binder: &Binder<'_>,
    relation: &Relation,
    columns: Vec<ScopeColumn>,
) -> Vec<ScopeColumn> {
    let definition = binder.views.definition.as_ref();
    let reference = definition.and_then(|definition| {
        let (schema, name) = parts(relation).ok()?;
        definition.reference(schema.as_deref(), &name)
    });
    let Some(reference) = reference else {
        return columns;
    };
    let of_then = columns.into_iter().filter_map(|mut column| {
        let (_, attribute) = column.origin?;
        column.name = SmolStr::from(reference.column(attribute)?);
        Some(column)
    });
    of_then.collect()
}

/// The scope of a FROM list that is this relation alone.
pub(crate) fn one_relation<'frame>(
    relation: &Relation,
    alias: Option<&Alias>,
    mut columns: Vec<ScopeColumn>,
    frame: &'frame Frame<'frame>,
) -> Result<Scope<'frame>> {
    let (_, name) = parts(relation)?;
    let (name, schema) = match alias {
        Some(alias) => (SmolStr::from(fold_name(&alias.name)), None),
        None => (SmolStr::from(name), Some(SmolStr::from(PUBLIC))),
    };
    let renamed = alias.map_or(&[][..], |alias| &alias.columns);
    for (column, renamed) in columns.iter_mut().zip(renamed) {
        column.name = SmolStr::from(fold_name(renamed));
    }
    Ok(Scope {
        relations: vec![ScopeRelation::new(name, schema, columns)],
        frame,
    })
}

/// Schema and name of a relation as the text writes them.
fn parts(relation: &Relation) -> Result<(Option<String>, String)> {
    let parts: Vec<String> = relation.name.0.iter().map(fold_name).collect();
    match parts.as_slice() {
        [name] => Ok((None, name.clone())),
        [schema, name] | [_, schema, name] => Ok((Some(schema.clone()), name.clone())),
        _ => Err(Error::syntax("improper relation name")),
    }
}
