//! INSERT, UPDATE, DELETE and MERGE.

use super::Parser;
use crate::error::Parsed;
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    AssignTarget, Assignment, ConflictAction, ConflictTarget, Delete, Filter, Insert, Merge,
    MergeAction, MergeBranch, OnConflict, Overriding, Query, StatementKind, Target, Update, With,
};

impl Parser<'_> {
    pub(super) fn insert(&mut self, with: Option<With>) -> Parsed<StatementKind> {
        self.bump();
        self.expect(K::Into)?;
        let table = self.qualified_name()?;
        let alias = if self.eat(K::As) {
            Some(self.column_name()?)
        } else {
            None
        };
        let (columns, overriding, source) = self.insert_source()?;
        let conflict = if self.is(K::On) {
            Some(self.on_conflict()?)
        } else {
            None
        };
        Ok(StatementKind::Insert(Box::new(Insert {
            with,
            table,
            alias,
            columns,
            overriding,
            source,
            conflict,
            returning: self.returning()?,
        })))
    }

    /// `insert_rest`
    fn insert_source(&mut self) -> Parsed<(Vec<AssignTarget>, Option<Overriding>, Option<Query>)> {
        if self.eat_all(&[K::Default, K::Values]) {
            return Ok((Vec::new(), None, None));
        }
        let mut columns = Vec::new();
        if self.kind() == TokenKind::Open && !self.is_query_behind_brackets() {
            columns = self.bracketed_list(Self::assign_target)?;
        }
        let overriding = self.overriding()?;
        Ok((columns, overriding, Some(self.query()?)))
    }

    fn overriding(&mut self) -> Parsed<Option<Overriding>> {
        if !self.eat(K::Overriding) {
            return Ok(None);
        }
        let kind = if self.eat(K::User) {
            Overriding::User
        } else {
            self.expect(K::System)?;
            Overriding::System
        };
        self.expect(K::Value)?;
        Ok(Some(kind))
    }

    fn assign_target(&mut self) -> Parsed<AssignTarget> {
        Ok(AssignTarget {
            name: self.column_name()?,
            steps: self.steps()?,
        })
    }

    fn on_conflict(&mut self) -> Parsed<OnConflict> {
        let at = self.pos();
        self.expect_all(&[K::On, K::Conflict])?;
        let target = if self.kind() == TokenKind::Open {
            let items = self.bracketed_list(Self::index_item)?;
            ConflictTarget::Columns(items, self.optional_where()?)
        } else if self.eat(K::On) {
            self.expect(K::Constraint)?;
            ConflictTarget::Constraint(self.column_name()?)
        } else {
            ConflictTarget::Any
        };
        self.expect(K::Do)?;
        let action = if self.eat(K::Nothing) {
            ConflictAction::Nothing
        } else {
            self.expect_all(&[K::Update, K::Set])?;
            let assignments = self.assignments()?;
            ConflictAction::Update(assignments, self.optional_where()?)
        };
        Ok(OnConflict { at, target, action })
    }

    fn returning(&mut self) -> Parsed<Vec<Target>> {
        if self.eat(K::Returning) {
            self.targets()
        } else {
            Ok(Vec::new())
        }
    }

    fn assignments(&mut self) -> Parsed<Vec<Assignment>> {
        self.list(|parser| {
            if parser.kind() == TokenKind::Open {
                let targets = parser.bracketed_list(Self::assign_target)?;
                parser.expect_kind(TokenKind::Equal)?;
                return Ok(Assignment::Several(targets, parser.expr()?));
            }
            let target = parser.assign_target()?;
            parser.expect_kind(TokenKind::Equal)?;
            Ok(Assignment::One(target, parser.expr()?))
        })
    }

    fn filter(&mut self) -> Parsed<Filter> {
        if !self.eat(K::Where) {
            return Ok(Filter::All);
        }
        if self.eat_all(&[K::Current, K::Of]) {
            return Ok(Filter::CurrentOf(self.column_name()?));
        }
        Ok(Filter::Where(self.expr()?))
    }

    pub(super) fn update(&mut self, with: Option<With>) -> Parsed<StatementKind> {
        self.bump();
        let (table, alias) = self.relation_with_alias()?;
        self.expect(K::Set)?;
        let assignments = self.assignments()?;
        let from = if self.eat(K::From) {
            self.table_refs()?
        } else {
            Vec::new()
        };
        Ok(StatementKind::Update(Box::new(Update {
            with,
            table,
            alias,
            assignments,
            from,
            filter: self.filter()?,
            returning: self.returning()?,
        })))
    }

    pub(super) fn delete(&mut self, with: Option<With>) -> Parsed<StatementKind> {
        self.bump();
        self.expect(K::From)?;
        let (table, alias) = self.relation_with_alias()?;
        let using = if self.eat(K::Using) {
            self.table_refs()?
        } else {
            Vec::new()
        };
        Ok(StatementKind::Delete(Box::new(Delete {
            with,
            table,
            alias,
            using,
            filter: self.filter()?,
            returning: self.returning()?,
        })))
    }

    pub(super) fn merge(&mut self, with: Option<With>) -> Parsed<StatementKind> {
        self.bump();
        self.expect(K::Into)?;
        let (table, alias) = self.relation_with_alias()?;
        self.expect(K::Using)?;
        let source = self.table_ref()?;
        self.expect(K::On)?;
        let condition = self.expr()?;
        let mut branches = Vec::new();
        if !self.is(K::When) {
            return Err(self.error());
        }
        while self.eat(K::When) {
            branches.push(self.merge_branch()?);
        }
        Ok(StatementKind::Merge(Box::new(Merge {
            with,
            table,
            alias,
            source,
            condition,
            branches,
        })))
    }

    fn merge_branch(&mut self) -> Parsed<MergeBranch> {
        let matched = !self.eat(K::Not);
        self.expect(K::Matched)?;
        let condition = if self.eat(K::And) {
            Some(self.expr()?)
        } else {
            None
        };
        self.expect(K::Then)?;
        let action = match self.keyword() {
            K::Do => {
                self.bump();
                self.expect(K::Nothing)?;
                MergeAction::Nothing
            }
            K::Update if matched => {
                self.bump();
                self.expect(K::Set)?;
                MergeAction::Update(self.assignments()?)
            }
            K::Delete if matched => {
                self.bump();
                MergeAction::Delete
            }
            K::Insert if !matched => {
                self.bump();
                self.merge_insert()?
            }
            _ => return Err(self.error()),
        };
        Ok(MergeBranch {
            matched,
            condition,
            action,
        })
    }

    fn merge_insert(&mut self) -> Parsed<MergeAction> {
        if self.eat_all(&[K::Default, K::Values]) {
            return Ok(MergeAction::Insert {
                columns: Vec::new(),
                overriding: None,
                values: Vec::new(),
            });
        }
        let columns = if self.kind() == TokenKind::Open {
            self.bracketed_list(Self::assign_target)?
        } else {
            Vec::new()
        };
        let overriding = self.overriding()?;
        self.expect(K::Values)?;
        Ok(MergeAction::Insert {
            columns,
            overriding,
            values: self.bracketed_list(Self::expr)?,
        })
    }
}
