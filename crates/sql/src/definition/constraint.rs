//! Constraints and index columns in DDL: conversion from the syntax tree to catalog
//! descriptors.

use coeval_types::IndexKind;
use sqlparser::ast;

use crate::catalog::{KeyColumn, TableColumn, fold};
use crate::error::{Error, Result, SqlState};
use crate::value::KeyOrder;

/// Maximum number of columns of an index, as in PostgreSQL.
const MAX_KEY_COLUMNS: usize = 32;

/// A PRIMARY KEY or UNIQUE constraint to create.
#[derive(Clone, Debug)]
pub(super) struct KeyConstraint {
    /// Name of the constraint, if the statement gives one.
    pub(super) name: Option<String>,
    /// Kind of the index: primary or unique.
    pub(super) kind: IndexKind,
    /// Names of the constrained columns.
    pub(super) columns: Vec<String>,
}

impl KeyConstraint {
    /// A PRIMARY KEY in the syntax of a table constraint.
    pub(super) fn primary(
        outer: Option<&ast::Ident>,
        constraint: &ast::PrimaryKeyConstraint,
    ) -> Result<Self> {
        refuse_characteristics(constraint.characteristics.as_ref())?;
        if !constraint.include.is_empty() {
            return Err(Error::unsupported("PRIMARY KEY … INCLUDE"));
        }
        Ok(Self {
            name: outer.or(constraint.name.as_ref()).map(fold),
            kind: IndexKind::Primary,
            columns: plain_columns(&constraint.columns)?,
        })
    }

    /// A UNIQUE constraint in the syntax of a table constraint.
    pub(super) fn unique(
        outer: Option<&ast::Ident>,
        constraint: &ast::UniqueConstraint,
    ) -> Result<Self> {
        refuse_characteristics(constraint.characteristics.as_ref())?;
        if !constraint.include.is_empty() {
            return Err(Error::unsupported("UNIQUE … INCLUDE"));
        }
        if constraint.nulls_distinct == ast::NullsDistinctOption::NotDistinct {
            return Err(Error::unsupported("UNIQUE NULLS NOT DISTINCT"));
        }
        Ok(Self {
            name: outer.or(constraint.name.as_ref()).map(fold),
            kind: IndexKind::Unique,
            columns: plain_columns(&constraint.columns)?,
        })
    }

    /// A table constraint; fails for kinds other than PRIMARY KEY and UNIQUE.
    pub(super) fn of_table(constraint: &ast::TableConstraint) -> Result<Self> {
        match constraint {
            ast::TableConstraint::PrimaryKey(primary) => Self::primary(None, primary),
            ast::TableConstraint::Unique(unique) => Self::unique(None, unique),
            ast::TableConstraint::ForeignKey(_) => Err(Error::unsupported("FOREIGN KEY")),
            ast::TableConstraint::Check(_) => Err(Error::unsupported("CHECK")),
            ast::TableConstraint::PrimaryKeyUsingIndex(_)
            | ast::TableConstraint::UniqueUsingIndex(_) => {
                Err(Error::unsupported("a constraint USING INDEX"))
            }
            _ => Err(Error::unsupported("this kind of constraint")),
        }
    }

    /// The key columns of the constraint's index.
    pub(super) fn key(&self, columns: &[TableColumn]) -> Result<Vec<KeyColumn>> {
        let named = self
            .columns
            .iter()
            .map(|name| (name.as_str(), KeyOrder::ASCENDING));
        let word = match self.kind {
            IndexKind::Primary => "primary key",
            _ => "unique",
        };
        for (position, name) in self.columns.iter().enumerate() {
            if self.columns[..position].contains(name) {
                return Err(Error::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{name}\" appears twice in {word} constraint"),
                ));
            }
        }
        key_columns(columns, named, |name| {
            format!("column \"{name}\" named in key does not exist")
        })
    }
}

/// Fails for DEFERRABLE and similar: constraints are checked within the statement,
/// PostgreSQL's default.
fn refuse_characteristics(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<()> {
    match characteristics {
        Some(given)
            if given.deferrable == Some(true)
                || given.initially == Some(ast::DeferrableInitial::Deferred) =>
        {
            Err(Error::unsupported("a DEFERRABLE constraint"))
        }
        _ => Ok(()),
    }
}

fn column_name(expression: &ast::Expr) -> Result<String> {
    match expression {
        ast::Expr::Identifier(ident) => Ok(fold(ident)),
        _ => Err(Error::unsupported("an index on an expression")),
    }
}

fn plain_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>> {
    columns
        .iter()
        .map(|column| column_name(&column.column.expr))
        .collect()
}

/// Names and sort orders of the columns of CREATE INDEX.
pub(super) fn index_columns(columns: &[ast::IndexColumn]) -> Result<Vec<(String, KeyOrder)>> {
    columns
        .iter()
        .map(|column| {
            if let Some(class) = &column.operator_class {
                return Err(Error::unsupported(format!("operator class \"{class}\"")));
            }
            let name = column_name(&column.column.expr)?;
            let options = &column.column.options;
            let descending = match &options.sort {
                None | Some(ast::OrderBySort::Asc) => false,
                Some(ast::OrderBySort::Desc) => true,
                Some(ast::OrderBySort::Using(_)) => {
                    return Err(Error::unsupported("an index column with USING"));
                }
            };
            let order = KeyOrder {
                descending,
                nulls_first: options.nulls_first.unwrap_or(descending),
            };
            Ok((name, order))
        })
        .collect()
}

/// Key columns for an index, looked up by name.
pub(super) fn key_columns<'name>(
    columns: &[TableColumn],
    named: impl IntoIterator<Item = (&'name str, KeyOrder)>,
    missing: impl Fn(&str) -> String,
) -> Result<Vec<KeyColumn>> {
    let key: Vec<KeyColumn> = named
        .into_iter()
        .map(|(name, order)| {
            let position = columns
                .iter()
                .position(|column| column.name == name)
                .ok_or_else(|| Error::new(SqlState::UNDEFINED_COLUMN, missing(name)))?;
            Ok(KeyColumn {
                column: position,
                attribute: columns[position].attribute,
                column_type: columns[position].column_type,
                order,
            })
        })
        .collect::<Result<_>>()?;
    if key.len() > MAX_KEY_COLUMNS {
        return Err(Error::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("cannot use more than {MAX_KEY_COLUMNS} columns in an index"),
        ));
    }
    Ok(key)
}
