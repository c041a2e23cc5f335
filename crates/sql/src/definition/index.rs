//! Index DDL: CREATE INDEX, DROP INDEX, ALTER INDEX … RENAME.

use std::sync::Arc;

use coeval_sql_syntax::tree::{self, ListedOption};
use coeval_txn::{IndexBuild, TableLock};
use coeval_types::{IndexKind, Rid};

use super::constraint::{index_columns, key_columns};
use super::table::add_index;
use super::view::wrong_kind;
use super::{Change, joined};
use crate::catalog::{Index, Relation, Table, fold, key_text};
use crate::error::{Error, Result, SqlState};

impl Change<'_> {
    /// Executes CREATE INDEX.
    pub(super) async fn create_index(
        &mut self,
        create: &tree::CreateIndex,
    ) -> Result<&'static str> {
        let unsupported = [
            (create.filter.is_some(), "a partial index"),
            (!create.include.is_empty(), "CREATE INDEX … INCLUDE"),
            (create.nulls_not_distinct, "NULLS NOT DISTINCT"),
            (
                create
                    .method
                    .as_ref()
                    .is_some_and(|method| method.text != "btree"),
                "an index method other than btree",
            ),
            (create.tablespace.is_some(), "TABLESPACE"),
        ];
        if let Some((_, feature)) = unsupported.iter().find(|(given, _)| *given) {
            return Err(Error::unsupported(*feature));
        }
        check_storage_parameters(&create.options)?;
        if let Some(view) = self.view_named(&create.table.name)? {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot create index on relation \"{}\"", view.name),
            )
            .with_detail("This operation is not supported for views."));
        }
        let table = self.table(&create.table.name)?;
        self.require_owner(&table)?;
        let named = index_columns(&create.items)?;
        let key = key_columns(
            &table.columns,
            named.iter().map(|(name, order)| (name.as_str(), *order)),
            |name| format!("column \"{name}\" does not exist"),
        )?;
        let name = match &create.name {
            Some(name) => {
                let name = fold(name);
                if !self.check_free_beside(&table, &name, create.if_not_exists)? {
                    return Ok("CREATE INDEX");
                }
                name
            }
            None => {
                let columns = joined(named.iter().map(|(name, _)| name.as_str()), "_");
                self.catalog.free_name_beside(&table, Some(&columns), "idx")
            }
        };
        let kind = if create.unique {
            IndexKind::Unique
        } else {
            IndexKind::Secondary
        };
        self.lock(&table, TableLock::Share).await?;
        let counters = &self.context.store.counters;
        let index = Index::new(counters.oid(), counters.index(), name, kind, false, key);
        self.build(&table, &index).await?;
        let mut table = Table::clone(&table);
        add_index(&mut table, index);
        self.replace(table).await?;
        Ok("CREATE INDEX")
    }

    /// Builds an index over a table's rows in the engine. The caller holds a lock on the
    /// table that keeps writers out.
    pub(super) async fn build(&mut self, table: &Table, index: &Index) -> Result<()> {
        let built = coeval_txn::build_index(
            &mut *self.context.transaction,
            table.storage,
            &index.definition(),
        )
        .await?;
        match built {
            IndexBuild::Built => Ok(()),
            IndexBuild::Duplicate(first, _) => Err(self.duplicated(table, index, first)?),
        }
    }

    fn duplicated(&mut self, table: &Table, index: &Index, rid: Rid) -> Result<Error> {
        let mut key = None;
        self.transaction()
            .get_record(table.storage, rid, &mut |_, row| {
                key = key_text(table, index, row).ok();
            })?;
        let error = Error::new(
            SqlState::UNIQUE_VIOLATION,
            format!("could not create unique index \"{}\"", index.name),
        )
        .with_table(table.schema(), &table.name)
        .with_constraint(&index.name);
        Ok(match key {
            Some(key) => error.with_detail(format!("Key {key} is duplicated.")),
            None => error,
        })
    }

    /// Executes DROP INDEX.
    pub(super) async fn drop_indexes(
        &mut self,
        names: &[tree::Path],
        if_exists: bool,
    ) -> Result<&'static str> {
        for name in names {
            let qualified = self.name(name)?;
            let found = self.catalog.named(&qualified);
            if let Some(other @ (Relation::Table(_) | Relation::Object(_))) = found {
                return Err(wrong_kind(&qualified.name, "index", &other));
            }
            let Some((table, index)) = self.index(name)? else {
                let missing = format!("index \"{}\" does not exist", self.name(name)?.name);
                if !if_exists {
                    return Err(Error::new(SqlState::UNDEFINED_OBJECT, missing));
                }
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("{missing}, skipping"),
                );
                continue;
            };
            if index.constraint {
                return Err(Error::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop index {} because constraint {} on table {} requires it",
                        index.name, index.name, table.name
                    ),
                )
                .with_hint(format!(
                    "You can drop constraint {} on table {} instead.",
                    index.name, table.name
                )));
            }
            self.require_owner(&table)?;
            self.lock(&table, TableLock::AccessExclusive).await?;
            self.remove_index(&table, &index).await?;
        }
        Ok("DROP INDEX")
    }

    /// Drops an index other than the primary key's from a table whose exclusive lock
    /// the caller holds.
    pub(super) async fn remove_index(
        &mut self,
        table: &Table,
        index: &Index,
    ) -> Result<Arc<Table>> {
        self.transaction().drop_index(table.storage, index.id)?;
        let mut table = table.clone();
        table.indexes.retain(|each| each.id != index.id);
        self.replace(table).await
    }

    /// Executes ALTER INDEX … RENAME TO.
    pub(super) async fn rename_index(
        &mut self,
        name: &tree::Path,
        if_exists: bool,
        new_name: &tree::Name,
    ) -> Result<&'static str> {
        let Some((table, index)) = self.index(name)? else {
            let missing = format!("relation \"{}\" does not exist", self.name(name)?.name);
            if !if_exists {
                return Err(Error::new(SqlState::UNDEFINED_TABLE, missing));
            }
            self.notice(
                SqlState::SUCCESSFUL_COMPLETION,
                format!("{missing}, skipping"),
            );
            return Ok("ALTER INDEX");
        };
        self.require_owner(&table)?;
        self.lock(&table, TableLock::ShareRowExclusive).await?;
        self.rename_index_of(&table, &index, fold(new_name)).await?;
        Ok("ALTER INDEX")
    }

    /// Renames an index and the constraint that it enforces.
    pub(super) async fn rename_index_of(
        &mut self,
        table: &Table,
        index: &Index,
        name: String,
    ) -> Result<Arc<Table>> {
        self.check_free_beside(table, &name, false)?;
        let mut table = table.clone();
        for each in &mut table.indexes {
            if each.id == index.id {
                let mut renamed = Index::clone(each);
                renamed.name.clone_from(&name);
                *each = Arc::new(renamed);
            }
        }
        self.replace(table).await
    }
}

/// Checks the storage parameters of an index. They are about pages on a disk, and have no effect.
pub(super) fn check_storage_parameters(options: &[ListedOption]) -> Result<()> {
    const KNOWN: [&str; 2] = ["fillfactor", "deduplicate_items"];
    let mut named = options.iter().map(|option| fold(&option.name));
    match named.find(|name| !KNOWN.contains(&name.as_str())) {
        Some(name) => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized parameter \"{name}\""),
        )),
        None => Ok(()),
    }
}
