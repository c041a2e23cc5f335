//! System tables of time zones: `pg_timezone_names`, `pg_timezone_abbrevs`.

use crate::Value;
use crate::system::table::system_table;
use crate::value::abbreviations::{self, Abbreviation};
use crate::value::calendar::SECOND;
use crate::value::{Interval, TimeZone};

fn offset(east: i32) -> Value {
    Value::Interval(Interval::of_micros(i64::from(east) * SECOND))
}

/// Offset and daylight saving time of an abbreviation, as it is meant at a moment.
fn meant(name: &str, abbreviation: Abbreviation, moment: i64) -> (i32, bool) {
    match abbreviation {
        Abbreviation::Offset { east, daylight } => (east, daylight),
        Abbreviation::Place(zone) => {
            let local = crate::value::moments::to_local(zone, moment);
            (zone.offset_named(name, local), zone.is_daylight_at(moment))
        }
    }
}

system_table! {
    /// Time zones by their names.
    PG_TIMEZONE_NAMES = PG_CATALOG 12126 View pg_timezone_names;
    context => {
        let now = context.session.style.now;
        TimeZone::all().map(move |zone| (zone, now))
    };
    (zone, now) => {
        name: Text = zone.to_string(),
        abbrev: Text = zone.abbreviation_at(now),
        utc_offset: Interval = offset(zone.offset_at(now)),
        is_dst: Bool = zone.is_daylight_at(now),
    }
}

system_table! {
    /// Abbreviations of time zones that the text of a time may have.
    PG_TIMEZONE_ABBREVS = PG_CATALOG 12122 View pg_timezone_abbrevs;
    context => {
        let now = context.session.style.now;
        abbreviations::ALL.iter().map(move |(name, meaning)| (*name, meant(name, *meaning, now)))
    };
    (name, (east, daylight)) => {
        abbrev: Text = name.to_uppercase(),
        utc_offset: Interval = offset(east),
        is_dst: Bool = daylight,
    }
}
