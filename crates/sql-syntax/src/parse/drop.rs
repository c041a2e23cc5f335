//! DROP, TRUNCATE, COMMENT.

use super::Parser;
use crate::error::Parsed;
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Comment, Drop, DropDatabase, DropOwned, DropRole, Object, ObjectKind, ReassignOwned,
    StatementKind, Truncate,
};

impl Parser<'_> {
    /// `opt_drop_behavior`: whether it is CASCADE.
    pub(super) fn cascade(&mut self) -> bool {
        if self.eat(K::Restrict) {
            return false;
        }
        self.eat(K::Cascade)
    }

    pub(super) fn drop_statement(&mut self) -> Parsed<StatementKind> {
        let start = self.at;
        self.bump();
        match self.keyword() {
            K::User
                if self.is_at(1, K::Mapping) && matches!(self.peek(2).keyword, K::For | K::If) =>
            {
                self.at = start;
                return self.unsupported("DROP USER MAPPING");
            }
            K::Role | K::User | K::Group => {
                self.bump();
                return Ok(StatementKind::DropRole(DropRole {
                    if_exists: self.if_exists(),
                    roles: self.roles()?,
                }));
            }
            K::Owned => {
                self.bump();
                self.expect(K::By)?;
                return Ok(StatementKind::DropOwned(DropOwned {
                    roles: self.roles()?,
                    cascade: self.cascade(),
                }));
            }
            K::Database => return self.drop_database(),
            _ => {}
        }
        let mut drop = Drop {
            objects: Vec::new(),
            if_exists: false,
            concurrently: false,
            cascade: false,
        };
        if let Some((kind, qualified)) = self.object_kind() {
            drop.concurrently = kind == ObjectKind::Index && self.eat(K::Concurrently);
            drop.if_exists = self.if_exists();
            drop.objects = if matches!(kind, ObjectKind::Subscription | ObjectKind::Tablespace) {
                vec![Object::Named(kind, self.object_name(qualified)?)]
            } else {
                self.list(|parser| Ok(Object::Named(kind, parser.object_name(qualified)?)))?
            };
            if kind != ObjectKind::Tablespace {
                drop.cascade = self.cascade();
            }
            return Ok(StatementKind::Drop(drop));
        }
        let word = self.keyword();
        if let Some(kind) = self.routine_kind() {
            drop.if_exists = self.if_exists();
            drop.objects = self.list(|parser| Ok(Object::Routine(kind, parser.routine_ref()?)))?;
        } else {
            let first = self.token();
            self.bump();
            let class = word == K::Operator && self.is_operator_class();
            let family = self.is(K::Family);
            if class {
                self.bump();
            }
            drop.if_exists = self.if_exists();
            drop.objects = match word {
                K::Type => self.list(|parser| Ok(Object::Type(parser.type_name()?)))?,
                K::Domain => self.list(|parser| Ok(Object::Domain(parser.type_name()?)))?,
                K::Aggregate => {
                    self.list(|parser| Ok(Object::Aggregate(parser.aggregate_ref()?)))?
                }
                K::Operator if class => vec![self.operator_class(family)?],
                K::Operator => self.list(|parser| Ok(Object::Operator(parser.operator_ref()?)))?,
                K::Cast => vec![self.cast_object()?],
                K::Transform => vec![self.transform_object()?],
                K::Policy | K::Rule | K::Trigger => vec![self.part_of_table(word)?],
                _ => {
                    return Err(self.error_at(first, "syntax error"));
                }
            };
        }
        drop.cascade = self.cascade();
        Ok(StatementKind::Drop(drop))
    }

    fn part_of_table(&mut self, word: K) -> Parsed<Object> {
        use crate::tree::TablePartKind;
        let name = self.column_name()?;
        self.expect(K::On)?;
        let kind = match word {
            K::Policy => TablePartKind::Policy,
            K::Rule => TablePartKind::Rule,
            _ => TablePartKind::Trigger,
        };
        Ok(Object::PartOfTable(kind, name, self.any_name()?))
    }

    fn drop_database(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let if_exists = self.if_exists();
        let name = self.column_name()?;
        let with = self.eat(K::With);
        let force = with || self.kind() == TokenKind::Open;
        if force {
            self.bracketed_list(|parser| parser.expect(K::Force))?;
        }
        Ok(StatementKind::DropDatabase(DropDatabase {
            name,
            if_exists,
            force,
        }))
    }

    pub(super) fn reassign_owned(&mut self) -> Parsed<StatementKind> {
        self.bump();
        self.expect_all(&[K::Owned, K::By])?;
        let roles = self.roles()?;
        self.expect(K::To)?;
        Ok(StatementKind::ReassignOwned(ReassignOwned {
            roles,
            to: self.role()?,
        }))
    }

    pub(super) fn truncate(&mut self) -> Parsed<StatementKind> {
        self.bump();
        self.eat(K::Table);
        let tables = self.list(Self::relation)?;
        let restart_identity = self.eat_all(&[K::Restart, K::Identity]);
        if !restart_identity {
            self.eat_all(&[K::Continue, K::Identity]);
        }
        Ok(StatementKind::Truncate(Truncate {
            tables,
            restart_identity,
            cascade: self.cascade(),
        }))
    }

    pub(super) fn comment(&mut self) -> Parsed<StatementKind> {
        self.bump();
        self.expect(K::On)?;
        let object = self.object()?;
        self.expect(K::Is)?;
        let text = if self.eat(K::Null) {
            None
        } else {
            Some(self.string()?)
        };
        Ok(StatementKind::Comment(Comment { object, text }))
    }
}
