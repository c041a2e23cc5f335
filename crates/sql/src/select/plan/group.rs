//! The binder of GROUP BY: binds grouping keys, and rewrites expressions to refer to
//! groups.

use coeval_sql_syntax::tree::GroupItem;

use super::query::bare_name;
use super::select::{Output, output_by_reference};
use crate::expression::{Binder, Expression, Scope, no_equality};
use crate::{Error, Result, SqlState};

/// Binds the grouping expressions; `None` without GROUP BY.
pub(super) fn bind_groups(
    binder: &mut Binder<'_>,
    list: &[GroupItem],
    outputs: &[Output],
    scope: &Scope<'_>,
) -> Result<Option<Vec<Expression>>> {
    if list.is_empty() {
        return Ok(None);
    }
    let mut groups: Vec<Expression> = Vec::with_capacity(list.len());
    for item in list {
        let GroupItem::Expr(expr) = item else {
            return Err(Error::unsupported("GROUPING SETS, CUBE and ROLLUP"));
        };
        // In GROUP BY, an input column takes precedence over an output column of the
        // same name.
        let is_input = match bare_name(expr) {
            Some(name) => scope.find(&name)?.is_some(),
            None => false,
        };
        let output = if is_input {
            None
        } else {
            output_by_reference(binder, expr, outputs, "GROUP BY")?
        };
        let expression = match output {
            Some(position) => {
                let data_type = outputs[position].bound.column_type.data_type;
                if let Some(error) = no_equality(data_type) {
                    return Err(error.at(binder.position(expr.at)));
                }
                let expression = outputs[position].bound.expression.clone();
                if expression.any(&|each| matches!(each, Expression::Aggregate(_))) {
                    return Err(Error::new(
                        SqlState::GROUPING_ERROR,
                        "aggregate functions are not allowed in GROUP BY",
                    )
                    .at(binder.position(expr.at)));
                }
                expression
            }
            None => {
                let bound = binder.bind(expr, scope)?;
                if let Some(error) = no_equality(bound.column_type.data_type) {
                    return Err(error.at(bound.position));
                }
                binder.settle(bound)?.expression
            }
        };
        if !groups.contains(&expression) {
            groups.push(expression);
        }
    }
    Ok(Some(groups))
}

/// Rewrites expressions over the FROM list's rows to expressions over group rows: first
/// the keys, then the aggregates.
pub(super) struct Regroup<'a> {
    pub keys: &'a [Expression],
    pub scope: &'a Scope<'a>,
}

impl Regroup<'_> {
    pub(super) fn apply(&self, expression: &mut Expression) -> Result<()> {
        if let Some(position) = self.keys.iter().position(|key| key == expression) {
            *expression = Expression::Column(position);
            return Ok(());
        }
        match expression {
            Expression::Aggregate(number) => {
                *expression = Expression::Column(self.keys.len() + *number);
                return Ok(());
            }
            Expression::Column(position) => {
                return Err(Error::new(
                    SqlState::GROUPING_ERROR,
                    format!(
                        "column \"{}\" must appear in the GROUP BY clause or be used in an aggregate function",
                        self.name(*position)
                    ),
                ));
            }
            _ => {}
        }
        let mut result = Ok(());
        expression.children_mut(&mut |child| {
            if result.is_ok() {
                result = self.apply(child);
            }
        });
        result
    }

    fn name(&self, position: usize) -> String {
        for relation in &self.scope.relations {
            for column in &relation.columns {
                if column.expression == Expression::Column(position) {
                    return format!("{}.{}", relation.name, column.name);
                }
            }
        }
        "?".to_owned()
    }
}
