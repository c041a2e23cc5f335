//! The binder for subqueries inside expressions: scalar, EXISTS, IN, ANY, ALL and ARRAY
//! subqueries.

use std::sync::Arc;

use coeval_sql_syntax::tree::{self, Expr, ExprKind, Quantity, Query};

use super::{Aggregates, Binder, Recursion, Windows};
use crate::expression::{Bound, Comparison, Expression, Frame, Scope, Subquery, SubqueryKind};
use crate::select::{self, QueryPlan, Shape};
use crate::value::DataType;
use crate::{Error, Result};

/// A planned subquery.
struct Planned {
    plan: Arc<QueryPlan>,
    /// Its logical form, if the query around it may take it apart.
    shape: Option<Shape>,
    /// The expressions of the enclosing scope that it is correlated with.
    correlations: Vec<Expression>,
}

impl Binder<'_> {
    /// Plans a subquery.
    fn subquery(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Planned> {
        let frame = Frame::inside(scope);
        let recursion = std::mem::replace(&mut self.recursion, Recursion::Within("a subquery"));
        let sets = self.sets.take();
        let planned = self.one_level_down(|binder| select::plan_with_shape(binder, query, &frame));
        self.sets = sets;
        self.recursion = recursion;
        let (plan, shape) = planned?;
        Ok(Planned {
            plan: Arc::new(plan),
            shape,
            correlations: frame.into_taken(),
        })
    }

    /// Binds or plans what is in a frame inside the present query's scope.
    pub(crate) fn one_level_down<T>(&mut self, plan: impl FnOnce(&mut Self) -> T) -> T {
        let aggregates =
            std::mem::replace(&mut self.aggregates, Aggregates::Forbidden("a subquery"));
        let windows = std::mem::replace(&mut self.windows, Windows::Forbidden);
        let groupings = std::mem::take(&mut self.groupings);
        self.levels.push((aggregates, groupings));
        let planned = plan(self);
        // What belongs to the present query has been added to what it has.
        if let Some((aggregates, groupings)) = self.levels.pop() {
            self.aggregates = aggregates;
            self.groupings = groupings;
        }
        self.windows = windows;
        planned
    }

    /// Binds what belongs to a clause in which aggregates and window functions are not
    /// allowed.
    pub(crate) fn in_clause<T>(
        &mut self,
        clause: &'static str,
        bind: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let aggregates = std::mem::replace(&mut self.aggregates, Aggregates::Forbidden(clause));
        let windows = std::mem::replace(&mut self.windows, Windows::Forbidden);
        let bound = bind(self);
        self.aggregates = aggregates;
        self.windows = windows;
        bound
    }

    /// Plans a query that is part of no other's clause, such as a table of WITH.
    pub(crate) fn apart<T>(&mut self, plan: impl FnOnce(&mut Self) -> T) -> T {
        let sets = self.sets.take();
        let groupings = std::mem::take(&mut self.groupings);
        let planned = self.in_clause("this expression", plan);
        self.sets = sets;
        self.groupings = groupings;
        planned
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
        planned: Planned,
    ) -> Expression {
        let number = self.next_subquery();
        let Planned {
            plan,
            shape,
            correlations,
        } = planned;
        if let Some(shape) = shape {
            self.shapes.insert(number, shape);
        }
        Expression::Subquery(Box::new(Subquery {
            kind,
            operand,
            plan,
            correlations,
            number,
            hashed: None,
        }))
    }

    pub(super) fn exists(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Bound> {
        let planned = self.subquery(query, scope)?;
        let test = self.build(SubqueryKind::Exists, None, planned);
        Ok(Bound::new(test, DataType::Bool))
    }

    pub(super) fn scalar_subquery(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Bound> {
        let planned = self.subquery(query, scope)?;
        self.one_column(&planned.plan, query)?;
        let column_type = planned.plan.columns()[0].column_type;
        let value = self.build(SubqueryKind::Scalar, None, planned);
        Ok(Bound::new(value, column_type))
    }

    /// A query that sets several columns: one value for each of its columns. Each reads the
    /// same plan.
    pub(crate) fn row_subquery(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Vec<Bound>> {
        let Planned {
            plan,
            shape,
            correlations,
        } = self.subquery(query, scope)?;
        let types: Vec<_> = plan.columns().iter().map(|each| each.column_type).collect();
        let mut values = Vec::with_capacity(types.len());
        for (position, column_type) in types.into_iter().enumerate() {
            let plan = QueryPlan::project(Arc::clone(&plan), Expression::Column(position));
            let planned = Planned {
                plan: Arc::new(plan),
                shape: shape.as_ref().and_then(|shape| shape.column(position)),
                correlations: correlations.clone(),
            };
            let value = self.build(SubqueryKind::Scalar, None, planned);
            values.push(Bound::new(value, column_type));
        }
        Ok(values)
    }

    pub(super) fn array_subquery(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Bound> {
        let planned = self.subquery(query, scope)?;
        self.one_column(&planned.plan, query)?;
        let element = planned.plan.columns()[0].column_type.data_type;
        let Some(array) = element.array() else {
            return Err(Error::unsupported(format_args!("an array of {element}")));
        };
        let value = self.build(SubqueryKind::Array, None, planned);
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
        let mut planned = self.subquery(query, scope)?;
        self.one_column(&planned.plan, query)?;
        let column_type = planned.plan.columns()[0].column_type;
        let element = Bound::new(Expression::Column(0), column_type);
        let (operand, element) = self.comparable(comparison, operand, element, place)?;
        if element != Expression::Column(0) {
            if let Some(shape) = &mut planned.shape {
                shape.convert_first(&element);
            }
            planned.plan = Arc::new(QueryPlan::project(planned.plan, element));
        }
        let (kind, negated) = match (all, comparison) {
            // `<> ALL` is NOT IN, whose values are found by hash.
            (true, Comparison::NotEqual) => (SubqueryKind::Any(Comparison::Equal), true),
            (true, _) => (SubqueryKind::All(comparison), false),
            (false, _) => (SubqueryKind::Any(comparison), false),
        };
        let mut test = self.build(kind, Some(operand), planned);
        if negated {
            test = Expression::Not(Box::new(test));
        }
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
