//! Built-in SQL functions on numbers.

use super::kinds::{FLOAT4, FLOAT8, INT2, INT4, INT8, NUMERIC};
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function, Place};
use crate::expression::operator::{ArithmeticOperator, arithmetic, negate, out_of_range, power};
use crate::value::{Numeric, Value};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abs", &[INT2], INT2, abs),
    Function::new("abs", &[INT4], INT4, abs),
    Function::new("abs", &[INT8], INT8, abs),
    Function::new("abs", &[NUMERIC], NUMERIC, abs),
    Function::new("abs", &[FLOAT4], FLOAT4, abs),
    Function::new("abs", &[FLOAT8], FLOAT8, abs),
    Function::new("round", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).round_ties_even()))
    }),
    Function::new("round", &[NUMERIC], NUMERIC, |a, _| {
        on_numeric(a, |n| n.round(0))
    }),
    Function::new("round", &[NUMERIC, INT4], NUMERIC, |a, _| {
        let scale = a.integer(1);
        on_numeric(a, |n| n.round(scale))
    }),
    Function::new("trunc", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).trunc()))
    }),
    Function::new("trunc", &[NUMERIC], NUMERIC, |a, _| {
        on_numeric(a, |n| n.truncate(0))
    }),
    Function::new("trunc", &[NUMERIC, INT4], NUMERIC, |a, _| {
        let scale = a.integer(1);
        on_numeric(a, |n| n.truncate(scale))
    }),
    Function::new("ceil", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).ceil()))
    }),
    Function::new("ceil", &[NUMERIC], NUMERIC, |a, _| {
        on_numeric(a, Numeric::ceil)
    }),
    Function::new("ceiling", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).ceil()))
    }),
    Function::new("ceiling", &[NUMERIC], NUMERIC, |a, _| {
        on_numeric(a, Numeric::ceil)
    }),
    Function::new("floor", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).floor()))
    }),
    Function::new("floor", &[NUMERIC], NUMERIC, |a, _| {
        on_numeric(a, Numeric::floor)
    }),
    Function::new("sign", &[FLOAT8], FLOAT8, |a, _| {
        let number = a.double(0);
        Ok(Value::Float8(if number == 0.0 {
            0.0
        } else {
            number.signum()
        }))
    }),
    Function::new("sign", &[NUMERIC], NUMERIC, |a, _| {
        on_numeric(a, |n| Numeric::from(n.signum()))
    }),
    Function::new("mod", &[INT2, INT2], INT2, modulo),
    Function::new("mod", &[INT4, INT4], INT4, modulo),
    Function::new("mod", &[INT8, INT8], INT8, modulo),
    Function::new("mod", &[NUMERIC, NUMERIC], NUMERIC, modulo),
    Function::new("div", &[NUMERIC, NUMERIC], NUMERIC, |a, _| {
        match (a.values.first(), a.values.get(1)) {
            (Some(Value::Numeric(left)), Some(Value::Numeric(right))) => {
                let rest = left.remainder(right)?;
                Ok(numeric(left.subtract(&rest)?.divide(right)?.round(0)))
            }
            _ => Ok(Value::Null),
        }
    }),
    Function::new("gcd", &[INT4, INT4], INT4, |a, _| {
        int4(gcd(a.integer(0), a.integer(1)).into())
    }),
    Function::new("gcd", &[INT8, INT8], INT8, |a, _| {
        int8(gcd(a.integer(0), a.integer(1)).into())
    }),
    Function::new("lcm", &[INT4, INT4], INT4, |a, _| {
        int4(lcm(a.integer(0), a.integer(1)))
    }),
    Function::new("lcm", &[INT8, INT8], INT8, |a, _| {
        int8(lcm(a.integer(0), a.integer(1)))
    }),
    Function::new("power", &[FLOAT8, FLOAT8], FLOAT8, float_power),
    Function::new("pow", &[FLOAT8, FLOAT8], FLOAT8, float_power),
    Function::new("power", &[NUMERIC, NUMERIC], NUMERIC, numeric_power),
    Function::new("pow", &[NUMERIC, NUMERIC], NUMERIC, numeric_power),
    Function::new("sqrt", &[FLOAT8], FLOAT8, |a, _| {
        if a.double(0) < 0.0 {
            return Err(negative_root());
        }
        Ok(Value::Float8(a.double(0).sqrt()))
    }),
    Function::new("sqrt", &[NUMERIC], NUMERIC, |a, _| match a.values.first() {
        Some(Value::Numeric(number)) => number.square_root().map(numeric).ok_or_else(negative_root),
        _ => Ok(Value::Null),
    }),
    Function::new("exp", &[NUMERIC], NUMERIC, |a, context| {
        on_long(a, context, Numeric::exponential)
    }),
    Function::new("ln", &[NUMERIC], NUMERIC, |a, context| {
        on_long(a, context, Numeric::natural_logarithm)
    }),
    Function::new("log", &[NUMERIC], NUMERIC, |a, context| {
        on_long(a, context, |number| number.logarithm(&Numeric::from(10)))
    }),
    Function::new("log10", &[NUMERIC], NUMERIC, |a, context| {
        on_long(a, context, |number| number.logarithm(&Numeric::from(10)))
    }),
    Function::new("log", &[NUMERIC, NUMERIC], NUMERIC, |a, context| {
        let (Some(Value::Numeric(base)), Some(Value::Numeric(number))) =
            (a.values.first(), a.values.get(1))
        else {
            return Ok(Value::Null);
        };
        context.work(NUMERIC_STEP)?;
        number.logarithm(base).map(numeric)
    }),
    Function::new("exp", &[FLOAT8], FLOAT8, |a, _| {
        finite(a.double(0), a.double(0).exp())
    }),
    Function::new("ln", &[FLOAT8], FLOAT8, |a, _| {
        logarithm(a.double(0)).map(|n| Value::Float8(n.ln()))
    }),
    Function::new("log", &[FLOAT8], FLOAT8, |a, _| {
        logarithm(a.double(0)).map(|n| Value::Float8(n.log10()))
    }),
    Function::new("log10", &[FLOAT8], FLOAT8, |a, _| {
        logarithm(a.double(0)).map(|n| Value::Float8(n.log10()))
    }),
    Function::new("sin", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).sin()))
    }),
    Function::new("cos", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).cos()))
    }),
    Function::new("tan", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).tan()))
    }),
    Function::new("atan", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).atan()))
    }),
    Function::new("atan2", &[FLOAT8, FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).atan2(a.double(1))))
    }),
    Function::new("degrees", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).to_degrees()))
    }),
    Function::new("radians", &[FLOAT8], FLOAT8, |a, _| {
        Ok(Value::Float8(a.double(0).to_radians()))
    }),
    Function::new("pi", &[], FLOAT8, |_, _| {
        Ok(Value::Float8(std::f64::consts::PI))
    }),
    Function::new("random", &[], FLOAT8, |_, _| {
        // 53 random bits over 2^53: uniform over the multiples of 2^-53 in [0, 1).
        let bits = coeval_env::random_u64() >> 11;
        Ok(Value::Float8(bits as f64 / (1_u64 << 53) as f64))
    })
    .volatile(Place::Anywhere),
];

fn numeric(number: Numeric) -> Value {
    Value::Numeric(Box::new(number))
}

fn on_numeric(a: Arguments<'_>, change: impl FnOnce(&Numeric) -> Numeric) -> Result<Value> {
    Ok(match a.values.first() {
        Some(Value::Numeric(number)) => numeric(change(number)),
        _ => Value::Null,
    })
}

fn on_long(
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
    compute: impl FnOnce(&Numeric) -> Result<Numeric>,
) -> Result<Value> {
    context.work(NUMERIC_STEP)?;
    match a.values.first() {
        Some(Value::Numeric(number)) => compute(number).map(numeric),
        _ => Ok(Value::Null),
    }
}

fn abs(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    let value = a.values.first().cloned().unwrap_or_default();
    let negative = match &value {
        Value::Int2(number) => *number < 0,
        Value::Int4(number) => *number < 0,
        Value::Int8(number) => *number < 0,
        Value::Float4(number) => number.is_sign_negative(),
        Value::Float8(number) => number.is_sign_negative(),
        Value::Numeric(number) => number.signum() < 0,
        _ => false,
    };
    if negative { negate(&value) } else { Ok(value) }
}

/// Greatest common divisor; too large for the arguments' type only if both are its
/// smallest number, or one is and the other is 0.
const fn gcd(left: i64, right: i64) -> u64 {
    let (mut left, mut right) = (left.unsigned_abs(), right.unsigned_abs());
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// Least common multiple; 0 if an argument is.
fn lcm(left: i64, right: i64) -> u128 {
    if left == 0 || right == 0 {
        return 0;
    }
    u128::from(left.unsigned_abs() / gcd(left, right)) * u128::from(right.unsigned_abs())
}

fn int4(number: u128) -> Result<Value> {
    i32::try_from(number)
        .map(Value::Int4)
        .map_err(|_| out_of_range("integer"))
}

fn int8(number: u128) -> Result<Value> {
    i64::try_from(number)
        .map(Value::Int8)
        .map_err(|_| out_of_range("bigint"))
}

fn modulo(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    match a.values {
        [left, right] => arithmetic(ArithmeticOperator::Modulo, left, right),
        _ => Ok(Value::Null),
    }
}

fn finite(input: f64, result: f64) -> Result<Value> {
    if result.is_infinite() && input.is_finite() {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value out of range: overflow",
        ));
    }
    Ok(Value::Float8(result))
}

fn float_power(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    let (base, exponent) = (a.double(0), a.double(1));
    let result = power(base, exponent)?;
    if exponent.is_infinite() {
        return Ok(Value::Float8(result));
    }
    finite(base, result)
}

/// Work in bytes as which a multiplication counts: the largest numbers take a
/// millisecond.
const NUMERIC_STEP: usize = 64 << 10;

fn numeric_power(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let (Some(Value::Numeric(base)), Some(Value::Numeric(exponent))) =
        (a.values.first(), a.values.get(1))
    else {
        return Ok(Value::Null);
    };
    let mut step = || context.work(NUMERIC_STEP);
    base.power(exponent, &mut step).map(numeric)
}

fn negative_root() -> Error {
    Error::new(
        SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
        "cannot take square root of a negative number",
    )
}

fn logarithm(number: f64) -> Result<f64> {
    if number > 0.0 || number.is_nan() {
        return Ok(number);
    }
    Err(Error::new(
        SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
        if number == 0.0 {
            "cannot take logarithm of zero"
        } else {
            "cannot take logarithm of a negative number"
        },
    ))
}
