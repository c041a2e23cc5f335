//! Calendar arithmetic: converts between days since 2000 and year, month and day of the
//! proleptic Gregorian calendar.
//!
//! The calculation lets a year begin in March, so that the leap day is its last day and
//! the lengths of the months before it repeat: 31 30 31 30 31, twice and a bit. 400
//! years always have 146,097 days.

/// Days from 0000-03-01 to 2000-01-01.
const EPOCH_DAYS: i64 = 730_425;
/// Days in 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_DAYS: i64 = 10_957;
/// Microseconds in a day.
pub const DAY: i64 = 86_400_000_000;
/// Microseconds in a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH: i64 = UNIX_EPOCH_DAYS * DAY;

/// Earliest date: 4713-01-01 BC, rounded as PostgreSQL does to Julian day 0.
pub const MIN_DATE: i64 = -2_451_545;
/// First day after the last date: 5874898-01-01.
pub const END_DATE: i64 = 2_145_031_949;
/// Earliest timestamp: Julian day 0.
pub const MIN_TIMESTAMP: i64 = -211_813_488_000_000_000;
/// First moment after the last timestamp: 294277-01-01.
pub const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;

/// The timestamp, or `None` if it is out of range.
#[must_use]
pub fn in_range(timestamp: i64) -> Option<i64> {
    (MIN_TIMESTAMP..END_TIMESTAMP)
        .contains(&timestamp)
        .then_some(timestamp)
}

/// A calendar day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year; 0 is 1 BC.
    pub year: i64,
    /// Month, from 1.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
}

/// Converts days since 2000-01-01 to a calendar day.
#[must_use]
pub fn civil(days: i64) -> Civil {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    } as u32;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    Civil { year, month, day }
}

/// Converts a calendar day to days since 2000-01-01.
#[must_use]
pub fn days(civil: Civil) -> i64 {
    let year = civil.year - i64::from(civil.month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = i64::from((civil.month + 9) % 12);
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(civil.day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_DAYS
}

/// Number of days of a month.
#[must_use]
pub fn month_days(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.rem_euclid(4) == 0
            && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) =>
        {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// Day of the week; 0 is Sunday.
#[must_use]
pub fn day_of_week(days: i64) -> i64 {
    // 2000-01-01 was a Saturday.
    (days + 6).rem_euclid(7)
}

/// Year and number of the ISO week. A week begins on Monday and belongs to the year of
/// its Thursday.
#[must_use]
pub fn iso_week(days_since: i64) -> (i64, i64) {
    let weekday = (day_of_week(days_since) + 6).rem_euclid(7);
    let thursday = days_since - weekday + 3;
    let year = civil(thursday).year;
    let first = days(Civil {
        year,
        month: 1,
        day: 1,
    });
    (year, (thursday - first) / 7 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (year, month, day, number) in [
            (2000, 1, 1, 0),
            (1970, 1, 1, -10_957),
            (2000, 2, 29, 59),
            (1999, 12, 31, -1),
            (2026, 11, 21, 9821),
            (-4713, 11, 24, MIN_DATE),
            (5_874_898, 1, 1, END_DATE),
        ] {
            let date = Civil { year, month, day };
            assert_eq!(days(date), number);
            assert_eq!(civil(number), date);
        }
    }

    #[test]
    fn every_day_of_some_centuries_comes_back() {
        for number in -800_000..300_000 {
            let date = civil(number);
            assert!(date.day <= month_days(date.year, date.month));
            assert_eq!(days(date), number);
        }
    }

    #[test]
    fn weeks() {
        assert_eq!(day_of_week(0), 6);
        let new_year = Civil {
            year: 2021,
            month: 1,
            day: 1,
        };
        assert_eq!(iso_week(days(new_year)), (2020, 53));
    }
}
