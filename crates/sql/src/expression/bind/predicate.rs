//! The binder for predicates with a syntax of their own: LIKE, IS, BETWEEN, IN.

use std::sync::Arc;

use coeval_sql_syntax::tree::{self, Expr, ExprKind, LikeKind, Test};

use super::Binder;
use super::operator::{comparison_type, negate_if, no_operator};
use crate::expression::coerce::comparable_type;
use crate::expression::{Bound, Comparison, Expression, LikePattern, Scope};
use crate::value::{DataType, Value};
use crate::{Error, Result, SqlState};

impl Binder<'_> {
    pub(super) fn like(
        &mut self,
        test: &tree::Like,
        place: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let ignore_case = match test.kind {
            LikeKind::Like => false,
            LikeKind::Ilike => true,
            LikeKind::SimilarTo => return Err(Error::unsupported("SIMILAR TO").at(place)),
        };
        let escape = match &test.escape {
            None => Some('\\'),
            Some(expr) => {
                let position = self.position(expr.at);
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
        let subject = self.bind(&test.operand, scope)?;
        let position = subject.position;
        let pattern = self.bind(&test.pattern, scope)?;
        let symbol = match (ignore_case, test.negated) {
            (false, false) => "~~",
            (false, true) => "!~~",
            (true, false) => "~~*",
            (true, true) => "!~~*",
        };
        let operands = self.two_strings(symbol, subject, pattern, place)?;
        let matched = Expression::Like(
            operands,
            Arc::new(LikePattern {
                ignore_case,
                escape,
            }),
        );
        Ok(negate_if(Bound::new(matched, DataType::Bool), test.negated).at(position))
    }

    pub(super) fn is(
        &mut self,
        test: &tree::Is,
        place: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let negated = test.negated;
        let (wanted, clause) = match (test.test, negated) {
            (Test::Null, _) => {
                let inner = self.bind(&test.operand, scope)?;
                let position = inner.position;
                let inner = self.settle(inner)?;
                let test = Expression::IsNull(Box::new(inner.expression));
                return Ok(negate_if(Bound::new(test, DataType::Bool), negated).at(position));
            }
            (Test::True, false) => (Some(true), "IS TRUE"),
            (Test::True, true) => (Some(true), "IS NOT TRUE"),
            (Test::False, false) => (Some(false), "IS FALSE"),
            (Test::False, true) => (Some(false), "IS NOT FALSE"),
            (Test::Unknown, false) => (None, "IS UNKNOWN"),
            (Test::Unknown, true) => (None, "IS NOT UNKNOWN"),
            (Test::Document, _) => return Err(Error::unsupported("IS DOCUMENT").at(place)),
            (Test::Normalized(_), _) => {
                return Err(Error::unsupported("IS NORMALIZED").at(place));
            }
        };
        let inner = Box::new(self.bind_condition(&test.operand, scope, clause)?);
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
        place: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let left = self.bind(left, scope)?;
        let right = self.bind(right, scope)?;
        let (left, right) = self.comparable(Comparison::Equal, left, right, place)?;
        let test = Expression::Distinct(Box::new([left, right]));
        Ok(negate_if(Bound::new(test, DataType::Bool), negated))
    }

    pub(super) fn between(
        &mut self,
        test: &tree::Between,
        place: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let value = self.bind(&test.operand, scope)?;
        let low = self.bind(&test.low, scope)?;
        let high = self.bind(&test.high, scope)?;
        let mut within = |low: Bound, high: Bound| -> Result<Expression> {
            let above = self.compare(Comparison::GreaterOrEqual, value.clone(), low, place)?;
            let below = self.compare(Comparison::LessOrEqual, value.clone(), high, place)?;
            Ok(Expression::And(vec![above.expression, below.expression]))
        };
        let both = match test.symmetric {
            false => within(low, high)?,
            true => Expression::Or(vec![within(low.clone(), high.clone())?, within(high, low)?]),
        };
        Ok(negate_if(Bound::new(both, DataType::Bool), test.negated))
    }

    pub(super) fn in_list(
        &mut self,
        test: &tree::InList,
        place: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let tree::InList {
            operand: expr,
            negated,
            list,
        } = test;
        let negated = *negated;
        if let ExprKind::Row(left) = &expr.kind {
            let mut any = Vec::with_capacity(list.len());
            for each in list {
                let ExprKind::Row(right) = &each.kind else {
                    return Err(
                        Error::syntax("unequal number of entries in row expressions").at(place),
                    );
                };
                let equal = self
                    .compare_rows(Comparison::Equal, &left.fields, &right.fields, scope)
                    .map_err(|error| error.at(place))?;
                any.push(equal.expression);
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
        // Where the types have nothing in common, each element may be compared with the value
        // all the same, as `"char"` is with a varchar.
        let pairwise = || {
            let first = comparison_type(types[0], *types.get(1)?)?;
            let mut others = types.iter().skip(2);
            let same = others.all(|each| comparison_type(types[0], *each) == Some(first));
            same.then_some(first)
        };
        let Some(common) = comparable_type(&types).or_else(pairwise) else {
            let other = types
                .iter()
                .copied()
                .find(|each| comparison_type(types[0], *each).is_none())
                .unwrap_or(types[0]);
            let symbol = if negated { "<>" } else { "=" };
            return Err(no_operator(types[0], symbol, other).at(place));
        };
        if !common.is_comparable() {
            let symbol = if negated { "<>" } else { "=" };
            return Err(no_operator(types[0], symbol, common).at(place));
        }
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
