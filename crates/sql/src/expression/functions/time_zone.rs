//! The SQL function `timezone`, which AT TIME ZONE calls.

use super::kinds::{INTERVAL, MOMENT, TEXT, TIMESTAMP, TIMETZ};
use crate::expression::function::Function;
use crate::value::abbreviations::{self, Abbreviation};
use crate::value::calendar::{self, DAY, SECOND};
use crate::value::{Interval, Style, TimeZone, Value, moments};
use crate::{Error, Result, SqlState};

/// A zone as AT TIME ZONE names it.
#[derive(Clone, Copy)]
pub(super) struct Zone<'a> {
    zone: TimeZone,
    /// The abbreviation that names it, in lower case.
    abbreviation: Option<&'a str>,
}

impl<'a> Zone<'a> {
    /// The zone of this name, in lower case: abbreviations come before the database.
    pub(super) fn named(name: &'a str) -> Option<Self> {
        let (zone, abbreviation) = match abbreviations::lookup(name) {
            Some(Abbreviation::Offset { east, .. }) => (TimeZone::Fixed(east), None),
            Some(Abbreviation::Place(zone)) => (zone, Some(name)),
            None => (TimeZone::named(name)?, None),
        };
        Some(Self { zone, abbreviation })
    }

    /// Seconds east of Greenwich at a local time.
    fn offset_of_local(self, local: i64) -> i64 {
        match self.abbreviation {
            Some(name) => i64::from(self.zone.offset_named(name, local)),
            None => local.saturating_sub(self.zone.moment_of(local)) / SECOND,
        }
    }

    /// Seconds east of Greenwich at a moment.
    fn offset_at(self, moment: i64) -> i64 {
        let local = moments::to_local(self.zone, moment);
        match self.abbreviation {
            Some(name) => i64::from(self.zone.offset_named(name, local)),
            None => i64::from(self.zone.offset_at(moment)),
        }
    }

    /// Local time at a moment.
    pub(super) fn local(self, moment: i64) -> Result<i64> {
        if moments::is_infinite(moment) {
            return Ok(moment);
        }
        in_range(moment.saturating_add(self.offset_at(moment) * SECOND))
    }

    /// The moment of a local time.
    pub(super) fn moment(self, local: i64) -> Result<i64> {
        if moments::is_infinite(local) {
            return Ok(local);
        }
        in_range(local.saturating_sub(self.offset_of_local(local) * SECOND))
    }
}

/// The zone of this name; error 22023.
pub(super) fn zone<'a>(name: &str, lower: &'a mut String) -> Result<Zone<'a>> {
    *lower = name.to_ascii_lowercase();
    Zone::named(lower).ok_or_else(|| {
        Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        )
    })
}

/// The zone whose offset is an interval.
fn zone_of(interval: Interval, style: &Style) -> Result<Zone<'static>> {
    let zone = TimeZone::of_seconds(interval.micros / SECOND);
    let zone = zone.filter(|_| interval.months == 0 && interval.days == 0);
    zone.map(|zone| Zone {
        zone,
        abbreviation: None,
    })
    .ok_or_else(|| {
        let shown =
            Value::Interval(interval).to_text(crate::value::DataType::Interval.into(), style);
        Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!(
                "interval time zone \"{}\" must not include months or days",
                shown.unwrap_or_default()
            ),
        )
    })
}

fn in_range(timestamp: i64) -> Result<i64> {
    calendar::in_range(timestamp).ok_or_else(moments::out_of_range)
}

/// A time of day in another zone, of which the offset now counts.
fn moved((time, west): (i64, i32), zone: Zone<'_>, style: &Style) -> Value {
    let to = -(zone.offset_at(style.now) as i32);
    let shift = i64::from(west) - i64::from(to);
    Value::TimeTz((time + shift * SECOND).rem_euclid(DAY), to)
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("timezone", &[TEXT, MOMENT], TIMESTAMP, |a, _| {
        let mut name = String::new();
        zone(a.text(0), &mut name)?
            .local(a.moment(1))
            .map(Value::Timestamp)
    }),
    Function::new("timezone", &[TEXT, TIMESTAMP], MOMENT, |a, _| {
        let mut name = String::new();
        zone(a.text(0), &mut name)?
            .moment(a.moment(1))
            .map(Value::TimestampTz)
    }),
    Function::new("timezone", &[TEXT, TIMETZ], TIMETZ, |a, context| {
        let mut name = String::new();
        let zone = zone(a.text(0), &mut name)?;
        Ok(moved(a.zoned_time(1), zone, &context.session.style))
    })
    .stable(),
    Function::new("timezone", &[INTERVAL, MOMENT], TIMESTAMP, |a, context| {
        let zone = zone_of(a.interval(0), &context.session.style)?;
        zone.local(a.moment(1)).map(Value::Timestamp)
    }),
    Function::new("timezone", &[INTERVAL, TIMESTAMP], MOMENT, |a, context| {
        let zone = zone_of(a.interval(0), &context.session.style)?;
        zone.moment(a.moment(1)).map(Value::TimestampTz)
    }),
    Function::new("timezone", &[INTERVAL, TIMETZ], TIMETZ, |a, context| {
        let style = &context.session.style;
        Ok(moved(
            a.zoned_time(1),
            zone_of(a.interval(0), style)?,
            style,
        ))
    }),
];
