//! Checking the values of settings, and writing them as SHOW does.

use coeval_txn::Isolation;

use super::date_style;
use super::definitions::{Definition, SettingKind};
use crate::error::{Error, Result, SqlState};
use crate::value::{DataType, Encoding, Style, Value};

pub(super) fn invalid(name: &str, value: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

pub(super) fn fixed(name: &str) -> Error {
    Error::new(
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        format!("parameter \"{name}\" cannot be changed"),
    )
}

/// Name of an isolation level in SQL.
pub(crate) const fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::SnapshotIsolation => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}

/// The isolation level with this name in SQL.
pub(crate) fn isolation(name: &str) -> Option<Isolation> {
    match name.to_ascii_lowercase().as_str() {
        "read committed" | "read uncommitted" => Some(Isolation::ReadCommitted),
        "repeatable read" => Some(Isolation::SnapshotIsolation),
        "serializable" => Some(Isolation::Serializable),
        _ => None,
    }
}

/// The level that is READ COMMITTED, and shown by the name it was asked for.
pub(crate) const UNCOMMITTED: &str = "read uncommitted";

/// Whether the name is that level's.
pub(crate) fn is_uncommitted(name: &str) -> bool {
    name.eq_ignore_ascii_case(UNCOMMITTED)
}

/// The Boolean with this name in SQL.
pub(crate) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Checks the name of a setting that an application makes up: error 42602.
pub(super) fn custom_name(name: &str) -> Result<()> {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let continues = |c: char| starts(c) || c.is_ascii_digit() || c == '$';
    let is_valid = name
        .split('.')
        .all(|part| part.starts_with(starts) && part.chars().all(continues));
    match is_valid {
        true => Ok(()),
        false => Err(Error::new(
            SqlState::INVALID_NAME,
            format!("invalid configuration parameter name \"{name}\""),
        )
        .with_detail(
            "Custom parameter names must be two or more simple identifiers separated by dots.",
        )),
    }
}

/// Units of one physical quantity.
pub(super) struct Units {
    /// The unit in which values are stored, then larger ones with their size in that
    /// unit.
    named: &'static [(&'static str, i64)],
    /// A smaller unit, with the number of them in one storage unit.
    smaller: (&'static str, f64),
}

pub(super) const TIMES: &Units = &Units {
    named: &[
        ("ms", 1),
        ("s", 1000),
        ("min", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
    ],
    smaller: ("us", 1000.0),
};

pub(super) const MEMORY: &Units = &Units {
    named: &[("kB", 1), ("MB", 1 << 10), ("GB", 1 << 20), ("TB", 1 << 30)],
    smaller: ("B", 1024.0),
};

/// Parses a number with a unit, and converts it to the storage unit. Rounds to the
/// nearest multiple of that unit.
pub(super) fn quantity(value: &str, units: &Units) -> Option<i64> {
    let value = value.trim();
    let split = value
        .find(|character: char| character.is_ascii_alphabetic())
        .unwrap_or(value.len());
    let number = value[..split].trim();
    let unit = value[split..].trim();
    let scaled = if unit == units.smaller.0 {
        number.parse::<f64>().ok()? / units.smaller.1
    } else {
        let factor = match unit {
            "" => 1,
            unit => units.named.iter().find(|(name, _)| *name == unit)?.1,
        };
        if let Ok(number) = number.parse::<i64>() {
            return number.checked_mul(factor);
        }
        number.parse::<f64>().ok()? * factor as f64
    };
    // A float of this size still has a fraction; the comparison also rejects NaN.
    (scaled.abs() < 1e15).then(|| scaled.round_ties_even() as i64)
}

/// Writes a quantity in the largest unit that divides it without a remainder.
pub(super) fn write_quantity(value: i64, units: &Units) -> String {
    if value == 0 {
        return "0".to_owned();
    }
    let (name, factor) = units
        .named
        .iter()
        .rev()
        .find(|(_, factor)| value % factor == 0)
        .expect("the smallest takes all");
    format!("{}{name}", value / factor)
}

/// A number with six digits, as PostgreSQL's messages show it.
fn short(number: f64) -> String {
    let style = Style {
        rounded_floats: Some(-9),
        ..Style::default()
    };
    let text = Value::Float8(number).to_text(DataType::Float8.into(), &style);
    text.unwrap_or_default().to_string()
}

/// Checks a value and writes it as SHOW does. `current` is the value that the setting has.
pub(super) fn check(definition: &Definition, values: &[String], current: &str) -> Result<String> {
    let name = definition.name;
    if !matches!(definition.kind, SettingKind::List | SettingKind::DateStyle) && values.len() != 1 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("SET {name} takes only one argument"),
        ));
    }
    let value = values.first().map_or("", String::as_str);
    let wrong = || invalid(name, value);
    Ok(match definition.kind {
        SettingKind::Switch => if switch(value).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{name}\" requires a Boolean value"),
            )
        })? {
            "on"
        } else {
            "off"
        }
        .to_owned(),
        SettingKind::Number(least, most) => {
            let number: i64 = value.trim().parse().map_err(|_| wrong())?;
            if !(least..=most).contains(&number) {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})"
                    ),
                ));
            }
            number.to_string()
        }
        SettingKind::Real(least, most) => {
            let number: f64 = value.trim().parse().map_err(|_| wrong())?;
            if !(least..=most).contains(&number) {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{} is outside the valid range for parameter \"{name}\" ({} .. {})",
                        short(number),
                        short(least),
                        short(most)
                    ),
                ));
            }
            number.to_string()
        }
        SettingKind::Blocks => {
            let blocks = value.trim().parse::<i64>().ok();
            let kilobytes = match blocks {
                Some(blocks) => blocks.checked_mul(8),
                None => quantity(value, MEMORY),
            };
            let kilobytes = kilobytes.ok_or_else(wrong)?;
            if !(0..=i64::from(i32::MAX) * 8).contains(&kilobytes) {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{} is outside the valid range for parameter \"{name}\" (0 .. {})",
                        kilobytes / 8,
                        i32::MAX
                    ),
                ));
            }
            write_quantity(kilobytes, MEMORY)
        }
        SettingKind::TimeOrNever if value.trim() == "-1" => "-1".to_owned(),
        SettingKind::Time | SettingKind::TimeOrNever | SettingKind::StatementMemory => {
            let units = if matches!(definition.kind, SettingKind::StatementMemory) {
                MEMORY
            } else {
                TIMES
            };
            let number = quantity(value, units).ok_or_else(wrong)?;
            if !(0..=i64::from(i32::MAX)).contains(&number) {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number} is outside the valid range for parameter \"{name}\" (0 .. {})",
                        i32::MAX
                    ),
                ));
            }
            write_quantity(number, units)
        }
        SettingKind::Word(words) => {
            let word = match switch(value) {
                Some(true) if words.contains(&"on") => "on".to_owned(),
                Some(false) if words.contains(&"off") => "off".to_owned(),
                _ => value.to_owned(),
            };
            words
                .iter()
                .find(|known| known.eq_ignore_ascii_case(&word))
                .map(|known| (*known).to_owned())
                .ok_or_else(|| {
                    wrong().with_hint(format!("Available values: {}.", words.join(", ")))
                })?
        }
        SettingKind::Text => value.to_owned(),
        SettingKind::List => values.join(", "),
        SettingKind::TimeZone => date_style::time_zone(name, value)?,
        SettingKind::DateStyle => date_style::date_style(name, values, current)?,
        SettingKind::Encoding => {
            let found = Encoding::named(value).ok_or_else(wrong)??;
            found.name().to_owned()
        }
        SettingKind::Isolation => isolation(value)
            .map(|level| match value.to_ascii_lowercase().as_str() {
                UNCOMMITTED => UNCOMMITTED,
                _ => isolation_name(level),
            })
            .ok_or_else(wrong)?
            .to_owned(),
        SettingKind::Fixed => return Err(fixed(name)),
    })
}
