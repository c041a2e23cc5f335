//! Table DDL: CREATE TABLE, DROP TABLE, TRUNCATE.

use std::sync::Arc;

use coeval_txn::TableLock;
use coeval_types::IndexKind;
use sqlparser::ast;

use super::constraint::KeyConstraint;
use super::{Change, joined};
use crate::access::{Owned, Privileges};
use crate::catalog::{Index, Table, TableColumn, fold};
use crate::change::{check_default, constant_default};
use crate::error::{Error, Result, SqlState};
use crate::expression::resolve_type;

/// Maximum number of columns of a table, as in PostgreSQL.
pub(super) const MAX_COLUMNS: usize = 1600;

impl Change<'_> {
    /// Executes CREATE TABLE.
    pub(super) async fn create_table(&mut self, create: &ast::CreateTable) -> Result<&'static str> {
        refuse_unsupported(create)?;
        let name = self.name(&create.name)?;
        self.require_schema(Privileges::USAGE.with(Privileges::CREATE))?;
        if !self.check_free(&name.name, create.if_not_exists)? {
            return Ok("CREATE TABLE");
        }
        let mut columns: Vec<TableColumn> = Vec::with_capacity(create.columns.len());
        let mut constraints = Vec::new();
        if create.columns.len() > MAX_COLUMNS {
            return Err(Error::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("tables can have at most {MAX_COLUMNS} columns"),
            ));
        }
        for definition in &create.columns {
            let attribute = columns.len() as i16 + 1;
            let column = self.column(definition, attribute, &mut constraints)?;
            if columns.iter().any(|other| other.name == column.name) {
                return Err(Error::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{}\" specified more than once", column.name),
                ));
            }
            columns.push(column);
        }
        for constraint in &create.constraints {
            constraints.push(KeyConstraint::of_table(constraint)?);
        }
        let counters = &self.context.store.counters;
        let mut table = Table {
            oid: counters.oid(),
            name: name.name,
            storage: counters.storage(),
            schema_version: self.version,
            cells: columns.len(),
            columns,
            indexes: Vec::new(),
            options: storage_parameters(&create.table_options)?,
            owned: Owned::by(self.session.role),
        };
        // Registers the table, so that generated names are also unique among each
        // other.
        self.keep(Some(Arc::new(table.clone())), table.oid);
        for constraint in constraints {
            let index = self.key_index(&mut table, constraint)?;
            add_index(&mut table, index);
            self.keep(Some(Arc::new(table.clone())), table.oid);
        }
        self.attach(&table)?;
        self.context
            .store
            .insert_table(&mut *self.context.transaction, &table)
            .await?;
        self.changed = true;
        Ok("CREATE TABLE")
    }

    /// Converts a column definition to a descriptor; appends its constraints to
    /// `constraints`.
    pub(super) fn column(
        &self,
        definition: &ast::ColumnDef,
        attribute: i16,
        constraints: &mut Vec<KeyConstraint>,
    ) -> Result<TableColumn> {
        let name = fold(&definition.name);
        let position = self.statement.position(definition.name.span.start);
        if SYSTEM_COLUMNS.contains(&name.as_str()) {
            return Err(Error::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column name \"{name}\" conflicts with a system column name"),
            )
            .at(position));
        }
        let column_type =
            resolve_type(&definition.data_type).map_err(|error| error.at(position))?;
        if !column_type.data_type.is_storable() {
            return Err(Error::unsupported(format!("a column of type {column_type}")).at(position));
        }
        let mut column = TableColumn {
            name,
            column_type,
            attribute,
            not_null: false,
            default: None,
        };
        let mut nullable = false;
        for option in &definition.options {
            match &option.option {
                ast::ColumnOption::Null => nullable = true,
                ast::ColumnOption::NotNull => column.not_null = true,
                ast::ColumnOption::Default(default) => {
                    column.default = self.default(default, &column)?;
                }
                ast::ColumnOption::PrimaryKey(primary) => {
                    column.not_null = true;
                    let mut constraint = KeyConstraint::primary(option.name.as_ref(), primary)?;
                    constraint.columns = vec![column.name.clone()];
                    constraints.push(constraint);
                }
                ast::ColumnOption::Unique(unique) => {
                    let mut constraint = KeyConstraint::unique(option.name.as_ref(), unique)?;
                    constraint.columns = vec![column.name.clone()];
                    constraints.push(constraint);
                }
                ast::ColumnOption::ForeignKey(_) => {
                    return Err(Error::unsupported("REFERENCES").at(position));
                }
                ast::ColumnOption::Check(_) => {
                    return Err(Error::unsupported("CHECK").at(position));
                }
                ast::ColumnOption::Generated { .. } => {
                    return Err(Error::unsupported("a GENERATED column").at(position));
                }
                ast::ColumnOption::Collation(collation)
                    if matches!(
                        collation.to_string().trim_matches('"'),
                        "C" | "POSIX" | "default" | "pg_catalog.\"C\"" | "pg_catalog.\"default\""
                    ) => {}
                other => {
                    return Err(
                        Error::unsupported(format!("the column option {other}")).at(position)
                    );
                }
            }
        }
        if nullable && column.not_null {
            return Err(Error::syntax(format!(
                "conflicting NULL/NOT NULL declarations for column \"{}\"",
                column.name
            ))
            .at(position));
        }
        Ok(column)
    }

    /// Checks a column's DEFAULT and prints it as SQL for the catalog. DEFAULT NULL is
    /// the same as no default.
    pub(super) fn default(
        &self,
        default: &ast::Expr,
        column: &TableColumn,
    ) -> Result<Option<String>> {
        let system = self.session.system;
        check_default(default, column, self.statement, &self.catalog, system)?;
        if matches!(default, ast::Expr::Value(value) if value.value == ast::Value::Null) {
            return Ok(None);
        }
        // Fixes the value of a literal such as 'now' here, so that it does not depend
        // on the time or time zone of a later session.
        let moment = constant_default(default, column, &self.catalog, self.session)?;
        Ok(Some(moment.unwrap_or_else(|| default.to_string())))
    }

    /// The descriptor of a constraint's index, not yet built. Marks the columns of a
    /// primary key as NOT NULL.
    pub(super) fn key_index(
        &mut self,
        table: &mut Table,
        constraint: KeyConstraint,
    ) -> Result<Index> {
        let key = constraint.key(&table.columns)?;
        let primary = constraint.kind == IndexKind::Primary;
        if primary {
            if table.primary_key().is_some() {
                return Err(Error::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!(
                        "multiple primary keys for table \"{}\" are not allowed",
                        table.name
                    ),
                ));
            }
            for column in &key {
                table.columns[column.column].not_null = true;
            }
        }
        let name = match constraint.name {
            Some(name) => {
                self.check_free(&name, false)?;
                name
            }
            None if primary => self.catalog.free_name(&table.name, None, "pkey"),
            None => {
                let columns = joined(constraint.columns.iter().map(String::as_str), "_");
                self.catalog.free_name(&table.name, Some(&columns), "key")
            }
        };
        let counters = &self.context.store.counters;
        Ok(Index::new(
            counters.oid(),
            counters.index(),
            name,
            constraint.kind,
            true,
            key,
        ))
    }

    /// Executes DROP TABLE.
    pub(super) async fn drop_tables(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
    ) -> Result<&'static str> {
        for name in names {
            let qualified = self.name(name)?;
            if self.catalog.relation(&qualified.name).is_none() {
                let missing = format!("table \"{}\" does not exist", qualified.name);
                if !if_exists {
                    return Err(Error::new(SqlState::UNDEFINED_TABLE, missing));
                }
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("{missing}, skipping"),
                );
                continue;
            }
            let table = self.table(name)?;
            self.require_owner(&table)?;
            self.lock(&table, TableLock::AccessExclusive).await?;
            self.outdate(table.storage)?;
            self.context
                .store
                .delete_table(&mut *self.context.transaction, table.oid)
                .await?;
            self.context.storages.note_replaced(table.storage);
            self.keep(None, table.oid);
        }
        Ok("DROP TABLE")
    }

    /// Executes TRUNCATE: replaces the table's storage by an empty one.
    pub(super) async fn truncate(&mut self, names: &[ast::ObjectName]) -> Result<&'static str> {
        for name in names {
            let old = self.table(name)?;
            self.require(&old, Privileges::TRUNCATE)?;
            self.lock(&old, TableLock::AccessExclusive).await?;
            let table = self.with_new_storage(&old);
            self.attach(&table)?;
            self.context.storages.note_replaced(old.storage);
            self.replace(table).await?;
        }
        Ok("TRUNCATE TABLE")
    }

    /// A copy of the descriptor with new ids for a storage and indexes that the caller
    /// will create.
    pub(super) fn with_new_storage(&self, old: &Table) -> Table {
        let counters = &self.context.store.counters;
        let mut table = old.clone();
        table.storage = counters.storage();
        table.schema_version = self.version;
        table.indexes = old
            .indexes
            .iter()
            .map(|index| {
                Arc::new(Index::new(
                    index.oid,
                    counters.index(),
                    index.name.clone(),
                    index.kind,
                    index.constraint,
                    index.columns.clone(),
                ))
            })
            .collect();
        table
    }
}

/// Reserved column names: PostgreSQL's system columns.
const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"];

/// Adds an index to the table's list, a primary key's at the front.
pub(super) fn add_index(table: &mut Table, index: Index) {
    let at = match index.kind {
        IndexKind::Primary => 0,
        _ => table.indexes.len(),
    };
    table.indexes.insert(at, Arc::new(index));
}

fn refuse_unsupported(create: &ast::CreateTable) -> Result<()> {
    let unsupported = [
        (create.temporary, "CREATE TEMPORARY TABLE"),
        (create.unlogged, "CREATE UNLOGGED TABLE"),
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some(), "CREATE TABLE … LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (
            create.partition_by.is_some() || create.partition_of.is_some(),
            "a partitioned table",
        ),
        (create.on_commit.is_some(), "ON COMMIT"),
        (
            create.or_replace || create.external || create.global.is_some(),
            "this form of CREATE TABLE",
        ),
    ];
    match unsupported.iter().find(|(given, _)| *given) {
        Some((_, feature)) => Err(Error::unsupported(*feature)),
        None => Ok(()),
    }
}

/// Storage parameters of `WITH (fillfactor=100, …)`.
fn storage_parameters(options: &ast::CreateTableOptions) -> Result<Vec<(String, String)>> {
    let list = match options {
        ast::CreateTableOptions::None => return Ok(Vec::new()),
        ast::CreateTableOptions::With(list) => list,
        _ => return Err(Error::unsupported("a table option other than WITH")),
    };
    list.iter().map(storage_parameter).collect()
}

/// One storage parameter: stored and shown, without effect.
pub(super) fn storage_parameter(option: &ast::SqlOption) -> Result<(String, String)> {
    const KNOWN: [&str; 3] = ["fillfactor", "parallel_workers", "toast_tuple_target"];
    let (name, value) = match option {
        ast::SqlOption::KeyValue { key, value } => (fold(key), value.to_string()),
        ast::SqlOption::Ident(name) => (fold(name), "true".to_owned()),
        _ => return Err(Error::unsupported(format!("the table option {option}"))),
    };
    if !KNOWN.contains(&name.as_str()) && !name.starts_with("autovacuum_") {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized parameter \"{name}\""),
        ));
    }
    Ok((name, value.trim_matches('\'').to_owned()))
}
