//! ALTER TABLE: changes of columns, constraints, names and owners of a table.

use std::sync::Arc;

use coeval_sql_syntax::tree::{
    AlterTable, ColumnAction, ColumnDefinition, ObjectAction, Path, TableAction,
};
use coeval_txn::TableLock;
use coeval_types::IndexKind;

use super::Change;
use super::check::no_constraint;
use super::constraint::KeyConstraint;
use super::generated::check_may_default;
use super::parts::{NewCheck, Parts};
use super::rewrite::NewCell;
use super::sequence::sequence_of;
use super::table::{MAX_COLUMNS, add_index, storage_parameter};
use crate::access::Privileges;
use crate::catalog::over_columns;
use crate::catalog::{Check, Generation, Index, Object, Table, TableColumn, fold};
use crate::change::{bind_generated, default_of, with_column_renamed};
use crate::error::{Error, Result, SqlState};
use crate::expression::EvaluationContext;
use crate::statement::{ViewAction, parse_expression, role_name};

impl Change<'_> {
    /// Executes ALTER TABLE.
    pub(super) async fn alter_table(&mut self, alter: &AlterTable) -> Result<&'static str> {
        if let Some(view) = self.view_named(&alter.table.name)? {
            self.require_owner_of(&view)?;
            let actions = view_actions(&view, &alter.actions)?;
            self.alter_view(view, &actions).await?;
            return Ok("ALTER TABLE");
        }
        let Some(mut table) = self.altered(&alter.table.name, alter.if_exists)? else {
            return Ok("ALTER TABLE");
        };
        for action in &alter.actions {
            if let TableAction::AlterColumn(name, ColumnAction::SetType { .. }) = action {
                self.refuse_type_of_viewed(&table, &fold(name))?;
            }
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
        if let ObjectAction::Rename(new_name) = action
            && self.sequence_named(name)?.is_some()
        {
            self.rename_sequence(name, if_exists, new_name).await?;
            return Ok("ALTER TABLE");
        }
        if let Some(view) = self.view_named(name)? {
            self.require_owner_of(&view)?;
            let actions = [match action {
                ObjectAction::Rename(new) => ViewAction::Rename(new.clone()),
                ObjectAction::RenameColumn(old, new) => {
                    ViewAction::RenameColumn(old.clone(), new.clone())
                }
                _ => return Err(wrong_action(&view, "RENAME CONSTRAINT")),
            }];
            self.alter_view(view, &actions).await?;
            return Ok("ALTER TABLE");
        }
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
                for column in &mut table.columns {
                    if let Some(Generation::Stored(expression)) = &mut column.generation {
                        *expression = with_column_renamed(expression, &old, &new)?;
                    }
                }
                for check in &mut table.checks {
                    check.condition = with_column_renamed(&check.condition, &old, &new)?;
                }
                table.columns[position].name = new;
                self.replace(table).await?;
            }
            ObjectAction::RenameConstraint(old, new) => {
                let (old, new) = (fold(old), fold(new));
                if self.rename_check(&table, &old, &new).await?.is_none() {
                    let index = constraint(&table, &old)?;
                    self.rename_index_of(&table, &index, new).await?;
                }
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
            TableAction::AddConstraint(constraint) => match NewCheck::of_table(constraint)? {
                Some(check) => self.add_check_constraint(&table, &check).await,
                None => {
                    let constraint = KeyConstraint::of_table(constraint)?;
                    self.add_constraint(&table, constraint).await
                }
            },
            TableAction::ValidateConstraint(name) => {
                self.validate_constraint(&table, &fold(name)).await
            }
            TableAction::AddColumn {
                if_not_exists,
                column,
            } => self.add_column(table, column, *if_not_exists).await,
            TableAction::DropColumn {
                name,
                if_exists,
                cascade,
            } => {
                let name = fold(name);
                self.drop_column(table, &name, *if_exists, *cascade).await
            }
            TableAction::Owner(owner) => self.table_owner(&table, &role_name(owner)).await,
            TableAction::DropConstraint {
                if_exists,
                name,
                cascade,
            } => {
                let name = fold(name);
                if let Some(table) = self.drop_check(&table, &name).await? {
                    return Ok(table);
                }
                match constraint(&table, &name) {
                    Ok(index) => {
                        if index.kind == IndexKind::Primary {
                            self.drop_grouped(&table, &index, *cascade).await?;
                        }
                        self.drop_constraint(&table, &index).await
                    }
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
            TableAction::AddConstraint(constraint) => match NewCheck::of_table(constraint)? {
                Some(_) => Ok(()),
                None => KeyConstraint::of_table(constraint).map(drop),
            },
            TableAction::AddColumn { column, .. } => {
                self.column(column, 1, &mut Parts::default()).map(drop)
            }
            TableAction::AlterColumn(
                _,
                ColumnAction::SetDefault(_)
                | ColumnAction::DropDefault
                | ColumnAction::SetNotNull(_)
                | ColumnAction::AddIdentity { .. }
                | ColumnAction::SetIdentity(_)
                | ColumnAction::DropIdentity(_)
                | ColumnAction::DropExpression(_),
            )
            | TableAction::ValidateConstraint(_)
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
        let mut parts = Parts::of(&table.name);
        let column = self.column(definition, table.cells as i16 + 1, &mut parts)?;
        let position = table.columns.len();
        let mut new = Table::clone(&table);
        new.columns.push(column);
        new.cells += 1;
        self.make_parts(&mut new, &parts).await?;
        let column = new.columns[position].clone();
        let added = new
            .checks
            .iter()
            .filter(|check| !table.checks.contains(check));
        let added: Vec<_> = added.cloned().collect();
        let mut table = match self.new_cell(&new, &column)? {
            NewCell::Fixed(None) => {
                if column.not_null {
                    self.refuse_nulls(&table, std::slice::from_ref(&column))
                        .await?;
                }
                self.replace(new).await?
            }
            cell => {
                let mut new = self.with_new_storage(&new);
                let mut cells = NewCell::kept(&table);
                cells.push(cell);
                new.schema_version = self.version;
                self.copy_rows(&table, &new, &cells).await?;
                self.replace(new).await?
            }
        };
        self.refuse_violations(&table, &added).await?;
        for constraint in parts.keys {
            table = self.add_constraint(&table, constraint).await?;
        }
        Ok(table)
    }

    /// What the rows that are there get in a column that is added.
    fn new_cell(&self, table: &Table, column: &TableColumn) -> Result<NewCell> {
        let computed = column.generation.as_ref().and_then(Generation::expression);
        let expression = match computed {
            Some(sql) => {
                let around = (&self.catalog, self.session);
                let parsed = parse_expression(sql)?;
                bind_generated(&parsed, column, table, around, &|_| None)?
            }
            None => default_of(table, column, &self.catalog, self.session)?.0,
        };
        if computed.is_some() || expression.is_volatile() {
            return Ok(NewCell::Computed(expression, column.clone()));
        }
        let mut context = EvaluationContext::new(self.session, &self.catalog, &[], None);
        let value = expression.evaluate(&mut context, &[])?;
        Ok(NewCell::Fixed((!value.is_null()).then(|| {
            let mut cell = Vec::new();
            value.write_cell(&mut cell);
            cell
        })))
    }

    async fn drop_column(
        &mut self,
        table: Arc<Table>,
        name: &str,
        if_exists: bool,
        cascade: bool,
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
        self.drop_dependents(&[table.oid], Some(attribute), cascade)
            .await?;
        let mut table = table;
        let what = format!("column {name} of table {}", table.name);
        let computed = self.computed_from(&table, position);
        let dependents = Self::computed_dependents(&table, name, &computed);
        self.cascade(&what, dependents, cascade)?;
        for column in computed {
            table = Box::pin(self.drop_column(table, &column, false, cascade)).await?;
        }
        let position = column(&table, name)?;
        let sequences: Vec<_> = self.sequences_of_table(table.oid);
        let mut own = Vec::new();
        for object in sequences {
            if sequence_of(&object)?.owned_by == Some((table.oid, attribute)) {
                own.push(object);
            }
        }
        let numbers: Vec<u32> = own.iter().map(|object| object.oid).collect();
        let but = Some((table.oid, Some(attribute)));
        self.drop_defaults_of(&numbers, but, &what, cascade).await?;
        let known = self.catalog.table_by_oid(table.oid).cloned();
        table = known.unwrap_or(table);
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
        new.checks
            .retain(|check| !uses_column(check, &table, position));
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
        let table = self.replace(new).await?;
        for object in own {
            self.remove_sequence(&object).await?;
        }
        Ok(table)
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
        self.copy_rows(table, &new, &NewCell::kept(table)).await?;
        self.replace(new).await
    }

    async fn alter_column(
        &mut self,
        table: &Table,
        name: &str,
        action: &ColumnAction,
    ) -> Result<Arc<Table>> {
        let position = column(table, name)?;
        if matches!(
            action,
            ColumnAction::AddIdentity { .. }
                | ColumnAction::SetIdentity(_)
                | ColumnAction::DropIdentity(_)
                | ColumnAction::DropExpression(_)
        ) {
            return self.alter_generation(table, position, action).await;
        }
        let mut new = table.clone();
        let changed = &mut new.columns[position];
        match action {
            ColumnAction::SetDefault(value) => {
                check_may_default(table, position, false)?;
                changed.default = self.default(value, changed)?;
            }
            ColumnAction::DropDefault => {
                check_may_default(table, position, true)?;
                changed.default = None;
            }
            ColumnAction::SetNotNull(true) => {
                let column = changed.clone();
                changed.not_null = true;
                self.refuse_nulls(table, &[column]).await?;
            }
            ColumnAction::SetNotNull(false) => {
                if changed
                    .generation
                    .as_ref()
                    .is_some_and(Generation::is_identity)
                {
                    return Err(Error::syntax(format!(
                        "column \"{name}\" of relation \"{}\" is an identity column",
                        table.name
                    )));
                }
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

/// The actions of ALTER TABLE on a view.
fn view_actions(view: &Object, actions: &[TableAction]) -> Result<Vec<ViewAction>> {
    let of = |action: &TableAction| {
        Ok(match action {
            TableAction::Owner(owner) => ViewAction::Owner(role_name(owner)),
            TableAction::SetOptions(options) => ViewAction::Set(options.clone()),
            TableAction::ResetOptions(options) => ViewAction::Reset(options.clone()),
            TableAction::AlterColumn(name, ColumnAction::SetDefault(value)) => {
                ViewAction::Default(name.clone(), Some(value.clone()))
            }
            TableAction::AlterColumn(name, ColumnAction::DropDefault) => {
                ViewAction::Default(name.clone(), None)
            }
            other => return Err(wrong_action(view, action_name(other))),
        })
    };
    actions.iter().map(of).collect()
}

/// SQLSTATE 42809: a view cannot be altered like that.
fn wrong_action(view: &Object, action: &str) -> Error {
    Error::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!(
            "ALTER action {action} cannot be performed on relation \"{}\"",
            view.name
        ),
    )
    .with_detail("This operation is not supported for views.")
}

/// An action of ALTER TABLE in the words of PostgreSQL's messages.
fn action_name(action: &TableAction) -> &'static str {
    match action {
        TableAction::AddColumn { .. } => "ADD COLUMN",
        TableAction::DropColumn { .. } => "DROP COLUMN",
        TableAction::AlterColumn(_, ColumnAction::SetNotNull(true)) => {
            "ALTER COLUMN ... SET NOT NULL"
        }
        TableAction::AlterColumn(_, ColumnAction::SetNotNull(false)) => {
            "ALTER COLUMN ... DROP NOT NULL"
        }
        TableAction::AlterColumn(_, ColumnAction::SetType { .. }) => {
            "ALTER COLUMN ... SET DATA TYPE"
        }
        TableAction::AlterColumn(..) => "ALTER COLUMN",
        TableAction::AddConstraint(_) => "ADD CONSTRAINT",
        TableAction::AlterConstraint(..) => "ALTER CONSTRAINT",
        TableAction::ValidateConstraint(_) => "VALIDATE CONSTRAINT",
        TableAction::DropConstraint { .. } => "DROP CONSTRAINT",
        TableAction::SetLogged(true) => "SET LOGGED",
        TableAction::SetLogged(false) => "SET UNLOGGED",
        TableAction::SetTablespace(_) => "SET TABLESPACE",
        TableAction::ClusterOn(_) => "CLUSTER ON",
        TableAction::ReplicaIdentity(_) => "REPLICA IDENTITY",
        TableAction::RowSecurity(true) => "ENABLE ROW SECURITY",
        TableAction::RowSecurity(false) => "DISABLE ROW SECURITY",
        TableAction::ForceRowSecurity(true) => "FORCE ROW SECURITY",
        TableAction::ForceRowSecurity(false) => "NO FORCE ROW SECURITY",
        TableAction::Inherit(_) => "INHERIT",
        TableAction::NoInherit(_) => "NO INHERIT",
        TableAction::AttachPartition(..) => "ATTACH PARTITION",
        TableAction::DetachPartition { .. } => "DETACH PARTITION",
        _ => "of this form",
    }
}

fn unsupported(action: &TableAction) -> Error {
    let what = match action {
        TableAction::AlterColumn(_, action) => return unsupported_column(action),
        TableAction::SetStatisticsOf(..) => "ALTER COLUMN … SET STATISTICS",
        TableAction::AlterConstraint(..) => "ALTER CONSTRAINT",
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
        .ok_or_else(|| no_constraint(table, name))
}

/// Whether a CHECK constraint is about a column.
fn uses_column(check: &Check, table: &Table, position: usize) -> bool {
    let parsed = parse_expression(&check.condition);
    parsed.is_ok_and(|parsed| over_columns(parsed, table).1.contains(&position))
}
