//! Powers, exponentials and logarithms of decimals, with PostgreSQL's number of digits.
//!
//! They are computed in integers, as multiples of 10^-digits, with some digits more than the
//! result shows, and rounded once. How many it shows follows PostgreSQL's estimates of the
//! result's size.

use num_bigint::{BigInt, Sign};

use super::{Decimal, Numeric, divide_rounded, is_zero, overflow, power_of_ten};
use crate::{Error, Result, SqlState};

/// Maximum number of digits after the decimal point of these results.
const MAX_SHOWN: i64 = 1000;
/// Minimum number of significant digits.
const MIN_SIGNIFICANT: i64 = 16;
/// Numbers whose exponential has more digits than PostgreSQL permits.
const LARGEST_EXPONENT: f64 = 6000.0;
/// Digits that are computed and not shown.
const GUARD: u32 = 10;
/// log10(e)
const LOG10_E: f64 = std::f64::consts::LOG10_E;

/// Number of digits after the decimal point of a result of that size, of operands with so
/// many.
fn shown(weight: i64, scales: &[u32]) -> u32 {
    let own = scales.iter().copied().map(i64::from).max().unwrap_or(0);
    (MIN_SIGNIFICANT - weight).max(own).clamp(0, MAX_SHOWN) as u32
}

/// A decimal as a multiple of 10^-digits.
fn fixed(decimal: &Decimal, digits: u32) -> BigInt {
    if decimal.scale <= digits {
        &decimal.unscaled * power_of_ten(digits - decimal.scale)
    } else {
        let excess = power_of_ten(decimal.scale - digits);
        divide_rounded(&decimal.unscaled, &excess)
    }
}

/// `e^x` of a number and as a multiple of 10^-digits; `size` is about `|x|`.
fn exponential(number: &BigInt, size: f64, digits: u32) -> BigInt {
    let weight = (size * LOG10_E).ceil() as u32 + 1;
    // Halved often enough, few terms of the series are left; each squaring loses a bit.
    let halvings = (size.max(1.0).log2().ceil() as u32) + 8;
    let inner = digits + weight + halvings / 3 + GUARD;
    let one = power_of_ten(inner);
    let number = (number * power_of_ten(inner - digits)) >> halvings;
    let mut sum = one.clone();
    let mut term = one.clone();
    let mut place = 1_u32;
    loop {
        term = &term * &number / &one / place;
        if is_zero(&term) {
            break;
        }
        sum += &term;
        place += 1;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    divide_rounded(&sum, &power_of_ten(inner - digits))
}

/// `ln(x)` of a positive decimal, as a multiple of 10^-digits.
fn logarithm(decimal: &Decimal, digits: u32) -> BigInt {
    // x is m × 10^exponent, with m from 1 to 10.
    let exponent = decimal.exponent();
    let places = exponent.unsigned_abs().max(1).ilog10() + 1;
    let inner = digits + GUARD + places;
    let scale = i64::from(decimal.scale) + exponent;
    let mantissa = match u32::try_from(scale) {
        Ok(scale) => fixed(&Decimal::new(decimal.unscaled.clone(), scale), inner),
        Err(_) => &decimal.unscaled * power_of_ten(inner + scale.unsigned_abs() as u32),
    };
    let mut sum = logarithm_of_mantissa(&mantissa, inner);
    if exponent != 0 {
        let ten = power_of_ten(inner) * 10;
        sum += logarithm_of_mantissa(&ten, inner) * exponent;
    }
    divide_rounded(&sum, &power_of_ten(inner - digits))
}

/// `ln(m)` of a number from 1 to 10, both as multiples of 10^-digits.
fn logarithm_of_mantissa(mantissa: &BigInt, digits: u32) -> BigInt {
    /// Each root halves the logarithm.
    const ROOTS: u32 = 8;
    let inner = digits + GUARD;
    let one = power_of_ten(inner);
    let mut number = mantissa * power_of_ten(inner - digits);
    for _ in 0..ROOTS {
        number = (number * &one).sqrt();
    }
    // ln(m) = 2 artanh((m - 1) / (m + 1))
    let ratio = (&number - &one) * &one / (&number + &one);
    let square = &ratio * &ratio / &one;
    let mut sum = ratio.clone();
    let mut power = ratio;
    let mut place = 1_u32;
    loop {
        power = &power * &square / &one;
        place += 2;
        let term = &power / place;
        if is_zero(&term) {
            break;
        }
        sum += term;
    }
    divide_rounded(&(sum << (ROOTS + 1)), &power_of_ten(inner - digits))
}

/// The estimate of the decimal weight of `ln(x)` by which PostgreSQL chooses digits.
fn weight_of_logarithm(decimal: &Decimal) -> i64 {
    let one = power_of_ten(decimal.scale);
    let distance = &decimal.unscaled - &one;
    // From 0.9 to 1.1 it is about x - 1.
    if distance.magnitude() * 10_u32 <= *one.magnitude() {
        let distance = Decimal::new(distance, decimal.scale);
        let (weight, group) = distance.first_group();
        return match group {
            0 => 0,
            _ => weight * super::GROUP_DIGITS + i64::from(group.ilog10()),
        };
    }
    // By the first two groups of four digits.
    let (weight, _) = decimal.first_group();
    let shift = (weight - 1) * super::GROUP_DIGITS;
    let leading = Decimal::new(decimal.unscaled.clone(), decimal.scale);
    let digits = match u32::try_from(shift) {
        Ok(shift) => &leading.unscaled / power_of_ten(leading.scale + shift),
        Err(_) => {
            let up = shift.unsigned_abs() as u32;
            match leading.scale.checked_sub(up) {
                Some(scale) => &leading.unscaled / power_of_ten(scale),
                None => &leading.unscaled * power_of_ten(up - leading.scale),
            }
        }
    };
    let digits = u64::try_from(&digits).unwrap_or(1).max(1) as f64;
    let logarithm = digits.ln() + shift as f64 * std::f64::consts::LN_10;
    logarithm.abs().log10() as i64
}

fn complex() -> Error {
    Error::new(
        SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
        "a negative number raised to a non-integer power yields a complex result",
    )
}

/// Logarithms are of positive numbers.
fn require_positive(number: &Numeric) -> Result<()> {
    let message = match number.signum() {
        1 => return Ok(()),
        0 => "cannot take logarithm of zero",
        _ => "cannot take logarithm of a negative number",
    };
    Err(Error::new(
        SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
        message,
    ))
}

impl Numeric {
    fn is_integral(&self) -> bool {
        match self {
            Self::Finite(decimal) => is_zero(&(&decimal.unscaled % power_of_ten(decimal.scale))),
            Self::NegativeInfinity | Self::Infinity => true,
            Self::NaN => false,
        }
    }

    /// The exponential function.
    pub fn exponential(&self) -> Result<Self> {
        let decimal = match self {
            Self::Finite(decimal) => decimal,
            Self::NegativeInfinity => return Ok(Self::from(0)),
            Self::Infinity | Self::NaN => return Ok(self.clone()),
        };
        let size = self.to_f64();
        let weight = (size * LOG10_E).clamp(-2000.0, 2000.0) as i64;
        let scale = shown(weight, &[decimal.scale]);
        exponential_at(decimal, size, scale).map(Self::Finite)
    }

    /// The natural logarithm.
    pub fn natural_logarithm(&self) -> Result<Self> {
        require_positive(self)?;
        let Self::Finite(decimal) = self else {
            return Ok(self.clone());
        };
        let scale = shown(weight_of_logarithm(decimal), &[decimal.scale]);
        let digits = scale + GUARD;
        let result = Decimal::new(logarithm(decimal, digits), digits);
        Ok(Self::Finite(result.round(i64::from(scale))))
    }

    /// The logarithm to a base.
    pub fn logarithm(&self, base: &Self) -> Result<Self> {
        if matches!(self, Self::NaN) || matches!(base, Self::NaN) {
            return Ok(Self::NaN);
        }
        require_positive(base)?;
        require_positive(self)?;
        let (number, base) = match (self, base) {
            (Self::Finite(number), Self::Finite(base)) => (number, base),
            // The quotient of the logarithms.
            (Self::Finite(_), _) => return Ok(Self::from(0)),
            (_, Self::Finite(_)) => return Ok(Self::Infinity),
            _ => return Ok(Self::NaN),
        };
        let weights = (weight_of_logarithm(base), weight_of_logarithm(number));
        let scale = shown(weights.1 - weights.0, &[base.scale, number.scale]);
        let digits =
            (i64::from(scale) + (weights.1 - weights.0).max(0) - weights.0.min(0)) as u32 + GUARD;
        let of_base = logarithm(base, digits);
        if is_zero(&of_base) {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        let of_number = logarithm(number, digits) * power_of_ten(scale);
        let (of_number, of_base) = match of_base.sign() {
            Sign::Minus => (-of_number, -of_base),
            Sign::NoSign | Sign::Plus => (of_number, of_base),
        };
        Ok(Self::Finite(Decimal::new(
            divide_rounded(&of_number, &of_base),
            scale,
        )))
    }

    /// A power. `step` is called before each multiplication of long numbers.
    pub fn power(&self, exponent: &Self, step: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        if let Some(special) = self.special_power(exponent)? {
            return Ok(special);
        }
        let (Self::Finite(base), Self::Finite(power)) = (self, exponent) else {
            return Ok(Self::NaN);
        };
        if exponent.is_integral()
            && let Some(count) = exponent
                .to_i64()
                .and_then(|count| i32::try_from(count).ok())
        {
            return integer_power(base, count, step).map(Self::Finite);
        }
        if self.is_zero() {
            return Ok(Self::Finite(Decimal::new(
                BigInt::ZERO,
                MIN_SIGNIFICANT as u32,
            )));
        }
        let is_odd = power.truncate(0).unscaled.bit(0);
        let is_negative = self.signum() < 0 && is_odd;
        let base = match self.signum() {
            ..0 => Decimal::new(-&base.unscaled, base.scale),
            _ => base.clone(),
        };
        let weight = weight_of_logarithm(&base);
        // As roughly as PostgreSQL estimates it.
        let rough = (8 - weight).max(0) as u32;
        let product = Self::Finite(Decimal::new(logarithm(&base, rough), rough));
        let size = product.multiply(exponent)?.round(i64::from(rough)).to_f64();
        if size.abs() > LARGEST_EXPONENT + 20.0 {
            if size > 0.0 {
                return Err(overflow());
            }
            return Ok(Self::Finite(Decimal::new(BigInt::ZERO, MAX_SHOWN as u32)));
        }
        let of_result = (size * LOG10_E) as i64;
        let scale = shown(of_result, &[base.scale, power.scale]);
        let significant = (i64::from(scale) + of_result).max(0);
        let digits =
            (significant - weight + 8).max(0) as u32 + power.exponent().max(0) as u32 + GUARD;
        step()?;
        let logarithm = Self::Finite(Decimal::new(logarithm(&base, digits), digits));
        let Self::Finite(product) = logarithm.multiply(exponent)? else {
            return Ok(Self::NaN);
        };
        step()?;
        let result = Self::Finite(exponential_at(&product, size, scale)?);
        Ok(match is_negative {
            true => result.negate(),
            false => result,
        })
    }

    /// The powers that have rules of their own: those of zero, of infinities and of NaN.
    fn special_power(&self, exponent: &Self) -> Result<Option<Self>> {
        let (one, zero) = (Self::from(1), Self::from(0));
        if matches!(self, Self::NaN) || matches!(exponent, Self::NaN) {
            let is_one = exponent.is_zero() || *self == one;
            return Ok(Some(if is_one { one } else { Self::NaN }));
        }
        let (base_sign, sign) = (self.signum(), exponent.signum());
        if base_sign == 0 && sign < 0 {
            return Err(Error::new(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined",
            ));
        }
        if base_sign < 0 && !exponent.is_integral() {
            return Err(complex());
        }
        let is_infinite = |number: &Self| number.parts().is_none();
        if !is_infinite(self) && !is_infinite(exponent) {
            return Ok(None);
        }
        if *self == one || sign == 0 {
            return Ok(Some(one));
        }
        if base_sign == 0 {
            return Ok(Some(zero));
        }
        if is_infinite(exponent) {
            if *self == one.negate() {
                return Ok(Some(one));
            }
            let grows = self.abs() > one;
            return Ok(Some(if grows == (sign > 0) {
                Self::Infinity
            } else {
                zero
            }));
        }
        if sign < 0 {
            return Ok(Some(zero));
        }
        let is_odd = match exponent {
            Self::Finite(power) => power.truncate(0).unscaled.bit(0),
            Self::NegativeInfinity | Self::Infinity | Self::NaN => false,
        };
        Ok(Some(if base_sign < 0 && is_odd {
            Self::NegativeInfinity
        } else {
            Self::Infinity
        }))
    }
}

/// `e^x`, rounded to a scale; `size` is about x.
fn exponential_at(number: &Decimal, size: f64, scale: u32) -> Result<Decimal> {
    if size.abs() >= LARGEST_EXPONENT {
        if size > 0.0 {
            return Err(overflow());
        }
        return Ok(Decimal::new(BigInt::ZERO, scale));
    }
    let digits = scale + GUARD + (size.max(0.0) * LOG10_E) as u32;
    let result = exponential(&fixed(number, digits), size.abs(), digits);
    Ok(Decimal::new(result, digits).round(i64::from(scale)))
}

/// A power by repeated squaring, with as many digits as PostgreSQL shows: 16 after the
/// decimal point, and no fewer than the base has.
fn integer_power(
    base: &Decimal,
    count: i32,
    step: &mut dyn FnMut() -> Result<()>,
) -> Result<Decimal> {
    let scale = i64::from(base.scale).clamp(MIN_SIGNIFICANT, MAX_SHOWN) as u32;
    let number = Numeric::Finite(base.clone());
    let rounded = |result: Numeric| match result.round(i64::from(scale)) {
        Numeric::Finite(decimal) => Ok(decimal),
        Numeric::NegativeInfinity | Numeric::Infinity | Numeric::NaN => Err(overflow()),
    };
    if count == 0 {
        return Ok(Decimal::new(power_of_ten(scale), scale));
    }
    if is_zero(&base.unscaled) {
        return Ok(Decimal::new(BigInt::ZERO, scale));
    }
    // About the decimal logarithm of the result.
    let exponent = base.exponent();
    let leading = base.unscaled.magnitude();
    let excess = super::decimal_digits(leading).saturating_sub(16).max(0) as u32;
    let leading = u64::try_from(leading / power_of_ten(excess).magnitude()).unwrap_or(1) as f64;
    let fraction = leading.log10() - leading.log10().floor();
    let size = f64::from(count) * (exponent as f64 + fraction);
    if size > f64::from(3 * i32::from(i16::MAX)) * 4.0 {
        return Err(overflow());
    }
    if size + 1.0 < -f64::from(scale) || size + 1.0 < -(MAX_SHOWN as f64) {
        return Ok(Decimal::new(BigInt::ZERO, scale));
    }
    let significant = 1 + i64::from(scale) + size as i64;
    let significant = significant + f64::from(count).abs().ln() as i64 + 8;
    // Digits that cannot show in the result are dropped on the way.
    let shorten = |number: Numeric| match &number {
        Numeric::Finite(decimal) => {
            let scale = (significant - decimal.exponent()).max(0);
            match scale < i64::from(decimal.scale) {
                true => number.round(scale),
                false => number,
            }
        }
        Numeric::NegativeInfinity | Numeric::Infinity | Numeric::NaN => number,
    };
    let mut left = count.unsigned_abs();
    let mut square = number;
    let mut result = Numeric::from(1);
    loop {
        step()?;
        if left & 1 == 1 {
            result = shorten(result.multiply(&square)?);
        }
        left >>= 1;
        if left == 0 {
            break;
        }
        square = shorten(square.multiply(&square)?);
    }
    if count > 0 {
        return rounded(result);
    }
    // One divided by the result, rounded once.
    let Numeric::Finite(result) = result else {
        return Err(overflow());
    };
    let numerator = power_of_ten(result.scale) * power_of_ten(scale);
    let (numerator, divisor) = match result.unscaled.sign() {
        Sign::Minus => (-numerator, -result.unscaled),
        Sign::NoSign | Sign::Plus => (numerator, result.unscaled),
    };
    Ok(Decimal::new(divide_rounded(&numerator, &divisor), scale))
}
