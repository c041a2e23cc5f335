//! Access control: roles, their memberships, and the privileges granted to them.
//!
//! ```text
//!   role app ──member of──▶ role readers        relation orders
//!     │                        │                  owner ada
//!     │                        └─ SELECT ◀─────── readers=r/ada
//!     └─ INSERT ◀──────────────────────────────── app=a/ada
//! ```
//!
//! Roles and privileges are part of the [`Catalog`](crate::catalog::Catalog): they are
//! versioned rows like tables, a change of them is transactional and advances the
//! catalog's version, and the executor checks a statement against the catalog of its own
//! snapshot. A cached plan keeps the privileges it needs
//! ([`Needs`](crate::catalog::Needs)); the session checks them again whenever the catalog
//! version or the role differs from the last check.
//!
//! A table's privileges are part of its description, so GRANT and REVOKE give the table a
//! new schema version: a writer that passed its check before must lock the table with the
//! old version, and is refused. A read in a snapshot from before a REVOKE uses that
//! snapshot's privileges, whatever happens to the grant meanwhile.
//!
//! **The first role.** Role 10, `coeval`, always exists, is a superuser, and cannot be
//! dropped. As long as no superuser has a password, the database is *open*: a client that
//! connects from this machine under a name that no role has acts as the first role, under
//! that name.
//!
//! - [`privilege`]: kinds of privileges, and lists of grants.
//! - [`role`]: roles and their attributes. [`setting`]: their settings. [`store`]: their
//!   encoding as rows.
//! - [`password`]: password verifiers.
//!
//! Invariants:
//! - Membership has no cycles.
//! - Every role that owns a table or occurs in a list of grants exists: DROP ROLE refuses
//!   to drop such a role. Every role that has settings exists: DROP ROLE drops them.

pub mod password;
pub mod privilege;
pub mod role;
pub mod setting;
pub(crate) mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use password::Verifier;
pub use privilege::{Grant, PUBLIC_ROLE, Privileges};
pub use role::{FIRST_ROLE, Membership, Role};
pub(crate) use setting::DATABASE;
pub use setting::{LoginSetting, OwnedSettings, SettingOwner, SettingSource};

use crate::error::{Error, Result, SqlState};

/// Owner of an object, and the grants on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// OID of the owner.
    pub owner: u32,
    /// Grants on the object; `None` for the default privileges.
    pub grants: Option<Vec<Grant>>,
}

impl Owned {
    /// An object of this owner with the default privileges.
    #[must_use]
    pub const fn by(owner: u32) -> Self {
        Self {
            owner,
            grants: None,
        }
    }

    /// Grants on the object, or the default ones if there are none.
    #[must_use]
    pub fn grants(&self, kind: ObjectKind) -> Vec<Grant> {
        match &self.grants {
            Some(grants) => grants.clone(),
            None => kind.initial(self.owner),
        }
    }

    /// Whether the role owns the object, or occurs in its list of grants.
    #[must_use]
    pub fn concerns(&self, role: u32) -> bool {
        let mut grants = self.grants.iter().flatten();
        self.owner == role || grants.any(|each| each.grantee == role || each.grantor == role)
    }
}

/// Kind of an object that has privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// The object is a table.
    Table,
    /// The object is a schema.
    Schema,
    /// The object is a sequence.
    Sequence,
}

impl ObjectKind {
    /// All privileges that objects of this kind have.
    #[must_use]
    pub const fn all(self) -> Privileges {
        match self {
            Self::Table => Privileges::TABLE,
            Self::Schema => Privileges::SCHEMA,
            Self::Sequence => Privileges::SEQUENCE,
        }
    }

    /// Default privileges: the owner has all of them, and all roles may use the schema.
    fn initial(self, owner: u32) -> Vec<Grant> {
        let mut grants = vec![Grant::own(owner, self.all())];
        if self == Self::Schema {
            grants.push(Grant {
                grantee: PUBLIC_ROLE,
                grantor: owner,
                privileges: Privileges::USAGE,
                grantable: Privileges::NONE,
            });
        }
        grants
    }
}

/// All roles of a catalog, and the privileges on the schema `public`.
#[derive(Clone, Debug)]
pub struct Access {
    roles: BTreeMap<u32, Arc<Role>>,
    settings: BTreeMap<SettingOwner, OwnedSettings>,
    /// Owner of and grants on the schema `public`.
    pub schema: Owned,
    /// Server secret from which authentication derives its answers for unknown users.
    pub secret: [u8; 32],
}

impl Default for Access {
    /// A catalog with only the first role, and the default privileges.
    fn default() -> Self {
        Self {
            roles: BTreeMap::from([(FIRST_ROLE, Arc::new(Role::first()))]),
            settings: BTreeMap::new(),
            schema: Owned::by(FIRST_ROLE),
            secret: [0; 32],
        }
    }
}

impl Access {
    /// All roles, ordered by OID.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.roles.values()
    }

    /// The role with this OID.
    #[must_use]
    pub fn role(&self, oid: u32) -> Option<&Arc<Role>> {
        self.roles.get(&oid)
    }

    /// The role of this name.
    #[must_use]
    pub fn role_by_name(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles.values().find(|role| role.name == name)
    }

    /// Adds a role, or replaces the one with the same OID.
    pub fn put(&mut self, role: Role) {
        self.roles.insert(role.oid, Arc::new(role));
    }

    /// Removes a role, its settings, and all memberships in it.
    pub fn remove(&mut self, oid: u32) {
        self.roles.remove(&oid);
        self.settings.retain(|owner, _| owner.role != oid);
        for role in self.roles.values_mut() {
            if role.memberships.iter().any(|each| each.role == oid) {
                let role = Arc::make_mut(role);
                role.memberships.retain(|each| each.role != oid);
            }
        }
    }

    /// Whether no superuser has a password.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self
            .roles
            .values()
            .any(|role| role.superuser && role.login && role.password.is_some())
    }

    /// Whether this role is a superuser.
    #[must_use]
    pub fn is_superuser(&self, role: u32) -> bool {
        self.role(role).is_some_and(|role| role.superuser)
    }

    /// The roles whose privileges this one has: itself, and the roles of which it is a
    /// member through roles that inherit.
    #[must_use]
    pub fn acts_as(&self, role: u32) -> BTreeSet<u32> {
        self.reachable(role, |role| role.inherit)
    }

    /// Whether role `role` has the privileges of role `of`.
    #[must_use]
    pub fn has_privileges_of(&self, role: u32, of: u32) -> bool {
        role == of || self.is_superuser(role) || self.acts_as(role).contains(&of)
    }

    /// Whether role `role` is a member of role `of`, directly or indirectly, so that it
    /// may become it with SET ROLE.
    #[must_use]
    pub fn is_member(&self, role: u32, of: u32) -> bool {
        role == of || self.is_superuser(role) || self.belongs(role, of)
    }

    /// [`Access::is_member`] without the exception for superusers.
    #[must_use]
    pub fn belongs(&self, role: u32, of: u32) -> bool {
        self.reachable(role, |_| true).contains(&of)
    }

    /// Whether this role can become a superuser: it is one, or is a member of one.
    #[must_use]
    pub fn leads_to_superuser(&self, role: u32) -> bool {
        let reached = self.reachable(role, |_| true);
        reached.into_iter().any(|each| self.is_superuser(each))
    }

    /// Whether role `role` may grant membership in role `of`.
    #[must_use]
    pub fn administers(&self, role: u32, of: u32) -> bool {
        if self.is_superuser(role) {
            return true;
        }
        // Only a superuser may make another role a superuser, even by membership.
        if self.leads_to_superuser(of) {
            return false;
        }
        let admin = self
            .reachable(role, |_| true)
            .into_iter()
            .filter_map(|each| self.role(each))
            .any(|each| each.memberships.iter().any(|m| m.role == of && m.admin));
        admin || self.role(role).is_some_and(|role| role.create_role)
    }

    fn reachable(&self, role: u32, through: impl Fn(&Role) -> bool) -> BTreeSet<u32> {
        let mut reached = BTreeSet::from([role]);
        let mut ahead = vec![role];
        while let Some(next) = ahead.pop() {
            let Some(role) = self.role(next) else {
                continue;
            };
            if !through(role) {
                continue;
            }
            for membership in &role.memberships {
                if reached.insert(membership.role) {
                    ahead.push(membership.role);
                }
            }
        }
        reached
    }

    /// Privileges of this role on an object: those granted to it, to roles it acts as,
    /// and to PUBLIC.
    #[must_use]
    pub fn privileges(&self, role: u32, owned: &Owned, kind: ObjectKind) -> Privileges {
        self.collected(role, owned, kind, |grant| grant.privileges)
    }

    /// Privileges on an object that this role may grant to others.
    #[must_use]
    pub fn grantable(&self, role: u32, owned: &Owned, kind: ObjectKind) -> Privileges {
        if self.has_privileges_of(role, owned.owner) {
            return kind.all();
        }
        self.collected(role, owned, kind, |grant| grant.grantable)
    }

    fn collected(
        &self,
        role: u32,
        owned: &Owned,
        kind: ObjectKind,
        take: impl Fn(&Grant) -> Privileges,
    ) -> Privileges {
        if self.is_superuser(role) {
            return kind.all();
        }
        if self.role(role).is_none() {
            return Privileges::NONE;
        }
        let roles = self.acts_as(role);
        owned
            .grants(kind)
            .iter()
            .filter(|grant| grant.grantee == PUBLIC_ROLE || roles.contains(&grant.grantee))
            .fold(Privileges::NONE, |all, grant| all.with(take(grant)))
    }

    /// The role of this name; fails with SQLSTATE 42704 when it does not exist.
    pub fn find(&self, name: &str) -> Result<&Arc<Role>> {
        self.role_by_name(name).ok_or_else(|| no_role(name))
    }
}

/// SQLSTATE 42704: the role does not exist.
pub(crate) fn no_role(name: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("role \"{name}\" does not exist"),
    )
}

/// SQLSTATE 42501: permission denied, for a kind of object and its name.
pub(crate) fn denied(kind: &str, name: &str) -> Error {
    Error::new(
        SqlState::INSUFFICIENT_PRIVILEGE,
        format!("permission denied for {kind} {name}"),
    )
}

/// SQLSTATE 42501: only the owner of the object may run the statement.
pub(crate) fn not_owner(kind: &str, name: &str) -> Error {
    Error::new(
        SqlState::INSUFFICIENT_PRIVILEGE,
        format!("must be owner of {kind} {name}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(oid: u32, name: &str, member_of: &[u32]) -> Role {
        let mut role = Role::new(oid, name.to_owned());
        role.memberships = member_of
            .iter()
            .map(|&role| Membership {
                role,
                grantor: FIRST_ROLE,
                admin: false,
            })
            .collect();
        role
    }

    #[test]
    fn privileges_come_through_roles_that_inherit() {
        let mut access = Access::default();
        access.put(role(20, "readers", &[]));
        access.put(role(21, "staff", &[20]));
        access.put(role(22, "ada", &[21]));
        let mut stubborn = role(23, "bob", &[21]);
        stubborn.inherit = false;
        access.put(stubborn);
        let mut owned = Owned::by(FIRST_ROLE);
        owned.grants = Some(vec![Grant {
            grantee: 20,
            grantor: FIRST_ROLE,
            privileges: Privileges::SELECT,
            grantable: Privileges::NONE,
        }]);
        let may = |role| access.privileges(role, &owned, ObjectKind::Table);
        assert_eq!(may(22), Privileges::SELECT);
        assert_eq!(may(23), Privileges::NONE);
        assert!(access.is_member(23, 20));
        assert_eq!(may(FIRST_ROLE), Privileges::TABLE);
        assert_eq!(may(99), Privileges::NONE, "a role that is gone");
        access.remove(21);
        assert_eq!(
            access.privileges(22, &owned, ObjectKind::Table),
            Privileges::NONE
        );
    }

    #[test]
    fn a_database_is_open_until_a_superuser_has_a_password() {
        let mut access = Access::default();
        let mut app = Role::new(20, "app".to_owned());
        app.login = true;
        app.password = Some("x".to_owned());
        access.put(app);
        assert!(access.is_open());
        let mut first = Role::first();
        first.password = Some("x".to_owned());
        access.put(first);
        assert!(!access.is_open());
    }
}
