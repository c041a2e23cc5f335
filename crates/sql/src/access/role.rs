//! Roles: users, which can log in, and groups.

/// OID of the role that always exists and is a superuser.
pub const FIRST_ROLE: u32 = 10;

/// Initial name of the first role.
pub const FIRST_ROLE_NAME: &str = "coeval";

/// A role with its attributes and memberships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// OID of the role, which never changes.
    pub oid: u32,
    /// Name of the role.
    pub name: String,
    /// SUPERUSER: the role bypasses all privilege checks.
    pub superuser: bool,
    /// INHERIT: the role has the privileges of its groups without SET ROLE.
    pub inherit: bool,
    /// CREATEROLE: the role may create, alter and drop roles that are not superusers.
    pub create_role: bool,
    /// CREATEDB: stored and shown without effect, because there is one database.
    pub create_database: bool,
    /// LOGIN: the role can connect.
    pub login: bool,
    /// REPLICATION: stored and shown without effect.
    pub replication: bool,
    /// BYPASSRLS: stored and shown without effect, because there are no row policies.
    pub bypass_policies: bool,
    /// Maximum number of concurrent sessions of the role; negative for no limit.
    pub connection_limit: i32,
    /// Expiry of the password, in microseconds since 2000 UTC.
    pub valid_until: Option<i64>,
    /// Text of the password's [`Verifier`](super::Verifier).
    pub password: Option<String>,
    /// The roles of which this one is a member.
    pub memberships: Vec<Membership>,
}

/// Membership of a role in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// OID of the other role, the group.
    pub role: u32,
    /// OID of the role that granted the membership.
    pub grantor: u32,
    /// ADMIN OPTION: the member may grant membership in the group.
    pub admin: bool,
}

impl Role {
    /// A role with the default attributes of CREATE ROLE.
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

    /// The role that always exists.
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
