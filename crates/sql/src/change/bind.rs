//! The planner for INSERT, UPDATE and DELETE.

use std::sync::Arc;

use sqlparser::ast::{self, AssignmentTarget, Expr, SetExpr, TableFactor};

use super::row::default_expression;
use super::{
    Assignment, ChangeKind, ChangePlan, ChangeTarget, ConflictUpdate, DeletePlan, InsertPlan,
    InsertSource, OnConflict, Returning, UpdatePlan,
};
use crate::access::Privileges;
use crate::catalog::{PUBLIC, QualifiedName, Table, fold};
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, Bound, Expression, Frame, Scope, ScopeColumn, ScopeRelation};
use crate::plan::{Access, RowReader};
use crate::select;

/// Looks up the table that a statement changes.
fn table(name: &ast::ObjectName, binder: &Binder<'_>) -> Result<Arc<Table>> {
    let name = QualifiedName::new(name)?;
    let position = (binder.locate)(name.location);
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
    name.require_public().map_err(|error| error.at(position))?;
    binder
        .catalog
        .table(&name.name)
        .cloned()
        .map_err(|error| error.at(position))
}

/// The table's columns as a relation of a scope, under a name, from position `offset`
/// of the row on.
fn relation(table: &Table, name: &str, schema: Option<&str>, offset: usize) -> ScopeRelation {
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
    ScopeRelation::new(name.into(), schema.map(Into::into), columns)
}

/// The only table of FROM or UPDATE, with its alias.
fn single_table<'tree>(
    item: &'tree ast::TableWithJoins,
    what: &str,
) -> Result<(&'tree ast::ObjectName, Option<String>)> {
    if !item.joins.is_empty() {
        return Err(Error::unsupported(format!("{what} of a join")));
    }
    match &item.relation {
        TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } => {
            if alias
                .as_ref()
                .is_some_and(|alias| !alias.columns.is_empty())
            {
                return Err(Error::unsupported(format!(
                    "{what} with names for the table's columns"
                )));
            }
            Ok((name, alias.as_ref().map(|alias| fold(&alias.name))))
        }
        _ => Err(Error::unsupported(format!(
            "{what} of anything but a table"
        ))),
    }
}

fn scope<'frame>(
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

fn column_position(table: &Table, name: &ast::ObjectName, binder: &Binder<'_>) -> Result<usize> {
    let ident = match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
    .ok_or_else(|| Error::unsupported("a qualified name of a column to be set"))?;
    let folded = fold(ident);
    table.column(&folded).ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{folded}\" of relation \"{}\" does not exist",
                table.name
            ),
        )
        .at((binder.locate)(ident.span.start))
    })
}

fn returning(
    items: Option<&[ast::SelectItem]>,
    scope: &Scope<'_>,
    binder: &mut Binder<'_>,
) -> Result<Option<Returning>> {
    let Some(items) = items else {
        return Ok(None);
    };
    let origins = scope.relations.iter().flat_map(|each| &each.columns);
    for (table, _) in origins.filter_map(|column| column.origin) {
        binder.needs.table(table, Privileges::SELECT);
    }
    let (columns, expressions) = select::bind_list(binder, items, scope)?;
    Ok(Some(Returning {
        columns,
        expressions,
    }))
}

/// Whether an expression is the key word DEFAULT.
fn is_default(expression: &Expr) -> bool {
    matches!(expression, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// Plans an INSERT.
pub(crate) fn bind_insert(insert: &ast::Insert, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    let unsupported = [
        (insert.or.is_some() || insert.replace_into, "INSERT OR"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (
            insert.partitioned.is_some() || !insert.assignments.is_empty(),
            "this form of INSERT",
        ),
        (insert.output.is_some(), "OUTPUT"),
    ];
    if let Some((_, feature)) = unsupported.iter().find(|(given, _)| *given) {
        return Err(Error::unsupported(*feature));
    }
    let ast::TableObject::TableName(name) = &insert.table else {
        return Err(Error::unsupported("INSERT into anything but a table"));
    };
    let table = table(name, binder)?;
    binder.needs.table(table.oid, Privileges::INSERT);
    let mut targets = Vec::with_capacity(table.columns.len());
    for name in &insert.columns {
        let position = column_position(&table, name, binder)?;
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
        targets.extend(0..table.columns.len());
    }
    let source = insert_source(insert, &table, &targets, explicit, binder)?;
    let frame = Frame::outermost();
    let alias = insert.table_alias.as_ref().map(|alias| fold(&alias.alias));
    let scope = scope(&table, alias.as_deref(), &frame);
    let on_conflict = match &insert.on {
        None => None,
        Some(ast::OnInsert::OnConflict(conflict)) => {
            if conflict.conflict_target.is_some() {
                binder.needs.table(table.oid, Privileges::SELECT);
            }
            if let ast::OnConflictAction::DoUpdate(_) = conflict.action {
                binder.needs.table(table.oid, Privileges::UPDATE);
            }
            Some(bind_conflict(conflict, &table, alias.as_deref(), binder)?)
        }
        Some(_) => return Err(Error::unsupported("ON DUPLICATE KEY UPDATE")),
    };
    let returning = returning(insert.returning.as_deref(), &scope, binder)?;
    Ok(ChangePlan {
        table,
        kind: ChangeKind::Insert(InsertPlan {
            source,
            on_conflict,
        }),
        returning,
    })
}

fn insert_source(
    insert: &ast::Insert,
    table: &Table,
    targets: &[usize],
    explicit: bool,
    binder: &mut Binder<'_>,
) -> Result<InsertSource> {
    let Some(query) = &insert.source else {
        // DEFAULT VALUES inserts one row of defaults.
        return Ok(InsertSource::Values(vec![defaults(table, binder)?]));
    };
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    if let SetExpr::Values(values) = &*query.body
        && plain
    {
        return insert_values(values, table, targets, explicit, binder);
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
        let bound = Bound::new(Expression::Column(position), source.column_type);
        columns[target] = binder
            .assign(bound, &column.name, column.column_type)?
            .expression;
    }
    Ok(InsertSource::Query { plan, columns })
}

fn insert_values(
    values: &ast::Values,
    table: &Table,
    targets: &[usize],
    explicit: bool,
    binder: &mut Binder<'_>,
) -> Result<InsertSource> {
    let frame = Frame::outermost();
    let empty = Scope::empty(&frame);
    let all_given = targets.len() == table.columns.len();
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        let row = &row.content;
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
            columns[target] = if is_default(value) {
                default_expression(column, binder.catalog, binder.session)?
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
fn defaults(table: &Table, binder: &Binder<'_>) -> Result<Vec<Expression>> {
    table
        .columns
        .iter()
        .map(|column| default_expression(column, binder.catalog, binder.session))
        .collect()
}

fn bind_conflict(
    conflict: &ast::OnConflict,
    table: &Table,
    alias: Option<&str>,
    binder: &mut Binder<'_>,
) -> Result<OnConflict> {
    let index = match &conflict.conflict_target {
        None => None,
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let name = QualifiedName::new(name)?.name;
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
        Some(ast::ConflictTarget::Columns(names)) => {
            let mut columns = Vec::with_capacity(names.len());
            for name in names {
                let folded = fold(name);
                let position = table.column(&folded).ok_or_else(|| {
                    Error::new(
                        SqlState::UNDEFINED_COLUMN,
                        format!("column \"{folded}\" does not exist"),
                    )
                    .at((binder.locate)(name.span.start))
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
        ast::OnConflictAction::DoNothing => None,
        ast::OnConflictAction::DoUpdate(update) => {
            if index.is_none() {
                return Err(Error::syntax(
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                ));
            }
            let frame = Frame::outermost();
            let mut scope = scope(table, alias, &frame);
            let mut excluded = relation(table, "excluded", None, table.columns.len());
            // The row `excluded` is not stored in the table, so reading it needs no
            // SELECT privilege.
            for column in &mut excluded.columns {
                column.origin = None;
            }
            scope.relations.push(excluded);
            let assignments = assignments(&update.assignments, table, &scope, binder)?;
            let condition = match &update.selection {
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

fn assignments(
    list: &[ast::Assignment],
    table: &Table,
    scope: &Scope<'_>,
    binder: &mut Binder<'_>,
) -> Result<Vec<Assignment>> {
    let mut assignments: Vec<Assignment> = Vec::with_capacity(list.len());
    let mut set = |column: usize, value: &Expr, binder: &mut Binder<'_>| {
        let definition = &table.columns[column];
        if assignments.iter().any(|other| other.column == column) {
            return Err(Error::syntax(format!(
                "multiple assignments to same column \"{}\"",
                definition.name
            )));
        }
        let value = if is_default(value) {
            default_expression(definition, binder.catalog, binder.session)?
        } else {
            let bound = binder.bind(value, scope)?;
            binder
                .assign(bound, &definition.name, definition.column_type)?
                .expression
        };
        assignments.push(Assignment { column, value });
        Ok(())
    };
    for assignment in list {
        match &assignment.target {
            AssignmentTarget::ColumnName(name) => {
                let column = column_position(table, name, binder)?;
                set(column, &assignment.value, binder)?;
            }
            AssignmentTarget::Tuple(names) => {
                let values = match &assignment.value {
                    Expr::Tuple(values) => values.as_slice(),
                    Expr::Nested(value) if names.len() == 1 => std::slice::from_ref(&**value),
                    _ => {
                        return Err(Error::unsupported(
                            "setting several columns from one expression",
                        ));
                    }
                };
                if values.len() != names.len() {
                    return Err(Error::syntax(
                        "number of columns does not match number of values",
                    ));
                }
                for (name, value) in names.iter().zip(values) {
                    let column = column_position(table, name, binder)?;
                    set(column, value, binder)?;
                }
            }
        }
    }
    Ok(assignments)
}

/// Plans the selection of the rows to change by the WHERE clause. `also` are further
/// expressions over these rows.
fn target<'expression>(
    selection: Option<&Expr>,
    table: &Table,
    scope: &Scope<'_>,
    everything: bool,
    also: impl Iterator<Item = &'expression Expression> + Clone,
    binder: &mut Binder<'_>,
) -> Result<ChangeTarget> {
    let condition = match selection {
        None => None,
        Some(condition) => Some(binder.bind_condition(condition, scope, "WHERE")?),
    };
    let conditions = condition
        .clone()
        .map_or_else(Vec::new, Expression::conjuncts);
    let reader = RowReader::of(table, &|position| {
        let names = |expression: &Expression| {
            expression.any(&|each| matches!(each, Expression::Column(at) if *at == position))
        };
        everything || condition.as_ref().is_some_and(names) || also.clone().any(names)
    });
    Ok(ChangeTarget {
        access: Access::choose(table, 0, conditions, &|_| false),
        condition,
        reader,
    })
}

/// Plans an UPDATE.
pub(crate) fn bind_update(update: &ast::Update, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    let unsupported = [
        (update.from.is_some(), "UPDATE … FROM"),
        (update.or.is_some(), "UPDATE OR"),
        (update.output.is_some(), "OUTPUT"),
        (
            update.limit.is_some() || !update.order_by.is_empty(),
            "UPDATE with ORDER BY or LIMIT",
        ),
    ];
    if let Some((_, feature)) = unsupported.iter().find(|(given, _)| *given) {
        return Err(Error::unsupported(*feature));
    }
    let (name, alias) = single_table(&update.table, "UPDATE")?;
    let table = table(name, binder)?;
    binder.needs.table(table.oid, Privileges::UPDATE);
    let frame = Frame::outermost();
    let scope = scope(&table, alias.as_deref(), &frame);
    let assignments = assignments(&update.assignments, &table, &scope, binder)?;
    let values = assignments.iter().map(|assignment| &assignment.value);
    let selection = update.selection.as_ref();
    let target = target(selection, &table, &scope, false, values, binder)?;
    let returning = returning(update.returning.as_deref(), &scope, binder)?;
    Ok(ChangePlan {
        table,
        kind: ChangeKind::Update(UpdatePlan {
            target,
            assignments,
        }),
        returning,
    })
}

/// Plans a DELETE.
pub(crate) fn bind_delete(delete: &ast::Delete, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    let unsupported = [
        (delete.using.is_some(), "DELETE … USING"),
        (delete.output.is_some(), "OUTPUT"),
        (
            delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty(),
            "DELETE with ORDER BY or LIMIT",
        ),
    ];
    if let Some((_, feature)) = unsupported.iter().find(|(given, _)| *given) {
        return Err(Error::unsupported(*feature));
    }
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
        &delete.from;
    let [item] = from.as_slice() else {
        return Err(Error::unsupported("DELETE from several tables"));
    };
    let (name, alias) = single_table(item, "DELETE")?;
    let table = table(name, binder)?;
    binder.needs.table(table.oid, Privileges::DELETE);
    let frame = Frame::outermost();
    let scope = scope(&table, alias.as_deref(), &frame);
    let everything = delete.returning.is_some();
    let selection = delete.selection.as_ref();
    let target = target(
        selection,
        &table,
        &scope,
        everything,
        std::iter::empty(),
        binder,
    )?;
    let returning = returning(delete.returning.as_deref(), &scope, binder)?;
    Ok(ChangePlan {
        table,
        kind: ChangeKind::Delete(DeletePlan { target }),
        returning,
    })
}
