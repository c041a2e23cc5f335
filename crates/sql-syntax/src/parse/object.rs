//! Objects as statements name them: by kind, then by what names one of that kind.

use super::Parser;
use crate::error::Parsed;
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{Object, ObjectKind, Path, TablePartKind};

impl Parser<'_> {
    /// The kind of an object that a plain name names, and whether it may have a schema.
    pub(super) fn object_kind(&mut self) -> Option<(ObjectKind, bool)> {
        use ObjectKind as O;
        let next = self.peek(1).keyword;
        let (kind, words, qualified) = match (self.keyword(), next) {
            (K::Table, _) => (O::Table, 1, true),
            (K::Sequence, _) => (O::Sequence, 1, true),
            (K::View, _) => (O::View, 1, true),
            (K::Materialized, K::View) => (O::MaterializedView, 2, true),
            (K::Index, _) => (O::Index, 1, true),
            (K::Foreign, K::Table) => (O::ForeignTable, 2, true),
            (K::Collation, _) => (O::Collation, 1, true),
            (K::Conversion, _) => (O::Conversion, 1, true),
            (K::Statistics, _) => (O::Statistics, 1, true),
            (K::Text, K::Search) => {
                let kind = match self.peek(2).keyword {
                    K::Parser => O::TextSearchParser,
                    K::Dictionary => O::TextSearchDictionary,
                    K::Template => O::TextSearchTemplate,
                    K::Configuration => O::TextSearchConfiguration,
                    _ => return None,
                };
                (kind, 3, true)
            }
            (K::Access, K::Method) => (O::AccessMethod, 2, false),
            (K::Event, K::Trigger) => (O::EventTrigger, 2, false),
            (K::Extension, _) => (O::Extension, 1, false),
            (K::Foreign, K::Data) if self.is_at(2, K::Wrapper) => (O::ForeignDataWrapper, 3, false),
            (K::Procedural, K::Language) => (O::Language, 2, false),
            (K::Language, _) => (O::Language, 1, false),
            (K::Publication, _) => (O::Publication, 1, false),
            (K::Schema, _) => (O::Schema, 1, false),
            (K::Server, _) => (O::Server, 1, false),
            (K::Database, _) => (O::Database, 1, false),
            (K::Role, _) => (O::Role, 1, false),
            (K::Subscription, _) => (O::Subscription, 1, false),
            (K::Tablespace, _) => (O::Tablespace, 1, false),
            _ => return None,
        };
        for _ in 0..words {
            self.bump();
        }
        Some((kind, qualified))
    }

    pub(super) fn object_name(&mut self, qualified: bool) -> Parsed<Path> {
        if qualified {
            self.any_name()
        } else {
            Ok(Path(vec![self.column_name()?]))
        }
    }

    /// An object of any kind, from its kind on.
    pub(super) fn object(&mut self) -> Parsed<Object> {
        if let Some((kind, qualified)) = self.object_kind() {
            return Ok(Object::Named(kind, self.object_name(qualified)?));
        }
        let word = self.keyword();
        if let Some(kind) = self.routine_kind() {
            return Ok(Object::Routine(kind, self.routine_ref()?));
        }
        let first = self.token();
        self.bump();
        match word {
            K::Type => Ok(Object::Type(self.type_name()?)),
            K::Domain => Ok(Object::Domain(self.type_name()?)),
            K::Aggregate => Ok(Object::Aggregate(self.aggregate_ref()?)),
            K::Column => Ok(Object::Column(self.any_name()?)),
            K::Operator if self.is_operator_class() => {
                let family = self.is(K::Family);
                self.bump();
                self.operator_class(family)
            }
            K::Operator => Ok(Object::Operator(self.operator_ref()?)),
            K::Policy | K::Rule | K::Trigger | K::Constraint => {
                let kind = match word {
                    K::Policy => TablePartKind::Policy,
                    K::Rule => TablePartKind::Rule,
                    K::Trigger => TablePartKind::Trigger,
                    _ => TablePartKind::Constraint,
                };
                let name = self.column_name()?;
                self.expect(K::On)?;
                if kind == TablePartKind::Constraint && self.is(K::Domain) && self.is_column_name(1)
                {
                    self.bump();
                    return Ok(Object::DomainConstraint(name, self.any_name()?));
                }
                Ok(Object::PartOfTable(kind, name, self.any_name()?))
            }
            K::Large => {
                self.expect(K::Object)?;
                Ok(Object::LargeObject(self.numeric()?))
            }
            K::Cast => self.cast_object(),
            K::Transform => self.transform_object(),
            _ => Err(self.error_at(first, "syntax error")),
        }
    }

    /// Whether CLASS or FAMILY stands here, rather than an operator's schema.
    pub(super) fn is_operator_class(&self) -> bool {
        self.any(&[K::Class, K::Family]) && !self.is_kind_at(1, TokenKind::Dot)
    }

    pub(super) fn operator_class(&mut self, family: bool) -> Parsed<Object> {
        let name = self.any_name()?;
        self.expect(K::Using)?;
        Ok(Object::OperatorClass(family, name, self.column_name()?))
    }

    pub(super) fn cast_object(&mut self) -> Parsed<Object> {
        self.in_brackets(|parser| {
            let source = parser.type_name()?;
            parser.expect(K::As)?;
            Ok(Object::Cast(source, parser.type_name()?))
        })
    }

    pub(super) fn transform_object(&mut self) -> Parsed<Object> {
        self.expect(K::For)?;
        let kind = self.type_name()?;
        self.expect(K::Language)?;
        Ok(Object::Transform(kind, self.column_name()?))
    }
}
