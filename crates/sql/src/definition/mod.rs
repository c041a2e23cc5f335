//! DDL: CREATE, ALTER, DROP, TRUNCATE, GRANT, REVOKE.
//!
//! Every schema change takes the same steps:
//!
//! 1. Lock the catalog's version row. This serialises all schema changes; at READ
//!    COMMITTED a new snapshot then shows what the previous one has committed.
//! 2. Resolve names, and check that the change is valid and that the role may make it.
//! 3. Lock the tables concerned, in PostgreSQL's mode for the change: active writers end
//!    first, later ones wait; before a change that readers would see, readers as well.
//!    Snapshots that were taken before keep the schema that they show.
//! 4. Create what the engine needs (storages, indexes), and write the catalog's rows.
//! 5. Give the tables a new schema version, so that writers with a plan for the old one
//!    plan again.
//! 6. Give the catalog a new version.
//!
//! ```text
//!   alter table t add primary key (a)
//!     version row: lock ─ t: access exclusive ─ build index ─ rewrite t's row ─ version
//!     insert into t …        waits here ────────────────────── commit ─▶ plans again
//! ```
//!
//! TRUNCATE and changes that rewrite rows give the table a new storage. The old one
//! stays for older snapshots, and for a rollback.

mod alter;
mod check;
mod comment;
mod constraint;
mod depend;
mod extension;
mod generated;
mod grant;
mod index;
mod like;
mod parts;
mod rewrite;
mod role;
mod role_settings;
mod sequence;
mod sequence_options;
mod storages;
mod table;
mod table_as;
mod temporary;
mod view;
mod viewed;

use std::sync::Arc;

use coeval_sql_syntax::tree::Path;
use coeval_txn::{Engine, Isolation, TableLock, Transaction};
use coeval_types::StorageId;

use crate::catalog::{
    Catalog, Comments, Index, NAMED_OBJECTS, Object, QualifiedName, Relation, Store, Table,
    lock_version, needed_version,
};
use crate::error::{Error, Result, SqlState};
use crate::expression::{EvaluationContext, SessionInfo};
use crate::output::{Column, Notice, Severity};
use crate::statement::{Command, SequenceChange, Statement};
use crate::temporary::Temporary;
pub(crate) use role_settings::SettingChecks;
pub(crate) use storages::{Storages, StoragesMark};
pub(crate) use temporary::{concerns_only_temporary, creates_temporary};

/// Session state that a schema change works on.
pub(crate) struct Context<'session> {
    pub(crate) engine: &'session dyn Engine,
    pub(crate) store: &'session Store,
    pub(crate) transaction: &'session mut (dyn Transaction + 'static),
    pub(crate) storages: &'session mut Storages,
    /// The session's settings.
    pub(crate) settings: &'session dyn SettingChecks,
    /// The session's temporary tables, if it has had any.
    pub(crate) temporary: Option<&'session Temporary>,
    /// Whether the statement concerns temporary tables only, so that no other session waits
    /// for it.
    pub(crate) only_temporary: bool,
    /// Columns of the query that CREATE TABLE AS makes a table of.
    pub(crate) result: &'session [Column],
}

/// A schema change being executed.
struct Change<'session> {
    context: Context<'session>,
    statement: &'session Statement,
    session: &'session SessionInfo,
    /// The catalog as the transaction sees it, with the statement's changes so far.
    catalog: Arc<Catalog>,
    /// New version of the catalog, and new schema version of the changed tables.
    version: u64,
    notices: &'session mut Vec<Notice>,
    /// Whether the statement has changed the catalog.
    changed: bool,
}

/// Executes a DDL command. Returns its command tag. The caller has already declared the
/// transaction as writing.
pub(crate) async fn execute(
    context: Context<'_>,
    statement: &Statement,
    session: &SessionInfo,
    notices: &mut Vec<Notice>,
) -> Result<&'static str> {
    if !context.only_temporary && !lock_version(&mut *context.transaction).await? {
        context.transaction.begin_statement()?;
    }
    let catalog = context.store.catalog(&mut *context.transaction, None)?;
    let catalog = match context.temporary {
        Some(temporary) => temporary.over(&catalog, context.store),
        None => catalog,
    };
    let version = context.store.counters.version();
    let mut change = Change {
        context,
        statement,
        session,
        catalog,
        version,
        notices,
        changed: false,
    };
    let tag = match statement.command() {
        Command::CreateTable(create) => change.create_table(create).await?,
        Command::CreateIndex(create) => change.create_index(create).await?,
        Command::AlterTable(alter) => change.alter_table(alter).await?,
        Command::RenameTable {
            name,
            if_exists,
            action,
        } => change.rename_table(name, *if_exists, action).await?,
        Command::RenameIndex {
            name,
            if_exists,
            new_name,
        } => change.rename_index(name, *if_exists, new_name).await?,
        Command::Drop {
            indexes: false,
            names,
            if_exists,
            cascade,
        } => change.drop_tables(names, *if_exists, *cascade).await?,
        Command::Drop {
            indexes: true,
            names,
            if_exists,
            ..
        } => change.drop_indexes(names, *if_exists).await?,
        Command::Truncate(command) => change.truncate(command).await?,
        Command::View(command) => change.views(command).await?,
        Command::CreateSequence(create) => change.create_sequence(create).await?,
        Command::AlterSequence(alter) => change.alter_sequence(alter).await?,
        Command::ChangeSequence {
            name,
            if_exists,
            change: SequenceChange::Rename(new_name),
        } => change.rename_sequence(name, *if_exists, new_name).await?,
        Command::ChangeSequence {
            name,
            if_exists,
            change: SequenceChange::Owner(owner),
        } => change.sequence_owner(name, *if_exists, owner).await?,
        Command::DropSequences {
            names,
            if_exists,
            cascade,
        } => change.drop_sequences(names, *if_exists, *cascade).await?,
        Command::Role(command) => change.role(command).await?,
        Command::Grant(command) => change.grant(command).await?,
        Command::CreateExtension(create) => change.create_extension(create).await?,
        Command::DropExtensions { names, if_exists } => {
            change.drop_extensions(names, *if_exists).await?
        }
        Command::SchemaOwner { schema, owner } => change.schema_owner(schema, owner).await?,
        other => {
            return Err(Error::internal(format!("not a definition: {other:?}")));
        }
    };
    if change.changed {
        change.forget_comments().await?;
        let version = change.version;
        change
            .context
            .store
            .write_version(&mut *change.context.transaction, version)
            .await?;
    }
    Ok(tag)
}

impl Change<'_> {
    fn transaction(&mut self) -> &mut dyn Transaction {
        &mut *self.context.transaction
    }

    /// Fails if the statement is canceled or its deadline has passed.
    fn check_canceled(&self) -> Result<()> {
        EvaluationContext::new(self.session, &self.catalog, &[], None).check_canceled()
    }

    fn notice(&mut self, state: SqlState, message: String) {
        self.notices
            .push(Notice::new(Severity::Notice, state, message));
    }

    /// Splits a name; fails for schemas other than `public` and that of temporary tables.
    fn name(&self, name: &Path) -> Result<QualifiedName> {
        let name = QualifiedName::new(name)?;
        if name.is_temporary() {
            return Ok(name);
        }
        name.require_public()
            .map_err(|error| error.at(self.statement.position(name.at)))?;
        Ok(name)
    }

    /// The table of this name.
    fn table(&self, name: &Path) -> Result<Arc<Table>> {
        find_table(&self.catalog, name, self.statement)
    }

    /// Whether the name is unused. If it is used, fails; with IF NOT EXISTS, sends a
    /// notice and returns false instead.
    fn check_free(&mut self, name: &str, if_not_exists: bool) -> Result<bool> {
        self.check_free_in(false, name, if_not_exists)
    }

    /// [`Change::check_free`] in the schema of this table.
    fn check_free_beside(
        &mut self,
        table: &Table,
        name: &str,
        if_not_exists: bool,
    ) -> Result<bool> {
        match table.is_temporary() {
            true => self.check_free_in(true, name, if_not_exists),
            false => self.check_free(name, if_not_exists),
        }
    }

    /// [`Change::check_free`] among temporary relations, or among all others.
    fn check_free_in(&mut self, temporary: bool, name: &str, if_not_exists: bool) -> Result<bool> {
        let found = match temporary {
            true => self.catalog.temporary_relation(name),
            false => self.catalog.relation(name),
        };
        if found.is_none() {
            return Ok(true);
        }
        if !if_not_exists {
            return Err(Error::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            ));
        }
        self.notice(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{name}\" already exists, skipping"),
        );
        Ok(false)
    }

    /// Locks the table in a mode that waits for active writers and excludes later ones; in
    /// ACCESS EXCLUSIVE mode for readers, too. At READ COMMITTED, then takes a new
    /// snapshot, which shows their commits.
    async fn lock(&mut self, table: &Table, mode: TableLock) -> Result<()> {
        coeval_txn::lock_table(
            &mut *self.context.transaction,
            table.storage,
            mode,
            table.schema_version,
        )
        .await?;
        if self.context.transaction.isolation() == Isolation::ReadCommitted {
            self.context.transaction.begin_statement()?;
        }
        Ok(())
    }

    /// Fails at REPEATABLE READ, where the snapshot may be older than the lock: a
    /// change that must read all rows would miss some without a conflict.
    fn require_all_rows(&self, what: &str) -> Result<()> {
        if self.context.transaction.isolation() == Isolation::SnapshotIsolation {
            return Err(Error::unsupported(format!(
                "{what} in a REPEATABLE READ transaction"
            )));
        }
        Ok(())
    }

    /// Changes a storage's schema version, so that writers with a plan for the old
    /// schema plan again.
    fn outdate(&mut self, storage: StorageId) -> Result<()> {
        let version = self.version;
        self.transaction().set_schema_version(storage, version)?;
        Ok(())
    }

    /// Writes a table's new descriptor and uses it for the rest of the statement. The
    /// table has its old storage or a new one.
    async fn replace(&mut self, mut table: Table) -> Result<Arc<Table>> {
        let old = self
            .catalog
            .table_by_oid(table.oid)
            .cloned()
            .ok_or_else(|| Error::internal("a table to be changed is gone"))?;
        self.require_readers(&table)?;
        table.schema_version = self.version;
        self.outdate(old.storage)?;
        let table = Arc::new(table);
        match table.is_temporary() {
            true => self.temporary()?.update(Arc::clone(&table))?,
            false => {
                self.context
                    .store
                    .update_table(&mut *self.context.transaction, &table)
                    .await?;
            }
        }
        self.keep(Some(Arc::clone(&table)), table.oid);
        Ok(table)
    }

    /// Replaces the table with this OID in the statement's catalog; removes it if
    /// `table` is `None`.
    fn keep(&mut self, table: Option<Arc<Table>>, oid: u32) {
        let is_temporary = |table: &Arc<Table>| table.is_temporary();
        let known = self.catalog.table_by_oid(oid);
        let own = table.as_ref().or(known).is_some_and(is_temporary);
        self.catalog = self.catalog_with(table, oid);
        self.changed |= !own;
    }

    /// The statement's catalog with another table in the place of the one with this OID, or
    /// without it.
    fn catalog_with(&self, table: Option<Arc<Table>>, oid: u32) -> Arc<Catalog> {
        let others = self.catalog.tables().filter(|each| each.oid != oid);
        let catalog = Catalog::new(
            self.catalog.version(),
            others.cloned().chain(table),
            self.catalog.objects().cloned(),
            Arc::clone(self.catalog.access()),
        );
        Arc::new(catalog.with_comments(Arc::clone(self.catalog.comments())))
    }

    /// Likewise, for the sequence or view with this OID.
    fn keep_object(&mut self, object: Option<Arc<Object>>, oid: u32) {
        let others = self.catalog.objects().filter(|each| each.oid != oid);
        let catalog = Catalog::new(
            self.catalog.version(),
            self.catalog.tables().cloned(),
            others.cloned().chain(object),
            Arc::clone(self.catalog.access()),
        );
        self.catalog = Arc::new(catalog.with_comments(Arc::clone(self.catalog.comments())));
        self.changed = true;
    }

    /// Uses these comments for the rest of the statement.
    fn keep_comments(&mut self, comments: Comments) {
        let catalog = Catalog::clone(&self.catalog);
        self.catalog = Arc::new(catalog.with_comments(Arc::new(comments)));
        self.changed = true;
    }

    /// Writes the row of a new sequence or view, or replaces it, and uses the object for the rest
    /// of the statement.
    async fn write_object(&mut self, object: Object) -> Result<Arc<Object>> {
        self.require_objects(&format!("a {}", object.kind()))?;
        let (store, oid) = (self.context.store, object.oid);
        let transaction = &mut *self.context.transaction;
        match self.catalog.object_by_oid(oid) {
            None => store.insert_object(transaction, &object).await?,
            Some(_) => store.update_object(transaction, &object).await?,
        }
        let object = Arc::new(object);
        self.keep_object(Some(Arc::clone(&object)), oid);
        Ok(object)
    }

    /// Fails as long as a node of the cluster may not read the row that `what`, which is no
    /// table, has in the catalog.
    fn require_objects(&self, what: &str) -> Result<()> {
        self.require_version(NAMED_OBJECTS, what)
    }

    /// Fails as long as a node of the cluster may not read this table's row.
    fn require_readers(&self, table: &Table) -> Result<()> {
        self.require_version(needed_version(table), "a table of this kind")
    }

    /// Fails as long as a node of the cluster may not read this cluster version, which `what`
    /// needs.
    fn require_version(&self, version: u32, what: &str) -> Result<()> {
        if self.session.around.reads_version(version) {
            return Ok(());
        }
        let feature = format!("{what}, before all nodes of the cluster read it,");
        Err(Error::unsupported(feature).with_hint(format!(
            "That takes cluster version {version}; \"coeval cluster status\" says what holds it \
             back."
        )))
    }

    /// Creates a table's storage, empty.
    fn attach(&mut self, table: &Table) -> Result<()> {
        if table.is_temporary() {
            return self.temporary()?.attach(table.definition());
        }
        self.context.engine.attach_storage(table.definition())?;
        self.context.storages.note_made(table.storage);
        Ok(())
    }

    /// The index of this name, with its table.
    fn index(&self, name: &Path) -> Result<Option<(Arc<Table>, Arc<Index>)>> {
        let name = self.name(name)?;
        match self.catalog.named(&name) {
            None => Ok(None),
            Some(Relation::Index(table, index)) => Ok(Some((table, index))),
            Some(Relation::Table(_) | Relation::Object(_)) => Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not an index", name.name),
            )),
        }
    }
}

/// Looks up the table that a statement names.
pub(crate) fn find_table(
    catalog: &Catalog,
    name: &Path,
    statement: &Statement,
) -> Result<Arc<Table>> {
    let name = QualifiedName::new(name)?;
    catalog
        .named_table(&name)
        .cloned()
        .map_err(|error| error.at(statement.position(name.at)))
}

/// Joins names, for messages and generated names.
fn joined<'name>(names: impl IntoIterator<Item = &'name str>, separator: &str) -> String {
    names.into_iter().collect::<Vec<_>>().join(separator)
}
