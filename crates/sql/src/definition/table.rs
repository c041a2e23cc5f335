//! Table DDL: CREATE TABLE, DROP TABLE, TRUNCATE.

use std::sync::Arc;

use coeval_sql_syntax::print;
use coeval_sql_syntax::tree::{
    BaseType, ColumnConstraintKind, ColumnDefinition, CreateTable, Expr, ExprKind, ListedOption,
    Literal, OptionValue, Path, Persistence, TableElement, TableShape,
};
use coeval_txn::TableLock;
use coeval_types::IndexKind;

use super::constraint::{KeyConstraint, deferrable};
use super::parts::{Clauses, NewCheck, Parts, serial_type};
use super::view::wrong_kind;
use super::{Change, joined};
use crate::access::{Owned, Privileges};
use crate::catalog::{Index, Relation, Table, TableColumn, fold};
use crate::change::{check_default, constant_default};
use crate::error::{Error, Result, SqlState};
use crate::expression::{check_collation, resolve_type};
use crate::statement::TruncateCommand;

/// Maximum number of columns of a table, as in PostgreSQL.
pub(super) const MAX_COLUMNS: usize = 1600;

impl Change<'_> {
    /// Executes CREATE TABLE.
    pub(super) async fn create_table(&mut self, create: &CreateTable) -> Result<&'static str> {
        let elements = supported(create)?;
        let name = self.name(&create.name)?;
        let on_commit = self.on_commit(create, &name)?;
        if on_commit.is_none() {
            self.require_schema(Privileges::USAGE.with(Privileges::CREATE))?;
        }
        if !self.check_free_in(on_commit.is_some(), &name.name, create.if_not_exists)? {
            return Ok("CREATE TABLE");
        }
        let mut columns: Vec<TableColumn> = Vec::with_capacity(elements.len());
        let mut parts = Parts::of(&name.name);
        let mut of_table = Vec::new();
        let mut likes = Vec::new();
        for element in elements {
            let definition = match element {
                TableElement::Column(definition) => definition,
                TableElement::Constraint(constraint) => {
                    match NewCheck::of_table(constraint)? {
                        Some(check) => parts.checks.push(check),
                        None => of_table.push(KeyConstraint::of_table(constraint)?),
                    }
                    continue;
                }
                TableElement::Like(source, options) => {
                    let like = self.likeness(source, options)?;
                    for (position, settled) in &like.identities {
                        let attribute = (columns.len() + position) as i16 + 1;
                        parts.identity_like(attribute, *settled);
                    }
                    for column in &like.columns {
                        push_column(&mut columns, column.clone())?;
                    }
                    likes.push(like);
                    continue;
                }
            };
            let attribute = columns.len() as i16 + 1;
            let column = self.column(definition, attribute, &mut parts)?;
            push_column(&mut columns, column)?;
        }
        let constraints = std::mem::take(&mut parts.keys).into_iter().chain(of_table);
        let counters = &self.context.store.counters;
        let mut table = Table {
            oid: counters.oid(),
            name: name.name,
            storage: match on_commit {
                Some(_) => self.temporary()?.storage(),
                None => counters.storage(),
            },
            schema_version: self.version,
            cells: columns.len(),
            columns,
            indexes: Vec::new(),
            options: storage_parameters(&create.storage.options)?,
            checks: Vec::new(),
            is_unlogged: create.persistence == Persistence::Unlogged,
            owned: Owned::by(self.session.role),
        };
        // Registers the table, so that generated names are also unique among each
        // other.
        self.keep(Some(Arc::new(table.clone())), table.oid);
        self.make_parts(&mut table, &parts).await?;
        for constraint in constraints {
            let index = self.key_index(&mut table, constraint)?;
            add_index(&mut table, index);
            self.keep(Some(Arc::new(table.clone())), table.oid);
        }
        let mut alike = Vec::with_capacity(likes.len());
        for like in likes {
            let indexes = self.add_likeness(&mut table, &like)?;
            alike.push((like, indexes));
        }
        self.require_readers(&table)?;
        self.attach(&table)?;
        self.insert_table(table.clone(), on_commit).await?;
        for (like, indexes) in alike {
            self.copy_comments(&table, &like, &indexes).await?;
        }
        Ok("CREATE TABLE")
    }

    /// Converts a column definition to a descriptor; adds to `parts` what it asks for
    /// besides.
    pub(super) fn column<'tree>(
        &self,
        definition: &'tree ColumnDefinition,
        attribute: i16,
        parts: &mut Parts<'tree>,
    ) -> Result<TableColumn> {
        let name = fold(&definition.name);
        let position = self.statement.position(definition.name.at);
        if SYSTEM_COLUMNS.contains(&name.as_str()) {
            return Err(Error::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column name \"{name}\" conflicts with a system column name"),
            )
            .at(position));
        }
        let Some(kind) = &definition.kind else {
            return Err(Error::unsupported("a column without a type").at(position));
        };
        let serial =
            serial_type(kind).map_err(|error| error.at(self.statement.position(kind.at)))?;
        let column_type = match serial {
            Some(data_type) => data_type.into(),
            None => {
                resolve_type(kind).map_err(|error| error.at(self.statement.position(kind.at)))?
            }
        };
        if !column_type.data_type.is_storable() {
            return Err(Error::unsupported(format!("a column of type {column_type}")).at(position));
        }
        let mut column = TableColumn {
            name,
            column_type,
            attribute,
            not_null: false,
            default: None,
            generation: None,
        };
        let mut clauses = Clauses::default();
        if serial.is_some() {
            parts.serial(&mut column, &mut clauses)?;
        }
        if definition.compression.is_some() || !definition.options.is_empty() {
            return Err(Error::unsupported("an option of a column").at(position));
        }
        if let Some(collation) = &definition.collation {
            check_collation(collation).map_err(|error| error.at(position))?;
        }
        for constraint in &definition.constraints {
            let name = constraint.name.as_ref();
            let own = || vec![column.name.clone()];
            // PostgreSQL names no place in what it adds for serial.
            let place = serial
                .is_none()
                .then(|| self.statement.position(constraint.at));
            let at = |error: Error| match error.state() {
                SqlState::SYNTAX_ERROR => error.at(place.flatten()),
                _ => error,
            };
            let unsupported = match &constraint.kind {
                ColumnConstraintKind::Null => {
                    clauses.note_nullable(true);
                    parts.check_clauses(&column, clauses).map_err(at)?;
                    continue;
                }
                ColumnConstraintKind::NotNull => {
                    column.not_null = true;
                    clauses.note_nullable(false);
                    parts.check_clauses(&column, clauses).map_err(at)?;
                    continue;
                }
                ColumnConstraintKind::Default(default) => {
                    parts.note_default(&column, &mut clauses).map_err(at)?;
                    parts.check_clauses(&column, clauses).map_err(at)?;
                    column.default = self.default(default, &column)?;
                    continue;
                }
                ColumnConstraintKind::Identity { always, options } => {
                    parts
                        .identity(&mut column, (*always, options), &mut clauses)
                        .map_err(at)?;
                    parts.check_clauses(&column, clauses).map_err(at)?;
                    continue;
                }
                ColumnConstraintKind::Generated(expression) => {
                    parts
                        .generated(&column, expression, &mut clauses)
                        .map_err(at)?;
                    parts.check_clauses(&column, clauses).map_err(at)?;
                    continue;
                }
                ColumnConstraintKind::Check {
                    condition,
                    no_inherit,
                } => {
                    parts.checks.push(NewCheck {
                        name: name.map(fold),
                        condition,
                        is_local: *no_inherit,
                        is_valid: true,
                    });
                    continue;
                }
                ColumnConstraintKind::PrimaryKey(index) => {
                    parts.keys.push(KeyConstraint::primary(name, own(), index)?);
                    column.not_null = true;
                    continue;
                }
                ColumnConstraintKind::Unique {
                    nulls_not_distinct,
                    index,
                } => {
                    let unique = KeyConstraint::unique(name, own(), *nulls_not_distinct, index)?;
                    parts.keys.push(unique);
                    continue;
                }
                ColumnConstraintKind::Deferrable(false)
                | ColumnConstraintKind::InitiallyDeferred(false) => continue,
                ColumnConstraintKind::Deferrable(true)
                | ColumnConstraintKind::InitiallyDeferred(true) => deferrable(),
                ColumnConstraintKind::References(_) => Error::unsupported("REFERENCES"),
            };
            return Err(unsupported.at(position));
        }
        Ok(column)
    }

    /// Checks a column's DEFAULT and prints it as SQL for the catalog. DEFAULT NULL is
    /// the same as no default.
    pub(super) fn default(&self, default: &Expr, column: &TableColumn) -> Result<Option<String>> {
        let system = self.session.system;
        let default = &self.numbered(default)?;
        check_default(default, column, self.statement, &self.catalog, system)?;
        if default.kind == ExprKind::Literal(Literal::Null) {
            return Ok(None);
        }
        // Fixes the value of a literal such as 'now' here, so that it does not depend
        // on the time or time zone of a later session.
        let moment = constant_default(default, column, &self.catalog, self.session)?;
        Ok(Some(moment.unwrap_or_else(|| print::expr(default))))
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
                if table.checks.iter().any(|check| check.name == name) {
                    return Err(self.duplicate_check(table, &name));
                }
                self.check_free_beside(table, &name, false)?;
                name
            }
            None if primary => self.catalog.free_name_beside(table, None, "pkey"),
            None => {
                let columns = joined(constraint.columns.iter().map(String::as_str), "_");
                self.catalog.free_name_beside(table, Some(&columns), "key")
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
        names: &[Path],
        if_exists: bool,
        cascade: bool,
    ) -> Result<&'static str> {
        let mut tables: Vec<Arc<Table>> = Vec::with_capacity(names.len());
        for name in names {
            let qualified = self.name(name)?;
            match self.catalog.named(&qualified) {
                Some(Relation::Table(_)) => {}
                Some(other) => return Err(wrong_kind(&qualified.name, "table", &other)),
                None => {
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
            }
            let table = self.table(name)?;
            self.require_owner(&table)?;
            if tables.iter().all(|known| known.oid != table.oid) {
                tables.push(table);
            }
        }
        let roots: Vec<u32> = tables.iter().map(|table| table.oid).collect();
        self.drop_dependents(&roots, None, cascade).await?;
        for table in tables {
            // One before it may have been changed with another.
            let newest = self.catalog.table_by_oid(table.oid).cloned();
            let table = newest.unwrap_or(table);
            self.lock(&table, TableLock::AccessExclusive).await?;
            let sequences = self.sequences_of_table(table.oid);
            let numbers: Vec<u32> = sequences.iter().map(|object| object.oid).collect();
            let what = format!("table {}", table.name);
            self.drop_defaults_of(&numbers, Some((table.oid, None)), &what, cascade)
                .await?;
            self.outdate(table.storage)?;
            self.delete_table(&table).await?;
            self.context.storages.note_replaced(table.storage);
            self.keep(None, table.oid);
            for sequence in sequences {
                self.remove_sequence(&sequence).await?;
            }
        }
        Ok("DROP TABLE")
    }

    /// Executes TRUNCATE: replaces the table's storage by an empty one.
    pub(super) async fn truncate(&mut self, command: &TruncateCommand) -> Result<&'static str> {
        for name in &command.tables {
            let old = self.table(name)?;
            self.require(&old, Privileges::TRUNCATE)?;
            self.lock(&old, TableLock::AccessExclusive).await?;
            let table = self.with_new_storage(&old);
            self.attach(&table)?;
            self.context.storages.note_replaced(old.storage);
            self.replace(table).await?;
            if command.restarts {
                self.restart_sequences(old.oid).await?;
            }
        }
        Ok("TRUNCATE TABLE")
    }

    /// A copy of the descriptor with new ids for a storage and indexes that the caller
    /// will create.
    pub(super) fn with_new_storage(&self, old: &Table) -> Table {
        let counters = &self.context.store.counters;
        let mut table = old.clone();
        table.storage = match self.context.temporary {
            Some(temporary) if old.is_temporary() => temporary.storage(),
            _ => counters.storage(),
        };
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

/// Appends a column, and gives it its number.
fn push_column(columns: &mut Vec<TableColumn>, mut column: TableColumn) -> Result<()> {
    if columns.len() == MAX_COLUMNS {
        return Err(Error::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("tables can have at most {MAX_COLUMNS} columns"),
        ));
    }
    if columns.iter().any(|other| other.name == column.name) {
        return Err(Error::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{}\" specified more than once", column.name),
        ));
    }
    column.attribute = columns.len() as i16 + 1;
    columns.push(column);
    Ok(())
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

/// What a table is made of, if all that the statement says is supported.
fn supported(create: &CreateTable) -> Result<&[TableElement]> {
    let unsupported = [
        (create.foreign.is_some(), "CREATE FOREIGN TABLE"),
        (!create.inherits.is_empty(), "INHERITS"),
        (create.partition_by.is_some(), "a partitioned table"),
        (
            create.storage.access_method.is_some(),
            "a table access method",
        ),
        (create.storage.tablespace.is_some(), "TABLESPACE"),
    ];
    if let Some((_, feature)) = unsupported.iter().find(|(given, _)| *given) {
        return Err(Error::unsupported(*feature));
    }
    match &create.shape {
        TableShape::Columns(elements) => Ok(elements),
        TableShape::OfType(..) => Err(Error::unsupported("CREATE TABLE … OF")),
        TableShape::PartitionOf(..) => Err(Error::unsupported("a partitioned table")),
    }
}

/// Storage parameters of `WITH (fillfactor=100, …)`.
fn storage_parameters(options: &[ListedOption]) -> Result<Vec<(String, String)>> {
    options.iter().map(storage_parameter).collect()
}

/// One storage parameter: stored and shown, without effect.
pub(super) fn storage_parameter(option: &ListedOption) -> Result<(String, String)> {
    const KNOWN: [&str; 3] = ["fillfactor", "parallel_workers", "toast_tuple_target"];
    let name = fold(&option.name);
    if let Some(namespace) = &option.namespace {
        let name = format!("{}.{name}", namespace.text);
        return Err(Error::unsupported(format!("the table option {name}")));
    }
    let value = option_value(option);
    if !KNOWN.contains(&name.as_str()) && !name.starts_with("autovacuum_") {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized parameter \"{name}\""),
        ));
    }
    Ok((name, value))
}

/// The value of an option, as it is stored.
pub(super) fn option_value(option: &ListedOption) -> String {
    match &option.value {
        OptionValue::Omitted => "true".to_owned(),
        OptionValue::Word(word) => (*word).to_owned(),
        OptionValue::Type(kind) => match &kind.base {
            // A word such as `local`, which as a type's name would stand in quotes.
            BaseType::Named(path, modifiers) if modifiers.is_empty() => {
                joined(path.0.iter().map(|name| name.text.as_str()), ".")
            }
            _ => print::type_name(kind),
        },
        OptionValue::Operator(operator) => operator.symbol.to_string(),
        OptionValue::Number(Literal::Integer(number)) => number.to_string(),
        OptionValue::Number(Literal::Number(number)) => number.to_string(),
        OptionValue::Number(_) => String::new(),
        OptionValue::String(text) => text.clone(),
    }
}
