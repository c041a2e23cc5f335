//! The SQL formatting functions `to_char` and `format`.

use super::kinds::{ANY, INT8, MOMENT, NUMERIC, TEXT, TIMESTAMP};
use crate::catalog::quote_identifier;
use crate::expression::function::{Arguments, Function};
use crate::expression::{EvaluationContext, ROW};
use crate::value::Value;
use crate::value::calendar::{self, Civil, DAY, SECOND};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("to_char", &[TIMESTAMP, TEXT], TEXT, |a, context| {
        match a.values.first() {
            Some(Value::Timestamp(local)) => to_char(*local, None, a.text(1), context),
            _ => Ok(Value::Null),
        }
    }),
    Function::new("to_char", &[MOMENT, TEXT], TEXT, |a, context| {
        match a.values.first() {
            Some(Value::TimestampTz(moment)) => {
                let style = &context.session.style;
                let offset = style.time_zone.offset_at(*moment);
                to_char(style.local(*moment), Some(offset), a.text(1), context)
            }
            _ => Ok(Value::Null),
        }
    })
    .stable(),
    Function::new("to_char", &[INT8, TEXT], TEXT, numbers),
    Function::new("to_char", &[NUMERIC, TEXT], TEXT, numbers),
    Function::new("format", &[TEXT], TEXT, format).null_aware(),
    Function::new("format", &[TEXT, ANY], TEXT, format)
        .null_aware()
        .variadic()
        .stable(),
];

fn numbers(_: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    Err(Error::unsupported("to_char of a number").with_hint("Cast to text, or round."))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Template patterns of `to_char`, longer ones first, so that the parser does not match
/// a prefix of another.
const WORDS: [&str; 28] = [
    "SSSSS", "SSSS", "HH24", "HH12", "YYYY", "Month", "MONTH", "month", "Day", "DAY", "day", "DDD",
    "Mon", "MON", "mon", "Dy", "DY", "dy", "HH", "MI", "SS", "MS", "US", "YY", "MM", "DD", "AM",
    "PM",
];

fn to_char(
    local: i64,
    offset: Option<i32>,
    pattern: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    if local == i64::MIN || local == i64::MAX {
        return Ok(Value::Null);
    }
    let days = local.div_euclid(DAY);
    let clock = local.rem_euclid(DAY);
    let Civil { year, month, day } = calendar::civil(days);
    // There is no year 0: it and those below are years before Christ.
    let shown_year = if year > 0 { year } else { 1 - year };
    let hour = clock / (3600 * SECOND);
    let mut out = String::new();
    let mut rest = pattern;
    'pattern: while let Some(character) = rest.chars().next() {
        context.work(ROW)?;
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        let (unpadded, after) = match rest.strip_prefix("FM") {
            Some(after) => (true, after),
            None => (false, rest),
        };
        for word in WORDS {
            let Some(tail) = after.strip_prefix(word) else {
                continue;
            };
            let number = |number: i64, width: usize| {
                if unpadded {
                    number.to_string()
                } else {
                    format!("{number:0width$}")
                }
            };
            let name = |name: &str, width: usize| {
                let cased = if word.chars().all(char::is_uppercase) {
                    name.to_uppercase()
                } else if word.chars().all(char::is_lowercase) {
                    name.to_lowercase()
                } else {
                    name.to_owned()
                };
                if unpadded {
                    cased
                } else {
                    format!("{cased:<width$}")
                }
            };
            let month_name = MONTHS[month as usize - 1];
            let day_name = DAYS[calendar::day_of_week(days) as usize];
            let shown = match word {
                "YYYY" => number(shown_year, 4),
                "YY" => number(shown_year % 100, 2),
                "MM" => number(i64::from(month), 2),
                "DD" => number(i64::from(day), 2),
                "DDD" => {
                    let first = calendar::days(Civil {
                        year,
                        month: 1,
                        day: 1,
                    });
                    number(days - first + 1, 3)
                }
                "HH24" => number(hour, 2),
                "HH12" | "HH" => number((hour + 11) % 12 + 1, 2),
                "MI" => number(clock / (60 * SECOND) % 60, 2),
                // Seconds since midnight; PostgreSQL pads no other pattern so little.
                "SSSSS" | "SSSS" => (clock / SECOND).to_string(),
                "SS" => number(clock / SECOND % 60, 2),
                "MS" => number(clock / 1000 % 1000, 3),
                "US" => number(clock % SECOND, 6),
                "AM" | "PM" => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
                "Month" | "MONTH" | "month" => name(month_name, 9),
                "Mon" | "MON" | "mon" => name(&month_name[..3], 3),
                "Day" | "DAY" | "day" => name(day_name, 9),
                _ => name(&day_name[..3], 3),
            };
            out.push_str(&shown);
            rest = tail;
            continue 'pattern;
        }
        if let Some(tail) = rest.strip_prefix("OF") {
            let seconds = offset.unwrap_or(0);
            let sign = if seconds < 0 { '-' } else { '+' };
            out.push_str(&format!("{sign}{:02}", seconds.abs() / 3600));
            if seconds % 3600 != 0 {
                out.push_str(&format!(":{:02}", seconds.abs() / 60 % 60));
            }
            rest = tail;
            continue;
        }
        if character.is_ascii_alphabetic() {
            return Err(Error::unsupported(format_args!(
                "to_char with the pattern \"{pattern}\""
            )));
        }
        out.push(character);
        rest = &rest[character.len_utf8()..];
    }
    Ok(Value::text(out))
}

/// SQL `format()`: `%s`, `%I`, `%L`, `%%` and, with a position, `%1$s`.
fn format(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    if a.values.first().is_none_or(Value::is_null) {
        return Ok(Value::Null);
    }
    let mut out = String::new();
    let mut next = 1;
    let mut rest = a.text(0);
    while let Some(percent) = rest.find('%') {
        out.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && rest[digits..].starts_with('$') {
            next = rest[..digits].parse::<i32>().map_or_else(
                |_| {
                    Err(Error::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        "number is out of range",
                    ))
                },
                |number| Ok(number as usize),
            )?;
            if next == 0 {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    "format specifies argument 0, but arguments are numbered from 1",
                ));
            }
            rest = &rest[digits + 1..];
        }
        let specifier = rest.chars().next().ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "unterminated format() type specifier",
            )
        })?;
        rest = &rest[specifier.len_utf8()..];
        if specifier == '%' {
            context.work(percent + ROW)?;
            out.push('%');
            continue;
        }
        let (Some(value), Some(column_type)) = (a.values.get(next), a.types.get(next)) else {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "too few arguments for format()",
            ));
        };
        next += 1;
        context.work(percent + ROW)?;
        let text = value.to_text(*column_type, &context.session.style);
        let more = text.as_deref().map_or(0, str::len);
        if out.len() + more > out.capacity() {
            context.claim(2 * (out.len() + more))?;
        }
        match (specifier, text) {
            ('s', text) => out.push_str(text.as_deref().unwrap_or("")),
            ('I', Some(text)) => out.push_str(&quote_identifier(&text)),
            ('I', None) => {
                return Err(Error::new(
                    SqlState("22004"),
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('L', Some(text)) => out.push_str(&super::strings::quote_literal(&text, context)?),
            ('L', None) => out.push_str("NULL"),
            (other, _) => {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unrecognized format() type specifier \"{other}\""),
                ));
            }
        }
    }
    out.push_str(rest);
    Ok(Value::text(out))
}
