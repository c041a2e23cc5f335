//! ALTER ROLE … SET and RESET, and ALTER DATABASE, from their trees.

use coeval_sql_syntax::tree::{self, DatabaseAction, SettingAction};

use super::command::{Command, RoleCommand, RoleName, SettingName};
use super::lower::Lower;
use super::role::role_name;
use super::setting::{joined, texts};
use crate::catalog::fold;
use crate::error::Result;

/// ALTER ROLE … SET or RESET, or the same of a database.
#[derive(Clone, Debug)]
pub(crate) struct RoleSettingsCommand {
    /// The role; `None` for all roles.
    pub role: Option<RoleName>,
    /// The database, if the settings are for it alone.
    pub database: Option<String>,
    /// Whether the statement is ALTER DATABASE.
    pub is_of_database: bool,
    /// What becomes of the settings.
    pub change: SettingChange,
}

impl RoleSettingsCommand {
    /// The command tag.
    pub(crate) const fn tag(&self) -> &'static str {
        match self.is_of_database {
            true => "ALTER DATABASE",
            false => "ALTER ROLE",
        }
    }
}

/// A change of settings that are kept.
#[derive(Clone, Debug)]
pub(crate) enum SettingChange {
    /// SET name TO values.
    Set(String, Vec<String>),
    /// SET name FROM CURRENT.
    FromCurrent(String),
    /// RESET, and SET name TO DEFAULT.
    Reset(SettingName),
}

pub(super) fn of_role(lower: &Lower<'_>, alter: tree::AlterRoleSetting) -> Result<Command> {
    command(RoleSettingsCommand {
        role: alter.role.as_ref().map(role_name),
        database: alter.database.as_ref().map(fold),
        is_of_database: false,
        change: change(lower, alter.setting.action)?,
    })
}

pub(super) fn of_database(lower: &Lower<'_>, alter: tree::AlterDatabase) -> Result<Command> {
    let DatabaseAction::Setting(setting) = alter.action else {
        return Err(lower.unsupported("ALTER DATABASE other than SET and RESET of a setting"));
    };
    command(RoleSettingsCommand {
        role: None,
        database: Some(fold(&alter.name)),
        is_of_database: true,
        change: change(lower, setting.action)?,
    })
}

fn command(command: RoleSettingsCommand) -> Result<Command> {
    Ok(Command::Role(RoleCommand::Settings(command)))
}

fn change(lower: &Lower<'_>, action: SettingAction) -> Result<SettingChange> {
    Ok(match action {
        SettingAction::Assign(name, values) => {
            let name = joined(&name);
            if matches!(name.as_str(), "role" | "session_authorization") {
                return Err(lower.unsupported("a role as a setting of a role"));
            }
            SettingChange::Set(name, texts(lower, &values)?)
        }
        SettingAction::FromCurrent(name) => SettingChange::FromCurrent(joined(&name)),
        SettingAction::Default(name) | SettingAction::Reset(name) => {
            SettingChange::Reset(SettingName::One(joined(&name)))
        }
        SettingAction::ResetAll => SettingChange::Reset(SettingName::All),
        SettingAction::Transaction(_)
        | SettingAction::SessionCharacteristics(_)
        | SettingAction::Snapshot(_) => {
            return Err(lower.unsupported("a transaction's mode as a setting of a role"));
        }
    })
}
