//! The binder for arithmetic with dates, times and intervals: chooses an operator by the
//! types of its operands, and calls the function behind it.

use super::Binder;
use super::operator::no_operator;
use crate::expression::coerce::{CastContext, castable};
use crate::expression::{ArithmeticOperator, Bound};
use crate::value::DataType;
use crate::{Error, Result, SqlState};

/// An operator of dates, times and intervals.
struct TimeOperator {
    symbol: &'static str,
    left: DataType,
    right: DataType,
    /// The function behind it; without one, the operator is arithmetic of dates and
    /// integers, which the caller binds.
    function: Option<&'static str>,
}

const fn entry(
    symbol: &'static str,
    left: DataType,
    right: DataType,
    function: &'static str,
) -> TimeOperator {
    TimeOperator {
        symbol,
        left,
        right,
        function: Some(function),
    }
}

const fn of_dates(symbol: &'static str, left: DataType, right: DataType) -> TimeOperator {
    TimeOperator {
        symbol,
        left,
        right,
        function: None,
    }
}

use DataType as T;

const OPERATORS: &[TimeOperator] = &[
    of_dates("+", T::Date, T::Int4),
    of_dates("+", T::Int4, T::Date),
    of_dates("-", T::Date, T::Int4),
    of_dates("-", T::Date, T::Date),
    entry("+", T::Date, T::Interval, "date_pl_interval"),
    entry("+", T::Interval, T::Date, "interval_pl_date"),
    entry("-", T::Date, T::Interval, "date_mi_interval"),
    entry("+", T::Date, T::Time, "datetime_pl"),
    entry("+", T::Time, T::Date, "timedate_pl"),
    entry("+", T::Date, T::TimeTz, "datetimetz_pl"),
    entry("+", T::TimeTz, T::Date, "timetzdate_pl"),
    entry("+", T::Timestamp, T::Interval, "timestamp_pl_interval"),
    entry("+", T::Interval, T::Timestamp, "interval_pl_timestamp"),
    entry("-", T::Timestamp, T::Interval, "timestamp_mi_interval"),
    entry("+", T::TimestampTz, T::Interval, "timestamptz_pl_interval"),
    entry("+", T::Interval, T::TimestampTz, "interval_pl_timestamptz"),
    entry("-", T::TimestampTz, T::Interval, "timestamptz_mi_interval"),
    entry("-", T::Timestamp, T::Timestamp, "timestamp_mi"),
    entry("-", T::TimestampTz, T::TimestampTz, "timestamptz_mi"),
    entry("-", T::Time, T::Time, "time_mi_time"),
    entry("+", T::Time, T::Interval, "time_pl_interval"),
    entry("+", T::Interval, T::Time, "interval_pl_time"),
    entry("-", T::Time, T::Interval, "time_mi_interval"),
    entry("+", T::TimeTz, T::Interval, "timetz_pl_interval"),
    entry("+", T::Interval, T::TimeTz, "interval_pl_timetz"),
    entry("-", T::TimeTz, T::Interval, "timetz_mi_interval"),
    entry("+", T::Interval, T::Interval, "interval_pl"),
    entry("-", T::Interval, T::Interval, "interval_mi"),
    entry("*", T::Interval, T::Float8, "interval_mul"),
    entry("*", T::Float8, T::Interval, "mul_d_interval"),
    entry("/", T::Interval, T::Float8, "interval_div"),
];

/// Whether a type is the one that the category of the given type prefers.
fn is_preferred(wanted: DataType, given: DataType) -> bool {
    let (wanted, given) = (wanted.facts(), given.facts());
    wanted.preferred && wanted.category == given.category
}

/// Chooses an operator as PostgreSQL does: an exact match, in which an operand of unknown
/// type has the other's; or else the one with the most exact operands, then the most
/// preferred types; or else the only one that the known operands leave.
fn choose(symbol: &str, left: DataType, right: DataType) -> Choice {
    let known = |this: DataType, other: DataType| match this {
        T::Unknown => other,
        this => this,
    };
    let same = (known(left, right), known(right, left));
    let named = || OPERATORS.iter().filter(|each| each.symbol == symbol);
    if let Some(exact) = named().find(|each| (each.left, each.right) == same) {
        return Choice::Of(exact);
    }
    let accepts =
        |given: DataType, wanted: DataType| castable(given, wanted) == Some(CastContext::Implicit);
    let mut candidates: Vec<&TimeOperator> = named()
        .filter(|each| accepts(left, each.left) && accepts(right, each.right))
        .collect();
    let keep_best = |candidates: &mut Vec<&TimeOperator>,
                     score: &dyn Fn(&TimeOperator) -> usize| {
        let best = candidates.iter().map(|each| score(each)).max();
        candidates.retain(|each| Some(score(each)) == best);
    };
    keep_best(&mut candidates, &|each| {
        usize::from(each.left == left) + usize::from(each.right == right)
    });
    keep_best(&mut candidates, &|each| {
        let preferred = |given: DataType, wanted: DataType| {
            given != T::Unknown && (given == wanted || is_preferred(wanted, given))
        };
        usize::from(preferred(left, each.left)) + usize::from(preferred(right, each.right))
    });
    match candidates.as_slice() {
        [] => Choice::None,
        [only] => Choice::Of(only),
        _ => Choice::Several,
    }
}

enum Choice {
    Of(&'static TimeOperator),
    None,
    Several,
}

impl Binder<'_> {
    /// Binds arithmetic of which an operand is a date, a time or an interval. Returns
    /// the operands if it is arithmetic of dates and integers.
    pub(super) fn time_arithmetic(
        &mut self,
        operator: ArithmeticOperator,
        left: Bound,
        right: Bound,
        position: Option<u32>,
    ) -> Result<TimeArithmetic> {
        let symbol = operator.symbol();
        let (from_left, from_right) = (left.column_type.data_type, right.column_type.data_type);
        // A day count may be a bigint, which no implicit cast narrows.
        if is_of_days(from_left, from_right) {
            return Ok(TimeArithmetic::OfDates(Box::new([left, right])));
        }
        match choose(symbol, from_left, from_right) {
            Choice::Of(TimeOperator { function: None, .. }) => {
                Ok(TimeArithmetic::OfDates(Box::new([left, right])))
            }
            Choice::Of(TimeOperator {
                left: to_left,
                right: to_right,
                function: Some(function),
                ..
            }) => {
                let left = self.implicit(left, *to_left)?;
                let right = self.implicit(right, *to_right)?;
                self.call_with(function, vec![left, right], position)
                    .map(TimeArithmetic::Bound)
            }
            Choice::None => Err(no_operator(from_left, symbol, from_right).at(position)),
            Choice::Several => Err(Error::new(
                SqlState::AMBIGUOUS_FUNCTION,
                format!("operator is not unique: {from_left} {symbol} {from_right}"),
            )
            .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
            .at(position)),
        }
    }
}

/// Whether the operands are a date and an integer.
fn is_of_days(left: DataType, right: DataType) -> bool {
    let integer = |data_type| matches!(data_type, T::Int2 | T::Int4 | T::Int8);
    left == T::Date && integer(right) || integer(left) && right == T::Date
}

/// Arithmetic with dates, times and intervals.
pub(super) enum TimeArithmetic {
    /// Of dates and integers, or of two dates.
    OfDates(Box<[Bound; 2]>),
    /// All other.
    Bound(Bound),
}
