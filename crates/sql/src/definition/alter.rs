//! ALTER TABLE: changes of columns, constraints, names and owners of a table.

use std::sync::Arc;

use coeval_txn::TableLock;
use coeval_types::IndexKind;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation};

use super::Change;
use super::constraint::KeyConstraint;
use super::rewrite::NewCell;
use super::table::{MAX_COLUMNS, add_index, storage_parameter};
use crate::access::Privileges;
use crate::catalog::{Index, QualifiedName, Table, fold};
use crate::change::default_cell;
use crate::error::{Error, Result, SqlState};

impl Change<'_> {
    /// Executes ALTER TABLE.
    pub(super) async fn alter_table(&mut self, alter: &ast::AlterTable) -> Result<&'static str> {
        if alter.table_type.is_some() || alter.on_cluster.is_some() || alter.location.is_some() {
            return Err(Error::unsupported("this form of ALTER TABLE"));
        }
        let name = self.name(&alter.name)?;
        if alter.if_exists && self.catalog.relation(&name.name).is_none() {
            self.notice(
                SqlState::SUCCESSFUL_COMPLETION,
                format!("relation \"{}\" does not exist, skipping", name.name),
            );
            return Ok("ALTER TABLE");
        }
        let mut table = self.table(&alter.name)?;
        self.require_owner(&table)?;
        for operation in &alter.operations {
            self.refuse_unsupported(operation)?;
        }
        self.lock(&table, TableLock::AccessExclusive).await?;
        for operation in &alter.operations {
            table = self.alter(table, operation).await?;
        }
        Ok("ALTER TABLE")
    }

    async fn alter(
        &mut self,
        table: Arc<Table>,
        operation: &AlterTableOperation,
    ) -> Result<Arc<Table>> {
        match operation {
            AlterTableOperation::AddConstraint {
                constraint,
                not_valid: false,
            } => {
                let constraint = KeyConstraint::of_table(constraint)?;
                self.add_constraint(&table, constraint).await
            }
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => self.add_column(table, column_def, *if_not_exists).await,
            AlterTableOperation::DropColumn {
                column_names,
                if_exists,
                ..
            } => {
                let mut table = table;
                for name in column_names {
                    table = self.drop_column(table, &fold(name), *if_exists).await?;
                }
                Ok(table)
            }
            AlterTableOperation::RenameColumn {
                old_column_name,
                new_column_name,
            } => {
                let (old, new) = (fold(old_column_name), fold(new_column_name));
                let position = column(&table, &old)?;
                if table.column(&new).is_some() {
                    return Err(duplicate_column(&table, &new));
                }
                let mut table = Table::clone(&table);
                table.columns[position].name = new;
                self.replace(table).await
            }
            AlterTableOperation::RenameTable { table_name } => {
                let (ast::RenameTableNameKind::As(name) | ast::RenameTableNameKind::To(name)) =
                    table_name;
                let name = QualifiedName::new(name)?;
                self.require_schema(Privileges::CREATE)?;
                self.check_free(&name.name, false)?;
                let mut table = Table::clone(&table);
                table.name = name.name;
                self.replace(table).await
            }
            AlterTableOperation::OwnerTo { new_owner } => self.table_owner(&table, new_owner).await,
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let index = constraint(&table, &fold(old_name))?;
                self.rename_index_of(&table, &index, fold(new_name)).await
            }
            AlterTableOperation::DropConstraint {
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
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column(&table, &fold(column_name), op).await
            }
            AlterTableOperation::SetOptionsParens { options } => {
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
    fn refuse_unsupported(&self, operation: &AlterTableOperation) -> Result<()> {
        match operation {
            AlterTableOperation::AddConstraint {
                constraint,
                not_valid: false,
            } => KeyConstraint::of_table(constraint).map(drop),
            AlterTableOperation::AddColumn {
                column_def,
                column_position: None,
                ..
            } => self.column(column_def, 1, &mut Vec::new()).map(drop),
            AlterTableOperation::AlterColumn { op, .. } => match op {
                AlterColumnOperation::SetDefault { .. }
                | AlterColumnOperation::DropDefault
                | AlterColumnOperation::SetNotNull
                | AlterColumnOperation::DropNotNull => Ok(()),
                AlterColumnOperation::SetDataType { .. } => {
                    Err(Error::unsupported("ALTER COLUMN … TYPE"))
                }
                AlterColumnOperation::AddGenerated { .. } => {
                    Err(Error::unsupported("a GENERATED column"))
                }
            },
            AlterTableOperation::DropColumn { .. }
            | AlterTableOperation::RenameColumn { .. }
            | AlterTableOperation::RenameTable { .. }
            | AlterTableOperation::OwnerTo { .. }
            | AlterTableOperation::RenameConstraint { .. }
            | AlterTableOperation::DropConstraint { .. }
            | AlterTableOperation::SetOptionsParens { .. } => Ok(()),
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
        definition: &ast::ColumnDef,
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
        operation: &AlterColumnOperation,
    ) -> Result<Arc<Table>> {
        let position = column(table, name)?;
        let mut new = table.clone();
        let changed = &mut new.columns[position];
        match operation {
            AlterColumnOperation::SetDefault { value } => {
                changed.default = self.default(value, changed)?;
            }
            AlterColumnOperation::DropDefault => changed.default = None,
            AlterColumnOperation::SetNotNull => {
                let column = changed.clone();
                changed.not_null = true;
                self.refuse_nulls(table, &[column]).await?;
            }
            AlterColumnOperation::DropNotNull => {
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
            other @ (AlterColumnOperation::SetDataType { .. }
            | AlterColumnOperation::AddGenerated { .. }) => {
                return Err(Error::unsupported(format!("ALTER COLUMN … {other}")));
            }
        }
        self.replace(new).await
    }
}

fn unsupported(operation: &AlterTableOperation) -> Error {
    Error::unsupported(format!("ALTER TABLE … {operation}"))
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
