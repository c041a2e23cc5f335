//! What depends on what is dropped.

use std::sync::Arc;

use coeval_txn::TableLock;

use super::Change;
use crate::catalog::{Content, Object, Table};
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
fn takes_numbers(default: Option<&str>, sequences: &[u32]) -> bool {
    let Some(default) = default else {
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
    /// Drops the views that read these sequences, and the defaults that take numbers of them,
    /// which are dropped with `what`; without CASCADE fails if there are any. A default of
    /// `but`, a table or one of its columns, goes with it.
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
        for sequence in sequences {
            self.drop_dependents(&[*sequence], None, cascade).await?;
        }
        let mut found: Vec<(Arc<Table>, usize)> = Vec::new();
        for table in self.catalog.tables() {
            for (position, column) in table.columns.iter().enumerate() {
                let goes = but.is_some_and(|(oid, attribute)| {
                    let whole = attribute.is_none_or(|attribute| attribute == column.attribute);
                    oid == table.oid && whole
                });
                if !goes && takes_numbers(column.default.as_deref(), sequences) {
                    found.push((Arc::clone(table), position));
                }
            }
        }
        let of_views = self.view_defaults_of(sequences);
        let dependent = |default: Option<&str>, object: String| {
            let used = sequences
                .iter()
                .find(|oid| takes_numbers(default, &[**oid]));
            let (sequence, _) = self.catalog.sequence(*used?)?;
            let on = format!("sequence {}", sequence.name);
            Some(Dependent { object, on })
        };
        let tables = found.iter().map(|(table, position)| {
            let column = &table.columns[*position];
            let name = format!("{} of table {}", column.name, table.name);
            (column.default.as_deref(), name)
        });
        let views = of_views.iter().filter_map(|(object, position)| {
            let column = &object.view()?.columns[*position];
            let name = format!("{} of view {}", column.name, object.name);
            Some((column.default.as_deref(), name))
        });
        let described = tables.chain(views).filter_map(|(default, name)| {
            dependent(default, format!("default value for column {name}"))
        });
        let described = described.collect();
        self.cascade(what, described, cascade)?;
        for (table, position) in found {
            self.lock(&table, TableLock::AccessExclusive).await?;
            let newest = self.catalog.table_by_oid(table.oid).cloned();
            let newest = newest.ok_or_else(|| Error::internal("a table is gone"))?;
            let mut new = Table::clone(&newest);
            new.columns[position].default = None;
            self.replace(new).await?;
        }
        for (object, position) in of_views {
            let newest = self.catalog.object_by_oid(object.oid);
            let mut new = Object::clone(newest.unwrap_or(&object));
            if let Content::View(view) = &mut new.content {
                view.columns[position].default = None;
            }
            self.write_object(new).await?;
        }
        Ok(())
    }

    /// The columns of views, by position, whose defaults take numbers of these sequences.
    fn view_defaults_of(&self, sequences: &[u32]) -> Vec<(Arc<Object>, usize)> {
        let mut found = Vec::new();
        for object in self.catalog.objects() {
            let columns = object.view().map_or(&[][..], |view| &view.columns);
            for (position, column) in columns.iter().enumerate() {
                if takes_numbers(column.default.as_deref(), sequences) {
                    found.push((Arc::clone(object), position));
                }
            }
        }
        found
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
