//! Roles and their settings.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    AlterGroup, AlterRole, AlterRoleSetting, CreateRole, Object, ObjectKind, Path, Role,
    RoleOption, RoleWord, StatementKind,
};

/// Options of a role that are one word.
const FLAGS: &[&str] = &[
    "superuser",
    "nosuperuser",
    "createrole",
    "nocreaterole",
    "replication",
    "noreplication",
    "createdb",
    "nocreatedb",
    "login",
    "nologin",
    "bypassrls",
    "nobypassrls",
    "noinherit",
];

impl Parser<'_> {
    pub(super) fn create_role(&mut self) -> Parsed<StatementKind> {
        let word = match self.keyword() {
            K::User => RoleWord::User,
            K::Group => RoleWord::Group,
            _ => RoleWord::Role,
        };
        self.bump();
        let name = self.role_id()?;
        self.eat(K::With);
        let mut options = Vec::new();
        while let Some(option) = self.role_option(true)? {
            options.push(option);
        }
        Ok(StatementKind::CreateRole(CreateRole {
            word,
            name,
            options,
        }))
    }

    fn role_option(&mut self, create: bool) -> Parsed<Option<RoleOption>> {
        let at = self.pos();
        let option = match self.keyword() {
            K::Encrypted => {
                self.bump();
                self.expect(K::Password)?;
                RoleOption::Password(Some(self.string()?))
            }
            K::Unencrypted => {
                self.bump();
                self.expect(K::Password)?;
                self.string()?;
                let message = "UNENCRYPTED PASSWORD is no longer supported";
                let mut error = SyntaxError::new(Fault::NotSupported, message, at);
                error.hint =
                    Some("Remove UNENCRYPTED to store the password in encrypted form instead.");
                return Err(error);
            }
            K::Password => {
                self.bump();
                RoleOption::Password(if self.eat(K::Null) {
                    None
                } else {
                    Some(self.string()?)
                })
            }
            K::Inherit => RoleOption::Flag(self.label()?),
            K::Connection => {
                self.bump();
                self.expect(K::Limit)?;
                RoleOption::ConnectionLimit(self.signed_integer()?)
            }
            K::Valid => {
                self.bump();
                self.expect(K::Until)?;
                RoleOption::ValidUntil(self.string()?)
            }
            K::User => {
                self.bump();
                RoleOption::Members(self.roles()?)
            }
            K::Role if create => {
                self.bump();
                RoleOption::Members(self.roles()?)
            }
            K::Sysid if create => {
                self.bump();
                RoleOption::SysId(self.integer()?)
            }
            K::Admin if create => {
                self.bump();
                RoleOption::Admin(self.roles()?)
            }
            K::In if create => {
                self.bump();
                if !self.eat(K::Role) {
                    self.expect(K::Group)?;
                }
                RoleOption::InRole(self.roles()?)
            }
            _ if self.kind() == TokenKind::Name => {
                let name = self.label()?;
                if !FLAGS.contains(&name.text.as_str()) {
                    let message = format!("unrecognized role option \"{}\"", name.text);
                    return Err(SyntaxError::new(Fault::Syntax, message, at));
                }
                RoleOption::Flag(name)
            }
            _ => return Ok(None),
        };
        Ok(Some(option))
    }

    /// Behind ALTER, at ROLE, USER or GROUP.
    pub(super) fn alter_role(&mut self) -> Parsed<StatementKind> {
        let group = self.is(K::Group);
        self.bump();
        if self.eat(K::All) && !group {
            return self.alter_role_setting(None);
        }
        let start = self.at;
        let role = self.role()?;
        if self.is(K::Rename) {
            self.at = start;
            let name = self.role_id()?;
            let object = Object::Named(ObjectKind::Role, Path(vec![name]));
            return self.rename(object, false);
        }
        if group {
            let add = self.eat(K::Add);
            if !add {
                self.expect(K::Drop)?;
            }
            self.expect(K::User)?;
            return Ok(StatementKind::AlterGroup(AlterGroup {
                role,
                add,
                members: self.roles()?,
            }));
        }
        if self.any(&[K::Set, K::Reset]) || self.are(&[K::In, K::Database]) {
            return self.alter_role_setting(Some(role));
        }
        self.eat(K::With);
        let mut options = Vec::new();
        while let Some(option) = self.role_option(false)? {
            options.push(option);
        }
        Ok(StatementKind::AlterRole(AlterRole { role, options }))
    }

    fn alter_role_setting(&mut self, role: Option<Role>) -> Parsed<StatementKind> {
        let database = if self.eat(K::In) {
            self.expect(K::Database)?;
            Some(self.column_name()?)
        } else {
            None
        };
        Ok(StatementKind::AlterRoleSetting(AlterRoleSetting {
            role,
            database,
            setting: self.set_or_reset()?,
        }))
    }
}
