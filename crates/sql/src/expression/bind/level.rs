//! The query that an aggregate belongs to.
//!
//! As in standard SQL, an aggregate belongs to the innermost query whose columns its
//! arguments use, and to its own query if they use none:
//!
//! ```text
//!   select (select max(o.x) from i) from o
//!                  ╰─ an aggregate over the rows of o: the outer query is grouped, and
//!                     the subquery takes the result as it takes columns
//! ```

use super::{Aggregates, Binder, Windows};
use crate::expression::{AggregateCall, Expression, Frame, Scope};
use crate::value::ColumnType;
use crate::{Error, Result, SqlState};

/// Whether the expression is a value of the query's own rows.
const fn is_own(expression: &Expression) -> bool {
    matches!(
        expression,
        Expression::Column(_)
            | Expression::Aggregate(_)
            | Expression::SetResult(_)
            | Expression::Window(_)
            | Expression::Grouping(_)
    )
}

impl Binder<'_> {
    /// Binds an aggregate, and adds it to the query that it belongs to. Returns its result
    /// as the present query sees it.
    pub(super) fn at_its_level(
        &mut self,
        position: Option<u32>,
        scope: &Scope<'_>,
        bind: impl FnOnce(&mut Self) -> Result<AggregateCall>,
    ) -> Result<(Expression, ColumnType)> {
        let taken_before = scope.frame.counts();
        let own = std::mem::replace(&mut self.aggregates, Aggregates::Forbidden("aggregate"));
        let windows = std::mem::replace(&mut self.windows, Windows::Forbidden);
        let call = bind(self);
        self.windows = windows;
        self.aggregates = own;
        let call = call?;
        let result = call.result;
        let expression = self.place(call, position, scope, &taken_before)?;
        Ok((expression, result))
    }

    fn place(
        &mut self,
        mut call: AggregateCall,
        position: Option<u32>,
        scope: &Scope<'_>,
        taken_before: &[usize],
    ) -> Result<Expression> {
        // Frames from the inside that the call passes.
        let mut passed: Vec<&Frame<'_>> = Vec::new();
        let mut scope = scope;
        while !over_rows(&call, &is_own)
            && over_rows(&call, &|each| matches!(each, Expression::Outer(_)))
            && let Some(outside) = scope.frame.outside()
        {
            if call.direct.iter().any(|each| each.any(&is_own)) {
                return Err(Error::new(
                    SqlState::GROUPING_ERROR,
                    "outer-level aggregate cannot contain a lower-level variable in its direct arguments",
                )
                .at(position));
            }
            let taken = scope.frame.taken();
            call.expressions_mut(&mut |each| lift(each, &taken));
            // What was taken for the arguments alone is taken outside now.
            scope.frame.forget(taken_before[passed.len()]);
            passed.push(scope.frame);
            scope = outside;
        }
        let state = match self.levels.len().checked_sub(passed.len()) {
            _ if passed.is_empty() => &mut self.aggregates,
            Some(level) => &mut self.levels[level].0,
            None => return Err(Error::internal("an aggregate outside of all queries")),
        };
        let calls = match state {
            Aggregates::Collected(calls) => calls,
            Aggregates::Forbidden("aggregate") => {
                return Err(Error::new(
                    SqlState::GROUPING_ERROR,
                    "aggregate function calls cannot be nested",
                )
                .at(position));
            }
            Aggregates::Forbidden(clause) => {
                return Err(Error::new(
                    SqlState::GROUPING_ERROR,
                    format!("aggregate functions are not allowed in {clause}"),
                )
                .at(position));
            }
        };
        let number = match calls.iter().position(|known| *known == call) {
            Some(number) => number,
            None => {
                calls.push(call);
                calls.len() - 1
            }
        };
        let mut expression = Expression::Aggregate(number);
        for frame in passed.into_iter().rev() {
            expression = frame.take(expression);
        }
        Ok(expression)
    }
}

impl Binder<'_> {
    /// Adds a GROUPING operation to the query whose columns its arguments are.
    pub(super) fn place_grouping(
        &mut self,
        mut arguments: Vec<Expression>,
        position: Option<u32>,
        scope: &Scope<'_>,
        taken_before: &[usize],
    ) -> Result<Expression> {
        let any = |arguments: &[Expression], test: &dyn Fn(&Expression) -> bool| {
            arguments.iter().any(|each| each.any(test))
        };
        let mut passed: Vec<&Frame<'_>> = Vec::new();
        let mut scope = scope;
        while !any(&arguments, &is_own)
            && any(&arguments, &|each| matches!(each, Expression::Outer(_)))
            && let Some(outside) = scope.frame.outside()
        {
            let taken = scope.frame.taken();
            for argument in &mut arguments {
                lift(argument, &taken);
            }
            scope.frame.forget(taken_before[passed.len()]);
            passed.push(scope.frame);
            scope = outside;
        }
        let (aggregates, groupings) = match self.levels.len().checked_sub(passed.len()) {
            _ if passed.is_empty() => (&self.aggregates, &mut self.groupings),
            Some(level) => {
                let (aggregates, groupings) = &mut self.levels[level];
                (&*aggregates, groupings)
            }
            None => return Err(Error::internal("a grouping outside of all queries")),
        };
        if let Aggregates::Forbidden(clause) = aggregates {
            return Err(Error::new(
                SqlState::GROUPING_ERROR,
                format!("grouping operations are not allowed in {clause}"),
            )
            .at(position));
        }
        let number = match groupings.iter().position(|known| *known == arguments) {
            Some(number) => number,
            None => {
                groupings.push(arguments);
                groupings.len() - 1
            }
        };
        let mut expression = Expression::Grouping(number);
        for frame in passed.into_iter().rev() {
            expression = frame.take(expression);
        }
        Ok(expression)
    }
}

/// Whether `test` holds for what is aggregated, which the direct arguments are not.
fn over_rows(call: &AggregateCall, test: &dyn Fn(&Expression) -> bool) -> bool {
    let mut found = false;
    call.over_rows(&mut |each| found = found || each.any(test));
    found
}

/// Replaces what a subquery has taken by the outer query's expressions.
fn lift(expression: &mut Expression, taken: &[Expression]) {
    if let Expression::Outer(number) = expression {
        if let Some(outside) = taken.get(*number) {
            *expression = outside.clone();
        }
        return;
    }
    expression.children_mut(&mut |child| lift(child, taken));
}
