//! What INSERT, UPDATE and DELETE name: a table, or a view that stands for one.
//!
//! A view is automatically updatable, as in PostgreSQL, if it shows rows of one table or
//! updatable view, each as one row: without DISTINCT, grouping, LIMIT, set operations and the
//! like. Then every column of the view is an expression over the table's row, and a change of the
//! view is a change of the table, whose statement names columns by these expressions:
//!
//! ```text
//!   create view v as select a, b + 1 as c from t where b > 0
//!   update v set a = c where c < 9 returning c
//!
//!   update t set a = b + 1 where b > 0 and b + 1 < 9 returning b + 1
//!                │               │            └ the statement's condition
//!                │               └ the view's condition
//!                └ c is b + 1; it cannot be set itself
//! ```
//!
//! **Rights.** Who runs the statement needs the privileges on the view; the view's owner needs the
//! same on the relation beneath it, and so on down to the table.
//!
//! **WITH CHECK OPTION.** A view that has it, and with CASCADED each view beneath it, contributes
//! its condition, to be checked on each new row once the table has taken it.

use std::ops::Deref;
use std::sync::Arc;

use coeval_sql_syntax::tree::{
    AssignTarget, Body, Distinctness, Path, Query, Select, TableFactor, TableRef,
};

use super::ViewCheck;
use super::bind::{column_position, relation, scope, table};
use crate::access::Privileges;
use crate::catalog::{
    Catalog, CheckScope, Object, PUBLIC, QualifiedName, Relation, Table, View, fold,
};
use crate::error::{Error, Result, SqlState};
use crate::expression::{
    Aggregates, Binder, Expression, Frame, Parameters, Scope, ScopeColumn, ScopeRelation,
    SessionInfo, WindowList, Windows,
};
use crate::select::{self, Beneath};
use crate::value::ColumnType;

/// What a statement does to its subject, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    /// The privilege that the statement needs.
    const fn privilege(self) -> Privileges {
        match self {
            Self::Insert => Privileges::INSERT,
            Self::Update => Privileges::UPDATE,
            Self::Delete => Privileges::DELETE,
        }
    }

    /// SQLSTATE 55000: the view cannot be changed.
    fn refused(self, view: &str, why: &str) -> Error {
        let (cannot, enable, event) = match self {
            Self::Insert => ("insert into", "inserting into", "INSERT"),
            Self::Update => ("update", "updating", "UPDATE"),
            Self::Delete => ("delete from", "deleting from", "DELETE"),
        };
        Error::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("cannot {cannot} view \"{view}\""),
        )
        .with_detail(why)
        .with_hint(format!(
            "To enable {enable} the view, provide an INSTEAD OF {event} trigger or an \
             unconditional ON {event} DO INSTEAD rule."
        ))
    }
}

/// What a statement changes: a table, and the way to it.
#[derive(Debug)]
pub(super) struct Subject {
    /// The table, with the defaults that the views have in place of its own.
    table: Arc<Table>,
    /// The views that the statement reaches it through, if it does not name it itself.
    through: Option<Through>,
    verb: Verb,
}

/// Views as the way to a table.
#[derive(Debug)]
struct Through {
    /// The views, from the one that the statement names in.
    views: Vec<Arc<Object>>,
    /// Columns of the first view, over the table's row.
    columns: Vec<ThroughColumn>,
    /// Conditions of all views, over the table's row.
    conditions: Vec<Expression>,
    /// What new rows are checked against, the innermost view's first.
    checks: Vec<ViewCheck>,
}

/// A column of a view, over the row of a table.
#[derive(Clone, Debug)]
struct ThroughColumn {
    name: String,
    expression: Expression,
    column_type: ColumnType,
    /// Default that the view has for the column.
    default: Option<String>,
}

impl ThroughColumn {
    /// Position of the table's column that this column shows unchanged.
    const fn own(&self) -> Option<usize> {
        match self.expression {
            Expression::Column(position) => Some(position),
            _ => None,
        }
    }
}

impl Deref for Subject {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Subject {
    /// The subject of this name. The statement needs the verb's privilege on it.
    pub(super) fn named(name: &Path, verb: Verb, binder: &mut Binder<'_>) -> Result<Self> {
        let qualified = QualifiedName::new(name)?;
        let found = match qualified.is_public() {
            true => binder.catalog.named(&qualified),
            false => None,
        };
        let Some(Relation::Object(view)) = found else {
            let table = table(name, binder)?;
            binder.needs.table(table.oid, verb.privilege());
            return Ok(Self {
                table,
                through: None,
                verb,
            });
        };
        if view.view().is_none() {
            let message = format!("cannot change sequence \"{}\"", view.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        binder.needs.table(view.oid, verb.privilege());
        let (table, through) = through(binder, &view, verb)?;
        Ok(Self {
            table: with_defaults(table, &through.columns),
            through: Some(through),
            verb,
        })
    }

    /// Adds a privilege that the statement needs on what it names.
    pub(super) fn need(&self, privileges: Privileges, binder: &mut Binder<'_>) {
        binder.needs.table(self.named_oid(), privileges);
    }

    /// Whether the statement names a view.
    pub(super) fn is_view(&self) -> bool {
        self.through.is_some()
    }

    fn named_oid(&self) -> u32 {
        let view = self
            .through
            .as_ref()
            .and_then(|through| through.views.first());
        view.map_or(self.table.oid, |view| view.oid)
    }

    fn shown_name(&self) -> &str {
        let view = self
            .through
            .as_ref()
            .and_then(|through| through.views.first());
        view.map_or(&self.table.name, |view| &view.name)
    }

    /// The table.
    pub(super) const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The table.
    pub(super) fn into_table(self) -> Arc<Table> {
        self.table
    }

    /// The columns as a relation of a scope, under a name, over a row of the table that begins
    /// at position `offset`.
    pub(super) fn relation(
        &self,
        name: &str,
        schema: Option<&str>,
        offset: usize,
    ) -> ScopeRelation {
        let Some(through) = &self.through else {
            return relation(&self.table, name, schema, offset);
        };
        let columns = through.columns.iter().zip(1..);
        let columns = columns.map(|(column, attribute)| ScopeColumn {
            name: column.name.as_str().into(),
            expression: shifted(&column.expression, offset),
            column_type: column.column_type,
            origin: Some((self.named_oid(), attribute)),
        });
        ScopeRelation::new(name.into(), schema.map(Into::into), columns.collect())
    }

    /// The scope of the statement's clauses.
    pub(super) fn scope<'frame>(
        &self,
        alias: Option<&str>,
        frame: &'frame Frame<'frame>,
    ) -> Scope<'frame> {
        if self.through.is_none() {
            return scope(&self.table, alias, frame);
        }
        Scope {
            relations: vec![self.called(alias, 0)],
            frame,
        }
    }

    /// [`Subject::relation`] under the alias, or else under the name that the statement has
    /// for it.
    pub(super) fn called(&self, alias: Option<&str>, offset: usize) -> ScopeRelation {
        match alias {
            Some(alias) => self.relation(alias, None, offset),
            None => self.relation(self.shown_name(), Some(PUBLIC), offset),
        }
    }

    /// Position in the table of the column with this name.
    pub(super) fn position(&self, name: &str) -> Result<usize> {
        let missing = || {
            Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!(
                    "column \"{name}\" of relation \"{}\" does not exist",
                    self.shown_name()
                ),
            )
        };
        let Some(through) = &self.through else {
            return self.table.column(name).ok_or_else(missing);
        };
        let mut columns = through.columns.iter();
        let column = columns
            .find(|column| column.name == name)
            .ok_or_else(missing)?;
        column.own().ok_or_else(|| self.not_a_column(name))
    }

    /// SQLSTATE 0A000: a column of a view that is none of the table.
    fn not_a_column(&self, column: &str) -> Error {
        let cannot = match self.verb {
            Verb::Insert => "insert into",
            _ => "update",
        };
        Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!(
                "cannot {cannot} column \"{column}\" of view \"{}\"",
                self.shown_name()
            ),
        )
        .with_detail("View columns that are not columns of their base relation are not updatable.")
    }

    /// Position in the table of the column that a statement sets.
    pub(super) fn column_position(
        &self,
        target: &AssignTarget,
        binder: &Binder<'_>,
    ) -> Result<usize> {
        if self.through.is_none() {
            return column_position(&self.table, target, binder);
        }
        let position = (binder.locate)(target.name.at);
        if !target.steps.is_empty() {
            let what = "setting a field or an element of a column";
            return Err(Error::unsupported(what).at(position));
        }
        self.position(&fold(&target.name))
            .map_err(|error| error.at(position))
    }

    /// The columns that an INSERT without a list of columns sets, at most `width`.
    pub(super) fn all_columns(&self, width: usize) -> Result<Vec<usize>> {
        match &self.through {
            None => Ok((0..self.table.columns.len()).collect()),
            Some(through) => through
                .columns
                .iter()
                .take(width)
                .map(|column| column.own().ok_or_else(|| self.not_a_column(&column.name)))
                .collect(),
        }
    }

    /// Conditions of the views, which the changed rows meet.
    pub(super) fn conditions(&self) -> &[Expression] {
        let through = self.through.as_ref();
        through.map_or(&[], |through| through.conditions.as_slice())
    }

    /// [`Subject::conditions`] over rows in which the table's begins at position `offset`.
    pub(super) fn conditions_at(&self, offset: usize) -> impl Iterator<Item = Expression> {
        let conditions = self.conditions().iter();
        conditions.map(move |condition| shifted(condition, offset))
    }

    /// The checks of new rows. What the statement needs on the view, the owners of the views
    /// need on what is beneath.
    pub(super) fn checks(&self, binder: &mut Binder<'_>) -> Vec<ViewCheck> {
        let Some(through) = &self.through else {
            return Vec::new();
        };
        let beneath = through.views.iter().skip(1).map(|view| view.oid);
        let beneath = beneath.chain([self.table.oid]);
        for (object, beneath) in through.views.iter().zip(beneath) {
            let wanted = binder.needs.own(object.oid);
            let invokes = object.view().is_some_and(View::is_invokers);
            let role = (!invokes).then_some(object.owned.owner);
            let acting = std::mem::replace(&mut binder.needs.acting, role);
            binder.needs.table(beneath, wanted);
            binder.needs.acting = acting;
        }
        match self.verb {
            Verb::Delete => Vec::new(),
            Verb::Insert | Verb::Update => through.checks.clone(),
        }
    }
}

/// The table with the defaults that a view has for its columns.
fn with_defaults(table: Arc<Table>, columns: &[ThroughColumn]) -> Arc<Table> {
    let mut table = table;
    for column in columns {
        if let (Some(position), Some(default)) = (column.own(), &column.default) {
            Arc::make_mut(&mut table).columns[position].default = Some(default.clone());
        }
    }
    table
}

/// An expression over a row that begins further behind.
fn shifted(expression: &Expression, offset: usize) -> Expression {
    fn shift(expression: &mut Expression, offset: usize) {
        if let Expression::Column(position) = expression {
            *position += offset;
        }
        expression.children_mut(&mut |child| shift(child, offset));
    }
    let mut expression = expression.clone();
    if offset > 0 {
        shift(&mut expression, offset);
    }
    expression
}

/// The way through a view to the table that it stands for.
fn through(
    binder: &mut Binder<'_>,
    view: &Arc<Object>,
    verb: Verb,
) -> Result<(Arc<Table>, Through)> {
    let found = way(binder, view, verb != Verb::Delete, false);
    match found? {
        Ok(way) => Ok(way),
        Err((name, why)) => Err(verb.refused(&name, &why)),
    }
}

/// The way to a table; or the name of a view that is not updatable, and why.
type Way = std::result::Result<(Arc<Table>, Through), (String, String)>;

fn way(
    binder: &mut Binder<'_>,
    object: &Arc<Object>,
    with_columns: bool,
    is_checked: bool,
) -> Result<Way> {
    let Some(view) = object.view() else {
        return Err(Error::internal("a view that is none"));
    };
    let refused = |why: &str| (object.name.clone(), why.to_owned());
    let own = view.check_option();
    select::inside_view(binder, object, view, |binder, query| {
        let select = match shape(query) {
            Ok(select) => select,
            Err(why) => return Ok(Err(refused(why))),
        };
        let [TableRef { first, joins }] = select.from.as_slice() else {
            return Ok(Err(refused(NOT_ONE)));
        };
        let (relation, alias) = match first {
            TableFactor::Table {
                sample: Some(_), ..
            } => {
                let why = "Views containing TABLESAMPLE are not automatically updatable.";
                return Ok(Err(refused(why)));
            }
            TableFactor::Table {
                relation, alias, ..
            } if joins.is_empty() => (relation, alias.as_ref()),
            _ => return Ok(Err(refused(NOT_ONE))),
        };
        let cascades = is_checked || own == Some(CheckScope::Cascaded);
        let (table, mut beneath, columns) = match select::beneath(binder, relation)? {
            Beneath::Table(table, columns) => {
                let none = Through {
                    views: Vec::new(),
                    columns: Vec::new(),
                    conditions: Vec::new(),
                    checks: Vec::new(),
                };
                (table, none, columns)
            }
            Beneath::View(inner) => {
                let (table, way) = match way(binder, &inner, with_columns, cascades)? {
                    Ok(found) => found,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                let columns = way
                    .columns
                    .iter()
                    .zip(1..)
                    .map(|(column, attribute)| ScopeColumn {
                        name: column.name.as_str().into(),
                        expression: column.expression.clone(),
                        column_type: column.column_type,
                        origin: Some((inner.oid, attribute)),
                    });
                let columns = select::named_columns(binder, relation, columns.collect());
                (table, way, columns)
            }
            Beneath::Other => return Ok(Err(refused(NOT_ONE))),
        };
        let mut columns = columns;
        // What the view's own text reads of the relation needs no privilege beyond those that
        // the statement needs.
        for column in &mut columns {
            column.origin = None;
        }
        let frame = Frame::outermost();
        let mut scope = select::one_relation(relation, alias, columns, &frame)?;
        if beneath.views.is_empty() {
            // Of the system columns, those that need a row's record are not there.
            scope.relations[0].table = Some(table.oid);
        }
        let conditions = match &select.filter {
            Some(filter) => binder
                .in_clause("WHERE", |binder| {
                    binder.bind_condition(filter, &scope, "WHERE")
                })?
                .conjuncts(),
            None => Vec::new(),
        };
        binder.aggregates = Aggregates::Collected(Vec::new());
        binder.windows = Windows::Collected(WindowList::default());
        binder.name_windows(&select.windows, &scope)?;
        binder.sets = Some(Vec::new());
        let (_, expressions) = select::bind_list(binder, &select.targets, &scope)?;
        let aggregates = std::mem::replace(&mut binder.aggregates, Aggregates::Forbidden("a view"));
        let windows = std::mem::replace(&mut binder.windows, Windows::Forbidden);
        if matches!(aggregates, Aggregates::Collected(calls) if !calls.is_empty()) {
            let why = "Views that return aggregate functions are not automatically updatable.";
            return Ok(Err(refused(why)));
        }
        if matches!(windows, Windows::Collected(windows) if !windows.calls.is_empty()) {
            let why = "Views that return window functions are not automatically updatable.";
            return Ok(Err(refused(why)));
        }
        if binder.sets.take().is_some_and(|sets| !sets.is_empty()) {
            let why = "Views that return set-returning functions are not automatically updatable.";
            return Ok(Err(refused(why)));
        }
        if expressions.len() != view.columns.len() {
            return Err(Error::internal("a view with other columns than its query"));
        }
        let inner = std::mem::take(&mut beneath.columns);
        let columns: Vec<ThroughColumn> = view
            .columns
            .iter()
            .zip(expressions)
            .map(|(column, expression)| {
                let own = column.default.clone();
                let mut same = inner.iter().filter(|each| each.expression == expression);
                let of_inner = || same.find_map(|each| each.default.clone());
                ThroughColumn {
                    name: column.name.clone(),
                    column_type: column.column_type,
                    default: own.or_else(of_inner),
                    expression,
                }
            })
            .collect();
        if with_columns && columns.iter().all(|column| column.own().is_none()) {
            let why = "Views that have no updatable columns are not automatically updatable.";
            return Ok(Err(refused(why)));
        }
        if (is_checked || own.is_some()) && !conditions.is_empty() {
            beneath.checks.push(ViewCheck {
                view: object.name.clone(),
                condition: Expression::all_of(conditions.clone()),
            });
        }
        beneath.columns = columns;
        beneath.conditions.extend(conditions);
        beneath.views.insert(0, Arc::clone(object));
        Ok(Ok((table, beneath)))
    })
}

const NOT_ONE: &str =
    "Views that do not select from a single table or view are not automatically updatable.";

/// The SELECT of a query that shows rows of one relation, each as one row; or why it does not.
fn shape(query: &Query) -> std::result::Result<&Select, &'static str> {
    let whole = match &query.body {
        Body::Select(select) => Some(&**select),
        Body::Table(_) | Body::Values(_) => None,
        Body::Set(first, steps) if steps.is_empty() => return shape(first),
        Body::Set(..) => {
            return Err(
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.",
            );
        }
    };
    let Some(select) = whole else {
        return Err(NOT_ONE);
    };
    let reasons = [
        (
            select.distinct != Distinctness::All,
            "Views containing DISTINCT are not automatically updatable.",
        ),
        (
            !select.group.is_empty(),
            "Views containing GROUP BY are not automatically updatable.",
        ),
        (
            select.having.is_some(),
            "Views containing HAVING are not automatically updatable.",
        ),
        (
            query.with.is_some(),
            "Views containing WITH are not automatically updatable.",
        ),
        (
            query.limit.is_some() || query.offset.is_some(),
            "Views containing LIMIT or OFFSET are not automatically updatable.",
        ),
    ];
    match reasons.iter().find(|(holds, _)| *holds) {
        Some((_, why)) => Err(why),
        None => Ok(select),
    }
}

/// Why a view cannot be written through; `None` if it can.
pub(crate) fn not_updatable(
    object: &Object,
    catalog: &Arc<Catalog>,
    session: &SessionInfo,
) -> Result<Option<String>> {
    let nowhere = |_| None;
    let mut binder = Binder::new(catalog, session, &nowhere, Parameters::default());
    let found = way(&mut binder, &Arc::new(object.clone()), true, false)?;
    Ok(found.err().map(|(_, why)| why))
}

/// Whether each column of an updatable view can be written.
pub(crate) fn updatable_columns(
    object: &Arc<Object>,
    catalog: &Arc<Catalog>,
    session: &SessionInfo,
) -> Option<Vec<bool>> {
    let nowhere = |_| None;
    let mut binder = Binder::new(catalog, session, &nowhere, Parameters::default());
    let (_, way) = way(&mut binder, object, true, false).ok()?.ok()?;
    let columns = way.columns.iter();
    Some(columns.map(|column| column.own().is_some()).collect())
}
