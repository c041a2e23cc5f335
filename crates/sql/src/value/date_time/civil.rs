//! The fields of a date and a time while a text is being read, and how digits become
//! such fields.

use super::fault::Fault;
use super::words::{self, Word};
use crate::value::DateOrder;
use crate::value::calendar::{self, Civil, DAY, SECOND};
use crate::value::interval::{HOUR, MINUTE};

/// A set of fields that a text has named.
pub(super) type Mask = u32;
pub(super) const YEAR: Mask = 1;
pub(super) const MONTH: Mask = 1 << 1;
pub(super) const DAY_OF_MONTH: Mask = 1 << 2;
pub(super) const DAY_OF_YEAR: Mask = 1 << 3;
pub(super) const WEEKDAY: Mask = 1 << 4;
pub(super) const HOURS: Mask = 1 << 5;
pub(super) const MINUTES: Mask = 1 << 6;
pub(super) const SECONDS: Mask = 1 << 7;
pub(super) const FRACTION: Mask = 1 << 8;
pub(super) const ZONE: Mask = 1 << 9;
pub(super) const DAYLIGHT: Mask = 1 << 10;
pub(super) const AFTERNOON: Mask = 1 << 11;
pub(super) const ERA: Mask = 1 << 12;
/// `epoch` and `infinity`, to which no other field adds anything.
pub(super) const NAMED: Mask = 1 << 13;
pub(super) const DATE: Mask = YEAR | MONTH | DAY_OF_MONTH;
pub(super) const TIME: Mask = HOURS | MINUTES | SECONDS | FRACTION;

/// The leading digits of a text with their sign, and the rest behind them.
pub(super) fn integer(text: &str) -> Result<(i64, &str), Fault> {
    let signed = usize::from(text.starts_with(['+', '-']));
    let digits = text[signed..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    if digits == 0 {
        return Ok((0, text));
    }
    let (number, rest) = text.split_at(signed + digits);
    let number: i64 = number.parse().map_err(|_| Fault::Field)?;
    if i32::try_from(number).is_err() {
        return Err(Fault::Field);
    }
    Ok((number, rest))
}

/// A fraction that begins with its point: `.5`.
pub(in crate::value) fn fraction(text: &str) -> Result<f64, Fault> {
    if text == "." {
        return Ok(0.0);
    }
    text.parse().map_err(|_| Fault::Format)
}

/// Microseconds of a second's fraction.
pub(in crate::value) fn micros(text: &str) -> Result<i64, Fault> {
    Ok((fraction(text)? * SECOND as f64).round_ties_even() as i64)
}

/// `hh:mm[:ss[.f]]` or `mm:ss.f`, as hours, minutes, seconds and microseconds.
pub(in crate::value) fn clock(
    text: &str,
    minute_to_second: bool,
) -> Result<(i64, i64, i64, i64), Fault> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (hours, rest) = text.split_at(digits);
    let mut hours: i64 = hours.parse().map_err(|_| Fault::Field)?;
    let rest = rest.strip_prefix(':').ok_or(Fault::Format)?;
    let (mut minutes, rest) = integer(rest)?;
    let (mut seconds, mut fraction) = (0, 0);
    let is_short = rest.is_empty() && minute_to_second || rest.starts_with('.');
    if rest.starts_with('.') {
        fraction = micros(rest)?;
    } else if let Some(rest) = rest.strip_prefix(':') {
        let rest = {
            let (number, rest) = integer(rest)?;
            seconds = number;
            rest
        };
        if !rest.is_empty() {
            if !rest.starts_with('.') {
                return Err(Fault::Format);
            }
            fraction = micros(rest)?;
        }
    } else if !rest.is_empty() {
        return Err(Fault::Format);
    }
    if is_short {
        if i32::try_from(hours).is_err() {
            return Err(Fault::Field);
        }
        (seconds, minutes, hours) = (minutes, hours, 0);
    }
    let sound = (0..60).contains(&minutes)
        && (0..=60).contains(&seconds)
        && (0..=SECOND).contains(&fraction);
    if !sound {
        return Err(Fault::Field);
    }
    Ok((hours, minutes, seconds, fraction))
}

/// Largest offset from Greenwich that a text may have, in hours.
const MAX_OFFSET_HOURS: i64 = 15;

/// A part of an offset, and the rest.
fn offset_part(text: &str) -> Result<(i64, &str), Fault> {
    integer(text).map_err(|_| Fault::Displacement)
}

/// Seconds east of Greenwich: `+01`, `-0330`, `+05:30`, `+01:02:03`.
pub(super) fn offset(text: &str) -> Result<i64, Fault> {
    let Some(sign) = text.chars().next().filter(|sign| matches!(sign, '+' | '-')) else {
        return Err(Fault::Format);
    };
    let (mut hours, mut rest) = offset_part(&text[1..])?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        (minutes, rest) = offset_part(behind)?;
        if let Some(behind) = rest.strip_prefix(':') {
            (seconds, rest) = offset_part(behind)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    let sound = (0..=MAX_OFFSET_HOURS).contains(&hours)
        && (0..60).contains(&minutes)
        && (0..60).contains(&seconds);
    if !sound {
        return Err(Fault::Displacement);
    }
    if !rest.is_empty() {
        return Err(Fault::Format);
    }
    let east = (hours * 60 + minutes) * 60 + seconds;
    Ok(if sign == '-' { -east } else { east })
}

/// The fields of a date and a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) day_of_year: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) micros: i64,
    /// Whether the month was a word.
    pub(super) month_named: bool,
    /// Whether the year has at most two digits, so that its century is to be guessed.
    pub(super) short_year: bool,
    pub(super) julian: bool,
    pub(super) before_christ: bool,
    pub(super) afternoon: Option<bool>,
}

impl Fields {
    pub(super) fn set_civil(&mut self, civil: Civil) {
        self.year = civil.year;
        self.month = i64::from(civil.month);
        self.day = i64::from(civil.day);
    }

    /// A date with punctuation: `2026-11-21`, `21-nov-2026`.
    pub(super) fn read_date(
        &mut self,
        text: &str,
        known: Mask,
        order: DateOrder,
    ) -> Result<Mask, Fault> {
        let mut parts: Vec<&str> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let letters = rest.starts_with(|c: char| c.is_ascii_alphabetic());
            let end = rest
                .find(|c: char| {
                    if letters {
                        !c.is_ascii_alphabetic()
                    } else {
                        !c.is_ascii_digit()
                    }
                })
                .unwrap_or(rest.len());
            if end == 0 {
                return Err(Fault::Format);
            }
            parts.push(&rest[..end]);
            // What separates two parts is one character.
            let mut behind = rest[end..].chars();
            behind.next();
            rest = behind.as_str();
        }
        let mut seen = 0;
        let mut named = self.month_named;
        for part in &parts {
            if !part.starts_with(|c: char| c.is_ascii_alphabetic()) {
                continue;
            }
            match words::lookup(part) {
                Some(Word::Ignored) => {}
                Some(Word::Month(month)) if (known | seen) & MONTH == 0 => {
                    self.month = month;
                    named = true;
                    seen |= MONTH;
                }
                _ => return Err(Fault::Format),
            }
        }
        for part in parts {
            if part.starts_with(|c: char| c.is_ascii_alphabetic()) {
                continue;
            }
            let mask = self.read_number(part, named, known | seen, order)?;
            if mask & (known | seen) != 0 {
                return Err(Fault::Format);
            }
            seen |= mask;
        }
        if (known | seen) & !(DAY_OF_YEAR | ZONE) != DATE {
            return Err(Fault::Format);
        }
        Ok(seen)
    }

    /// A number without a label: a part of a date, or a time behind a date.
    pub(super) fn read_number(
        &mut self,
        text: &str,
        month_named: bool,
        known: Mask,
        order: DateOrder,
    ) -> Result<Mask, Fault> {
        let (value, rest) = integer(text)?;
        let digits = text.len() - rest.len();
        if digits == 0 {
            return Err(Fault::Format);
        }
        if rest.starts_with('.') {
            // More than two digits in front of the point are a time that is run together.
            if digits > 2 {
                return self.read_run(text, known | DATE);
            }
            self.micros = micros(rest)?;
        } else if !rest.is_empty() {
            return Err(Fault::Format);
        }
        if text.len() == 3 && known & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY_OF_MONTH);
        }
        let long = text.len() >= 3;
        let field = match known & DATE {
            0 if long || order == DateOrder::YearFirst => YEAR,
            0 if order == DateOrder::DayFirst => DAY_OF_MONTH,
            0 | YEAR | DAY_OF_MONTH => MONTH,
            MONTH if month_named && (long || order == DateOrder::YearFirst) => YEAR,
            MONTH => DAY_OF_MONTH,
            both if both == YEAR | MONTH => {
                if month_named && long && self.short_year {
                    // What was taken for the year was the day.
                    self.day = self.year;
                    self.year = value;
                    self.short_year = false;
                    return Ok(DAY_OF_MONTH);
                }
                DAY_OF_MONTH
            }
            both if both == MONTH | DAY_OF_MONTH => YEAR,
            DATE => return self.read_run(text, known),
            _ => return Err(Fault::Format),
        };
        match field {
            YEAR => {
                self.year = value;
                self.short_year = text.len() <= 2;
            }
            MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(field)
    }

    /// A date or a time whose fields are run together: `20261121`, `040506.789`.
    pub(super) fn read_run(&mut self, text: &str, known: Mask) -> Result<Mask, Fault> {
        let mut digits = text;
        if let Some(point) = text.find('.') {
            self.micros = micros(&text[point..])?;
            digits = &text[..point];
        } else if known & DATE != DATE && digits.len() >= 6 {
            let part = |from: usize, to: usize| -> Result<i64, Fault> {
                digits
                    .get(from..to)
                    .and_then(|part| part.parse().ok())
                    .ok_or(Fault::Format)
            };
            let length = digits.len();
            let year = part(0, length - 4)?;
            self.year = i64::from(i32::try_from(year).map_err(|_| Fault::Field)?);
            self.month = part(length - 4, length - 2)?;
            self.day = part(length - 2, length)?;
            self.short_year |= length - 4 == 2;
            return Ok(DATE);
        }
        if known & TIME != TIME && matches!(digits.len(), 4 | 6) {
            let part = |from: usize| -> Result<i64, Fault> {
                match digits.get(from..from + 2) {
                    Some(part) => part.parse().map_err(|_| Fault::Format),
                    None => Ok(0),
                }
            };
            self.hour = part(0)?;
            self.minute = part(2)?;
            self.second = part(4)?;
            return Ok(TIME);
        }
        Err(Fault::Format)
    }

    /// A time with colons.
    pub(super) fn read_time(&mut self, text: &str) -> Result<Mask, Fault> {
        let (hour, minute, second, micros) = clock(text, false)?;
        (self.hour, self.minute, self.second, self.micros) = (hour, minute, second, micros);
        Ok(TIME)
    }

    /// Checks the fields of the date, and guesses the century of a short year.
    pub(super) fn check_date(&mut self, known: Mask) -> Result<(), Fault> {
        if known & YEAR != 0 && !self.julian {
            if self.before_christ {
                if self.year <= 0 {
                    return Err(Fault::Field);
                }
                self.year = 1 - self.year;
            } else if self.short_year {
                match self.year {
                    0..70 => self.year += 2000,
                    70..100 => self.year += 1900,
                    _ => {}
                }
            } else if self.year <= 0 {
                return Err(Fault::Field);
            }
        }
        if known & DAY_OF_YEAR != 0 {
            let first = calendar::days(Civil {
                year: self.year,
                month: 1,
                day: 1,
            });
            self.set_civil(calendar::civil(first + self.day_of_year - 1));
        }
        if known & MONTH != 0 && !(1..=12).contains(&self.month)
            || known & DAY_OF_MONTH != 0 && !(1..=31).contains(&self.day)
        {
            return Err(Fault::MonthOrDay);
        }
        if known & DATE == DATE
            && self.day > i64::from(calendar::month_days(self.year, self.month as u32))
        {
            return Err(Fault::Field);
        }
        Ok(())
    }

    /// Applies AM or PM to the hour.
    pub(super) fn apply_afternoon(&mut self) -> Result<(), Fault> {
        let Some(afternoon) = self.afternoon else {
            return Ok(());
        };
        match (afternoon, self.hour) {
            (_, 13..) => return Err(Fault::Field),
            (false, 12) => self.hour = 0,
            (true, 12) | (false, _) => {}
            (true, _) => self.hour += 12,
        }
        Ok(())
    }

    /// Whether the time is later than 24:00, or has a field that no time has.
    pub(super) fn is_beyond_midnight(&self) -> bool {
        !(0..=24).contains(&self.hour)
            || !(0..60).contains(&self.minute)
            || !(0..=60).contains(&self.second)
            || !(0..=SECOND).contains(&self.micros)
            || self.time() > DAY
    }

    /// The time of day, in microseconds.
    pub(super) fn time(&self) -> i64 {
        self.hour * HOUR + self.minute * MINUTE + self.second * SECOND + self.micros
    }

    /// The day, since 2000; the fields have been checked.
    pub(super) fn days(&self) -> i64 {
        calendar::days(Civil {
            year: self.year,
            month: self.month as u32,
            day: self.day as u32,
        })
    }
}
