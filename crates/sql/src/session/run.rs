//! Executing portals: restarts after conflicts, replanning, and delivery of rows.

use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::Arc;

use coeval_txn::{Error as TxnError, Isolation, LockWait, ResponseDependencies, TableLock};

use super::Session;
use super::interrupting::Asks;
use super::plan::{Plan, PlannedLock};
use super::portal::{Portal, PortalProgress};
use super::read_confirmation::Open;
use super::result_writer::{ResultWriter, Watched, drain};
use super::transaction::Block;
use crate::catalog::Catalog;
use crate::change::{self, ChangePlan, Changed};
use crate::error::{Error, Result, SqlState};
use crate::expression::{EvaluationContext, ROW, heap_bytes};
use crate::output::{CommandTag, Completion, Notice, Severity, Sink};
use crate::route::{Reason, Route};
use crate::select::{Cursor, row_bytes};
use crate::statement::{Command, ViewCommand};
use crate::value::Value;

/// Maximum number of restarts after a conflict, before the client receives the error.
const MAX_RESTARTS: u32 = 20;

/// Maximum number of times a statement is planned again because the schema has changed.
pub(super) const MAX_REPLANS: u32 = 100;

/// Result of starting a statement.
pub(super) enum Started {
    Completed(Completion),
    /// The schema has changed since the statement was planned; nothing was executed.
    Outdated,
}

/// Whether a transaction that fails like this may succeed when it is run again.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(
        error.state(),
        SqlState::SERIALIZATION_FAILURE | SqlState::DEADLOCK_DETECTED
    )
}

/// The error of a statement that was planned anew too often.
pub(super) fn keeps_changing() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "the definition of a table keeps changing",
    )
}
/// Memory of a row in bytes above which encoding it takes long, so that other tasks are
/// handed over first.
const WRITTEN_AT_ONCE: usize = 64 << 10;

impl Session {
    /// [`Session::execute`] without failing the transaction on an error.
    pub(super) async fn run_portal(
        &mut self,
        portal: &mut Portal,
        max_rows: Option<NonZeroU32>,
        sink: &mut Watched<'_>,
    ) -> Result<Completion> {
        let most = max_rows.map(NonZeroU32::get);
        if !matches!(portal.progress, PortalProgress::New) {
            self.check_not_failed()?;
        }
        match &mut portal.progress {
            PortalProgress::New => {
                if !self.cursors.is_empty() && portal.disturbs() {
                    self.settle_cursors().await?;
                }
                self.start(portal, most, sink).await
            }
            PortalProgress::Query { epoch, .. } => {
                let ended = *epoch != self.epoch || self.running.is_none();
                if ended || !self.is_alive(portal) {
                    return Err(Error::new(
                        SqlState::INVALID_CURSOR_NAME,
                        "the portal's transaction has ended, or was rolled back to before it",
                    ));
                }
                self.run_query(portal, most, sink).await
            }
            PortalProgress::Rows { .. } | PortalProgress::Collected(_) => {
                self.run_rows(portal, most, sink).await
            }
            // A portal that returned rows has no more of them at its end; nothing is
            // executed again.
            PortalProgress::Done(tag) if portal.prepared.columns().is_some() => {
                let rows = tag.rows.map(|_| 0);
                Ok(Completion::Complete(CommandTag { rows, ..*tag }))
            }
            PortalProgress::Done(_) => Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the portal has been run already",
            )),
        }
    }

    async fn start(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut Watched<'_>,
    ) -> Result<Completion> {
        let prepared = Arc::clone(&portal.prepared);
        let statement = &prepared.statement;
        let command = statement.command();
        if let Command::Empty = command {
            return Ok(Completion::Empty);
        }
        self.check_route(command, statement.route())?;
        if !statement.is_transaction_exit() {
            self.check_not_failed()?;
        }
        if let Some(columns) = prepared.columns() {
            sink.columns(columns, &portal.formats);
        }
        let tag = match command {
            Command::Planned { .. }
            | Command::Query(_)
            | Command::Insert(_)
            | Command::Update(_)
            | Command::Delete(_)
            | Command::Copy(_)
            | Command::Explain(_) => return self.start_planned(portal, most, sink).await,
            Command::Show(name) => {
                let rows = self.show(name)?;
                portal.progress = PortalProgress::Rows {
                    rows: rows.into(),
                    tag: CommandTag::new("SHOW"),
                };
                return self.run_rows(portal, most, sink).await;
            }
            Command::Prepare {
                name,
                types,
                statement,
            } => {
                self.prepare_named(name, types, statement).await?;
                CommandTag::new("PREPARE")
            }
            Command::Execute { name, arguments } => {
                return self
                    .execute_named(portal, name, arguments, most, sink)
                    .await;
            }
            Command::Declare(declare) => {
                let parameters = (prepared.parameter_types(), portal.parameters.clone());
                self.declare(declare, parameters).await?;
                CommandTag::new("DECLARE CURSOR")
            }
            Command::Fetch(fetch) => {
                let columns = prepared.columns().unwrap_or_default();
                let result = (columns, &portal.formats[..]);
                let count = self.fetch(fetch, result, sink).await?;
                let most = fetch.count.map(i64::unsigned_abs);
                match (portal.stands_for_cursor, fetch.only_move) {
                    (true, _) if most == Some(count) => return Ok(Completion::Suspended),
                    (true, _) => CommandTag::with_rows("SELECT", count),
                    (false, true) => CommandTag::with_rows("MOVE", count),
                    (false, false) => CommandTag::with_rows("FETCH", count),
                }
            }
            Command::CloseCursor(name) => CommandTag::new(self.close_cursors(name.as_deref())?),
            Command::CreateTable(_)
            | Command::CreateIndex(_)
            | Command::AlterTable(_)
            | Command::RenameTable { .. }
            | Command::RenameIndex { .. }
            | Command::Drop { .. }
            | Command::Truncate(_)
            | Command::CreateSequence(_)
            | Command::AlterSequence(_)
            | Command::ChangeSequence { .. }
            | Command::DropSequences { .. }
            | Command::Role(_)
            | Command::Grant(_)
            | Command::CreateExtension(_)
            | Command::DropExtensions { .. }
            | Command::SchemaOwner { .. } => self.define(statement, sink).await?,
            Command::View(ViewCommand::TableAs(create)) => {
                self.create_table_as(statement, create, sink).await?
            }
            Command::View(_) => self.define(statement, sink).await?,
            Command::SetRole { tag, local, name } => {
                self.set_role(*local, name.as_deref(), sink).await?;
                CommandTag::new(tag)
            }
            Command::SetAuthorization { tag, local, name } => {
                self.set_authorization(*local, name.as_deref(), sink)
                    .await?;
                CommandTag::new(tag)
            }
            Command::Lock { tables, mode, wait } => {
                self.lock_tables(statement, tables, *mode, *wait).await?;
                CommandTag::new("LOCK TABLE")
            }
            Command::Vacuum(tables) => {
                if self.block == Block::Explicit {
                    return Err(Error::new(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "VACUUM cannot run inside a transaction block",
                    ));
                }
                self.maintain_tables(statement, tables, "vacuum", sink)
                    .await?;
                sink.notice(Notice::new(
                    Severity::Notice,
                    SqlState::SUCCESSFUL_COMPLETION,
                    "there is nothing to vacuum: old versions go as soon as no snapshot needs them",
                ));
                CommandTag::new("VACUUM")
            }
            Command::Analyze(tables) => {
                self.analyze(statement, tables, sink).await?;
                CommandTag::new("ANALYZE")
            }
            Command::Reindex(reindex) => {
                self.reindex(statement, reindex, sink).await?;
                CommandTag::new("REINDEX")
            }
            Command::Backup => self.backup(sink).await?,
            Command::Checkpoint => {
                self.require_superuser("CHECKPOINT").await?;
                self.checkpoint().await?;
                CommandTag::new("CHECKPOINT")
            }
            _ => {
                if let Command::Discard(_) = command {
                    self.begin_discard().await?;
                }
                if let Some(tag) = self.control(command, sink).await? {
                    tag
                } else if let Some(tag) = self.configure(command, sink)? {
                    tag
                } else {
                    return Err(Error::internal(format!("nothing runs {command:?}")));
                }
            }
        };
        portal.progress = PortalProgress::Done(tag);
        Ok(Completion::Complete(tag))
    }

    /// Starts a statement that has a plan. Restarts it after a conflict, as long as the
    /// client has seen nothing of its transaction.
    pub(super) async fn start_planned(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut Watched<'_>,
    ) -> Result<Completion> {
        let mut restarts = 0;
        let held = self.advisory_locks_held();
        self.info.elsewhere = None;
        self.asks = match self.is_alone() && most.is_none() {
            true => Asks::Later,
            false => Asks::First,
        };
        loop {
            let alone = self.is_alone();
            let result = self.try_planned(portal, most, sink).await;
            let result = match result {
                Ok(completion) => self.commit_early(completion, sink).await,
                Err(error) => Err(error),
            };
            let may_restart = alone && self.copy.is_none() && !sink.drained;
            let restarts_left = may_restart && restarts < MAX_RESTARTS;
            let error = match result {
                Err(error) if restarts_left => error,
                result => {
                    self.asks = Asks::First;
                    return result;
                }
            };
            // A lock that outlives the transaction would be taken twice, and a deadlock that the
            // session's locks are part of found again.
            let locks = self.advisory_locks_held();
            let may_pass = is_conflict(&error) && locks == 0;
            if !may_pass && (locks != held || !self.find_lacking_sessions().await) {
                self.asks = Asks::First;
                return Err(error);
            }
            restarts += 1;
            self.abort_running();
            sink.restart();
            sink.drained = false;
            portal.progress = PortalProgress::New;
            coeval_env::yield_now().await;
        }
    }

    /// Number of advisory locks that the session holds beyond its transaction.
    fn advisory_locks_held(&self) -> u64 {
        let locks = self.info.advisory.as_ref();
        locks.map_or(0, |locks| locks.held_beyond_transaction())
    }

    /// Commits the implicit transaction with its last statement, if that is known to be
    /// the last.
    async fn commit_early(
        &mut self,
        completion: Completion,
        sink: &mut Watched<'_>,
    ) -> Result<Completion> {
        if let Some(refused) = sink.refused() {
            return Err(refused);
        }
        if self.finishing
            && self.block == Block::Implicit
            && matches!(completion, Completion::Complete(_))
        {
            self.note_seen();
            self.commit_block().await?;
        }
        Ok(completion)
    }

    pub(super) async fn try_planned(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        let began = self.ensure_running().await?;
        let mut fresh = self.renew_here(began)?;
        for _ in 0..MAX_REPLANS {
            if !fresh {
                self.running()?.transaction.begin_statement()?;
            }
            fresh = false;
            self.statements_ran = true;
            let (catalog, look) = self.current_catalog()?;
            let (plan, locks) =
                self.current_plan(&Arc::clone(&portal.prepared), &catalog, false)?;
            let route = portal.prepared.route();
            self.check_route(portal.prepared.statement.command(), route)?;
            if route == Route::Leader(Reason::Interrupts) {
                let interrupts = portal.prepared.interrupts();
                self.find_sessions(&interrupts, &portal.parameters).await;
                portal.elsewhere.clone_from(&self.info.elsewhere);
            }
            match plan.looks() {
                true => self.read_confirmation.shows(),
                false => self.read_confirmation.not_looked(look),
            }
            if let Plan::Query(query) = &*plan
                && query.locks_rows()
            {
                self.require_writable("SELECT FOR UPDATE")?;
                self.running()?.note_lock();
            }
            if !self.lock_planned(&locks).await? {
                continue;
            }
            let started = match &*plan {
                Plan::Query(query) => {
                    let open = Open::of(self.block, self.running()?);
                    if self.finishing && open != Open::Written {
                        // The client waits for this commit, so the confirmation is
                        // requested now.
                        self.read_confirmation
                            .confirmation(&*self.database.engine, open);
                    }
                    portal.progress = PortalProgress::Query {
                        cursor: Cursor::new(query),
                        plan: Arc::clone(query),
                        catalog,
                        epoch: self.epoch,
                        kept: None,
                    };
                    Started::Completed(self.run_query(portal, most, sink).await?)
                }
                Plan::Change(change) => {
                    self.run_change(portal, change, &catalog, most, sink)
                        .await?
                }
                Plan::With(changes, main) => {
                    let changed = self
                        .execute_with(changes, main, &catalog, &portal.parameters)
                        .await?;
                    match changed {
                        Changed::Outdated => Started::Outdated,
                        Changed::Rows { count, returned } => {
                            let (command, returns) = match &**main {
                                Plan::Change(change) => {
                                    (change.command(), change.returning.is_some())
                                }
                                _ => ("SELECT", true),
                            };
                            let tag = CommandTag::with_rows(command, count);
                            self.deliver(portal, (returned, tag, returns), most, sink)
                                .await?
                        }
                    }
                }
                Plan::Copy(copy) => {
                    let started = self.start_copy(copy, &catalog, sink).await?;
                    if let Started::Completed(Completion::Complete(tag)) = started {
                        portal.progress = PortalProgress::Done(tag);
                    }
                    started
                }
                Plan::Explain(plan, route) => {
                    let explain = match portal.prepared.statement.command() {
                        Command::Explain(explain) => explain.clone(),
                        _ => return Err(Error::internal("an EXPLAIN that is none")),
                    };
                    let lines = self
                        .explain(
                            &explain,
                            (plan, *route),
                            &catalog,
                            &portal.parameters,
                            &portal.prepared.statement,
                        )
                        .await?;
                    let Some(lines) = lines else { continue };
                    portal.progress = PortalProgress::Rows {
                        rows: lines
                            .into_iter()
                            .map(|line| vec![Value::text(line)])
                            .collect(),
                        tag: CommandTag::new("EXPLAIN"),
                    };
                    Started::Completed(self.run_rows(portal, most, sink).await?)
                }
            };
            match started {
                Started::Completed(completion) => return Ok(completion),
                Started::Outdated => {}
            }
        }
        Err(keeps_changing())
    }

    /// Whether no statement has run in the transaction, and it is one statement's: then the
    /// session may abort it and begin it anew.
    pub(super) fn is_alone(&self) -> bool {
        let ran = self.running.is_some() && self.statements_ran;
        !ran && matches!(self.block, Block::Implicit | Block::Idle)
    }

    /// Locks the tables that a plan names. Returns false when a new snapshot must be taken
    /// and the statement planned anew: a table has another definition by now, or the locks
    /// were waited for, and what was committed meanwhile belongs to the statement.
    ///
    /// Above READ COMMITTED, a statement that only reads goes on with the tables as its
    /// snapshot shows them. A follower's transaction, which cannot write whatever its
    /// statements say, takes no other locks than for reading.
    pub(super) async fn lock_planned(&mut self, locks: &[PlannedLock]) -> Result<bool> {
        if locks.is_empty() {
            return Ok(true);
        }
        let follows = self.database.follows();
        let running = self.running()?;
        let renews = running.isolation() == Isolation::ReadCommitted;
        let transaction = &mut running.transaction;
        let mut waited = false;
        for lock in locks {
            let mode = if follows {
                TableLock::AccessShare
            } else {
                lock.mode
            };
            let (wait, version) = (LockWait::Wait, lock.schema_version);
            let locked = poll_fn(|task| {
                let polled = transaction.poll_lock_table(lock.storage, mode, wait, version, task);
                waited |= polled.is_pending();
                polled
            })
            .await;
            match locked {
                Ok(()) => {}
                Err(TxnError::SchemaChanged(_)) if renews => return Ok(false),
                Err(TxnError::SchemaChanged(_)) if mode == TableLock::AccessShare => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(!(waited && renews))
    }

    /// Continues a query where it stopped, in the snapshot it began with.
    pub(super) async fn run_query(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        let PortalProgress::Query {
            plan,
            cursor,
            catalog,
            kept,
            ..
        } = &mut portal.progress
        else {
            return Err(Error::internal("a query that has not begun"));
        };
        if portal.elsewhere.is_some() {
            self.info.elsewhere.clone_from(&portal.elsewhere);
        }
        if plan.locks_rows() {
            self.require_writable("SELECT FOR UPDATE")?;
            self.running()?.note_lock();
        }
        let mut viewer = self.viewer().of_query();
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        if let Some(kept) = kept.take() {
            running.transaction.resume_snapshot(kept)?;
            self.is_renewed = false;
        }
        let open = Open::of(self.block, running);
        let mut result_writer = ResultWriter {
            sink,
            columns: portal.prepared.columns().unwrap_or_default(),
            formats: &portal.formats,
            style: self.settings.style_for_client(self.info.style),
            most,
            delivered: 0,
        };
        let mut context = EvaluationContext::new(
            &self.info,
            catalog,
            &portal.parameters,
            Some(&mut *running.transaction),
        );
        context.settings = Some(&viewer);
        context.engine = Some(&*self.database.engine);
        let mut row = Vec::new();
        let mut more = true;
        while more && !result_writer.is_full() {
            more = cursor.next(&mut context, &mut row).await?;
            if more {
                let bytes = heap_bytes(&row);
                context.work(bytes + ROW)?;
                if bytes <= WRITTEN_AT_ONCE {
                    result_writer.row(&row)?;
                } else {
                    coeval_env::block_in_place(|| result_writer.row(&row))?;
                }
            }
            if more && result_writer.wants_drain() {
                let seen = context
                    .reads()?
                    .newest_seen()
                    .max(self.info.numbered.told());
                let engine = &*self.database.engine;
                let dependencies = ResponseDependencies {
                    newest_seen: self.newest_seen.max(seen),
                    confirmation: self.read_confirmation.confirmation(engine, open),
                };
                drain(result_writer.sink, dependencies, &self.ticket).await?;
            }
        }
        for warning in viewer.take_warnings() {
            result_writer.sink.notice(warning);
        }
        let delivered = u64::from(result_writer.delivered);
        if more {
            *kept = Some(context.reads()?.keep_snapshot());
            self.take_over(viewer);
            return Ok(Completion::Suspended);
        }
        let (changes, awaited) = (viewer.take_changes(), viewer.take_awaited());
        self.take_over(viewer);
        let tag = CommandTag::with_rows("SELECT", delivered);
        portal.progress = PortalProgress::Done(tag);
        if !changes.is_empty() {
            self.change_cluster(changes).await?;
        }
        self.wait_for_commits(&awaited).await?;
        Ok(Completion::Complete(tag))
    }

    /// Delivers rows of a result that is complete.
    pub(super) async fn run_rows(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        self.note_seen();
        let (rows, tag) = match &mut portal.progress {
            PortalProgress::Rows { rows, tag } => (rows, Some(*tag)),
            PortalProgress::Collected(rows) => (rows, None),
            _ => return Err(Error::internal("rows that are not there")),
        };
        let mut result_writer = ResultWriter {
            sink,
            columns: portal.prepared.columns().unwrap_or_default(),
            formats: &portal.formats,
            style: self.settings.style_for_client(self.info.style),
            most,
            delivered: 0,
        };
        while !result_writer.is_full() {
            let Some(row) = rows.pop_front() else { break };
            result_writer.row(&row)?;
            if result_writer.wants_drain() {
                let dependencies = self.dependencies();
                drain(result_writer.sink, dependencies, &self.ticket).await?;
            }
        }
        if result_writer.is_full() {
            return Ok(Completion::Suspended);
        }
        let delivered = u64::from(result_writer.delivered);
        // A command tag with a row count counts the rows of this execution only.
        let tag = match tag {
            None => CommandTag::with_rows("SELECT", delivered),
            Some(tag) => CommandTag {
                rows: tag.rows.map(|_| delivered),
                ..tag
            },
        };
        portal.progress = PortalProgress::Done(tag);
        Ok(Completion::Complete(tag))
    }

    async fn run_change(
        &mut self,
        portal: &mut Portal,
        change: &ChangePlan,
        catalog: &Arc<Catalog>,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Started> {
        let changed = self
            .execute_change(change, catalog, &portal.parameters)
            .await?;
        let Changed::Rows { count, returned } = changed else {
            return Ok(Started::Outdated);
        };
        let tag = CommandTag::with_rows(change.command(), count);
        let returns = change.returning.is_some();
        self.deliver(portal, (returned, tag, returns), most, sink)
            .await
    }

    /// Delivers what a change has returned, if it returns rows.
    async fn deliver(
        &mut self,
        portal: &mut Portal,
        (returned, tag, returns): (Vec<Vec<Value>>, CommandTag, bool),
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Started> {
        if !returns {
            portal.progress = PortalProgress::Done(tag);
            return Ok(Started::Completed(Completion::Complete(tag)));
        }
        portal.progress = PortalProgress::Rows {
            rows: returned.into(),
            tag,
        };
        self.run_rows(portal, most, sink)
            .await
            .map(Started::Completed)
    }

    /// Executes a statement with changes in WITH.
    pub(super) async fn execute_with(
        &mut self,
        changes: &[ChangePlan],
        main: &Plan,
        catalog: &Arc<Catalog>,
        parameters: &[Value],
    ) -> Result<Changed> {
        let mut writes = false;
        for change in changes {
            if change.current_of().is_some() {
                return Err(Error::unsupported("WHERE CURRENT OF in WITH"));
            }
            if !change.table.is_temporary() {
                self.require_writable(change.command())?;
                writes = true;
            }
        }
        let mut current_row = None;
        if let Plan::Change(change) = main {
            current_row = self.current_row(change)?;
            writes |= !change.table.is_temporary();
        }
        let viewer = self.viewer();
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        if writes {
            running.note_write(false);
        }
        let mut context = EvaluationContext::new(
            &self.info,
            catalog,
            parameters,
            Some(&mut *running.transaction),
        );
        context.settings = Some(&viewer);
        context.engine = Some(&*self.database.engine);
        context.current_row = current_row;
        // All tables are locked before anything is changed, so that the statement can be
        // planned again.
        if let Plan::Change(change) = main
            && !change::lock_for_write(&change.table, &mut context).await?
        {
            return Ok(Changed::Outdated);
        }
        let Some(prepared) = change::with::prepare(changes, &mut context).await? else {
            return Ok(Changed::Outdated);
        };
        let changed = match main {
            Plan::Change(change) => change::execute(change, &mut context).await?,
            Plan::Query(query) => {
                let mut cursor = Cursor::new(query);
                let (mut returned, mut row) = (Vec::new(), Vec::new());
                while cursor.next(&mut context, &mut row).await? {
                    context.memory.take(row_bytes(&row))?;
                    returned.push(std::mem::take(&mut row));
                }
                let count = returned.len() as u64;
                Changed::Rows { count, returned }
            }
            _ => return Err(Error::internal("a statement that stands behind no WITH")),
        };
        if let Changed::Outdated = changed {
            return Ok(changed);
        }
        prepared.finish(&mut context).await?;
        self.take_over(viewer);
        Ok(changed)
    }

    /// Executes an INSERT, UPDATE or DELETE.
    pub(super) async fn execute_change(
        &mut self,
        change: &ChangePlan,
        catalog: &Arc<Catalog>,
        parameters: &[Value],
    ) -> Result<Changed> {
        let is_temporary = change.table.is_temporary();
        if !is_temporary {
            self.require_writable(change.command())?;
        }
        let current_row = self.current_row(change)?;
        let viewer = self.viewer();
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        if !is_temporary {
            running.note_write(change.command() == "DELETE");
        }
        let mut context = EvaluationContext::new(
            &self.info,
            catalog,
            parameters,
            Some(&mut *running.transaction),
        );
        context.settings = Some(&viewer);
        context.engine = Some(&*self.database.engine);
        context.current_row = current_row;
        let changed = change::execute(change, &mut context).await?;
        if matches!(changed, Changed::Rows { .. }) {
            self.take_over(viewer);
        }
        Ok(changed)
    }
}
