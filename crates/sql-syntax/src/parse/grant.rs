//! GRANT, REVOKE and ALTER DEFAULT PRIVILEGES.

use super::Parser;
use crate::error::Parsed;
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    AlterDefaultPrivileges, DefaultsOf, Grant, GrantKind, GrantRole, GrantTarget, Path, Privilege,
    Privileges, Role, StatementKind,
};

impl Parser<'_> {
    pub(super) fn grant(&mut self) -> Parsed<StatementKind> {
        self.bump();
        self.grant_or_revoke(false, false)
    }

    pub(super) fn revoke(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let option_for = self.eat_all(&[K::Grant, K::Option, K::For]);
        if !option_for && self.are(&[K::Admin, K::Option, K::For]) {
            self.at += 3;
            let roles = self.list(Self::privilege)?;
            return self.grant_role(true, true, roles);
        }
        self.grant_or_revoke(true, option_for)
    }

    fn grant_or_revoke(&mut self, revoke: bool, option_for: bool) -> Parsed<StatementKind> {
        let privileges = self.privileges()?;
        match privileges {
            Privileges::List(roles) if !self.is(K::On) && !option_for => {
                self.grant_role(revoke, false, roles)
            }
            privileges => {
                self.expect(K::On)?;
                let target = self.grant_target()?;
                let grant =
                    self.grantees_and_options(revoke, option_for, privileges, target, true)?;
                Ok(StatementKind::Grant(grant))
            }
        }
    }

    fn privileges(&mut self) -> Parsed<Privileges> {
        if self.eat(K::All) {
            self.eat(K::Privileges);
            return Ok(Privileges::All(self.optional_column_names()?));
        }
        Ok(Privileges::List(self.list(Self::privilege)?))
    }

    fn privilege(&mut self) -> Parsed<Privilege> {
        if self.eat_all(&[K::Alter, K::System]) {
            return Ok(Privilege {
                name: "alter system".into(),
                columns: Vec::new(),
            });
        }
        let name = if self.any(&[K::Select, K::References, K::Create]) {
            self.label()?
        } else {
            self.column_name()?
        };
        Ok(Privilege {
            name: name.text.into(),
            columns: self.optional_column_names()?,
        })
    }

    fn grantees_and_options(
        &mut self,
        revoke: bool,
        option_for: bool,
        privileges: Privileges,
        target: GrantTarget,
        by: bool,
    ) -> Parsed<Grant> {
        self.expect(if revoke { K::From } else { K::To })?;
        let grantees = self.grantees()?;
        let with_grant_option = !revoke && self.is(K::With);
        if with_grant_option {
            self.bump();
            self.expect_all(&[K::Grant, K::Option])?;
        }
        let granted_by = if by { self.granted_by()? } else { None };
        Ok(Grant {
            revoke,
            option_for,
            privileges,
            target,
            grantees,
            with_grant_option,
            granted_by,
            cascade: revoke && self.cascade(),
        })
    }

    fn grantees(&mut self) -> Parsed<Vec<Role>> {
        self.list(|parser| {
            parser.eat(K::Group);
            parser.role()
        })
    }

    fn granted_by(&mut self) -> Parsed<Option<Role>> {
        if !self.eat(K::Granted) {
            return Ok(None);
        }
        self.expect(K::By)?;
        self.role().map(Some)
    }

    fn grant_role(
        &mut self,
        revoke: bool,
        option_for: bool,
        roles: Vec<Privilege>,
    ) -> Parsed<StatementKind> {
        self.expect(if revoke { K::From } else { K::To })?;
        let grantees = self.roles()?;
        let with_admin_option = !revoke && self.is(K::With);
        if with_admin_option {
            self.bump();
            self.expect_all(&[K::Admin, K::Option])?;
        }
        let granted_by = self.granted_by()?;
        Ok(StatementKind::GrantRole(GrantRole {
            revoke,
            option_for,
            roles,
            grantees,
            with_admin_option,
            granted_by,
            cascade: revoke && self.cascade(),
        }))
    }

    /// `privilege_target`
    fn grant_target(&mut self) -> Parsed<GrantTarget> {
        if self.is(K::All) {
            return self.all_in_schema();
        }
        let next = self.peek(1).keyword;
        let (kind, words, qualified) = match (self.keyword(), next) {
            (K::Table, _) => (GrantKind::Table, 1, true),
            (K::Sequence, _) if self.is_column_name(1) => (GrantKind::Sequence, 1, true),
            (K::Foreign, K::Data) => (GrantKind::ForeignDataWrapper, 3, false),
            (K::Foreign, _) => (GrantKind::ForeignServer, 2, false),
            (K::Function | K::Procedure | K::Routine, _) if self.is_routine_name(1) => {
                let kind = self.routine_kind().ok_or_else(|| self.error())?;
                return Ok(GrantTarget::Routines(kind, self.list(Self::routine_ref)?));
            }
            (K::Database, _) if self.is_column_name(1) => (GrantKind::Database, 1, false),
            (K::Domain, _) if self.is_column_name(1) => (GrantKind::Domain, 1, true),
            (K::Language, _) if self.is_column_name(1) => (GrantKind::Language, 1, false),
            (K::Large, K::Object) => {
                self.bump();
                self.bump();
                return Ok(GrantTarget::LargeObjects(self.list(Self::numeric)?));
            }
            (K::Parameter, _) if self.is_column_name(1) => (GrantKind::Parameter, 1, true),
            (K::Schema, _) if self.is_column_name(1) => (GrantKind::Schema, 1, false),
            (K::Tablespace, _) if self.is_column_name(1) => (GrantKind::Tablespace, 1, false),
            (K::Type, _) if self.is_column_name(1) => (GrantKind::Type, 1, true),
            _ => (GrantKind::Table, 0, true),
        };
        match kind {
            GrantKind::ForeignDataWrapper => self.expect_all(&[K::Foreign, K::Data, K::Wrapper])?,
            GrantKind::ForeignServer => self.expect_all(&[K::Foreign, K::Server])?,
            _ if words > 0 => self.bump(),
            _ => {}
        }
        let names = self.list(|parser| match kind {
            GrantKind::Table | GrantKind::Sequence => parser.qualified_name(),
            GrantKind::Parameter => {
                let mut path = vec![parser.column_name()?];
                while parser.eat_kind(TokenKind::Dot) {
                    path.push(parser.column_name()?);
                }
                Ok(Path(path))
            }
            _ => parser.object_name(qualified),
        })?;
        Ok(GrantTarget::Objects(kind, names))
    }

    fn is_routine_name(&self, ahead: usize) -> bool {
        self.is_column_name(ahead) || self.is_type_or_function_name(ahead)
    }

    fn grant_kind_in_plural(&mut self) -> Parsed<GrantKind> {
        let kind = match self.keyword() {
            K::Tables => GrantKind::Table,
            K::Sequences => GrantKind::Sequence,
            K::Functions => GrantKind::Function,
            K::Procedures => GrantKind::Procedure,
            K::Routines => GrantKind::Routine,
            K::Types => GrantKind::Type,
            K::Schemas => GrantKind::Schema,
            _ => return Err(self.error()),
        };
        self.bump();
        Ok(kind)
    }

    fn all_in_schema(&mut self) -> Parsed<GrantTarget> {
        self.bump();
        if self.any(&[K::Types, K::Schemas]) {
            return Err(self.error());
        }
        let kind = self.grant_kind_in_plural()?;
        self.expect_all(&[K::In, K::Schema])?;
        Ok(GrantTarget::AllInSchema(
            kind,
            self.list(Self::column_name)?,
        ))
    }

    /// Behind ALTER DEFAULT PRIVILEGES.
    pub(super) fn alter_default_privileges(&mut self) -> Parsed<StatementKind> {
        let mut of = Vec::new();
        loop {
            if self.eat(K::In) {
                self.expect(K::Schema)?;
                of.push(DefaultsOf::Schemas(self.list(Self::column_name)?));
            } else if self.eat(K::For) {
                if !self.eat(K::Role) {
                    self.expect(K::User)?;
                }
                of.push(DefaultsOf::Roles(self.roles()?));
            } else {
                break;
            }
        }
        let revoke = self.eat(K::Revoke);
        if !revoke {
            self.expect(K::Grant)?;
        }
        let option_for = revoke && self.eat_all(&[K::Grant, K::Option, K::For]);
        let privileges = self.privileges()?;
        self.expect(K::On)?;
        if self.is(K::Procedures) {
            return Err(self.error());
        }
        let target = GrantTarget::Default(self.grant_kind_in_plural()?);
        let grant = self.grantees_and_options(revoke, option_for, privileges, target, false)?;
        Ok(StatementKind::AlterDefaultPrivileges(
            AlterDefaultPrivileges { of, grant },
        ))
    }
}
