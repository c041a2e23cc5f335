//! Arithmetic on decimals, rounding, and checks against a declared precision.

use num_bigint::{BigInt, Sign};

use super::{
    Decimal, GROUP_DIGITS, MAX_RESULT_SCALE, MIN_SIGNIFICANT_DIGITS, Numeric, decimal_digits,
    divide_rounded, is_zero, power_of_ten,
};
use crate::{Error, Result, SqlState};

impl Decimal {
    /// The square root, with `scale` digits after the decimal point.
    fn root(&self, scale: u32) -> Self {
        // Computes one digit more than the result shows, then rounds.
        let shift = 2 * (scale + 1);
        let radicand = if shift >= self.scale {
            &self.unscaled * power_of_ten(shift - self.scale)
        } else {
            &self.unscaled / power_of_ten(self.scale - shift)
        };
        let root = divide_rounded(&radicand.sqrt(), &BigInt::from(10_u32));
        Self::new(root, scale)
    }
}

impl Numeric {
    /// The negation.
    #[must_use]
    pub fn negate(&self) -> Self {
        match self {
            Self::NegativeInfinity => Self::Infinity,
            Self::Infinity => Self::NegativeInfinity,
            Self::NaN => Self::NaN,
            Self::Finite(decimal) => Self::Finite(Decimal::new(-&decimal.unscaled, decimal.scale)),
        }
    }

    /// The absolute value.
    #[must_use]
    pub fn abs(&self) -> Self {
        if self.signum() < 0 {
            self.negate()
        } else {
            self.clone()
        }
    }

    /// The sum of two numbers.
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

    /// The difference of two numbers.
    pub fn subtract(&self, other: &Self) -> Result<Self> {
        self.add(&other.negate())
    }

    /// The product of two numbers.
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

    /// The quotient. Its scale is the larger scale of both operands, or as many digits
    /// as [`MIN_SIGNIFICANT_DIGITS`] requires, estimated from the first groups of four
    /// digits of both numbers.
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
        // left/10^ls / (right/10^rs) × 10^scale, in integers.
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

    /// The remainder of a division truncated to an integer; it has the sign of `self`.
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
            Self::NegativeInfinity | Self::Infinity | Self::NaN => self.clone(),
        }
    }

    /// Rounds half away from zero to `scale` digits after the decimal point (before it,
    /// if negative).
    #[must_use]
    pub fn round(&self, scale: i64) -> Self {
        self.map(|decimal| decimal.round(scale))
    }

    /// Truncates to `scale` digits after the decimal point.
    #[must_use]
    pub fn truncate(&self, scale: i64) -> Self {
        self.map(|decimal| decimal.truncate(scale))
    }

    /// The largest integer that is at most this number.
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

    /// The smallest integer that is at least this number.
    #[must_use]
    pub fn ceil(&self) -> Self {
        self.negate().floor().negate()
    }

    /// The square root; `None` for a negative number.
    #[must_use]
    pub fn square_root(&self) -> Option<Self> {
        match self {
            Self::NegativeInfinity => None,
            Self::Finite(decimal) => {
                if decimal.unscaled.sign() == Sign::Minus {
                    return None;
                }
                let (weight, _) = decimal.first_group();
                let digits_before = (weight + 1) * GROUP_DIGITS / 2 - 1;
                let scale = (MIN_SIGNIFICANT_DIGITS - digits_before)
                    .max(i64::from(decimal.scale))
                    .clamp(0, MAX_RESULT_SCALE) as u32;
                Some(Self::Finite(decimal.root(scale)))
            }
            Self::Infinity | Self::NaN => Some(self.clone()),
        }
    }

    /// The square root of a number that is not negative, with as many digits after the
    /// decimal point as the number has.
    #[must_use]
    pub fn square_root_of_its_scale(&self) -> Self {
        match self {
            Self::Finite(decimal) if decimal.unscaled.sign() != Sign::Minus => {
                Self::Finite(decimal.root(decimal.scale))
            }
            Self::NegativeInfinity | Self::Finite(_) | Self::Infinity | Self::NaN => self.clone(),
        }
    }

    /// Rounds to `scale`; fails if the result has more than `precision` digits.
    pub fn fit(&self, precision: u32, scale: u32) -> Result<Self> {
        let rounded = match self {
            Self::Finite(decimal) => decimal.round(i64::from(scale)),
            Self::NaN => return Ok(Self::NaN),
            Self::NegativeInfinity | Self::Infinity => {
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
}
