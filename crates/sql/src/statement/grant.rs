//! GRANT and REVOKE, from their trees.

use coeval_sql_syntax::tree::{self, GrantKind, GrantTarget, Role};

use super::command::{Command, GrantCommand, GrantObjects, Granted, RoleName};
use super::lower::{Lower, last_names, names, target_name};
use super::role::role_name;
use crate::access::Privileges;
use crate::error::{Error, Result, SqlState};

/// GRANT or REVOKE of privileges on objects.
pub(super) fn grant(lower: &Lower<'_>, command: tree::Grant) -> Result<Command> {
    let privileges = privileges(lower, &command.privileges)?;
    let objects = match command.target {
        GrantTarget::Objects(GrantKind::Table, names) => GrantObjects::Tables(names),
        GrantTarget::Objects(GrantKind::Schema, names) => GrantObjects::Schemas(last_names(&names)),
        GrantTarget::AllInSchema(GrantKind::Table, schemas) => {
            GrantObjects::AllTables(names(&schemas))
        }
        GrantTarget::Objects(GrantKind::Sequence, names) => GrantObjects::Sequences(names),
        GrantTarget::AllInSchema(GrantKind::Sequence, schemas) => {
            GrantObjects::AllSequences(names(&schemas))
        }
        GrantTarget::AllInSchema(..) => {
            return Err(lower.unsupported("GRANT ON ALL of a kind but TABLES and SEQUENCES"));
        }
        other => {
            return Err(lower.unsupported(format_args!("GRANT ON {}", target_name(&other))));
        }
    };
    Ok(Command::Grant(GrantCommand {
        revoke: command.revoke,
        granted: Granted::Privileges {
            privileges,
            objects,
        },
        roles: command.grantees.iter().map(role_name).collect(),
        option: command.option_for || command.with_grant_option,
        by: command.granted_by.as_ref().map(role_name),
        cascade: command.cascade,
    }))
}

/// GRANT or REVOKE of memberships.
pub(super) fn grant_role(command: tree::GrantRole) -> Result<Command> {
    let roles: Vec<RoleName> = command.grantees.iter().map(role_name).collect();
    if roles.contains(&RoleName::Public) {
        let refused = "membership cannot be granted to PUBLIC";
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, refused));
    }
    if command.roles.iter().any(|role| !role.columns.is_empty()) {
        let columns = "column names cannot be included in GRANT/REVOKE ROLE";
        return Err(Error::new(SqlState("0LP01"), columns));
    }
    let granted = command.roles.iter().map(|role| {
        let name = tree::Name {
            text: role.name.as_str().into(),
            at: 0,
        };
        role_name(&Role::Named(name))
    });
    Ok(Command::Grant(GrantCommand {
        revoke: command.revoke,
        granted: Granted::Roles(granted.collect()),
        roles,
        option: command.option_for || command.with_admin_option,
        by: command.granted_by.as_ref().map(role_name),
        cascade: command.cascade,
    }))
}

/// The privileges; `None` for ALL.
fn privileges(lower: &Lower<'_>, named: &tree::Privileges) -> Result<Option<Privileges>> {
    let list = match named {
        tree::Privileges::All(columns) if columns.is_empty() => return Ok(None),
        tree::Privileges::All(_) => return Err(lower.unsupported("a privilege on columns")),
        tree::Privileges::List(list) => list,
    };
    let mut all = Privileges::NONE;
    for each in list {
        let name = &each.name;
        let privilege = Privileges::named(name).ok_or_else(|| match name.as_str() {
            "execute" | "connect" | "temp" | "temporary" | "set" | "alter system" | "maintain" => {
                lower.unsupported(format_args!("the privilege {}", name.to_uppercase()))
            }
            _ => Error::syntax(format!("unrecognized privilege type \"{name}\"")),
        })?;
        if !each.columns.is_empty() {
            return Err(lower.unsupported("a privilege on columns"));
        }
        all = all.with(privilege);
    }
    Ok(Some(all))
}
