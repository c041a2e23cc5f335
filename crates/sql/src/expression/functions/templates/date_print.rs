//! `to_char` of timestamps and intervals: prints them by a template.

use super::date_template::{Case, Element, Key, MONTHS, ROMAN, WEEKDAYS, invalid};
use super::number_print::ordinal;
use crate::Result;
use crate::expression::{EvaluationContext, ROW};
use crate::value::calendar::{self, Civil, DAY, SECOND};
use crate::value::interval::{HOUR, MINUTE};
use crate::value::{Interval, TimeZone};

/// A time that is printed, in its fields.
pub(super) struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    weekday: i64,
    day_of_year: i64,
    is_interval: bool,
    /// Offset in seconds east, and abbreviation; none of a time without a zone.
    zone: Option<(i32, String)>,
}

impl Fields {
    /// The fields of a local time; of a moment with its zone.
    pub(super) fn of_local(local: i64, zone: Option<(TimeZone, i64)>) -> Self {
        let (days, clock) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let Civil { year, month, day } = calendar::civil(days);
        let first = calendar::days(Civil {
            year,
            month: 1,
            day: 1,
        });
        Self {
            year,
            month: month.into(),
            day: day.into(),
            hour: clock / HOUR,
            minute: clock / MINUTE % 60,
            second: clock / SECOND % 60,
            micros: clock % SECOND,
            weekday: calendar::day_of_week(days),
            day_of_year: days - first + 1,
            is_interval: false,
            zone: zone.map(|(zone, moment)| {
                (
                    zone.offset_at(moment),
                    zone.abbreviation_at(moment).to_string(),
                )
            }),
        }
    }

    /// The fields of an interval.
    pub(super) fn of_interval(interval: Interval) -> Self {
        let fields = interval.fields();
        let months = i64::from(interval.months);
        Self {
            year: fields.years.into(),
            month: fields.months.into(),
            day: fields.days.into(),
            hour: fields.hours,
            minute: fields.minutes.into(),
            second: fields.seconds.into(),
            micros: fields.micros.into(),
            weekday: 0,
            // About how many days there are.
            day_of_year: months * 30 + i64::from(fields.days),
            is_interval: true,
            zone: None,
        }
    }

    /// The year as it is shown.
    fn shown_year(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 {
            year
        } else {
            1 - year
        }
    }

    /// The day, since 2000; a month of an interval may be any number.
    fn days(&self) -> i64 {
        let number = self.month - 1;
        let first = calendar::days(Civil {
            year: self.year + number.div_euclid(12),
            month: number.rem_euclid(12) as u32 + 1,
            day: 1,
        });
        first + self.day - 1
    }

    /// Year and number of the ISO week, and the day in that year.
    fn iso(&self) -> (i64, i64, i64) {
        let days = self.days();
        let (year, week) = calendar::iso_week(days);
        let weekday = (calendar::day_of_week(days) + 6).rem_euclid(7);
        (year, week, (week - 1) * 7 + weekday + 1)
    }
}

/// A number with at least so many digits, unless it is to be without padding.
fn padded(number: i64, width: usize, fills: bool) -> String {
    match (fills, number < 0) {
        (true, _) => number.to_string(),
        (false, false) => format!("{number:0width$}"),
        // The sign is beside the digits.
        (false, true) => format!("{number:0wide$}", wide = width + 1),
    }
}

fn cased(name: &str, case: Case) -> String {
    match case {
        Case::Upper => name.to_uppercase(),
        Case::Lower => name.to_lowercase(),
        Case::Title => name.to_owned(),
    }
}

/// Prints a time by the elements of a template.
pub(super) fn print(
    elements: &[Element],
    fields: &Fields,
    context: &mut EvaluationContext<'_>,
) -> Result<String> {
    let mut out = String::new();
    for element in elements {
        context.work(ROW)?;
        match element {
            Element::Separator(character)
            | Element::Space(character)
            | Element::Character(character) => out.push(*character),
            Element::Field {
                key,
                case,
                dotted,
                fills,
                ordinal: suffix,
                ..
            } => {
                let text = field(*key, *case, *dotted, *fills, fields)?;
                let has_suffix = suffix.filter(|_| is_number(*key) && !text.is_empty());
                out.push_str(&text);
                if let Some(lower) = has_suffix {
                    out.push_str(ordinal(&text, lower));
                }
            }
        }
    }
    Ok(out)
}

/// Whether a field is a number that may be an ordinal one.
fn is_number(key: Key) -> bool {
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
            | Key::ZoneMinute
            | Key::ZoneName
            | Key::Exact
    )
}

/// Whether an interval has no such field.
fn is_of_calendar(key: Key) -> bool {
    matches!(
        key,
        Key::Era
            | Key::WeekdayName
            | Key::WeekdayShort
            | Key::MonthName
            | Key::MonthShort
            | Key::DayOfWeek
            | Key::IsoDayOfWeek
            | Key::Offset
            | Key::ZoneHour
            | Key::ZoneMinute
            | Key::ZoneName
    )
}

fn century(fields: &Fields) -> i64 {
    let year = fields.year;
    if fields.is_interval {
        year / 100
    } else if year > 0 {
        (year - 1) / 100 + 1
    } else {
        year / 100 - 1
    }
}

fn roman_month(fields: &Fields) -> Option<&'static str> {
    let place = match (fields.month, fields.year) {
        (0, 0) => return None,
        // Twelve months of an interval are a year and none.
        (0, 1..) => 11,
        (0, _) => 0,
        (month @ ..0, _) => month + 12,
        (month, _) => month - 1,
    };
    usize::try_from(place)
        .ok()
        .and_then(|place| ROMAN.get(place).copied())
}

fn field(key: Key, case: Case, dotted: bool, fills: bool, fields: &Fields) -> Result<String> {
    if fields.is_interval && is_of_calendar(key) {
        return Err(
            invalid("invalid format specification for an interval value".to_owned())
                .with_hint("Intervals are not tied to specific calendar dates."),
        );
    }
    let name = |name: &str, width: usize| {
        let name = cased(name, case);
        if fills {
            name
        } else {
            format!("{name:<width$}")
        }
    };
    let month = usize::try_from(fields.month - 1).unwrap_or(0);
    let of_pair = |second: bool, pair: [&str; 2], points: [&str; 2]| {
        let words = if dotted { points } else { pair };
        cased(words[usize::from(second)], case)
    };
    let last_digits = |year: i64, digits: u32| {
        let year = fields.shown_year(year);
        match digits {
            4 => padded(year, 4, fills),
            1 => (year % 10).to_string(),
            digits => padded(year % 10_i64.pow(digits), digits as usize, fills),
        }
    };
    let (east, abbreviation) = match &fields.zone {
        Some((east, abbreviation)) => (*east, abbreviation.as_str()),
        None => (0, ""),
    };
    let east_sign = if east < 0 { '-' } else { '+' };
    Ok(match key {
        Key::Era => of_pair(fields.year <= 0, ["AD", "BC"], ["A.D.", "B.C."]),
        Key::Meridiem => {
            let afternoon = fields.hour % 24 >= 12;
            of_pair(afternoon, ["AM", "PM"], ["A.M.", "P.M."])
        }
        Key::Century => match century(fields) {
            century @ -99..=99 => padded(century, 2, fills),
            century => century.to_string(),
        },
        Key::WeekdayName => name(WEEKDAYS[fields.weekday as usize], 9),
        Key::WeekdayShort => cased(&WEEKDAYS[fields.weekday as usize][..3], case),
        Key::DayOfYear if fills => fields.day_of_year.to_string(),
        Key::DayOfYear => format!("{:03}", fields.day_of_year),
        Key::DayOfMonth if fills => fields.day.to_string(),
        Key::DayOfMonth => format!("{:02}", fields.day),
        Key::DayOfWeek => (fields.weekday + 1).to_string(),
        Key::Fraction(digits) => {
            let number = fields.micros / 10_i64.pow(6 - digits);
            format!("{number:0width$}", width = digits as usize)
        }
        Key::Millisecond => format!("{:03}", fields.micros / 1000),
        Key::Microsecond => format!("{:06}", fields.micros),
        Key::Exact => String::new(),
        Key::Hour24 => padded(fields.hour, 2, fills),
        Key::Hour12 => match fields.hour % 12 {
            0 => padded(12, if fields.hour < 0 { 3 } else { 2 }, fills),
            hour => padded(hour, 2, fills),
        },
        Key::IsoDayOfYear => padded(fields.iso().2, 3, fills),
        Key::IsoDayOfWeek => ((fields.weekday + 6) % 7 + 1).to_string(),
        Key::IsoWeek => padded(fields.iso().1, 2, fills),
        Key::IsoYear(digits) => last_digits(fields.iso().0, digits),
        Key::Julian => (fields.days() - calendar::MIN_DATE).to_string(),
        Key::Minute => padded(fields.minute, 2, fills),
        Key::Month => padded(fields.month, 2, fills),
        Key::MonthName => name(MONTHS[month], 9),
        Key::MonthShort => cased(&MONTHS[month][..3], case),
        Key::Offset => {
            let hours = padded(i64::from(east.abs() / 3600), 2, fills);
            match east.abs() / 60 % 60 {
                _ if east % 3600 == 0 => format!("{east_sign}{hours}"),
                minutes => format!("{east_sign}{hours}:{minutes:02}"),
            }
        }
        Key::Quarter if fields.month == 0 => String::new(),
        Key::Quarter => ((fields.month - 1) / 3 + 1).to_string(),
        Key::RomanMonth => match roman_month(fields) {
            None => String::new(),
            Some(roman) if fills => cased(roman, case),
            Some(roman) => format!("{:<4}", cased(roman, case)),
        },
        Key::SecondOfDay => (fields.hour * 3600 + fields.minute * 60 + fields.second).to_string(),
        Key::Second => padded(fields.second, 2, fills),
        Key::ZoneHour => format!("{east_sign}{:02}", east.abs() / 3600),
        Key::ZoneMinute => format!("{:02}", east.abs() / 60 % 60),
        Key::ZoneName => cased(abbreviation, case),
        Key::WeekOfYear => padded((fields.day_of_year - 1) / 7 + 1, 2, fills),
        Key::WeekOfMonth => ((fields.day - 1) / 7 + 1).to_string(),
        Key::YearWithComma => {
            let year = fields.shown_year(fields.year);
            format!("{},{:03}", year / 1000, year % 1000)
        }
        Key::Year(digits) => last_digits(fields.year, digits),
    })
}
