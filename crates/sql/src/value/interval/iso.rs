//! Parser of ISO 8601's durations: `P1Y2M3DT4H5M6S`, and the alternative format
//! `P0001-02-03T04:05:06`, with and without its punctuation.

use super::parse::{Parts, Unit};
use crate::value::date_time::Fault;

/// Numbers beyond this are refused, because their digits are no longer exact.
const MOST: f64 = 1e15;

/// A number of a duration: its whole part, its fraction, and the width of its digits.
struct Number {
    whole: i64,
    fraction: f64,
    width: usize,
}

/// The number at the beginning, and the rest.
fn number(text: &str) -> Result<(Number, &str), Fault> {
    let bytes = text.as_bytes();
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let digits = |from: usize| -> usize {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let width = digits(sign);
    let mut end = sign + width;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if width + fraction == 0 {
            return Err(Fault::Format);
        }
        end += 1 + fraction;
    } else if width == 0 {
        return Err(Fault::Format);
    }
    // Exponents are read, too: `P1e3D`.
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + signed);
        if exponent > 0 {
            end += 1 + signed + exponent;
        }
    }
    let value: f64 = text[..end].parse().map_err(|_| Fault::Format)?;
    if !(-MOST..=MOST).contains(&value) {
        return Err(Fault::Field);
    }
    let whole = value.trunc();
    let number = Number {
        whole: whole as i64,
        fraction: value - whole,
        width,
    };
    Ok((number, &text[end..]))
}

pub(super) fn parse(text: &str) -> Result<Parts, Fault> {
    let mut rest = text
        .strip_prefix('P')
        .filter(|rest| !rest.is_empty())
        .ok_or(Fault::Format)?;
    let mut parts = Parts::default();
    let mut in_date = true;
    // Whether a number with a unit came before, in the date or in the time.
    let mut has_field = false;
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            (in_date, has_field, rest) = (false, false, time);
            continue;
        }
        let (first, behind) = number(rest)?;
        let unit = match (in_date, behind.as_bytes().first()) {
            (true, Some(b'Y')) => Some(Unit::Year),
            (true, Some(b'M')) => Some(Unit::Month),
            (true, Some(b'W')) => Some(Unit::Week),
            (true, Some(b'D')) => Some(Unit::Day),
            (false, Some(b'H')) => Some(Unit::Hour),
            (false, Some(b'M')) => Some(Unit::Minute),
            (false, Some(b'S')) => Some(Unit::Second),
            (true, None | Some(b'T' | b'-')) | (false, None | Some(b':')) => None,
            _ => return Err(Fault::Format),
        };
        if let Some(unit) = unit {
            parts.add(unit, first.whole, first.fraction)?;
            has_field = true;
            rest = &behind[1..];
            continue;
        }
        let separated = behind.starts_with(['-', ':']);
        let width = if in_date { 8 } else { 6 };
        if !separated && first.width == width && !has_field {
            run_together(&first, in_date, &mut parts)?;
            rest = behind;
            continue;
        }
        if has_field {
            return Err(Fault::Format);
        }
        rest = alternative(first, behind, in_date, &mut parts)?;
        if !in_date && !rest.is_empty() {
            return Err(Fault::Format);
        }
    }
    Ok(parts)
}

/// `20010203` or `040506`.
fn run_together(number: &Number, in_date: bool, parts: &mut Parts) -> Result<(), Fault> {
    let value = number.whole;
    let pairs = [value / 10_000, value / 100 % 100, value % 100];
    let units = if in_date {
        [Unit::Year, Unit::Month, Unit::Day]
    } else {
        [Unit::Hour, Unit::Minute, Unit::Second]
    };
    for (unit, value) in units.into_iter().zip(pairs) {
        parts.add(unit, value, 0.0)?;
    }
    let least = if in_date {
        Unit::Day
    } else {
        Unit::Microsecond
    };
    parts.add(least, 0, number.fraction)
}

/// `0001-02-03` or `04:05:06`, of which the first number has been read; returns the rest.
fn alternative<'a>(
    first: Number,
    behind: &'a str,
    in_date: bool,
    parts: &mut Parts,
) -> Result<&'a str, Fault> {
    let (units, separator) = if in_date {
        ([Unit::Year, Unit::Month, Unit::Day], '-')
    } else {
        ([Unit::Hour, Unit::Minute, Unit::Second], ':')
    };
    let (mut value, mut rest) = (first, behind);
    for (position, unit) in units.into_iter().enumerate() {
        parts.add(unit, value.whole, value.fraction)?;
        if rest.is_empty() || in_date && rest.starts_with('T') {
            return Ok(rest);
        }
        if position == 2 {
            break;
        }
        let next = rest.strip_prefix(separator).ok_or(Fault::Format)?;
        (value, rest) = number(next)?;
    }
    Err(Fault::Format)
}
