//! Dependencies: views on the relations and columns that they read.
//!
//! A relation or column that a view needs is not dropped (RESTRICT), or the view is dropped with
//! it, and what depends on the view (CASCADE). In messages dependents stand as PostgreSQL finds
//! them: below what they depend on, the older ones first.

use std::sync::Arc;

use super::{Change, joined};
use crate::catalog::{Catalog, Index, Object, Table, View};
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, Parameters};
use crate::output::{Notice, Severity};
use crate::select;

/// Number of dependents that a message names.
const NAMED_AT_MOST: usize = 100;

/// A view that depends on what is to be dropped.
struct Dependent {
    view: Arc<Object>,
    /// What it depends on, in the words of messages.
    on: String,
}

/// What a search for dependents has found.
struct Dependents {
    /// OIDs of what it has met.
    met: Vec<u32>,
    views: Vec<Dependent>,
}

impl Change<'_> {
    /// Drops the views that depend on these relations, or on this column of the only one;
    /// without CASCADE, fails if there are any.
    pub(super) async fn drop_dependents(
        &mut self,
        roots: &[u32],
        column: Option<i16>,
        cascade: bool,
    ) -> Result<()> {
        let what = match roots {
            [root] => self.description(*root, column),
            _ => "desired object(s)".to_owned(),
        };
        let them = if roots.len() == 1 { "it" } else { "them" };
        let dependents = self.dependents(roots, column);
        self.drop_found(dependents, (&what, them), cascade).await
    }

    /// Drops the views whose queries group by a primary key, and show columns that follow from
    /// it, when its constraint is dropped. No view's row says so: they are those that cannot be
    /// planned without it.
    pub(super) async fn drop_grouped(
        &mut self,
        table: &Table,
        key: &Index,
        cascade: bool,
    ) -> Result<()> {
        let mut without = table.clone();
        without.indexes.retain(|each| each.id != key.id);
        let catalog = self.catalog_with(Some(Arc::new(without)), table.oid);
        let what = format!("constraint {} on table {}", key.name, table.name);
        let mut found = Dependents {
            met: vec![table.oid],
            views: Vec::new(),
        };
        let objects: Vec<Arc<Object>> = self.catalog.objects().cloned().collect();
        for object in objects.into_iter().rev() {
            let depends = |view: &View| {
                view.definition.depends_on(table.oid, None)
                    && self.lacks_key(&catalog, &object, view)
            };
            if found.met.contains(&object.oid) || !object.view().is_some_and(depends) {
                continue;
            }
            found.met.push(object.oid);
            self.collect_dependents(object.oid, None, &mut found);
            found.views.push(Dependent {
                view: object,
                on: what.clone(),
            });
        }
        self.drop_found(found.views, (&what, "it"), cascade).await
    }

    /// Whether a view's query shows what its groups do not determine in this catalog.
    fn lacks_key(&self, catalog: &Arc<Catalog>, object: &Object, view: &View) -> bool {
        let nowhere = |_| None;
        let mut binder = Binder::new(catalog, self.session, &nowhere, Parameters::default());
        let planned = select::inside_view(&mut binder, object, view, |binder, query| {
            select::plan_query(binder, query)
        });
        planned.is_err_and(|error| error.state() == SqlState::GROUPING_ERROR)
    }

    /// Drops these views; without CASCADE, fails if there are any.
    async fn drop_found(
        &mut self,
        dependents: Vec<Dependent>,
        (what, them): (&str, &str),
        cascade: bool,
    ) -> Result<()> {
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            let lines = dependents
                .iter()
                .rev()
                .map(|each| format!("view {} depends on {}", each.view.name, each.on));
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop {what} because other objects depend on {them}"),
            )
            .with_detail(listed(lines.collect()))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let lines: Vec<String> = dependents
            .iter()
            .rev()
            .map(|each| format!("drop cascades to view {}", each.view.name))
            .collect();
        let notice =
            |message: &str| Notice::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
        self.notices.push(match lines.as_slice() {
            [line] => notice(line),
            lines => {
                let message = format!("drop cascades to {} other objects", lines.len());
                notice(&message).with_detail(listed(lines.to_vec()))
            }
        });
        for dependent in dependents {
            self.delete_object(dependent.view.oid).await?;
        }
        Ok(())
    }

    /// The views that depend on these relations, or on this column of the only one; each
    /// before what it depends on.
    fn dependents(&self, roots: &[u32], column: Option<i16>) -> Vec<Dependent> {
        let mut found = Dependents {
            met: roots.to_vec(),
            views: Vec::new(),
        };
        for root in roots.iter().rev() {
            self.collect_dependents(*root, column, &mut found);
        }
        found.views
    }

    fn collect_dependents(&self, oid: u32, column: Option<i16>, found: &mut Dependents) {
        let on = self.description(oid, column);
        let objects: Vec<&Arc<Object>> = self.catalog.objects().collect();
        // The newest first, as PostgreSQL does it.
        for object in objects.into_iter().rev() {
            let depends = |view: &View| view.definition.depends_on(oid, column);
            if found.met.contains(&object.oid) || !object.view().is_some_and(depends) {
                continue;
            }
            found.met.push(object.oid);
            crate::expression::with_stack(|| self.collect_dependents(object.oid, None, found));
            found.views.push(Dependent {
                view: Arc::clone(object),
                on: on.clone(),
            });
        }
    }

    /// A relation, or a column of it, in the words of messages.
    fn description(&self, oid: u32, column: Option<i16>) -> String {
        let Some(table) = self.catalog.table_by_oid(oid) else {
            let object = self.catalog.object_by_oid(oid);
            return object.map_or_else(String::new, |object| {
                format!("{} {}", object.kind(), object.name)
            });
        };
        let of_column = |attribute| {
            let mut columns = table.columns.iter();
            columns.find(|each| each.attribute == attribute)
        };
        match column.and_then(of_column) {
            Some(column) => format!("column {} of table {}", column.name, table.name),
            None => format!("table {}", table.name),
        }
    }

    /// Fails if a view uses a column whose type is to be changed.
    pub(super) fn refuse_type_of_viewed(&self, table: &Table, name: &str) -> Result<()> {
        let Some(position) = table.column(name) else {
            return Ok(());
        };
        let attribute = table.columns[position].attribute;
        let uses = |view: &View| view.definition.depends_on(table.oid, Some(attribute));
        let mut objects = self.catalog.objects();
        match objects.find(|object| object.view().is_some_and(uses)) {
            None => Ok(()),
            Some(view) => Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot alter type of a column used by a view or rule",
            )
            .with_detail(format!(
                "rule _RETURN on view {} depends on column \"{name}\"",
                view.name
            ))),
        }
    }
}

/// Lines of a detail; those beyond the first hundred are only counted.
fn listed(mut lines: Vec<String>) -> String {
    let more = lines.len().saturating_sub(NAMED_AT_MOST);
    lines.truncate(NAMED_AT_MOST);
    if more > 0 {
        let plural = if more == 1 { "" } else { "s" };
        lines.push(format!("and {more} other object{plural}"));
    }
    joined(lines.iter().map(String::as_str), "\n")
}
