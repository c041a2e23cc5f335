//! Which statement it is, by its first words.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{Persistence, StatementKind, Unsupported};

impl Parser<'_> {
    /// `stmt`
    pub(super) fn statement(&mut self) -> Parsed<StatementKind> {
        self.nested(Self::statement_inside)
    }

    fn statement_inside(&mut self) -> Parsed<StatementKind> {
        match self.keyword() {
            K::Select
            | K::Values
            | K::Table
            | K::With
            | K::Insert
            | K::Update
            | K::Delete
            | K::Merge => self.preparable(),
            K::Create => self.create(),
            K::Alter => self.alter(),
            K::Drop => self.drop_statement(),
            K::Truncate => self.truncate(),
            K::Comment => self.comment(),
            K::Grant => self.grant(),
            K::Revoke => self.revoke(),
            K::Reassign => self.reassign_owned(),
            K::Begin
            | K::Start
            | K::Commit
            | K::End
            | K::Rollback
            | K::Abort
            | K::Savepoint
            | K::Release => self.transaction(),
            K::Prepare if self.is_at(1, K::Transaction) => self.transaction(),
            K::Set => self.set(),
            K::Reset => Ok(StatementKind::Set(self.reset()?)),
            K::Show => self.show(),
            K::Explain => self.explain(),
            K::Prepare => self.prepare(),
            K::Execute => Ok(StatementKind::Execute(self.execute()?)),
            K::Deallocate => self.deallocate(),
            K::Declare => self.declare(),
            K::Fetch | K::Move => self.fetch(),
            K::Close => self.close(),
            K::Copy => self.copy(),
            K::Lock => self.lock(),
            K::Vacuum | K::Analyze | K::Analyse => self.vacuum(),
            K::Cluster => self.cluster(),
            K::Reindex => self.reindex(),
            K::Refresh => self.refresh(),
            K::Discard => self.discard(),
            K::Checkpoint => {
                self.bump();
                Ok(StatementKind::Checkpoint)
            }
            K::Listen | K::Unlisten | K::Notify => self.notification(),
            K::Load => {
                self.bump();
                Ok(StatementKind::Load(self.string()?))
            }
            K::Do => self.do_block(),
            K::Call => {
                self.bump();
                let name = self.function_name()?;
                Ok(StatementKind::Call(Box::new(self.application(name)?)))
            }
            K::Import if self.is_at(1, K::Foreign) => self.unsupported("IMPORT FOREIGN SCHEMA"),
            K::Security if self.is_at(1, K::Label) => self.unsupported("SECURITY LABEL"),
            _ if self.kind() == TokenKind::Open => self.preparable(),
            _ => Err(self.error()),
        }
    }

    /// A statement that is recognised and no more: all up to its semicolon.
    pub(super) fn unsupported(&mut self, command: &'static str) -> Parsed<StatementKind> {
        let start = self.pos() as usize;
        let mut depth = 0_u32;
        loop {
            match self.kind() {
                TokenKind::End if depth > 0 => return Err(self.error()),
                TokenKind::End => break,
                TokenKind::Semicolon if depth == 0 => break,
                TokenKind::Open => depth += 1,
                TokenKind::Close if depth == 0 => return Err(self.error()),
                TokenKind::Close => depth -= 1,
                TokenKind::Other => return Err(self.error()),
                _ => {}
            }
            self.bump();
        }
        let end = self.tokens[self.at - 1].end as usize;
        Ok(StatementKind::Unsupported(Unsupported {
            command,
            text: self.text[start..end].to_owned(),
        }))
    }

    fn create(&mut self) -> Parsed<StatementKind> {
        let start = self.at;
        self.bump();
        let or_replace = self.eat_all(&[K::Or, K::Replace]);
        if or_replace && !self.is_replaceable() {
            return Err(self.error());
        }
        if let Some(command) = self.unmodelled_create() {
            self.at = start;
            return self.unsupported(command);
        }
        match self.keyword() {
            K::Temporary | K::Temp | K::Local | K::Global | K::Unlogged => {
                let persistence = self.persistence()?;
                self.create_relation(or_replace, persistence)
            }
            K::Table | K::View | K::Recursive | K::Sequence | K::Materialized => {
                self.create_relation(or_replace, Persistence::Permanent)
            }
            K::Foreign => {
                self.bump();
                self.expect(K::Table)?;
                self.create_table(Persistence::Permanent, true)
            }
            K::Unique | K::Index => self.create_index(),
            K::Schema => self.create_schema(),
            K::Database => self.create_database(),
            K::Domain => self.create_domain(),
            K::Type => self.create_type(),
            K::Function | K::Procedure => self.create_routine(or_replace),
            K::Aggregate => self.create_aggregate(or_replace),
            K::Trigger | K::Constraint => self.create_trigger(or_replace),
            K::Rule => self.create_rule(or_replace),
            K::Policy => self.create_policy(),
            K::Statistics => self.create_statistics(),
            K::Extension => self.create_extension(),
            K::Role | K::User | K::Group => self.create_role(),
            K::Cast => self.create_cast(),
            K::Collation => self.create_collation(),
            K::Operator | K::Text => self.define(),
            K::Assertion => Err(SyntaxError::new(
                Fault::NotSupported,
                "CREATE ASSERTION is not yet implemented",
                self.pos(),
            )),
            _ => Err(self.error()),
        }
    }

    fn is_replaceable(&self) -> bool {
        self.any(&[
            K::Aggregate,
            K::Function,
            K::Procedure,
            K::Trigger,
            K::Constraint,
            K::Rule,
            K::View,
            K::Recursive,
            K::Temporary,
            K::Temp,
            K::Local,
            K::Global,
            K::Unlogged,
            K::Transform,
            K::Trusted,
            K::Procedural,
            K::Language,
        ])
    }

    /// What CREATE makes and this tree does not have.
    fn unmodelled_create(&self) -> Option<&'static str> {
        let next = self.peek(1).keyword;
        Some(match (self.keyword(), next) {
            (K::Transform, K::For) => "CREATE TRANSFORM",
            (K::Trusted, K::Procedural | K::Language)
            | (K::Procedural, K::Language)
            | (K::Language, _) => "CREATE LANGUAGE",
            (K::Tablespace, _) => "CREATE TABLESPACE",
            (K::Foreign, K::Data) => "CREATE FOREIGN DATA WRAPPER",
            (K::Server, _) => "CREATE SERVER",
            (K::User, K::Mapping) if matches!(self.peek(2).keyword, K::For | K::If) => {
                "CREATE USER MAPPING"
            }
            (K::Access, K::Method) => "CREATE ACCESS METHOD",
            (K::Event, K::Trigger) => "CREATE EVENT TRIGGER",
            (K::Operator, K::Class) => "CREATE OPERATOR CLASS",
            (K::Operator, K::Family) => "CREATE OPERATOR FAMILY",
            (K::Publication, _) => "CREATE PUBLICATION",
            (K::Subscription, _) => "CREATE SUBSCRIPTION",
            (K::Default, K::Conversion) | (K::Conversion, _) => "CREATE CONVERSION",
            _ => return None,
        })
    }

    /// `OptTemp`
    fn persistence(&mut self) -> Parsed<Persistence> {
        if self.eat(K::Unlogged) {
            return Ok(Persistence::Unlogged);
        }
        if self.any(&[K::Local, K::Global]) {
            self.bump();
        }
        if !self.eat(K::Temp) {
            self.expect(K::Temporary)?;
        }
        Ok(Persistence::Temporary)
    }

    /// CREATE TABLE AS or CREATE MATERIALIZED VIEW, and no other CREATE.
    pub(super) fn create_table_by_query(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let is_permanent = self.any(&[K::Table, K::Materialized]);
        let persistence = if is_permanent {
            Persistence::Permanent
        } else {
            self.persistence()?
        };
        if persistence != Persistence::Temporary && self.eat(K::Materialized) {
            self.expect(K::View)?;
            return self.create_materialized_view(persistence);
        }
        self.expect(K::Table)?;
        let if_not_exists = self.if_not_exists();
        let name = self.qualified_name()?;
        self.create_table_as(persistence, if_not_exists, name, false)
    }

    fn create_relation(
        &mut self,
        or_replace: bool,
        persistence: Persistence,
    ) -> Parsed<StatementKind> {
        match self.keyword() {
            K::View | K::Recursive => self.create_view(or_replace, persistence),
            _ if or_replace => Err(self.error()),
            K::Table => {
                self.bump();
                self.create_table(persistence, false)
            }
            K::Sequence => self.create_sequence(persistence),
            K::Materialized if persistence != Persistence::Temporary => {
                self.bump();
                self.expect(K::View)?;
                self.create_materialized_view(persistence)
            }
            _ => Err(self.error()),
        }
    }
}
