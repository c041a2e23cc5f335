//! Role DDL: CREATE ROLE, ALTER ROLE, DROP ROLE, and role memberships.

use std::sync::Arc;

use super::Change;
use crate::access::{Access, FIRST_ROLE, Membership, Role, Verifier, no_role};
use crate::catalog::{AccessRow, Catalog};
use crate::error::{Error, Result, SqlState};
use crate::statement::{GrantCommand, RoleCommand, RoleName, RoleOptions};
use crate::value::{DataType, Value};

impl Change<'_> {
    /// Executes CREATE, ALTER and DROP ROLE.
    pub(super) async fn role(&mut self, command: &RoleCommand) -> Result<&'static str> {
        match command {
            RoleCommand::Create { name, options } => self.create_role(name, options).await,
            RoleCommand::Alter { name, options } => self.alter_role(name, options).await,
            RoleCommand::Rename { name, new_name } => self.rename_role(name, new_name).await,
            RoleCommand::Drop { names, if_exists } => self.drop_roles(names, *if_exists).await,
            RoleCommand::Settings(settings) => self.role_settings(settings).await,
        }
    }

    /// Looks up the role that a statement names.
    pub(super) fn resolve(&self, name: &RoleName) -> Result<Arc<Role>> {
        let access = self.catalog.access();
        let by_number = |oid| {
            let role = access.role(oid).cloned();
            role.ok_or_else(|| no_role(&self.session.user))
        };
        match name {
            RoleName::Named(name) => {
                let found = access.find(name).cloned();
                let alias = self.session.alias.as_deref() == Some(name);
                found.map_err(|error| match access.role(FIRST_ROLE) {
                    Some(first) if alias => error.with_hint(format!(
                        "You were let in as \"{}\", because the database is open. Make the role, \
                         or change that one.",
                        first.name
                    )),
                    _ => error,
                })
            }
            RoleName::Current => by_number(self.session.role),
            RoleName::Session => by_number(self.session.session_role),
            RoleName::Public => Err(no_role("public")),
        }
    }

    fn is_superuser(&self) -> bool {
        self.catalog.access().is_superuser(self.session.role)
    }

    /// Fails with 42501 unless the statement's role may create and change such roles.
    fn require_role_maker(&self, what: &str, superuser: bool) -> Result<()> {
        let access = self.catalog.access();
        if self.is_superuser() {
            return Ok(());
        }
        let maker = access.role(self.session.role);
        if !maker.is_some_and(|role| role.create_role) {
            return Err(refused(what).with_detail("That takes SUPERUSER or CREATEROLE."));
        }
        if superuser {
            return Err(refused("must be superuser to make or change a superuser"));
        }
        Ok(())
    }

    async fn create_role(&mut self, name: &str, options: &RoleOptions) -> Result<&'static str> {
        let powerful = [
            options.superuser,
            options.replication,
            options.bypass_policies,
        ];
        let powerful = powerful.contains(&Some(true));
        self.require_role_maker("permission denied to create role", powerful)?;
        self.check_new_name(name)?;
        let oid = self.context.store.counters.oid();
        let mut role = Role::new(oid, name.to_owned());
        self.apply(&mut role, options)?;
        self.put_role(role).await?;
        self.warn_of_open_door(options);
        for of in &options.member_of {
            let of = self.resolve(of)?;
            self.require_administers(&of)?;
            self.add_member(of.oid, oid, false, self.session.role)
                .await?;
        }
        for (members, admin) in [(&options.members, false), (&options.administrators, true)] {
            for member in members {
                let member = self.resolve(member)?.oid;
                self.add_member(oid, member, admin, self.session.role)
                    .await?;
            }
        }
        Ok("CREATE ROLE")
    }

    async fn alter_role(&mut self, name: &RoleName, options: &RoleOptions) -> Result<&'static str> {
        let role = self.resolve(name)?;
        let only_password = [
            options.superuser,
            options.inherit,
            options.create_role,
            options.create_database,
            options.login,
            options.replication,
            options.bypass_policies,
        ]
        .iter()
        .all(Option::is_none)
            && options.connection_limit.is_none()
            && options.valid_until.is_none();
        if !(role.oid == self.session.role && only_password) {
            let powerful = self.catalog.access().leads_to_superuser(role.oid)
                || options.superuser.is_some()
                || options.replication.is_some()
                || options.bypass_policies.is_some();
            self.require_role_maker("permission denied to alter role", powerful)?;
        }
        if role.oid == FIRST_ROLE && options.superuser == Some(false) {
            let message = "the first role is always a superuser";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let mut role = Role::clone(&role);
        self.apply(&mut role, options)?;
        self.put_role(role).await?;
        self.warn_of_open_door(options);
        Ok("ALTER ROLE")
    }

    /// Sends a notice if a password has been set but the database still accepts
    /// connections without one.
    fn warn_of_open_door(&mut self, options: &RoleOptions) {
        if let Some(Some(_)) = options.password
            && self.catalog.access().is_open()
        {
            self.notice(
                SqlState::SUCCESSFUL_COMPLETION,
                "the database is still open: no superuser has a password, so a client that \
                 connects from this machine under another name is a superuser"
                    .to_owned(),
            );
        }
    }

    /// Applies the options of CREATE or ALTER ROLE to a role.
    fn apply(&mut self, role: &mut Role, options: &RoleOptions) -> Result<()> {
        for (place, said) in [
            (&mut role.superuser, options.superuser),
            (&mut role.inherit, options.inherit),
            (&mut role.create_role, options.create_role),
            (&mut role.create_database, options.create_database),
            (&mut role.login, options.login),
            (&mut role.replication, options.replication),
            (&mut role.bypass_policies, options.bypass_policies),
        ] {
            *place = said.unwrap_or(*place);
        }
        if let Some(limit) = options.connection_limit {
            role.connection_limit = limit;
        }
        if let Some(end) = &options.valid_until {
            role.valid_until = match end {
                None => None,
                Some(text) => {
                    let style = &self.session.style;
                    match Value::parse(text, DataType::TimestampTz.into(), style)? {
                        Value::TimestampTz(end) => Some(end),
                        _ => return Err(Error::internal("a time that is none")),
                    }
                }
            };
        }
        if let Some(password) = &options.password {
            role.password = match password.as_deref() {
                None => None,
                Some("") => {
                    self.notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        "empty string is not a valid password, clearing password".to_owned(),
                    );
                    None
                }
                Some(password) => Some(kept(password)?),
            };
        }
        Ok(())
    }

    async fn rename_role(&mut self, name: &RoleName, new_name: &str) -> Result<&'static str> {
        let role = self.resolve(name)?;
        let powerful = self.catalog.access().leads_to_superuser(role.oid);
        self.require_role_maker("permission denied to rename role", powerful)?;
        if role.oid == self.session.session_role {
            return Err(Error::unsupported("renaming the role that is connected"));
        }
        self.check_new_name(new_name)?;
        let mut role = Role::clone(&role);
        role.name = new_name.to_owned();
        self.put_role(role).await?;
        Ok("ALTER ROLE")
    }

    async fn drop_roles(&mut self, names: &[RoleName], if_exists: bool) -> Result<&'static str> {
        for name in names {
            let role = match self.resolve(name) {
                Err(error) if if_exists => {
                    let message = format!("{}, skipping", error.report().message);
                    self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                    continue;
                }
                role => role?,
            };
            let powerful = self.catalog.access().leads_to_superuser(role.oid);
            self.require_role_maker("permission denied to drop role", powerful)?;
            self.check_unused(&role)?;
            let mut access = Access::clone(self.catalog.access());
            access.remove(role.oid);
            // The members of the dropped role lose their membership.
            let were = |each: &&Arc<Role>| each.memberships.iter().any(|m| m.role == role.oid);
            let members: Vec<u32> = self
                .catalog
                .access()
                .roles()
                .filter(were)
                .map(|each| each.oid)
                .collect();
            for member in members {
                if let Some(member) = access.role(member) {
                    self.write_access(&AccessRow::Role(member)).await?;
                }
            }
            let settings = self.catalog.access().settings();
            let of_role = settings.filter(|(owner, _)| owner.role == role.oid);
            let keys: Vec<u32> = of_role.map(|(_, owned)| owned.key).collect();
            for key in keys {
                self.delete_access(key).await?;
            }
            self.delete_access(role.oid).await?;
            self.keep_access(access);
        }
        Ok("DROP ROLE")
    }

    /// Fails if other objects depend on a role to be dropped, or if it is in use.
    fn check_unused(&self, role: &Role) -> Result<()> {
        let in_use = |message| Err(Error::new(SqlState("55006"), message));
        if role.oid == FIRST_ROLE {
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!(
                    "cannot drop role {} because it is required by the database system",
                    role.name
                ),
            ));
        }
        if role.oid == self.session.role {
            return in_use("current user cannot be dropped");
        }
        if role.oid == self.session.session_role {
            return in_use("session user cannot be dropped");
        }
        let mut depends = Vec::new();
        for table in self.catalog.tables() {
            if table.owned.owner == role.oid {
                depends.push(format!("owner of table {}", table.name));
            } else if table.owned.concerns(role.oid) {
                depends.push(format!("privileges for table {}", table.name));
            }
        }
        for object in self.catalog.objects() {
            let kind = object.kind();
            if object.owned.owner == role.oid {
                depends.push(format!("owner of {kind} {}", object.name));
            } else if object.owned.concerns(role.oid) {
                depends.push(format!("privileges for {kind} {}", object.name));
            }
        }
        for extension in self.catalog.extensions() {
            if extension.owner == role.oid {
                depends.push(format!("owner of extension {}", extension.name));
            }
        }
        if self.catalog.access().schema.concerns(role.oid) {
            depends.push("privileges for schema public".to_owned());
        }
        if depends.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "role \"{}\" cannot be dropped because some objects depend on it",
                role.name
            ),
        )
        .with_detail(depends.join("\n")))
    }

    fn check_new_name(&self, name: &str) -> Result<()> {
        if self.catalog.access().role_by_name(name).is_some() {
            return Err(Error::new(
                SqlState::DUPLICATE_OBJECT,
                format!("role \"{name}\" already exists"),
            ));
        }
        Ok(())
    }

    /// Executes GRANT and REVOKE of roles.
    pub(super) async fn grant_roles(
        &mut self,
        command: &GrantCommand,
        roles: &[RoleName],
    ) -> Result<&'static str> {
        let grantor = match &command.by {
            None => self.session.role,
            Some(by) => self.resolve(by)?.oid,
        };
        let access = self.catalog.access();
        if !access.has_privileges_of(self.session.role, grantor) {
            return Err(refused("grantor must be a role whose privileges you have"));
        }
        for of in roles {
            let of = self.resolve(of)?;
            self.require_administers(&of)?;
            for member in &command.roles {
                let member = self.resolve(member)?;
                if command.revoke {
                    self.remove_member(&of, &member, command.option).await?;
                } else {
                    self.add_member(of.oid, member.oid, command.option, grantor)
                        .await?;
                }
            }
        }
        Ok(if command.revoke {
            "REVOKE ROLE"
        } else {
            "GRANT ROLE"
        })
    }

    fn require_administers(&self, of: &Role) -> Result<()> {
        if !self.catalog.access().administers(self.session.role, of.oid) {
            let message = format!("must have admin option on role \"{}\"", of.name);
            return Err(refused(&message));
        }
        Ok(())
    }

    async fn add_member(&mut self, of: u32, member: u32, admin: bool, grantor: u32) -> Result<()> {
        let access = self.catalog.access();
        let (Some(group), Some(role)) = (access.role(of), access.role(member)) else {
            return Err(Error::internal("a role is gone"));
        };
        if access.belongs(of, member) {
            return Err(Error::new(
                SqlState("0LP01"),
                format!(
                    "role \"{}\" is a member of role \"{}\"",
                    group.name, role.name
                ),
            ));
        }
        let mut role = Role::clone(role);
        match role.memberships.iter_mut().find(|each| each.role == of) {
            Some(known) if known.admin || !admin => {
                let message = format!(
                    "role \"{}\" is already a member of role \"{}\"",
                    role.name, group.name
                );
                self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                return Ok(());
            }
            Some(known) => known.admin = true,
            None => role.memberships.push(Membership {
                role: of,
                grantor,
                admin,
            }),
        }
        self.put_role(role).await
    }

    async fn remove_member(&mut self, of: &Role, member: &Role, only_option: bool) -> Result<()> {
        let mut role = Role::clone(member);
        let Some(place) = role.memberships.iter().position(|each| each.role == of.oid) else {
            let message = format!(
                "role \"{}\" is not a member of role \"{}\"",
                member.name, of.name
            );
            self.notices.push(crate::output::Notice::new(
                crate::output::Severity::Warning,
                SqlState("01000"),
                message,
            ));
            return Ok(());
        };
        if only_option {
            role.memberships[place].admin = false;
        } else {
            role.memberships.remove(place);
        }
        self.put_role(role).await
    }

    /// Writes a new or changed role.
    async fn put_role(&mut self, role: Role) -> Result<()> {
        self.write_access(&AccessRow::Role(&role)).await?;
        let mut access = Access::clone(self.catalog.access());
        access.put(role);
        self.keep_access(access);
        Ok(())
    }

    pub(super) async fn write_access(&mut self, row: &AccessRow<'_>) -> Result<()> {
        let transaction = &mut *self.context.transaction;
        self.context.store.put_access(transaction, row).await
    }

    pub(super) async fn delete_access(&mut self, key: u32) -> Result<()> {
        let transaction = &mut *self.context.transaction;
        self.context.store.delete_access(transaction, key).await
    }

    /// Uses these roles for the rest of the statement.
    pub(super) fn keep_access(&mut self, access: Access) {
        let catalog = &self.catalog;
        let comments = Arc::clone(catalog.comments());
        let changed = Catalog::new(
            catalog.version(),
            catalog.tables().cloned(),
            catalog.objects().cloned(),
            Arc::new(access),
        );
        self.catalog = Arc::new(changed.with_comments(comments));
        self.changed = true;
    }
}

/// The stored form of a password: a verifier for a plain password, or the verifier
/// itself.
fn kept(password: &str) -> Result<String> {
    if Verifier::parse(password).is_some() {
        return Ok(password.to_owned());
    }
    let is_md5 = password
        .strip_prefix("md5")
        .is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_md5 {
        return Err(Error::unsupported("a password hashed with MD5").with_hint(
            "Set the password anew, in PostgreSQL with password_encryption = scram-sha-256 \
             before the dump, or here.",
        ));
    }
    Ok(Verifier::new(password).to_string())
}

fn refused(message: &str) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
