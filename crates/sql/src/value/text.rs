//! Values as text, in and out, as PostgreSQL 15 reads and prints them.

use std::io::Write;
use std::sync::Arc;

use smol_str::SmolStr;

use super::{ColumnType, DataType, Numeric, TimeZone, Value, array, date_time};
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

fn invalid(data_type: DataType, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {data_type}: \"{text}\""),
    )
}

fn out_of_range(data_type: DataType, text: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {data_type}"),
    )
}

/// What C calls white space.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\u{b}', '\u{c}'];

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
        parse_unmodified(text, column_type.data_type, style)?.fit(column_type, Fit::Assign)
    }

    /// Appends the value as text. Returns false, having appended nothing, for a
    /// null.
    pub fn write_text(&self, column_type: ColumnType, style: &Style, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Null => return false,
            Self::Bool(truth) => out.push(if *truth { b't' } else { b'f' }),
            Self::Int2(number) => write_integer(i64::from(*number), out),
            Self::Int4(number) => write_integer(i64::from(*number), out),
            Self::Int8(number) => write_integer(*number, out),
            Self::Oid(number) => write_integer(i64::from(*number), out),
            Self::Float4(number) => write_float(
                *number == 0.0,
                f64::from(*number),
                &format!("{number:e}"),
                6,
                out,
            ),
            Self::Float8(number) => {
                write_float(*number == 0.0, *number, &format!("{number:e}"), 15, out);
            }
            Self::Numeric(number) => {
                write!(out, "{number}").expect("a vector takes every write");
            }
            Self::Text(text) => {
                out.extend_from_slice(text.as_bytes());
                if column_type.data_type == DataType::Char
                    && let Some(length) = column_type.length()
                {
                    let characters = text.chars().count();
                    out.resize(out.len() + length.saturating_sub(characters), b' ');
                }
            }
            Self::Date(days) => date_time::write_date(*days, out),
            Self::Timestamp(timestamp) => date_time::write_timestamp(*timestamp, out),
            Self::TimestampTz(moment) => {
                date_time::write_timestamp_tz(*moment, style.time_zone, out);
            }
            Self::Object(_, name) => out.extend_from_slice(name.as_bytes()),
            Self::Char(0) => {}
            Self::Char(byte) => out.push(*byte),
            Self::Array(elements) => array::write(elements, column_type, style, out),
        }
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

fn parse_unmodified(text: &str, data_type: DataType, style: &Style) -> Result<Value> {
    let trimmed = text.trim_matches(BLANKS);
    Ok(match data_type {
        DataType::Bool => Value::Bool(parse_bool(trimmed).ok_or_else(|| invalid(data_type, text))?),
        DataType::Int2 => Value::Int2(parse_integer(text, trimmed, data_type)?),
        DataType::Int4 => Value::Int4(parse_integer(text, trimmed, data_type)?),
        DataType::Int8 => Value::Int8(parse_integer(text, trimmed, data_type)?),
        DataType::Oid => {
            let number: i64 = parse_integer(text, trimmed, data_type)?;
            // Negative numbers mean what they mean in C.
            match u32::try_from(number).or_else(|_| i32::try_from(number).map(|n| n as u32)) {
                Ok(oid) => Value::Oid(oid),
                Err(_) => return Err(out_of_range(data_type, text)),
            }
        }
        DataType::Float4 => {
            let number = parse_float(text, trimmed, data_type)?;
            let narrow = number as f32;
            if narrow.is_infinite() && number.is_finite() || narrow == 0.0 && number != 0.0 {
                return Err(float_out_of_range(text, data_type));
            }
            Value::Float4(narrow)
        }
        DataType::Float8 => Value::Float8(parse_float(text, trimmed, data_type)?),
        DataType::Numeric => Value::Numeric(Box::new(
            Numeric::parse(text)?.ok_or_else(|| invalid(data_type, text))?,
        )),
        DataType::Text | DataType::VarChar | DataType::Unknown | DataType::Char => {
            check_text(text)?;
            Value::text(text)
        }
        DataType::Name => {
            check_text(text)?;
            Value::text(truncate_name(text))
        }
        DataType::InternalChar => {
            check_text(text)?;
            Value::Char(text.bytes().next().unwrap_or(0))
        }
        DataType::Date => Value::Date(date_time::parse_date(text, style)?),
        DataType::Timestamp => Value::Timestamp(date_time::parse_timestamp(text, style)?),
        DataType::TimestampTz => Value::TimestampTz(date_time::parse_timestamp_tz(text, style)?),
        DataType::Void => Value::text(""),
        _ => match data_type.element() {
            Some(element) => {
                Value::Array(Arc::from(array::parse(text, data_type, element, style)?))
            }
            None => {
                return Err(Error::unsupported(format_args!(
                    "reading a value of type {data_type}"
                )));
            }
        },
    })
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
        match (&self, column_type.data_type) {
            (Self::Text(text), DataType::Char | DataType::VarChar) => {
                let is_char = column_type.data_type == DataType::Char;
                let mut kept: &str = text;
                if let Some(length) = column_type.length()
                    && text.len() > length
                    && let Some((cut, _)) = text.char_indices().nth(length)
                {
                    let lost = &text[cut..];
                    if fit == Fit::Assign && lost.bytes().any(|byte| byte != b' ') {
                        return Err(Error::new(
                            SqlState::STRING_DATA_RIGHT_TRUNCATION,
                            format!("value too long for type {column_type}"),
                        ));
                    }
                    kept = &text[..cut];
                }
                if is_char {
                    kept = kept.trim_end_matches(' ');
                }
                if kept.len() == text.len() {
                    return Ok(self);
                }
                Ok(Self::text(kept))
            }
            (Self::Numeric(number), DataType::Numeric) => match column_type.precision_and_scale() {
                Some((precision, scale)) => {
                    Ok(Self::Numeric(Box::new(number.fit(precision, scale)?)))
                }
                None => Ok(self),
            },
            (Self::Timestamp(time), DataType::Timestamp) => {
                Ok(Self::Timestamp(round_time(*time, column_type.modifier)))
            }
            (Self::TimestampTz(time), DataType::TimestampTz) => {
                Ok(Self::TimestampTz(round_time(*time, column_type.modifier)))
            }
            _ => Ok(self),
        }
    }
}

/// Rounds a timestamp to so many digits of a second's fraction.
fn round_time(time: i64, digits: i32) -> i64 {
    if !(0..6).contains(&digits) || time == i64::MIN || time == i64::MAX {
        return time;
    }
    let unit = 10_i64.pow(6 - digits as u32);
    let half = unit / 2;
    if time >= 0 {
        time.saturating_add(half) / unit * unit
    } else {
        -((-time).saturating_add(half) / unit * unit)
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    if lower.is_empty() {
        return None;
    }
    match lower.as_str() {
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        "o" => None,
        other if "true".starts_with(other) || "yes".starts_with(other) => Some(true),
        other if "false".starts_with(other) || "no".starts_with(other) => Some(false),
        _ => None,
    }
}

fn parse_integer<T: std::str::FromStr>(
    text: &str,
    trimmed: &str,
    data_type: DataType,
) -> Result<T> {
    trimmed.parse().map_err(|_| {
        let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            out_of_range(data_type, text)
        } else {
            invalid(data_type, text)
        }
    })
}

fn float_out_of_range(text: &str, data_type: DataType) -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{text}\" is out of range for type {data_type}"),
    )
}

fn parse_float(text: &str, trimmed: &str, data_type: DataType) -> Result<f64> {
    let number: f64 = trimmed.parse().map_err(|_| invalid(data_type, text))?;
    let digits = trimmed.bytes().any(|byte| byte.is_ascii_digit());
    let nonzero = || {
        let mantissa = trimmed.split(['e', 'E']).next().unwrap_or("");
        mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
    };
    if number.is_infinite() && digits || number == 0.0 && nonzero() {
        return Err(float_out_of_range(text, data_type));
    }
    Ok(number)
}

fn write_integer(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// The shortest digits that read back as the same number, in fixed notation when
/// the exponent is from -4 to below `fixed`.
fn write_float(zero: bool, number: f64, shortest: &str, fixed: i32, out: &mut Vec<u8>) {
    if number.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    if number.is_infinite() {
        return out.extend_from_slice(b"Infinity");
    }
    if zero {
        return out.push(b'0');
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: Vec<u8> = mantissa
        .bytes()
        .filter(|byte| byte.is_ascii_digit())
        .collect();
    if (-4..fixed).contains(&exponent) {
        if exponent < 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(&digits);
        } else {
            let integer = exponent as usize + 1;
            for position in 0..integer {
                out.push(digits.get(position).copied().unwrap_or(b'0'));
            }
            if digits.len() > integer {
                out.push(b'.');
                out.extend_from_slice(&digits[integer..]);
            }
        }
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        write!(
            out,
            "e{}{:02}",
            if exponent < 0 { '-' } else { '+' },
            exponent.abs()
        )
        .expect("a vector takes every write");
    }
}
