//! Definitions of temporary tables: which statements concern no other session, and what takes
//! the place of the catalog's rows.

use std::sync::Arc;

use coeval_sql_syntax::tree::{CreateTable, OnCommit, Path, Persistence};

use super::Change;
use crate::catalog::{Catalog, QualifiedName, Relation, SQL_OBJECTS, Table};
use crate::error::{Error, Result, SqlState};
use crate::statement::{Command, ViewCommand};
use crate::temporary::{self, Temporary};

/// Whether the command creates a temporary table.
pub(crate) fn creates_temporary(command: &Command) -> bool {
    match command {
        Command::CreateTable(create) => is_temporary(create),
        Command::View(ViewCommand::TableAs(create)) => is_temporary(&create.table),
        _ => false,
    }
}

fn is_temporary(create: &CreateTable) -> bool {
    let name = QualifiedName::new(&create.name);
    create.persistence == Persistence::Temporary || name.is_ok_and(|name| name.is_temporary())
}

/// Whether a definition concerns temporary tables only, as the catalog has them: then no other
/// session waits for it, and it writes nothing that others see.
pub(crate) fn concerns_only_temporary(command: &Command, catalog: &Catalog) -> bool {
    let is_own = |path: &Path| {
        let named = QualifiedName::new(path).ok();
        match named.and_then(|name| catalog.named(&name)) {
            Some(Relation::Table(table) | Relation::Index(table, _)) => table.is_temporary(),
            _ => false,
        }
    };
    match command {
        Command::CreateTable(create) => is_temporary(create),
        Command::View(ViewCommand::TableAs(create)) => is_temporary(&create.table),
        Command::CreateIndex(create) => is_own(&create.table.name),
        Command::AlterTable(alter) => is_own(&alter.table.name),
        Command::RenameTable { name, .. } | Command::RenameIndex { name, .. } => is_own(name),
        Command::Drop { names, .. } => catalog.has_temporary() && names.iter().all(is_own),
        Command::Truncate(truncate) => {
            catalog.has_temporary() && truncate.tables.iter().all(is_own)
        }
        _ => false,
    }
}

impl Change<'_> {
    /// The session's temporary tables.
    pub(super) fn temporary(&self) -> Result<&Temporary> {
        let temporary = self.context.temporary;
        temporary.ok_or_else(|| Error::internal("a session without temporary tables"))
    }

    /// What becomes of a new table when a transaction commits; `None` if it is permanent.
    pub(super) fn on_commit(
        &self,
        create: &CreateTable,
        name: &QualifiedName,
    ) -> Result<Option<temporary::OnCommit>> {
        let invalid = |message| Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
        if !is_temporary(create) {
            return match create.storage.on_commit {
                Some(_) => invalid("ON COMMIT can only be used on temporary tables"),
                None => Ok(None),
            };
        }
        if create.persistence == Persistence::Unlogged {
            return invalid("only temporary relations may be created in temporary schemas");
        }
        if name.schema.is_some() && !name.is_temporary() {
            return invalid("cannot create temporary relation in non-temporary schema");
        }
        // The node of the client has to know that it executes no reads for the session.
        self.require_version(SQL_OBJECTS, "a temporary table")?;
        Ok(Some(match create.storage.on_commit {
            None | Some(OnCommit::PreserveRows) => temporary::OnCommit::PreserveRows,
            Some(OnCommit::DeleteRows) => temporary::OnCommit::DeleteRows,
            Some(OnCommit::Drop) => temporary::OnCommit::Drop,
        }))
    }

    /// Adds a new table to the catalog, or to the session's temporary tables.
    pub(super) async fn insert_table(
        &mut self,
        table: Table,
        on_commit: Option<temporary::OnCommit>,
    ) -> Result<()> {
        if let Some(on_commit) = on_commit {
            self.temporary()?.insert(Arc::new(table), on_commit);
            return Ok(());
        }
        self.context
            .store
            .insert_table(&mut *self.context.transaction, &table)
            .await?;
        self.changed = true;
        Ok(())
    }

    /// ALTER TABLE … SET LOGGED and SET UNLOGGED.
    pub(super) async fn set_logged(&mut self, table: &Table, logged: bool) -> Result<Arc<Table>> {
        if table.is_temporary() {
            let name = &table.name;
            return Err(Error::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("cannot change logged status of table \"{name}\" because it is temporary"),
            ));
        }
        let mut table = table.clone();
        table.is_unlogged = !logged;
        self.replace(table).await
    }

    /// Removes a table from where it is kept.
    pub(super) async fn delete_table(&mut self, table: &Table) -> Result<()> {
        if table.is_temporary() {
            self.temporary()?.delete(table.oid);
            return Ok(());
        }
        self.context
            .store
            .delete_described(&mut *self.context.transaction, table.oid)
            .await
    }
}
