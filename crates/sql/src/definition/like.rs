//! CREATE TABLE (LIKE …): columns, and what else is asked for, from another relation.

use std::sync::Arc;

use coeval_sql_syntax::tree::{LikeOption, Path};

use super::Change;
use super::constraint::{KeyConstraint, key_columns};
use super::table::add_index;
use super::view::wrong_kind_of;
use crate::access::{ObjectKind, Privileges, denied};
use crate::catalog::{Check, Generation, Index, RELATIONS, Relation, Table, TableColumn};
use crate::error::{Error, Result, SqlState};
use crate::sequence::Settled;

/// What one LIKE brings to a new table.
pub(super) struct Likeness {
    /// Columns, in their order.
    pub(super) columns: Vec<TableColumn>,
    /// How the sequences of identity columns count, by the columns' positions.
    pub(super) identities: Vec<(usize, Settled)>,
    checks: Vec<Check>,
    indexes: Vec<Arc<Index>>,
    /// Relation whose comments are copied.
    commented: Option<u32>,
    /// Attribute numbers of the columns in the source.
    attributes: Vec<i16>,
}

/// What a LIKE asks for besides columns.
#[derive(Clone, Copy, Default)]
struct Including {
    comments: bool,
    constraints: bool,
    defaults: bool,
    generated: bool,
    identity: bool,
    indexes: bool,
}

impl Including {
    /// What the options ask for, the later ones over the earlier ones. Of what a table here
    /// does not have, statistics and storage, they ask in vain.
    fn of(options: &[(LikeOption, bool)]) -> Self {
        let mut all = Self::default();
        for (option, wanted) in options {
            match option {
                LikeOption::Comments => all.comments = *wanted,
                LikeOption::Constraints => all.constraints = *wanted,
                LikeOption::Defaults => all.defaults = *wanted,
                LikeOption::Generated => all.generated = *wanted,
                LikeOption::Identity => all.identity = *wanted,
                LikeOption::Indexes => all.indexes = *wanted,
                LikeOption::All => {
                    all = Self {
                        comments: *wanted,
                        constraints: *wanted,
                        defaults: *wanted,
                        generated: *wanted,
                        identity: *wanted,
                        indexes: *wanted,
                    };
                }
                LikeOption::Compression | LikeOption::Statistics | LikeOption::Storage => {}
            }
        }
        all
    }
}

impl Change<'_> {
    /// What a LIKE clause brings.
    pub(super) fn likeness(&self, path: &Path, options: &[(LikeOption, bool)]) -> Result<Likeness> {
        let including = Including::of(options);
        let name = self.name(path)?;
        let found = self.catalog.named(&name).ok_or_else(|| {
            let message = format!("relation \"{}\" does not exist", name.name);
            Error::new(SqlState::UNDEFINED_TABLE, message).at(self.statement.position(name.at))
        })?;
        match &found {
            Relation::Table(table) => {
                self.require(table, Privileges::SELECT)?;
                let mut columns = table.columns.clone();
                for column in columns.iter_mut().filter(|_| !including.defaults) {
                    column.default = None;
                }
                let identities = self.made_alike(table, &mut columns, including)?;
                Ok(Likeness {
                    attributes: columns.iter().map(|column| column.attribute).collect(),
                    columns,
                    identities,
                    checks: match including.constraints {
                        true => table.checks.clone(),
                        false => Vec::new(),
                    },
                    indexes: match including.indexes {
                        true => table.indexes.clone(),
                        false => Vec::new(),
                    },
                    commented: including.comments.then_some(table.oid),
                })
            }
            Relation::Object(object) => {
                let Some(view) = object.view() else {
                    return Err(wrong_kind_of(&object.name, "table"));
                };
                let access = self.catalog.access();
                let role = self.session.role;
                let may = access.privileges(role, &object.owned, ObjectKind::Table);
                if !may.include(Privileges::SELECT) {
                    return Err(denied("view", &object.name));
                }
                let columns = view.columns.iter().enumerate();
                let columns: Vec<_> = columns
                    .map(|(position, column)| {
                        let mut column = column.as_table_column(position);
                        column.default = column.default.filter(|_| including.defaults);
                        column
                    })
                    .collect();
                Ok(Likeness {
                    attributes: columns.iter().map(|column| column.attribute).collect(),
                    columns,
                    identities: Vec::new(),
                    checks: Vec::new(),
                    indexes: Vec::new(),
                    commented: including.comments.then_some(object.oid),
                })
            }
            Relation::Index(_, index) => Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("relation \"{}\" is invalid in LIKE clause", index.name),
            )
            .with_detail("This operation is not supported for indexes.")),
        }
    }

    /// Leaves what the database makes values by to those of the columns for which that is asked.
    /// Returns how the sequences of identity columns count.
    fn made_alike(
        &self,
        table: &Table,
        columns: &mut [TableColumn],
        including: Including,
    ) -> Result<Vec<(usize, Settled)>> {
        let mut identities = Vec::new();
        for (position, column) in columns.iter_mut().enumerate() {
            let stays = match &column.generation {
                None => true,
                Some(Generation::Stored(_)) => including.generated,
                Some(Generation::Identity { .. }) => including.identity,
            };
            if !stays {
                column.generation = None;
            }
            if !column
                .generation
                .as_ref()
                .is_some_and(Generation::is_identity)
            {
                continue;
            }
            let found = self.catalog.sequence_of_column(table.oid, column.attribute);
            let (_, sequence) =
                found.ok_or_else(|| Error::internal("an identity column without its sequence"))?;
            let settled = Settled {
                progress: sequence.counting.begin(),
                ..sequence.settled()
            };
            identities.push((position, settled));
        }
        Ok(identities)
    }

    /// Adds the constraints and indexes of a LIKE to the new table, under names of its own.
    /// Returns the indexes, each with the one that it is like.
    pub(super) fn add_likeness(
        &mut self,
        table: &mut Table,
        like: &Likeness,
    ) -> Result<Vec<(Arc<Index>, u32)>> {
        for check in &like.checks {
            if table.checks.iter().any(|known| known.name == check.name) {
                return Err(Error::new(
                    SqlState::DUPLICATE_OBJECT,
                    format!(
                        "constraint \"{}\" for relation \"{}\" already exists",
                        check.name, table.name
                    ),
                ));
            }
            let oid = self.context.store.counters.oid();
            let check = Check {
                oid,
                ..check.clone()
            };
            table.checks.push(check);
        }
        table.checks.sort_by(|one, other| one.name.cmp(&other.name));
        let mut made = Vec::new();
        for source in &like.indexes {
            let names: Vec<&str> = source
                .columns
                .iter()
                .map(|key| like.columns[key.column].name.as_str())
                .collect();
            let index = if source.constraint {
                let constraint = KeyConstraint {
                    name: None,
                    kind: source.kind,
                    columns: names.iter().map(|name| (*name).to_owned()).collect(),
                };
                self.key_index(table, constraint)?
            } else {
                let ordered = names.iter().zip(&source.columns);
                let ordered = ordered.map(|(name, key)| (*name, key.order));
                let key = key_columns(&table.columns, ordered, |name| {
                    format!("column \"{name}\" does not exist")
                })?;
                let columns = names.join("_");
                let name = self.catalog.free_name_beside(table, Some(&columns), "idx");
                let counters = &self.context.store.counters;
                Index::new(
                    counters.oid(),
                    counters.index(),
                    name,
                    source.kind,
                    false,
                    key,
                )
            };
            made.push((Arc::new(index.clone()), source.oid));
            add_index(table, index);
            self.keep(Some(Arc::new(table.clone())), table.oid);
        }
        Ok(made)
    }

    /// Copies the comments of a LIKE to the new table. A temporary table has none: they are rows
    /// of the catalog that all sessions share.
    pub(super) async fn copy_comments(
        &mut self,
        table: &Table,
        like: &Likeness,
        indexes: &[(Arc<Index>, u32)],
    ) -> Result<()> {
        let Some(source) = like.commented.filter(|_| !table.is_temporary()) else {
            return Ok(());
        };
        for (column, attribute) in like.columns.iter().zip(&like.attributes) {
            let own = table.column(&column.name);
            let Some(own) = own.map(|position| table.columns[position].attribute) else {
                continue;
            };
            let part = i32::from(*attribute);
            let text = self.catalog.comment(RELATIONS, source, part);
            if let Some(text) = text.map(str::to_owned) {
                self.comment_on_relation(table.oid, i32::from(own), &text)
                    .await?;
            }
        }
        for (index, source) in indexes {
            let text = self.catalog.comment(RELATIONS, *source, 0);
            if let Some(text) = text.map(str::to_owned) {
                self.comment_on_relation(index.oid, 0, &text).await?;
            }
        }
        Ok(())
    }
}
