//! The SQL functions behind the operators of dates, times and intervals. The binder calls
//! them by the names that PostgreSQL gives them.

use super::kinds::{DATE, FLOAT8, INTERVAL, MOMENT, TIME, TIMESTAMP, TIMETZ};
use crate::expression::function::{Arguments, Function};
use crate::value::calendar::{self, DAY, SECOND};
use crate::value::{Interval, Value, moments};
use crate::{Error, Result, SqlState};

impl Arguments<'_> {
    /// An interval argument; empty if the value is none.
    pub(super) fn interval(&self, position: usize) -> Interval {
        match self.values.get(position) {
            Some(Value::Interval(interval)) => *interval,
            _ => Interval::default(),
        }
    }

    /// A date at its midnight or a timestamp, in microseconds; 0 if the value is neither.
    pub(super) fn moment(&self, position: usize) -> i64 {
        match self.values.get(position) {
            Some(Value::Timestamp(time) | Value::TimestampTz(time) | Value::Time(time)) => *time,
            Some(Value::Date(i32::MIN)) => i64::MIN,
            Some(Value::Date(i32::MAX)) => i64::MAX,
            Some(Value::Date(days)) => i64::from(*days).saturating_mul(DAY),
            _ => 0,
        }
    }

    /// A time with its zone; midnight in UTC if the value is none.
    pub(super) fn zoned_time(&self, position: usize) -> (i64, i32) {
        match self.values.get(position) {
            Some(Value::TimeTz(time, west)) => (*time, *west),
            _ => (0, 0),
        }
    }
}

/// A date as a timestamp.
fn midnight(a: &Arguments<'_>, position: usize) -> Result<i64> {
    let time = match a.values.get(position) {
        Some(Value::Date(days @ (i32::MIN | i32::MAX))) => {
            return Ok(if *days < 0 { i64::MIN } else { i64::MAX });
        }
        Some(Value::Date(days)) => i64::from(*days).checked_mul(DAY),
        _ => None,
    };
    if let Some(time) = time.and_then(calendar::in_range) {
        return Ok(time);
    }
    Err(Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        "date out of range for timestamp",
    ))
}

/// Adds a time of day to a timestamp.
fn with_clock(time: i64, clock: i64) -> Result<i64> {
    if moments::is_infinite(time) {
        return Ok(time);
    }
    time.checked_add(clock)
        .and_then(calendar::in_range)
        .ok_or_else(moments::out_of_range)
}

/// A time of day that is shifted, within the day.
fn shifted(clock: i64, by: i64) -> i64 {
    (clock + by % DAY).rem_euclid(DAY)
}

fn factor(a: &Arguments<'_>, position: usize) -> f64 {
    a.double(position)
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("date_pl_interval", &[DATE, INTERVAL], TIMESTAMP, |a, _| {
        moments::add(midnight(&a, 0)?, a.interval(1)).map(Value::Timestamp)
    }),
    Function::new("interval_pl_date", &[INTERVAL, DATE], TIMESTAMP, |a, _| {
        moments::add(midnight(&a, 1)?, a.interval(0)).map(Value::Timestamp)
    }),
    Function::new("date_mi_interval", &[DATE, INTERVAL], TIMESTAMP, |a, _| {
        moments::add(midnight(&a, 0)?, a.interval(1).negate()?).map(Value::Timestamp)
    }),
    Function::new("datetime_pl", &[DATE, TIME], TIMESTAMP, |a, _| {
        with_clock(midnight(&a, 0)?, a.moment(1)).map(Value::Timestamp)
    }),
    Function::new("timedate_pl", &[TIME, DATE], TIMESTAMP, |a, _| {
        with_clock(midnight(&a, 1)?, a.moment(0)).map(Value::Timestamp)
    }),
    Function::new("datetimetz_pl", &[DATE, TIMETZ], MOMENT, |a, _| {
        let (clock, west) = a.zoned_time(1);
        let clock = clock + i64::from(west) * SECOND;
        with_clock(midnight(&a, 0)?, clock).map(Value::TimestampTz)
    }),
    Function::new("timetzdate_pl", &[TIMETZ, DATE], MOMENT, |a, _| {
        let (clock, west) = a.zoned_time(0);
        let clock = clock + i64::from(west) * SECOND;
        with_clock(midnight(&a, 1)?, clock).map(Value::TimestampTz)
    }),
    Function::new(
        "timestamp_pl_interval",
        &[TIMESTAMP, INTERVAL],
        TIMESTAMP,
        |a, _| moments::add(a.moment(0), a.interval(1)).map(Value::Timestamp),
    ),
    Function::new(
        "interval_pl_timestamp",
        &[INTERVAL, TIMESTAMP],
        TIMESTAMP,
        |a, _| moments::add(a.moment(1), a.interval(0)).map(Value::Timestamp),
    ),
    Function::new(
        "timestamp_mi_interval",
        &[TIMESTAMP, INTERVAL],
        TIMESTAMP,
        |a, _| moments::add(a.moment(0), a.interval(1).negate()?).map(Value::Timestamp),
    ),
    Function::new(
        "timestamptz_pl_interval",
        &[MOMENT, INTERVAL],
        MOMENT,
        |a, context| {
            let style = &context.session.style;
            moments::add_in_zone(a.moment(0), a.interval(1), style).map(Value::TimestampTz)
        },
    )
    .stable(),
    Function::new(
        "interval_pl_timestamptz",
        &[INTERVAL, MOMENT],
        MOMENT,
        |a, context| {
            let style = &context.session.style;
            moments::add_in_zone(a.moment(1), a.interval(0), style).map(Value::TimestampTz)
        },
    )
    .stable(),
    Function::new(
        "timestamptz_mi_interval",
        &[MOMENT, INTERVAL],
        MOMENT,
        |a, context| {
            let style = &context.session.style;
            let back = a.interval(1).negate()?;
            moments::add_in_zone(a.moment(0), back, style).map(Value::TimestampTz)
        },
    )
    .stable(),
    Function::new("timestamp_mi", &[TIMESTAMP, TIMESTAMP], INTERVAL, |a, _| {
        moments::between(a.moment(0), a.moment(1)).map(Value::Interval)
    }),
    Function::new("timestamptz_mi", &[MOMENT, MOMENT], INTERVAL, |a, _| {
        moments::between(a.moment(0), a.moment(1)).map(Value::Interval)
    }),
    Function::new("time_mi_time", &[TIME, TIME], INTERVAL, |a, _| {
        Ok(Value::Interval(Interval::of_micros(
            a.moment(0) - a.moment(1),
        )))
    }),
    Function::new("time_pl_interval", &[TIME, INTERVAL], TIME, |a, _| {
        Ok(Value::Time(shifted(a.moment(0), a.interval(1).micros)))
    }),
    Function::new("interval_pl_time", &[INTERVAL, TIME], TIME, |a, _| {
        Ok(Value::Time(shifted(a.moment(1), a.interval(0).micros)))
    }),
    Function::new("time_mi_interval", &[TIME, INTERVAL], TIME, |a, _| {
        let by = a.interval(1).micros % DAY;
        Ok(Value::Time(shifted(a.moment(0), -by)))
    }),
    Function::new("timetz_pl_interval", &[TIMETZ, INTERVAL], TIMETZ, |a, _| {
        let (clock, west) = a.zoned_time(0);
        Ok(Value::TimeTz(shifted(clock, a.interval(1).micros), west))
    }),
    Function::new("interval_pl_timetz", &[INTERVAL, TIMETZ], TIMETZ, |a, _| {
        let (clock, west) = a.zoned_time(1);
        Ok(Value::TimeTz(shifted(clock, a.interval(0).micros), west))
    }),
    Function::new("timetz_mi_interval", &[TIMETZ, INTERVAL], TIMETZ, |a, _| {
        let (clock, west) = a.zoned_time(0);
        let by = a.interval(1).micros % DAY;
        Ok(Value::TimeTz(shifted(clock, -by), west))
    }),
    Function::new("interval_pl", &[INTERVAL, INTERVAL], INTERVAL, |a, _| {
        a.interval(0).plus(a.interval(1)).map(Value::Interval)
    }),
    Function::new("interval_mi", &[INTERVAL, INTERVAL], INTERVAL, |a, _| {
        a.interval(0).subtract(a.interval(1)).map(Value::Interval)
    }),
    Function::new("interval_um", &[INTERVAL], INTERVAL, |a, _| {
        a.interval(0).negate().map(Value::Interval)
    }),
    Function::new("interval_mul", &[INTERVAL, FLOAT8], INTERVAL, |a, _| {
        a.interval(0).multiply(factor(&a, 1)).map(Value::Interval)
    }),
    Function::new("mul_d_interval", &[FLOAT8, INTERVAL], INTERVAL, |a, _| {
        a.interval(1).multiply(factor(&a, 0)).map(Value::Interval)
    }),
    Function::new("interval_div", &[INTERVAL, FLOAT8], INTERVAL, |a, _| {
        a.interval(0).divide(factor(&a, 1)).map(Value::Interval)
    }),
];
