//! Constraints and index columns in DDL: conversion from the syntax tree to catalog
//! descriptors.

use coeval_sql_syntax::tree::{
    Attributes, IndexItem, IndexKey, IndexStorage, Key, Name, TableConstraint, TableConstraintKind,
};
use coeval_types::IndexKind;

use super::index::check_storage_parameters;
use crate::catalog::{KeyColumn, TableColumn, fold};
use crate::error::{Error, Result, SqlState};
use crate::expression::{check_collation, joined};
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
    /// A PRIMARY KEY of these columns.
    pub(super) fn primary(
        name: Option<&Name>,
        columns: Vec<String>,
        index: &IndexStorage,
    ) -> Result<Self> {
        refuse_storage(index)?;
        Ok(Self {
            name: name.map(fold),
            kind: IndexKind::Primary,
            columns,
        })
    }

    /// A UNIQUE constraint of these columns.
    pub(super) fn unique(
        name: Option<&Name>,
        columns: Vec<String>,
        nulls_not_distinct: bool,
        index: &IndexStorage,
    ) -> Result<Self> {
        refuse_storage(index)?;
        if nulls_not_distinct {
            return Err(Error::unsupported("UNIQUE NULLS NOT DISTINCT"));
        }
        Ok(Self {
            name: name.map(fold),
            kind: IndexKind::Unique,
            columns,
        })
    }

    /// A table constraint; fails for kinds other than PRIMARY KEY and UNIQUE.
    pub(super) fn of_table(constraint: &TableConstraint) -> Result<Self> {
        let name = constraint.name.as_ref();
        let columns = |key: &Key| key.columns.iter().map(fold).collect();
        let made = match &constraint.kind {
            TableConstraintKind::PrimaryKey(key) if !key.include.is_empty() => {
                return Err(Error::unsupported("PRIMARY KEY … INCLUDE"));
            }
            TableConstraintKind::PrimaryKey(key) => Self::primary(name, columns(key), &key.index)?,
            TableConstraintKind::Unique { key, .. } if !key.include.is_empty() => {
                return Err(Error::unsupported("UNIQUE … INCLUDE"));
            }
            TableConstraintKind::Unique {
                nulls_not_distinct,
                key,
            } => Self::unique(name, columns(key), *nulls_not_distinct, &key.index)?,
            TableConstraintKind::ForeignKey { .. } => {
                return Err(Error::unsupported("FOREIGN KEY"));
            }
            TableConstraintKind::Check(_) => return Err(Error::unsupported("CHECK")),
            TableConstraintKind::PrimaryKeyIndex(_) | TableConstraintKind::UniqueIndex(_) => {
                return Err(Error::unsupported("a constraint USING INDEX"));
            }
            TableConstraintKind::Exclude { .. } => return Err(Error::unsupported("EXCLUDE")),
        };
        refuse_attributes(constraint.attributes)?;
        Ok(made)
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
fn refuse_attributes(attributes: Attributes) -> Result<()> {
    if attributes.deferrable || attributes.initially_deferred {
        return Err(deferrable());
    }
    if attributes.not_valid {
        return Err(Error::unsupported("NOT VALID"));
    }
    Ok(())
}

pub(super) fn deferrable() -> Error {
    Error::unsupported("a DEFERRABLE constraint")
}

fn refuse_storage(index: &IndexStorage) -> Result<()> {
    check_storage_parameters(&index.options)?;
    match index.tablespace {
        Some(_) => Err(Error::unsupported("TABLESPACE")),
        None => Ok(()),
    }
}

/// Names and sort orders of the columns of CREATE INDEX.
pub(super) fn index_columns(items: &[IndexItem]) -> Result<Vec<(String, KeyOrder)>> {
    items
        .iter()
        .map(|item| {
            if let Some(class) = &item.class {
                return Err(Error::unsupported(format!(
                    "operator class \"{}\"",
                    joined(class)
                )));
            }
            if let Some(collation) = &item.collation {
                check_collation(collation)?;
            }
            let IndexKey::Column(name) = &item.key else {
                return Err(Error::unsupported("an index on an expression"));
            };
            let descending = item.descending.unwrap_or(false);
            let order = KeyOrder {
                descending,
                nulls_first: item.nulls.is_first(descending),
            };
            Ok((fold(name), order))
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
            let data_type = columns[position].column_type.data_type;
            if !data_type.is_comparable() {
                return Err(Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!(
                        "data type {data_type} has no default operator class for access method \"btree\""
                    ),
                )
                .with_hint("You must specify an operator class for the index or define a default operator class for the data type."));
            }
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
