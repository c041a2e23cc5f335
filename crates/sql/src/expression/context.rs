//! The evaluation context: the session, catalog, transaction, memory and time limits
//! that expressions need besides the row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use coeval_txn::{Engine, Transaction};
use coeval_types::{Rid, Timestamp};
use smol_str::SmolStr;

use super::meter::{Metered, ROW, WorkMeter};
use super::regex::{CompiledPatterns, KeptPatterns};
use super::subquery::Remembered;
use super::suspension::Suspending;
use super::{Instrument, SystemObjects};
use crate::catalog::Catalog;
use crate::instance::advisory::SessionLocks;
use crate::instance::{
    ClusterChange, Deadline, Instance, SessionMemory, SessionsElsewhere, StatementMemory,
};
use crate::outcome::Numbered;
use crate::output::Notice;
use crate::select::{CommonRows, WorkingTables};
use crate::sequence::SessionSequences;
use crate::value::{Style, calendar};
use crate::{Error, Result, SqlState, Value};

/// Session information that a statement may read.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// The system tables' functions and objects, besides those of the catalog.
    pub system: &'static SystemObjects,
    /// Current role: the role that the client logged in as, or the role chosen by SET
    /// ROLE.
    pub user: SmolStr,
    /// OID of the current role.
    pub role: u32,
    /// Session role: the role that the client logged in as, or the role chosen by SET
    /// SESSION AUTHORIZATION.
    pub session_user: SmolStr,
    /// OID of the session role.
    pub session_role: u32,
    /// Name under which the client was admitted as the bootstrap role, if it was.
    pub alias: Option<SmolStr>,
    /// Database that the client is connected to.
    pub database: SmolStr,
    /// Process id of the connection, as `pg_backend_pid()` reports it.
    pub process_id: i32,
    /// Schemas searched for unqualified names; `pg_catalog` is searched in any case and
    /// listed only if the setting names it.
    pub search_path: Vec<SmolStr>,
    /// Time zone of the session, and start time of the transaction.
    pub style: Style,
    /// When the statement began, in microseconds since 2000 UTC.
    pub statement_start: i64,
    /// Cancellation flag: another task sets it to end the statement.
    pub cancel: Arc<AtomicBool>,
    /// Counts the work of the session's statements.
    pub work_meter: Arc<WorkMeter>,
    /// Deadline of the statement, and the timeout that it comes from.
    pub deadline: Option<Deadline>,
    /// The other sessions, and the server instance that all sessions share.
    pub around: Arc<Instance>,
    /// Memory in bytes that sorting, grouping and collecting rows may take.
    pub work_memory: usize,
    /// What the session keeps between statements; `None` where nothing is charged.
    pub(crate) memory: Option<Arc<SessionMemory>>,
    /// Regular expressions that earlier statements have compiled.
    pub(crate) patterns: Arc<KeptPatterns>,
    /// Number of the session's transaction; assigned when the session first asks for
    /// it.
    pub(crate) numbered: Arc<Numbered>,
    /// The numbers that the session was given of sequences.
    pub(crate) sequences: Arc<SessionSequences>,
    /// What other nodes have told of their sessions for the latest statement that interrupts
    /// some.
    pub(crate) elsewhere: Option<Arc<SessionsElsewhere>>,
    /// The session's cursors.
    pub(crate) cursors: Arc<[ListedCursor]>,
    /// The session's advisory locks; `None` where no session runs.
    pub(crate) advisory: Option<Arc<SessionLocks>>,
    /// Longest wait for a lock; `None` for no limit.
    pub(crate) lock_timeout: Option<Duration>,
}

/// A row of `pg_cursors`.
#[derive(Clone, Debug)]
pub struct ListedCursor {
    /// Name of the cursor.
    pub name: String,
    /// Text of the statement that declared it.
    pub statement: Arc<str>,
    /// Whether it outlives its transaction.
    pub is_holdable: bool,
    /// Whether it returns binary values.
    pub is_binary: bool,
    /// Whether it can move backwards.
    pub is_scrollable: bool,
    /// When it was declared, in microseconds since 2000 UTC.
    pub created: i64,
}

/// A setting as `SHOW ALL` and `pg_settings` list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSetting {
    /// Name of the setting.
    pub name: String,
    /// Current value.
    pub value: String,
    /// Default of the server: the value in a new session without options.
    pub initial: String,
    /// Value that RESET restores.
    pub reset: String,
    /// Source of the value: `default`, `server`, `client`, or `session`.
    pub source: &'static str,
    /// Whether the setting is read-only.
    pub fixed: bool,
    /// Description of the setting.
    pub about: String,
}

/// Access to a session's settings, for functions such as `set_config()`.
pub trait SessionSettings: Send + Sync {
    /// A setting's value; error 42704 for an unknown name.
    fn show_setting(&self, name: &str) -> Result<String>;

    /// Sets a setting as SET and SET LOCAL do, or resets it; returns its new value. The
    /// session adopts it when the statement has succeeded.
    fn set_setting(&self, name: &str, value: Option<&str>, local: bool) -> Result<String>;

    /// Registers a change of the cluster that the session requests once the statement
    /// has succeeded.
    fn change_cluster(&self, change: ClusterChange) -> Result<()>;

    /// The newest commit of the session, if it has made one.
    fn last_commit(&self) -> Option<Timestamp>;

    /// Registers a commit for which the session waits once the statement has succeeded, at
    /// most for this time, which is written as in settings.
    fn wait_for_commit(&self, commit: Timestamp, limit: Option<&str>) -> Result<()>;

    /// Has the client warned once the statement has run, if it can be.
    fn warn(&self, _warning: Notice) {}

    /// All settings of the session.
    fn all_settings(&self) -> Vec<ShownSetting>;
}

impl SessionInfo {
    /// A session without a user, search path and transaction.
    #[must_use]
    pub fn new(system: &'static SystemObjects) -> Self {
        Self {
            system,
            user: SmolStr::default(),
            role: 0,
            session_user: SmolStr::default(),
            session_role: 0,
            alias: None,
            database: SmolStr::default(),
            process_id: 0,
            search_path: Vec::new(),
            style: Style::default(),
            statement_start: 0,
            cancel: Arc::default(),
            work_meter: Arc::default(),
            deadline: None,
            around: Arc::default(),
            work_memory: 0,
            memory: None,
            patterns: Arc::default(),
            numbered: Arc::default(),
            sequences: Arc::default(),
            elsewhere: None,
            cursors: Arc::default(),
            advisory: None,
            lock_timeout: None,
        }
    }

    /// Fails with 57014 if the statement is canceled or its deadline has passed.
    pub(crate) fn check_canceled(&self) -> Result<()> {
        if let Some(deadline) = &self.deadline {
            deadline.check()?;
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::canceled());
        }
        Ok(())
    }
}

/// Number of rows that a task processes before it yields to other tasks.
pub(crate) const BUDGET: u32 = 4096;

/// Maximum size in bytes of a value made by an expression; PostgreSQL's limit is 1 GB.
pub(crate) const MAX_LENGTH: usize = 256 << 20;

/// State that the evaluator needs besides the row. The executor makes a new one for
/// every call.
pub struct EvaluationContext<'a> {
    /// The session that runs the statement.
    pub session: &'a SessionInfo,
    /// The catalog, as the statement's snapshot shows it.
    pub catalog: &'a Arc<Catalog>,
    /// The session's settings; `None` where functions cannot read them.
    pub settings: Option<&'a dyn SessionSettings>,
    /// The storage engine, for functions that report its state; `None` where they
    /// cannot.
    pub engine: Option<&'a dyn Engine>,
    /// Values of the statement's parameters.
    pub parameters: &'a [Value],
    /// Transaction for the reads of subqueries; `None` where expressions must not read.
    pub transaction: Option<&'a mut (dyn Transaction + 'static)>,
    /// Values of the enclosing query's row, for [`super::Expression::Outer`].
    pub outer: Vec<Value>,
    /// Memory that sorting, grouping and collecting have taken.
    pub memory: StatementMemory<'a>,
    /// Wakes the executing task, for operators that wait for locks.
    pub waker: Waker,
    /// Number of rows that the executing task may still process before it yields. A
    /// subquery inside an expression cannot be suspended, so it has a budget of its own
    /// and lets other tasks run in place of its thread (`Cursor::visit_now`).
    pub budget: u32,
    /// Time at which the task last yielded, in milliseconds of the coarse clock.
    pub(crate) slice_began: u64,
    pub(super) remembered: BTreeMap<usize, Remembered>,
    /// Rows of the tables of WITH that are in scope.
    pub(crate) commons: Vec<CommonRows>,
    /// Working tables of the recursive queries that run.
    pub(crate) working: WorkingTables,
    /// The work meter, as far as the running step has counted.
    pub(crate) metered: Metered,
    /// Regular expressions that the statement has compiled.
    pub(super) compiled: CompiledPatterns,
    /// The record that WHERE CURRENT OF names.
    pub(crate) current_row: Option<Rid>,
    /// Counters of the plan's nodes, for EXPLAIN ANALYZE.
    pub(crate) instrument: Option<Box<Instrument>>,
    /// Rows of RETURNING of the changes in WITH, in their order.
    pub(crate) changed: Vec<Arc<[Vec<Value>]>>,
    /// What a function does that has to wait.
    pub(crate) suspending: Suspending,
    /// Number of tables of WITH in scope when the evaluation began that may be suspended.
    pub(crate) commons_before: usize,
}

impl<'a> EvaluationContext<'a> {
    /// A context for expressions that read through `transaction`.
    pub fn new(
        session: &'a SessionInfo,
        catalog: &'a Arc<Catalog>,
        parameters: &'a [Value],
        transaction: Option<&'a mut (dyn Transaction + 'static)>,
    ) -> Self {
        Self {
            session,
            catalog,
            settings: None,
            engine: None,
            parameters,
            transaction,
            outer: Vec::new(),
            memory: StatementMemory::new(session.work_memory, session.around.budget()),
            waker: Waker::noop().clone(),
            budget: u32::MAX,
            slice_began: coeval_env::coarse_milliseconds(),
            remembered: BTreeMap::new(),
            commons: Vec::new(),
            working: Vec::new(),
            metered: Metered::new(),
            compiled: CompiledPatterns::default(),
            current_row: None,
            instrument: None,
            changed: Vec::new(),
            suspending: Suspending::No,
            commons_before: 0,
        }
    }

    /// Forgets the results of subqueries: what follows reads in another snapshot.
    pub(crate) fn forget_subqueries(&mut self) {
        self.remembered.clear();
    }

    /// Fails with 57014 if the statement is canceled or its deadline has passed.
    pub fn check_canceled(&self) -> Result<()> {
        self.session.check_canceled()
    }

    /// Whether the statement has used up its time slice.
    #[inline]
    pub(crate) fn is_overdue(&self) -> bool {
        coeval_env::slice_is_over(self.slice_began)
    }

    /// Called when the task is polled after it has yielded.
    pub(crate) fn begin_slice(&mut self) {
        self.slice_began = coeval_env::coarse_milliseconds();
        self.metered.begin_slice();
    }

    /// Runs work of unbounded duration. If the time slice is used up, the executor's
    /// thread hands its other tasks to another thread first, unless the statement is
    /// canceled.
    #[inline]
    pub(crate) fn in_place<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if !self.is_overdue() {
            return work(self);
        }
        self.check_canceled()?;
        coeval_env::block_in_place(|| work(self))
    }

    /// Fails with 54000 if a value is too long, and with 53200 if the memory budget
    /// cannot hold it. The caller claims memory right before it makes the value,
    /// because the budget counts the claim as memory handed out.
    pub(crate) fn claim(&self, bytes: usize) -> Result<()> {
        claim(self.session, bytes)
    }

    /// Called between two rows of a change: yields to other tasks if the time slice is
    /// used up, and fails if the statement is canceled.
    pub(crate) async fn breathe(&mut self) -> Result<()> {
        self.work(ROW)?;
        self.check_canceled()?;
        if self.is_overdue() {
            self.session.work_meter.tick(&self.session.cancel);
            self.session.work_meter.give_way();
            coeval_env::yield_now().await;
            self.begin_slice();
        }
        Ok(())
    }

    /// The transaction, for reads; an internal error if the context has none.
    pub fn reads(&mut self) -> Result<&mut (dyn Transaction + 'static)> {
        match &mut self.transaction {
            Some(transaction) => Ok(&mut **transaction),
            None => Err(Error::internal("a read where none can be made")),
        }
    }

    /// The wall clock, in microseconds since 2000 UTC.
    #[must_use]
    pub fn clock() -> i64 {
        let unix = coeval_env::wall_clock().as_micros();
        i64::try_from(unix).unwrap_or(i64::MAX) - calendar::UNIX_EPOCH
    }
}

/// [`EvaluationContext::claim`], for a caller that has the session alone.
pub(super) fn claim(session: &SessionInfo, bytes: usize) -> Result<()> {
    if bytes > MAX_LENGTH {
        return Err(Error::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "requested length too large",
        )
        .with_detail(format!("A value has {MAX_LENGTH} bytes at most.")));
    }
    let budget = session.around.budget();
    budget.ask_for(bytes as u64, "A value")
}
