//! What is wrong with the text of a date, a time or an interval.

use crate::{Error, SqlState};

/// A fault of a text, before it is known as which type the text was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::value) enum Fault {
    /// The text is not of the type.
    Format,
    /// A field has a value that there is not.
    Field,
    /// The month or the day has a value that there is not, perhaps because the text has
    /// another order.
    MonthOrDay,
    /// An interval is too long.
    Interval,
    /// An offset from Greenwich is too large.
    Displacement,
    /// There is no time zone of this name.
    Zone(String),
}

impl Fault {
    /// The error for a text that was read as the type named `kind`.
    pub(in crate::value) fn error(self, kind: &str, text: &str) -> Error {
        match self {
            Self::Format => Error::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {kind}: \"{text}\""),
            ),
            Self::Field => field(text),
            Self::MonthOrDay => {
                field(text).with_hint("Perhaps you need a different \"datestyle\" setting.")
            }
            Self::Interval => Error::new(
                SqlState::INTERVAL_FIELD_OVERFLOW,
                format!("interval field value out of range: \"{text}\""),
            ),
            Self::Displacement => Error::new(
                SqlState::INVALID_TIME_ZONE_DISPLACEMENT,
                format!("time zone displacement out of range: \"{text}\""),
            ),
            Self::Zone(name) => Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone \"{name}\" not recognized"),
            ),
        }
    }
}

fn field(text: &str) -> Error {
    Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

/// The error for a value that its type cannot hold.
pub(super) fn out_of_range(kind: &str, text: &str) -> Error {
    Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("{kind} out of range: \"{text}\""),
    )
}
