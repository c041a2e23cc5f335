//! Values as text, in and out, as PostgreSQL 15 reads and prints them.

use smol_str::SmolStr;

use super::data_type::for_type;
use super::operations::{Representation, TypeOperations};
use super::{ColumnType, DataType, TimeZone, Value, for_value};
use crate::{Error, Result, SqlState};

/// Which part of `01/02/2026` is which.
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

/// What reading and printing depend on besides the type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// The session's time zone.
    pub time_zone: TimeZone,
    /// How dates are read whose parts could be each other's.
    pub date_order: DateOrder,
    /// When the transaction began, in microseconds since 2000 UTC: what `now`
    /// and `today` mean.
    pub now: i64,
}

impl Style {
    /// What the clock on the session's wall shows at a moment.
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

/// What C calls white space.
pub(super) const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\u{b}', '\u{c}'];

/// Checks a string for the one character that text cannot hold.
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
    /// Reads a string as a value of a type, as a cast from a literal does.
    ///
    /// `regclass` and its like need the catalog and are not read here.
    pub fn parse(text: &str, column_type: ColumnType, style: &Style) -> Result<Self> {
        for_type!(column_type.data_type, T => {
            T::fit(T::parse_text(text, style)?, column_type, Fit::Assign)
        })
    }

    /// Appends the value as text. Returns false, having appended nothing, for a
    /// null.
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

/// The first 63 bytes, whole characters only.
#[must_use]
pub fn truncate_name(name: &str) -> &str {
    let mut end = name.len().min(63);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// How a value meets its column's modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// What does not fit is an error, unless only blanks are lost.
    Assign,
    /// Strings are cut to length.
    Cast,
}

impl Value {
    /// Brings a value of the type into the form its modifier asks for: rounds
    /// numerics, checks or cuts strings, takes the padding off `char(n)`.
    pub fn fit(self, column_type: ColumnType, fit: Fit) -> Result<Self> {
        for_type!(column_type.data_type, T => T::fit(self, column_type, fit))
    }
}
