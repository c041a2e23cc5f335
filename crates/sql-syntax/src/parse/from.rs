//! FROM: tables, queries and functions, and their joins.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Alias, Body, ColumnType, Expr, ExprKind, FunctionTable, Join, JoinCondition, JoinKind, Name,
    Path, Query, Relation, Sample, TableFactor, TableRef,
};

/// What stands in brackets in FROM.
enum Bracketed {
    Query(Query),
    Joined(TableRef),
}

impl Parser<'_> {
    /// `from_list`
    pub(super) fn table_refs(&mut self) -> Parsed<Vec<TableRef>> {
        self.list(Self::table_ref)
    }

    /// `table_ref`
    pub(super) fn table_ref(&mut self) -> Parsed<TableRef> {
        let first = self.table_factor()?;
        self.joined(first)
    }

    fn joined(&mut self, first: TableFactor) -> Parsed<TableRef> {
        let mut table = TableRef {
            first,
            joins: Vec::new(),
        };
        while let Some(join) = self.join()? {
            table.joins.push(join);
        }
        Ok(table)
    }

    /// One join, if one follows. What is joined reaches to the condition: in
    /// `a JOIN b JOIN c ON … ON …` it is `b JOIN c ON …`.
    fn join(&mut self) -> Parsed<Option<Join>> {
        let at = self.pos();
        let natural = self.eat(K::Natural);
        if !natural && self.eat(K::Cross) {
            self.expect(K::Join)?;
            return Ok(Some(Join {
                at,
                kind: JoinKind::Cross,
                right: self.single_table()?,
                condition: JoinCondition::None,
            }));
        }
        let kind = match self.keyword() {
            K::Left => JoinKind::Left,
            K::Right => JoinKind::Right,
            K::Full => JoinKind::Full,
            K::Inner | K::Join => JoinKind::Inner,
            _ if natural => return Err(self.error()),
            _ => return Ok(None),
        };
        if !self.is(K::Join) {
            self.bump();
            if kind != JoinKind::Inner {
                self.eat(K::Outer);
            }
        }
        self.expect(K::Join)?;
        let mut right = self.single_table()?;
        let condition = if natural {
            JoinCondition::Natural
        } else {
            while !self.any(&[K::On, K::Using]) {
                let inner = self.nested(Self::join)?;
                right.joins.push(inner.ok_or_else(|| self.error())?);
            }
            self.join_condition()?
        };
        Ok(Some(Join {
            at,
            kind,
            right,
            condition,
        }))
    }

    fn single_table(&mut self) -> Parsed<TableRef> {
        Ok(TableRef {
            first: self.table_factor()?,
            joins: Vec::new(),
        })
    }

    fn join_condition(&mut self) -> Parsed<JoinCondition> {
        if self.eat(K::On) {
            return Ok(JoinCondition::On(self.expr()?));
        }
        self.expect(K::Using)?;
        let columns = self.column_names()?;
        let alias = if self.eat(K::As) {
            Some(self.column_name()?)
        } else {
            None
        };
        Ok(JoinCondition::Using(columns, alias))
    }

    fn table_factor(&mut self) -> Parsed<TableFactor> {
        let lateral = self.eat(K::Lateral);
        if self.kind() == TokenKind::Open {
            if lateral {
                let at = self.pos();
                let query = self.bracketed_query()?;
                return self.derived(true, query, at);
            }
            return self.bracketed_table();
        }
        if self.is(K::Xmltable) && self.is_kind_at(1, TokenKind::Open) {
            return self.xml_table(lateral);
        }
        if self.are(&[K::Rows, K::From]) {
            return self.rows_from(lateral);
        }
        if let Some(call) = self.table_function()? {
            return self.function_table(lateral, false, vec![(call, Vec::new())]);
        }
        if lateral {
            return Err(self.error());
        }
        self.table()
    }

    fn table(&mut self) -> Parsed<TableFactor> {
        let relation = self.relation()?;
        let alias = self.optional_alias()?;
        let sample = if self.eat(K::Tablesample) {
            Some(self.sample()?)
        } else {
            None
        };
        Ok(TableFactor::Table {
            relation,
            alias,
            sample,
        })
    }

    fn sample(&mut self) -> Parsed<Sample> {
        let method = self.function_name()?;
        let arguments = self.bracketed_list(Self::expr)?;
        let repeatable = if self.eat(K::Repeatable) {
            Some(self.in_brackets(Self::expr)?)
        } else {
            None
        };
        Ok(Sample {
            method,
            arguments,
            repeatable,
        })
    }

    fn bracketed_table(&mut self) -> Parsed<TableFactor> {
        let at = self.pos();
        match self.table_in_brackets()? {
            Bracketed::Query(query) => self.derived(false, query, at),
            Bracketed::Joined(table) => {
                Ok(TableFactor::Joined(Box::new(table), self.optional_alias()?))
            }
        }
    }

    fn derived(&mut self, lateral: bool, query: Query, at: u32) -> Parsed<TableFactor> {
        let alias = self.optional_alias()?;
        if alias.is_none() {
            let values = matches!(query.body, Body::Values(_));
            let (what, hint) = if values {
                (
                    "VALUES in FROM must have an alias",
                    "For example, FROM (VALUES ...) [AS] foo.",
                )
            } else {
                (
                    "subquery in FROM must have an alias",
                    "For example, FROM (SELECT ...) [AS] foo.",
                )
            };
            let mut error = SyntaxError::new(Fault::Syntax, what, at);
            error.hint = Some(hint);
            return Err(error);
        }
        Ok(TableFactor::Query {
            lateral,
            query: Box::new(query),
            alias,
        })
    }

    /// A bracket in FROM, which holds a query or a join. As in [`Parser::inside`], what more
    /// brackets hold is read before it is known which.
    fn table_in_brackets(&mut self) -> Parsed<Bracketed> {
        self.nested(|parser| {
            parser.expect_kind(TokenKind::Open)?;
            let at = parser.pos();
            if parser.is_query_start(0) {
                let query = parser.query()?;
                parser.expect_kind(TokenKind::Close)?;
                return Ok(Bracketed::Query(query));
            }
            let first = if parser.kind() == TokenKind::Open {
                match parser.table_in_brackets()? {
                    Bracketed::Query(query) if parser.is_query_continued() => {
                        let query = parser.query_behind(query)?;
                        parser.expect_kind(TokenKind::Close)?;
                        return Ok(Bracketed::Query(query));
                    }
                    Bracketed::Query(query) if parser.eat_kind(TokenKind::Close) => {
                        return Ok(Bracketed::Query(query));
                    }
                    Bracketed::Query(query) => parser.derived(false, query, at)?,
                    Bracketed::Joined(table) => {
                        TableFactor::Joined(Box::new(table), parser.optional_alias()?)
                    }
                }
            } else {
                parser.table_factor()?
            };
            let table = parser.joined(first)?;
            let is_join =
                !table.joins.is_empty() || matches!(table.first, TableFactor::Joined(_, None));
            if !is_join {
                return Err(parser.error());
            }
            parser.expect_kind(TokenKind::Close)?;
            Ok(Bracketed::Joined(table))
        })
    }

    /// A function's call without its clauses (`func_expr_windowless`), if one begins here.
    pub(super) fn table_function(&mut self) -> Parsed<Option<Expr>> {
        let at = self.pos();
        if let Some(kind) = self.special()? {
            return Ok(Some(Expr { at, kind }));
        }
        let Some(name) = self.name_of_call()? else {
            return Ok(None);
        };
        let call = self.application(name)?;
        Ok(Some(Expr {
            at,
            kind: ExprKind::Function(Box::new(call)),
        }))
    }

    /// The name of a function, if a bracket opens behind it.
    fn name_of_call(&mut self) -> Parsed<Option<Path>> {
        let mut ahead = 0;
        while self.is_kind_at(ahead + 1, TokenKind::Dot) {
            ahead += 2;
        }
        if !self.is_kind_at(ahead + 1, TokenKind::Open) {
            return Ok(None);
        }
        let fits = if ahead == 0 {
            self.is_type_or_function_name(0)
        } else {
            self.is_column_name(0)
        };
        if fits {
            self.function_name().map(Some)
        } else {
            Ok(None)
        }
    }

    fn rows_from(&mut self, lateral: bool) -> Parsed<TableFactor> {
        self.bump();
        self.bump();
        let functions = self.bracketed_list(|parser| {
            let call = parser.table_function()?.ok_or_else(|| parser.error())?;
            let columns = if parser.eat(K::As) {
                parser.bracketed_list(Self::column_type)?
            } else {
                Vec::new()
            };
            Ok((call, columns))
        })?;
        self.function_table(lateral, true, functions)
    }

    fn function_table(
        &mut self,
        lateral: bool,
        rows_from: bool,
        functions: Vec<(Expr, Vec<ColumnType>)>,
    ) -> Parsed<TableFactor> {
        let ordinality = self.eat_all(&[K::With, K::Ordinality]);
        let mut table = FunctionTable {
            lateral,
            rows_from,
            functions,
            ordinality,
            alias: None,
            columns: Vec::new(),
        };
        let has_as = self.eat(K::As);
        if has_as && self.kind() == TokenKind::Open {
            table.columns = self.bracketed_list(Self::column_type)?;
        } else if has_as || self.is_column_name(0) {
            let name = self.column_name()?;
            let mut alias = Alias {
                name,
                columns: Vec::new(),
            };
            if self.kind() == TokenKind::Open {
                if self.is_kind_at(2, TokenKind::Comma) || self.is_kind_at(2, TokenKind::Close) {
                    alias.columns = self.column_names()?;
                } else {
                    table.columns = self.bracketed_list(Self::column_type)?;
                }
            }
            table.alias = Some(alias);
        }
        Ok(TableFactor::Functions(table))
    }

    /// `TableFuncElement`
    pub(super) fn column_type(&mut self) -> Parsed<ColumnType> {
        Ok(ColumnType {
            name: self.column_name()?,
            kind: self.type_name()?,
            collation: self.optional_collation()?,
        })
    }

    pub(super) fn optional_collation(&mut self) -> Parsed<Option<Path>> {
        if self.eat(K::Collate) {
            self.any_name().map(Some)
        } else {
            Ok(None)
        }
    }

    /// `opt_alias_clause`
    pub(super) fn optional_alias(&mut self) -> Parsed<Option<Alias>> {
        if !self.eat(K::As) && !self.is_column_name(0) {
            return Ok(None);
        }
        Ok(Some(Alias {
            name: self.column_name()?,
            columns: self.optional_column_names()?,
        }))
    }

    /// `relation_expr_opt_alias`, where SET is no alias without AS.
    pub(super) fn relation_with_alias(&mut self) -> Parsed<(Relation, Option<Name>)> {
        let relation = self.relation()?;
        let alias = if self.eat(K::As) || self.is_column_name(0) && !self.is(K::Set) {
            Some(self.column_name()?)
        } else {
            None
        };
        Ok((relation, alias))
    }
}
