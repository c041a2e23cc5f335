//! Settings that roles and the database give to sessions: ALTER ROLE … SET, ALTER DATABASE …
//! SET, as `pg_db_role_setting` shows them.
//!
//! ```text
//!   database   role     settings                      source, the later wins
//!   -          -        statement_timeout=10s         global
//!   5          -        timezone=Europe/Berlin        database
//!   -          ada      coeval.read_from=any          user
//!   5          ada      coeval.read_max_lag=1s        database user
//! ```
//!
//! They are part of a role's account: a session takes them when its client logs in, and keeps
//! them wherever it moves. What a client asks for wins over them.
//!
//! Invariant: every entry has settings; one whose last setting is reset is deleted.

use std::sync::Arc;

use super::Access;

/// OID of the only database, whatever name a client calls it by.
pub(crate) const DATABASE: u32 = 5;

/// Whom settings are for. OIDs; 0 for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingOwner {
    /// The database.
    pub database: u32,
    /// The role.
    pub role: u32,
}

/// The settings of one owner, in the order in which they were first set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSettings {
    /// Key of the catalog row: an OID that no other row of a role has.
    pub key: u32,
    /// Names, as lists write them, and values, as a SET of them writes them.
    pub settings: Vec<(String, String)>,
}

/// Whose setting a session has, in rising order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// All roles'.
    Global,
    /// The database's.
    Database,
    /// The role's.
    Role,
    /// The role's in the database.
    RoleInDatabase,
}

impl SettingSource {
    /// All sources, in rising order of precedence.
    pub const ALL: [Self; 4] = [
        Self::Global,
        Self::Database,
        Self::Role,
        Self::RoleInDatabase,
    ];

    /// The source in `pg_settings`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Database => "database",
            Self::Role => "user",
            Self::RoleInDatabase => "database user",
        }
    }
}

/// A setting with which a session begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginSetting {
    /// Whose it is.
    pub source: SettingSource,
    /// Its name.
    pub name: String,
    /// Its value, not checked: a later build may have another opinion about it.
    pub value: String,
}

impl Access {
    /// All settings of roles and the database, ordered by owner.
    pub fn settings(&self) -> impl Iterator<Item = (SettingOwner, &OwnedSettings)> {
        self.settings
            .iter()
            .map(|(owner, settings)| (*owner, settings))
    }

    /// The settings of this owner.
    #[must_use]
    pub fn settings_of(&self, owner: SettingOwner) -> Option<&OwnedSettings> {
        self.settings.get(&owner)
    }

    /// Replaces the settings of an owner; `None` removes them.
    pub fn put_settings(&mut self, owner: SettingOwner, settings: Option<OwnedSettings>) {
        match settings {
            Some(settings) => self.settings.insert(owner, settings),
            None => self.settings.remove(&owner),
        };
    }

    /// The settings with which a session of this role begins, in rising order of precedence.
    #[must_use]
    pub fn login_settings(&self, role: u32) -> Arc<[LoginSetting]> {
        let of_source = |source| {
            let (database, role) = match source {
                SettingSource::Global => (0, 0),
                SettingSource::Database => (DATABASE, 0),
                SettingSource::Role => (0, role),
                SettingSource::RoleInDatabase => (DATABASE, role),
            };
            let owned = self.settings_of(SettingOwner { database, role });
            let settings = owned.into_iter().flat_map(|owned| &owned.settings);
            settings.map(move |(name, value)| LoginSetting {
                source,
                name: name.clone(),
                value: value.clone(),
            })
        };
        SettingSource::ALL.into_iter().flat_map(of_source).collect()
    }
}
