//! Time zones: converts between moments and local time.

use std::fmt;

use chrono::{Offset, TimeZone as _};

use super::calendar::{SECOND, UNIX_EPOCH};

/// A session's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeZone {
    /// A zone of the time zone database, with its daylight saving rules.
    Place(chrono_tz::Tz),
    /// A fixed offset, in seconds east of Greenwich.
    Fixed(i32),
}

impl Default for TimeZone {
    fn default() -> Self {
        Self::Place(chrono_tz::Tz::Etc__UTC)
    }
}

/// Maximum offset, in seconds.
const MAX_OFFSET: i32 = 168 * 3600;

/// Seconds since 1970 beyond which the `chrono` library has no years.
const FAR: i64 = 8_000_000_000_000;

/// Seconds in 40,000 years.
const ROUND: i64 = 100 * 146_097 * 86_400;

impl TimeZone {
    /// The zone with this name, as `SET time zone` takes it: a zone of the database, an
    /// abbreviation, or hours east of Greenwich.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("z") {
            return Some(Self::Place(chrono_tz::Tz::UTC));
        }
        if let Some(zone) = chrono_tz::TZ_VARIANTS
            .iter()
            .find(|zone| zone.name().eq_ignore_ascii_case(name))
        {
            return Some(Self::Place(*zone));
        }
        let hours: f64 = name.parse().ok()?;
        let seconds = (hours * 3600.0).round();
        (seconds.abs() <= f64::from(MAX_OFFSET)).then_some(Self::Fixed(seconds as i32))
    }

    /// Offset in seconds east of Greenwich at a moment (microseconds since 2000 UTC).
    #[must_use]
    pub fn offset_at(self, moment: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Place(zone) => {
                let unix = moment.saturating_add(UNIX_EPOCH).div_euclid(SECOND);
                // Years beyond the library's range use the rules of 40,000 years
                // earlier, because the calendar repeats every 400 years.
                let unix = if unix > FAR { unix - ROUND } else { unix };
                match chrono::DateTime::from_timestamp(unix, 0) {
                    Some(utc) => zone
                        .offset_from_utc_datetime(&utc.naive_utc())
                        .fix()
                        .local_minus_utc(),
                    // Beyond the range of the zone's rules.
                    None => 0,
                }
            }
        }
    }

    /// The moment at which local time in the zone is `local`. A local time that a
    /// change of the clock skips or repeats is read with the offset in force before the
    /// change, as PostgreSQL does.
    #[must_use]
    pub fn moment_of(self, local: i64) -> i64 {
        let east = |moment| i64::from(self.offset_at(moment)) * SECOND;
        // One day before `local`, the offset is the one before any change nearby.
        let before = local.saturating_sub(east(local.saturating_sub(super::calendar::DAY)));
        let after = local.saturating_sub(east(local.saturating_add(super::calendar::DAY)));
        if before == after {
            return before;
        }
        // One of the two readings is consistent with itself, unless the local time is
        // skipped; a repeated time is consistent with both and means the later one
        // (standard time), as a skipped one is read in standard time.
        let after_holds = after.saturating_add(east(after)) == local;
        let before_holds = before.saturating_add(east(before)) == local;
        match (before_holds, after_holds) {
            (true, false) => before,
            (false, true) => after,
            _ => before.max(after),
        }
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(zone) => formatter.write_str(zone.name()),
            Self::Fixed(seconds) => {
                // POSIX offsets count west of Greenwich.
                let (sign, west) = if *seconds < 0 { ('-', '+') } else { ('+', '-') };
                let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
                if minutes == 0 {
                    write!(formatter, "<{sign}{hours:02}>{west}{hours:02}")
                } else {
                    write!(
                        formatter,
                        "<{sign}{hours:02}:{minutes:02}>{west}{hours:02}:{minutes:02}"
                    )
                }
            }
        }
    }
}
