//! Text format of dates and timestamps: parser and printer.
//!
//! The printer writes ISO format, PostgreSQL's default: `2026-11-21 21:06:00.5+01`. The
//! parser splits the string into fields and classifies each, so that order matters
//! little: `21 Nov 2026`, `2026-11-21T21:06Z`, `11/21/2026 9:06 pm` (month first,
//! unless DateStyle says otherwise).

use std::io::Write;

use super::calendar::{self, Civil, DAY, SECOND};
use super::{DateOrder, Style, TimeZone};
use crate::{Error, Result, SqlState};

/// Result of parsing a date or timestamp string.
#[derive(Clone, Copy, Debug)]
enum Parsed {
    /// `infinity` or `-infinity`.
    Infinity { negative: bool },
    /// The moment named `now`.
    Moment(i64),
    /// `epoch`: 1970-01-01 00:00, in UTC for a timestamp with time zone, and without
    /// regard to any zone for the other types.
    Epoch,
    /// A local date and time, with the time zone if the string names one.
    Local {
        days: i64,
        /// Microseconds since midnight; 24:00 is allowed.
        time: i64,
        zone: Option<TimeZone>,
    },
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

fn invalid(kind: &str, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {kind}: \"{text}\""),
    )
}

fn field_out_of_range(text: &str) -> Error {
    Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

fn out_of_range(kind: &str, text: &str) -> Error {
    Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("{kind} out of range: \"{text}\""),
    )
}

/// The month whose name begins with `word`, which has at least three letters.
fn by_name(names: &[&str], word: &str) -> Option<usize> {
    if word.len() < 3 {
        return None;
    }
    names.iter().position(|name| name.starts_with(word))
}

/// Parses `12:34` or `12:34:56.789`; returns microseconds since midnight.
fn parse_time(field: &str, whole: &str) -> Result<Option<i64>> {
    let mut parts = field.split(':');
    let (Some(hours), Some(minutes)) = (parts.next(), parts.next()) else {
        return Ok(None);
    };
    let seconds = parts.next().unwrap_or("0");
    if parts.next().is_some() {
        return Ok(None);
    }
    let (whole_seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let number = |digits: &str| -> Option<i64> {
        (digits.len() <= 2 && !digits.is_empty())
            .then(|| digits.parse().ok())
            .flatten()
    };
    let (Some(hours), Some(minutes), Some(seconds)) =
        (number(hours), number(minutes), number(whole_seconds))
    else {
        return Ok(None);
    };
    let Some(micros) = parse_fraction(fraction) else {
        return Ok(None);
    };
    let time = ((hours * 60 + minutes) * 60 + seconds) * SECOND + micros;
    if minutes > 59 || seconds > 60 || time > DAY {
        return Err(field_out_of_range(whole));
    }
    Ok(Some(time))
}

/// Microseconds of a second's fraction, such as `123456789` in `.123456789`, rounded.
fn parse_fraction(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut micros = 0;
    for position in 0..6 {
        let digit = digits
            .as_bytes()
            .get(position)
            .map_or(0, |byte| byte - b'0');
        micros = micros * 10 + i64::from(digit);
    }
    if digits.as_bytes().get(6).is_some_and(|byte| *byte >= b'5') {
        micros += 1;
    }
    Some(micros)
}

/// Parses a zone offset: `+01`, `-0330`, `+05:30`, `+01:02:03`.
fn parse_offset(field: &str, whole: &str) -> Result<Option<TimeZone>> {
    let negative = field.starts_with('-');
    let digits = &field[1..];
    let parts: Vec<&str> = if digits.contains(':') {
        digits.split(':').collect()
    } else if digits.len() > 2 && digits.is_ascii() {
        let (hours, minutes) = digits.split_at(digits.len() - 2);
        vec![hours, minutes]
    } else {
        vec![digits]
    };
    if parts.len() > 3 {
        return Ok(None);
    }
    let mut seconds = 0;
    for (part, unit) in parts.iter().zip([3600, 60, 1]) {
        if part.is_empty() || part.len() > 2 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        let number: i32 = part.parse().unwrap_or(0);
        if unit != 3600 && number > 59 {
            return Err(zone_displacement(whole));
        }
        seconds += number * unit;
    }
    if seconds >= 16 * 3600 {
        return Err(zone_displacement(whole));
    }
    Ok(Some(TimeZone::Fixed(if negative {
        -seconds
    } else {
        seconds
    })))
}

fn zone_displacement(whole: &str) -> Error {
    Error::new(
        SqlState("22009"),
        format!("time zone displacement out of range: \"{whole}\""),
    )
}

/// Parses a year; a two-digit year lies between 1970 and 2069.
fn full_year(digits: &str) -> Option<i64> {
    let year: i64 = digits.parse().ok()?;
    if digits.len() > 2 {
        Some(year)
    } else if year < 70 {
        Some(year + 2000)
    } else {
        Some(year + 1900)
    }
}

#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<u32>,
    day: Option<u32>,
    time: Option<i64>,
    zone: Option<TimeZone>,
    before_christ: bool,
    afternoon: Option<bool>,
    numbers: Vec<String>,
}

fn parse(text: &str, kind: &str, style: &Style) -> Result<Parsed> {
    let lower = text.trim().to_lowercase();
    match lower.as_str() {
        "infinity" | "+infinity" => return Ok(Parsed::Infinity { negative: false }),
        "-infinity" => return Ok(Parsed::Infinity { negative: true }),
        "epoch" => return Ok(Parsed::Epoch),
        "now" => return Ok(Parsed::Moment(style.now)),
        "today" | "tomorrow" | "yesterday" => {
            let local = style.local(style.now);
            let shift = match lower.as_str() {
                "tomorrow" => 1,
                "yesterday" => -1,
                _ => 0,
            };
            return Ok(Parsed::Local {
                days: local.div_euclid(DAY) + shift,
                time: 0,
                zone: None,
            });
        }
        _ => {}
    }
    let mut fields = Fields::default();
    for field in split(&lower) {
        take_field(field, &mut fields, text, kind, style.date_order)?;
    }
    assemble(fields, text, kind)
}

/// Splits at blanks and commas, at the `t` between date and time, and before the sign
/// or zone that follows a time.
fn split(text: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ',') {
        let mut rest = word;
        // "2026-11-21t21:06"
        if let Some((date, time)) = rest.split_once('t')
            && date.ends_with(|c: char| c.is_ascii_digit())
            && time.starts_with(|c: char| c.is_ascii_digit())
        {
            fields.push(date);
            rest = time;
        }
        if let Some(colon) = rest.find(':')
            && !rest.starts_with(['+', '-'])
        {
            let tail = rest[colon..].find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.');
            if let Some(at) = tail {
                fields.push(&rest[..colon + at]);
                rest = &rest[colon + at..];
            }
        }
        if !rest.is_empty() {
            fields.push(rest);
        }
    }
    fields
}

fn take_field(
    field: &str,
    fields: &mut Fields,
    text: &str,
    kind: &str,
    order: DateOrder,
) -> Result<()> {
    let bad = || invalid(kind, text);
    let first = field.as_bytes()[0];
    if first == b'+' || first == b'-' {
        if fields.time.is_none() || fields.zone.is_some() {
            return Err(bad());
        }
        fields.zone = Some(parse_offset(field, text)?.ok_or_else(bad)?);
    } else if field.contains(':') {
        if fields.time.is_some() {
            return Err(bad());
        }
        fields.time = Some(parse_time(field, text)?.ok_or_else(bad)?);
    } else if first.is_ascii_digit() {
        if let Some(separator) = field.find(['-', '/', '.']) {
            let separator = field.as_bytes()[separator] as char;
            take_date(field, separator, fields, order).ok_or_else(bad)?;
        } else if field.bytes().all(|byte| byte.is_ascii_digit()) {
            if field.len() == 8 && fields.year.is_none() && fields.numbers.is_empty() {
                fields.year = field[..4].parse().ok();
                fields.month = field[4..6].parse().ok();
                fields.day = field[6..].parse().ok();
            } else if field.len() == 6 && fields.year.is_some() && fields.time.is_none() {
                let spread = format!("{}:{}:{}", &field[..2], &field[2..4], &field[4..]);
                fields.time = parse_time(&spread, text)?;
            } else {
                fields.numbers.push(field.to_owned());
            }
        } else {
            return Err(bad());
        }
    } else if let Some(month) = by_name(&MONTHS, field.trim_end_matches('.')) {
        if fields.month.is_some() {
            return Err(bad());
        }
        fields.month = Some(month as u32 + 1);
    } else if by_name(&WEEKDAYS, field.trim_end_matches('.')).is_some() || field == "ad" {
        // A weekday and "AD" add nothing to the other fields.
    } else if field == "bc" {
        fields.before_christ = true;
    } else if field == "am" || field == "pm" {
        fields.afternoon = Some(field == "pm");
    } else if (fields.time.is_some() || fields.year.is_some()) && fields.zone.is_none() {
        match TimeZone::named(field) {
            Some(zone) => fields.zone = Some(zone),
            None if field.contains('/') => {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("time zone \"{field}\" not recognized"),
                ));
            }
            None => return Err(bad()),
        }
    } else {
        return Err(bad());
    }
    Ok(())
}

/// Parses `2026-11-21`, `11/21/2026`, `21-nov-2026`; `None` if the field is not a date.
fn take_date(field: &str, separator: char, fields: &mut Fields, order: DateOrder) -> Option<()> {
    let parts: Vec<&str> = field.split(separator).collect();
    let [one, two, three] = parts[..] else {
        return None;
    };
    if fields.year.is_some() || fields.day.is_some() {
        return None;
    }
    let number = |digits: &str| -> Option<u32> {
        (!digits.is_empty() && digits.len() <= 2)
            .then(|| digits.parse().ok())
            .flatten()
    };
    if !one
        .bytes()
        .chain(three.bytes())
        .all(|byte| byte.is_ascii_digit())
        || one.is_empty()
    {
        return None;
    }
    if let Some(month) = by_name(&MONTHS, two) {
        fields.month = Some(month as u32 + 1);
        if one.len() > 2 || (order == DateOrder::YearFirst && three.len() <= 2) {
            fields.year = full_year(one);
            fields.day = Some(number(three)?);
        } else {
            fields.day = Some(number(one)?);
            fields.year = full_year(three);
        }
    } else if one.len() > 2 {
        fields.year = full_year(one);
        fields.month = Some(number(two)?);
        fields.day = Some(number(three)?);
    } else {
        let (year, month, day) = match order {
            DateOrder::MonthFirst => (three, one, two),
            DateOrder::DayFirst => (three, two, one),
            DateOrder::YearFirst => (one, two, three),
        };
        fields.month = Some(number(month)?);
        fields.day = Some(number(day)?);
        fields.year = full_year(year);
    }
    fields.year.map(|_| ())
}

fn assemble(mut fields: Fields, text: &str, kind: &str) -> Result<Parsed> {
    for number in std::mem::take(&mut fields.numbers) {
        if fields.month.is_some() && fields.day.is_none() && number.len() <= 2 {
            fields.day = number.parse().ok();
        } else if fields.month.is_some() && fields.year.is_none() {
            fields.year = full_year(&number);
        } else {
            return Err(invalid(kind, text));
        }
    }
    let (Some(mut year), Some(month), Some(day)) = (fields.year, fields.month, fields.day) else {
        return Err(invalid(kind, text));
    };
    if fields.before_christ {
        if year < 1 {
            return Err(field_out_of_range(text));
        }
        year = 1 - year;
    } else if year == 0 {
        return Err(field_out_of_range(text));
    }
    if !(1..=12).contains(&month) {
        return Err(field_out_of_range(text)
            .with_hint("Perhaps you need a different \"datestyle\" setting."));
    }
    if year > 6_000_000 || day == 0 || day > calendar::month_days(year, month) {
        return Err(field_out_of_range(text));
    }
    let mut time = fields.time.unwrap_or(0);
    if let Some(afternoon) = fields.afternoon {
        let hour = time / (3600 * SECOND);
        if !(1..=12).contains(&hour) {
            return Err(field_out_of_range(text));
        }
        match (afternoon, hour) {
            (true, 12) | (false, 1..=11) => {}
            (true, _) => time += DAY / 2,
            (false, _) => time -= DAY / 2,
        }
    }
    Ok(Parsed::Local {
        days: calendar::days(Civil { year, month, day }),
        time,
        zone: fields.zone,
    })
}

/// Parses a date; returns days since 2000-01-01.
pub(super) fn parse_date(text: &str, style: &Style) -> Result<i32> {
    let days = match parse(text, "date", style)? {
        Parsed::Infinity { negative } => return Ok(if negative { i32::MIN } else { i32::MAX }),
        Parsed::Moment(moment) => style.local(moment).div_euclid(DAY),
        Parsed::Epoch => -calendar::UNIX_EPOCH_DAYS,
        Parsed::Local { days, .. } => days,
    };
    if !(calendar::MIN_DATE..calendar::END_DATE).contains(&days) {
        return Err(out_of_range("date", text));
    }
    Ok(days as i32)
}

fn within(timestamp: Option<i64>, text: &str) -> Result<i64> {
    match timestamp {
        Some(timestamp)
            if (calendar::MIN_TIMESTAMP..calendar::END_TIMESTAMP).contains(&timestamp) =>
        {
            Ok(timestamp)
        }
        _ => Err(out_of_range("timestamp", text)),
    }
}

fn joined(days: i64, time: i64) -> Option<i64> {
    days.checked_mul(DAY)?.checked_add(time)
}

/// Parses a timestamp without time zone; ignores a zone in the string.
pub(super) fn parse_timestamp(text: &str, style: &Style) -> Result<i64> {
    match parse(text, "timestamp", style)? {
        Parsed::Infinity { negative } => Ok(if negative { i64::MIN } else { i64::MAX }),
        Parsed::Moment(moment) => Ok(style.local(moment)),
        Parsed::Epoch => Ok(-calendar::UNIX_EPOCH),
        Parsed::Local { days, time, .. } => within(joined(days, time), text),
    }
}

/// Parses a timestamp with time zone; uses the session's zone if the string has none.
pub(super) fn parse_timestamp_tz(text: &str, style: &Style) -> Result<i64> {
    match parse(text, "timestamp with time zone", style)? {
        Parsed::Infinity { negative } => Ok(if negative { i64::MIN } else { i64::MAX }),
        Parsed::Moment(moment) => Ok(moment),
        Parsed::Epoch => Ok(-calendar::UNIX_EPOCH),
        Parsed::Local { days, time, zone } => {
            let local = within(joined(days, time), text)?;
            within(Some(zone.unwrap_or(style.time_zone).moment_of(local)), text)
        }
    }
}

fn write_infinity(negative: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if negative { b"-infinity" } else { b"infinity" });
}

/// Appends formatted text; writing to a vector cannot fail.
macro_rules! append {
    ($out:expr, $($format:tt)*) => {
        write!($out, $($format)*).expect("a vector takes every write")
    };
}

/// Appends year, month and day; returns whether the day is before Christ.
fn write_day(days: i64, out: &mut Vec<u8>) -> bool {
    let Civil { year, month, day } = calendar::civil(days);
    let shown = if year > 0 { year } else { 1 - year };
    append!(out, "{shown:04}-{month:02}-{day:02}");
    year <= 0
}

fn write_clock(time: i64, out: &mut Vec<u8>) {
    let (seconds, micros) = (time / SECOND, time % SECOND);
    append!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    if micros != 0 {
        append!(out, ".{micros:06}");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

pub(super) fn write_date(days: i32, out: &mut Vec<u8>) {
    if days == i32::MIN || days == i32::MAX {
        return write_infinity(days == i32::MIN, out);
    }
    if write_day(i64::from(days), out) {
        out.extend_from_slice(b" BC");
    }
}

pub(super) fn write_timestamp(timestamp: i64, out: &mut Vec<u8>) {
    if timestamp == i64::MIN || timestamp == i64::MAX {
        return write_infinity(timestamp == i64::MIN, out);
    }
    let before_christ = write_day(timestamp.div_euclid(DAY), out);
    out.push(b' ');
    write_clock(timestamp.rem_euclid(DAY), out);
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

pub(super) fn write_timestamp_tz(moment: i64, zone: TimeZone, out: &mut Vec<u8>) {
    if moment == i64::MIN || moment == i64::MAX {
        return write_infinity(moment == i64::MIN, out);
    }
    let offset = zone.offset_at(moment);
    let local = moment.saturating_add(i64::from(offset) * SECOND);
    let before_christ = write_day(local.div_euclid(DAY), out);
    out.push(b' ');
    write_clock(local.rem_euclid(DAY), out);
    out.push(if offset < 0 { b'-' } else { b'+' });
    let east = offset.unsigned_abs();
    append!(out, "{:02}", east / 3600);
    if !east.is_multiple_of(3600) {
        append!(out, ":{:02}", east / 60 % 60);
    }
    if !east.is_multiple_of(60) {
        append!(out, ":{:02}", east % 60);
    }
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}
