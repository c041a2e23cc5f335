//! The planner for INSERT, UPDATE and DELETE.

use std::sync::Arc;

use coeval_sql_syntax::tree::{
    self, AssignTarget, Body, ConflictAction, ConflictTarget, Expr, ExprKind, Filter, IndexKey,
    Overriding, Path, Query, Target,
};

use super::bind_joined;
use super::row::default_expression;
use super::subject::{Subject, Verb};
use super::{
    Assignment, ChangeKind, ChangePlan, ChangeTarget, ConflictUpdate, DeletePlan, InsertPlan,
    InsertSource, OnConflict, Returning, Rules, UpdatePlan,
};
use crate::access::Privileges;
use crate::catalog::{Generation, PUBLIC, QualifiedName, Table, TableColumn, fold};
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, Bound, Expression, Frame, Scope, ScopeColumn, ScopeRelation};
use crate::output::Column;
use crate::plan::{Access, RowReader};
use crate::select::{self, hash_subqueries};

/// Looks up the table that a statement changes.
pub(super) fn table(name: &Path, binder: &Binder<'_>) -> Result<Arc<Table>> {
    let name = QualifiedName::new(name)?;
    let position = (binder.locate)(name.at);
    if let Some(schema @ ("pg_catalog" | "information_schema" | "coeval")) = name.schema.as_deref()
    {
        return Err(Error::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!(
                "permission denied: \"{schema}.{}\" is a system catalog",
                name.name
            ),
        )
        .at(position));
    }
    binder
        .catalog
        .named_table(&name)
        .cloned()
        .map_err(|error| error.at(position))
}

/// The table's columns as a relation of a scope, under a name, from position `offset`
/// of the row on.
pub(super) fn relation(
    table: &Table,
    name: &str,
    schema: Option<&str>,
    offset: usize,
) -> ScopeRelation {
    let columns = table
        .columns
        .iter()
        .enumerate()
        .map(|(position, column)| ScopeColumn {
            name: column.name.as_str().into(),
            expression: Expression::Column(offset + position),
            column_type: column.column_type,
            origin: Some((table.oid, column.attribute)),
        })
        .collect();
    let mut relation = ScopeRelation::new(name.into(), schema.map(Into::into), columns);
    relation.table = Some(table.oid);
    relation.record = Some(offset + table.columns.len());
    relation
}

pub(super) fn scope<'frame>(
    table: &Table,
    alias: Option<&str>,
    frame: &'frame Frame<'frame>,
) -> Scope<'frame> {
    let relation = match alias {
        Some(alias) => relation(table, alias, None, 0),
        None => relation(table, &table.name, Some(PUBLIC), 0),
    };
    Scope {
        relations: vec![relation],
        frame,
    }
}

pub(super) fn column_position(
    table: &Table,
    target: &AssignTarget,
    binder: &Binder<'_>,
) -> Result<usize> {
    let ident = &target.name;
    let folded = fold(ident);
    let position = (binder.locate)(ident.at);
    let column = table.column(&folded).ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{folded}\" of relation \"{}\" does not exist",
                table.name
            ),
        )
        .at(position)
    })?;
    if !target.steps.is_empty() {
        let what = "setting a field or an element of a column";
        return Err(Error::unsupported(what).at(position));
    }
    Ok(column)
}

pub(super) fn returning(
    items: &[Target],
    scope: &Scope<'_>,
    binder: &mut Binder<'_>,
) -> Result<Option<Returning>> {
    if items.is_empty() {
        return Ok(None);
    }
    let origins = scope.relations.iter().flat_map(|each| &each.columns);
    for (table, _) in origins.filter_map(|column| column.origin) {
        binder.needs.table(table, Privileges::SELECT);
    }
    let (columns, expressions) = binder.in_clause("RETURNING", |binder| {
        select::bind_list(binder, items, scope)
    })?;
    Ok(Some(Returning {
        columns,
        expressions,
    }))
}

/// Plans an INSERT.
pub(crate) fn bind_insert(insert: &tree::Insert, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    with_tables(insert.with.as_ref(), binder, |binder| {
        insert_behind_with(insert, binder)
    })
}

/// Plans a change in WITH; see [`BindChange`](crate::expression::BindChange).
pub(crate) fn bind_in_with(
    binder: &mut Binder<'_>,
    statement: &tree::StatementKind,
) -> Result<Option<Vec<Column>>> {
    let plan = match statement {
        tree::StatementKind::Insert(insert) => bind_insert(insert, binder)?,
        tree::StatementKind::Update(update) => bind_update(update, binder)?,
        tree::StatementKind::Delete(delete) => bind_delete(delete, binder)?,
        tree::StatementKind::Merge(_) => return Err(Error::unsupported("MERGE")),
        _ => return Err(Error::unsupported("a statement of this kind in WITH")),
    };
    let columns = plan.returning.as_ref();
    let columns = columns.map(|returning| returning.columns.clone());
    binder.changes.push(Box::new(plan));
    Ok(columns)
}

/// Plans a change that stands behind WITH, or behind nothing.
fn with_tables(
    with: Option<&tree::With>,
    binder: &mut Binder<'_>,
    bind: impl FnOnce(&mut Binder<'_>) -> Result<ChangePlan>,
) -> Result<ChangePlan> {
    let Some(with) = with else {
        binder.bind_change = None;
        return bind(binder);
    };
    let frame = Frame::outermost();
    let (mut plan, tables) = select::with_tables(binder, with, &frame, bind)?;
    if let ChangeKind::Insert(insert) = &mut plan.kind
        && let InsertSource::Query { plan: source, .. } = &mut insert.source
        && !select::changes_rows(with)
    {
        *source = Arc::new(Arc::clone(source).behind(tables));
    }
    Ok(plan)
}

fn insert_behind_with(insert: &tree::Insert, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    let table = Subject::named(&insert.table, Verb::Insert, binder)?;
    let mut targets = Vec::with_capacity(table.columns.len());
    for name in &insert.columns {
        let position = table.column_position(name, binder)?;
        if targets.contains(&position) {
            return Err(Error::new(
                SqlState::DUPLICATE_COLUMN,
                format!(
                    "column \"{}\" specified more than once",
                    table.columns[position].name
                ),
            ));
        }
        targets.push(position);
    }
    let explicit = !targets.is_empty();
    if !explicit {
        targets = table.all_columns(width_of(insert.source.as_ref()))?;
    }
    let rules = Rules::bind(&table, binder.catalog, binder.session)?;
    let source = insert_source(insert, &table, &targets, explicit, binder)?;
    let frame = Frame::outermost();
    let alias = insert.alias.as_ref().map(fold);
    let mut scope = table.scope(alias.as_deref(), &frame);
    scope.relations[0].xmax = Some(table.columns.len() + 1);
    let on_conflict = match &insert.conflict {
        None => None,
        Some(conflict) => {
            if conflict.target != ConflictTarget::Any {
                table.need(Privileges::SELECT, binder);
            }
            if let ConflictAction::Update(..) = conflict.action {
                table.need(Privileges::UPDATE, binder);
            }
            Some(bind_conflict(conflict, &table, alias.as_deref(), binder)?)
        }
    };
    let returning = returning(&insert.returning, &scope, binder)?;
    Ok(ChangePlan {
        checks: table.checks(binder),
        table: table.into_table(),
        kind: ChangeKind::Insert(InsertPlan {
            source,
            on_conflict,
        }),
        rules,
        returning,
    })
}

/// Number of columns of an INSERT's source, as far as its text says.
fn width_of(source: Option<&Query>) -> usize {
    let Some(source) = source else { return 0 };
    let is_star = |target: &Target| match target {
        Target::Star(_) => true,
        Target::Expr(expr, _) => matches!(expr.kind, ExprKind::Column { star: true, .. }),
    };
    match &source.body {
        Body::Values(rows) => rows.first().map_or(0, Vec::len),
        Body::Select(select) if !select.targets.iter().any(is_star) => select.targets.len(),
        Body::Set(first, _) => width_of(Some(first)),
        Body::Select(_) | Body::Table(_) => usize::MAX,
    }
}

fn insert_source(
    insert: &tree::Insert,
    table: &Table,
    targets: &[usize],
    explicit: bool,
    binder: &mut Binder<'_>,
) -> Result<InsertSource> {
    let Some(query) = &insert.source else {
        // DEFAULT VALUES inserts one row of defaults.
        return Ok(InsertSource::Values(vec![defaults(table, binder)?]));
    };
    if let Some(rows) = plain_values(query) {
        return insert_values(insert, rows, (table, targets, explicit), binder);
    }
    let wanted: Vec<_> = targets
        .iter()
        .map(|&target| &table.columns[target])
        .map(|column| (column.name.as_str(), column.column_type))
        .collect();
    let plan = Arc::new(select::plan_source(binder, query, &wanted)?);
    let types = plan.columns();
    check_count(types.len(), targets, explicit)?;
    let mut columns = defaults(table, binder)?;
    for (position, (source, &target)) in types.iter().zip(targets).enumerate() {
        let column = &table.columns[target];
        if takes_default(column, true, insert.overriding)? {
            continue;
        }
        let bound = Bound::new(Expression::Column(position), source.column_type);
        columns[target] = binder
            .assign(bound, &column.name, column.column_type)?
            .expression;
    }
    Ok(InsertSource::Query { plan, columns })
}

/// The rows of a query that is VALUES and nothing else.
fn plain_values(query: &Query) -> Option<&[Vec<Expr>]> {
    let plain = query.with.is_none()
        && query.order.is_empty()
        && query.limit.is_none()
        && query.offset.is_none();
    match &query.body {
        Body::Values(rows) if plain => Some(rows),
        _ => None,
    }
}

/// Whether a column takes its default rather than what a statement gives it; `given` says that
/// the statement gives it a value and not DEFAULT. Fails with 428C9 for a column whose values
/// only the database makes.
fn takes_default(
    column: &TableColumn,
    given: bool,
    overriding: Option<Overriding>,
) -> Result<bool> {
    let Some(generation) = &column.generation else {
        return Ok(!given);
    };
    match (generation, overriding) {
        _ if !given => Ok(true),
        (Generation::Identity { .. }, Some(Overriding::User)) => Ok(true),
        (Generation::Identity { always: false }, _)
        | (Generation::Identity { always: true }, Some(Overriding::System)) => Ok(false),
        (Generation::Identity { always: true }, None) | (Generation::Stored(_), _) => {
            let message = format!(
                "cannot insert a non-DEFAULT value into column \"{}\"",
                column.name
            );
            let error = always_generated(message, column, generation);
            Err(match generation {
                Generation::Identity { .. } => {
                    error.with_hint("Use OVERRIDING SYSTEM VALUE to override.")
                }
                Generation::Stored(_) => error,
            })
        }
    }
}

/// SQLSTATE 428C9, `generated_always`: a value for a column that the database makes.
fn always_generated(message: String, column: &TableColumn, generation: &Generation) -> Error {
    let name = &column.name;
    Error::new(SqlState::GENERATED_ALWAYS, message).with_detail(match generation {
        Generation::Stored(_) => format!("Column \"{name}\" is a generated column."),
        Generation::Identity { .. } => {
            format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")
        }
    })
}

fn insert_values(
    insert: &tree::Insert,
    values: &[Vec<Expr>],
    (table, targets, explicit): (&Table, &[usize], bool),
    binder: &mut Binder<'_>,
) -> Result<InsertSource> {
    let frame = Frame::outermost();
    let empty = Scope::empty(&frame);
    let all_given = targets.len() == table.columns.len();
    let width = values.first().map_or(0, Vec::len);
    let mut rows = Vec::with_capacity(values.len());
    for row in values {
        if row.len() != width {
            return Err(Error::syntax("VALUES lists must all be the same length"));
        }
        check_count(row.len(), targets, explicit)?;
        let mut columns = if all_given && row.len() == targets.len() {
            vec![Expression::NULL; table.columns.len()]
        } else {
            defaults(table, binder)?
        };
        for (value, &target) in row.iter().zip(targets) {
            let column = &table.columns[target];
            let given = value.kind != ExprKind::Default;
            columns[target] = if takes_default(column, given, insert.overriding)? {
                default_expression(table, column, binder)?
            } else {
                let bound = binder.bind(value, &empty)?;
                binder
                    .assign(bound, &column.name, column.column_type)?
                    .expression
            };
        }
        rows.push(columns);
    }
    Ok(InsertSource::Values(rows))
}

/// Checks the number of values; without a column list, an INSERT may give fewer values
/// than columns.
fn check_count(values: usize, targets: &[usize], explicit: bool) -> Result<()> {
    if values > targets.len() {
        return Err(Error::syntax(
            "INSERT has more expressions than target columns",
        ));
    }
    if explicit && values < targets.len() {
        return Err(Error::syntax(
            "INSERT has more target columns than expressions",
        ));
    }
    Ok(())
}

/// The default expression of every column.
fn defaults(table: &Table, binder: &mut Binder<'_>) -> Result<Vec<Expression>> {
    table
        .columns
        .iter()
        .map(|column| default_expression(table, column, binder))
        .collect()
}

fn bind_conflict(
    conflict: &tree::OnConflict,
    table: &Subject,
    alias: Option<&str>,
    binder: &mut Binder<'_>,
) -> Result<OnConflict> {
    let index = match &conflict.target {
        ConflictTarget::Any => None,
        ConflictTarget::Constraint(name) => {
            let name = fold(name);
            let index = table
                .indexes
                .iter()
                .find(|index| index.constraint && index.name == name)
                .ok_or_else(|| {
                    Error::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!(
                            "constraint \"{name}\" for table \"{}\" does not exist",
                            table.name
                        ),
                    )
                })?;
            Some(index.id)
        }
        ConflictTarget::Columns(items, condition) => {
            if let Some(condition) = condition {
                // Every index has all rows, so any condition on them fits.
                let frame = Frame::outermost();
                binder.bind_condition(condition, &table.scope(alias, &frame), "WHERE")?;
            }
            let mut columns = Vec::with_capacity(items.len());
            for item in items {
                let IndexKey::Column(name) = &item.key else {
                    let what = "ON CONFLICT of an index on an expression";
                    return Err(Error::unsupported(what).at((binder.locate)(conflict.at)));
                };
                if let Some(collation) = &item.collation {
                    crate::expression::check_collation(collation)
                        .map_err(|error| error.at((binder.locate)(name.at)))?;
                }
                if item.class.is_some() {
                    let what = "an operator class in ON CONFLICT";
                    return Err(Error::unsupported(what).at((binder.locate)(name.at)));
                }
                let folded = fold(name);
                let position = table.position(&folded).map_err(|_| {
                    Error::new(
                        SqlState::UNDEFINED_COLUMN,
                        format!("column \"{folded}\" does not exist"),
                    )
                    .at((binder.locate)(name.at))
                })?;
                columns.push(position);
            }
            let index = table.indexes.iter().find(|index| {
                index.is_unique()
                    && index.columns.len() == columns.len()
                    && index
                        .columns
                        .iter()
                        .all(|key| columns.contains(&key.column))
            });
            let index = index.ok_or_else(|| {
                Error::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
            })?;
            Some(index.id)
        }
    };
    let update = match &conflict.action {
        ConflictAction::Nothing => None,
        ConflictAction::Update(list, condition) => {
            if index.is_none() {
                return Err(Error::syntax(
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                ));
            }
            let frame = Frame::outermost();
            let mut scope = table.scope(alias, &frame);
            // What follows the columns of the existing row are those of the proposed one.
            scope.relations[0].record = None;
            let mut excluded = table.relation("excluded", None, table.columns.len());
            // The row `excluded` is not stored in the table, so reading it needs no
            // SELECT privilege.
            excluded.table = None;
            for column in &mut excluded.columns {
                column.origin = None;
            }
            scope.relations.push(excluded);
            let assignments = assignments(list, table, &scope, binder)?;
            let condition = match condition {
                None => None,
                Some(condition) => Some(binder.bind_condition(condition, &scope, "WHERE")?),
            };
            Some(ConflictUpdate {
                assignments,
                condition,
            })
        }
    };
    Ok(OnConflict { index, update })
}

/// The value that SET gives a column.
enum Assigned<'tree> {
    Tree(&'tree Expr),
    /// A column of a query that sets several.
    Bound(Bound),
}

pub(super) fn assignments(
    list: &[tree::Assignment],
    table: &Subject,
    scope: &Scope<'_>,
    binder: &mut Binder<'_>,
) -> Result<Vec<Assignment>> {
    let mut assignments: Vec<Assignment> = Vec::with_capacity(list.len());
    let mut set = |column: usize, value: Assigned<'_>, binder: &mut Binder<'_>| {
        let definition = &table.columns[column];
        if assignments.iter().any(|other| other.column == column) {
            return Err(Error::syntax(format!(
                "multiple assignments to same column \"{}\"",
                definition.name
            )));
        }
        let is_default = matches!(&value, Assigned::Tree(value) if value.kind == ExprKind::Default);
        match &definition.generation {
            Some(generation @ (Generation::Stored(_) | Generation::Identity { always: true }))
                if !is_default =>
            {
                let message = format!(
                    "column \"{}\" can only be updated to DEFAULT",
                    definition.name
                );
                return Err(always_generated(message, definition, generation));
            }
            // It is computed whenever the row is written.
            Some(Generation::Stored(_)) => return Ok(()),
            _ => {}
        }
        let bound = match value {
            Assigned::Tree(_) if is_default => {
                let value = default_expression(table, definition, binder)?;
                assignments.push(Assignment { column, value });
                return Ok(());
            }
            Assigned::Tree(value) => binder.bind(value, scope)?,
            Assigned::Bound(bound) => bound,
        };
        let mut value = binder
            .assign(bound, &definition.name, definition.column_type)?
            .expression;
        hash_subqueries(binder, &mut value)?;
        assignments.push(Assignment { column, value });
        Ok(())
    };
    for assignment in list {
        match assignment {
            tree::Assignment::One(target, value) => {
                let column = table.column_position(target, binder)?;
                set(column, Assigned::Tree(value), binder)?;
            }
            tree::Assignment::Several(names, value) => {
                let position = binder.position(value.at);
                let values = match &value.kind {
                    ExprKind::Row(row) => row.fields.as_slice(),
                    ExprKind::Subquery(query) => {
                        let values = binder.row_subquery(query, scope)?;
                        if values.len() != names.len() {
                            let message = "number of columns does not match number of values";
                            return Err(Error::syntax(message).at(position));
                        }
                        for (name, bound) in names.iter().zip(values) {
                            let column = table.column_position(name, binder)?;
                            set(column, Assigned::Bound(bound), binder)?;
                        }
                        continue;
                    }
                    _ => {
                        return Err(Error::new(
                            SqlState::FEATURE_NOT_SUPPORTED,
                            "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
                        )
                        .at(position));
                    }
                };
                if values.len() != names.len() {
                    let message = "number of columns does not match number of values";
                    return Err(Error::syntax(message).at(position));
                }
                for (name, value) in names.iter().zip(values) {
                    let column = table.column_position(name, binder)?;
                    set(column, Assigned::Tree(value), binder)?;
                }
            }
        }
    }
    Ok(assignments)
}

/// Plans the selection of the rows to change by the WHERE clause. `also` are further
/// expressions over these rows.
fn target<'expression>(
    filter: &Filter,
    table: &Subject,
    scope: &Scope<'_>,
    everything: bool,
    also: impl Iterator<Item = &'expression Expression> + Clone,
    binder: &mut Binder<'_>,
) -> Result<ChangeTarget> {
    let condition = match filter {
        Filter::All => None,
        Filter::CurrentOf(_) if table.is_view() => {
            return Err(Error::unsupported("WHERE CURRENT OF of a view"));
        }
        Filter::CurrentOf(cursor) => {
            let names = |position: usize| {
                also.clone().any(|expression| {
                    expression
                        .any(&|each| matches!(each, Expression::Column(at) if *at == position))
                })
            };
            return Ok(ChangeTarget {
                access: Access::choose(table, 0, Vec::new(), &|_| false),
                condition: None,
                reader: RowReader::of(table, &|position| everything || names(position)),
                with_record: names(table.columns.len()),
                current_of: Some(fold(cursor)),
            });
        }
        Filter::Where(condition) => {
            let mut condition = binder.in_clause("WHERE", |binder| {
                binder.bind_condition(condition, scope, "WHERE")
            })?;
            hash_subqueries(binder, &mut condition)?;
            Some(condition)
        }
    };
    let mut conditions = table.conditions().to_vec();
    conditions.extend(condition.map_or_else(Vec::new, Expression::conjuncts));
    let condition = (!conditions.is_empty()).then(|| Expression::all_of(conditions.clone()));
    let reader = RowReader::of(table, &|position| {
        let names = |expression: &Expression| {
            expression.any(&|each| matches!(each, Expression::Column(at) if *at == position))
        };
        everything || condition.as_ref().is_some_and(names) || also.clone().any(names)
    });
    let record = table.columns.len();
    let names = |expression: &Expression| {
        expression.any(&|each| matches!(each, Expression::Column(at) if *at == record))
    };
    let with_record = condition.as_ref().is_some_and(names) || also.clone().any(names);
    Ok(ChangeTarget {
        with_record,
        access: Access::choose(table, 0, conditions, &|_| false),
        condition,
        reader,
        current_of: None,
    })
}

/// Plans an UPDATE.
pub(crate) fn bind_update(update: &tree::Update, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    with_tables(update.with.as_ref(), binder, |binder| {
        match update.from.is_empty() {
            true => update_behind_with(update, binder),
            false => bind_joined::update(update, binder),
        }
    })
}

fn update_behind_with(update: &tree::Update, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    let table = Subject::named(&update.table.name, Verb::Update, binder)?;
    let frame = Frame::outermost();
    let alias = update.alias.as_ref().map(fold);
    let scope = table.scope(alias.as_deref(), &frame);
    let assignments = assignments(&update.assignments, &table, &scope, binder)?;
    let values = assignments.iter().map(|assignment| &assignment.value);
    let target = target(&update.filter, &table, &scope, false, values, binder)?;
    let returning = returning(&update.returning, &scope, binder)?;
    Ok(ChangePlan {
        rules: Rules::bind(&table, binder.catalog, binder.session)?,
        checks: table.checks(binder),
        table: table.into_table(),
        kind: ChangeKind::Update(UpdatePlan {
            target,
            assignments,
        }),
        returning,
    })
}

/// Plans a DELETE.
pub(crate) fn bind_delete(delete: &tree::Delete, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    with_tables(delete.with.as_ref(), binder, |binder| {
        match delete.using.is_empty() {
            true => delete_behind_with(delete, binder),
            false => bind_joined::delete(delete, binder),
        }
    })
}

fn delete_behind_with(delete: &tree::Delete, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    let table = Subject::named(&delete.table.name, Verb::Delete, binder)?;
    let frame = Frame::outermost();
    let alias = delete.alias.as_ref().map(fold);
    let scope = table.scope(alias.as_deref(), &frame);
    let everything = !delete.returning.is_empty();
    let target = target(
        &delete.filter,
        &table,
        &scope,
        everything,
        std::iter::empty(),
        binder,
    )?;
    let returning = returning(&delete.returning, &scope, binder)?;
    Ok(ChangePlan {
        checks: table.checks(binder),
        table: table.into_table(),
        kind: ChangeKind::Delete(DeletePlan { target }),
        rules: Rules::default(),
        returning,
    })
}
