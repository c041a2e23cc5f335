//! Execution of arithmetic and comparison operators on values.
//!
//! The binder has cast both operands to compatible types, so incompatible operands are
//! a bug and reported as an internal error.

use std::cmp::Ordering;

use crate::value::{Numeric, calendar};
use crate::{Error, Result, SqlState, Value};

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// The operator's symbol in SQL.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// The comparison that gives the same result with its operands swapped.
    #[must_use]
    pub const fn swapped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }

    /// Whether the comparison is true for values that compare as `order`.
    #[must_use]
    pub fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }

    /// Whether the comparison is true; `None` if one of the values is null.
    #[must_use]
    pub fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        if left.is_null() || right.is_null() {
            return None;
        }
        Some(self.accepts(left.order(right)))
    }
}

/// A binary operator that computes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `^`
    Power,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `#`
    BitXor,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `||` of strings
    Concatenate,
    /// `||` of arrays and elements
    Append,
}

impl ArithmeticOperator {
    /// The operator's symbol in SQL.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Power => "^",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "#",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::Concatenate | Self::Append => "||",
        }
    }
}

pub(super) fn out_of_range(type_name: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("{type_name} out of range"),
    )
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

macro_rules! integer_arithmetic {
    ($name:ident, $type:ty, $sql_name:literal) => {
        fn $name(operator: ArithmeticOperator, left: $type, right: $type) -> Result<$type> {
            let overflow = || out_of_range($sql_name);
            match operator {
                ArithmeticOperator::Add => left.checked_add(right).ok_or_else(overflow),
                ArithmeticOperator::Subtract => left.checked_sub(right).ok_or_else(overflow),
                ArithmeticOperator::Multiply => left.checked_mul(right).ok_or_else(overflow),
                ArithmeticOperator::Divide if right == 0 => Err(division_by_zero()),
                ArithmeticOperator::Divide => left.checked_div(right).ok_or_else(overflow),
                ArithmeticOperator::Modulo if right == 0 => Err(division_by_zero()),
                // The minimum integer divided by -1 overflows; its remainder is 0.
                ArithmeticOperator::Modulo => Ok(left.checked_rem(right).unwrap_or(0)),
                ArithmeticOperator::BitAnd => Ok(left & right),
                ArithmeticOperator::BitOr => Ok(left | right),
                ArithmeticOperator::BitXor => Ok(left ^ right),
                _ => Err(mismatch(operator)),
            }
        }
    };
}

integer_arithmetic!(int2, i16, "smallint");
integer_arithmetic!(int4, i32, "integer");
integer_arithmetic!(int8, i64, "bigint");

fn mismatch(operator: ArithmeticOperator) -> Error {
    Error::internal(format!("operands that do not fit {}", operator.symbol()))
}

fn float8(operator: ArithmeticOperator, left: f64, right: f64) -> Result<f64> {
    let result = match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide if right == 0.0 && !left.is_nan() => {
            return Err(division_by_zero());
        }
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Power => power(left, right)?,
        _ => return Err(mismatch(operator)),
    };
    if result.is_infinite() && left.is_finite() && right.is_finite() {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range: overflow",
        ));
    }
    let may_vanish = matches!(
        operator,
        ArithmeticOperator::Multiply | ArithmeticOperator::Divide
    );
    if may_vanish && result == 0.0 && left != 0.0 && right != 0.0 && right.is_finite() {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range: underflow",
        ));
    }
    Ok(result)
}

/// Power of doubles, with the errors that SQL defines.
pub(super) fn power(base: f64, exponent: f64) -> Result<f64> {
    if base == 0.0 && exponent < 0.0 {
        return Err(Error::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "zero raised to a negative power is undefined",
        ));
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(Error::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    Ok(base.powf(exponent))
}

fn numeric(operator: ArithmeticOperator, left: &Numeric, right: &Numeric) -> Result<Numeric> {
    match operator {
        ArithmeticOperator::Add => left.add(right),
        ArithmeticOperator::Subtract => left.subtract(right),
        ArithmeticOperator::Multiply => left.multiply(right),
        ArithmeticOperator::Divide => left.divide(right),
        ArithmeticOperator::Modulo => left.remainder(right),
        _ => Err(mismatch(operator)),
    }
}

fn shift(operator: ArithmeticOperator, value: i64, by: i32, bits: u32) -> i64 {
    // The shift count is taken modulo the width, as x86 processors and PostgreSQL do.
    let by = by as u32 % bits;
    if operator == ArithmeticOperator::ShiftLeft {
        value << by
    } else {
        value >> by
    }
}

fn date(days: i32, by: i64) -> Result<Value> {
    if days == i32::MIN || days == i32::MAX {
        return Ok(Value::Date(days));
    }
    let days = i64::from(days) + by;
    if !(calendar::MIN_DATE..calendar::END_DATE).contains(&days) {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "date out of range",
        ));
    }
    Ok(Value::Date(days as i32))
}

/// Applies an operator to two values that are not null.
pub(super) fn arithmetic(
    operator: ArithmeticOperator,
    left: &Value,
    right: &Value,
) -> Result<Value> {
    use ArithmeticOperator as Op;
    Ok(match (operator, left, right) {
        (Op::ShiftLeft | Op::ShiftRight, Value::Int2(value), Value::Int4(by)) => {
            Value::Int2(shift(operator, i64::from(*value), *by, 32) as i16)
        }
        (Op::ShiftLeft | Op::ShiftRight, Value::Int4(value), Value::Int4(by)) => {
            Value::Int4(shift(operator, i64::from(*value), *by, 32) as i32)
        }
        (Op::ShiftLeft | Op::ShiftRight, Value::Int8(value), Value::Int4(by)) => {
            Value::Int8(shift(operator, *value, *by, 64))
        }
        (Op::Concatenate, Value::Text(left), Value::Text(right)) => {
            let mut joined = String::with_capacity(left.len() + right.len());
            joined.push_str(left);
            joined.push_str(right);
            Value::text(joined)
        }
        (Op::Append, left, right) => append(left, right),
        (_, Value::Int2(left), Value::Int2(right)) => Value::Int2(int2(operator, *left, *right)?),
        (_, Value::Int4(left), Value::Int4(right)) => Value::Int4(int4(operator, *left, *right)?),
        (_, Value::Int8(left), Value::Int8(right)) => Value::Int8(int8(operator, *left, *right)?),
        (_, Value::Float4(left), Value::Float4(right)) => {
            let (left, right) = (f64::from(*left), f64::from(*right));
            let wide = float8(operator, left, right)?;
            let narrow = wide as f32;
            if narrow.is_infinite() && wide.is_finite() {
                return Err(Error::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    "value out of range: overflow",
                ));
            }
            Value::Float4(narrow)
        }
        (_, Value::Float8(left), Value::Float8(right)) => {
            Value::Float8(float8(operator, *left, *right)?)
        }
        (_, Value::Numeric(left), Value::Numeric(right)) => {
            Value::Numeric(Box::new(numeric(operator, left, right)?))
        }
        (Op::Add, Value::Date(days), Value::Int4(by))
        | (Op::Add, Value::Int4(by), Value::Date(days)) => date(*days, i64::from(*by))?,
        (Op::Subtract, Value::Date(days), Value::Int4(by)) => date(*days, -i64::from(*by))?,
        (Op::Subtract, Value::Date(left), Value::Date(right)) => {
            if [*left, *right]
                .iter()
                .any(|days| *days == i32::MIN || *days == i32::MAX)
            {
                return Err(Error::new(
                    SqlState::DATETIME_FIELD_OVERFLOW,
                    "cannot subtract infinite dates",
                ));
            }
            Value::Int4(left - right)
        }
        _ => return Err(mismatch(operator)),
    })
}

/// Concatenates arrays, or an array and an element at its end or start.
fn append(left: &Value, right: &Value) -> Value {
    let elements = |value: &Value| match value {
        Value::Array(elements) => elements.to_vec(),
        element => vec![element.clone()],
    };
    let mut joined = elements(left);
    joined.extend(elements(right));
    Value::Array(joined.into())
}

/// Negates a number that is not null.
pub(super) fn negate(value: &Value) -> Result<Value> {
    Ok(match value {
        Value::Int2(number) => Value::Int2(
            number
                .checked_neg()
                .ok_or_else(|| out_of_range("smallint"))?,
        ),
        Value::Int4(number) => Value::Int4(
            number
                .checked_neg()
                .ok_or_else(|| out_of_range("integer"))?,
        ),
        Value::Int8(number) => {
            Value::Int8(number.checked_neg().ok_or_else(|| out_of_range("bigint"))?)
        }
        Value::Float4(number) => Value::Float4(-number),
        Value::Float8(number) => Value::Float8(-number),
        Value::Numeric(number) => Value::Numeric(Box::new(number.negate())),
        _ => return Err(Error::internal("the negative of what is no number")),
    })
}
