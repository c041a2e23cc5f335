//! Printer of dates and times, in the styles of the setting `DateStyle`.

use std::io::Write;

use crate::value::calendar::{self, Civil, DAY, SECOND};
use crate::value::{DateFormat, DateOrder, Style};

/// Appends formatted text; writing to a vector cannot fail.
macro_rules! append {
    ($out:expr, $($format:tt)*) => {
        write!($out, $($format)*).expect("a vector takes every write")
    };
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

fn write_infinity(negative: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if negative { b"-infinity" } else { b"infinity" });
}

/// The year as it is shown: there is no year 0, and the one before 1 is 1 BC.
fn shown_year(year: i64) -> i64 {
    if year > 0 { year } else { 1 - year }
}

/// Appends year, month and day; returns whether the day is before Christ.
fn write_day(days: i64, style: &Style, out: &mut Vec<u8>) -> bool {
    let Civil { year, month, day } = calendar::civil(days);
    let shown = shown_year(year);
    let day_first = style.date_order == DateOrder::DayFirst;
    let (first, second) = if day_first {
        (day, month)
    } else {
        (month, day)
    };
    match style.date_format {
        DateFormat::Iso => append!(out, "{shown:04}-{month:02}-{day:02}"),
        DateFormat::Sql => append!(out, "{first:02}/{second:02}/{shown:04}"),
        DateFormat::German => append!(out, "{day:02}.{month:02}.{shown:04}"),
        DateFormat::Postgres => append!(out, "{first:02}-{second:02}-{shown:04}"),
    }
    year <= 0
}

/// Appends a time of day.
pub(in crate::value) fn write_clock(time: i64, out: &mut Vec<u8>) {
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

/// Appends an offset from Greenwich.
pub(in crate::value) fn write_offset(offset: i32, out: &mut Vec<u8>) {
    out.push(if offset < 0 { b'-' } else { b'+' });
    let east = offset.unsigned_abs();
    append!(out, "{:02}", east / 3600);
    if !east.is_multiple_of(3600) {
        append!(out, ":{:02}", east / 60 % 60);
    }
    if !east.is_multiple_of(60) {
        append!(out, ":{:02}", east % 60);
    }
}

pub(in crate::value) fn write_date(days: i32, style: &Style, out: &mut Vec<u8>) {
    if days == i32::MIN || days == i32::MAX {
        return write_infinity(days == i32::MIN, out);
    }
    if write_day(i64::from(days), style, out) {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a date and a time of day, with the time zone if `zone` writes one. Style
/// `Postgres` puts the year behind the time.
fn write_local(local: i64, style: &Style, out: &mut Vec<u8>, zone: impl FnOnce(&mut Vec<u8>)) {
    let days = local.div_euclid(DAY);
    let before_christ = if style.date_format == DateFormat::Postgres {
        let Civil { year, month, day } = calendar::civil(days);
        let weekday = WEEKDAYS[calendar::day_of_week(days) as usize];
        let month = MONTHS[month as usize - 1];
        match style.date_order {
            DateOrder::DayFirst => append!(out, "{weekday} {day:02} {month} "),
            DateOrder::MonthFirst | DateOrder::YearFirst => {
                append!(out, "{weekday} {month} {day:02} ");
            }
        }
        write_clock(local.rem_euclid(DAY), out);
        append!(out, " {:04}", shown_year(year));
        year <= 0
    } else {
        let before_christ = write_day(days, style, out);
        out.push(b' ');
        write_clock(local.rem_euclid(DAY), out);
        before_christ
    };
    zone(out);
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

pub(in crate::value) fn write_timestamp(timestamp: i64, style: &Style, out: &mut Vec<u8>) {
    if timestamp == i64::MIN || timestamp == i64::MAX {
        return write_infinity(timestamp == i64::MIN, out);
    }
    write_local(timestamp, style, out, |_| {});
}

pub(in crate::value) fn write_timestamp_tz(moment: i64, style: &Style, out: &mut Vec<u8>) {
    if moment == i64::MIN || moment == i64::MAX {
        return write_infinity(moment == i64::MIN, out);
    }
    let zone = style.time_zone;
    let offset = zone.offset_at(moment);
    let local = moment.saturating_add(i64::from(offset) * SECOND);
    write_local(local, style, out, |out| {
        if style.date_format == DateFormat::Iso {
            write_offset(offset, out);
        } else {
            append!(out, " {}", zone.abbreviation_at(moment));
        }
    });
}
