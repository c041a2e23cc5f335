//! Roles: who can connect, and groups of them.

/// The role that is always there and may do everything.
pub const FIRST_ROLE: u32 = 10;

/// Its name, until it is renamed.
pub const FIRST_ROLE_NAME: &str = "coeval";

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its number, for ever.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// SUPERUSER: it may do everything.
    pub superuser: bool,
    /// INHERIT: it has the privileges of what it is a member of without SET ROLE.
    pub inherit: bool,
    /// CREATEROLE: it may make, change and drop roles that are not superusers.
    pub create_role: bool,
    /// CREATEDB: kept and shown; there is one database.
    pub create_database: bool,
    /// LOGIN: it can connect.
    pub login: bool,
    /// REPLICATION: kept and shown.
    pub replication: bool,
    /// BYPASSRLS: kept and shown; there are no row policies.
    pub bypass_policies: bool,
    /// The most sessions it may have at once; negative for any number.
    pub connection_limit: i32,
    /// Until when its password is good, in microseconds since 2000 UTC.
    pub valid_until: Option<i64>,
    /// What is kept of its password: a [`Verifier`](super::Verifier)'s text.
    pub password: Option<String>,
    /// What it belongs to.
    pub memberships: Vec<Membership>,
}

/// That a role belongs to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The other.
    pub role: u32,
    /// Who said so.
    pub grantor: u32,
    /// ADMIN OPTION: it may make others members.
    pub admin: bool,
}

impl Role {
    /// A role that may do nothing, as CREATE ROLE makes it.
    #[must_use]
    pub const fn new(oid: u32, name: String) -> Self {
        Self {
            oid,
            name,
            superuser: false,
            inherit: true,
            create_role: false,
            create_database: false,
            login: false,
            replication: false,
            bypass_policies: false,
            connection_limit: -1,
            valid_until: None,
            password: None,
            memberships: Vec::new(),
        }
    }

    /// The role that is always there.
    #[must_use]
    pub fn first() -> Self {
        Self {
            superuser: true,
            create_role: true,
            create_database: true,
            login: true,
            replication: true,
            bypass_policies: true,
            ..Self::new(FIRST_ROLE, FIRST_ROLE_NAME.to_owned())
        }
    }
}
