//! ALTER TABLE: changes of columns, constraints, names and owners of a table.

use std::sync::Arc;

use coeval_sql_syntax::tree::{
    AlterTable, ColumnAction, ColumnDefinition, ObjectAction, Path, TableAction,
};
use coeval_txn::TableLock;
use coeval_types::IndexKind;

use super::Change;
use super::constraint::KeyConstraint;
use super::rewrite::NewCell;
use super::table::{MAX_COLUMNS, add_index, storage_parameter};
use crate::access::Privileges;
use crate::catalog::{Index, Table, fold};
use crate::change::default_cell;
use crate::error::{Error, Result, SqlState};
use crate::statement::role_name;

impl Change<'_> {
    /// Executes ALTER TABLE.
    pub(super) async fn alter_table(&mut self, alter: &AlterTable) -> Result<&'static str> {
        let Some(mut table) = self.altered(&alter.table.name, alter.if_exists)? else {
            return Ok("ALTER TABLE");
        };
        for action in &alter.actions {
            self.refuse_unsupported(action)?;
        }
        self.lock(&table, TableLock::AccessExclusive).await?;
        for action in &alter.actions {
            table = self.alter(table, action).await?;
        }
        Ok("ALTER TABLE")
    }

    /// Executes ALTER TABLE … RENAME.
    pub(super) async fn rename_table(
        &mut self,
        name: &Path,
        if_exists: bool,
        action: &ObjectAction,
    ) -> Result<&'static str> {
        let Some(table) = self.altered(name, if_exists)? else {
            return Ok("ALTER TABLE");
        };
        self.lock(&table, TableLock::AccessExclusive).await?;
        match action {
            ObjectAction::Rename(name) => {
                let name = fold(name);
                if !table.is_temporary() {
                    self.require_schema(Privileges::CREATE)?;
                }
                self.check_free_beside(&table, &name, false)?;
                let mut table = Table::clone(&table);
                table.name = name;
                self.replace(table).await?;
            }
            ObjectAction::RenameColumn(old, new) => {
                let (old, new) = (fold(old), fold(new));
                let position = column(&table, &old)?;
                if table.column(&new).is_some() {
                    return Err(duplicate_column(&table, &new));
                }
                let mut table = Table::clone(&table);
                table.columns[position].name = new;
                self.replace(table).await?;
            }
            ObjectAction::RenameConstraint(old, new) => {
                let index = constraint(&table, &fold(old))?;
                self.rename_index_of(&table, &index, fold(new)).await?;
            }
            _ => return Err(Error::internal("not a new name of a part of a table")),
        }
        Ok("ALTER TABLE")
    }

    /// The table to be altered, of which the role is the owner. With IF EXISTS, a notice and
    /// none for a table that does not exist.
    fn altered(&mut self, path: &Path, if_exists: bool) -> Result<Option<Arc<Table>>> {
        let name = self.name(path)?;
        if if_exists && self.catalog.named(&name).is_none() {
            self.notice(
                SqlState::SUCCESSFUL_COMPLETION,
                format!("relation \"{}\" does not exist, skipping", name.name),
            );
            return Ok(None);
        }
        let table = self.table(path)?;
        self.require_owner(&table)?;
        Ok(Some(table))
    }

    async fn alter(&mut self, table: Arc<Table>, action: &TableAction) -> Result<Arc<Table>> {
        match action {
            TableAction::AddConstraint(constraint) => {
                let constraint = KeyConstraint::of_table(constraint)?;
                self.add_constraint(&table, constraint).await
            }
            TableAction::AddColumn {
                if_not_exists,
                column,
            } => self.add_column(table, column, *if_not_exists).await,
            TableAction::DropColumn {
                name, if_exists, ..
            } => self.drop_column(table, &fold(name), *if_exists).await,
            TableAction::Owner(owner) => self.table_owner(&table, &role_name(owner)).await,
            TableAction::DropConstraint {
                if_exists, name, ..
            } => {
                let name = fold(name);
                match constraint(&table, &name) {
                    Ok(index) => self.drop_constraint(&table, &index).await,
                    Err(_) if *if_exists => {
                        self.notice(
                            SqlState::SUCCESSFUL_COMPLETION,
                            format!(
                                "constraint \"{name}\" of relation \"{}\" does not exist, skipping",
                                table.name
                            ),
                        );
                        Ok(table)
                    }
                    Err(error) => Err(error),
                }
            }
            TableAction::AlterColumn(name, action) => {
                self.alter_column(&table, &fold(name), action).await
            }
            TableAction::SetLogged(logged) => self.set_logged(&table, *logged).await,
            TableAction::SetOptions(options) => {
                let mut table = Table::clone(&table);
                for option in options {
                    let (name, value) = storage_parameter(option)?;
                    table.options.retain(|(known, _)| *known != name);
                    table.options.push((name, value));
                }
                self.replace(table).await
            }
            other => Err(unsupported(other)),
        }
    }

    /// Fails for a form of ALTER TABLE that does not exist here. Called before the table is
    /// locked: a statement that can only fail waits for no lock, and delays no other.
    fn refuse_unsupported(&self, action: &TableAction) -> Result<()> {
        match action {
            TableAction::AddConstraint(constraint) => KeyConstraint::of_table(constraint).map(drop),
            TableAction::AddColumn { column, .. } => {
                self.column(column, 1, &mut Vec::new()).map(drop)
            }
            TableAction::AlterColumn(
                _,
                ColumnAction::SetDefault(_)
                | ColumnAction::DropDefault
                | ColumnAction::SetNotNull(_),
            )
            | TableAction::DropColumn { .. }
            | TableAction::Owner(_)
            | TableAction::DropConstraint { .. }
            | TableAction::SetLogged(_)
            | TableAction::SetOptions(_) => Ok(()),
            other => Err(unsupported(other)),
        }
    }

    async fn add_constraint(
        &mut self,
        table: &Table,
        constraint: KeyConstraint,
    ) -> Result<Arc<Table>> {
        let mut new = table.clone();
        let index = self.key_index(&mut new, constraint)?;
        let refused: Vec<_> = table
            .columns
            .iter()
            .zip(&new.columns)
            .filter(|(old, new)| new.not_null && !old.not_null)
            .map(|(old, _)| old.clone())
            .collect();
        if !refused.is_empty() {
            self.refuse_nulls(table, &refused).await?;
        }
        self.build(table, &index).await?;
        add_index(&mut new, index);
        self.replace(new).await
    }

    async fn add_column(
        &mut self,
        table: Arc<Table>,
        definition: &ColumnDefinition,
        if_not_exists: bool,
    ) -> Result<Arc<Table>> {
        let name = fold(&definition.name);
        if table.column(&name).is_some() {
            let error = duplicate_column(&table, &name);
            if !if_not_exists {
                return Err(error);
            }
            let message = format!("{}, skipping", error.report().message);
            self.notice(SqlState::DUPLICATE_COLUMN, message);
            return Ok(table);
        }
        if table.cells == MAX_COLUMNS {
            return Err(Error::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("tables can have at most {MAX_COLUMNS} columns"),
            ));
        }
        let mut constraints = Vec::new();
        let column = self.column(definition, table.cells as i16 + 1, &mut constraints)?;
        let cell = default_cell(&column, &self.catalog, self.session)?;
        let mut new = Table::clone(&table);
        new.columns.push(column.clone());
        new.cells += 1;
        let mut table = if cell.is_some() {
            let mut new = self.with_new_storage(&new);
            let cells: Vec<NewCell> = (0..table.cells)
                .map(NewCell::Old)
                .chain([NewCell::Fixed(cell)])
                .collect();
            new.schema_version = self.version;
            self.copy_rows(&table, &new, &cells).await?;
            self.replace(new).await?
        } else {
            if column.not_null {
                self.refuse_nulls(&table, std::slice::from_ref(&column))
                    .await?;
            }
            self.replace(new).await?
        };
        for constraint in constraints {
            table = self.add_constraint(&table, constraint).await?;
        }
        Ok(table)
    }

    async fn drop_column(
        &mut self,
        table: Arc<Table>,
        name: &str,
        if_exists: bool,
    ) -> Result<Arc<Table>> {
        let position = match column(&table, name) {
            Ok(position) => position,
            Err(error) if if_exists => {
                let message = format!("{}, skipping", error.report().message);
                self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                return Ok(table);
            }
            Err(error) => return Err(error),
        };
        let attribute = table.columns[position].attribute;
        let mut table = table;
        let gone: Vec<Arc<Index>> = table
            .indexes
            .iter()
            .filter(|index| index.columns.iter().any(|key| key.attribute == attribute))
            .cloned()
            .collect();
        for index in gone {
            table = self.drop_constraint(&table, &index).await?;
        }
        let mut new = Table::clone(&table);
        new.columns.remove(position);
        for index in &mut new.indexes {
            let mut columns = index.columns.clone();
            for key in &mut columns {
                if key.column > position {
                    key.column -= 1;
                }
            }
            *index = Arc::new(Index::new(
                index.oid,
                index.id,
                index.name.clone(),
                index.kind,
                index.constraint,
                columns,
            ));
        }
        self.replace(new).await
    }

    /// Drops an index with its constraint. Dropping a primary key moves the table's
    /// rows to a new storage, because the primary key determines their record ids.
    async fn drop_constraint(&mut self, table: &Table, index: &Index) -> Result<Arc<Table>> {
        if index.kind != IndexKind::Primary {
            return self.remove_index(table, index).await;
        }
        let mut without = table.clone();
        without.indexes.retain(|each| each.id != index.id);
        let new = self.with_new_storage(&without);
        let cells: Vec<NewCell> = (0..table.cells).map(NewCell::Old).collect();
        self.copy_rows(table, &new, &cells).await?;
        self.replace(new).await
    }

    async fn alter_column(
        &mut self,
        table: &Table,
        name: &str,
        action: &ColumnAction,
    ) -> Result<Arc<Table>> {
        let position = column(table, name)?;
        let mut new = table.clone();
        let changed = &mut new.columns[position];
        match action {
            ColumnAction::SetDefault(value) => {
                changed.default = self.default(value, changed)?;
            }
            ColumnAction::DropDefault => changed.default = None,
            ColumnAction::SetNotNull(true) => {
                let column = changed.clone();
                changed.not_null = true;
                self.refuse_nulls(table, &[column]).await?;
            }
            ColumnAction::SetNotNull(false) => {
                let in_key = table
                    .primary_key()
                    .is_some_and(|key| key.columns.iter().any(|each| each.column == position));
                if in_key {
                    return Err(Error::new(
                        SqlState::INVALID_TABLE_DEFINITION,
                        format!("column \"{name}\" is in a primary key"),
                    ));
                }
                changed.not_null = false;
            }
            other => return Err(unsupported_column(other)),
        }
        self.replace(new).await
    }
}

fn unsupported(action: &TableAction) -> Error {
    let what = match action {
        TableAction::AlterColumn(_, action) => return unsupported_column(action),
        TableAction::SetStatisticsOf(..) => "ALTER COLUMN … SET STATISTICS",
        TableAction::AlterConstraint(..) => "ALTER CONSTRAINT",
        TableAction::ValidateConstraint(_) => "VALIDATE CONSTRAINT",
        TableAction::SetWithoutOids => "SET WITHOUT OIDS",
        TableAction::ClusterOn(_) => "CLUSTER ON",
        TableAction::SetWithoutCluster => "SET WITHOUT CLUSTER",
        TableAction::SetLogged(true) => "SET LOGGED",
        TableAction::SetLogged(false) => "SET UNLOGGED",
        TableAction::Trigger(..) => "ENABLE or DISABLE TRIGGER",
        TableAction::Rule(..) => "ENABLE or DISABLE RULE",
        TableAction::Inherit(_) => "INHERIT",
        TableAction::NoInherit(_) => "NO INHERIT",
        TableAction::Of(_) => "OF",
        TableAction::NotOf => "NOT OF",
        TableAction::SetAccessMethod(_) => "SET ACCESS METHOD",
        TableAction::SetTablespace(_) => "SET TABLESPACE",
        TableAction::ResetOptions(_) => "RESET",
        TableAction::ReplicaIdentity(_) => "REPLICA IDENTITY",
        TableAction::RowSecurity(_) | TableAction::ForceRowSecurity(_) => "ROW LEVEL SECURITY",
        TableAction::GenericOptions(_) => "OPTIONS",
        TableAction::AttachPartition(..) => "ATTACH PARTITION",
        TableAction::DetachPartition { .. } => "DETACH PARTITION",
        _ => "this form",
    };
    Error::unsupported(format!("ALTER TABLE … {what}"))
}

fn unsupported_column(action: &ColumnAction) -> Error {
    Error::unsupported(match action {
        ColumnAction::SetType { .. } => "ALTER COLUMN … TYPE",
        ColumnAction::AddIdentity { .. }
        | ColumnAction::SetIdentity(_)
        | ColumnAction::DropIdentity(_)
        | ColumnAction::DropExpression(_) => "a GENERATED column",
        ColumnAction::SetStatistics(_) => "ALTER COLUMN … SET STATISTICS",
        ColumnAction::SetStorage(_) => "ALTER COLUMN … SET STORAGE",
        ColumnAction::SetCompression(_) => "ALTER COLUMN … SET COMPRESSION",
        _ => "an option of a column",
    })
}

fn column(table: &Table, name: &str) -> Result<usize> {
    table.column(name).ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{name}\" of relation \"{}\" does not exist",
                table.name
            ),
        )
    })
}

fn duplicate_column(table: &Table, name: &str) -> Error {
    Error::new(
        SqlState::DUPLICATE_COLUMN,
        format!(
            "column \"{name}\" of relation \"{}\" already exists",
            table.name
        ),
    )
}

fn constraint(table: &Table, name: &str) -> Result<Arc<Index>> {
    table
        .indexes
        .iter()
        .find(|index| index.constraint && index.name == name)
        .cloned()
        .ok_or_else(|| {
            Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!(
                    "constraint \"{name}\" of relation \"{}\" does not exist",
                    table.name
                ),
            )
        })
}
