//! What depends on what is dropped.

use std::sync::Arc;

use coeval_txn::TableLock;

use super::Change;
use crate::catalog::{Table, TableColumn};
use crate::error::{Error, Result, SqlState};
use crate::output::{Notice, Severity};
use crate::sequence::named_sequences;
use crate::statement::parse_expression;

/// An object that depends on one that is dropped, and on which.
pub(super) struct Dependent {
    pub(super) object: String,
    pub(super) on: String,
}

/// Whether a column's default takes numbers of one of these sequences.
fn takes_numbers(column: &TableColumn, sequences: &[u32]) -> bool {
    let Some(default) = &column.default else {
        return false;
    };
    // Most defaults are not worth parsing.
    let may = default.contains("regclass");
    may && parse_expression(default).is_ok_and(|parsed| {
        let named = named_sequences(parsed);
        named.iter().any(|oid| sequences.contains(oid))
    })
}

impl Change<'_> {
    /// Drops the defaults that take numbers of these sequences, which `what` is dropped with;
    /// without CASCADE fails if there are any. A default of `but`, a table or one of its
    /// columns, goes with it.
    pub(super) async fn drop_defaults_of(
        &mut self,
        sequences: &[u32],
        but: Option<(u32, Option<i16>)>,
        what: &str,
        cascade: bool,
    ) -> Result<()> {
        if sequences.is_empty() {
            return Ok(());
        }
        let mut found: Vec<(Arc<Table>, usize)> = Vec::new();
        for table in self.catalog.tables() {
            for (position, column) in table.columns.iter().enumerate() {
                let goes = but.is_some_and(|(oid, attribute)| {
                    let whole = attribute.is_none_or(|attribute| attribute == column.attribute);
                    oid == table.oid && whole
                });
                if !goes && takes_numbers(column, sequences) {
                    found.push((Arc::clone(table), position));
                }
            }
        }
        let described = found.iter().map(|(table, position)| {
            let column = &table.columns[*position];
            let used = sequences.iter().find(|oid| takes_numbers(column, &[**oid]));
            let (sequence, _) = self.catalog.sequence(*used?)?;
            Some(Dependent {
                object: format!(
                    "default value for column {} of table {}",
                    column.name, table.name
                ),
                on: format!("sequence {}", sequence.name),
            })
        });
        let described = described.flatten().collect();
        self.cascade(what, described, cascade)?;
        for (table, position) in found {
            self.lock(&table, TableLock::AccessExclusive).await?;
            let newest = self.catalog.table_by_oid(table.oid).cloned();
            let newest = newest.ok_or_else(|| Error::internal("a table is gone"))?;
            let mut new = Table::clone(&newest);
            new.columns[position].default = None;
            self.replace(new).await?;
        }
        Ok(())
    }

    /// Says that objects are dropped along with `what`; without CASCADE fails if there are any.
    pub(super) fn cascade(
        &mut self,
        what: &str,
        dependents: Vec<Dependent>,
        cascade: bool,
    ) -> Result<()> {
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            let lines = dependents
                .iter()
                .map(|each| format!("{} depends on {}", each.object, each.on));
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop {what} because other objects depend on it"),
            )
            .with_detail(lines.collect::<Vec<_>>().join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let lines = dependents
            .into_iter()
            .map(|each| format!("drop cascades to {}", each.object))
            .collect::<Vec<_>>();
        let state = SqlState::SUCCESSFUL_COMPLETION;
        self.notices.push(match lines.as_slice() {
            [line] => Notice::new(Severity::Notice, state, line.clone()),
            lines => {
                let message = format!("drop cascades to {} other objects", lines.len());
                Notice::new(Severity::Notice, state, message).with_detail(lines.join("\n"))
            }
        });
        Ok(())
    }
}
