//! The binder for operators: resolves arithmetic, comparison, logical and pattern
//! operators by the types of their operands.

use std::sync::Arc;

use coeval_sql_syntax::tree::{self, Expr, ExprKind, LikeKind};

use super::time_operator::TimeArithmetic;
use super::{Binder, json};
use crate::expression::coerce::{CastContext, castable, comparable_type};
use crate::expression::{
    ArithmeticOperator, Bound, Comparison, Expression, LikePattern, RegexPattern, Scope,
};
use crate::value::{DataType, NumberType, Value};
use crate::{Error, Result, SqlState};

/// The operation that a binary operator of SQL performs.
enum Operation {
    Compare(Comparison),
    Arithmetic(ArithmeticOperator),
    Concatenate,
    Regex { ignore_case: bool, negated: bool },
    Like { ignore_case: bool, negated: bool },
    StartsWith,
}

fn operation(operator: &tree::Operator) -> Option<Operation> {
    use ArithmeticOperator as A;
    let regex = |ignore_case, negated| Operation::Regex {
        ignore_case,
        negated,
    };
    let like = |ignore_case, negated| Operation::Like {
        ignore_case,
        negated,
    };
    if !matches!(operator.schema.as_slice(), [] | [_])
        || operator
            .schema
            .iter()
            .any(|schema| schema.text != "pg_catalog")
    {
        return None;
    }
    Some(match operator.symbol.as_str() {
        "=" => Operation::Compare(Comparison::Equal),
        "<>" => Operation::Compare(Comparison::NotEqual),
        "<" => Operation::Compare(Comparison::Less),
        "<=" => Operation::Compare(Comparison::LessOrEqual),
        ">" => Operation::Compare(Comparison::Greater),
        ">=" => Operation::Compare(Comparison::GreaterOrEqual),
        "+" => Operation::Arithmetic(A::Add),
        "-" => Operation::Arithmetic(A::Subtract),
        "*" => Operation::Arithmetic(A::Multiply),
        "/" => Operation::Arithmetic(A::Divide),
        "%" => Operation::Arithmetic(A::Modulo),
        "^" => Operation::Arithmetic(A::Power),
        "&" => Operation::Arithmetic(A::BitAnd),
        "|" => Operation::Arithmetic(A::BitOr),
        "#" => Operation::Arithmetic(A::BitXor),
        "<<" => Operation::Arithmetic(A::ShiftLeft),
        ">>" => Operation::Arithmetic(A::ShiftRight),
        "||" => Operation::Concatenate,
        "~" => regex(false, false),
        "~*" => regex(true, false),
        "!~" => regex(false, true),
        "!~*" => regex(true, true),
        "~~" => like(false, false),
        "~~*" => like(true, false),
        "!~~" => like(false, true),
        "!~~*" => like(true, true),
        "^@" => Operation::StartsWith,
        _ => return None,
    })
}

/// An operator as it is shown in messages.
fn shown(operator: &tree::Operator) -> String {
    let schema: String = operator
        .schema
        .iter()
        .map(|name| format!("{}.", name.text))
        .collect();
    format!("{schema}{}", operator.symbol)
}

pub(super) fn no_operator(left: DataType, symbol: &str, right: DataType) -> Error {
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {left} {symbol} {right}"),
    )
    .with_hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    )
}

fn not(expression: Expression) -> Expression {
    Expression::Not(Box::new(expression))
}

pub(super) fn negate_if(bound: Bound, negated: bool) -> Bound {
    if negated {
        Bound {
            expression: not(bound.expression),
            ..bound
        }
    } else {
        bound
    }
}

impl Binder<'_> {
    pub(super) fn not(&mut self, operand: &Expr, scope: &Scope<'_>) -> Result<Bound> {
        let inner = self.bind(operand, scope)?;
        let position = inner.position;
        let truth = self.truth(inner, "NOT")?;
        Ok(Bound::new(not(truth), DataType::Bool).at(position))
    }

    /// Binds a prefix operator. A sign in front of digits is part of the number.
    pub(super) fn prefix(
        &mut self,
        operator: &tree::Operator,
        operand: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let position = self.position(operator.at);
        let inner = self.bind(operand, scope)?;
        let data_type = inner.column_type.data_type;
        let symbol = operator.symbol.as_str();
        let missing = || {
            Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: {symbol} {data_type}"),
            )
            .with_hint("No operator matches the given name and argument type. You might need to add an explicit type cast.")
            .at(position)
        };
        match symbol {
            "+" if data_type == DataType::Unknown => {
                let cast = self.cast(inner, DataType::Float8.into(), CastContext::Implicit)?;
                Ok(cast.at(position))
            }
            "-" if data_type == DataType::Unknown => Err(Error::new(
                SqlState::AMBIGUOUS_FUNCTION,
                format!("operator is not unique: {symbol} unknown"),
            )
            .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
            .at(position)),
            // A time becomes an interval.
            "-" if matches!(data_type, DataType::Interval | DataType::Time) => {
                self.call_with("interval_um", vec![inner], position)
            }
            "-" | "+" if !data_type.is_number() => Err(missing()),
            "-" => Ok(
                Bound::new(Expression::Negate(Box::new(inner.expression)), data_type).at(position),
            ),
            "+" => Ok(inner.at(position)),
            "@" => self.call_with("abs", vec![inner], position),
            "|/" => self.call_with("sqrt", vec![inner], position),
            "~" => {
                let ones = match data_type {
                    DataType::Int2 => Value::Int2(-1),
                    DataType::Int4 => Value::Int4(-1),
                    DataType::Int8 => Value::Int8(-1),
                    _ => return Err(missing()),
                };
                Ok(Bound::new(
                    Expression::Arithmetic(
                        ArithmeticOperator::BitXor,
                        Box::new([inner.expression, Expression::Constant(ones)]),
                    ),
                    data_type,
                )
                .at(position))
            }
            _ => Err(
                Error::unsupported(format_args!("the operator {}", shown(operator))).at(position),
            ),
        }
    }

    /// Binds operators of one precedence, from the left, with a loop instead of recursion.
    pub(super) fn operators(
        &mut self,
        first: &Expr,
        rest: &[(tree::Operator, Expr)],
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        if let (ExprKind::Row(left), [(operator, right)]) = (&first.kind, rest)
            && let ExprKind::Row(right) = &right.kind
            && let Some(Operation::Compare(comparison)) = operation(operator)
        {
            let position = self.position(operator.at);
            return self
                .compare_rows(comparison, &left.fields, &right.fields, scope)
                .map_err(|error| error.at(position));
        }
        let mut left = self.below(rest.len() - 1, |binder| binder.bind(first, scope))?;
        for (number, (operator, right)) in rest.iter().enumerate() {
            let levels = rest.len() - 1 - number;
            let right = self.below(levels, |binder| binder.bind(right, scope))?;
            left = self.apply(operator, left, right)?;
        }
        Ok(left)
    }

    fn apply(&mut self, operator: &tree::Operator, left: Bound, right: Bound) -> Result<Bound> {
        let position = left.position;
        // An error about the operator shows the operator.
        let place = self.position(operator.at);
        let (from_left, from_right) = (left.column_type.data_type, right.column_type.data_type);
        if let Some(function) = json::operator_function(operator, from_left, from_right) {
            let bound = self.operator_call(function, left, right, place)?;
            return Ok(Bound {
                position: position.or(place),
                ..bound
            });
        }
        let bound = match operation(operator) {
            Some(Operation::Compare(comparison)) => self.compare(comparison, left, right, place),
            Some(Operation::Arithmetic(operator)) => self.arithmetic(operator, left, right, place),
            Some(Operation::Concatenate) => self.concatenate(left, right, place),
            Some(Operation::Regex {
                ignore_case,
                negated,
            }) => {
                let operands = self.two_strings(&operator.symbol, left, right, place)?;
                let matched = Expression::Regex(operands, Arc::new(RegexPattern::new(ignore_case)));
                Ok(negate_if(Bound::new(matched, DataType::Bool), negated))
            }
            Some(Operation::Like {
                ignore_case,
                negated,
            }) => {
                let operands = self.two_strings(&operator.symbol, left, right, place)?;
                let pattern = LikePattern {
                    ignore_case,
                    escape: Some('\\'),
                };
                let matched = Expression::Like(operands, Arc::new(pattern));
                Ok(negate_if(Bound::new(matched, DataType::Bool), negated))
            }
            Some(Operation::StartsWith) => self.call_with("starts_with", vec![left, right], place),
            None => {
                let name = shown(operator);
                if let Some(error) = json::misused(&name, from_left, from_right) {
                    return Err(error.at(place));
                }
                Err(Error::unsupported(format_args!("the operator {name}")).at(place))
            }
        }?;
        Ok(Bound {
            position: position.or(place),
            ..bound
        })
    }

    /// Binds a chain of AND or OR to one list.
    pub(super) fn chain(&mut self, links: &[Expr], and: bool, scope: &Scope<'_>) -> Result<Bound> {
        let clause = if and { "AND" } else { "OR" };
        let mut operands = Vec::with_capacity(links.len());
        for link in links {
            operands.push(self.bind_condition(link, scope, clause)?);
        }
        let expression = if and {
            Expression::And(operands)
        } else {
            Expression::Or(operands)
        };
        Ok(Bound::new(expression, DataType::Bool))
    }

    /// Binds a comparison, after casting both operands to a common type. `place` is the
    /// operator's.
    pub(crate) fn compare(
        &mut self,
        comparison: Comparison,
        left: Bound,
        right: Bound,
        place: Option<u32>,
    ) -> Result<Bound> {
        let position = left.position.or(right.position);
        let (left, right) = self.comparable(comparison, left, right, place)?;
        Ok(Bound::new(
            Expression::Compare(comparison, Box::new([left, right])),
            DataType::Bool,
        )
        .at(position))
    }

    /// Casts two operands to the type in which they are compared.
    pub(crate) fn comparable(
        &mut self,
        comparison: Comparison,
        left: Bound,
        right: Bound,
        place: Option<u32>,
    ) -> Result<(Expression, Expression)> {
        let (from_left, from_right) = (left.column_type.data_type, right.column_type.data_type);
        let position = place.or(left.position);
        let Some(common) = comparison_type(from_left, from_right) else {
            return Err(no_operator(from_left, comparison.symbol(), from_right).at(position));
        };
        Ok((
            self.implicit(left, common)?.expression,
            self.implicit(right, common)?.expression,
        ))
    }

    pub(super) fn compare_rows(
        &mut self,
        comparison: Comparison,
        left: &[Expr],
        right: &[Expr],
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        if left.len() != right.len() {
            return Err(Error::syntax(
                "unequal number of entries in row expressions",
            ));
        }
        // An order of rows is two levels deep for each field.
        let is_flat = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let levels = if is_flat { 1 } else { 2 * left.len() };
        let pairs = self.below(levels, |binder| {
            let fields = left.iter().zip(right).map(|(left, right)| {
                let left = binder.bind(left, scope)?;
                let right = binder.bind(right, scope)?;
                binder.comparable(comparison, left, right, None)
            });
            fields.collect::<Result<Vec<_>>>()
        })?;
        let compare = |comparison, (left, right): &(Expression, Expression)| {
            Expression::Compare(comparison, Box::new([left.clone(), right.clone()]))
        };
        let expression = match comparison {
            Comparison::Equal => {
                Expression::And(pairs.iter().map(|pair| compare(comparison, pair)).collect())
            }
            Comparison::NotEqual => {
                Expression::Or(pairs.iter().map(|pair| compare(comparison, pair)).collect())
            }
            _ => {
                // a < x or a = x and (b < y or b = y and …)
                let strict = match comparison {
                    Comparison::LessOrEqual => Comparison::Less,
                    Comparison::GreaterOrEqual => Comparison::Greater,
                    same => same,
                };
                let mut rest: Option<Expression> = None;
                for pair in pairs.iter().rev() {
                    rest = Some(match rest {
                        None => compare(comparison, pair),
                        Some(rest) => Expression::Or(vec![
                            compare(strict, pair),
                            Expression::And(vec![compare(Comparison::Equal, pair), rest]),
                        ]),
                    });
                }
                rest.unwrap_or(Expression::NULL)
            }
        };
        Ok(Bound::new(expression, DataType::Bool))
    }

    fn arithmetic(
        &mut self,
        operator: ArithmeticOperator,
        left: Bound,
        right: Bound,
        position: Option<u32>,
    ) -> Result<Bound> {
        use ArithmeticOperator as A;
        use DataType as T;
        let of_time = |bound: &Bound| bound.column_type.data_type.is_moment();
        let (left, right) = if of_time(&left) || of_time(&right) {
            match self.time_arithmetic(operator, left, right, position)? {
                TimeArithmetic::Bound(bound) => return Ok(bound),
                TimeArithmetic::OfDates(operands) => {
                    let [left, right] = *operands;
                    (left, right)
                }
            }
        } else {
            (left, right)
        };
        let (mut from_left, mut from_right) =
            (left.column_type.data_type, right.column_type.data_type);
        // A literal takes the type of the other operand, except next to a date, where
        // it is a number of days if that is added.
        if from_left == T::Unknown && from_right == T::Unknown {
            return Err(Error::new(
                SqlState::AMBIGUOUS_FUNCTION,
                format!("operator is not unique: unknown {} unknown", operator.symbol()),
            )
            .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
            .at(position));
        }
        let beside = |other: T| match (operator, other) {
            (A::Add, T::Date) => T::Int4,
            (A::ShiftLeft | A::ShiftRight, _) => T::Int4,
            (_, other) => other,
        };
        if from_left == T::Unknown {
            from_left = beside(from_right);
        }
        if from_right == T::Unknown {
            from_right = beside(from_left);
        }
        let missing = || no_operator(from_left, operator.symbol(), from_right).at(position);
        let integer = |data_type| matches!(data_type, T::Int2 | T::Int4 | T::Int8);
        let (to_left, to_right, result) = match operator {
            A::ShiftLeft | A::ShiftRight if integer(from_left) && integer(from_right) => {
                (from_left, T::Int4, from_left)
            }
            A::Add if from_left == T::Date && integer(from_right) => (T::Date, T::Int4, T::Date),
            A::Add if integer(from_left) && from_right == T::Date => (T::Int4, T::Date, T::Date),
            A::Subtract if from_left == T::Date && integer(from_right) => {
                (T::Date, T::Int4, T::Date)
            }
            A::Subtract if from_left == T::Date && from_right == T::Date => {
                (T::Date, T::Date, T::Int4)
            }
            A::BitAnd | A::BitOr | A::BitXor if integer(from_left) && integer(from_right) => {
                let wide = widest(from_left, from_right);
                (wide, wide, wide)
            }
            A::Power if from_left.is_number() && from_right.is_number() => {
                return self.call_with("power", vec![left, right], position);
            }
            A::Add | A::Subtract | A::Multiply | A::Divide | A::Modulo
                if from_left.is_number() && from_right.is_number() =>
            {
                let wide = widest(from_left, from_right);
                let floats = matches!(wide, T::Float4 | T::Float8);
                if operator == A::Modulo && floats {
                    return Err(missing());
                }
                (wide, wide, wide)
            }
            _ => return Err(missing()),
        };
        // An assignment cast, because a day count may be a bigint, which is wider than
        // the operator's integer.
        let context = CastContext::Assignment;
        let left = self.cast(left, to_left.into(), context)?.expression;
        let right = self.cast(right, to_right.into(), context)?.expression;
        Ok(Bound::new(
            Expression::Arithmetic(operator, Box::new([left, right])),
            result,
        )
        .at(position))
    }

    fn concatenate(&mut self, left: Bound, right: Bound, position: Option<u32>) -> Result<Bound> {
        let (from_left, from_right) = (left.column_type.data_type, right.column_type.data_type);
        let array = from_left
            .element()
            .and(Some(from_left))
            .or(from_right.element().and(Some(from_right)));
        if let Some(array) = array
            && let Some(element) = array.element()
        {
            let side = |binder: &mut Self, bound: Bound| {
                let data_type = bound.column_type.data_type;
                let to = if data_type.element().is_some() || data_type == DataType::Unknown {
                    array
                } else {
                    element
                };
                binder.implicit(bound, to)
            };
            let left = side(self, left)?.expression;
            let right = side(self, right)?.expression;
            return Ok(Bound::new(
                Expression::Arithmetic(ArithmeticOperator::Append, Box::new([left, right])),
                array,
            )
            .at(position));
        }
        let a_string =
            |data_type: DataType| data_type.is_string() || data_type == DataType::Unknown;
        if !a_string(from_left) && !a_string(from_right) {
            return Err(no_operator(from_left, "||", from_right).at(position));
        }
        // The other operand may have any type that can be printed as text.
        let left = self.cast(left, DataType::Text.into(), CastContext::Assignment)?;
        let right = self.cast(right, DataType::Text.into(), CastContext::Assignment)?;
        Ok(Bound::new(
            Expression::Arithmetic(
                ArithmeticOperator::Concatenate,
                Box::new([left.expression, right.expression]),
            ),
            DataType::Text,
        )
        .at(position))
    }

    pub(super) fn two_strings(
        &mut self,
        symbol: &str,
        left: Bound,
        right: Bound,
        place: Option<u32>,
    ) -> Result<Box<[Expression; 2]>> {
        let (from_left, from_right) = (left.column_type.data_type, right.column_type.data_type);
        let a_string =
            |data_type| castable(data_type, DataType::Text) == Some(CastContext::Implicit);
        if !a_string(from_left) || !a_string(from_right) {
            return Err(no_operator(from_left, symbol, from_right).at(place.or(left.position)));
        }
        let left = self.padded(left)?;
        Ok(Box::new([
            self.implicit(left, DataType::Text)?.expression,
            self.implicit(right, DataType::Text)?.expression,
        ]))
    }

    /// Converts a `char(n)` to text with its trailing blanks, which only patterns and
    /// `octet_length` see. Other values stay unchanged.
    pub(super) fn padded(&mut self, bound: Bound) -> Result<Bound> {
        let column_type = bound.column_type;
        let length = match column_type.data_type {
            DataType::Char => column_type.length(),
            _ => None,
        };
        let Some(length) = length.and_then(|length| i32::try_from(length).ok()) else {
            return Ok(bound);
        };
        let position = bound.position;
        let length = Bound::new(Expression::Constant(Value::Int4(length)), DataType::Int4);
        self.call_with("rpad", vec![bound, length], position)
    }

    /// The comparison of ANY or ALL; an error that names the operator for any other.
    pub(super) fn comparison(
        comparison: &tree::Comparison,
        position: Option<u32>,
    ) -> Result<Comparison> {
        let name = match comparison {
            tree::Comparison::Operator(operator) => match operation(operator) {
                Some(Operation::Compare(comparison)) => return Ok(comparison),
                _ => format!("the operator {}", shown(operator)),
            },
            tree::Comparison::Like(LikeKind::Like, false) => "LIKE".to_owned(),
            tree::Comparison::Like(LikeKind::Like, true) => "NOT LIKE".to_owned(),
            tree::Comparison::Like(LikeKind::Ilike, false) => "ILIKE".to_owned(),
            tree::Comparison::Like(LikeKind::Ilike, true) => "NOT ILIKE".to_owned(),
            tree::Comparison::Like(LikeKind::SimilarTo, _) => "SIMILAR TO".to_owned(),
        };
        Err(Error::unsupported(format_args!("{name} with ANY or ALL")).at(position))
    }
}

/// The wider of two numeric types.
fn widest(left: DataType, right: DataType) -> DataType {
    if left == right {
        return left;
    }
    match left.number().max(right.number()) {
        // A `real` combined with any other numeric type widens to double precision.
        Some(NumberType::Float4 | NumberType::Float8) => DataType::Float8,
        Some(NumberType::Numeric) => DataType::Numeric,
        Some(NumberType::Int8) => DataType::Int8,
        Some(NumberType::Int4) => DataType::Int4,
        Some(NumberType::Int2) | None => DataType::Int2,
    }
}

/// The type that the operator `=` for the two types takes on its left. Integers, floats
/// and moments have operators for each pair of their types, names have one with text; the
/// others are compared in one type.
pub(super) fn left_operand_type(left: DataType, right: DataType) -> Option<DataType> {
    use DataType as T;
    use NumberType as N;
    let pairs = match (left.number(), right.number()) {
        (Some(N::Int2 | N::Int4 | N::Int8), Some(N::Int2 | N::Int4 | N::Int8))
        | (Some(N::Float4 | N::Float8), Some(N::Float4 | N::Float8)) => true,
        _ => {
            let moment = |each| matches!(each, T::Date | T::Timestamp | T::TimestampTz);
            moment(left) && moment(right) || (left, right) == (T::Name, T::Text)
        }
    };
    if pairs || left == right && !matches!(left, T::VarChar | T::Unknown) {
        return Some(left);
    }
    comparison_type(left, right)
}

/// The type in which values of the two types are compared.
pub(super) fn comparison_type(left: DataType, right: DataType) -> Option<DataType> {
    use DataType as T;
    if !left.is_comparable() || !right.is_comparable() {
        return None;
    }
    if left == right && left != T::Unknown {
        return Some(match left {
            T::VarChar | T::Char => T::Text,
            other => other,
        });
    }
    match (left, right) {
        (T::Unknown, T::Unknown) => Some(T::Text),
        (T::Unknown, other) | (other, T::Unknown) => Some(match other {
            T::VarChar => T::Text,
            // The comparison ignores the padding of a literal.
            other => other,
        }),
        // The comparison ignores trailing blanks of both operands.
        (T::VarChar, T::Char) | (T::Char, T::VarChar) => Some(T::Char),
        _ if left.is_number() && right.is_number() => Some(widest(left, right)),
        // Both cast to text, and neither to the other without being told to.
        (T::InternalChar, other) | (other, T::InternalChar) if other.is_string() => Some(T::Text),
        (T::Xid, T::Int2 | T::Int4) | (T::Int2 | T::Int4, T::Xid) => Some(T::Oid),
        // Objects of two kinds are compared by their numbers.
        _ if left.object().is_some() && right.object().is_some() => Some(T::Oid),
        _ => comparable_type(&[left, right]),
    }
}
