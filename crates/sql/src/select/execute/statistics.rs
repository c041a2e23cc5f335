//! Variance, standard deviation and linear regression.
//!
//! Of floating-point numbers the sums are updated by the algorithm of Youngs and Cramer,
//! which loses few digits, in the order of the rows; of exact numbers sum and sum of squares
//! are exact. Both are PostgreSQL's, so that the digits are.

use super::aggregate::{not_its_type, overflow};
use crate::expression::{Regression, Spread};
use crate::value::{DataType, Numeric};
use crate::{Result, Value};

/// Count, sum and sum of squares.
#[derive(Clone, Debug)]
pub(super) enum Moments {
    /// Count, sum, and sum of squared distances from the mean.
    Float { count: f64, sum: f64, squares: f64 },
    /// Count, sum, and sum of squares.
    Exact {
        count: i64,
        sum: Numeric,
        squares: Numeric,
    },
}

impl Moments {
    pub(super) fn new(data_type: DataType) -> Self {
        match data_type {
            DataType::Float8 => Self::Float {
                count: 0.0,
                sum: 0.0,
                squares: 0.0,
            },
            _ => Self::Exact {
                count: 0,
                sum: Numeric::from(0),
                squares: Numeric::from(0),
            },
        }
    }

    pub(super) fn take(&mut self, value: &Value) -> Result<()> {
        match (self, value) {
            (
                Self::Float {
                    count,
                    sum,
                    squares,
                },
                Value::Float8(number),
            ) => {
                let (before, sum_before) = (*count, *sum);
                *count += 1.0;
                *sum += number;
                if before > 0.0 {
                    let distance = number * *count - *sum;
                    *squares += distance * distance / (*count * before);
                    if sum.is_infinite() || squares.is_infinite() {
                        if !sum_before.is_infinite() && !number.is_infinite() {
                            return Err(overflow());
                        }
                        *squares = f64::NAN;
                    }
                } else if !number.is_finite() {
                    *squares = f64::NAN;
                }
                Ok(())
            }
            (
                Self::Exact {
                    count,
                    sum,
                    squares,
                },
                Value::Numeric(number),
            ) => {
                *count += 1;
                *sum = sum.add(number)?;
                *squares = squares.add(&number.multiply(number)?)?;
                Ok(())
            }
            _ => Err(not_its_type()),
        }
    }

    pub(super) fn spread(&self, spread: Spread) -> Result<Value> {
        match self {
            Self::Float { count, squares, .. } => {
                let divisor = if spread.sample { *count - 1.0 } else { *count };
                if divisor <= 0.0 {
                    return Ok(Value::Null);
                }
                let variance = squares / divisor;
                Ok(Value::Float8(if spread.root {
                    variance.sqrt()
                } else {
                    variance
                }))
            }
            Self::Exact {
                count,
                sum,
                squares,
            } => {
                let less = i64::from(spread.sample);
                if *count <= less {
                    return Ok(Value::Null);
                }
                if sum.parts().is_none() {
                    return Ok(Value::Numeric(Box::new(Numeric::NaN)));
                }
                let number = Numeric::from(*count);
                let distance = number.multiply(squares)?.subtract(&sum.multiply(sum)?)?;
                let result = if distance.signum() <= 0 {
                    Numeric::from(0)
                } else {
                    let divisor = number.multiply(&Numeric::from(*count - less))?;
                    let variance = distance.divide(&divisor)?;
                    match spread.root {
                        true => variance.square_root_of_its_scale(),
                        false => variance,
                    }
                };
                Ok(Value::Numeric(Box::new(result)))
            }
        }
    }
}

/// Sums over pairs of numbers: of X and Y, and of the squares and products of their
/// distances from the means.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Pairs {
    pub(super) fn take(&mut self, y: f64, x: f64) -> Result<()> {
        let before = self.clone();
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count > 0.0 {
            let of_x = x * self.count - self.x;
            let of_y = y * self.count - self.y;
            let scale = 1.0 / (self.count * before.count);
            self.xx += of_x * of_x * scale;
            self.yy += of_y * of_y * scale;
            self.xy += of_x * of_y * scale;
            let is_far_x = !before.x.is_infinite() && !x.is_infinite();
            let is_far_y = !before.y.is_infinite() && !y.is_infinite();
            let of_x = self.x.is_infinite() || self.xx.is_infinite();
            let of_y = self.y.is_infinite() || self.yy.is_infinite();
            let of_both = self.xy.is_infinite();
            if of_x && is_far_x || of_y && is_far_y || of_both && is_far_x && is_far_y {
                return Err(overflow());
            }
            for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
                if sum.is_infinite() {
                    *sum = f64::NAN;
                }
            }
        } else {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }

    pub(super) fn statistic(&self, statistic: Regression) -> Value {
        let Self {
            count,
            x,
            xx,
            y,
            yy,
            xy,
        } = *self;
        let least = if statistic == Regression::CovarianceOfSample {
            2.0
        } else {
            1.0
        };
        if statistic == Regression::Count {
            return Value::Int8(count as i64);
        }
        if count < least {
            return Value::Null;
        }
        let number = match statistic {
            Regression::Count => count,
            Regression::SquaresOfX => xx,
            Regression::SquaresOfY => yy,
            Regression::Products => xy,
            Regression::AverageX => x / count,
            Regression::AverageY => y / count,
            Regression::Covariance => xy / count,
            Regression::CovarianceOfSample => xy / (count - 1.0),
            Regression::Correlation if xx == 0.0 || yy == 0.0 => return Value::Null,
            Regression::Correlation => xy / (xx * yy).sqrt(),
            Regression::Determination | Regression::Slope | Regression::Intercept if xx == 0.0 => {
                return Value::Null;
            }
            Regression::Determination if yy == 0.0 => 1.0,
            Regression::Determination => (xy * xy) / (xx * yy),
            Regression::Slope => xy / xx,
            Regression::Intercept => (y - x * xy / xx) / count,
        };
        Value::Float8(number)
    }
}
