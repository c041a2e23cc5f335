//! SET, RESET, SHOW, and transactions.

use super::Parser;
use super::primary::literal;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    BaseType, Expr, ExprKind, IntervalFields, Isolation, Literal, Name, Path, SetConstraints,
    Setting, SettingAction, StatementKind, Transaction, TransactionMode,
};

impl Parser<'_> {
    pub(super) fn set(&mut self) -> Parsed<StatementKind> {
        self.bump();
        if self.is(K::Constraints) && !self.is_setting_name_end(1) {
            return self.set_constraints();
        }
        let local = self.is(K::Local) && !self.is_setting_name_end(1);
        let session =
            self.is(K::Session) && !self.is_setting_name_end(1) && !self.is_session_clause();
        if local || session {
            self.bump();
        }
        let action = self.set_rest()?;
        Ok(StatementKind::Set(Setting { local, action }))
    }

    /// Whether what stands before is the name of a setting.
    fn is_setting_name_end(&self, ahead: usize) -> bool {
        matches!(self.peek(ahead).kind, TokenKind::Equal | TokenKind::Dot)
            || self.is_at(ahead, K::To)
    }

    /// SESSION that belongs to what follows it.
    fn is_session_clause(&self) -> bool {
        matches!(self.peek(1).keyword, K::Authorization | K::Characteristics)
    }

    /// `SetResetClause`
    pub(super) fn set_or_reset(&mut self) -> Parsed<Setting> {
        if self.is(K::Reset) {
            return self.reset();
        }
        self.expect(K::Set)?;
        Ok(Setting {
            local: false,
            action: self.set_rest()?,
        })
    }

    fn known(&self, name: &'static str) -> Path {
        Path(vec![Name {
            text: smol_str::SmolStr::new_static(name),
            at: self.pos(),
        }])
    }

    fn word_of(&self, text: String) -> Expr {
        literal(Literal::String(text), self.pos())
    }

    fn assign(name: Path, value: Expr) -> SettingAction {
        SettingAction::Assign(name, vec![value])
    }

    fn set_rest(&mut self) -> Parsed<SettingAction> {
        if self.is_setting_name_end(1) {
            return self.generic_set();
        }
        let known = |parser: &Self, name| parser.known(name);
        match self.keyword() {
            K::Transaction => {
                self.bump();
                if self.eat(K::Snapshot) {
                    return Ok(SettingAction::Snapshot(self.string()?));
                }
                Ok(SettingAction::Transaction(self.transaction_modes(true)?))
            }
            K::Session if self.is_at(1, K::Characteristics) => {
                self.bump();
                self.bump();
                self.expect_all(&[K::As, K::Transaction])?;
                Ok(SettingAction::SessionCharacteristics(
                    self.transaction_modes(true)?,
                ))
            }
            K::Session if self.is_at(1, K::Authorization) => {
                let name = known(self, "session_authorization");
                self.bump();
                self.bump();
                if self.eat(K::Default) {
                    return Ok(SettingAction::Default(name));
                }
                let value = self.word_or_string()?;
                Ok(Self::assign(name, self.word_of(value)))
            }
            K::Time => self.set_time_zone(),
            K::Catalog => {
                self.bump();
                let at = self.pos();
                self.string()?;
                let message = "current database cannot be changed";
                Err(SyntaxError::new(Fault::NotSupported, message, at))
            }
            K::Schema => {
                let name = known(self, "search_path");
                self.bump();
                let value = self.string()?;
                Ok(Self::assign(name, self.word_of(value)))
            }
            K::Names => {
                let name = known(self, "client_encoding");
                self.bump();
                if self.kind() == TokenKind::String {
                    let value = self.string()?;
                    return Ok(Self::assign(name, self.word_of(value)));
                }
                self.eat(K::Default);
                Ok(SettingAction::Default(name))
            }
            K::Role => {
                let name = known(self, "role");
                self.bump();
                let value = self.word_or_string()?;
                Ok(Self::assign(name, self.word_of(value)))
            }
            K::Xml if self.is_at(1, K::Option) => {
                let name = known(self, "xmloption");
                self.bump();
                self.bump();
                let value = if self.xml_document()? {
                    "DOCUMENT"
                } else {
                    "CONTENT"
                };
                Ok(Self::assign(name, self.word_of(value.into())))
            }
            _ => self.generic_set(),
        }
    }

    fn set_time_zone(&mut self) -> Parsed<SettingAction> {
        let name = self.known("timezone");
        self.bump();
        self.expect(K::Zone)?;
        if self.any(&[K::Default, K::Local]) {
            self.bump();
            return Ok(SettingAction::Default(name));
        }
        let at = self.pos();
        let value = if self.is_numeric() {
            literal(self.numeric()?, at)
        } else if self.is(K::Interval) {
            let kind = self.typed_literal()?;
            let refused = match &kind {
                ExprKind::Cast(cast) => !matches!(
                    cast.target.base,
                    BaseType::Interval(
                        IntervalFields::All | IntervalFields::Hour | IntervalFields::HourToMinute,
                        _
                    )
                ),
                _ => true,
            };
            if refused {
                let message = "time zone interval must be HOUR or HOUR TO MINUTE";
                return Err(SyntaxError::new(Fault::Syntax, message, at));
            }
            Expr { at, kind }
        } else if self.kind() == TokenKind::String {
            let value = self.string()?;
            literal(Literal::String(value), at)
        } else if self.kind() == TokenKind::Name {
            let value = self.column_name()?;
            literal(Literal::String(value.text.into()), at)
        } else {
            return Err(self.error());
        };
        Ok(Self::assign(name, value))
    }

    pub(super) fn setting_name(&mut self) -> Parsed<Path> {
        let mut path = vec![self.column_name()?];
        while self.eat_kind(TokenKind::Dot) {
            path.push(self.column_name()?);
        }
        Ok(Path(path))
    }

    pub(super) fn generic_set(&mut self) -> Parsed<SettingAction> {
        let name = self.setting_name()?;
        if self.eat_all(&[K::From, K::Current]) {
            return Ok(SettingAction::FromCurrent(name));
        }
        if !self.eat_kind(TokenKind::Equal) {
            self.expect(K::To)?;
        }
        if self.eat(K::Default) {
            return Ok(SettingAction::Default(name));
        }
        // A setting of a program's own, which has a dot in its name, takes any word as its value:
        // more than PostgreSQL's grammar permits, which wants quotes around reserved ones.
        let own = name.0.len() > 1;
        let values = self.list(|parser| {
            let at = parser.pos();
            if parser.is_numeric() {
                return Ok(literal(parser.numeric()?, at));
            }
            let value = match parser.kind() {
                TokenKind::Keyword if own => parser.label()?.text.into(),
                _ => parser.boolean_or_string()?,
            };
            Ok(literal(Literal::String(value), at))
        })?;
        Ok(SettingAction::Assign(name, values))
    }

    pub(super) fn reset(&mut self) -> Parsed<Setting> {
        self.bump();
        let action = if self.eat(K::All) {
            SettingAction::ResetAll
        } else {
            SettingAction::Reset(self.setting_name_or_words()?)
        };
        Ok(Setting {
            local: false,
            action,
        })
    }

    fn setting_name_or_words(&mut self) -> Parsed<Path> {
        if self.are(&[K::Time, K::Zone]) {
            let name = self.known("timezone");
            self.at += 2;
            return Ok(name);
        }
        if self.are(&[K::Transaction, K::Isolation]) {
            let name = self.known("transaction_isolation");
            self.at += 2;
            self.expect(K::Level)?;
            return Ok(name);
        }
        if self.are(&[K::Session, K::Authorization]) {
            let name = self.known("session_authorization");
            self.at += 2;
            return Ok(name);
        }
        self.setting_name()
    }

    pub(super) fn show(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = if self.is(K::All) {
            Path(vec![self.label()?])
        } else {
            self.setting_name_or_words()?
        };
        Ok(StatementKind::Show(name))
    }

    fn set_constraints(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let names = if self.eat(K::All) {
            Vec::new()
        } else {
            self.list(Self::qualified_name)?
        };
        Ok(StatementKind::SetConstraints(SetConstraints {
            names,
            deferred: self.deferred()?,
        }))
    }

    fn transaction_modes(&mut self, required: bool) -> Parsed<Vec<TransactionMode>> {
        let mut modes = Vec::new();
        loop {
            match self.transaction_mode()? {
                Some(mode) => modes.push(mode),
                None if modes.is_empty() && !required => return Ok(modes),
                None => return Err(self.error()),
            }
            let more = self.eat_kind(TokenKind::Comma)
                || self.any(&[K::Isolation, K::Read, K::Deferrable])
                || self.are(&[K::Not, K::Deferrable]);
            if !more {
                return Ok(modes);
            }
        }
    }

    fn transaction_mode(&mut self) -> Parsed<Option<TransactionMode>> {
        let mode = match self.keyword() {
            K::Isolation => {
                self.bump();
                self.expect(K::Level)?;
                TransactionMode::Isolation(self.isolation()?)
            }
            K::Read => {
                self.bump();
                let only = self.eat(K::Only);
                if !only {
                    self.expect(K::Write)?;
                }
                TransactionMode::ReadOnly(only)
            }
            K::Deferrable => {
                self.bump();
                TransactionMode::Deferrable(true)
            }
            K::Not => {
                self.bump();
                self.expect(K::Deferrable)?;
                TransactionMode::Deferrable(false)
            }
            _ => return Ok(None),
        };
        Ok(Some(mode))
    }

    fn isolation(&mut self) -> Parsed<Isolation> {
        if self.eat(K::Read) {
            if self.eat(K::Uncommitted) {
                return Ok(Isolation::ReadUncommitted);
            }
            self.expect(K::Committed)?;
            return Ok(Isolation::ReadCommitted);
        }
        if self.eat(K::Repeatable) {
            self.expect(K::Read)?;
            return Ok(Isolation::RepeatableRead);
        }
        self.expect(K::Serializable)?;
        Ok(Isolation::Serializable)
    }

    pub(super) fn transaction(&mut self) -> Parsed<StatementKind> {
        let word = self.keyword();
        self.bump();
        let transaction = match word {
            K::Begin => {
                self.transaction_word();
                Transaction::Begin(self.transaction_modes(false)?)
            }
            K::Start => {
                self.expect(K::Transaction)?;
                Transaction::Start(self.transaction_modes(false)?)
            }
            K::Savepoint => Transaction::Savepoint(self.column_name()?),
            K::Release => {
                self.savepoint_word();
                Transaction::Release(self.column_name()?)
            }
            K::Prepare => {
                self.bump();
                Transaction::Prepare(self.string()?)
            }
            K::Commit if self.eat(K::Prepared) => Transaction::CommitPrepared(self.string()?),
            K::Rollback if self.eat(K::Prepared) => Transaction::RollbackPrepared(self.string()?),
            K::Commit | K::End => {
                self.transaction_word();
                Transaction::Commit {
                    chain: self.chain()?,
                }
            }
            _ => {
                self.transaction_word();
                if word == K::Rollback && self.eat(K::To) {
                    self.savepoint_word();
                    Transaction::RollbackTo(self.column_name()?)
                } else {
                    Transaction::Rollback {
                        chain: self.chain()?,
                    }
                }
            }
        };
        Ok(StatementKind::Transaction(transaction))
    }

    fn transaction_word(&mut self) {
        if self.any(&[K::Work, K::Transaction]) {
            self.bump();
        }
    }

    /// SAVEPOINT in front of a name; alone it is the name.
    fn savepoint_word(&mut self) {
        if self.is(K::Savepoint) && self.is_column_name(1) {
            self.bump();
        }
    }

    fn chain(&mut self) -> Parsed<bool> {
        if !self.eat(K::And) {
            return Ok(false);
        }
        let no = self.eat(K::No);
        self.expect(K::Chain)?;
        Ok(!no)
    }
}
