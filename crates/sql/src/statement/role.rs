//! CREATE, ALTER and DROP ROLE, from their trees.

use coeval_sql_syntax::tree::{self, Name, Role, RoleOption, RoleWord};

use super::command::{Command, RoleCommand, RoleName, RoleOptions};
use crate::catalog::fold;
use crate::error::{Error, Result, SqlState};

/// A role's name, or a word that stands for a role.
pub(crate) fn role_name(role: &Role) -> RoleName {
    match role {
        Role::Named(name) => RoleName::Named(fold(name)),
        Role::CurrentRole | Role::CurrentUser => RoleName::Current,
        Role::SessionUser => RoleName::Session,
        Role::Public => RoleName::Public,
    }
}

/// The name of a new role.
fn new_name(name: &Name) -> Result<String> {
    let name = fold(name);
    if matches!(name.as_str(), "public" | "none") || name.starts_with("pg_") {
        let message = format!("role name \"{name}\" is reserved");
        return Err(Error::new(SqlState("42939"), message));
    }
    Ok(name)
}

pub(super) fn create(create: tree::CreateRole) -> Result<Command> {
    let name = new_name(&create.name)?;
    let mut options = RoleOptions::default();
    // CREATE USER is CREATE ROLE with the attribute LOGIN.
    if create.word == RoleWord::User {
        options.login = Some(true);
    }
    for option in create.options {
        apply(option, &mut options)?;
    }
    Ok(Command::Role(RoleCommand::Create { name, options }))
}

pub(super) fn alter(alter: tree::AlterRole) -> Result<Command> {
    let mut options = RoleOptions::default();
    for option in alter.options {
        apply(option, &mut options)?;
    }
    Ok(Command::Role(RoleCommand::Alter {
        name: role_name(&alter.role),
        options,
    }))
}

pub(super) fn rename(name: tree::Path, to: Name) -> Result<Command> {
    let name = name.0.last().map(fold).unwrap_or_default();
    Ok(Command::Role(RoleCommand::Rename {
        name: RoleName::Named(name),
        new_name: new_name(&to)?,
    }))
}

pub(super) fn drop_roles(drop: tree::DropRole) -> Command {
    Command::Role(RoleCommand::Drop {
        names: drop.roles.iter().map(role_name).collect(),
        if_exists: drop.if_exists,
    })
}

fn apply(option: RoleOption, options: &mut RoleOptions) -> Result<()> {
    let roles = |roles: &[Role]| roles.iter().map(role_name).collect::<Vec<_>>();
    match option {
        RoleOption::Password(password) => options.password = Some(password),
        RoleOption::ConnectionLimit(limit) if limit < -1 => {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid connection limit: {limit}"),
            ));
        }
        RoleOption::ConnectionLimit(limit) => options.connection_limit = Some(limit),
        RoleOption::ValidUntil(time) => options.valid_until = Some(Some(time)),
        RoleOption::Members(members) => options.members.extend(roles(&members)),
        RoleOption::Admin(members) => options.administrators.extend(roles(&members)),
        RoleOption::InRole(member_of) => options.member_of.extend(roles(&member_of)),
        // The server numbers its roles.
        RoleOption::SysId(_) => {}
        RoleOption::Flag(flag) => apply_flag(&flag.text, options),
    }
    Ok(())
}

fn apply_flag(flag: &str, options: &mut RoleOptions) {
    let attributes: [(&str, &mut Option<bool>); 7] = [
        ("superuser", &mut options.superuser),
        ("inherit", &mut options.inherit),
        ("createrole", &mut options.create_role),
        ("createdb", &mut options.create_database),
        ("login", &mut options.login),
        ("replication", &mut options.replication),
        ("bypassrls", &mut options.bypass_policies),
    ];
    for (word, place) in attributes {
        if flag == word {
            *place = Some(true);
        } else if flag.strip_prefix("no") == Some(word) {
            *place = Some(false);
        }
    }
}
