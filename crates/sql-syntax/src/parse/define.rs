//! CREATE VIEW, SEQUENCE, SCHEMA, DATABASE, DOMAIN, TYPE and the like; lists of options.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::{Category, Keyword as K};
use crate::lexer::token::TokenKind;
use crate::tree::{
    CheckOption, CollationSource, CreateCollation, CreateDatabase, CreateDomain, CreateExtension,
    CreateSchema, CreateSequence, CreateStatistics, CreateType, CreateView, DatabaseOption,
    DatabaseValue, Define, Defined, ExtensionOption, ListedOption, OptionValue, Persistence,
    RefreshView, SequenceOption, StatementKind,
};

impl Parser<'_> {
    /// `reloptions`: names may have a namespace.
    pub(super) fn listed_options(&mut self) -> Parsed<Vec<ListedOption>> {
        self.bracketed_list(|parser| {
            let mut name = parser.label()?;
            let mut namespace = None;
            if parser.eat_kind(TokenKind::Dot) {
                namespace = Some(name);
                name = parser.label()?;
            }
            Ok(ListedOption {
                namespace,
                name,
                value: parser.option_value()?,
            })
        })
    }

    /// `definition`
    pub(super) fn definition(&mut self) -> Parsed<Vec<ListedOption>> {
        self.bracketed_list(|parser| {
            Ok(ListedOption {
                namespace: None,
                name: parser.label()?,
                value: parser.option_value()?,
            })
        })
    }

    fn option_value(&mut self) -> Parsed<OptionValue> {
        if !self.eat_kind(TokenKind::Equal) {
            return Ok(OptionValue::Omitted);
        }
        if self.kind() == TokenKind::String {
            return Ok(OptionValue::String(self.string()?));
        }
        let signed = matches!(self.kind(), TokenKind::Plus | TokenKind::Minus);
        if self.is_numeric()
            && (!signed || matches!(self.peek(1).kind, TokenKind::Integer | TokenKind::Number))
        {
            return Ok(OptionValue::Number(self.numeric()?));
        }
        let word = self.keyword();
        let is_word = word == K::None
            || self.kind() == TokenKind::Keyword && word.category() == Category::Reserved;
        if is_word {
            self.bump();
            return Ok(OptionValue::Word(word.text()));
        }
        let is_operator = self.operator_symbol().is_some()
            || self.is(K::Operator) && self.is_kind_at(1, TokenKind::Open);
        if is_operator {
            return Ok(OptionValue::Operator(self.qualified_operator()?));
        }
        Ok(OptionValue::Type(self.function_type()?))
    }

    pub(super) fn create_view(
        &mut self,
        or_replace: bool,
        persistence: Persistence,
    ) -> Parsed<StatementKind> {
        let recursive = self.eat(K::Recursive);
        self.expect(K::View)?;
        let name = self.qualified_name()?;
        let columns = if recursive {
            self.column_names()?
        } else {
            self.optional_column_names()?
        };
        let options = if self.eat(K::With) {
            self.listed_options()?
        } else {
            Vec::new()
        };
        self.expect(K::As)?;
        let query = self.query()?;
        let at = self.pos();
        let check = self.check_option()?;
        if recursive && check != CheckOption::None {
            let message = "WITH CHECK OPTION not supported on recursive views";
            return Err(SyntaxError::new(Fault::NotSupported, message, at));
        }
        Ok(StatementKind::CreateView(Box::new(CreateView {
            or_replace,
            persistence,
            recursive,
            name,
            columns,
            options,
            query,
            check,
        })))
    }

    fn check_option(&mut self) -> Parsed<CheckOption> {
        if !self.eat(K::With) {
            return Ok(CheckOption::None);
        }
        let local = self.eat(K::Local);
        if !local {
            self.eat(K::Cascaded);
        }
        self.expect_all(&[K::Check, K::Option])?;
        Ok(if local {
            CheckOption::Local
        } else {
            CheckOption::Cascaded
        })
    }

    pub(super) fn refresh(&mut self) -> Parsed<StatementKind> {
        self.bump();
        self.expect_all(&[K::Materialized, K::View])?;
        Ok(StatementKind::RefreshView(RefreshView {
            concurrently: self.eat(K::Concurrently),
            name: self.qualified_name()?,
            with_data: self.with_data()?,
        }))
    }

    pub(super) fn create_sequence(&mut self, persistence: Persistence) -> Parsed<StatementKind> {
        self.bump();
        Ok(StatementKind::CreateSequence(CreateSequence {
            persistence,
            if_not_exists: self.if_not_exists(),
            name: self.qualified_name()?,
            options: self.sequence_options()?,
        }))
    }

    pub(super) fn sequence_options(&mut self) -> Parsed<Vec<SequenceOption>> {
        let mut options = Vec::new();
        while let Some(option) = self.sequence_option()? {
            options.push(option);
        }
        Ok(options)
    }

    /// `OptParenthesizedSeqOptList`
    pub(super) fn bracketed_sequence_options(&mut self) -> Parsed<Vec<SequenceOption>> {
        if self.kind() != TokenKind::Open {
            return Ok(Vec::new());
        }
        self.in_brackets(|parser| {
            let options = parser.sequence_options()?;
            if options.is_empty() {
                Err(parser.error())
            } else {
                Ok(options)
            }
        })
    }

    pub(super) fn sequence_option(&mut self) -> Parsed<Option<SequenceOption>> {
        let word = self.keyword();
        let next = self.peek(1).keyword;
        let option = match word {
            K::As => {
                self.bump();
                SequenceOption::As(self.simple_type_name()?)
            }
            K::Cache => {
                self.bump();
                SequenceOption::Cache(self.numeric()?)
            }
            K::Cycle => {
                self.bump();
                SequenceOption::Cycle(true)
            }
            K::No if matches!(next, K::Cycle | K::Maxvalue | K::Minvalue) => {
                self.bump();
                self.bump();
                match next {
                    K::Cycle => SequenceOption::Cycle(false),
                    K::Maxvalue => SequenceOption::MaxValue(None),
                    _ => SequenceOption::MinValue(None),
                }
            }
            K::Increment => {
                self.bump();
                self.eat(K::By);
                SequenceOption::Increment(self.numeric()?)
            }
            K::Logged | K::Unlogged => {
                self.bump();
                SequenceOption::Logged(word == K::Logged)
            }
            K::Maxvalue => {
                self.bump();
                SequenceOption::MaxValue(Some(self.numeric()?))
            }
            K::Minvalue => {
                self.bump();
                SequenceOption::MinValue(Some(self.numeric()?))
            }
            K::Owned => {
                self.bump();
                self.expect(K::By)?;
                SequenceOption::OwnedBy(self.any_name()?)
            }
            K::Sequence if next == K::Name => {
                self.bump();
                self.bump();
                SequenceOption::SequenceName(self.any_name()?)
            }
            K::Start => {
                self.bump();
                self.eat(K::With);
                SequenceOption::Start(self.numeric()?)
            }
            K::Restart => {
                self.bump();
                let with = self.eat(K::With);
                let value = if with || self.is_numeric() {
                    Some(self.numeric()?)
                } else {
                    None
                };
                SequenceOption::Restart(value)
            }
            _ => return Ok(None),
        };
        Ok(Some(option))
    }

    pub(super) fn create_schema(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = if self.is(K::Authorization) {
            None
        } else {
            Some(self.column_name()?)
        };
        let owner = if self.eat(K::Authorization) {
            Some(self.role()?)
        } else {
            None
        };
        let mut elements = Vec::new();
        let at = self.pos();
        while self.any(&[K::Create, K::Grant]) {
            let at = self.pos();
            let element = self.statement()?;
            let fits = matches!(
                element,
                StatementKind::CreateTable(_)
                    | StatementKind::CreateIndex(_)
                    | StatementKind::CreateSequence(_)
                    | StatementKind::CreateTrigger(_)
                    | StatementKind::CreateView(_)
                    | StatementKind::Grant(_)
            );
            if !fits {
                return Err(SyntaxError::new(Fault::Syntax, "syntax error", at));
            }
            elements.push(element);
        }
        if if_not_exists && !elements.is_empty() {
            let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
            return Err(SyntaxError::new(Fault::NotSupported, message, at));
        }
        Ok(StatementKind::CreateSchema(CreateSchema {
            if_not_exists,
            name,
            owner,
            elements,
        }))
    }

    pub(super) fn create_database(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = self.column_name()?;
        self.eat(K::With);
        Ok(StatementKind::CreateDatabase(CreateDatabase {
            name,
            options: self.database_options()?,
        }))
    }

    pub(super) fn database_options(&mut self) -> Parsed<Vec<DatabaseOption>> {
        let mut options = Vec::new();
        loop {
            let is_option = self.kind() == TokenKind::Name
                || self.any(&[
                    K::Encoding,
                    K::Location,
                    K::Owner,
                    K::Tablespace,
                    K::Template,
                ])
                || self.are(&[K::Connection, K::Limit]);
            if !is_option {
                return Ok(options);
            }
            let mut name = self.label()?;
            if name.text == "connection" && self.eat(K::Limit) {
                name.text = "connection_limit".into();
            }
            self.eat_kind(TokenKind::Equal);
            let value = if self.eat(K::Default) {
                DatabaseValue::Default
            } else if self.is_numeric() {
                DatabaseValue::Number(self.numeric()?)
            } else {
                DatabaseValue::Word(self.boolean_or_string()?)
            };
            options.push(DatabaseOption { name, value });
        }
    }

    pub(super) fn create_domain(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = self.any_name()?;
        self.eat(K::As);
        let kind = self.type_name()?;
        let (collation, constraints) = self.column_constraints()?;
        Ok(StatementKind::CreateDomain(Box::new(CreateDomain {
            name,
            kind,
            collation,
            constraints,
        })))
    }

    pub(super) fn create_type(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = self.any_name()?;
        if self.kind() == TokenKind::Open {
            return Ok(StatementKind::Define(Define {
                what: Defined::Type(name),
                options: self.definition()?,
            }));
        }
        let made = if !self.eat(K::As) {
            CreateType::Shell(name)
        } else if self.eat(K::Enum) {
            let values = self.in_brackets(|parser| {
                if parser.kind() == TokenKind::Close {
                    return Ok(Vec::new());
                }
                parser.list(Self::string)
            })?;
            CreateType::Enum(name, values)
        } else if self.eat(K::Range) {
            CreateType::Range(name, self.definition()?)
        } else {
            let columns = self.in_brackets(|parser| {
                if parser.kind() == TokenKind::Close {
                    return Ok(Vec::new());
                }
                parser.list(Self::column_type)
            })?;
            CreateType::Composite(name, columns)
        };
        Ok(StatementKind::CreateType(made))
    }

    pub(super) fn create_statistics(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = self.any_name()?;
        let kinds = self.optional_column_names()?;
        self.expect(K::On)?;
        let items = self.list(Self::index_key)?;
        self.expect(K::From)?;
        Ok(StatementKind::CreateStatistics(CreateStatistics {
            if_not_exists,
            name,
            kinds,
            items,
            from: self.table_refs()?,
        }))
    }

    pub(super) fn create_extension(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = self.column_name()?;
        self.eat(K::With);
        let mut options = Vec::new();
        loop {
            let at = self.pos();
            options.push(if self.eat(K::Schema) {
                ExtensionOption::Schema(self.column_name()?)
            } else if self.eat(K::Version) {
                ExtensionOption::Version(self.word_or_string()?)
            } else if self.eat(K::Cascade) {
                ExtensionOption::Cascade
            } else if self.eat(K::From) {
                self.word_or_string()?;
                let message = "CREATE EXTENSION ... FROM is no longer supported";
                return Err(SyntaxError::new(Fault::NotSupported, message, at));
            } else {
                break;
            });
        }
        Ok(StatementKind::CreateExtension(CreateExtension {
            if_not_exists,
            name,
            options,
        }))
    }

    pub(super) fn create_collation(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = self.any_name()?;
        let source = if self.eat(K::From) {
            CollationSource::From(self.any_name()?)
        } else {
            CollationSource::Options(self.definition()?)
        };
        Ok(StatementKind::CreateCollation(CreateCollation {
            if_not_exists,
            name,
            source,
        }))
    }

    /// CREATE OPERATOR and CREATE TEXT SEARCH.
    pub(super) fn define(&mut self) -> Parsed<StatementKind> {
        let what = if self.eat(K::Operator) {
            Defined::Operator(self.any_operator()?)
        } else {
            self.bump();
            self.expect(K::Search)?;
            let make = match self.keyword() {
                K::Parser => Defined::TextSearchParser,
                K::Dictionary => Defined::TextSearchDictionary,
                K::Template => Defined::TextSearchTemplate,
                K::Configuration => Defined::TextSearchConfiguration,
                _ => return Err(self.error()),
            };
            self.bump();
            make(self.any_name()?)
        };
        Ok(StatementKind::Define(Define {
            what,
            options: self.definition()?,
        }))
    }
}
