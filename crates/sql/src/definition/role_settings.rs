//! ALTER ROLE … SET and RESET, ALTER DATABASE … SET and RESET: settings that sessions begin
//! with.
//!
//! The values are checked as SET checks them, as the role that runs the statement: the login
//! does not check again who may set what.

use super::Change;
use crate::access::{Access, DATABASE, FIRST_ROLE, OwnedSettings, SettingOwner, not_owner};
use crate::catalog::AccessRow;
use crate::error::{Error, Result, SqlState};
use crate::statement::{RoleSettingsCommand, SettingChange, SettingName};

/// Maximum size of the settings of one owner, in bytes. Every login reads them, and they
/// travel between nodes.
const MAX_SETTINGS: usize = 64 << 10;

/// What the session knows of settings: which there are, their values, and who may set them.
/// Names are returned as lists write them.
pub(crate) trait SettingChecks: Send + Sync {
    /// The name and the value, as text, of a setting that is set to these values by such a role.
    fn check(&self, name: &str, values: &[String], superuser: bool) -> Result<(String, String)>;
    /// The name and the value that the session has now.
    fn current(&self, name: &str, superuser: bool) -> Result<(String, String)>;
    /// The name of a setting that such a role may set.
    fn name(&self, name: &str, superuser: bool) -> Result<String>;
}

impl Change<'_> {
    /// Executes ALTER ROLE … SET, ALTER DATABASE … SET, and RESET.
    pub(super) async fn role_settings(
        &mut self,
        command: &RoleSettingsCommand,
    ) -> Result<&'static str> {
        let owner = self.setting_owner(command)?;
        let known = self.catalog.access().settings_of(owner).cloned();
        let settings = known.as_ref().map(|known| known.settings.clone());
        let settings = self.changed_settings(settings.unwrap_or_default(), &command.change)?;
        let key = known.as_ref().map(|known| known.key);
        if known.is_some_and(|known| known.settings == settings)
            || settings.is_empty() && key.is_none()
        {
            return Ok(command.tag());
        }
        let owned = match (settings.is_empty(), key) {
            (true, Some(key)) => {
                self.delete_access(key).await?;
                None
            }
            _ => {
                self.require_kept_settings()?;
                let key = key.unwrap_or_else(|| self.context.store.counters.oid());
                let owned = OwnedSettings { key, settings };
                self.write_access(&AccessRow::Settings(owner, &owned))
                    .await?;
                Some(owned)
            }
        };
        let mut access = Access::clone(self.catalog.access());
        access.put_settings(owner, owned);
        self.keep_access(access);
        Ok(command.tag())
    }

    /// Whom the settings of a statement are for, if the statement's role may change them.
    fn setting_owner(&self, command: &RoleSettingsCommand) -> Result<SettingOwner> {
        let access = self.catalog.access();
        let is_superuser = access.is_superuser(self.session.role);
        let mut role = 0;
        if let Some(name) = &command.role {
            let of = self.resolve(name)?;
            role = of.oid;
            let is_own = role == self.session.role;
            if of.superuser && !is_superuser
                || !is_own && !is_superuser && access.leads_to_superuser(role)
            {
                return Err(refused("must be superuser to alter superusers"));
            }
            let maker = access.role(self.session.role);
            if !is_own && !is_superuser && !maker.is_some_and(|maker| maker.create_role) {
                return Err(refused("permission denied"));
            }
        }
        let mut database = 0;
        if let Some(name) = &command.database {
            // There is one, under the name that the client has connected to.
            if **name != *self.session.database {
                let message = format!("database \"{name}\" does not exist");
                return Err(Error::new(SqlState::INVALID_CATALOG_NAME, message));
            }
            database = DATABASE;
            if role == 0 && !access.has_privileges_of(self.session.role, FIRST_ROLE) {
                return Err(not_owner("database", name));
            }
        }
        if role == 0 && database == 0 && !is_superuser {
            return Err(refused("must be superuser to alter settings globally"));
        }
        Ok(SettingOwner { database, role })
    }

    /// The settings after the change. As in PostgreSQL, a name is checked when there is
    /// something that it could name.
    fn changed_settings(
        &self,
        mut settings: Vec<(String, String)>,
        change: &SettingChange,
    ) -> Result<Vec<(String, String)>> {
        let is_superuser = self.catalog.access().is_superuser(self.session.role);
        let checks = self.context.settings;
        let (name, value) = match change {
            SettingChange::Set(name, values) => checks.check(name, values, is_superuser)?,
            SettingChange::FromCurrent(name) => checks.current(name, is_superuser)?,
            SettingChange::Reset(SettingName::One(name)) => {
                if !settings.is_empty() {
                    let name = checks.name(name, is_superuser)?;
                    settings.retain(|(known, _)| *known != name);
                }
                return Ok(settings);
            }
            SettingChange::Reset(SettingName::All) => {
                settings.retain(|(name, _)| checks.name(name, is_superuser).is_err());
                if is_superuser {
                    settings.clear();
                }
                return Ok(settings);
            }
        };
        match settings.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => settings.push((name, value)),
        }
        let sizes = settings
            .iter()
            .map(|(name, value)| name.len() + value.len());
        if sizes.sum::<usize>() > MAX_SETTINGS {
            let message = "settings of a role or database take too much memory";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_detail(format!("They may take {MAX_SETTINGS} bytes.")));
        }
        Ok(settings)
    }

    /// Fails as long as a node of the cluster may not read catalog rows with settings.
    fn require_kept_settings(&self) -> Result<()> {
        let host = self.session.around.host();
        if host.is_none_or(|host| host.keeps_role_settings()) {
            return Ok(());
        }
        let feature = "a setting of a role or database, before all nodes of the cluster read it,";
        Err(Error::unsupported(feature).with_hint(
            "That takes cluster version 5; \"coeval cluster status\" says what holds it back.",
        ))
    }
}

fn refused(message: &str) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
