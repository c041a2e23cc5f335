//! CHECK constraints in DDL.

use std::sync::Arc;

use coeval_sql_syntax::print;

use super::Change;
use super::parts::NewCheck;
use crate::catalog::over_columns;
use crate::catalog::{Check, Table, generated_name};
use crate::change::{bind_check, bind_stored_check};
use crate::error::{Error, Result, SqlState};
use crate::expression::EvaluationContext;
use crate::plan::RowReader;
use crate::value::Value;

impl Change<'_> {
    /// Adds a CHECK constraint to a table's description. Its rows are not looked at.
    pub(super) fn add_check(&mut self, table: &mut Table, new: &NewCheck<'_>) -> Result<Check> {
        let locate = |at| self.statement.position(at);
        let around = (&self.catalog, self.session);
        bind_check(new.condition, table, around, &locate)?;
        let (condition, columns) = over_columns(self.numbered(new.condition)?, table);
        let name = match &new.name {
            Some(name) => {
                if has_constraint(table, name) {
                    return Err(self.duplicate_check(table, name));
                }
                name.clone()
            }
            None => {
                let column = match columns.as_slice() {
                    [column] => Some(table.columns[*column].name.as_str()),
                    _ => None,
                };
                let is_taken = |name: &str| {
                    let mut tables = self.catalog.tables();
                    has_constraint(table, name) || tables.any(|table| has_constraint(table, name))
                };
                generated_name(&table.name, column, "check", is_taken)
            }
        };
        let check = Check {
            oid: self.context.store.counters.oid(),
            name,
            condition: print::expr(&condition),
            is_valid: new.is_valid,
            is_local: new.is_local,
        };
        table.checks.push(check.clone());
        sort(table);
        Ok(check)
    }

    /// SQLSTATE 42710 for a constraint's name: of a table that is there, or of one that this
    /// statement makes.
    pub(super) fn duplicate_check(&self, table: &Table, name: &str) -> Error {
        let known = self.catalog.table_by_oid(table.oid);
        let message = match known.is_some_and(|known| has_constraint(known, name)) {
            true => format!(
                "constraint \"{name}\" for relation \"{}\" already exists",
                table.name
            ),
            false => format!("check constraint \"{name}\" already exists"),
        };
        Error::new(SqlState::DUPLICATE_OBJECT, message)
    }

    /// Executes ADD CONSTRAINT … CHECK.
    pub(super) async fn add_check_constraint(
        &mut self,
        table: &Table,
        new: &NewCheck<'_>,
    ) -> Result<Arc<Table>> {
        let mut described = table.clone();
        let check = self.add_check(&mut described, new)?;
        if new.is_valid {
            self.refuse_violations(&described, &[check]).await?;
        }
        self.replace(described).await
    }

    /// Executes VALIDATE CONSTRAINT.
    pub(super) async fn validate_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
    ) -> Result<Arc<Table>> {
        let Some(position) = table.checks.iter().position(|check| check.name == name) else {
            if has_constraint(table, name) {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!(
                        "constraint \"{name}\" of relation \"{}\" is not a foreign key or check \
                         constraint",
                        table.name
                    ),
                ));
            }
            return Err(no_constraint(table, name));
        };
        let check = table.checks[position].clone();
        if check.is_valid {
            return Ok(Arc::clone(table));
        }
        self.refuse_violations(table, &[check]).await?;
        let mut table = Table::clone(table);
        table.checks[position].is_valid = true;
        self.replace(table).await
    }

    /// Drops a CHECK constraint, if the table has one of this name.
    pub(super) async fn drop_check(
        &mut self,
        table: &Table,
        name: &str,
    ) -> Result<Option<Arc<Table>>> {
        if table.checks.iter().all(|check| check.name != name) {
            return Ok(None);
        }
        let mut table = table.clone();
        table.checks.retain(|check| check.name != name);
        self.replace(table).await.map(Some)
    }

    /// Renames a CHECK constraint, if the table has one of this name.
    pub(super) async fn rename_check(
        &mut self,
        table: &Table,
        old: &str,
        new: &str,
    ) -> Result<Option<Arc<Table>>> {
        let Some(position) = table.checks.iter().position(|check| check.name == old) else {
            return Ok(None);
        };
        if has_constraint(table, new) {
            return Err(self.duplicate_check(table, new));
        }
        let mut table = table.clone();
        new.clone_into(&mut table.checks[position].name);
        sort(&mut table);
        self.replace(table).await.map(Some)
    }

    /// Fails if a constraint is false for a row of the table.
    pub(super) async fn refuse_violations(
        &mut self,
        table: &Table,
        checks: &[Check],
    ) -> Result<()> {
        if checks.is_empty() {
            return Ok(());
        }
        self.require_all_rows("checking every row")?;
        let catalog = Arc::clone(&self.catalog);
        let session = self.session;
        let mut conditions = Vec::with_capacity(checks.len());
        for check in checks {
            let bound = bind_stored_check(check, table, &catalog, session)?;
            conditions.push((check.name.clone(), bound));
        }
        let reader = RowReader::new(table);
        let (schema, name) = (table.schema(), table.name.clone());
        let mut values = Vec::new();
        self.each_row(table, move |row| {
            values.clear();
            reader.read(row, &mut values)?;
            let mut context = EvaluationContext::new(session, &catalog, &[], None);
            for (constraint, condition) in &conditions {
                if condition.evaluate(&mut context, &values)? == Value::Bool(false) {
                    return Err(violated((schema, &name), constraint));
                }
            }
            Ok(())
        })
        .await
    }
}

fn sort(table: &mut Table) {
    table.checks.sort_by(|one, other| one.name.cmp(&other.name));
}

/// Whether a table has a constraint of this name.
fn has_constraint(table: &Table, name: &str) -> bool {
    let mut checks = table.checks.iter();
    let mut indexes = table.indexes.iter();
    checks.any(|check| check.name == name)
        || indexes.any(|index| index.constraint && index.name == name)
}

/// SQLSTATE 42704: the table has no constraint of this name.
pub(super) fn no_constraint(table: &Table, name: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!(
            "constraint \"{name}\" of relation \"{}\" does not exist",
            table.name
        ),
    )
}

/// SQLSTATE 23514, `check_violation`: a row that is there does not meet the constraint.
fn violated((schema, table): (&str, &str), constraint: &str) -> Error {
    Error::new(
        SqlState::CHECK_VIOLATION,
        format!(
            "check constraint \"{constraint}\" of relation \"{table}\" is violated by some row"
        ),
    )
    .with_table(schema, table)
    .with_constraint(constraint)
}
