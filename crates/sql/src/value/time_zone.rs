//! Time zones: converts between moments and local time.

use std::fmt;

use chrono::{Offset, TimeZone as _};
use chrono_tz::OffsetName;
use smol_str::{SmolStr, format_smolstr};

use super::calendar::{self, Civil, DAY, SECOND, UNIX_EPOCH};
use super::{DataType, Interval, Style, Value};
use crate::{Error, Result, SqlState};

/// A session's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeZone {
    /// A zone of the time zone database, with its daylight saving rules.
    Place(chrono_tz::Tz),
    /// A fixed offset, in seconds east of Greenwich.
    Fixed(i32),
}

impl Default for TimeZone {
    fn default() -> Self {
        Self::Place(chrono_tz::Tz::Etc__UTC)
    }
}

/// Maximum offset, in seconds.
const MAX_OFFSET: i32 = 168 * 3600;

/// First year that the rules of the library do not tell.
const UNTOLD_YEAR: i64 = 2100;
/// Microseconds from 2000 to the first year that the library does not tell.
const UNTOLD: i64 = 36_525 * DAY;
/// Years after which the weekdays of a calendar come back.
const SOLAR_CYCLE: i64 = 28;

/// Longest time for which an abbreviation is looked for, in steps of a month.
const ABBREVIATION_STEPS: i64 = 12 * 80;

/// A moment in the last years whose rules the library tells, in a year that has the same
/// weekdays: zones that change their clocks do so by weekdays.
fn with_rules(moment: i64) -> i64 {
    if moment < UNTOLD {
        return moment;
    }
    let first = |year: i64| {
        calendar::days(Civil {
            year,
            month: 1,
            day: 1,
        })
    };
    let year = calendar::civil(moment.div_euclid(DAY)).year;
    let (begin, end) = (first(year), first(year + 1));
    let like = (UNTOLD_YEAR - SOLAR_CYCLE..UNTOLD_YEAR).find(|other| {
        let (other_begin, other_end) = (first(*other), first(other + 1));
        other_end - other_begin == end - begin
            && calendar::day_of_week(other_begin) == calendar::day_of_week(begin)
    });
    let shift = begin - first(like.unwrap_or(UNTOLD_YEAR - 1));
    moment - shift * DAY
}

impl TimeZone {
    /// The zone with this name: one of the database, or an offset in POSIX's form, which
    /// counts west of Greenwich (`FOO+5`, `<+0530>-05:30`).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utc") {
            return Some(Self::Place(chrono_tz::Tz::UTC));
        }
        chrono_tz::TZ_VARIANTS
            .iter()
            .find(|zone| zone.name().eq_ignore_ascii_case(name))
            .map(|zone| Self::Place(*zone))
            .or_else(|| posix(name))
    }

    /// All zones of the database.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        chrono_tz::TZ_VARIANTS.iter().map(|zone| Self::Place(*zone))
    }

    /// The zone that a number means as a value of the setting: hours east of Greenwich.
    #[must_use]
    pub fn of_hours(hours: &str) -> Option<Self> {
        let hours: f64 = hours.trim().parse().ok()?;
        let seconds = (hours * 3600.0).trunc();
        (seconds.abs() <= f64::from(MAX_OFFSET)).then_some(Self::Fixed(seconds as i32))
    }

    /// The zone whose offset is an interval, as SET TIME ZONE takes one; error 22023.
    pub(crate) fn of_interval(interval: Interval) -> Result<Self> {
        let refused = |detail: &str| {
            let shown = Value::Interval(interval);
            let shown = shown.to_text(DataType::Interval.into(), &Style::default());
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!(
                    "invalid value for parameter \"TimeZone\": \"INTERVAL '{}'\"",
                    shown.unwrap_or_default()
                ),
            )
            .with_detail(detail)
        };
        if interval.months != 0 {
            return Err(refused("Cannot specify months in time zone interval."));
        }
        if interval.days != 0 {
            return Err(refused("Cannot specify days in time zone interval."));
        }
        Self::of_seconds(interval.micros / SECOND)
            .ok_or_else(|| refused("UTC timezone offset is out of range."))
    }

    /// The zone with a fixed offset, in seconds east of Greenwich.
    #[must_use]
    pub fn of_seconds(east: i64) -> Option<Self> {
        let east = i32::try_from(east).ok()?;
        (east.abs() <= MAX_OFFSET).then_some(Self::Fixed(east))
    }

    /// Offset in seconds east of Greenwich at a moment (microseconds since 2000 UTC).
    #[must_use]
    pub fn offset_at(self, moment: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Place(zone) => at(zone, moment).map_or(0, |(east, _)| east),
        }
    }

    /// The abbreviation in force at a moment: `CET`, or `+03` where there is none.
    #[must_use]
    pub fn abbreviation_at(self, moment: i64) -> SmolStr {
        match self {
            Self::Fixed(seconds) => numeric_abbreviation(seconds, ":"),
            Self::Place(zone) => match at(zone, moment) {
                Some((_, Some(name))) => name,
                Some((east, None)) => numeric_abbreviation(east, ""),
                None => numeric_abbreviation(0, ""),
            },
        }
    }

    /// Whether daylight saving time is in force at a moment.
    #[must_use]
    pub(crate) fn is_daylight_at(self, moment: i64) -> bool {
        let Self::Place(zone) = self else {
            return false;
        };
        let unix = with_rules(moment)
            .saturating_add(UNIX_EPOCH)
            .div_euclid(SECOND);
        chrono::DateTime::from_timestamp(unix, 0).is_some_and(|utc| {
            use chrono_tz::OffsetComponents;
            let offset = zone.offset_from_utc_datetime(&utc.naive_utc());
            !offset.dst_offset().is_zero()
        })
    }

    /// The offset, if the zone has always had the same.
    #[must_use]
    pub(crate) fn fixed_offset(self) -> Option<i32> {
        let half_year = 182 * DAY;
        let first = self.offset_at(-150 * 365 * DAY);
        let mut moments = (-300..80_i64).map(|step| step * half_year);
        moments
            .all(|moment| self.offset_at(moment) == first)
            .then_some(first)
    }

    /// The offset that an abbreviation in lower case had when it was last in force before
    /// a local time, or else first after it; the zone's own if it never was.
    #[must_use]
    pub(crate) fn offset_named(self, abbreviation: &str, local: i64) -> i32 {
        let moment = self.moment_of(local);
        let is_named = |at: &i64| {
            let shown = self.abbreviation_at(*at);
            shown.eq_ignore_ascii_case(abbreviation)
        };
        let step = |count: i64| moment.saturating_add(count * 30 * DAY);
        let before = (0..ABBREVIATION_STEPS).map(|count| step(-count));
        let after = (1..ABBREVIATION_STEPS).map(step);
        let found = before.chain(after).find(is_named);
        self.offset_at(found.unwrap_or(moment))
    }

    /// The moment at which local time in the zone is `local`. A local time that a
    /// change of the clock skips or repeats is read with the offset in force before the
    /// change, as PostgreSQL does.
    #[must_use]
    pub fn moment_of(self, local: i64) -> i64 {
        let east = |moment| i64::from(self.offset_at(moment)) * SECOND;
        // One day before `local`, the offset is the one before any change nearby.
        let before = local.saturating_sub(east(local.saturating_sub(DAY)));
        let after = local.saturating_sub(east(local.saturating_add(DAY)));
        if before == after {
            return before;
        }
        // One of the two readings is consistent with itself, unless the local time is
        // skipped; a repeated time is consistent with both and means the later one
        // (standard time), as a skipped one is read in standard time.
        let after_holds = after.saturating_add(east(after)) == local;
        let before_holds = before.saturating_add(east(before)) == local;
        match (before_holds, after_holds) {
            (true, false) => before,
            (false, true) => after,
            _ => before.max(after),
        }
    }
}

/// Offset and abbreviation of a zone at a moment.
fn at(zone: chrono_tz::Tz, moment: i64) -> Option<(i32, Option<SmolStr>)> {
    let unix = with_rules(moment)
        .saturating_add(UNIX_EPOCH)
        .div_euclid(SECOND);
    let utc = chrono::DateTime::from_timestamp(unix, 0)?;
    let offset = zone.offset_from_utc_datetime(&utc.naive_utc());
    Some((
        offset.fix().local_minus_utc(),
        offset.abbreviation().map(SmolStr::new),
    ))
}

fn numeric_abbreviation(east: i32, separator: &str) -> SmolStr {
    let sign = if east < 0 { '-' } else { '+' };
    let (hours, minutes) = (east.abs() / 3600, east.abs() / 60 % 60);
    match minutes {
        0 => format_smolstr!("{sign}{hours:02}"),
        _ => format_smolstr!("{sign}{hours:02}{separator}{minutes:02}"),
    }
}

/// A zone in POSIX's form, without daylight saving time.
fn posix(name: &str) -> Option<TimeZone> {
    let rest = match name.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => {
            let end = name.find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+'));
            &name[end?..]
        }
    };
    let (west, digits) = match rest.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, rest.strip_prefix('+').unwrap_or(rest)),
    };
    let mut seconds = 0;
    let mut parts = digits.split(':');
    for unit in [3600, 60, 1] {
        let Some(part) = parts.next() else { break };
        if part.is_empty() || part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: i64 = part.parse().ok()?;
        if unit != 3600 && number > 59 {
            return None;
        }
        seconds += number * unit;
    }
    match parts.next() {
        None => TimeZone::of_seconds(-west * seconds),
        Some(_) => None,
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(zone) => formatter.write_str(zone.name()),
            Self::Fixed(seconds) => {
                // POSIX offsets count west of Greenwich.
                let (sign, west) = if *seconds < 0 { ('-', '+') } else { ('+', '-') };
                let seconds = seconds.abs();
                let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
                let offset = match (minutes, rest) {
                    (0, 0) => format_smolstr!("{hours:02}"),
                    (_, 0) => format_smolstr!("{hours:02}:{minutes:02}"),
                    _ => format_smolstr!("{hours:02}:{minutes:02}:{rest:02}"),
                };
                write!(formatter, "<{sign}{offset}>{west}{offset}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_change_far_ahead_as_they_do_today() {
        let zone = TimeZone::named("America/Los_Angeles").unwrap();
        let july = |year| {
            calendar::days(Civil {
                year,
                month: 7,
                day: 10,
            }) * DAY
        };
        for year in [2024, 2099, 2100, 2400, 205_000, 294_000] {
            assert_eq!(zone.offset_at(july(year)), -25_200, "{year}");
            assert_eq!(zone.offset_at(july(year) + 150 * DAY), -28_800, "{year}");
        }
        assert_eq!(zone.abbreviation_at(july(205_000)), "PDT");
    }

    #[test]
    fn offsets_of_posix_count_west() {
        for (name, east) in [
            ("FOO+5", -18_000),
            ("foo-5:30", 19_800),
            ("<+05>-05", 18_000),
            ("UTC3", -10_800),
            ("+5", -18_000),
            ("-05", 18_000),
        ] {
            assert_eq!(TimeZone::named(name), Some(TimeZone::Fixed(east)), "{name}");
        }
        for name in ["", "FOO", "FOO+", "FOO+5BAR", "<x", "FOO+200"] {
            assert_eq!(TimeZone::named(name), None, "{name}");
        }
        assert_eq!(TimeZone::Fixed(0).to_string(), "<+00>-00");
        assert_eq!(TimeZone::Fixed(-19_800).to_string(), "<-05:30>+05:30");
    }

    #[test]
    fn zones_of_one_offset_are_known() {
        assert_eq!(
            TimeZone::named("Etc/GMT+5").unwrap().fixed_offset(),
            Some(-18_000)
        );
        assert_eq!(TimeZone::named("UTC").unwrap().fixed_offset(), Some(0));
        assert_eq!(TimeZone::named("Asia/Tokyo").unwrap().fixed_offset(), None);
    }
}
