//! SET, SHOW and RESET, from their trees.

use coeval_sql_syntax::tree::{BaseType, Cast, Expr, ExprKind, Path, Setting, SettingAction};

use super::command::{Command, SetCommand, SettingName};
use super::copy::number_text;
use super::lower::Lower;
use super::transaction::modes;
use crate::error::{Error, Result};
use crate::value::interval::IntervalRange;
use crate::value::{ColumnType, DataType, Style, TimeZone, Value};

pub(super) fn set(lower: &Lower<'_>, setting: Setting) -> Result<Command> {
    let local = setting.local;
    Ok(match setting.action {
        SettingAction::Assign(name, values) => {
            assign(local, joined(&name), Some(texts(lower, &values)?))
        }
        SettingAction::Default(name) => assign(local, joined(&name), None),
        SettingAction::FromCurrent(_) => return Err(lower.unsupported("SET … FROM CURRENT")),
        SettingAction::Transaction(list) => Command::SetTransaction(modes(&list)),
        SettingAction::SessionCharacteristics(list) => Command::SetCharacteristics(modes(&list)),
        SettingAction::Snapshot(_) => return Err(lower.unsupported("SET TRANSACTION SNAPSHOT")),
        SettingAction::ResetAll => Command::Reset(SettingName::All),
        SettingAction::Reset(name) => match joined(&name).as_str() {
            "session_authorization" => Command::SetAuthorization {
                tag: "RESET",
                local: false,
                name: None,
            },
            "role" => Command::SetRole {
                tag: "RESET",
                local: false,
                name: None,
            },
            name => Command::Reset(SettingName::One(name.to_owned())),
        },
    })
}

fn assign(local: bool, name: String, values: Option<Vec<String>>) -> Command {
    let role = |none: &str| {
        let value = values.as_ref().and_then(|values| values.first()).cloned();
        value.filter(|name| name != none)
    };
    match name.as_str() {
        "role" => Command::SetRole {
            tag: "SET",
            local,
            name: role("none"),
        },
        "session_authorization" => Command::SetAuthorization {
            tag: "SET",
            local,
            name: role("default"),
        },
        _ => Command::Set(SetCommand {
            local,
            name,
            values,
        }),
    }
}

/// The values that are assigned, as texts.
pub(super) fn texts(lower: &Lower<'_>, values: &[Expr]) -> Result<Vec<String>> {
    let texts = values.iter().map(|value| match &value.kind {
        ExprKind::Literal(literal) => Ok(number_text(literal)),
        ExprKind::Cast(cast) => zone_of(cast),
        _ => Err(lower.unsupported("SET TIME ZONE with an expression")),
    });
    texts.collect()
}

/// The time zone that an interval means, the only cast that the grammar lets a value of a
/// setting be.
fn zone_of(cast: &Cast) -> Result<String> {
    let BaseType::Interval(fields, digits) = &cast.target.base else {
        return Err(Error::internal("a time zone that is no interval"));
    };
    let digits = digits.map(|digits| digits.clamp(0, 6) as u32);
    let to = ColumnType {
        data_type: DataType::Interval,
        modifier: IntervalRange::modifier(*fields, digits),
    };
    let text = match &cast.operand.kind {
        ExprKind::Literal(literal) => number_text(literal),
        _ => String::new(),
    };
    match Value::parse(&text, to, &Style::default())? {
        Value::Interval(interval) => TimeZone::of_interval(interval).map(|zone| zone.to_string()),
        _ => Err(Error::internal("a time zone that is no interval")),
    }
}

/// A setting's name, in lower case as all settings' names are.
pub(super) fn joined(name: &Path) -> String {
    let parts: Vec<String> = name.0.iter().map(|part| part.text.to_lowercase()).collect();
    parts.join(".")
}

/// The settings that SHOW names: no setting has the name `all`, with quotes or without.
pub(super) fn setting_name(name: &Path) -> SettingName {
    match joined(name).as_str() {
        "all" => SettingName::All,
        name => SettingName::One(name.to_owned()),
    }
}
