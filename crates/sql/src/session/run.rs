//! Executing portals.

use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::Arc;

use coeval_txn::Isolation;

use super::output::{Column, CommandTag, Completion, Format, Notice, OutputRow, Severity, Sink};
use super::prepared::{Plan, Portal, Prepared, Progress};
use super::transaction::Block;
use super::{Session, in_failed_transaction};
use crate::catalog::Catalog;
use crate::change::{self, ChangePlan, Changed};
use crate::definition;
use crate::error::{Error, Result, SqlState};
use crate::expression::{CastContext, EvaluationContext, Parameters};
use crate::select::Cursor;
use crate::statement::{Command, Statement};
use crate::value::{Style, Value};

/// Rows between two looks at whether there is room for more.
const ROWS_BETWEEN_DRAINS: u32 = 128;

/// Times a statement starts anew after a conflict, before the client hears of it.
const MOST_RESTARTS: u32 = 20;

/// Times a statement is planned anew because the schema has changed meanwhile.
const MOST_REPLANS: u32 = 100;

/// What a started statement came to.
pub(super) enum Started {
    Completed(Completion),
    /// The schema has changed since it was planned, and nothing was done.
    Outdated,
}

/// Hands rows to the sink and asks it for room now and then.
struct Delivery<'sink> {
    sink: &'sink mut dyn Sink,
    columns: &'sink [Column],
    formats: &'sink [Format],
    style: Style,
    /// Most rows to deliver; `None` for all.
    most: Option<u32>,
    delivered: u32,
}

impl Delivery<'_> {
    fn is_full(&self) -> bool {
        self.most.is_some_and(|most| self.delivered >= most)
    }

    fn row(&mut self, values: &[Value]) {
        self.sink.row(OutputRow {
            columns: self.columns,
            formats: self.formats,
            values,
            style: &self.style,
        });
        self.delivered += 1;
    }

    fn wants_drain(&self) -> bool {
        self.delivered.is_multiple_of(ROWS_BETWEEN_DRAINS)
    }
}

/// Waits until the sink has room.
pub(super) async fn drain(sink: &mut dyn Sink, newest_seen: coeval_types::Timestamp) -> Result<()> {
    poll_fn(|context| sink.poll_drain(newest_seen, context)).await
}

impl Session {
    /// [`Session::execute`], without its effect on the transaction.
    pub(super) async fn run_portal(
        &mut self,
        portal: &mut Portal,
        max_rows: Option<NonZeroU32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        let most = max_rows.map(NonZeroU32::get);
        match &mut portal.progress {
            Progress::New => self.start(portal, most, sink).await,
            Progress::Query { epoch, .. } => {
                if *epoch != self.epoch || self.running.is_none() {
                    return Err(Error::new(
                        SqlState::INVALID_CURSOR_NAME,
                        "the portal's transaction has ended",
                    ));
                }
                if self.block == Block::Failed {
                    return Err(in_failed_transaction());
                }
                self.run_query(portal, most, sink).await
            }
            Progress::Rows { .. } => self.run_rows(portal, most, sink).await,
            Progress::Done(tag) if tag.command == "SELECT" => {
                Ok(Completion::Complete(CommandTag::with_rows("SELECT", 0)))
            }
            Progress::Done(_) => Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the portal has been run already",
            )),
        }
    }

    async fn start(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        let prepared = Arc::clone(&portal.prepared);
        let statement = &prepared.statement;
        let command = statement.command();
        if let Command::Empty = command {
            return Ok(Completion::Empty);
        }
        if self.block == Block::Failed && !statement.is_transaction_exit() {
            return Err(in_failed_transaction());
        }
        if let Some(columns) = prepared.columns() {
            sink.columns(columns, &portal.formats);
        }
        let tag = match command {
            Command::Query(_)
            | Command::Insert(_)
            | Command::Update(_)
            | Command::Delete(_)
            | Command::Copy(_)
            | Command::Explain(_) => return self.start_planned(portal, most, sink).await,
            Command::Show(name) => {
                let rows = self.show(name)?;
                portal.progress = Progress::Rows {
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
            Command::CreateTable(_)
            | Command::CreateIndex(_)
            | Command::AlterTable(_)
            | Command::RenameIndex { .. }
            | Command::Drop { .. }
            | Command::Truncate(_) => self.define(statement, sink).await?,
            Command::Lock { tables, mode } => {
                self.lock_tables(statement, tables, *mode).await?;
                CommandTag::new("LOCK TABLE")
            }
            Command::Vacuum(tables) => {
                if self.block == Block::Explicit {
                    return Err(Error::new(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "VACUUM cannot run inside a transaction block",
                    ));
                }
                self.check_tables(statement, tables).await?;
                sink.notice(Notice::new(
                    Severity::Info,
                    SqlState::SUCCESSFUL_COMPLETION,
                    "there is nothing to vacuum: old versions go as soon as no snapshot needs them",
                ));
                CommandTag::new("VACUUM")
            }
            Command::Analyze(tables) => {
                self.check_tables(statement, tables).await?;
                sink.notice(Notice::new(
                    Severity::Info,
                    SqlState::SUCCESSFUL_COMPLETION,
                    "there is nothing to analyze: plans do not depend on statistics",
                ));
                CommandTag::new("ANALYZE")
            }
            Command::Checkpoint => {
                sink.notice(Notice::new(
                    Severity::Info,
                    SqlState::SUCCESSFUL_COMPLETION,
                    "there is nothing to write: what is committed is in the log",
                ));
                CommandTag::new("CHECKPOINT")
            }
            _ => {
                if let Some(tag) = self.control(command, sink).await? {
                    tag
                } else if let Some(tag) = self.configure(command, sink)? {
                    tag
                } else {
                    return Err(Error::internal(format!("nothing runs {command:?}")));
                }
            }
        };
        portal.progress = Progress::Done(tag);
        Ok(Completion::Complete(tag))
    }

    /// Starts a statement that has a plan. After a conflict it starts anew, as long
    /// as nobody else has seen anything of its transaction.
    async fn start_planned(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        let mut sink = Watched {
            sink,
            drained: false,
        };
        let mut restarts = 0;
        loop {
            let was_running = self.running.is_some() && self.statements_ran;
            let result = self.try_planned(portal, most, &mut sink).await;
            let result = match result {
                Ok(completion) => self.commit_early(completion).await,
                Err(error) => Err(error),
            };
            let Err(error) = result else {
                return result;
            };
            let retryable = matches!(
                error.state(),
                SqlState::SERIALIZATION_FAILURE | SqlState::DEADLOCK_DETECTED
            );
            let alone = !was_running
                && matches!(self.block, Block::Implicit | Block::Idle)
                && self.copy.is_none();
            if !retryable || !alone || sink.drained || restarts == MOST_RESTARTS {
                return Err(error);
            }
            restarts += 1;
            self.abort_running();
            sink.sink.restart();
            portal.progress = Progress::New;
            coeval_env::yield_now().await;
        }
    }

    /// Commits the implicit transaction with its last statement, if it is known to
    /// be the last.
    async fn commit_early(&mut self, completion: Completion) -> Result<Completion> {
        if self.finishing
            && self.block == Block::Implicit
            && matches!(completion, Completion::Complete(_))
        {
            self.note_seen();
            self.commit_block().await?;
        }
        Ok(completion)
    }

    async fn try_planned(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        let began = self.ensure_running().await?;
        let mut fresh = began;
        for _ in 0..MOST_REPLANS {
            if !fresh {
                self.running()?.transaction.begin_statement()?;
            }
            fresh = false;
            self.statements_ran = true;
            let catalog = self.current_catalog()?;
            let plan = self.current_plan(&Arc::clone(&portal.prepared), &catalog)?;
            let started = match &*plan {
                Plan::Query(query) => {
                    portal.progress = Progress::Query {
                        cursor: Cursor::new(query),
                        plan: Arc::clone(query),
                        catalog,
                        epoch: self.epoch,
                    };
                    Started::Completed(self.run_query(portal, most, sink).await?)
                }
                Plan::Change(change) => {
                    self.run_change(portal, change, &catalog, most, sink)
                        .await?
                }
                Plan::Copy(copy) => self.start_copy(copy, &catalog, sink).await?,
                Plan::Explain(plan) => {
                    let explain = match portal.prepared.statement.command() {
                        Command::Explain(explain) => explain.clone(),
                        _ => return Err(Error::internal("an EXPLAIN that is none")),
                    };
                    let lines = self
                        .explain(
                            &explain,
                            plan,
                            &catalog,
                            &portal.parameters,
                            &portal.prepared.statement,
                        )
                        .await?;
                    let Some(lines) = lines else { continue };
                    portal.progress = Progress::Rows {
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
        Err(Error::new(
            SqlState::SERIALIZATION_FAILURE,
            "the definition of a table keeps changing",
        ))
    }

    /// Runs a query on from where it stopped.
    async fn run_query(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        let Progress::Query {
            plan,
            cursor,
            catalog,
            ..
        } = &mut portal.progress
        else {
            return Err(Error::internal("a query that has not begun"));
        };
        if plan.locks_rows() {
            self.require_writable("SELECT FOR UPDATE")?;
            self.running()?.wrote = true;
        }
        let viewer = self.viewer();
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        let mut delivery = Delivery {
            sink,
            columns: portal.prepared.columns().unwrap_or_default(),
            formats: &portal.formats,
            style: self.info.style,
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
        let mut row = Vec::new();
        let mut more = true;
        while more && !delivery.is_full() {
            more = cursor.next(&mut context, &mut row).await?;
            if more {
                delivery.row(&row);
            }
            if more && delivery.wants_drain() {
                let newest_seen = self.newest_seen.max(context.reads()?.newest_seen());
                drain(delivery.sink, newest_seen).await?;
            }
        }
        let delivered = u64::from(delivery.delivered);
        if more {
            return Ok(Completion::Suspended);
        }
        let tag = CommandTag::with_rows("SELECT", delivered);
        portal.progress = Progress::Done(tag);
        Ok(Completion::Complete(tag))
    }

    /// Delivers rows that are there already.
    async fn run_rows(
        &mut self,
        portal: &mut Portal,
        most: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        self.note_seen();
        let Progress::Rows { rows, tag } = &mut portal.progress else {
            return Err(Error::internal("rows that are not there"));
        };
        let mut delivery = Delivery {
            sink,
            columns: portal.prepared.columns().unwrap_or_default(),
            formats: &portal.formats,
            style: self.info.style,
            most,
            delivered: 0,
        };
        while !delivery.is_full() {
            let Some(row) = rows.pop_front() else { break };
            delivery.row(&row);
            if delivery.wants_drain() {
                drain(delivery.sink, self.newest_seen).await?;
            }
        }
        if delivery.is_full() {
            return Ok(Completion::Suspended);
        }
        let tag = *tag;
        portal.progress = Progress::Done(tag);
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
        if change.returning.is_none() {
            portal.progress = Progress::Done(tag);
            return Ok(Started::Completed(Completion::Complete(tag)));
        }
        portal.progress = Progress::Rows {
            rows: returned.into(),
            tag,
        };
        self.run_rows(portal, most, sink)
            .await
            .map(Started::Completed)
    }

    /// Executes a change.
    pub(super) async fn execute_change(
        &mut self,
        change: &ChangePlan,
        catalog: &Arc<Catalog>,
        parameters: &[Value],
    ) -> Result<Changed> {
        self.require_writable(change.command())?;
        let viewer = self.viewer();
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        running.wrote = true;
        let mut context = EvaluationContext::new(
            &self.info,
            catalog,
            parameters,
            Some(&mut *running.transaction),
        );
        context.settings = Some(&viewer);
        change::execute(change, &mut context).await
    }

    /// 25006 when the transaction refuses writes.
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
    async fn define(&mut self, statement: &Statement, sink: &mut dyn Sink) -> Result<CommandTag> {
        self.require_writable("a change of the schema")?;
        self.begin_statement().await?;
        let mut notices = Vec::new();
        let database = Arc::clone(&self.database);
        let info = self.info.clone();
        let running = self.running()?;
        let tag = definition::execute(&database, running, statement, &info, &mut notices).await;
        for notice in notices {
            sink.notice(notice);
        }
        Ok(CommandTag::new(tag?))
    }

    /// A new snapshot, where the isolation gives each statement one.
    async fn begin_statement(&mut self) -> Result<()> {
        if !self.ensure_running().await? {
            self.running()?.transaction.begin_statement()?;
        }
        self.statements_ran = true;
        Ok(())
    }

    /// Checks that these tables exist.
    async fn check_tables(
        &mut self,
        statement: &Statement,
        tables: &[sqlparser::ast::ObjectName],
    ) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        self.begin_statement().await?;
        let catalog = self.current_catalog()?;
        for name in tables {
            definition::find_table(&catalog, name, statement)?;
        }
        Ok(())
    }

    /// LOCK TABLE.
    async fn lock_tables(
        &mut self,
        statement: &Statement,
        tables: &[sqlparser::ast::ObjectName],
        mode: Option<coeval_txn::TableLock>,
    ) -> Result<()> {
        if self.block != Block::Explicit {
            return Err(Error::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        self.begin_statement().await?;
        for name in tables {
            let mut tries = 0;
            loop {
                let catalog = self.current_catalog()?;
                let table = definition::find_table(&catalog, name, statement)?;
                let Some(mode) = mode else { break };
                let running = self.running()?;
                let locked = coeval_txn::lock_table(
                    &mut *running.transaction,
                    table.storage,
                    mode,
                    table.schema_version,
                )
                .await;
                match locked {
                    Ok(()) => break,
                    Err(coeval_txn::Error::SchemaChanged(_))
                        if running.isolation() == Isolation::ReadCommitted
                            && tries < MOST_REPLANS =>
                    {
                        tries += 1;
                        running.transaction.begin_statement()?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// EXECUTE.
    async fn execute_named(
        &mut self,
        portal: &mut Portal,
        name: &str,
        arguments: &[sqlparser::ast::Expr],
        most: Option<u32>,
        sink: &mut dyn Sink,
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
        portal.prepared = named;
        self.start_planned(portal, most, sink).await
    }

    /// The arguments of EXECUTE as parameters.
    pub(super) async fn arguments(
        &mut self,
        name: &str,
        named: &Prepared,
        arguments: &[sqlparser::ast::Expr],
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
        let catalog = self.current_catalog()?;
        let locate = |location| statement.position(location);
        let mut binder =
            crate::expression::Binder::new(&catalog, &self.info, &locate, Parameters::default());
        let frame = crate::expression::Frame::outermost();
        let empty = crate::expression::Scope::empty(&frame);
        let mut expressions = Vec::with_capacity(arguments.len());
        for (argument, data_type) in arguments.iter().zip(types) {
            let bound = binder.bind(argument, &empty)?;
            expressions.push(
                binder
                    .cast(bound, (*data_type).into(), CastContext::Assignment)?
                    .expression,
            );
        }
        let mut context = EvaluationContext::new(&self.info, &catalog, &[], None);
        expressions
            .iter()
            .map(|expression| expression.evaluate(&mut context, &[]))
            .collect()
    }
}

/// A sink that remembers whether it was drained: what is gone cannot be taken
/// back.
struct Watched<'sink> {
    sink: &'sink mut dyn Sink,
    drained: bool,
}

impl Sink for Watched<'_> {
    fn columns(&mut self, columns: &[Column], formats: &[Format]) {
        self.sink.columns(columns, formats);
    }

    fn row(&mut self, row: OutputRow<'_>) {
        self.sink.row(row);
    }

    fn restart(&mut self) {
        self.sink.restart();
    }

    fn notice(&mut self, notice: Notice) {
        self.sink.notice(notice);
    }

    fn copy_out(&mut self, columns: usize) {
        self.sink.copy_out(columns);
    }

    fn copy_data(&mut self, data: &[u8]) {
        self.sink.copy_data(data);
    }

    fn poll_drain(
        &mut self,
        newest_seen: coeval_types::Timestamp,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<()>> {
        self.drained = true;
        self.sink.poll_drain(newest_seen, context)
    }
}
