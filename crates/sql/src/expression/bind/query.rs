//! The binder for subqueries inside expressions: scalar, EXISTS, IN, ANY, ALL and ARRAY
//! subqueries.

use std::sync::Arc;

use coeval_sql_syntax::tree::{self, Expr, ExprKind, Quantity, Query};

use super::{Aggregates, Binder};
use crate::expression::{Bound, Comparison, Expression, Frame, Scope, Subquery, SubqueryKind};
use crate::select::{self, QueryPlan};
use crate::value::DataType;
use crate::{Error, Result};

impl Binder<'_> {
    /// Plans a subquery; returns its plan and the expressions of `scope` that it is
    /// correlated with.
    fn subquery(
        &mut self,
        query: &Query,
        scope: &Scope<'_>,
    ) -> Result<(Arc<QueryPlan>, Vec<Expression>)> {
        let frame = Frame::inside(scope);
        let outside = std::mem::replace(&mut self.aggregates, Aggregates::Forbidden("a subquery"));
        let sets = self.sets.take();
        let plan = select::plan_in_frame(self, query, &frame);
        self.aggregates = outside;
        self.sets = sets;
        Ok((Arc::new(plan?), frame.into_taken()))
    }

    fn one_column(&self, plan: &QueryPlan, query: &Query) -> Result<()> {
        if plan.columns().len() == 1 {
            return Ok(());
        }
        let position = self.position(query.at);
        Err(Error::syntax(if plan.columns().is_empty() {
            "subquery must return a column"
        } else {
            "subquery must return only one column"
        })
        .at(position))
    }

    fn build(
        &mut self,
        kind: SubqueryKind,
        operand: Option<Expression>,
        plan: Arc<QueryPlan>,
        correlations: Vec<Expression>,
    ) -> Expression {
        let number = self.next_subquery();
        Expression::Subquery(Box::new(Subquery {
            kind,
            operand,
            plan,
            correlations,
            number,
        }))
    }

    pub(super) fn exists(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Bound> {
        let (plan, correlations) = self.subquery(query, scope)?;
        let test = self.build(SubqueryKind::Exists, None, plan, correlations);
        Ok(Bound::new(test, DataType::Bool))
    }

    pub(super) fn scalar_subquery(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Bound> {
        let (plan, correlations) = self.subquery(query, scope)?;
        self.one_column(&plan, query)?;
        let column_type = plan.columns()[0].column_type;
        let value = self.build(SubqueryKind::Scalar, None, plan, correlations);
        Ok(Bound::new(value, column_type))
    }

    pub(super) fn array_subquery(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Bound> {
        let (plan, correlations) = self.subquery(query, scope)?;
        self.one_column(&plan, query)?;
        let element = plan.columns()[0].column_type.data_type;
        let Some(array) = element.array() else {
            return Err(Error::unsupported(format_args!("an array of {element}")));
        };
        let value = self.build(SubqueryKind::Array, None, plan, correlations);
        Ok(Bound::new(value, array))
    }

    pub(super) fn in_subquery(
        &mut self,
        expr: &Expr,
        query: &Query,
        negated: bool,
        place: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let mut test =
            self.compare_with_subquery(expr, Comparison::Equal, query, false, place, scope)?;
        if negated {
            test.expression = Expression::Not(Box::new(test.expression));
        }
        Ok(test)
    }

    fn compare_with_subquery(
        &mut self,
        expr: &Expr,
        comparison: Comparison,
        query: &Query,
        all: bool,
        place: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        if matches!(expr.kind, ExprKind::Row(_)) {
            return Err(
                Error::unsupported("a row compared with a subquery").at(self.position(expr.at))
            );
        }
        let operand = self.bind(expr, scope)?;
        let position = operand.position;
        let (mut plan, correlations) = self.subquery(query, scope)?;
        self.one_column(&plan, query)?;
        let column_type = plan.columns()[0].column_type;
        let element = Bound::new(Expression::Column(0), column_type);
        let (operand, element) = self.comparable(comparison, operand, element, place)?;
        if element != Expression::Column(0) {
            plan = Arc::new(QueryPlan::project(plan, element));
        }
        let kind = if all {
            SubqueryKind::All(comparison)
        } else {
            SubqueryKind::Any(comparison)
        };
        let test = self.build(kind, Some(operand), plan, correlations);
        Ok(Bound::new(test, DataType::Bool).at(position))
    }

    /// Binds `expr op ANY (…)` or ALL, over a subquery or an array.
    pub(super) fn quantified(
        &mut self,
        test: &tree::Quantified,
        place: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let tree::Quantified { left, all, .. } = test;
        let all = *all;
        let comparison = Self::comparison(&test.comparison, place)?;
        let inner = match &test.right {
            Quantity::Query(query) => {
                return self.compare_with_subquery(left, comparison, query, all, place, scope);
            }
            Quantity::Array(array) => array,
        };
        let operand = self.bind(left, scope)?;
        let position = operand.position;
        let array = self.bind(inner, scope)?;
        let element_type = match array.column_type.data_type {
            DataType::Unknown => operand.column_type.data_type,
            other => other.element().ok_or_else(|| {
                Error::new(
                    crate::SqlState::WRONG_OBJECT_TYPE,
                    "op ANY/ALL (array) requires array on right side",
                )
                .at(place)
            })?,
        };
        let placeholder = Bound::new(Expression::Aggregate(0), element_type);
        let (operand, element) = self.comparable(comparison, operand, placeholder, place)?;
        let common = match &element {
            Expression::Cast(cast) => cast.to.data_type,
            _ => element_type,
        };
        let common_array = match common.array() {
            Some(array) => array,
            None => {
                return Err(Error::unsupported(format_args!(
                    "a comparison with an array of {common}"
                )));
            }
        };
        let vector = array.column_type.data_type.is_vector();
        let array = if vector && common == element_type {
            array.expression
        } else {
            self.implicit(array, common_array)?.expression
        };
        Ok(Bound::new(
            Expression::Quantified {
                comparison,
                all,
                operands: Box::new([operand, array]),
            },
            DataType::Bool,
        )
        .at(position))
    }
}
