//! Utility statements, which have no plan: schema changes, LOCK TABLE, maintenance
//! commands and EXECUTE.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_sql_syntax::tree::{self, ReindexKind};
use coeval_txn::{Isolation, LockWait, TableLock};

use super::Session;
use super::portal::Portal;
use super::prepared::Prepared;
use super::result_writer::{Watched, drain};
use super::run::MAX_REPLANS;
use super::transaction::{Block, Running};
use crate::access::{ObjectKind, Owned, Privileges, denied, not_owner};
use crate::catalog::{Catalog, QualifiedName, Relation};
use crate::definition;
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, CastContext, EvaluationContext, Frame, Parameters, Scope};
use crate::output::{Column, CommandTag, Completion, Notice, Severity, Sink};
use crate::route::{Reason, Route};
use crate::statement::{Command, Statement};
use crate::system;
use crate::value::Value;

impl Session {
    /// Fails with SQLSTATE 25006 when the transaction is read-only.
    pub(super) fn require_writable(&self, command: &str) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {command} in a read-only transaction"),
            ));
        }
        Ok(())
    }

    /// Runs a statement that changes the schema.
    pub(super) async fn define(
        &mut self,
        statement: &Statement,
        sink: &mut dyn Sink,
    ) -> Result<CommandTag> {
        self.define_with(statement, &[], sink).await
    }

    /// [`Session::define`]; `result` are the columns of the query that a table is made of.
    pub(super) async fn define_with(
        &mut self,
        statement: &Statement,
        result: &[Column],
        sink: &mut dyn Sink,
    ) -> Result<CommandTag> {
        self.require_writable("a change of the schema")?;
        // The index is built as any other is, while writers wait.
        if let Command::CreateIndex(create) = statement.command()
            && create.concurrently
        {
            self.refuse_in_transaction("CREATE INDEX CONCURRENTLY cannot run")?;
        }
        self.begin_statement().await?;
        if definition::creates_temporary(statement.command()) {
            self.ensure_temporary()?;
        }
        let only_temporary = match &self.temporary {
            Some(_) => {
                let (catalog, _) = self.current_catalog()?;
                definition::concerns_only_temporary(statement.command(), &catalog)
            }
            None => false,
        };
        let mut notices = Vec::new();
        let database = Arc::clone(&self.database);
        let info = self.info.clone();
        let settings = Arc::clone(&self.settings);
        // A statement that is refused, or whose object exists already, reveals the
        // catalog but has no commit to confirm it.
        let isolation = self.running()?.isolation();
        self.read_confirmation.look(isolation);
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        if !only_temporary {
            running.note_write(matches!(
                statement.command(),
                Command::Drop { .. } | Command::DropSequences { .. } | Command::Truncate(_)
            ));
        }
        let context = definition::Context {
            engine: &*database.engine,
            store: &database.store,
            transaction: &mut *running.transaction,
            storages: &mut running.storages,
            settings: &*settings,
            temporary: self.temporary.as_ref(),
            only_temporary,
            result,
        };
        let tag = definition::execute(context, statement, &info, &mut notices).await;
        for notice in notices {
            sink.notice(notice);
        }
        Ok(CommandTag::new(tag?))
    }

    /// Takes a new snapshot, if the isolation level gives each statement its own.
    pub(super) async fn begin_statement(&mut self) -> Result<()> {
        if !self.ensure_running().await? {
            self.running()?.transaction.begin_statement()?;
        }
        self.statements_ran = true;
        Ok(())
    }

    /// VACUUM and ANALYZE: locks these tables, of which each must exist, as PostgreSQL's
    /// maintenance does. A table of which the role is not the owner is skipped with a warning,
    /// before anything is waited for.
    pub(super) async fn maintain_tables(
        &mut self,
        statement: &Statement,
        tables: &[coeval_sql_syntax::tree::Path],
        verb: &str,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        self.begin_statement().await?;
        let (catalog, _) = self.current_catalog()?;
        let mut own = Vec::with_capacity(tables.len());
        for name in tables {
            let table = definition::find_table(&catalog, name, statement)?;
            let owner = table.owned.owner;
            if catalog.access().has_privileges_of(self.info.role, owner) {
                own.push(name);
                continue;
            }
            let message = format!(
                "skipping \"{}\" --- only table or database owner can {verb} it",
                table.name
            );
            sink.notice(Notice::new(Severity::Warning, SqlState("01000"), message));
        }
        for name in own {
            let (mode, wait) = (TableLock::ShareUpdateExclusive, LockWait::Wait);
            self.lock_table(statement, name, mode, wait, false).await?;
        }
        Ok(())
    }

    /// REINDEX: checks that there is what it names, and that the role may do it. The indexes
    /// stay as they are: they hold no entries that no transaction sees, and nothing wears them out.
    pub(super) async fn reindex(
        &mut self,
        statement: &Statement,
        reindex: &tree::Reindex,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let name = QualifiedName::new(&reindex.name)?;
        let whole = match reindex.kind {
            ReindexKind::Index | ReindexKind::Table => None,
            ReindexKind::Schema => Some("REINDEX SCHEMA cannot run"),
            ReindexKind::System => Some("REINDEX SYSTEM cannot run"),
            ReindexKind::Database => Some("REINDEX DATABASE cannot run"),
        };
        let concurrently = reindex
            .concurrently
            .then_some("REINDEX CONCURRENTLY cannot run");
        if let Some(what) = concurrently.or(whole) {
            self.refuse_in_transaction(what)?;
        }
        self.begin_statement().await?;
        let (catalog, _) = self.current_catalog()?;
        let place = statement.position(name.at);
        let owned = match reindex.kind {
            ReindexKind::Table => {
                let table = definition::find_table(&catalog, &reindex.name, statement)?;
                Some(("table", table.name.clone(), table.owned.owner))
            }
            ReindexKind::Index => match catalog.relation(&name.name) {
                Some(Relation::Index(table, index)) => {
                    Some(("index", index.name.clone(), table.owned.owner))
                }
                Some(_) => {
                    let message = format!("\"{}\" is not an index", name.name);
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).at(place));
                }
                None => {
                    let message = format!("relation \"{}\" does not exist", name.name);
                    return Err(Error::new(SqlState::UNDEFINED_TABLE, message).at(place));
                }
            },
            ReindexKind::Schema => {
                let mut schemas = system::listed_schemas(&catalog);
                if !schemas.any(|(_, known, _)| known == name.name) {
                    let message = format!("schema \"{}\" does not exist", name.name);
                    return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, message));
                }
                Some(("schema", name.name.clone(), catalog.access().schema.owner))
            }
            ReindexKind::System | ReindexKind::Database if name.name != self.info.database => {
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "can only reindex the currently open database",
                ));
            }
            ReindexKind::System | ReindexKind::Database => {
                Some(("database", name.name.clone(), crate::access::FIRST_ROLE))
            }
        };
        if let Some((kind, name, owner)) = owned
            && !catalog.access().has_privileges_of(self.info.role, owner)
        {
            return Err(not_owner(kind, &name));
        }
        sink.notice(Notice::new(
            Severity::Notice,
            SqlState::SUCCESSFUL_COMPLETION,
            "there is nothing to reindex: indexes hold no dead entries",
        ));
        Ok(())
    }

    /// Fails in a transaction block, and after statements of the same query that wrote: for
    /// a statement that runs outside of transactions and gives up the running one.
    pub(super) fn refuse_in_transaction(&self, what: &str) -> Result<()> {
        let wrote = self.running.as_ref().is_some_and(Running::wrote);
        if self.block != Block::Explicit && !wrote {
            return Ok(());
        }
        Err(Error::new(
            SqlState::ACTIVE_SQL_TRANSACTION,
            format!("{what} inside a transaction block"),
        ))
    }

    /// BACKUP TO STDOUT: sends the engine's bytes to the client as COPY TO sends lines.
    pub(super) async fn backup(&mut self, sink: &mut dyn Sink) -> Result<CommandTag> {
        self.refuse_in_transaction("BACKUP cannot run")?;
        self.require_superuser("BACKUP").await?;
        // The transaction's snapshot would retain old versions for as long as the client
        // reads.
        self.note_seen();
        self.abort_running();
        // The owner of the backup relies on its being complete, so the leader must be
        // confirmed.
        self.read_confirmation.look(Isolation::ReadCommitted);
        let mut pieces = self.database.engine.backup()?;
        sink.copy_out(0);
        while let Some(piece) = poll_fn(|context| pieces.poll_next(context)).await {
            sink.copy_data(&piece?);
            let dependencies = self.dependencies();
            drain(sink, dependencies, &self.ticket).await?;
        }
        Ok(CommandTag::new("BACKUP"))
    }

    /// CHECKPOINT. A canceled statement only stops waiting; the checkpoint continues.
    pub(super) async fn checkpoint(&mut self) -> Result<()> {
        /// Interval at which the session checks whether the statement was canceled.
        const LOOK: Duration = Duration::from_millis(50);
        let cancel = Arc::clone(&self.info.cancel);
        let mut checkpoint = self.database.engine.checkpoint();
        loop {
            match coeval_env::timeout(LOOK, &mut checkpoint).await {
                Ok(done) => return done.map_err(Error::from),
                Err(coeval_env::Elapsed) if cancel.load(Ordering::Relaxed) => {
                    return Err(Error::canceled());
                }
                Err(coeval_env::Elapsed) => {}
            }
        }
    }

    /// LOCK TABLE: takes the table locks in the requested mode, one after the other.
    ///
    /// At REPEATABLE READ and SERIALIZABLE, the first statement of a transaction does not
    /// fix its snapshot if it is a LOCK TABLE: the statements after it see what was
    /// committed before the locks were acquired.
    pub(super) async fn lock_tables(
        &mut self,
        statement: &Statement,
        tables: &[coeval_sql_syntax::tree::Path],
        mode: TableLock,
        wait: LockWait,
    ) -> Result<()> {
        if self.block != Block::Explicit {
            return Err(Error::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        let ran = self.statements_ran || self.running.as_ref().is_some_and(Running::wrote);
        self.begin_statement().await?;
        self.statements_ran = ran;
        for name in tables {
            if !self.lock_view(statement, name, mode, wait).await? {
                self.lock_table(statement, name, mode, wait, true).await?;
            }
        }
        if !ran {
            self.running()?.transaction.renew_snapshot()?;
        }
        Ok(())
    }

    /// Locks a table by its name; `asked` says that LOCK TABLE asks for it, which needs
    /// privileges. Looks the name up again when the table's definition has changed
    /// meanwhile.
    pub(super) async fn lock_table(
        &mut self,
        statement: &Statement,
        name: &coeval_sql_syntax::tree::Path,
        mode: TableLock,
        wait: LockWait,
        asked: bool,
    ) -> Result<()> {
        let (role, ran) = (self.info.role, self.statements_ran);
        let mut tries = 0;
        loop {
            let (catalog, _) = self.current_catalog()?;
            let table = definition::find_table(&catalog, name, statement)?;
            if asked {
                may_lock(&catalog, "table", (&table.name, &table.owned), role, mode)?;
            }
            let (storage, version) = (table.storage, table.schema_version);
            let running = self.running()?;
            let renews = !ran || running.isolation() == Isolation::ReadCommitted;
            let transaction = &mut running.transaction;
            let locked =
                poll_fn(|task| transaction.poll_lock_table(storage, mode, wait, version, task))
                    .await;
            match locked {
                Err(coeval_txn::Error::SchemaChanged(_)) if renews && tries < MAX_REPLANS => {
                    tries += 1;
                    match ran {
                        true => transaction.begin_statement()?,
                        false => transaction.renew_snapshot()?,
                    }
                }
                // The transaction goes on with the table as its snapshot shows it.
                Err(coeval_txn::Error::SchemaChanged(_)) if mode == TableLock::AccessShare => {
                    return Ok(());
                }
                locked => return locked.map_err(Error::from),
            }
        }
    }

    /// EXECUTE: runs a statement that was prepared under a name.
    pub(super) async fn execute_named(
        &mut self,
        portal: &mut Portal,
        name: &str,
        arguments: &[coeval_sql_syntax::tree::Expr],
        most: Option<u32>,
        sink: &mut Watched<'_>,
    ) -> Result<Completion> {
        let named = Arc::clone(self.named(name)?);
        if named.columns() != portal.columns() {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            ));
        }
        portal.parameters = self
            .arguments(name, &named, arguments, &portal.prepared.statement)
            .await?;
        if !named.has_plan() {
            return Err(Error::unsupported("EXECUTE of a statement without a plan"));
        }
        portal.prepared = named;
        self.start_planned(portal, most, sink).await
    }

    /// Evaluates the arguments of EXECUTE as parameter values.
    pub(super) async fn arguments(
        &mut self,
        name: &str,
        named: &Prepared,
        arguments: &[coeval_sql_syntax::tree::Expr],
        statement: &Statement,
    ) -> Result<Vec<Value>> {
        let types = named.types();
        if arguments.len() != types.len() {
            return Err(Error::syntax(format!(
                "wrong number of parameters for prepared statement \"{name}\""
            ))
            .with_detail(format!(
                "Expected {} parameters but got {}.",
                types.len(),
                arguments.len()
            )));
        }
        self.ensure_running().await?;
        let (catalog, _) = self.current_catalog()?;
        let (expressions, interrupts, route) = {
            let locate = |location| statement.position(location);
            let mut binder = Binder::new(&catalog, &self.info, &locate, Parameters::default());
            let frame = Frame::outermost();
            let empty = Scope::empty(&frame);
            let mut expressions = Vec::with_capacity(arguments.len());
            for (argument, data_type) in arguments.iter().zip(types) {
                let bound = binder.bind(argument, &empty)?;
                expressions.push(
                    binder
                        .cast(bound, (*data_type).into(), CastContext::Assignment)?
                        .expression,
                );
            }
            (expressions, binder.interrupts, binder.route)
        };
        if route == Route::Leader(Reason::Interrupts) {
            self.find_sessions(&interrupts, &[]).await;
        }
        let mut context = EvaluationContext::new(&self.info, &catalog, &[], None);
        expressions
            .iter()
            .map(|expression| expression.evaluate(&mut context, &[]))
            .collect()
    }
}

/// Fails with SQLSTATE 42501 unless the role may lock the table in this mode: SELECT is
/// needed for ACCESS SHARE, any privilege to write for ROW EXCLUSIVE, and for all others
/// UPDATE, DELETE or TRUNCATE.
pub(super) fn may_lock(
    catalog: &Catalog,
    kind: &str,
    (name, owned): (&str, &Owned),
    role: u32,
    mode: TableLock,
) -> Result<()> {
    let access = catalog.access();
    let may = access.privileges(role, owned, ObjectKind::Table);
    let changes = Privileges::UPDATE
        .with(Privileges::DELETE)
        .with(Privileges::TRUNCATE);
    let enough = match mode {
        TableLock::AccessShare => Privileges::SELECT,
        TableLock::RowExclusive => changes.with(Privileges::INSERT),
        _ => changes,
    };
    if may.both(enough).is_none() {
        return Err(denied(kind, name));
    }
    Ok(())
}
