//! `to_date` and `to_timestamp`: reads a date and a time by a template.

use super::date_template::{Element, Key, MONTHS, ROMAN, WEEKDAYS, invalid, written};
use crate::expression::{EvaluationContext, ROW};
use crate::value::calendar::{self, Civil, DAY, SECOND};
use crate::value::interval::{HOUR, MINUTE};
use crate::{Error, Result, SqlState};

/// What was read: a local time, and the offset in seconds east if the text had one.
pub(super) struct Read {
    /// Days since 2000.
    pub(super) days: i64,
    /// Microseconds since midnight.
    pub(super) clock: i64,
    pub(super) east: Option<i64>,
}

/// Whether a template counts weeks as ISO 8601 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    Gregorian,
    Iso,
}

/// The fields of a text. Zero means that there was none.
#[derive(Debug, Default)]
struct Fields {
    hour: i64,
    is_hour_of_12: bool,
    afternoon: i64,
    minute: i64,
    second: i64,
    second_of_day: i64,
    /// Day of the week, from 1 for Sunday.
    weekday: i64,
    day: i64,
    day_of_year: i64,
    month: i64,
    milliseconds: i64,
    year: i64,
    year_digits: u32,
    before_christ: i64,
    week: i64,
    week_of_month: i64,
    century: i64,
    julian: i64,
    micros: i64,
    /// Sign of the offset, if there is one.
    zone_sign: i64,
    zone_hour: i64,
    zone_minute: i64,
    convention: Option<Convention>,
}

/// State of reading.
struct Reader<'a> {
    elements: &'a [Element],
    text: &'a str,
    rest: &'a str,
    fields: Fields,
    exact: bool,
    /// Characters skipped beyond those that the template has.
    extra: i64,
}

/// Reads a text by the elements of a template.
pub(super) fn read(
    elements: &[Element],
    text: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<Read> {
    let mut reader = Reader {
        elements,
        text,
        rest: text,
        fields: Fields::default(),
        exact: false,
        extra: 0,
    };
    for at in 0..elements.len() {
        context.work(ROW)?;
        if reader.rest.is_empty() {
            break;
        }
        reader.element(at)?;
    }
    finish(reader.fields, text)
}

fn is_space(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\x0b'
}

/// The year that a number of less than four digits is short for: the nearest to 2020.
fn nearest_year(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

/// Whether a field is a number, so that the one in front of it has a fixed width.
fn is_digits(key: Key) -> bool {
    !matches!(
        key,
        Key::Era
            | Key::Meridiem
            | Key::WeekdayName
            | Key::WeekdayShort
            | Key::MonthName
            | Key::MonthShort
            | Key::RomanMonth
            | Key::Offset
            | Key::ZoneHour
            | Key::ZoneName
            | Key::Exact
    )
}

fn convention(key: Key) -> Option<Convention> {
    match key {
        Key::IsoDayOfYear | Key::IsoDayOfWeek | Key::IsoWeek | Key::IsoYear(_) => {
            Some(Convention::Iso)
        }
        Key::DayOfYear
        | Key::DayOfMonth
        | Key::DayOfWeek
        | Key::Month
        | Key::MonthName
        | Key::MonthShort
        | Key::RomanMonth
        | Key::WeekOfYear
        | Key::WeekOfMonth
        | Key::YearWithComma
        | Key::Year(_) => Some(Convention::Gregorian),
        _ => None,
    }
}

/// Sets a field; one that is set has to agree.
fn set(field: &mut i64, value: i64, word: &str) -> Result<()> {
    if *field != 0 && *field != value {
        return Err(invalid(format!(
            "conflicting values for \"{word}\" field in formatting string"
        ))
        .with_detail("This value contradicts a previous setting for the same field type."));
    }
    *field = value;
    Ok(())
}

impl<'a> Reader<'a> {
    fn skip_spaces(&mut self) {
        let trimmed = self.rest.trim_start_matches(is_space);
        self.extra += (self.rest.len() - trimmed.len()) as i64;
        self.rest = trimmed;
    }

    fn skip(&mut self) {
        let mut characters = self.rest.chars();
        characters.next();
        self.rest = characters.as_str();
    }

    fn element(&mut self, at: usize) -> Result<()> {
        let element = self.elements[at];
        let is_exact = matches!(
            element,
            Element::Field {
                key: Key::Exact,
                ..
            }
        );
        let is_field = matches!(element, Element::Field { .. });
        if !self.exact && !is_exact && (is_field || at == 0) {
            self.skip_spaces();
            if self.rest.is_empty() && is_field {
                return Ok(());
            }
        }
        match element {
            Element::Separator(_) | Element::Space(_) => {
                if self.exact {
                    self.skip();
                    return Ok(());
                }
                // A separator stands for one of the text, or for nothing.
                self.extra -= 1;
                let matches =
                    |character: char| is_space(character) || character.is_ascii_punctuation();
                if self.rest.starts_with(matches) {
                    self.skip();
                    self.extra += 1;
                }
            }
            Element::Character(_) => {
                if !self.exact && self.extra > 0 {
                    self.extra -= 1;
                } else {
                    self.skip();
                }
            }
            Element::Field {
                key,
                case,
                fills,
                ordinal,
                word,
                ..
            } => {
                if let Some(convention) = convention(key) {
                    let known = *self.fields.convention.get_or_insert(convention);
                    if known != convention {
                        return Err(invalid("invalid combination of date conventions".to_owned())
                            .with_hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
                    }
                }
                let variable = fills || ordinal.is_some() || self.ends_before(at + 1);
                self.field(key, &written(word, case), variable)?;
                if ordinal.is_some() && is_digits(key) {
                    self.skip();
                    self.skip();
                }
                if !self.exact {
                    self.extra = 0;
                    self.skip_spaces();
                }
            }
        }
        Ok(())
    }

    /// Whether a number ends before the element at `next`, because that is not a digit.
    fn ends_before(&self, next: usize) -> bool {
        match self.elements.get(next) {
            None => true,
            Some(Element::Field { key, .. }) => !is_digits(*key),
            Some(Element::Character(character)) => !character.is_ascii_digit(),
            Some(Element::Separator(_) | Element::Space(_)) => true,
        }
    }

    /// Reads a number of `width` characters, or as many as there are; returns it and the
    /// number of characters.
    fn number(&mut self, width: usize, word: &str, variable: bool) -> Result<(i64, usize)> {
        let init = self.rest;
        let start = init.trim_start_matches(is_space);
        let copy: String = start.chars().take(width).collect();
        let shown = || invalid(format!("invalid value \"{copy}\" for \"{word}\""));
        let hint = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        let (source, digits) = if variable {
            (start, leading_number(start))
        } else {
            let length = start.len();
            if length < width {
                return Err(invalid(format!(
                    "source string too short for \"{word}\" formatting field"
                ))
                .with_detail(format!(
                    "Field requires {width} characters, but only {length} remain."
                ))
                .with_hint(hint));
            }
            let digits = leading_number(&copy);
            if digits > 0 && digits < width {
                return Err(shown()
                    .with_detail(format!(
                        "Field requires {width} characters, but only {digits} could be parsed."
                    ))
                    .with_hint(hint));
            }
            (start, digits)
        };
        if digits == 0 {
            return Err(shown().with_detail("Value must be an integer."));
        }
        let number = source[..digits].trim_start_matches('+').parse::<i64>().ok();
        let number = number.filter(|number| i32::try_from(*number).is_ok());
        let Some(number) = number else {
            return Err(Error::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("value for \"{word}\" in source string is out of range"),
            )
            .with_detail(format!(
                "Value must be in the range {} to {}.",
                i32::MIN,
                i32::MAX
            )));
        };
        self.rest = &source[digits..];
        Ok((number, init.len() - self.rest.len()))
    }

    /// Reads one of these names, in whatever case; returns its place.
    fn name(&mut self, names: &[&str], word: &str) -> Result<usize> {
        let found = names.iter().position(|name| {
            let start = self.rest.get(..name.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(name))
        });
        let Some(place) = found else {
            let end = self.rest.find(is_space).unwrap_or(self.rest.len());
            return Err(invalid(format!(
                "invalid value \"{}\" for \"{word}\"",
                &self.rest[..end]
            ))
            .with_detail(
                "The given value did not match any of the allowed values for this field.",
            ));
        };
        self.rest = &self.rest[names[place].len()..];
        Ok(place)
    }

    fn field(&mut self, key: Key, word: &str, variable: bool) -> Result<()> {
        let width = word.len();
        match key {
            Key::Exact => {
                self.exact = true;
                return Ok(());
            }
            Key::Meridiem => {
                let names: &[&str] = match word.contains('.') {
                    true => &["a.m.", "p.m."],
                    false => &["am", "pm"],
                };
                let place = self.name(names, word)?;
                set(&mut self.fields.afternoon, place as i64, word)?;
                self.fields.is_hour_of_12 = true;
                return Ok(());
            }
            Key::Era => {
                let names: &[&str] = match word.contains('.') {
                    true => &["a.d.", "b.c."],
                    false => &["ad", "bc"],
                };
                let place = self.name(names, word)?;
                return set(&mut self.fields.before_christ, place as i64, word);
            }
            Key::MonthName | Key::MonthShort | Key::WeekdayName | Key::WeekdayShort => {
                return self.calendar_name(key, word);
            }
            Key::RomanMonth => {
                // Longer numbers come before those that they begin with.
                let reversed: Vec<&str> = ROMAN.iter().rev().copied().collect();
                let place = self.name(&reversed, word)?;
                return set(&mut self.fields.month, 12 - place as i64, word);
            }
            Key::Offset | Key::ZoneName => {
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("formatting field \"{word}\" is only supported in to_char"),
                ));
            }
            Key::ZoneHour => {
                self.zone_sign();
                let (hour, _) = self.number(2, word, variable)?;
                return set(&mut self.fields.zone_hour, hour, word);
            }
            Key::YearWithComma => return self.year_with_comma(word),
            _ => {}
        }
        let width = match key {
            Key::Hour12 | Key::Hour24 | Key::ZoneMinute => 2,
            Key::Millisecond => 3,
            Key::Microsecond => 6,
            Key::Fraction(digits) => digits as usize,
            _ => width,
        };
        let (number, length) = self.number(width, word, variable)?;
        self.take_number(key, word, number, length)
    }

    fn calendar_name(&mut self, key: Key, word: &str) -> Result<()> {
        let (names, short): (&[&str], bool) = match key {
            Key::MonthName => (&MONTHS, false),
            Key::MonthShort => (&MONTHS, true),
            Key::WeekdayName => (&WEEKDAYS, false),
            _ => (&WEEKDAYS, true),
        };
        let cut: Vec<&str> = match short {
            true => names.iter().map(|name| &name[..3]).collect(),
            false => names.to_vec(),
        };
        let place = self.name(&cut, word)? as i64;
        if matches!(key, Key::MonthName | Key::MonthShort) {
            return set(&mut self.fields.month, place + 1, word);
        }
        // Days are counted from 1 once they are read: a second one contradicts the first.
        set(&mut self.fields.weekday, place, word)?;
        self.fields.weekday += 1;
        Ok(())
    }

    /// The sign of an offset, which a separator in front of it may have swallowed.
    fn zone_sign(&mut self) {
        self.fields.zone_sign = match self.rest.as_bytes().first() {
            Some(b'-') => -1,
            Some(b'+' | b' ') => 1,
            _ => {
                let before = self.text.len() - self.rest.len();
                let swallowed = self.extra > 0
                    && before > 0
                    && self.text.as_bytes().get(before - 1) == Some(&b'-');
                self.fields.zone_sign = if swallowed { -1 } else { 1 };
                return;
            }
        };
        self.skip();
    }

    fn year_with_comma(&mut self, word: &str) -> Result<()> {
        let wrong = || invalid("invalid input string for \"Y,YYY\"".to_owned());
        let start = self.rest.trim_start_matches(is_space);
        let head = leading_number(start);
        let behind = start[head..].strip_prefix(',').ok_or_else(wrong)?;
        let tail = behind
            .bytes()
            .take(3)
            .take_while(u8::is_ascii_digit)
            .count();
        let number = |text: &str| text.parse::<i32>().map(i64::from).map_err(|_| wrong());
        let year = number(&start[..head])? * 1000 + number(&behind[..tail])?;
        set(&mut self.fields.year, year, word)?;
        self.fields.year_digits = 4;
        self.rest = &behind[tail..];
        Ok(())
    }

    fn take_number(&mut self, key: Key, word: &str, number: i64, length: usize) -> Result<()> {
        let fields = &mut self.fields;
        // Digits of a fraction that are not there are zeros at its end.
        let scaled = |digits: usize| number * 10_i64.pow(digits.saturating_sub(length) as u32);
        match key {
            Key::Hour12 => {
                fields.is_hour_of_12 = true;
                set(&mut fields.hour, number, word)
            }
            Key::Hour24 => set(&mut fields.hour, number, word),
            Key::Minute => set(&mut fields.minute, number, word),
            Key::Second => set(&mut fields.second, number, word),
            Key::SecondOfDay => set(&mut fields.second_of_day, number, word),
            Key::Millisecond => {
                set(&mut fields.milliseconds, number, word)?;
                fields.milliseconds = scaled(3);
                Ok(())
            }
            Key::Microsecond | Key::Fraction(_) => {
                set(&mut fields.micros, number, word)?;
                fields.micros = scaled(6);
                Ok(())
            }
            Key::ZoneMinute => {
                if fields.zone_sign == 0 {
                    fields.zone_sign = 1;
                }
                set(&mut fields.zone_minute, number, word)
            }
            Key::Month => set(&mut fields.month, number, word),
            Key::DayOfYear | Key::IsoDayOfYear => set(&mut fields.day_of_year, number, word),
            Key::DayOfMonth => set(&mut fields.day, number, word),
            Key::DayOfWeek => set(&mut fields.weekday, number, word),
            // ISO's week begins on Monday.
            Key::IsoDayOfWeek => {
                set(&mut fields.weekday, number, word)?;
                fields.weekday = if number >= 7 { 1 } else { number + 1 };
                Ok(())
            }
            Key::WeekOfYear | Key::IsoWeek => set(&mut fields.week, number, word),
            Key::WeekOfMonth => set(&mut fields.week_of_month, number, word),
            Key::Century => set(&mut fields.century, number, word),
            Key::Julian => set(&mut fields.julian, number, word),
            Key::Year(digits) | Key::IsoYear(digits) => {
                set(&mut fields.year, number, word)?;
                fields.year_digits = digits;
                if digits < 4 && length < 4 {
                    fields.year = nearest_year(number);
                }
                Ok(())
            }
            // A quarter does not tell which day.
            _ => Ok(()),
        }
    }
}

/// Length of the number with its sign at the beginning of a text.
fn leading_number(text: &str) -> usize {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { 0 } else { sign + digits }
}

/// The year of a century and its last two digits, in which 1 BC is 0.
fn year_of(fields: &Fields) -> Option<i64> {
    let before_christ = fields.before_christ != 0;
    let century = if before_christ {
        -fields.century
    } else {
        fields.century
    };
    if fields.year == 0 {
        return match fields.century {
            0 => None,
            _ if century >= 0 => Some((century - 1) * 100 + 1),
            _ => Some(century * 100 + 1),
        };
    }
    if fields.century != 0 && fields.year_digits <= 2 {
        return Some(match (fields.year % 100, century >= 0) {
            (0, true) => century * 100,
            (0, false) => century * 100 + 1,
            (year, true) => (century - 1) * 100 + year,
            (year, false) => (century + 1) * 100 - year + 1,
        });
    }
    let year = if before_christ {
        -fields.year
    } else {
        fields.year
    };
    Some(if year < 0 { year + 1 } else { year })
}

/// The first day of an ISO week.
fn iso_week_start(year: i64, week: i64) -> i64 {
    let fourth = calendar::days(Civil {
        year,
        month: 1,
        day: 4,
    });
    let monday = fourth - (calendar::day_of_week(fourth) + 6).rem_euclid(7);
    monday + (week - 1) * 7
}

fn finish(mut fields: Fields, text: &str) -> Result<Read> {
    let out_of_range = || {
        Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        )
    };
    let clock = clock(&fields, text)?;
    let year = year_of(&fields);
    let known_year = year.unwrap_or(0);
    let mut civil = (known_year, 1, 1);
    let mut set_days = |days: i64| {
        let Civil { year, month, day } = calendar::civil(days);
        civil = (year, i64::from(month), i64::from(day));
    };
    if fields.julian != 0 {
        set_days(fields.julian + calendar::MIN_DATE);
    }
    let is_iso = fields.convention == Some(Convention::Iso);
    if fields.week != 0 {
        if is_iso {
            let monday = iso_week_start(known_year, fields.week);
            set_days(match fields.weekday {
                0 => monday,
                1 => monday + 6,
                weekday => monday + weekday - 2,
            });
        } else {
            fields.day_of_year = (fields.week - 1) * 7 + 1;
        }
    }
    if fields.week_of_month != 0 {
        fields.day = (fields.week_of_month - 1) * 7 + 1;
    }
    if fields.day != 0 {
        civil.2 = fields.day;
    }
    if fields.month != 0 {
        civil.1 = fields.month;
    }
    let (year, month, day) = civil;
    if fields.day_of_year != 0 && (month <= 1 || day <= 1) {
        if year == 0 && fields.before_christ == 0 {
            return Err(invalid(
                "cannot calculate day of year without year information".to_owned(),
            ));
        }
        let first = match is_iso {
            true => iso_week_start(year, 1),
            false => calendar::days(Civil {
                year,
                month: 1,
                day: 1,
            }),
        };
        let found = calendar::civil(first + fields.day_of_year - 1);
        if is_iso {
            civil = (found.year, found.month.into(), found.day.into());
        } else {
            // Days behind the year's end are those of a month behind its last.
            let (found_month, found_day) = match found.year == year {
                true => (i64::from(found.month), i64::from(found.day)),
                false => {
                    let length = 337 + i64::from(calendar::month_days(year, 2));
                    (13, fields.day_of_year - length)
                }
            };
            if month <= 1 {
                civil.1 = found_month;
            }
            if day <= 1 {
                civil.2 = found_day;
            }
        }
    }
    let (year, month, day) = civil;
    let valid = (1..=12).contains(&month)
        && (1..=i64::from(calendar::month_days(year, month.clamp(1, 12) as u32))).contains(&day);
    if !valid {
        return Err(out_of_range());
    }
    let east = match fields.zone_sign {
        0 => None,
        sign => {
            let sound =
                (0..=15).contains(&fields.zone_hour) && (0..60).contains(&fields.zone_minute);
            if !sound {
                return Err(Error::new(
                    SqlState::INVALID_TIME_ZONE_DISPLACEMENT,
                    format!("time zone displacement out of range: \"{text}\""),
                ));
            }
            Some(sign * (fields.zone_hour * 3600 + fields.zone_minute * 60))
        }
    };
    Ok(Read {
        days: calendar::days(Civil {
            year,
            month: month as u32,
            day: day as u32,
        }),
        clock,
        east,
    })
}

/// The time of day.
fn clock(fields: &Fields, text: &str) -> Result<i64> {
    let of_day = fields.second_of_day;
    let (mut hour, mut minute, mut second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let replace = |field: &mut i64, value: i64| {
        if value != 0 {
            *field = value;
        }
    };
    replace(&mut second, fields.second);
    replace(&mut minute, fields.minute);
    replace(&mut hour, fields.hour);
    if fields.is_hour_of_12 {
        if !(1..=12).contains(&hour) {
            return Err(
                invalid(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."),
            );
        }
        hour = hour % 12 + 12 * fields.afternoon;
    }
    let micros = fields.milliseconds * 1000 + fields.micros;
    let sound = (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second)
        && (0..SECOND).contains(&micros);
    if !sound {
        return Err(Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        ));
    }
    Ok(hour * HOUR + minute * MINUTE + second * SECOND + micros)
}

/// The local time, in microseconds since 2000.
pub(super) fn local(read: &Read) -> Option<i64> {
    read.days.checked_mul(DAY)?.checked_add(read.clock)
}
