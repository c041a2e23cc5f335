//! The settings `DateStyle`, `IntervalStyle` and `TimeZone`: their values, as SHOW writes
//! them.

use super::check::invalid;
use crate::error::Result;
use crate::value::{DateFormat, DateOrder, TimeZone};

/// A value of `DateStyle` in its two parts.
pub(super) fn parts(value: &str) -> (DateFormat, DateOrder) {
    let (format, order) = value.split_once(", ").unwrap_or((value, ""));
    let format = match format {
        "SQL" => DateFormat::Sql,
        "Postgres" => DateFormat::Postgres,
        "German" => DateFormat::German,
        _ => DateFormat::Iso,
    };
    let order = match order {
        "DMY" => DateOrder::DayFirst,
        "YMD" => DateOrder::YearFirst,
        _ => DateOrder::MonthFirst,
    };
    (format, order)
}

const fn shown(format: DateFormat, order: DateOrder) -> (&'static str, &'static str) {
    let format = match format {
        DateFormat::Iso => "ISO",
        DateFormat::Sql => "SQL",
        DateFormat::Postgres => "Postgres",
        DateFormat::German => "German",
    };
    let order = match order {
        DateOrder::MonthFirst => "MDY",
        DateOrder::DayFirst => "DMY",
        DateOrder::YearFirst => "YMD",
    };
    (format, order)
}

/// Sets a part that no other word has set otherwise.
fn set<T: PartialEq>(part: &mut Option<T>, value: T, name: &str, all: &str) -> Result<()> {
    if part.as_ref().is_some_and(|set| *set != value) {
        return Err(
            invalid(name, all).with_detail("Conflicting \"datestyle\" specifications.".to_owned())
        );
    }
    *part = Some(value);
    Ok(())
}

/// Checks a value of `DateStyle`. A part that it does not name keeps its current value.
pub(super) fn date_style(name: &str, values: &[String], current: &str) -> Result<String> {
    let all = values.join(", ");
    let (mut format, mut order) = (None, None);
    let mut default = false;
    for word in values.iter().flat_map(|value| value.split(',')) {
        let word = word.trim().to_ascii_lowercase();
        match word.as_str() {
            "iso" => set(&mut format, DateFormat::Iso, name, &all)?,
            "sql" => set(&mut format, DateFormat::Sql, name, &all)?,
            word if word.starts_with("postgres") => {
                set(&mut format, DateFormat::Postgres, name, &all)?;
            }
            "german" => set(&mut format, DateFormat::German, name, &all)?,
            "ymd" => set(&mut order, DateOrder::YearFirst, name, &all)?,
            "dmy" => set(&mut order, DateOrder::DayFirst, name, &all)?,
            word if word.starts_with("euro") => {
                set(&mut order, DateOrder::DayFirst, name, &all)?;
            }
            "mdy" | "us" => set(&mut order, DateOrder::MonthFirst, name, &all)?,
            word if word.starts_with("noneuro") => {
                set(&mut order, DateOrder::MonthFirst, name, &all)?;
            }
            "default" => default = true,
            word => {
                let detail = format!("Unrecognized key word: \"{word}\".");
                return Err(invalid(name, &all).with_detail(detail));
            }
        }
    }
    let (now_format, now_order) = if default {
        (DateFormat::default(), DateOrder::default())
    } else {
        parts(current)
    };
    // German dates begin with the day, unless another order is named beside them.
    let order = order.unwrap_or(match format {
        Some(DateFormat::German) => DateOrder::DayFirst,
        _ => now_order,
    });
    let format = format.unwrap_or(now_format);
    let (format, order) = shown(format, order);
    Ok(format!("{format}, {order}"))
}

/// Checks a value of `TimeZone`: hours east of Greenwich, or a zone's name.
pub(super) fn time_zone(name: &str, value: &str) -> Result<String> {
    if let Some(zone) = TimeZone::of_hours(value) {
        return Ok(zone.to_string());
    }
    match TimeZone::named(value) {
        Some(zone @ TimeZone::Place(_)) => Ok(zone.to_string()),
        // The value is shown in the form in which it is parsed again.
        Some(TimeZone::Fixed(_)) => Ok(value.to_uppercase()),
        None => Err(invalid(name, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(values: &[&str], current: &str) -> String {
        let values: Vec<String> = values.iter().map(|each| (*each).to_owned()).collect();
        date_style("DateStyle", &values, current)
            .unwrap_or_else(|error| error.report().message.clone())
    }

    #[test]
    fn a_part_that_is_not_named_stays() {
        assert_eq!(style(&["sql"], "ISO, DMY"), "SQL, DMY");
        assert_eq!(style(&["dmy"], "German, YMD"), "German, DMY");
        assert_eq!(style(&["german"], "ISO, MDY"), "German, DMY");
        assert_eq!(style(&["german, ymd"], "ISO, MDY"), "German, YMD");
        assert_eq!(style(&["postgresql", "us"], "ISO, DMY"), "Postgres, MDY");
        assert_eq!(style(&["default"], "SQL, DMY"), "ISO, MDY");
        assert!(style(&["iso, sql"], "ISO, MDY").contains("invalid value"));
    }

    #[test]
    fn offsets_are_zones() {
        assert_eq!(time_zone("TimeZone", "5").unwrap(), "<+05>-05");
        assert_eq!(time_zone("TimeZone", "-8.5").unwrap(), "<-08:30>+08:30");
        assert_eq!(
            time_zone("TimeZone", "europe/berlin").unwrap(),
            "Europe/Berlin"
        );
        assert_eq!(time_zone("TimeZone", "foo-2").unwrap(), "FOO-2");
        assert!(time_zone("TimeZone", "nowhere").is_err());
    }
}
