//! Settings that roles and the database keep: what ALTER ROLE … SET checks, and what a session
//! begins with.

use super::check::{check, custom_name, fixed};
use super::definitions::{Definition, SettingKind, definition};
use super::{Settings, denied, unknown};
use crate::access::LoginSetting;
use crate::catalog::quote_identifier;
use crate::definition::SettingChecks;
use crate::error::{Error, Result, SqlState};

impl SettingChecks for Settings {
    fn check(&self, name: &str, values: &[String], superuser: bool) -> Result<(String, String)> {
        let Some(definition) = known(name, superuser)? else {
            return Ok((name.to_owned(), values.join(", ")));
        };
        check(definition, values, definition.initial)?;
        let value = match definition.kind {
            SettingKind::List => {
                let names = values.iter().map(|name| quote_identifier(name));
                names.collect::<Vec<_>>().join(", ")
            }
            _ => values.join(", "),
        };
        Ok((definition.name.to_owned(), value))
    }

    fn current(&self, name: &str, superuser: bool) -> Result<(String, String)> {
        let value = self.show(name)?.to_owned();
        let known = known(name, superuser)?;
        Ok((known.map_or(name, |known| known.name).to_owned(), value))
    }

    fn name(&self, name: &str, superuser: bool) -> Result<String> {
        let known = known(name, superuser)?;
        Ok(known.map_or(name, |known| known.name).to_owned())
    }
}

/// The setting of this name, `None` for a custom one, if such a role may set it for roles.
fn known(name: &str, superuser: bool) -> Result<Option<&'static Definition>> {
    let Some(definition) = definition(name) else {
        if !name.contains('.') {
            return Err(unknown(name));
        }
        custom_name(name)?;
        // It may be the name of a restricted setting in a later build.
        return match superuser {
            true => Ok(None),
            false => Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to set parameter \"{name}\""),
            )),
        };
    };
    match definition.name {
        "role" | "session_authorization" => {
            Err(Error::unsupported("a role as a setting of a role"))
        }
        "transaction_isolation" | "transaction_read_only" | "transaction_deferrable" => Err(
            Error::unsupported(format!("{} as a setting of a role", definition.name))
                .with_hint(format!("Set default_{}.", definition.name)),
        ),
        _ if matches!(definition.kind, SettingKind::Fixed) => Err(fixed(name)),
        _ if definition.restricted && !superuser => Err(denied(definition)),
        _ => Ok(Some(definition)),
    }
}

impl Settings {
    /// Sets what the session's role and the database have for it. Who may set it was checked
    /// when they got it. One that cannot be set is left out; returns the errors.
    pub(super) fn take_stored(&mut self, stored: &[LoginSetting]) -> Vec<Error> {
        let mut refused = Vec::new();
        for LoginSetting {
            source,
            name,
            value,
        } in stored
        {
            // What lists write as the name is what `take_over` keeps the value under.
            let key = definition(name).map_or(name.as_str(), |definition| definition.name);
            match self.take_over(name, value) {
                Ok(()) => {
                    self.stored.insert(key.to_owned(), source.name());
                }
                Err(error) => refused.push(error),
            }
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::super::Beginning;
    use super::*;
    use crate::access::SettingSource;
    use crate::session::identity::Who;

    fn setting(source: SettingSource, name: &str, value: &str) -> LoginSetting {
        LoginSetting {
            source,
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn a_session_begins_with_what_its_role_has() {
        use SettingSource::{Database, Global, Role, RoleInDatabase};
        let stored = [
            setting(Global, "statement_timeout", "1000"),
            setting(Global, "lock_timeout", "1s"),
            setting(Database, "lock_timeout", "2s"),
            setting(Database, "timezone", "Asia/Tokyo"),
            setting(Role, "lock_timeout", "3s"),
            setting(Role, "work_mem", "8MB"),
            setting(Role, "nope", "1"),
            setting(Role, "server_version", "4"),
            setting(Role, "my.own", "of the role"),
            setting(Role, "log_min_duration_statement", "7"),
            setting(RoleInDatabase, "work_mem", "much"),
            setting(RoleInDatabase, "extra_float_digits", "2"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let (mut settings, refused) = Settings::at_start(
            Beginning {
                login: Who {
                    role: 17_000,
                    name: "ada".into(),
                    superuser: false,
                },
                application_name: "",
                defaults: &[owned(("work_mem", "4MB")), owned(("timezone", "UTC"))],
                stored: &stored,
                parameters: &[owned(("TimeZone", "Europe/Berlin"))],
            },
            &mut Err,
        )
        .unwrap();
        let refused: Vec<&str> = refused
            .iter()
            .map(|error| &*error.report().message)
            .collect();
        assert_eq!(
            refused,
            [
                "unrecognized configuration parameter \"nope\"",
                "parameter \"server_version\" cannot be changed",
                "invalid value for parameter \"work_mem\": \"much\"",
            ]
        );
        let expected = [
            ("lock_timeout", "3s", "user"),
            ("statement_timeout", "1s", "global"),
            ("TimeZone", "Europe/Berlin", "client"),
            ("work_mem", "8MB", "user"),
            ("log_min_duration_statement", "7ms", "user"),
            ("extra_float_digits", "2", "database user"),
        ];
        let all = settings.all();
        for (name, value, source) in expected {
            let shown = all.iter().find(|each| each.name == name).unwrap();
            assert_eq!((&*shown.value, shown.source), (value, source), "{name}");
        }
        assert_eq!(
            settings.set_for_session().count(),
            0,
            "RESET goes back there"
        );
        for (name, own) in [("lock_timeout", "3s"), ("my.own", "of the role")] {
            settings.set(name, &["9s".to_owned()], false).unwrap();
            assert_eq!(settings.show(name).unwrap(), "9s");
            settings.reset(name, false).unwrap();
            assert_eq!(settings.show(name).unwrap(), own);
        }
        settings
            .set("work_mem", &["9MB".to_owned()], false)
            .unwrap();
        settings.reset_all();
        assert_eq!(settings.show("work_mem").unwrap(), "8MB");
        let denied = settings.reset("log_min_duration_statement", false);
        assert_eq!(
            denied.unwrap_err().state(),
            SqlState::INSUFFICIENT_PRIVILEGE
        );
    }
}
