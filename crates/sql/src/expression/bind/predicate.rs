//! The binder for predicates with a syntax of their own: LIKE, IS, BETWEEN, IN.

use std::sync::Arc;

use sqlparser::ast::Expr;

use super::Binder;
use super::operator::{comparison_type, negate_if, no_operator};
use crate::expression::coerce::common_type;
use crate::expression::{Bound, Comparison, Expression, LikePattern, Scope};
use crate::value::{DataType, Value};
use crate::{Error, Result, SqlState};

impl Binder<'_> {
    pub(super) fn like(
        &mut self,
        expr: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        negated: bool,
        ignore_case: bool,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let escape = match escape {
            None => Some('\\'),
            Some(expr) => {
                let position = self.position(super::span_of(expr));
                let bound = self.bind(expr, scope)?;
                let Expression::Constant(Value::Text(text)) = bound.expression else {
                    return Err(
                        Error::unsupported("an ESCAPE that is no string literal").at(position)
                    );
                };
                let mut characters = text.chars();
                match (characters.next(), characters.next()) {
                    (first, None) => first,
                    _ => {
                        return Err(Error::new(
                            SqlState::INVALID_ESCAPE_SEQUENCE,
                            "invalid escape string",
                        )
                        .with_hint("Escape string must be empty or one character.")
                        .at(position));
                    }
                }
            }
        };
        let subject = self.bind(expr, scope)?;
        let position = subject.position;
        let pattern = self.bind(pattern, scope)?;
        let operands =
            self.two_strings(if ignore_case { "~~*" } else { "~~" }, subject, pattern)?;
        let matched = Expression::Like(
            operands,
            Arc::new(LikePattern {
                ignore_case,
                escape,
            }),
        );
        Ok(negate_if(Bound::new(matched, DataType::Bool), negated).at(position))
    }

    pub(super) fn is_null(&mut self, expr: &Expr, scope: &Scope<'_>) -> Result<Bound> {
        let (inner, negated) = match expr {
            Expr::IsNull(inner) => (inner, false),
            Expr::IsNotNull(inner) => (inner, true),
            _ => return Err(Error::internal("not a test for null")),
        };
        let inner = self.bind(inner, scope)?;
        let inner = self.settle(inner)?;
        let test = Expression::IsNull(Box::new(inner.expression));
        Ok(negate_if(Bound::new(test, DataType::Bool), negated))
    }

    pub(super) fn is_truth(&mut self, expr: &Expr, scope: &Scope<'_>) -> Result<Bound> {
        let (inner, wanted, negated, clause) = match expr {
            Expr::IsTrue(inner) => (inner, Some(true), false, "IS TRUE"),
            Expr::IsNotTrue(inner) => (inner, Some(true), true, "IS NOT TRUE"),
            Expr::IsFalse(inner) => (inner, Some(false), false, "IS FALSE"),
            Expr::IsNotFalse(inner) => (inner, Some(false), true, "IS NOT FALSE"),
            Expr::IsUnknown(inner) => (inner, None, false, "IS UNKNOWN"),
            Expr::IsNotUnknown(inner) => (inner, None, true, "IS NOT UNKNOWN"),
            _ => return Err(Error::internal("not a test for truth")),
        };
        let inner = Box::new(self.bind_condition(inner, scope, clause)?);
        let test = match wanted {
            Some(truth) => Expression::IsTruth(inner, truth),
            None => Expression::IsNull(inner),
        };
        Ok(negate_if(Bound::new(test, DataType::Bool), negated))
    }

    pub(super) fn distinct(
        &mut self,
        left: &Expr,
        right: &Expr,
        negated: bool,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let left = self.bind(left, scope)?;
        let right = self.bind(right, scope)?;
        let (left, right) = self.comparable(Comparison::Equal, left, right)?;
        let test = Expression::Distinct(Box::new([left, right]));
        Ok(negate_if(Bound::new(test, DataType::Bool), negated))
    }

    pub(super) fn between(
        &mut self,
        expr: &Expr,
        negated: bool,
        low: &Expr,
        high: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let value = self.bind(expr, scope)?;
        let low = self.bind(low, scope)?;
        let high = self.bind(high, scope)?;
        let above = self.compare(Comparison::GreaterOrEqual, value.clone(), low)?;
        let below = self.compare(Comparison::LessOrEqual, value, high)?;
        let both = Expression::And(vec![above.expression, below.expression]);
        Ok(negate_if(Bound::new(both, DataType::Bool), negated))
    }

    pub(super) fn in_list(
        &mut self,
        expr: &Expr,
        list: &[Expr],
        negated: bool,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        if let Expr::Tuple(left) = expr {
            let mut any = Vec::with_capacity(list.len());
            for each in list {
                let Expr::Tuple(right) = each else {
                    return Err(Error::syntax(
                        "unequal number of entries in row expressions",
                    ));
                };
                any.push(
                    self.compare_rows(Comparison::Equal, left, right, scope)?
                        .expression,
                );
            }
            return Ok(negate_if(
                Bound::new(Expression::Or(any), DataType::Bool),
                negated,
            ));
        }
        let value = self.bind(expr, scope)?;
        let position = value.position;
        let mut bounds = Vec::with_capacity(list.len());
        for each in list {
            bounds.push(self.bind(each, scope)?);
        }
        let types: Vec<DataType> = std::iter::once(value.column_type.data_type)
            .chain(bounds.iter().map(|bound| bound.column_type.data_type))
            .collect();
        let Some(common) = common_type(&types) else {
            let other = types
                .iter()
                .copied()
                .find(|each| comparison_type(types[0], *each).is_none())
                .unwrap_or(types[0]);
            return Err(no_operator(types[0], "=", other).at(position));
        };
        let value = self.implicit(value, common)?.expression;
        let mut elements = Vec::with_capacity(bounds.len());
        for bound in bounds {
            elements.push(self.implicit(bound, common)?.expression);
        }
        let test = match elements.len() {
            1 => Expression::Compare(Comparison::Equal, Box::new([value, elements.remove(0)])),
            _ => Expression::InList(Box::new(value), elements),
        };
        Ok(negate_if(Bound::new(test, DataType::Bool), negated).at(position))
    }
}
