//! The usual form of a date or timestamp, `2026-11-21 21:06:00.5+01`, read at once: what
//! programs send and COPY loads by the million. All other forms, and all that are wrong,
//! are left to the lexer and the decoder.
//!
//! A year of four digits comes first in every order that `DateStyle` may have, so that
//! this form depends on no setting.

use crate::value::calendar::{self, Civil, SECOND};

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// Days since 2000.
    pub(super) days: i64,
    /// Microseconds since midnight.
    pub(super) time: i64,
    /// Seconds east of Greenwich, if the text names an offset.
    pub(super) east: Option<i64>,
}

/// The number that two digits are.
fn two(bytes: &[u8], at: usize) -> Option<i64> {
    let digit = |at: usize| {
        let byte = *bytes.get(at)?;
        byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
    };
    Some(digit(at)? * 10 + digit(at + 1)?)
}

/// Two digits behind a separator, below a limit.
fn field(bytes: &[u8], at: usize, separator: u8, limit: i64) -> Option<i64> {
    if bytes.get(at) != Some(&separator) {
        return None;
    }
    two(bytes, at + 1).filter(|number| *number < limit)
}

/// Reads a text that is in the usual form.
pub(super) fn read(text: &str) -> Option<Plain> {
    let bytes = text.as_bytes();
    let year = two(bytes, 0)? * 100 + two(bytes, 2)?;
    let month = field(bytes, 4, b'-', 13)? as u32;
    let day = field(bytes, 7, b'-', 32)? as u32;
    let exists = year > 0 && month > 0 && day > 0 && day <= calendar::month_days(year, month);
    if !exists {
        return None;
    }
    let days = calendar::days(Civil { year, month, day });
    let (mut time, mut east) = (0, None);
    if bytes.len() > 10 {
        if !matches!(bytes[10], b' ' | b'T') {
            return None;
        }
        let hour = two(bytes, 11).filter(|hour| *hour < 24)?;
        let minute = field(bytes, 13, b':', 60)?;
        let second = field(bytes, 16, b':', 60)?;
        let (micros, end) = fraction(bytes, 19)?;
        time = ((hour * 60 + minute) * 60 + second) * SECOND + micros;
        east = offset(bytes, end)?;
    }
    Some(Plain { days, time, east })
}

/// Microseconds of a fraction of up to six digits, and where it ends.
fn fraction(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    if bytes.get(at) != Some(&b'.') {
        return Some((0, at));
    }
    let digits = bytes[at + 1..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let (micros, count) = digits.fold((0, 0), |(micros, count), byte| {
        (micros * 10 + i64::from(byte - b'0'), count + 1)
    });
    if !(1..=6).contains(&count) {
        return None;
    }
    let micros = micros * 10_i64.pow(6 - count as u32);
    Some((micros, at + 1 + count))
}

/// The offset that the rest of a text is; `Some(None)` if there is no rest.
fn offset(bytes: &[u8], at: usize) -> Option<Option<i64>> {
    let sign = match bytes.get(at) {
        None => return Some(None),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return None,
    };
    let hours = two(bytes, at + 1).filter(|hours| *hours < 16)?;
    let minutes = match bytes.len() - at {
        3 => 0,
        6 => field(bytes, at + 3, b':', 60)?,
        _ => return None,
    };
    Some(Some(sign * (hours * 60 + minutes) * 60))
}

#[cfg(test)]
mod tests {
    use super::super::decode::{Decoded, Wanted, decode};
    use super::super::split;
    use super::*;
    use crate::value::{DateOrder, Style};

    /// What the decoder makes of a text, if it is a date with a time.
    fn decoded(text: &str, style: &Style) -> Option<(i64, i64, i64)> {
        let fields = split(text).ok()?;
        match decode(&fields, Wanted::DateTime, style) {
            Ok(Decoded::Local { days, time, east }) => Some((days, time, east)),
            _ => None,
        }
    }

    #[test]
    fn the_usual_form_is_read_as_the_decoder_reads_it() {
        let mut read_plainly = 0;
        for order in [
            DateOrder::MonthFirst,
            DateOrder::DayFirst,
            DateOrder::YearFirst,
        ] {
            let style = Style {
                date_order: order,
                ..Style::default()
            };
            for date in [
                "2024-02-29",
                "0001-01-01",
                "9999-12-31",
                "2023-02-29",
                "2024-13-01",
            ] {
                for clock in [
                    "",
                    " 00:00:00",
                    "T23:59:59",
                    " 24:00:00",
                    " 12:60:00",
                    " 12:34",
                ] {
                    for part in ["", ".5", ".123456", ".1234567", "."] {
                        for zone in [
                            "", "+01", "-05:30", "+15:59", "+16", "+1", "Z", " BC", "+0130",
                        ] {
                            let text = format!("{date}{clock}{part}{zone}");
                            let Some(plain) = read(&text) else { continue };
                            read_plainly += 1;
                            let shown = (plain.days, plain.time, plain.east.unwrap_or(0));
                            assert_eq!(decoded(&text, &style), Some(shown), "{text}");
                        }
                    }
                }
            }
        }
        assert_eq!(read_plainly, 225);
    }
}
