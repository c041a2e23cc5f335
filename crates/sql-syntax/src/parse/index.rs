//! CREATE INDEX, and the items that indexes, partitions and ON CONFLICT list.

use super::Parser;
use crate::error::Parsed;
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{CreateIndex, IndexItem, IndexKey, NullsOrder, StatementKind};

impl Parser<'_> {
    pub(super) fn create_index(&mut self) -> Parsed<StatementKind> {
        let unique = self.eat(K::Unique);
        self.expect(K::Index)?;
        let concurrently = self.eat(K::Concurrently);
        let if_not_exists = self.if_not_exists();
        let name = if if_not_exists || !self.is(K::On) {
            Some(self.column_name()?)
        } else {
            None
        };
        self.expect(K::On)?;
        let table = self.relation()?;
        let method = if self.eat(K::Using) {
            Some(self.column_name()?)
        } else {
            None
        };
        let items = self.bracketed_list(Self::index_item)?;
        let include = if self.eat(K::Include) {
            self.bracketed_list(Self::index_item)?
        } else {
            Vec::new()
        };
        Ok(StatementKind::CreateIndex(Box::new(CreateIndex {
            unique,
            concurrently,
            if_not_exists,
            name,
            table,
            method,
            items,
            include,
            nulls_not_distinct: self.nulls_not_distinct()?,
            options: if self.eat(K::With) {
                self.listed_options()?
            } else {
                Vec::new()
            },
            tablespace: if self.eat(K::Tablespace) {
                Some(self.column_name()?)
            } else {
                None
            },
            filter: self.optional_where()?,
        })))
    }

    /// A column, a function's call, or an expression in brackets.
    pub(super) fn index_key(&mut self) -> Parsed<IndexKey> {
        if self.kind() == TokenKind::Open {
            return Ok(IndexKey::Expr(self.in_brackets(Self::expr)?));
        }
        if let Some(call) = self.table_function()? {
            return Ok(IndexKey::Expr(call));
        }
        Ok(IndexKey::Column(self.column_name()?))
    }

    /// `index_elem`
    pub(super) fn index_item(&mut self) -> Parsed<IndexItem> {
        let key = self.index_key()?;
        let mut item = self.partition_item(key)?;
        if item.class.is_some() && self.kind() == TokenKind::Open {
            item.class_options = self.listed_options()?;
        }
        if self.eat(K::Asc) {
            item.descending = Some(false);
        } else if self.eat(K::Desc) {
            item.descending = Some(true);
        }
        item.nulls = self.nulls_order();
        Ok(item)
    }

    /// An item of a partition's key: with a collation and an operator class at most.
    pub(super) fn partition_item(&mut self, key: IndexKey) -> Parsed<IndexItem> {
        let collation = self.optional_collation()?;
        let class = if self.is_column_name(0) {
            Some(self.any_name()?)
        } else {
            None
        };
        Ok(IndexItem {
            key,
            collation,
            class,
            class_options: Vec::new(),
            descending: None,
            nulls: NullsOrder::Default,
        })
    }
}
