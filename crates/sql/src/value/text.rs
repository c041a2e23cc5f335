//! Text format of values: parser and printer, as in PostgreSQL 15.

use smol_str::SmolStr;

use super::data_type::for_type;
use super::operations::{Representation, TypeOperations};
use super::{ColumnType, DataType, Encoding, IntervalStyle, TimeZone, Value, for_value};
use crate::{Error, Result, SqlState};

/// Order of day, month and year in a date such as `01/02/2026`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    MonthFirst,
    /// Day, month, year.
    DayFirst,
    /// Year, month, day.
    YearFirst,
}

/// How dates and timestamps are printed: the first part of `DateStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateFormat {
    /// `2026-11-21 21:06:00+01`
    #[default]
    Iso,
    /// `11/21/2026 21:06:00 CET`
    Sql,
    /// `Sat Nov 21 21:06:00 2026 CET`
    Postgres,
    /// `21.11.2026 21:06:00 CET`
    German,
}

/// Session state that parsing and printing depend on, besides the type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// The session's time zone.
    pub time_zone: TimeZone,
    /// Order in which the parser reads the parts of an ambiguous date.
    pub date_order: DateOrder,
    /// How dates and timestamps are printed.
    pub date_format: DateFormat,
    /// How intervals are printed.
    pub interval_style: IntervalStyle,
    /// Digits of floating-point numbers, as `extra_float_digits` has them below 1: so many
    /// more than the type keeps of every decimal (6 or 15). `None` is as few as read as the
    /// same number.
    pub rounded_floats: Option<i8>,
    /// Encoding of the client, where values are written for one; UTF-8 everywhere else.
    pub encoding: Encoding,
    /// Start time of the transaction, in microseconds since 2000 UTC: the value of
    /// `now`, and the day of `today`.
    pub now: i64,
    /// Whether `bytea` prints in the escape format (`bytea_output`).
    pub bytes_as_escapes: bool,
}

impl Style {
    /// Local time in the session's time zone at a moment, in microseconds since 2000.
    #[must_use]
    pub fn local(&self, moment: i64) -> i64 {
        if moment == i64::MIN || moment == i64::MAX {
            return moment;
        }
        let east = i64::from(self.time_zone.offset_at(moment));
        moment.saturating_add(east * super::calendar::SECOND)
    }
}

pub(super) fn invalid(data_type: DataType, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {data_type}: \"{text}\""),
    )
}

pub(super) fn out_of_range(data_type: DataType, text: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {data_type}"),
    )
}

/// White space as C's `isspace` defines it.
pub(super) const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\u{b}', '\u{c}'];

/// Checks that a string does not contain NUL, which text cannot store.
pub fn check_text(text: &str) -> Result<()> {
    if text.as_bytes().contains(&0) {
        return Err(Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    Ok(())
}

impl Value {
    /// Parses a string as a value of a type, as a cast from a literal does.
    ///
    /// The types `regclass` and its like need the catalog and are not parsed here.
    pub fn parse(text: &str, column_type: ColumnType, style: &Style) -> Result<Self> {
        // The fields of an interval's type give its numbers their units.
        if column_type.data_type == DataType::Interval {
            let interval = super::interval::parse(text, column_type.modifier, style)?;
            return Ok(Self::Interval(interval));
        }
        for_type!(column_type.data_type, T => {
            T::fit(T::parse_text(text, style)?, column_type, Fit::Assign)
        })
    }

    /// Appends the value as text. Returns false and appends nothing for a null.
    pub fn write_text(&self, column_type: ColumnType, style: &Style, out: &mut Vec<u8>) -> bool {
        for_value!(self, null => return false, (V, content) => {
            V::write_text(content, column_type, style, out);
        });
        true
    }

    /// The value as text; `None` for a null.
    #[must_use]
    pub fn to_text(&self, column_type: ColumnType, style: &Style) -> Option<SmolStr> {
        if let Self::Text(text) = self
            && column_type.data_type != DataType::Char
        {
            return Some(text.clone());
        }
        let mut bytes = Vec::new();
        self.write_text(column_type, style, &mut bytes)
            .then(|| SmolStr::from(String::from_utf8_lossy(&bytes)))
    }
}

/// The first 63 bytes, cut at a character boundary.
#[must_use]
pub fn truncate_name(name: &str) -> &str {
    let mut end = name.len().min(63);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// How a value is adapted to its column's type modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Assignment: a value that does not fit is an error, unless the cut removes only
    /// blanks.
    Assign,
    /// Explicit cast: strings are cut to length.
    Cast,
}

impl Value {
    /// Adapts a value to the type's modifier: rounds numerics, checks or cuts strings,
    /// removes the padding of `char(n)`.
    pub fn fit(self, column_type: ColumnType, fit: Fit) -> Result<Self> {
        for_type!(column_type.data_type, T => T::fit(self, column_type, fit))
    }
}
