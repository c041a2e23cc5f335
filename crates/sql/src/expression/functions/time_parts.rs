//! The SQL functions that take dates, times and intervals apart: `extract`, `date_part`,
//! `date_trunc`.

use num_bigint::BigInt;

use super::kinds::{DATE, FLOAT8, INTERVAL, MOMENT, NUMERIC, TEXT, TIME, TIMESTAMP, TIMETZ};
use super::time_zone::zone;
use crate::expression::EvaluationContext;
use crate::expression::cast::cast_pure;
use crate::expression::function::{Arguments, Function};
use crate::value::calendar::{self, Civil, DAY, SECOND};
use crate::value::interval::{HOUR, MINUTE, MONTH_DAYS, YEAR_MONTHS};
use crate::value::{DataType, Interval, Numeric, TimeUnit, Value, moments};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("extract", &[TEXT, MOMENT], NUMERIC, extract).stable(),
    Function::new("extract", &[TEXT, TIMESTAMP], NUMERIC, extract),
    Function::new("extract", &[TEXT, DATE], NUMERIC, extract),
    Function::new("extract", &[TEXT, TIME], NUMERIC, extract),
    Function::new("extract", &[TEXT, TIMETZ], NUMERIC, extract),
    Function::new("extract", &[TEXT, INTERVAL], NUMERIC, extract),
    Function::new("date_part", &[TEXT, MOMENT], FLOAT8, date_part).stable(),
    Function::new("date_part", &[TEXT, TIMESTAMP], FLOAT8, date_part),
    Function::new("date_part", &[TEXT, TIME], FLOAT8, date_part),
    Function::new("date_part", &[TEXT, TIMETZ], FLOAT8, date_part),
    Function::new("date_part", &[TEXT, INTERVAL], FLOAT8, date_part),
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
        let moment = a.moment(1);
        if moments::is_infinite(moment) {
            return Ok(Value::TimestampTz(moment));
        }
        let style = context.session.style;
        let (local, whole_days) = truncate(a.text(0), style.local(moment), MOMENT_NAME)?;
        let east = i64::from(style.time_zone.offset_at(moment)) * SECOND;
        Ok(Value::TimestampTz(if whole_days {
            style.time_zone.moment_of(local)
        } else {
            local - east
        }))
    })
    .stable(),
    Function::new("date_trunc", &[TEXT, MOMENT, TEXT], MOMENT, |a, _| {
        let moment = a.moment(1);
        if moments::is_infinite(moment) {
            return Ok(Value::TimestampTz(moment));
        }
        let mut name = String::new();
        let zone = zone(a.text(2), &mut name)?;
        let local = zone.local(moment)?;
        let (cut, whole_days) = truncate(a.text(0), local, MOMENT_NAME)?;
        Ok(Value::TimestampTz(if whole_days {
            zone.moment(cut)?
        } else {
            cut - (local - moment)
        }))
    })
    .stable(),
    Function::new("date_trunc", &[TEXT, TIMESTAMP], TIMESTAMP, |a, _| {
        let local = a.moment(1);
        if moments::is_infinite(local) {
            return Ok(Value::Timestamp(local));
        }
        let (local, _) = truncate(a.text(0), local, DataType::Timestamp.sql_name())?;
        Ok(Value::Timestamp(local))
    }),
    Function::new("date_trunc", &[TEXT, INTERVAL], INTERVAL, |a, _| {
        truncate_interval(a.text(0), a.interval(1)).map(Value::Interval)
    }),
];

const MOMENT_NAME: &str = DataType::TimestampTz.sql_name();

/// A part of a date, a time or an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Unit(TimeUnit),
    Epoch,
    Julian,
    Weekday,
    IsoWeekday,
    DayOfYear,
    IsoYear,
    Zone,
    ZoneHour,
    ZoneMinute,
}

fn unknown(unit: &str, data_type: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unit \"{unit}\" not recognized for type {data_type}"),
    )
}

fn missing(unit: &str, data_type: &str) -> Error {
    Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("unit \"{unit}\" not supported for type {data_type}"),
    )
}

impl Part {
    /// The part of this name, in lower case.
    fn named(name: &str) -> Option<Self> {
        if let Some(unit) = TimeUnit::named(name) {
            return Some(Self::Unit(unit));
        }
        Some(match name {
            "epoch" => Self::Epoch,
            "j" | "jd" | "julian" => Self::Julian,
            "dow" => Self::Weekday,
            "isodow" => Self::IsoWeekday,
            "doy" => Self::DayOfYear,
            "isoyear" => Self::IsoYear,
            "timezone" => Self::Zone,
            name if name.starts_with("timezone_h") => Self::ZoneHour,
            name if name.starts_with("timezone_m") => Self::ZoneMinute,
            _ => return None,
        })
    }

    /// Whether dates have no such part.
    fn is_of_clock(self) -> bool {
        use TimeUnit as U;
        match self {
            Self::Zone | Self::ZoneHour | Self::ZoneMinute => true,
            Self::Unit(unit) => matches!(
                unit,
                U::Microsecond | U::Millisecond | U::Second | U::Minute | U::Hour
            ),
            _ => false,
        }
    }

    /// Whether the part of an infinite moment is infinite, rather than null.
    fn grows(self) -> bool {
        use TimeUnit as U;
        match self {
            Self::Epoch | Self::Julian | Self::IsoYear => true,
            Self::Unit(unit) => {
                matches!(unit, U::Year | U::Decade | U::Century | U::Millennium)
            }
            _ => false,
        }
    }
}

fn whole(number: i64) -> Result<Numeric> {
    Ok(Numeric::from(number))
}

fn decimal(number: i64, scale: u32) -> Result<Numeric> {
    Numeric::from_parts(number.into(), scale)
}

/// The parts of a time of day, down from hours; `None` for others.
fn of_clock(part: Part, clock: i64) -> Option<Result<Numeric>> {
    use TimeUnit as U;
    let Part::Unit(unit) = part else { return None };
    let seconds = clock % MINUTE;
    Some(match unit {
        U::Microsecond => whole(seconds),
        U::Millisecond => decimal(seconds, 3),
        U::Second => decimal(seconds, 6),
        U::Minute => whole(clock / MINUTE % 60),
        U::Hour => whole(clock / HOUR),
        _ => return None,
    })
}

/// The year as it is shown: there is no year 0.
fn shown_year(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

/// The parts of a day; `None` for others.
fn of_day(part: Part, days: i64) -> Option<Result<Numeric>> {
    use TimeUnit as U;
    let Civil { year, month, day } = calendar::civil(days);
    let ceiling = |size: i64| {
        if year > 0 {
            (year + size - 1) / size
        } else {
            -((size - year) / size)
        }
    };
    let weekday = calendar::day_of_week(days);
    Some(whole(match part {
        Part::Unit(U::Day) => i64::from(day),
        Part::Unit(U::Week) => calendar::iso_week(days).1,
        Part::Unit(U::Month) => i64::from(month),
        Part::Unit(U::Quarter) => i64::from((month - 1) / 3 + 1),
        Part::Unit(U::Year) => shown_year(year),
        Part::Unit(U::Decade) => year.div_euclid(10),
        Part::Unit(U::Century) => ceiling(100),
        Part::Unit(U::Millennium) => ceiling(1000),
        Part::IsoYear => shown_year(calendar::iso_week(days).0),
        Part::Weekday => weekday,
        Part::IsoWeekday => (weekday + 6) % 7 + 1,
        Part::DayOfYear => {
            let first = calendar::days(Civil {
                year,
                month: 1,
                day: 1,
            });
            days - first + 1
        }
        _ => return None,
    }))
}

fn extract(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let unit = a.text(0).to_lowercase();
    let unit = crate::value::truncate_name(&unit);
    let Some(value) = a.values.get(1) else {
        return Ok(Value::Null);
    };
    let data_type = match value {
        Value::TimestampTz(_) => DataType::TimestampTz,
        Value::Timestamp(_) => DataType::Timestamp,
        Value::Date(_) => DataType::Date,
        Value::Time(_) => DataType::Time,
        Value::TimeTz(..) => DataType::TimeTz,
        _ => DataType::Interval,
    };
    let name = data_type.sql_name();
    let moment = a.moment(1);
    let part = Part::named(unit);
    let infinite = match value {
        Value::Date(days) => matches!(*days, i32::MIN | i32::MAX),
        Value::Timestamp(time) | Value::TimestampTz(time) => moments::is_infinite(*time),
        _ => false,
    };
    if infinite {
        let part = part.ok_or_else(|| unknown(unit, name))?;
        if data_type == DataType::Date && part.is_of_clock() {
            return Err(missing(unit, name));
        }
        if !part.grows() {
            return Ok(Value::Null);
        }
        return Ok(Value::Numeric(Box::new(if moment > 0 {
            Numeric::Infinity
        } else {
            Numeric::NegativeInfinity
        })));
    }
    let part = part.ok_or_else(|| unknown(unit, name))?;
    let style = &context.session.style;
    let number = match value {
        Value::Time(clock) => match part {
            Part::Epoch => Some(decimal(*clock, 6)),
            part => of_clock(part, *clock),
        },
        Value::TimeTz(clock, west) => match part {
            Part::Epoch => Some(decimal(clock + i64::from(*west) * SECOND, 6)),
            part => of_zone(part, -west).or_else(|| of_clock(part, *clock)),
        },
        Value::Interval(interval) => of_interval(part, *interval),
        // Dates are apart, because there are more of them than of timestamps.
        Value::Date(days) => {
            let days = i64::from(*days);
            match part {
                Part::Epoch => Some(whole((days + calendar::UNIX_EPOCH_DAYS) * 86_400)),
                Part::Julian => Some(whole(days - calendar::MIN_DATE)),
                part => of_day(part, days),
            }
        }
        _ => {
            let zoned = data_type == DataType::TimestampTz;
            let local = if zoned { style.local(moment) } else { moment };
            let (days, clock) = (local.div_euclid(DAY), local.rem_euclid(DAY));
            match part {
                Part::Epoch => Some(Numeric::from_parts(
                    BigInt::from(moment) + BigInt::from(calendar::UNIX_EPOCH),
                    6,
                )),
                Part::Julian => Some(julian(days, clock)),
                part if zoned => of_zone(part, style.time_zone.offset_at(moment))
                    .or_else(|| of_clock(part, clock))
                    .or_else(|| of_day(part, days)),
                part => of_clock(part, clock).or_else(|| of_day(part, days)),
            }
        }
    };
    let number = number.ok_or_else(|| missing(unit, name))??;
    Ok(Value::Numeric(Box::new(number)))
}

/// The parts of an offset, in seconds east; `None` for others.
fn of_zone(part: Part, east: i32) -> Option<Result<Numeric>> {
    let east = i64::from(east);
    Some(whole(match part {
        Part::Zone => east,
        Part::ZoneHour => east / 3600,
        Part::ZoneMinute => east / 60 % 60,
        _ => return None,
    }))
}

/// The Julian day with its fraction.
fn julian(days: i64, clock: i64) -> Result<Numeric> {
    let day = Numeric::from(days - calendar::MIN_DATE);
    let fraction = Numeric::from(clock).divide(&Numeric::from(DAY))?;
    day.add(&fraction)
}

/// The parts of an interval; `None` for others.
fn of_interval(part: Part, interval: Interval) -> Option<Result<Numeric>> {
    use TimeUnit as U;
    let fields = interval.fields();
    let years = i64::from(fields.years);
    let months = i64::from(fields.months);
    let seconds = i64::from(fields.seconds) * SECOND + i64::from(fields.micros);
    Some(match part {
        Part::Unit(unit) => match unit {
            U::Microsecond => whole(seconds),
            U::Millisecond => decimal(seconds, 3),
            U::Second => decimal(seconds, 6),
            U::Minute => whole(i64::from(fields.minutes)),
            U::Hour => whole(fields.hours),
            U::Day => whole(i64::from(fields.days)),
            U::Month => whole(months),
            U::Quarter => whole(months / 3 + 1),
            U::Year => whole(years),
            U::Decade => whole(years / 10),
            U::Century => whole(years / 100),
            U::Millennium => whole(years / 1000),
            U::Week => return None,
        },
        // A year has 365.25 days here.
        Part::Epoch => {
            let quarters = 1461 * years + 4 * MONTH_DAYS * months + 4 * i64::from(fields.days);
            let seconds = BigInt::from(quarters) * BigInt::from(86_400 / 4);
            Numeric::from_parts(seconds * SECOND + BigInt::from(interval.micros), 6)
        }
        _ => return None,
    })
}

fn date_part(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(match extract(a, context)? {
        Value::Numeric(number) => Value::Float8(number.to_f64()),
        other => other,
    })
}

/// The unit of this name, to which times are truncated.
fn truncating_unit(name: &str, data_type: &str) -> Result<TimeUnit> {
    match Part::named(name) {
        Some(Part::Unit(unit)) => Ok(unit),
        Some(Part::Zone | Part::ZoneHour | Part::ZoneMinute) => Err(missing(name, data_type)),
        _ => Err(unknown(name, data_type)),
    }
}

/// Truncates a local time to a unit; also returns whether that is a day or more.
fn truncate(unit: &str, local: i64, data_type: &str) -> Result<(i64, bool)> {
    use TimeUnit as U;
    let lower = unit.to_lowercase();
    let named = truncating_unit(&lower, data_type)?;
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
    let whole_days = !matches!(
        named,
        U::Microsecond | U::Millisecond | U::Second | U::Minute | U::Hour
    );
    let cut = match named {
        U::Microsecond => local,
        U::Millisecond => floor(1000),
        U::Second => floor(SECOND),
        U::Minute => floor(MINUTE),
        U::Hour => floor(HOUR),
        U::Day => floor(DAY),
        U::Week => (days - (calendar::day_of_week(days) + 6).rem_euclid(7)) * DAY,
        U::Month => start(year, month),
        U::Quarter => start(year, (month - 1) / 3 * 3 + 1),
        U::Year => start(year, 1),
        U::Decade => start(year.div_euclid(10) * 10, 1),
        U::Century => start((year - 1).div_euclid(100) * 100 + 1, 1),
        U::Millennium => start((year - 1).div_euclid(1000) * 1000 + 1, 1),
    };
    let cut = calendar::in_range(cut).ok_or_else(moments::out_of_range)?;
    Ok((cut, whole_days))
}

fn truncate_interval(unit: &str, interval: Interval) -> Result<Interval> {
    use TimeUnit as U;
    let name = DataType::Interval.sql_name();
    let lower = unit.to_lowercase();
    let named = truncating_unit(&lower, name)?;
    let Interval {
        months,
        days,
        micros,
    } = interval;
    let of_months = |size: i32| Interval {
        months: months / size * size,
        days: 0,
        micros: 0,
    };
    let of_micros = |size: i64| Interval {
        months,
        days,
        micros: micros / size * size,
    };
    Ok(match named {
        U::Microsecond => interval,
        U::Millisecond => of_micros(1000),
        U::Second => of_micros(SECOND),
        U::Minute => of_micros(MINUTE),
        U::Hour => of_micros(HOUR),
        U::Day => Interval {
            months,
            days,
            micros: 0,
        },
        U::Week => {
            return Err(missing(&lower, name)
                .with_detail("Months usually have fractional weeks.".to_owned()));
        }
        U::Month => of_months(1),
        U::Quarter => of_months(3),
        U::Year => of_months(YEAR_MONTHS),
        U::Decade => of_months(10 * YEAR_MONTHS),
        U::Century => of_months(100 * YEAR_MONTHS),
        U::Millennium => of_months(1000 * YEAR_MONTHS),
    })
}
