//! Text format of dates, times and timestamps: parser and printer.
//!
//! | file | does |
//! | --- | --- |
//! | `plain` | reads the usual form at once |
//! | `lexer` | splits a text into fields |
//! | `words` | what words mean |
//! | `decode` | gives each field its meaning |
//! | `civil` | digits, dates and times with punctuation; checks of fields |
//! | `write` | prints, in the styles of `DateStyle` |
//!
//! Order matters little to the parser: `21 Nov 2026`, `2026-11-21T21:06Z`,
//! `11/21/2026 9:06 pm` (month first, unless `DateStyle` says otherwise).

mod civil;
mod decode;
mod fault;
mod lexer;
mod plain;
mod words;
mod write;

pub(super) use self::civil::{clock, fraction};
pub(super) use self::fault::Fault;
pub(super) use self::lexer::{Field, Shape, split};
pub(super) use self::words::cut as cut_word;
pub(super) use self::write::{
    write_clock, write_date, write_offset, write_timestamp, write_timestamp_tz,
};

use self::decode::{Decoded, Wanted, decode};
use self::fault::out_of_range;
use super::Style;
use super::calendar::{self, DAY, SECOND};
use crate::Result;

/// Why a text is no offset from Greenwich.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetFault {
    /// The offset is too large.
    TooLarge,
    /// The text has no sign, or is not a number.
    NotOne,
}

/// Parses an offset with its sign; returns seconds east of Greenwich.
pub(crate) fn parse_offset(text: &str) -> std::result::Result<i64, OffsetFault> {
    civil::offset(text).map_err(|fault| match fault {
        Fault::Displacement => OffsetFault::TooLarge,
        Fault::Format | Fault::Field | Fault::MonthOrDay | Fault::Interval | Fault::Zone(_) => {
            OffsetFault::NotOne
        }
    })
}

fn read(text: &str, kind: &str, wanted: Wanted, style: &Style) -> Result<Decoded> {
    split(text)
        .and_then(|fields| decode(&fields, wanted, style))
        .map_err(|fault| fault.error(kind, text))
}

/// Parses a date; returns days since 2000-01-01.
pub(super) fn parse_date(text: &str, style: &Style) -> Result<i32> {
    if let Some(plain) = plain::read(text) {
        return Ok(plain.days as i32);
    }
    let days = match read(text, "date", Wanted::DateTime, style)? {
        Decoded::Infinity { negative } => return Ok(if negative { i32::MIN } else { i32::MAX }),
        Decoded::Epoch => -calendar::UNIX_EPOCH_DAYS,
        Decoded::Local { days, .. } => days,
    };
    if !(calendar::MIN_DATE..calendar::END_DATE).contains(&days) {
        return Err(out_of_range("date", text));
    }
    Ok(days as i32)
}

fn within(timestamp: Option<i64>, text: &str) -> Result<i64> {
    timestamp
        .and_then(calendar::in_range)
        .ok_or_else(|| out_of_range("timestamp", text))
}

fn joined(days: i64, time: i64) -> Option<i64> {
    days.checked_mul(DAY)?.checked_add(time)
}

/// Parses a timestamp without time zone; ignores a zone in the string.
pub(super) fn parse_timestamp(text: &str, style: &Style) -> Result<i64> {
    if let Some(plain) = plain::read(text) {
        return within(joined(plain.days, plain.time), text);
    }
    match read(text, "timestamp", Wanted::DateTime, style)? {
        Decoded::Infinity { negative } => Ok(if negative { i64::MIN } else { i64::MAX }),
        Decoded::Epoch => Ok(-calendar::UNIX_EPOCH),
        Decoded::Local { days, time, .. } => within(joined(days, time), text),
    }
}

/// Parses a timestamp with time zone; uses the session's zone if the string has none.
pub(super) fn parse_timestamp_tz(text: &str, style: &Style) -> Result<i64> {
    if let Some(plain) = plain::read(text) {
        let local = within(joined(plain.days, plain.time), text)?;
        return Ok(match plain.east {
            Some(east) => local - east * SECOND,
            None => style.time_zone.moment_of(local),
        });
    }
    match read(text, "timestamp with time zone", Wanted::DateTime, style)? {
        Decoded::Infinity { negative } => Ok(if negative { i64::MIN } else { i64::MAX }),
        Decoded::Epoch => Ok(-calendar::UNIX_EPOCH),
        Decoded::Local { days, time, east } => {
            let moment = joined(days, time).and_then(|local| local.checked_sub(east * SECOND));
            within(moment, text)
        }
    }
}

/// Parses a time of day; ignores a zone in the string. Returns microseconds since
/// midnight.
pub(super) fn parse_time(text: &str, style: &Style) -> Result<i64> {
    match read(text, "time", Wanted::Time, style)? {
        Decoded::Local { time, .. } => Ok(time),
        Decoded::Infinity { .. } | Decoded::Epoch => Err(Fault::Format.error("time", text)),
    }
}

/// Parses a time of day with its zone. Returns microseconds since midnight, and seconds
/// west of Greenwich.
pub(super) fn parse_time_tz(text: &str, style: &Style) -> Result<(i64, i32)> {
    let kind = "time with time zone";
    match read(text, kind, Wanted::Time, style)? {
        Decoded::Local { time, east, .. } => Ok((time, -(east as i32))),
        Decoded::Infinity { .. } | Decoded::Epoch => Err(Fault::Format.error(kind, text)),
    }
}
