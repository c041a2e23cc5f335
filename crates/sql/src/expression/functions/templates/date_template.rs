//! Templates of dates and times: `FMMonth DDth, YYYY`. A template is read once into its
//! elements; then it prints or reads dates.

use std::borrow::Cow;

use crate::{Error, Result, SqlState};

/// A field of a template, whose value it shows in upper case if that says how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// `AD`, `a.d.`
    Era,
    /// `AM`, `p.m.`
    Meridiem,
    Century,
    /// `Day`
    WeekdayName,
    /// `Dy`
    WeekdayShort,
    DayOfYear,
    DayOfMonth,
    DayOfWeek,
    /// `FF1` to `FF6`: so many digits of a second's fraction.
    Fraction(u32),
    /// `FX`: reading wants the blanks of the template.
    Exact,
    Hour24,
    Hour12,
    IsoDayOfYear,
    IsoDayOfWeek,
    IsoWeek,
    /// `IYYY` to `I`: so many digits of the ISO year.
    IsoYear(u32),
    Julian,
    Minute,
    Month,
    MonthName,
    MonthShort,
    Millisecond,
    Microsecond,
    Offset,
    Quarter,
    RomanMonth,
    SecondOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    ZoneName,
    WeekOfYear,
    WeekOfMonth,
    /// `Y,YYY`
    YearWithComma,
    /// `YYYY` to `Y`: so many digits of the year.
    Year(u32),
}

/// How a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Title,
    Lower,
}

/// An element of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Field {
        key: Key,
        case: Case,
        /// Whether era and meridiem have points: `A.D.`
        dotted: bool,
        /// `FM`: without padding.
        fills: bool,
        /// `TH` or `th` behind it: whether it is lower case.
        ordinal: Option<bool>,
        /// The pattern's text.
        word: &'static str,
    },
    /// A punctuation character or a blank.
    Separator(char),
    Space(char),
    /// Any other character.
    Character(char),
}

/// The patterns; longer ones come before those that they begin with.
const KEYS: &[(&str, Key)] = &[
    ("A.D.", Key::Era),
    ("A.M.", Key::Meridiem),
    ("AD", Key::Era),
    ("AM", Key::Meridiem),
    ("B.C.", Key::Era),
    ("BC", Key::Era),
    ("CC", Key::Century),
    ("DAY", Key::WeekdayName),
    ("DDD", Key::DayOfYear),
    ("DD", Key::DayOfMonth),
    ("DY", Key::WeekdayShort),
    ("D", Key::DayOfWeek),
    ("FF1", Key::Fraction(1)),
    ("FF2", Key::Fraction(2)),
    ("FF3", Key::Fraction(3)),
    ("FF4", Key::Fraction(4)),
    ("FF5", Key::Fraction(5)),
    ("FF6", Key::Fraction(6)),
    ("FX", Key::Exact),
    ("HH24", Key::Hour24),
    ("HH12", Key::Hour12),
    ("HH", Key::Hour12),
    ("IDDD", Key::IsoDayOfYear),
    ("ID", Key::IsoDayOfWeek),
    ("IW", Key::IsoWeek),
    ("IYYY", Key::IsoYear(4)),
    ("IYY", Key::IsoYear(3)),
    ("IY", Key::IsoYear(2)),
    ("I", Key::IsoYear(1)),
    ("J", Key::Julian),
    ("MI", Key::Minute),
    ("MM", Key::Month),
    ("MONTH", Key::MonthName),
    ("MON", Key::MonthShort),
    ("MS", Key::Millisecond),
    ("OF", Key::Offset),
    ("P.M.", Key::Meridiem),
    ("PM", Key::Meridiem),
    ("Q", Key::Quarter),
    ("RM", Key::RomanMonth),
    ("SSSSS", Key::SecondOfDay),
    ("SSSS", Key::SecondOfDay),
    ("SS", Key::Second),
    ("TZH", Key::ZoneHour),
    ("TZM", Key::ZoneMinute),
    ("TZ", Key::ZoneName),
    ("US", Key::Microsecond),
    ("WW", Key::WeekOfYear),
    ("W", Key::WeekOfMonth),
    ("Y,YYY", Key::YearWithComma),
    ("YYYY", Key::Year(4)),
    ("YYY", Key::Year(3)),
    ("YY", Key::Year(2)),
    ("Y", Key::Year(1)),
];

/// The pattern at the beginning of a text, with how it is written.
fn key(text: &str) -> Option<(&'static str, Key, Case)> {
    KEYS.iter().find_map(|(word, key)| {
        let start = text.get(..word.len())?;
        if start == *word {
            return Some((*word, *key, Case::Upper));
        }
        if start == word.to_ascii_lowercase() {
            return Some((*word, *key, Case::Lower));
        }
        // Names may begin with a capital: `Month`, `Dy`.
        let named = matches!(
            key,
            Key::WeekdayName | Key::WeekdayShort | Key::MonthName | Key::MonthShort
        );
        let (start, letters) = (start.as_bytes(), word.as_bytes());
        let title = start[0] == letters[0]
            && start[1..]
                .iter()
                .zip(&letters[1..])
                .all(|(given, letter)| *given == letter.to_ascii_lowercase());
        (named && title).then_some((*word, *key, Case::Title))
    })
}

fn strip<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    words.iter().find_map(|word| text.strip_prefix(word))
}

/// A pattern as it is written.
pub(super) fn written(word: &'static str, case: Case) -> Cow<'static, str> {
    match case {
        Case::Upper => Cow::Borrowed(word),
        Case::Lower => Cow::Owned(word.to_ascii_lowercase()),
        Case::Title => Cow::Owned(format!("{}{}", &word[..1], word[1..].to_ascii_lowercase())),
    }
}

/// Reads a template.
pub(super) fn parse(text: &str) -> Result<Vec<Element>> {
    let mut elements = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (mut fills, mut localized) = (false, false);
        if let Some(behind) = strip(rest, &["FM", "fm"]) {
            fills = true;
            rest = behind;
        } else if let Some(behind) = strip(rest, &["TM", "tm"]) {
            // Names of a locale have no padding; here they are those of the locale C.
            localized = true;
            rest = behind;
        }
        if let Some((word, key, case)) = key(rest) {
            let dotted = word.contains('.');
            rest = &rest[word.len()..];
            let ordinal = if rest.starts_with("TH") {
                Some(false)
            } else if rest.starts_with("th") {
                Some(true)
            } else {
                None
            };
            if ordinal.is_some() || rest.starts_with("SP") {
                rest = &rest[2..];
            }
            let named = matches!(key, Key::MonthName | Key::WeekdayName);
            elements.push(Element::Field {
                key,
                case,
                dotted,
                fills: fills || localized && named,
                ordinal,
                word,
            });
            continue;
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut characters = quoted.chars();
            while let Some(character) = characters.next() {
                let shown = match character {
                    '"' => break,
                    '\\' => characters.next().unwrap_or('\\'),
                    other => other,
                };
                elements.push(Element::Character(shown));
            }
            rest = characters.as_str();
            continue;
        }
        // A backslash quotes a quote only.
        let plain = match rest.strip_prefix('\\') {
            Some(behind) if behind.starts_with('"') => behind,
            _ => rest,
        };
        let mut characters = plain.chars();
        if let Some(character) = characters.next() {
            elements.push(if character.is_ascii_punctuation() {
                Element::Separator(character)
            } else if character.is_ascii_whitespace() || character == '\x0b' {
                Element::Space(character)
            } else {
                Element::Character(character)
            });
        }
        rest = characters.as_str();
    }
    Ok(elements)
}

/// The error for a value that a template does not fit.
pub(super) fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

pub(super) const MONTHS: [&str; 12] = [
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

pub(super) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Roman numbers of the months.
pub(super) const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];
