//! Decoder of dates and times: gives each field of a text its meaning, from left to
//! right. Order matters little: a field that is known is not read twice, and what remains
//! is told apart by its length and the setting `DateStyle`.

use super::civil::{
    AFTERNOON, DATE, DAY_OF_MONTH, DAYLIGHT, ERA, FRACTION, Fields, HOURS, MINUTES, MONTH, Mask,
    NAMED, SECONDS, TIME, WEEKDAY, YEAR, ZONE, integer, micros, offset,
};
use super::fault::Fault;
use super::lexer::{Field, Shape};
use super::words::{self, Label, Named, Word};
use crate::value::abbreviations::{self, Abbreviation};
use crate::value::calendar::{self, DAY};
use crate::value::interval::{HOUR, MINUTE};
use crate::value::{Style, TimeZone};

/// What a text says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decoded {
    /// `infinity` or `-infinity`.
    Infinity { negative: bool },
    /// `epoch`: 1970-01-01 00:00, in UTC for a timestamp with time zone, and without
    /// regard to any zone for the other types.
    Epoch,
    /// A date and a time of day.
    Local {
        /// Days since 2000; 0 where a time has no date.
        days: i64,
        /// Microseconds since midnight; 24:00 is allowed.
        time: i64,
        /// Seconds east of Greenwich.
        east: i64,
    },
}

/// The time zone that a text names.
#[derive(Clone, Copy, Debug)]
enum Zone<'a> {
    None,
    /// Seconds east of Greenwich.
    East(i64),
    /// A zone by its name.
    Place(TimeZone),
    /// A zone by one of its abbreviations.
    Short(TimeZone, &'a str),
}

/// Whether a text is read as a date, perhaps with a time, or as a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    DateTime,
    Time,
}

struct Decoder<'a> {
    wanted: Wanted,
    style: &'a Style,
    shapes: &'a [Field],
    fields: Fields,
    known: Mask,
    label: Option<Label>,
    zone: Zone<'a>,
    named: Option<Decoded>,
}

/// Decodes the fields of a text.
pub(super) fn decode(shapes: &[Field], wanted: Wanted, style: &Style) -> Result<Decoded, Fault> {
    let mut decoder = Decoder {
        wanted,
        style,
        shapes,
        fields: Fields::default(),
        known: 0,
        label: None,
        zone: Zone::None,
        named: None,
    };
    for at in 0..shapes.len() {
        let Some(mask) = decoder.field(at)? else {
            continue;
        };
        if mask & decoder.known != 0 {
            return Err(Fault::Format);
        }
        decoder.known |= mask;
    }
    if decoder.label.is_some() {
        return Err(Fault::Format);
    }
    decoder.finish()
}

impl<'a> Decoder<'a> {
    /// Reads a field; returns what it says, or nothing if it is to be ignored.
    fn field(&mut self, at: usize) -> Result<Option<Mask>, Fault> {
        let shapes = self.shapes;
        let field = &shapes[at];
        match field.shape {
            Shape::Date => self.date(at, &field.text).map(Some),
            Shape::Time => {
                if !matches!(self.label.take(), None | Some(Label::Time)) {
                    return Err(Fault::Format);
                }
                let mask = self.fields.read_time(&field.text)?;
                if self.fields.is_beyond_midnight() {
                    return Err(Fault::Field);
                }
                Ok(Some(mask))
            }
            Shape::Zone => {
                self.zone = Zone::East(offset(&field.text)?);
                Ok(Some(ZONE))
            }
            Shape::Number => match self.label.take() {
                Some(label) => self.labelled(label, &field.text).map(Some),
                None => self.number(at, &field.text).map(Some),
            },
            Shape::Word | Shape::Signed => self.word(at, &field.text),
        }
    }

    /// A field with punctuation: a date, a time zone, or a time with its offset.
    fn date(&mut self, at: usize, text: &'a str) -> Result<Mask, Fault> {
        let order = self.style.date_order;
        if self.label == Some(Label::Julian) {
            self.label = None;
            let (days, rest) = integer(text)?;
            if days < 0 {
                return Err(Fault::Field);
            }
            self.set_julian(days);
            self.zone = Zone::East(offset(rest)?);
            return Ok(DATE | TIME | ZONE);
        }
        let dated = match self.wanted {
            Wanted::DateTime => {
                let day = MONTH | DAY_OF_MONTH;
                self.label.is_some() || self.known & day == day
            }
            Wanted::Time => {
                let last = self.shapes.last().map(|last| last.shape);
                let second = self.shapes.get(1).map(|second| second.shape);
                !(at == 0
                    && self.shapes.len() >= 2
                    && (last == Some(Shape::Date) || second == Some(Shape::Time)))
            }
        };
        if !dated {
            return self.fields.read_date(text, self.known, order);
        }
        let label = self.label.take();
        let digit = text.starts_with(|c: char| c.is_ascii_digit());
        if !digit && label.is_none() {
            let zone = TimeZone::named(text).ok_or_else(|| Fault::Zone(text.to_owned()))?;
            self.zone = Zone::Place(zone);
            return Ok(ZONE);
        }
        if label.is_some_and(|label| label != Label::Time) || self.known & TIME == TIME {
            return Err(Fault::Format);
        }
        let sign = text.find('-').ok_or(Fault::Format)?;
        self.zone = Zone::East(offset(&text[sign..])?);
        let known = match self.wanted {
            Wanted::DateTime => self.known,
            Wanted::Time => self.known | DATE,
        };
        Ok(self.fields.read_run(&text[..sign], known)? | ZONE)
    }

    fn set_julian(&mut self, days: i64) {
        self.fields
            .set_civil(calendar::civil(days + calendar::MIN_DATE));
        self.fields.julian = true;
    }

    /// A number behind a word that says what it is.
    fn labelled(&mut self, label: Label, text: &str) -> Result<Mask, Fault> {
        let (value, rest) = integer(text)?;
        let fractional = rest.starts_with('.');
        let may_have_fraction = matches!(label, Label::Julian | Label::Time | Label::Second);
        let is_whole = rest.is_empty() || fractional && may_have_fraction;
        if !is_whole {
            return Err(Fault::Format);
        }
        // What has a unit is a date after all.
        self.named = None;
        Ok(match label {
            Label::Year => {
                self.fields.year = value;
                YEAR
            }
            // Behind an hour, `m` means minutes.
            Label::Month if self.known & MONTH != 0 && self.known & HOURS != 0 => {
                self.fields.minute = value;
                MINUTES
            }
            Label::Month => {
                self.fields.month = value;
                MONTH
            }
            Label::Day => {
                self.fields.day = value;
                DAY_OF_MONTH
            }
            Label::Hour => {
                self.fields.hour = value;
                HOURS
            }
            Label::Minute => {
                self.fields.minute = value;
                MINUTES
            }
            Label::Second => {
                self.fields.second = value;
                if fractional {
                    self.fields.micros = micros(rest)?;
                    SECONDS | FRACTION
                } else {
                    SECONDS
                }
            }
            Label::Julian => {
                if value < 0 {
                    return Err(Fault::Field);
                }
                self.set_julian(value);
                if !fractional {
                    return Ok(DATE);
                }
                let day: f64 = rest.parse().map_err(|_| Fault::Format)?;
                self.set_clock((day * DAY as f64).round_ties_even() as i64);
                DATE | TIME
            }
            Label::Time => {
                let mask = self.fields.read_run(text, self.known | DATE)?;
                if mask != TIME {
                    return Err(Fault::Format);
                }
                mask
            }
            Label::Other => return Err(Fault::Format),
        })
    }

    /// A number without a label.
    fn number(&mut self, at: usize, text: &str) -> Result<Mask, Fault> {
        let order = self.style.date_order;
        let point = text.find('.');
        match self.wanted {
            Wanted::DateTime => match point {
                Some(_) if self.known & DATE == 0 => self.fields.read_date(text, self.known, order),
                Some(point) if point > 2 => self.fields.read_run(text, self.known),
                None if text.len() >= 6 && (self.known & DATE == 0 || self.known & TIME == 0) => {
                    self.fields.read_run(text, self.known)
                }
                _ => {
                    let named = self.fields.month_named;
                    self.fields.read_number(text, named, self.known, order)
                }
            },
            Wanted::Time => {
                let known = self.known | DATE;
                match point {
                    Some(point) => {
                        let last = self.shapes.last().map(|last| last.shape);
                        if at == 0 && self.shapes.len() >= 2 && last == Some(Shape::Date) {
                            self.fields.read_date(text, self.known, order)
                        } else if point > 2 {
                            self.fields.read_run(text, known)
                        } else {
                            Err(Fault::Format)
                        }
                    }
                    None if text.len() > 4 => self.fields.read_run(text, known),
                    None => self.fields.read_number(text, false, known, order),
                }
            }
        }
    }

    fn word(&mut self, at: usize, text: &'a str) -> Result<Option<Mask>, Fault> {
        // Abbreviations of time zones come before other words.
        if let Some(abbreviation) = abbreviations::lookup(text) {
            let (zone, mask) = match abbreviation {
                Abbreviation::Offset { east, daylight } => {
                    let mask = if daylight { ZONE | DAYLIGHT } else { ZONE };
                    (Zone::East(i64::from(east)), mask)
                }
                Abbreviation::Place(zone) => (Zone::Short(zone, text), ZONE),
            };
            self.zone = zone;
            return Ok(Some(mask));
        }
        let Some(word) = words::lookup(text) else {
            let zone = TimeZone::named(text).ok_or(Fault::Format)?;
            self.zone = Zone::Place(zone);
            return Ok(Some(ZONE));
        };
        Ok(Some(match word {
            Word::Ignored => return Ok(None),
            Word::Named(named) => self.named(named)?,
            Word::Month(month) if self.wanted == Wanted::DateTime => {
                let fields = &mut self.fields;
                // What was taken for the month was the day.
                let was_day = self.known & MONTH != 0
                    && !fields.month_named
                    && self.known & DAY_OF_MONTH == 0
                    && (1..=31).contains(&fields.month);
                if was_day {
                    fields.day = fields.month;
                }
                fields.month_named = true;
                fields.month = month;
                if was_day { DAY_OF_MONTH } else { MONTH }
            }
            Word::Weekday if self.wanted == Wanted::DateTime => WEEKDAY,
            Word::Month(_) | Word::Weekday => return Err(Fault::Format),
            Word::Label(Label::Time) => {
                let next = self.shapes.get(at + 1).map(|next| next.shape);
                let date_first = self.wanted == Wanted::DateTime && self.known & DATE != DATE;
                if date_first || !matches!(next, Some(Shape::Number | Shape::Time | Shape::Date)) {
                    return Err(Fault::Format);
                }
                self.label = Some(Label::Time);
                return Ok(None);
            }
            Word::Label(label) => {
                self.label = Some(label);
                return Ok(None);
            }
            Word::Afternoon(afternoon) => {
                self.fields.afternoon = Some(afternoon);
                AFTERNOON
            }
            Word::BeforeChrist(before) => {
                self.fields.before_christ = before;
                ERA
            }
            Word::Daylight => {
                if let Zone::East(east) = &mut self.zone {
                    *east += 3600;
                }
                DAYLIGHT
            }
        }))
    }

    fn named(&mut self, named: Named) -> Result<Mask, Fault> {
        let now = self.style.now;
        let local = self.style.local(now);
        let (day, clock) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let shift = match (named, self.wanted) {
            (Named::Zulu, _) => {
                let fields = &mut self.fields;
                (fields.hour, fields.minute, fields.second, fields.micros) = (0, 0, 0, 0);
                self.zone = Zone::East(0);
                return Ok(TIME | ZONE);
            }
            (Named::Now, Wanted::Time) => {
                self.set_clock(clock);
                return Ok(TIME);
            }
            (_, Wanted::Time) => return Err(Fault::Format),
            (Named::Now, _) => {
                self.set_clock(clock);
                self.fields.set_civil(calendar::civil(day));
                self.fields.julian = true;
                self.zone = Zone::East(i64::from(self.style.time_zone.offset_at(now)));
                return Ok(DATE | TIME | ZONE);
            }
            (Named::Epoch, _) => {
                self.named = Some(Decoded::Epoch);
                return Ok(NAMED);
            }
            (Named::Infinity | Named::MinusInfinity, _) => {
                let negative = named == Named::MinusInfinity;
                self.named = Some(Decoded::Infinity { negative });
                return Ok(NAMED);
            }
            (Named::Yesterday, _) => -1,
            (Named::Today, _) => 0,
            (Named::Tomorrow, _) => 1,
        };
        self.fields.set_civil(calendar::civil(day + shift));
        self.fields.julian = true;
        Ok(DATE)
    }

    fn set_clock(&mut self, clock: i64) {
        self.fields.hour = clock / HOUR;
        self.fields.minute = clock / MINUTE % 60;
        self.fields.second = clock / calendar::SECOND % 60;
        self.fields.micros = clock % calendar::SECOND;
    }

    fn finish(mut self) -> Result<Decoded, Fault> {
        self.fields.check_date(self.known)?;
        self.fields.apply_afternoon()?;
        if let Some(named) = self.named {
            return Ok(named);
        }
        let has_date = self.known & DATE == DATE;
        let has_time = self.known & TIME == TIME;
        let complete = match self.wanted {
            Wanted::DateTime => has_date,
            Wanted::Time => {
                if self.fields.is_beyond_midnight() {
                    return Err(Fault::Field);
                }
                has_time
            }
        };
        if !complete {
            return Err(Fault::Format);
        }
        let days = if has_date { self.fields.days() } else { 0 };
        let time = self.fields.time();
        let daylight = self.known & DAYLIGHT != 0;
        let (zone, abbreviation) = match self.zone {
            Zone::East(east) => {
                return Ok(Decoded::Local { days, time, east });
            }
            _ if daylight => return Err(Fault::Format),
            Zone::None => (self.style.time_zone, None),
            Zone::Place(zone) => (zone, None),
            Zone::Short(zone, abbreviation) => (zone, Some(abbreviation)),
        };
        // The offset of a zone depends on the date; a time without one is today's.
        let day = match (self.wanted, has_date) {
            (Wanted::DateTime, _) | (Wanted::Time, true) => days,
            (Wanted::Time, false) if self.known & DATE != 0 => return Err(Fault::Format),
            (Wanted::Time, false) => {
                let is_place = matches!(self.zone, Zone::Place(_));
                if is_place && zone.fixed_offset().is_none() {
                    return Err(Fault::Format);
                }
                self.style.local(self.style.now).div_euclid(DAY)
            }
        };
        let local = day.saturating_mul(DAY).saturating_add(time);
        let east = match abbreviation {
            Some(abbreviation) => i64::from(zone.offset_named(abbreviation, local)),
            None => local.saturating_sub(zone.moment_of(local)) / calendar::SECOND,
        };
        Ok(Decoded::Local { days, time, east })
    }
}
