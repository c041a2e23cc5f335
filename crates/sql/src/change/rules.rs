//! What a table says about each row that is written: values of generated columns, and CHECK
//! constraints.
//!
//! ```text
//!   values of a row ──▶ generated columns are computed ──▶ NOT NULL ──▶ CHECK, by name ──▶ written
//! ```
//!
//! Expressions of both are over all columns of the row. Neither reads other rows: subqueries
//! are refused when the table is defined.

use std::sync::Arc;

use coeval_sql_syntax::tree::{Expr, ExprKind};

use crate::catalog::{Catalog, Check, Generation, Table, TableColumn, row_text};
use crate::error::{Error, Result, SqlState};
use crate::expression::{
    Aggregates, Binder, EvaluationContext, Expression, Frame, Locate, Parameters, Scope,
    SessionInfo,
};
use crate::statement::parse_expression;
use crate::value::{DataType, Value};

/// What a table says about each row that is written.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Generated columns, by position, with their expressions.
    generated: Vec<(usize, Expression)>,
    /// CHECK constraints in the order of their names, each with its condition.
    checks: Vec<(String, Expression)>,
}

impl Rules {
    /// Binds the rules of a table.
    pub(crate) fn bind(
        table: &Table,
        catalog: &Arc<Catalog>,
        session: &SessionInfo,
    ) -> Result<Self> {
        let mut rules = Self::default();
        for (position, column) in table.columns.iter().enumerate() {
            if let Some(sql) = column.generation.as_ref().and_then(Generation::expression) {
                let parsed = parse_expression(sql).map_err(unreadable)?;
                let bound = bind_generated(&parsed, column, table, (catalog, session), &|_| None)?;
                rules.generated.push((position, bound));
            }
        }
        for check in &table.checks {
            let bound = bind_stored_check(check, table, catalog, session)?;
            rules.checks.push((check.name.clone(), bound));
        }
        rules.checks.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(rules)
    }

    /// Whether the table says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.generated.is_empty() && self.checks.is_empty()
    }

    /// Computes the generated columns of a row.
    pub(crate) fn generate(
        &self,
        values: &mut [Value],
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        for (position, expression) in &self.generated {
            // No expression is over a generated column.
            values[*position] = expression.evaluate(context, values)?;
        }
        Ok(())
    }

    /// Computes the generated columns of a row, and adds them to its changes.
    pub(crate) fn generate_changes(
        &self,
        values: &mut [Value],
        changes: &mut Vec<(usize, Value)>,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        self.generate(values, context)?;
        for (position, _) in &self.generated {
            changes.push((*position, values[*position].clone()));
        }
        Ok(())
    }

    /// Fails with 23514 if a CHECK constraint is false for the row.
    pub(crate) fn check(
        &self,
        table: &Table,
        values: &[Value],
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        for (name, condition) in &self.checks {
            if condition.evaluate(context, values)? == Value::Bool(false) {
                return Err(check_violation(table, name, values));
            }
        }
        Ok(())
    }
}

fn unreadable(error: Error) -> Error {
    Error::internal(format!("an expression of a table cannot be read: {error}"))
}

/// SQLSTATE 23514, `check_violation`: a CHECK constraint is false for a new row.
fn check_violation(table: &Table, constraint: &str, values: &[Value]) -> Error {
    Error::new(
        SqlState::CHECK_VIOLATION,
        format!(
            "new row for relation \"{}\" violates check constraint \"{constraint}\"",
            table.name
        ),
    )
    .with_rows_in_detail(
        table.oid,
        format!("Failing row contains ({}).", row_text(table, values)),
    )
    .with_table(table.schema(), &table.name)
    .with_constraint(constraint)
}

/// Binds an expression over the columns of a table, without subqueries and parameters.
fn bind_over_row(
    what: &'static str,
    expression: &Expr,
    table: &Table,
    (catalog, session): (&Arc<Catalog>, &SessionInfo),
    locate: Locate<'_>,
    bind: impl FnOnce(&mut Binder<'_>, &Scope<'_>) -> Result<Expression>,
) -> Result<Expression> {
    let frame = Frame::outermost();
    let mut scope = super::bind::scope(table, None, &frame);
    // The row has no record before it is written.
    scope.relations[0].record = None;
    let mut binder = Binder::new(catalog, session, locate, Parameters::default());
    binder.aggregates = Aggregates::Forbidden(what);
    let bound = bind(&mut binder, &scope)?;
    if bound.any(&|each| matches!(each, Expression::Subquery(_))) {
        let what = what.strip_suffix('s').unwrap_or(what);
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cannot use subquery in {what}"),
        )
        .at(subquery_at(expression).and_then(locate)));
    }
    if bound.any(&|each| matches!(each, Expression::Parameter(_))) {
        return Err(Error::new(
            SqlState::UNDEFINED_PARAMETER,
            "there is no parameter $1",
        ));
    }
    Ok(bound)
}

/// Where the first subquery of an expression stands.
fn subquery_at(expression: &Expr) -> Option<u32> {
    let mut first = None;
    expression.clone().walk_mut(&mut |each| {
        if matches!(
            each.kind,
            ExprKind::Exists(_)
                | ExprKind::Subquery(_)
                | ExprKind::ArrayQuery(_)
                | ExprKind::InQuery(_)
                | ExprKind::Quantified(_)
        ) {
            first = first.or(Some(each.at));
        }
    });
    first
}

/// The error of an expression that has not its column's type, in PostgreSQL's words for what
/// is part of the table.
fn of_default(error: Error, column: &TableColumn, from: DataType) -> Error {
    if error.state() != SqlState::DATATYPE_MISMATCH {
        return error;
    }
    Error::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "column \"{}\" is of type {} but default expression is of type {from}",
            column.name, column.column_type.data_type
        ),
    )
    .with_hint("You will need to rewrite or cast the expression.")
}

/// Binds the condition of a CHECK constraint.
pub(crate) fn bind_check(
    condition: &Expr,
    table: &Table,
    around: (&Arc<Catalog>, &SessionInfo),
    locate: Locate<'_>,
) -> Result<Expression> {
    bind_over_row(
        "check constraints",
        condition,
        table,
        around,
        locate,
        |binder, scope| binder.bind_condition(condition, scope, "CHECK"),
    )
}

/// Binds the condition of a CHECK constraint that the table has.
pub(crate) fn bind_stored_check(
    check: &Check,
    table: &Table,
    catalog: &Arc<Catalog>,
    session: &SessionInfo,
) -> Result<Expression> {
    let parsed = parse_expression(&check.condition).map_err(unreadable)?;
    bind_check(&parsed, table, (catalog, session), &|_| None)
}

/// Binds the expression of a generated column, cast to the column's type.
pub(crate) fn bind_generated(
    expression: &Expr,
    column: &TableColumn,
    table: &Table,
    around: (&Arc<Catalog>, &SessionInfo),
    locate: Locate<'_>,
) -> Result<Expression> {
    let what = "column generation expressions";
    let mut volatile = false;
    let bound = bind_over_row(what, expression, table, around, locate, |binder, scope| {
        let bound = binder.bind(expression, scope)?;
        volatile = bound.expression.looks();
        let from = bound.column_type.data_type;
        let assigned = binder.assign(bound, &column.name, column.column_type);
        Ok(assigned
            .map_err(|error| of_default(error, column, from))?
            .expression)
    })?;
    if volatile {
        return Err(Error::new(
            SqlState::INVALID_OBJECT_DEFINITION,
            "generation expression is not immutable",
        ));
    }
    Ok(bound)
}

/// A kept expression with another name in place of a column's.
pub(crate) fn with_column_renamed(sql: &str, old: &str, new: &str) -> Result<String> {
    let mut expr = parse_expression(sql).map_err(unreadable)?;
    expr.walk_mut(&mut |each| {
        if let ExprKind::Column { path, star: false } = &mut each.kind
            && let [name] = path.0.as_mut_slice()
            && name.text == old
        {
            name.text = new.into();
        }
    });
    Ok(coeval_sql_syntax::print::expr(&expr))
}
