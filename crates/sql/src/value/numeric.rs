//! Decimal numbers of any size, with a display scale.
//!
//! A number is `unscaled × 10^-scale`: `1.50` is 150 with scale 2 and prints with
//! both digits, though it equals `1.5`. The scale of a result follows PostgreSQL:
//! the larger one for sums, the sum of both for products, and for quotients as
//! many digits as give at least 16 significant ones, counted in PostgreSQL's
//! groups of four digits (see [`Numeric::divide`]).
//!
//! Limits, as in PostgreSQL: 131,072 digits before the point and 16,383 behind.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, BigUint, Sign};

use crate::{Error, Result, SqlState};

/// Most digits behind the point.
const MAX_SCALE: u32 = 16_383;
/// Most digits before the point.
const MAX_INTEGER_DIGITS: i64 = 131_072;
/// Fewest significant digits of a quotient or a root.
const MIN_SIGNIFICANT_DIGITS: i64 = 16;
/// Most digits behind the point of a quotient or a root.
const MAX_RESULT_SCALE: i64 = 1000;
/// Digits in one of PostgreSQL's digit groups.
const GROUP_DIGITS: i64 = 4;

/// A decimal number, an infinity, or NaN (which equals itself and exceeds all
/// else).
#[derive(Clone, Debug)]
pub enum Numeric {
    /// Below every number.
    NegativeInfinity,
    /// A number.
    Finite(Decimal),
    /// Above every number.
    Infinity,
    /// Above everything.
    NaN,
}

/// `unscaled × 10^-scale`.
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
            _ => quotient + 1,
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
    // bits; correct it from below.
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
    /// `unscaled × 10^-scale`.
    fn new(unscaled: BigInt, scale: u32) -> Self {
        Self { unscaled, scale }
    }

    fn checked(unscaled: BigInt, scale: u32) -> Result<Self> {
        if scale > MAX_SCALE {
            let excess = power_of_ten(scale - MAX_SCALE);
            return Self::checked(divide_rounded(&unscaled, &excess), MAX_SCALE);
        }
        // Bits first: counting digits costs more.
        if unscaled.bits() > 1_000 {
            let digits = decimal_digits(unscaled.magnitude()) - i64::from(scale);
            if digits > MAX_INTEGER_DIGITS {
                return Err(overflow());
            }
        }
        Ok(Self { unscaled, scale })
    }

    /// Digits behind the point that are shown.
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

    /// Weight and value of the first group of four digits.
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
        // More digits away than there are leaves nothing but zero.
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
    /// `unscaled × 10^-scale`.
    pub fn from_parts(unscaled: BigInt, scale: u32) -> Result<Self> {
        Decimal::checked(unscaled, scale).map(Self::Finite)
    }

    /// The unscaled number and the scale; `None` for infinities and NaN.
    #[must_use]
    pub fn parts(&self) -> Option<(&BigInt, u32)> {
        match self {
            Self::Finite(decimal) => Some((&decimal.unscaled, decimal.scale)),
            _ => None,
        }
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Finite(decimal) if is_zero(&decimal.unscaled))
    }

    /// -1, 0 or 1; NaN counts as positive.
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

    /// Reads a literal; `None` when it is not one. Surrounding blanks are allowed.
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
                // Anything longer is out of every range.
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

    /// The nearest number with 15 significant digits, as PostgreSQL casts doubles.
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

    /// The nearest double.
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

    /// Rounded to the nearest integer; `None` when it does not fit.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Finite(decimal) => i64::try_from(&decimal.round(0).unscaled).ok(),
            _ => None,
        }
    }

    /// Its negative.
    #[must_use]
    pub fn negate(&self) -> Self {
        match self {
            Self::NegativeInfinity => Self::Infinity,
            Self::Infinity => Self::NegativeInfinity,
            Self::NaN => Self::NaN,
            Self::Finite(decimal) => Self::Finite(Decimal::new(-&decimal.unscaled, decimal.scale)),
        }
    }

    /// Without its sign.
    #[must_use]
    pub fn abs(&self) -> Self {
        if self.signum() < 0 {
            self.negate()
        } else {
            self.clone()
        }
    }

    /// The sum.
    pub fn add(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (Self::Finite(left), Self::Finite(right)) => {
                let scale = left.scale.max(right.scale);
                Decimal::checked(left.at_scale(scale) + right.at_scale(scale), scale)
                    .map(Self::Finite)
            }
            (Self::NaN, _) | (_, Self::NaN) => Ok(Self::NaN),
            (Self::Infinity, Self::NegativeInfinity) | (Self::NegativeInfinity, Self::Infinity) => {
                Ok(Self::NaN)
            }
            (Self::Finite(_), infinite) | (infinite, _) => Ok(infinite.clone()),
        }
    }

    /// The difference.
    pub fn subtract(&self, other: &Self) -> Result<Self> {
        self.add(&other.negate())
    }

    /// The product.
    pub fn multiply(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (Self::Finite(left), Self::Finite(right)) => {
                Decimal::checked(&left.unscaled * &right.unscaled, left.scale + right.scale)
                    .map(Self::Finite)
            }
            (Self::NaN, _) | (_, Self::NaN) => Ok(Self::NaN),
            _ => Ok(match self.signum() * other.signum() {
                0 => Self::NaN,
                1 => Self::Infinity,
                _ => Self::NegativeInfinity,
            }),
        }
    }

    fn division_by_zero() -> Error {
        Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
    }

    /// The quotient. Its scale is the larger one of both, or as many digits as it
    /// takes to show [`MIN_SIGNIFICANT_DIGITS`], estimated from the first groups
    /// of four digits of both numbers.
    pub fn divide(&self, other: &Self) -> Result<Self> {
        let (left, right) = match (self, other) {
            (Self::Finite(left), Self::Finite(right)) => (left, right),
            (Self::NaN, _) | (_, Self::NaN) => return Ok(Self::NaN),
            (Self::Finite(_), _) => return Ok(Self::from(0_i64)),
            (infinite, Self::Finite(divisor)) => {
                if is_zero(&divisor.unscaled) {
                    return Err(Self::division_by_zero());
                }
                return Ok(if other.signum() < 0 {
                    infinite.negate()
                } else {
                    infinite.clone()
                });
            }
            _ => return Ok(Self::NaN),
        };
        if is_zero(&right.unscaled) {
            return Err(Self::division_by_zero());
        }
        let (left_weight, left_group) = left.first_group();
        let (right_weight, right_group) = right.first_group();
        let mut weight = left_weight - right_weight;
        if left_group <= right_group {
            weight -= 1;
        }
        let scale = (MIN_SIGNIFICANT_DIGITS - weight * GROUP_DIGITS)
            .max(i64::from(left.scale))
            .max(i64::from(right.scale))
            .clamp(0, MAX_RESULT_SCALE);
        // left/10^ls / (right/10^rs) × 10^scale, kept in integers.
        let shift = scale + i64::from(right.scale) - i64::from(left.scale);
        let sign = right.unscaled.sign();
        let mut numerator = left.unscaled.clone();
        let mut denominator = BigInt::from(right.unscaled.magnitude().clone());
        if shift >= 0 {
            numerator *= power_of_ten(shift as u32);
        } else {
            denominator *= power_of_ten((-shift) as u32);
        }
        if sign == Sign::Minus {
            numerator = -numerator;
        }
        Decimal::checked(divide_rounded(&numerator, &denominator), scale as u32).map(Self::Finite)
    }

    /// What is left of a division truncated to an integer; has the sign of `self`.
    pub fn remainder(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (Self::Finite(left), Self::Finite(right)) => {
                if is_zero(&right.unscaled) {
                    return Err(Self::division_by_zero());
                }
                let scale = left.scale.max(right.scale);
                Decimal::checked(left.at_scale(scale) % right.at_scale(scale), scale)
                    .map(Self::Finite)
            }
            (Self::NaN, _) | (_, Self::NaN) => Ok(Self::NaN),
            (Self::Finite(_), _) => Ok(self.clone()),
            (_, divisor) if divisor.is_zero() => Err(Self::division_by_zero()),
            _ => Ok(Self::NaN),
        }
    }

    fn map(&self, change: impl FnOnce(&Decimal) -> Decimal) -> Self {
        match self {
            Self::Finite(decimal) => Self::Finite(change(decimal)),
            other => other.clone(),
        }
    }

    /// Rounded half away from zero to `scale` digits behind the point (before it,
    /// when negative).
    #[must_use]
    pub fn round(&self, scale: i64) -> Self {
        self.map(|decimal| decimal.round(scale))
    }

    /// Cut to `scale` digits behind the point.
    #[must_use]
    pub fn truncate(&self, scale: i64) -> Self {
        self.map(|decimal| decimal.truncate(scale))
    }

    /// The largest integer that is not larger.
    #[must_use]
    pub fn floor(&self) -> Self {
        self.map(|decimal| {
            let cut = decimal.truncate(0);
            if decimal.unscaled.sign() == Sign::Minus
                && cut.at_scale(decimal.scale) != decimal.unscaled
            {
                Decimal::new(cut.unscaled - 1, 0)
            } else {
                cut
            }
        })
    }

    /// The smallest integer that is not smaller.
    #[must_use]
    pub fn ceil(&self) -> Self {
        self.negate().floor().negate()
    }

    /// The square root, `None` of a negative number.
    #[must_use]
    pub fn square_root(&self) -> Option<Self> {
        match self {
            Self::NegativeInfinity => None,
            Self::Finite(decimal) => {
                if decimal.unscaled.sign() == Sign::Minus {
                    return None;
                }
                let (weight, _) = decimal.first_group();
                let digits_before = if weight >= 0 {
                    weight * GROUP_DIGITS / 2 + 1
                } else {
                    1 - (1 - weight) * GROUP_DIGITS / 2
                };
                let scale = (MIN_SIGNIFICANT_DIGITS - digits_before)
                    .max(i64::from(decimal.scale))
                    .clamp(0, MAX_RESULT_SCALE) as u32;
                // One digit more than shown, then rounded.
                let shift = 2 * (scale + 1);
                let radicand = if shift >= decimal.scale {
                    &decimal.unscaled * power_of_ten(shift - decimal.scale)
                } else {
                    &decimal.unscaled / power_of_ten(decimal.scale - shift)
                };
                let root = divide_rounded(&radicand.sqrt(), &BigInt::from(10_u32));
                Some(Self::Finite(Decimal::new(root, scale)))
            }
            other => Some(other.clone()),
        }
    }

    /// Rounded to `scale`, and refused when it then needs more than `precision`
    /// digits.
    pub fn fit(&self, precision: u32, scale: u32) -> Result<Self> {
        let rounded = match self {
            Self::Finite(decimal) => decimal.round(i64::from(scale)),
            Self::NaN => return Ok(Self::NaN),
            _ => {
                return Err(Error::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    "numeric field overflow",
                )
                .with_detail(format!(
                    "A field with precision {precision}, scale {scale} cannot hold an infinite value."
                )));
            }
        };
        if decimal_digits(rounded.unscaled.magnitude()) > i64::from(precision) {
            let digits = precision - scale;
            let limit = if digits == 0 {
                "1".to_owned()
            } else {
                format!("10^{digits}")
            };
            return Err(Error::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "numeric field overflow",
            )
            .with_detail(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
            )));
        }
        Ok(Self::Finite(rounded))
    }

    /// Its digits without zeros at the end, and the exponent of the first one
    /// (`1234.500` is 12345 and 3). `None` for zero, infinities and NaN.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Numeric {
        Numeric::parse(text).unwrap().unwrap()
    }

    #[test]
    fn literals() {
        for (input, printed) in [
            ("1.50", "1.50"),
            ("-0.001", "-0.001"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1.25e-3", "0.00125"),
            (" 7 ", "7"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("nan", "NaN"),
            ("-inf", "-Infinity"),
        ] {
            assert_eq!(number(input).to_string(), printed);
        }
        for bad in ["", ".", "1e", "1.2.3", "abc", "1 2", "-nan", "0x10"] {
            assert!(Numeric::parse(bad).unwrap().is_none(), "{bad}");
        }
        assert!(Numeric::parse("1e200000").is_err());
        assert!(Numeric::parse("1e99999999999999999999").is_err());
    }

    /// Results printed by PostgreSQL 15.
    #[test]
    fn arithmetic_has_the_scales_of_postgresql() {
        for (left, operator, right, printed) in [
            ("1.5", '+', "2.25", "3.75"),
            ("1.5", '-', "1.50", "0.00"),
            ("1.5", '*', "2.25", "3.375"),
            ("1", '/', "3", "0.33333333333333333333"),
            ("10", '/', "3", "3.3333333333333333"),
            ("2", '/', "3", "0.66666666666666666667"),
            ("100000", '/', "7", "14285.714285714286"),
            ("1", '/', "70000", "0.000014285714285714285714"),
            ("-7.5", '%', "2", "-1.5"),
            ("0", '/', "5", "0.00000000000000000000"),
        ] {
            let (left, right) = (number(left), number(right));
            let result = match operator {
                '+' => left.add(&right),
                '-' => left.subtract(&right),
                '*' => left.multiply(&right),
                '/' => left.divide(&right),
                _ => left.remainder(&right),
            };
            assert_eq!(
                result.unwrap().to_string(),
                printed,
                "{left} {operator} {right}"
            );
        }
    }

    #[test]
    fn rounding_goes_away_from_zero() {
        assert_eq!(number("2.5").round(0).to_string(), "3");
        assert_eq!(number("-2.5").round(0).to_string(), "-3");
        assert_eq!(number("1250").round(-2).to_string(), "1300");
        assert_eq!(number("2.449").round(1).to_string(), "2.4");
        assert_eq!(number("-2.5").floor().to_string(), "-3");
        assert_eq!(number("-2.5").ceil().to_string(), "-2");
        assert_eq!(number("2").round(2).to_string(), "2.00");
        assert_eq!(number("5").round(-9).to_string(), "0");
    }

    #[test]
    fn a_field_has_its_precision() {
        assert_eq!(number("1.005").fit(5, 2).unwrap().to_string(), "1.01");
        assert!(number("999.995").fit(5, 2).is_err());
    }

    #[test]
    fn equal_numbers_of_different_scales_are_equal() {
        assert_eq!(number("1.0"), number("1.00"));
        assert!(number("NaN") > number("inf"));
        assert!(number("-inf") < number("-1e100"));
    }
}
