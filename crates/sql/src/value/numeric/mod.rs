//! Arbitrary-precision decimal numbers with a display scale: SQL's `numeric`.
//!
//! A number is `unscaled × 10^-scale`: `1.50` is 150 with scale 2 and prints with both
//! digits, although it equals `1.5`. The scale of a result follows PostgreSQL: the
//! larger scale for sums, the sum of both for products, and for quotients as many
//! digits as give at least 16 significant ones, counted in PostgreSQL's groups of four
//! digits (see [`Numeric::divide`]).
//!
//! Limits, as in PostgreSQL: 131,072 digits before the decimal point and 16,383 after
//! it.

mod arithmetic;
mod powers;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, BigUint, Sign};

use crate::{Error, Result, SqlState};

/// Maximum number of digits after the decimal point.
const MAX_SCALE: u32 = 16_383;
/// Maximum number of digits before the decimal point.
const MAX_INTEGER_DIGITS: i64 = 131_072;
/// Minimum number of significant digits of a quotient or a root.
const MIN_SIGNIFICANT_DIGITS: i64 = 16;
/// Maximum number of digits after the decimal point of a quotient or a root.
const MAX_RESULT_SCALE: i64 = 1000;
/// Number of decimal digits in one of PostgreSQL's digit groups.
const GROUP_DIGITS: i64 = 4;

/// A decimal number, an infinity, or NaN (which equals itself and sorts after all other
/// values).
#[derive(Clone, Debug)]
pub enum Numeric {
    /// Less than every number.
    NegativeInfinity,
    /// A finite number.
    Finite(Decimal),
    /// Greater than every finite number.
    Infinity,
    /// Not a number; sorts after infinity.
    NaN,
}

/// A finite decimal, `unscaled × 10^-scale`.
#[derive(Clone, Debug)]
pub struct Decimal {
    unscaled: BigInt,
    scale: u32,
}

fn power_of_ten(exponent: u32) -> BigInt {
    if exponent <= 18 {
        BigInt::from(10_u64.pow(exponent))
    } else {
        BigInt::from(10_u32).pow(exponent)
    }
}

fn is_zero(number: &BigInt) -> bool {
    number.sign() == Sign::NoSign
}

/// `number / divisor`, rounded half away from zero; `divisor` is positive.
fn divide_rounded(number: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = number / divisor;
    let remainder = number % divisor;
    if remainder.magnitude() * 2_u32 >= *divisor.magnitude() {
        match number.sign() {
            Sign::Minus => quotient - 1,
            Sign::NoSign | Sign::Plus => quotient + 1,
        }
    } else {
        quotient
    }
}

fn decimal_digits(magnitude: &BigUint) -> i64 {
    if magnitude.bits() == 0 {
        return 0;
    }
    if let Ok(small) = u64::try_from(magnitude) {
        return i64::from(small.ilog10()) + 1;
    }
    // 0.30103 > log10(2), so the estimate is at most one too large per 3.3 million
    // bits; the next lines correct it.
    let estimate = ((magnitude.bits() - 1) as f64 * std::f64::consts::LOG10_2) as u32;
    let mut digits = estimate.max(1);
    while *magnitude >= BigUint::from(10_u32).pow(digits) {
        digits += 1;
    }
    i64::from(digits)
}

fn overflow() -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value overflows numeric format",
    )
}

impl Decimal {
    /// The decimal `unscaled × 10^-scale`, without a range check.
    fn new(unscaled: BigInt, scale: u32) -> Self {
        Self { unscaled, scale }
    }

    fn checked(unscaled: BigInt, scale: u32) -> Result<Self> {
        if scale > MAX_SCALE {
            let excess = power_of_ten(scale - MAX_SCALE);
            return Self::checked(divide_rounded(&unscaled, &excess), MAX_SCALE);
        }
        // Checks the bits first, because counting decimal digits costs more.
        if unscaled.bits() > 1_000 {
            let digits = decimal_digits(unscaled.magnitude()) - i64::from(scale);
            if digits > MAX_INTEGER_DIGITS {
                return Err(overflow());
            }
        }
        Ok(Self { unscaled, scale })
    }

    /// Display scale: number of digits shown after the decimal point.
    #[must_use]
    pub fn scale(&self) -> u32 {
        self.scale
    }

    fn at_scale(&self, scale: u32) -> BigInt {
        debug_assert!(scale >= self.scale);
        if scale == self.scale {
            self.unscaled.clone()
        } else {
            &self.unscaled * power_of_ten(scale - self.scale)
        }
    }

    /// Exponent of the most significant decimal digit; 0 for zero.
    fn exponent(&self) -> i64 {
        if is_zero(&self.unscaled) {
            return 0;
        }
        decimal_digits(self.unscaled.magnitude()) - i64::from(self.scale) - 1
    }

    /// Weight and value of the most significant group of four digits.
    fn first_group(&self) -> (i64, u32) {
        if is_zero(&self.unscaled) {
            return (0, 0);
        }
        let exponent = self.exponent();
        let weight = exponent.div_euclid(GROUP_DIGITS);
        let wanted = exponent.rem_euclid(GROUP_DIGITS) + 1;
        let digits = decimal_digits(self.unscaled.magnitude());
        let group = if digits >= wanted {
            self.unscaled.magnitude() / BigUint::from(10_u32).pow((digits - wanted) as u32)
        } else {
            self.unscaled.magnitude() * BigUint::from(10_u32).pow((wanted - digits) as u32)
        };
        (weight, u32::try_from(&group).unwrap_or(0))
    }

    fn round(&self, scale: i64) -> Self {
        let shown = scale.clamp(0, i64::from(MAX_SCALE)) as u32;
        if scale >= i64::from(self.scale) {
            return Self::new(self.at_scale(shown), shown);
        }
        // Dropping more digits than the number has leaves zero.
        let away = i64::from(self.scale) - scale;
        if away > decimal_digits(self.unscaled.magnitude()) + 1 {
            return Self::new(BigInt::ZERO, shown);
        }
        let rounded = divide_rounded(&self.unscaled, &power_of_ten(away as u32));
        if scale < 0 {
            Self::new(rounded * power_of_ten((-scale) as u32), 0)
        } else {
            Self::new(rounded, shown)
        }
    }

    fn truncate(&self, scale: i64) -> Self {
        let shown = scale.clamp(0, i64::from(MAX_SCALE)) as u32;
        if scale >= i64::from(self.scale) {
            return Self::new(self.at_scale(shown), shown);
        }
        let away = i64::from(self.scale) - scale;
        if away > decimal_digits(self.unscaled.magnitude()) + 1 {
            return Self::new(BigInt::ZERO, shown);
        }
        let kept = &self.unscaled / power_of_ten(away as u32);
        if scale < 0 {
            Self::new(kept * power_of_ten((-scale) as u32), 0)
        } else {
            Self::new(kept, shown)
        }
    }
}

impl From<i64> for Numeric {
    fn from(number: i64) -> Self {
        Self::Finite(Decimal::new(BigInt::from(number), 0))
    }
}

impl From<i32> for Numeric {
    fn from(number: i32) -> Self {
        Self::from(i64::from(number))
    }
}

impl From<i128> for Numeric {
    fn from(number: i128) -> Self {
        Self::Finite(Decimal::new(BigInt::from(number), 0))
    }
}

impl Numeric {
    /// The number `unscaled × 10^-scale`; fails if it is out of range.
    pub fn from_parts(unscaled: BigInt, scale: u32) -> Result<Self> {
        Decimal::checked(unscaled, scale).map(Self::Finite)
    }

    /// Unscaled number and scale; `None` for infinities and NaN.
    #[must_use]
    pub fn parts(&self) -> Option<(&BigInt, u32)> {
        match self {
            Self::Finite(decimal) => Some((&decimal.unscaled, decimal.scale)),
            Self::NegativeInfinity | Self::Infinity | Self::NaN => None,
        }
    }

    /// Whether the number is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Finite(decimal) if is_zero(&decimal.unscaled))
    }

    /// Sign of the number: -1, 0 or 1; NaN counts as positive.
    #[must_use]
    pub fn signum(&self) -> i32 {
        match self {
            Self::NegativeInfinity => -1,
            Self::Infinity | Self::NaN => 1,
            Self::Finite(decimal) => match decimal.unscaled.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// Parses a numeric literal; `None` if the text is not one. Surrounding blanks are
    /// allowed.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest.eq_ignore_ascii_case("nan") && rest.len() == text.len() {
            return Ok(Some(Self::NaN));
        }
        if rest.eq_ignore_ascii_case("infinity") || rest.eq_ignore_ascii_case("inf") {
            return Ok(Some(if negative {
                Self::NegativeInfinity
            } else {
                Self::Infinity
            }));
        }
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            None => (rest, 0_i64),
            Some(at) => {
                let digits = &rest[at + 1..];
                let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
                if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Ok(None);
                }
                // A longer exponent is out of every range.
                let exponent: i64 = digits.parse().unwrap_or(i64::from(i32::MAX));
                if exponent.abs() >= i64::from(i32::MAX) / 2 {
                    return Err(overflow());
                }
                (&rest[..at], exponent)
            }
        };
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if integer.is_empty() && fraction.is_empty()
            || !integer.bytes().all(|byte| byte.is_ascii_digit())
            || !fraction.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Ok(None);
        }
        let significant = integer.trim_start_matches('0').len() as i64;
        if significant + exponent.max(0) > MAX_INTEGER_DIGITS {
            return Err(overflow());
        }
        let scale = fraction.len() as i64 - exponent;
        if scale > i64::from(MAX_SCALE) {
            return Err(overflow());
        }
        let mut digits = String::with_capacity(mantissa.len());
        digits.push_str(integer);
        digits.push_str(fraction);
        let Some(magnitude) = BigUint::parse_bytes(digits.as_bytes(), 10) else {
            return Ok(None);
        };
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        let mut unscaled = BigInt::from_biguint(sign, magnitude);
        if scale < 0 {
            unscaled *= power_of_ten((-scale) as u32);
        }
        Decimal::checked(unscaled, scale.max(0) as u32).map(|decimal| Some(Self::Finite(decimal)))
    }

    /// The nearest decimal with `significant` digits; PostgreSQL casts doubles with 15.
    pub fn from_f64(number: f64, significant: usize) -> Result<Self> {
        if number.is_nan() {
            return Ok(Self::NaN);
        }
        if number.is_infinite() {
            return Ok(if number > 0.0 {
                Self::Infinity
            } else {
                Self::NegativeInfinity
            });
        }
        let printed = format!("{number:.*e}", significant - 1);
        // Trailing zeros of the mantissa are not digits of the number.
        let (mantissa, exponent) = printed.split_once('e').unwrap_or((&printed, "0"));
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        Self::parse(&format!("{mantissa}e{exponent}"))?
            .ok_or_else(|| Error::internal("a double that does not print as a number"))
    }

    /// The double nearest to this number.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        match self {
            Self::NegativeInfinity => f64::NEG_INFINITY,
            Self::Infinity => f64::INFINITY,
            Self::NaN => f64::NAN,
            Self::Finite(decimal) => format!("{}e-{}", decimal.unscaled, decimal.scale)
                .parse()
                .unwrap_or(f64::NAN),
        }
    }

    /// Rounds to the nearest integer; `None` if it does not fit.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Finite(decimal) => i64::try_from(&decimal.round(0).unscaled).ok(),
            Self::NegativeInfinity | Self::Infinity | Self::NaN => None,
        }
    }

    /// The decimal digits without trailing zeros, and the exponent of the first digit
    /// (12345 and 3 for `1234.500`). `None` for zero, infinities and NaN.
    #[must_use]
    pub fn significant_digits(&self) -> Option<(Vec<u8>, i32)> {
        let Self::Finite(decimal) = self else {
            return None;
        };
        if is_zero(&decimal.unscaled) {
            return None;
        }
        let mut digits = decimal.unscaled.magnitude().to_radix_be(10);
        let exponent = digits.len() as i64 - i64::from(decimal.scale) - 1;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Some((digits, exponent as i32))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::NegativeInfinity => 0,
            Self::Finite(_) => 1,
            Self::Infinity => 2,
            Self::NaN => 3,
        }
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Finite(left), Self::Finite(right)) => match left.scale.cmp(&right.scale) {
                Ordering::Equal => left.unscaled.cmp(&right.unscaled),
                Ordering::Less => left.at_scale(right.scale).cmp(&right.unscaled),
                Ordering::Greater => left.unscaled.cmp(&right.at_scale(left.scale)),
            },
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl fmt::Display for Numeric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = match self {
            Self::NegativeInfinity => return formatter.write_str("-Infinity"),
            Self::Infinity => return formatter.write_str("Infinity"),
            Self::NaN => return formatter.write_str("NaN"),
            Self::Finite(decimal) => decimal,
        };
        if decimal.scale == 0 {
            return write!(formatter, "{}", decimal.unscaled);
        }
        if decimal.unscaled.sign() == Sign::Minus {
            formatter.write_str("-")?;
        }
        let scale = decimal.scale as usize;
        let digits = decimal.unscaled.magnitude().to_string();
        if digits.len() > scale {
            let (integer, fraction) = digits.split_at(digits.len() - scale);
            write!(formatter, "{integer}.{fraction}")
        } else {
            write!(formatter, "0.{digits:0>scale$}")
        }
    }
}
