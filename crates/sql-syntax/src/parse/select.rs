//! Queries.

use std::sync::Arc;

use super::Parser;
use super::expr::Mode;
use super::primary::literal;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Body, CommonTable, CycleClause, Direction, Distinctness, Expr, GroupItem, IntoTable, Limit,
    Literal, LockStrength, LockWait, Locking, NullsOrder, Persistence, Query, SearchClause, Select,
    SetOperation, SetStep, SortItem, StatementKind, Target, With,
};

const UNION: u8 = 1;
const INTERSECT: u8 = 2;

impl Parser<'_> {
    /// `select_with_parens`
    pub(super) fn bracketed_query(&mut self) -> Parsed<Query> {
        self.in_brackets(|parser| {
            if parser.kind() == TokenKind::Open || parser.is_query_start(0) {
                parser.query()
            } else {
                Err(parser.error())
            }
        })
    }

    /// A whole query, with or without brackets around it.
    pub(super) fn query(&mut self) -> Parsed<Query> {
        let with = self.optional_with()?;
        self.query_with(with)
    }

    /// What stands behind WITH.
    pub(super) fn query_with(&mut self, with: Option<With>) -> Parsed<Query> {
        self.nested(|parser| {
            let at = parser.pos();
            let first = parser.set_operand()?;
            let mut query = parser.set_operations(first, UNION)?;
            parser.query_tail(&mut query)?;
            if let Some(with) = with {
                if query.with.is_some() {
                    let message = "multiple WITH clauses not allowed";
                    return Err(SyntaxError::new(Fault::Syntax, message, with.at));
                }
                query.with = Some(with);
            }
            query.at = query.with.as_ref().map_or(at, |with| with.at);
            Ok(query)
        })
    }

    /// Whether a query in brackets is followed by what makes it a part of another.
    pub(super) fn is_query_continued(&self) -> bool {
        self.any(&[
            K::Union,
            K::Intersect,
            K::Except,
            K::Order,
            K::Limit,
            K::Offset,
            K::Fetch,
            K::For,
        ])
    }

    /// What follows a query in brackets, as part of a larger query.
    pub(super) fn query_behind(&mut self, first: Query) -> Parsed<Query> {
        let mut query = self.set_operations(first, UNION)?;
        self.query_tail(&mut query)?;
        Ok(query)
    }

    fn set_operand(&mut self) -> Parsed<Query> {
        let at = self.pos();
        let body = match self.keyword() {
            K::Select => Body::Select(Box::new(self.select()?)),
            K::Values => {
                self.bump();
                Body::Values(self.list(|parser| parser.bracketed_list(Self::expr))?)
            }
            K::Table => {
                self.bump();
                Body::Table(self.relation()?)
            }
            _ if self.kind() == TokenKind::Open => return self.nested(Self::bracketed_query),
            _ => return Err(self.error()),
        };
        Ok(Query {
            at,
            with: None,
            body,
            order: Vec::new(),
            limit: None,
            offset: None,
            locking: Vec::new(),
        })
    }

    fn set_operations(&mut self, first: Query, least: u8) -> Parsed<Query> {
        let mut left = first;
        loop {
            let (operation, level) = match self.keyword() {
                K::Union => (SetOperation::Union, UNION),
                K::Except => (SetOperation::Except, UNION),
                K::Intersect => (SetOperation::Intersect, INTERSECT),
                _ => return Ok(left),
            };
            if level < least {
                return Ok(left);
            }
            self.bump();
            let all = self.eat(K::All);
            if !all {
                self.eat(K::Distinct);
            }
            let operand = self.set_operand()?;
            let query = self.set_operations(operand, level + 1)?;
            left = with_step(
                left,
                SetStep {
                    operation,
                    all,
                    query,
                },
            );
        }
    }

    /// ORDER BY, LIMIT, OFFSET, FETCH and FOR behind a query.
    fn query_tail(&mut self, query: &mut Query) -> Parsed<()> {
        let refuse = |message: &str, at| Err(SyntaxError::new(Fault::Syntax, message, at));
        if self.is(K::Order) {
            let at = self.peek(2).start;
            let order = self.optional_order()?;
            if !query.order.is_empty() {
                return refuse("multiple ORDER BY clauses not allowed", at);
            }
            query.order = order;
        }
        let mut locking = self.locking()?;
        let locked_first = !locking.is_empty();
        let (mut limited, mut has_offset) = (false, false);
        loop {
            // An error shows the value.
            let at = self.peek(1).start;
            match self.keyword() {
                K::Limit | K::Fetch if !limited => {
                    limited = true;
                    let limit = self.limit()?;
                    if query.limit.is_some() {
                        return refuse("multiple LIMIT clauses not allowed", at);
                    }
                    query.limit = Some(limit);
                }
                K::Offset if !has_offset => {
                    has_offset = true;
                    let offset = self.offset()?;
                    if query.offset.is_some() {
                        return refuse("multiple OFFSET clauses not allowed", at);
                    }
                    query.offset = Some(offset);
                }
                _ => break,
            }
        }
        if !locked_first {
            locking = self.locking()?;
        }
        query.locking.extend(locking);
        if query.limit.as_ref().is_some_and(|limit| limit.with_ties) {
            if query.order.is_empty() {
                return refuse(
                    "WITH TIES cannot be specified without ORDER BY clause",
                    query.at,
                );
            }
            if query
                .locking
                .iter()
                .any(|locking| locking.wait == LockWait::SkipLocked)
            {
                return refuse(
                    "SKIP LOCKED and WITH TIES options cannot be used together",
                    query.at,
                );
            }
        }
        Ok(())
    }

    fn limit(&mut self) -> Parsed<Limit> {
        let at = self.pos();
        if self.eat(K::Limit) {
            let count = if self.eat(K::All) {
                None
            } else {
                Some(self.expr()?)
            };
            if self.kind() == TokenKind::Comma {
                let mut error =
                    SyntaxError::new(Fault::Syntax, "LIMIT #,# syntax is not supported", at);
                error.hint = Some("Use separate LIMIT and OFFSET clauses.");
                return Err(error);
            }
            return Ok(Limit {
                count,
                with_ties: false,
            });
        }
        self.bump();
        if !self.eat(K::First) {
            self.expect(K::Next)?;
        }
        let at = self.pos();
        let is_row =
            matches!(self.keyword(), K::Row | K::Rows) && !self.is_kind_at(1, TokenKind::Open);
        let count = if is_row {
            literal(Literal::Integer(1), at)
        } else {
            self.fetch_count()?
        };
        if !self.eat(K::Row) {
            self.expect(K::Rows)?;
        }
        let with_ties = self.eat_all(&[K::With, K::Ties]);
        if !with_ties {
            self.expect(K::Only)?;
        }
        Ok(Limit {
            count: Some(count),
            with_ties,
        })
    }

    /// `select_fetch_first_value`
    fn fetch_count(&mut self) -> Parsed<Expr> {
        if matches!(self.kind(), TokenKind::Plus | TokenKind::Minus) {
            let at = self.pos();
            let plus = self.kind() == TokenKind::Plus;
            let value = self.numeric()?;
            if plus {
                // A plus is an operator here, as everywhere.
                self.at -= 2;
                return self.expr();
            }
            return Ok(literal(value, at));
        }
        self.primary()
    }

    /// The value of OFFSET. In front of ROWS it has to be a simple one; so the first operand is
    /// read alone, and what follows it decides.
    fn offset(&mut self) -> Parsed<Expr> {
        self.bump();
        let is_sign = matches!(self.kind(), TokenKind::Plus | TokenKind::Minus);
        if is_sign && matches!(self.peek(2).keyword, K::Row | K::Rows) {
            let value = self.fetch_count()?;
            self.bump();
            return Ok(value);
        }
        let is_prefix = is_sign
            || self.kind() == TokenKind::Operator
            || self.any(&[K::Not, K::Default, K::Unique, K::Operator]);
        if is_prefix {
            return self.expr();
        }
        self.nested(|parser| {
            let outside = std::mem::take(&mut parser.height);
            let first = parser.primary()?;
            if matches!(parser.keyword(), K::Row | K::Rows) {
                parser.bump();
                parser.height = outside.max(parser.height + 1);
                return Ok(first);
            }
            parser.infix(first, Mode::All, 0, outside)
        })
    }

    fn locking(&mut self) -> Parsed<Vec<Locking>> {
        let mut locking = Vec::new();
        if self.eat_all(&[K::For, K::Read, K::Only]) {
            return Ok(locking);
        }
        while self.eat(K::For) {
            let strength = match self.keyword() {
                K::Update => LockStrength::Update,
                K::Share => LockStrength::Share,
                K::No => {
                    self.bump();
                    self.expect(K::Key)?;
                    if !self.is(K::Update) {
                        return Err(self.error());
                    }
                    LockStrength::NoKeyUpdate
                }
                K::Key => {
                    self.bump();
                    if !self.is(K::Share) {
                        return Err(self.error());
                    }
                    LockStrength::KeyShare
                }
                _ => return Err(self.error()),
            };
            self.bump();
            let tables = if self.eat(K::Of) {
                self.list(Self::qualified_name)?
            } else {
                Vec::new()
            };
            let wait = if self.eat(K::Nowait) {
                LockWait::NoWait
            } else if self.eat_all(&[K::Skip, K::Locked]) {
                LockWait::SkipLocked
            } else {
                LockWait::Wait
            };
            locking.push(Locking {
                strength,
                tables,
                wait,
            });
        }
        Ok(locking)
    }

    fn select(&mut self) -> Parsed<Select> {
        self.bump();
        let distinct = if self.eat(K::Distinct) {
            if self.eat(K::On) {
                Distinctness::On(self.bracketed_list(Self::expr)?)
            } else {
                Distinctness::Distinct
            }
        } else {
            self.eat(K::All);
            Distinctness::All
        };
        let none = distinct == Distinctness::All
            && self.kind() != TokenKind::Comma
            && self.is_end_of_target(0);
        let targets = if none { Vec::new() } else { self.targets()? };
        let into = if self.eat(K::Into) {
            Some(self.table_of_into()?)
        } else {
            None
        };
        let from = if self.eat(K::From) {
            self.table_refs()?
        } else {
            Vec::new()
        };
        let filter = self.optional_where()?;
        let (mut group, mut group_distinct) = (Vec::new(), false);
        if self.eat(K::Group) {
            self.expect(K::By)?;
            group_distinct = self.eat(K::Distinct);
            if !group_distinct {
                self.eat(K::All);
            }
            group = self.list(Self::group_item)?;
        }
        let having = if self.eat(K::Having) {
            Some(self.expr()?)
        } else {
            None
        };
        let windows = if self.eat(K::Window) {
            self.list(|parser| {
                let name = parser.column_name()?;
                parser.expect(K::As)?;
                Ok((name, parser.window()?))
            })?
        } else {
            Vec::new()
        };
        Ok(Select {
            distinct,
            targets,
            into,
            from,
            filter,
            group,
            group_distinct,
            having,
            windows,
        })
    }

    /// `target_list`
    pub(super) fn targets(&mut self) -> Parsed<Vec<Target>> {
        self.list(|parser| {
            let at = parser.pos();
            if parser.eat_kind(TokenKind::Star) {
                return Ok(Target::Star(at));
            }
            let expr = parser.expr()?;
            let label = if parser.eat(K::As) {
                Some(parser.label()?)
            } else {
                parser.bare_label()?
            };
            Ok(Target::Expr(expr, label))
        })
    }

    fn table_of_into(&mut self) -> Parsed<IntoTable> {
        let is_temporary = |parser: &Self, ahead| {
            (parser.is_at(ahead, K::Temp) || parser.is_at(ahead, K::Temporary))
                && (parser.is_column_name(ahead + 1) || parser.is_at(ahead + 1, K::Table))
        };
        let mut persistence = Persistence::Permanent;
        if self.any(&[K::Local, K::Global]) && is_temporary(self, 1) {
            self.bump();
        }
        if is_temporary(self, 0) {
            self.bump();
            persistence = Persistence::Temporary;
        } else if self.is(K::Unlogged) && (self.is_column_name(1) || self.is_at(1, K::Table)) {
            self.bump();
            persistence = Persistence::Unlogged;
        }
        self.eat(K::Table);
        Ok(IntoTable {
            persistence,
            name: self.qualified_name()?,
        })
    }

    pub(super) fn optional_where(&mut self) -> Parsed<Option<Expr>> {
        if self.eat(K::Where) {
            self.expr().map(Some)
        } else {
            Ok(None)
        }
    }

    fn group_item(&mut self) -> Parsed<GroupItem> {
        let opens = self.is_kind_at(1, TokenKind::Open);
        match self.keyword() {
            K::Rollup if opens => {
                self.bump();
                Ok(GroupItem::Rollup(self.bracketed_list(Self::expr)?))
            }
            K::Cube if opens => {
                self.bump();
                Ok(GroupItem::Cube(self.bracketed_list(Self::expr)?))
            }
            K::Grouping if self.is_at(1, K::Sets) => {
                self.bump();
                self.bump();
                let items = self.nested(|parser| parser.bracketed_list(Self::group_item))?;
                Ok(GroupItem::Sets(items))
            }
            _ if self.kind() == TokenKind::Open && self.is_kind_at(1, TokenKind::Close) => {
                self.bump();
                self.bump();
                Ok(GroupItem::Empty)
            }
            _ => self.expr().map(GroupItem::Expr),
        }
    }

    /// ORDER BY, or nothing.
    pub(super) fn optional_order(&mut self) -> Parsed<Vec<SortItem>> {
        if !self.eat(K::Order) {
            return Ok(Vec::new());
        }
        self.expect(K::By)?;
        self.list(Self::sort_item)
    }

    pub(super) fn sort_item(&mut self) -> Parsed<SortItem> {
        let expr = self.expr()?;
        let direction = if self.eat(K::Using) {
            Direction::Using(self.qualified_operator()?)
        } else if self.eat(K::Asc) {
            Direction::Ascending
        } else if self.eat(K::Desc) {
            Direction::Descending
        } else {
            Direction::Default
        };
        Ok(SortItem {
            expr,
            direction,
            nulls: self.nulls_order(),
        })
    }

    pub(super) fn nulls_order(&mut self) -> NullsOrder {
        if self.eat_all(&[K::Nulls, K::First]) {
            NullsOrder::First
        } else if self.eat_all(&[K::Nulls, K::Last]) {
            NullsOrder::Last
        } else {
            NullsOrder::Default
        }
    }

    pub(super) fn optional_with(&mut self) -> Parsed<Option<With>> {
        let at = self.pos();
        if !self.eat(K::With) {
            return Ok(None);
        }
        let recursive = self.is(K::Recursive) && self.is_column_name(1);
        if recursive {
            self.bump();
        }
        let tables = self.list(Self::common_table)?;
        Ok(Some(With {
            at,
            recursive,
            tables,
        }))
    }

    fn common_table(&mut self) -> Parsed<CommonTable> {
        let name = self.column_name()?;
        let columns = self.optional_column_names()?;
        self.expect(K::As)?;
        let materialized = if self.eat(K::Materialized) {
            Some(true)
        } else if self.eat(K::Not) {
            self.expect(K::Materialized)?;
            Some(false)
        } else {
            None
        };
        let statement = self.nested(|parser| parser.in_brackets(Self::preparable))?;
        let statement = Arc::new(statement);
        let search = if self.eat(K::Search) {
            Some(self.search_clause()?)
        } else {
            None
        };
        let cycle = if self.eat(K::Cycle) {
            Some(self.cycle_clause()?)
        } else {
            None
        };
        Ok(CommonTable {
            name,
            columns,
            materialized,
            statement,
            search,
            cycle,
        })
    }

    fn search_clause(&mut self) -> Parsed<SearchClause> {
        let breadth_first = self.eat(K::Breadth);
        if !breadth_first {
            self.expect(K::Depth)?;
        }
        self.expect_all(&[K::First, K::By])?;
        let columns = self.list(Self::column_name)?;
        self.expect(K::Set)?;
        Ok(SearchClause {
            breadth_first,
            columns,
            sequence: self.column_name()?,
        })
    }

    fn cycle_clause(&mut self) -> Parsed<CycleClause> {
        let columns = self.list(Self::column_name)?;
        self.expect(K::Set)?;
        let mark = self.column_name()?;
        let values = if self.eat(K::To) {
            let value = self.constant()?;
            self.expect(K::Default)?;
            Some((value, self.constant()?))
        } else {
            None
        };
        self.expect(K::Using)?;
        Ok(CycleClause {
            columns,
            mark,
            values,
            path: self.column_name()?,
        })
    }

    /// `PreparableStmt`: a query or a change, with or without WITH.
    pub(super) fn preparable(&mut self) -> Parsed<StatementKind> {
        let with = self.optional_with()?;
        match self.keyword() {
            K::Insert => self.insert(with),
            K::Update => self.update(with),
            K::Delete => self.delete(with),
            K::Merge => self.merge(with),
            _ => Ok(StatementKind::Query(Box::new(self.query_with(with)?))),
        }
    }
}

/// Adds a set operation to a query, as a step of the one that it is, if it is one without
/// anything around it.
fn with_step(mut left: Query, step: SetStep) -> Query {
    let bare = left.with.is_none()
        && left.order.is_empty()
        && left.limit.is_none()
        && left.offset.is_none()
        && left.locking.is_empty();
    if bare && let Body::Set(_, steps) = &mut left.body {
        steps.push(step);
        return left;
    }
    Query {
        at: left.at,
        with: None,
        body: Body::Set(Box::new(left), vec![step]),
        order: Vec::new(),
        limit: None,
        offset: None,
        locking: Vec::new(),
    }
}
