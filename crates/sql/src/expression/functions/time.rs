//! Built-in SQL functions on dates, times and timestamps.

use super::kinds::{DATE, FLOAT8, INT4, MOMENT, NUMERIC, TEXT, TIMESTAMP};
use crate::expression::EvaluationContext;
use crate::expression::cast::cast_pure;
use crate::expression::function::{Arguments, Function, Place};
use crate::value::calendar::{self, Civil, DAY, SECOND};
use crate::value::{DataType, Numeric, TimeZone, Value};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("now", &[], MOMENT, now).stable(),
    Function::new("transaction_timestamp", &[], MOMENT, now).stable(),
    Function::new("current_timestamp", &[], MOMENT, now).stable(),
    Function::new("statement_timestamp", &[], MOMENT, |_, context| {
        Ok(Value::TimestampTz(context.session.statement_start))
    })
    .stable(),
    Function::new("clock_timestamp", &[], MOMENT, |_, _| {
        Ok(Value::TimestampTz(EvaluationContext::clock()))
    })
    .volatile(Place::Anywhere),
    Function::new("localtimestamp", &[], TIMESTAMP, |_, context| {
        let style = &context.session.style;
        Ok(Value::Timestamp(style.local(style.now)))
    })
    .stable(),
    Function::new("current_date", &[], DATE, |_, context| {
        let style = &context.session.style;
        Ok(Value::Date(style.local(style.now).div_euclid(DAY) as i32))
    })
    .stable(),
    Function::new("timezone", &[TEXT, MOMENT], TIMESTAMP, |a, _| {
        let zone = zone(a.text(0))?;
        let moment = time(a.values.get(1));
        Ok(Value::Timestamp(if is_infinite(moment) {
            moment
        } else {
            in_range(moment.saturating_add(i64::from(zone.offset_at(moment)) * SECOND))?
        }))
    }),
    Function::new("timezone", &[TEXT, TIMESTAMP], MOMENT, |a, _| {
        let zone = zone(a.text(0))?;
        let local = time(a.values.get(1));
        Ok(Value::TimestampTz(if is_infinite(local) {
            local
        } else {
            in_range(zone.moment_of(local))?
        }))
    }),
    Function::new("extract", &[TEXT, MOMENT], NUMERIC, extract).stable(),
    Function::new("extract", &[TEXT, TIMESTAMP], NUMERIC, extract),
    Function::new("extract", &[TEXT, DATE], NUMERIC, extract),
    Function::new("date_part", &[TEXT, MOMENT], FLOAT8, date_part).stable(),
    Function::new("date_part", &[TEXT, TIMESTAMP], FLOAT8, date_part),
    // Of a date, PostgreSQL takes the parts of its midnight without a zone, so that
    // units that EXTRACT refuses are 0.
    Function::new("date_part", &[TEXT, DATE], FLOAT8, |a, context| {
        let (Some(unit), Some(Value::Date(date))) = (a.values.first(), a.values.get(1)) else {
            return Ok(Value::Null);
        };
        let (from, to) = (DataType::Date.into(), DataType::Timestamp.into());
        let midnight = cast_pure(Value::Date(*date), from, to, true, &context.session.style)?;
        let values = [unit.clone(), midnight];
        date_part(
            Arguments {
                values: &values,
                ..a
            },
            context,
        )
    }),
    Function::new("date_trunc", &[TEXT, MOMENT], MOMENT, |a, context| {
        let moment = time(a.values.get(1));
        if is_infinite(moment) {
            return Ok(Value::TimestampTz(moment));
        }
        let style = context.session.style;
        let local = truncate(a.text(0), style.local(moment))?;
        Ok(Value::TimestampTz(style.time_zone.moment_of(local)))
    })
    .stable(),
    Function::new("date_trunc", &[TEXT, TIMESTAMP], TIMESTAMP, |a, _| {
        let local = time(a.values.get(1));
        if is_infinite(local) {
            return Ok(Value::Timestamp(local));
        }
        truncate(a.text(0), local).map(Value::Timestamp)
    }),
    Function::new("make_date", &[INT4, INT4, INT4], DATE, |a, _| {
        let (year, month, day) = (a.integer(0), a.integer(1), a.integer(2));
        let year = if year < 0 { year + 1 } else { year };
        let valid = (1..=12).contains(&month)
            && a.integer(0) != 0
            && year < 6_000_000
            && (1..=i64::from(calendar::month_days(year, month as u32))).contains(&day);
        if !valid {
            return Err(Error::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!(
                    "date field value out of range: {}-{month:02}-{day:02}",
                    a.integer(0)
                ),
            ));
        }
        let days = calendar::days(Civil {
            year,
            month: month as u32,
            day: day as u32,
        });
        if !(calendar::MIN_DATE..calendar::END_DATE).contains(&days) {
            return Err(Error::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date out of range: {}-{month:02}-{day:02}", a.integer(0)),
            ));
        }
        Ok(Value::Date(days as i32))
    }),
    Function::new("to_timestamp", &[FLOAT8], MOMENT, |a, _| {
        let seconds = a.double(0);
        if seconds.is_infinite() {
            return Ok(Value::TimestampTz(if seconds > 0.0 {
                i64::MAX
            } else {
                i64::MIN
            }));
        }
        let micros = (seconds * SECOND as f64).round_ties_even() - calendar::UNIX_EPOCH as f64;
        let range = calendar::MIN_TIMESTAMP as f64..calendar::END_TIMESTAMP as f64;
        if !range.contains(&micros) {
            return Err(Error::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("timestamp out of range: \"{seconds}\""),
            ));
        }
        Ok(Value::TimestampTz(micros as i64))
    }),
];

fn now(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(Value::TimestampTz(context.session.style.now))
}

fn time(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Timestamp(time) | Value::TimestampTz(time)) => *time,
        Some(Value::Date(i32::MIN)) => i64::MIN,
        Some(Value::Date(i32::MAX)) => i64::MAX,
        Some(Value::Date(days)) => i64::from(*days).saturating_mul(DAY),
        _ => 0,
    }
}

fn is_infinite(time: i64) -> bool {
    time == i64::MIN || time == i64::MAX
}

fn in_range(timestamp: i64) -> Result<i64> {
    calendar::in_range(timestamp)
        .ok_or_else(|| Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
}

fn zone(name: &str) -> Result<TimeZone> {
    TimeZone::named(name).ok_or_else(|| {
        Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        )
    })
}

fn unknown_unit(unit: &str, data_type: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unit \"{unit}\" not recognized for type {data_type}"),
    )
}

fn decimal(number: i64, scale: u32) -> Result<Numeric> {
    Numeric::from_parts(number.into(), scale)
}

fn extract(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let unit = a.text(0).to_lowercase();
    let value = a.values.get(1);
    let moment = time(value);
    let (local, offset, data_type) = match value {
        Some(Value::TimestampTz(_)) => (
            context.session.style.local(moment),
            Some(context.session.style.time_zone.offset_at(moment)),
            "timestamp with time zone",
        ),
        Some(Value::Date(_)) => (moment, None, "date"),
        _ => (moment, None, "timestamp without time zone"),
    };
    let infinite = match value {
        Some(Value::Date(days)) => matches!(*days, i32::MIN | i32::MAX),
        _ => is_infinite(moment),
    };
    if infinite {
        return Ok(match unit.as_str() {
            "epoch" | "year" | "decade" | "century" | "millennium" | "isoyear" | "julian" => {
                Value::Numeric(Box::new(if moment > 0 {
                    Numeric::Infinity
                } else {
                    Numeric::NegativeInfinity
                }))
            }
            _ => Value::Null,
        });
    }
    // Handles dates separately: their range exceeds the range of timestamps.
    let days = match value {
        Some(Value::Date(days)) => i64::from(*days),
        _ => local.div_euclid(DAY),
    };
    let clock = local.rem_euclid(DAY);
    let Civil { year, month, day } = calendar::civil(days);
    let is_date = data_type == "date";
    let with_clock = |number: Result<Numeric>| {
        if is_date {
            Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("unit \"{unit}\" not supported for type date"),
            ))
        } else {
            number
        }
    };
    // There is no year 0: years before Christ are -1, -2, …
    let shown_year = if year > 0 { year } else { year - 1 };
    let ceiling = |size: i64| {
        if year > 0 {
            (year + size - 1) / size
        } else {
            -((size - year) / size)
        }
    };
    let whole = |number: i64| Ok(Numeric::from(number));
    let number = match unit.trim_end_matches('s') {
        "microsecond" => with_clock(whole(clock % (60 * SECOND))),
        "millisecond" => with_clock(decimal(clock % (60 * SECOND), 3)),
        "second" => with_clock(decimal(clock % (60 * SECOND), 6)),
        "minute" => with_clock(whole(clock / (60 * SECOND) % 60)),
        "hour" => with_clock(whole(clock / (3600 * SECOND))),
        "day" => whole(i64::from(day)),
        "month" => whole(i64::from(month)),
        "quarter" => whole(i64::from((month - 1) / 3 + 1)),
        "year" => whole(shown_year),
        "decade" => whole(year.div_euclid(10)),
        "century" | "centurie" => whole(ceiling(100)),
        "millennium" | "millennia" => whole(ceiling(1000)),
        "dow" => whole(calendar::day_of_week(days)),
        "isodow" => whole((calendar::day_of_week(days) + 6) % 7 + 1),
        "doy" => whole(
            days - calendar::days(Civil {
                year,
                month: 1,
                day: 1,
            }) + 1,
        ),
        "week" => whole(calendar::iso_week(days).1),
        "isoyear" => {
            let year = calendar::iso_week(days).0;
            whole(if year > 0 { year } else { year - 1 })
        }
        "epoch" if is_date => whole((days + calendar::UNIX_EPOCH_DAYS) * 86_400),
        "epoch" => {
            let base = if offset.is_some() { moment } else { local };
            Numeric::from_parts(
                num_bigint::BigInt::from(base) + num_bigint::BigInt::from(calendar::UNIX_EPOCH),
                6,
            )
        }
        "julian" if is_date || clock == 0 => whole(days - calendar::MIN_DATE),
        "timezone" if offset.is_some() => whole(i64::from(offset.unwrap_or(0))),
        "timezone_hour" if offset.is_some() => whole(i64::from(offset.unwrap_or(0) / 3600)),
        "timezone_minute" if offset.is_some() => whole(i64::from(offset.unwrap_or(0) / 60 % 60)),
        _ => Err(unknown_unit(&unit, data_type)),
    };
    Ok(Value::Numeric(Box::new(number?)))
}

fn date_part(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(match extract(a, context)? {
        Value::Numeric(number) => Value::Float8(number.to_f64()),
        other => other,
    })
}

fn truncate(unit: &str, local: i64) -> Result<i64> {
    let days = local.div_euclid(DAY);
    let Civil { year, month, .. } = calendar::civil(days);
    let start = |year: i64, month: u32| {
        calendar::days(Civil {
            year,
            month,
            day: 1,
        })
        .saturating_mul(DAY)
    };
    let floor = |size: i64| local.div_euclid(size) * size;
    let lower = unit.to_lowercase();
    Ok(match lower.trim_end_matches('s') {
        "microsecond" => local,
        "millisecond" => floor(1000),
        "second" => floor(SECOND),
        "minute" => floor(60 * SECOND),
        "hour" => floor(3600 * SECOND),
        "day" => floor(DAY),
        "week" => {
            let monday = days - (calendar::day_of_week(days) + 6).rem_euclid(7);
            monday * DAY
        }
        "month" => start(year, month),
        "quarter" => start(year, (month - 1) / 3 * 3 + 1),
        "year" => start(year, 1),
        "decade" => start(year.div_euclid(10) * 10, 1),
        "century" => start((year - 1).div_euclid(100) * 100 + 1, 1),
        "millennium" => start((year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => return Err(unknown_unit(unit, "timestamp")),
    })
}
