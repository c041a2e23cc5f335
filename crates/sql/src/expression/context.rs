//! What evaluation needs besides the row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use coeval_txn::{Engine, Transaction};
use smol_str::SmolStr;

use super::SystemObjects;
use super::subquery::Remembered;
use crate::catalog::Catalog;
use crate::instance::{ClusterChange, Deadline, Memory, Surroundings};
use crate::outcome::Numbered;
use crate::value::{Style, calendar};
use crate::{Error, Result, SqlState, Value};

/// What a statement may know of its session.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// The built-in objects there are beside the catalog's.
    pub system: &'static SystemObjects,
    /// As whom statements run: who is connected, or what SET ROLE says.
    pub user: SmolStr,
    /// Its number.
    pub role: u32,
    /// Who is connected, or what SET SESSION AUTHORIZATION says.
    pub session_user: SmolStr,
    /// Its number.
    pub session_role: u32,
    /// The name under which the first role was let in, if it was.
    pub alias: Option<SmolStr>,
    /// To which database.
    pub database: SmolStr,
    /// The number of the connection.
    pub process_id: i32,
    /// The schemas that are searched for names, `pg_catalog` not included unless
    /// it was named.
    pub search_path: Vec<SmolStr>,
    /// The time zone, and when the transaction began.
    pub style: Style,
    /// When the statement began, in microseconds since 2000 UTC.
    pub statement_start: i64,
    /// Set from outside to end the statement.
    pub cancel: Arc<AtomicBool>,
    /// When the statement's time is over, and what has run out then.
    pub deadline: Option<Deadline>,
    /// The other sessions, and the program all of them run in.
    pub around: Arc<Surroundings>,
    /// How many bytes sorting, grouping and collecting rows may take.
    pub work_memory: usize,
    /// The number of its transaction, once somebody has asked for it.
    pub(crate) numbered: Arc<Numbered>,
}

/// A setting, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSetting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The value of a session that nobody has said anything to.
    pub initial: String,
    /// The value that RESET goes back to.
    pub reset: String,
    /// Who set the value: `default`, `server`, `client`, or `session`.
    pub source: &'static str,
    /// Whether nobody can change it.
    pub fixed: bool,
    /// What it is for.
    pub about: String,
}

/// Shows settings, and changes them.
pub trait SessionSettings: Send + Sync {
    /// A setting's value, or 42704.
    fn show_setting(&self, name: &str) -> Result<String>;

    /// Sets a setting as SET and SET LOCAL do, or resets it; returns its new value. It
    /// takes effect on the session when the statement has ended well.
    fn set_setting(&self, name: &str, value: Option<&str>, local: bool) -> Result<String>;

    /// Has the cluster changed when the statement has ended well.
    fn change_cluster(&self, change: ClusterChange) -> Result<()>;

    /// Every setting of the session.
    fn all_settings(&self) -> Vec<ShownSetting>;
}

impl SessionInfo {
    /// A session without a user, a search path and a transaction.
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
            deadline: None,
            around: Arc::default(),
            work_memory: 0,
            numbered: Arc::default(),
        }
    }

    /// Fails with 57014 once somebody asked for the statement to end, or once its
    /// time is over.
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

/// How many rows are looked at before others may run.
pub(crate) const BUDGET: u32 = 4096;

/// How long a statement computes before others may run, in milliseconds.
const SLICE: u64 = 8;

/// Most bytes of a value that an expression makes; PostgreSQL's is 1 GB.
pub(crate) const MAX_LENGTH: usize = 256 << 20;

/// What evaluation needs besides the row. Made anew for every call that executes.
pub struct EvaluationContext<'a> {
    /// The session.
    pub session: &'a SessionInfo,
    /// The schema, as the statement's snapshot shows it.
    pub catalog: &'a Arc<Catalog>,
    /// The session's settings, where they can be asked for.
    pub settings: Option<&'a dyn SessionSettings>,
    /// The engine, where it can be asked about itself.
    pub engine: Option<&'a dyn Engine>,
    /// The statement's parameters.
    pub parameters: &'a [Value],
    /// What reads are made through; `None` where nothing may be read.
    pub transaction: Option<&'a mut (dyn Transaction + 'static)>,
    /// The values that [`super::Expression::Outer`] names.
    pub outer: Vec<Value>,
    /// What sorting, grouping and collecting have taken.
    pub memory: Memory<'a>,
    /// Wakes the task that executes, for operators that wait for locks.
    pub waker: Waker,
    /// How many more rows may be looked at before the executing task should let
    /// others run. Subqueries of expressions, which cannot stop halfway, have one of their
    /// own, and then make room for others in another way (`Cursor::visit_now`).
    pub budget: u32,
    /// When others could last run, by the coarse clock.
    pub(crate) slice_began: u64,
    pub(super) remembered: BTreeMap<usize, Remembered>,
}

impl<'a> EvaluationContext<'a> {
    /// A context that reads through `transaction`.
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
            memory: Memory::new(session.work_memory, session.around.room()),
            waker: Waker::noop().clone(),
            budget: u32::MAX,
            slice_began: coeval_env::coarse_milliseconds(),
            remembered: BTreeMap::new(),
        }
    }

    /// Fails with 57014 once somebody asked for the statement to end, or once its
    /// time is over.
    pub fn check_canceled(&self) -> Result<()> {
        self.session.check_canceled()
    }

    /// Whether others have waited for as long as they should.
    #[inline]
    pub(crate) fn is_overdue(&self) -> bool {
        coeval_env::coarse_milliseconds().saturating_sub(self.slice_began) > SLICE
    }

    /// Does a piece of work of which nobody knows how long it takes. Once others have
    /// waited for long enough it is done in place of the executor's thread, unless
    /// somebody wants the statement to end.
    #[inline]
    pub(crate) fn in_place<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if !self.is_overdue() {
            return work(self);
        }
        self.check_canceled()?;
        coeval_env::block_in_place(|| work(self))
    }

    /// Fails with 54000 for a value that is too long, and with 53200 when there is not
    /// enough memory for it. To be asked right before it is made: from then on it counts
    /// as what was given out.
    pub(crate) fn claim(&self, bytes: usize) -> Result<()> {
        if bytes > MAX_LENGTH {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "requested length too large",
            )
            .with_detail(format!("A value has {MAX_LENGTH} bytes at most.")));
        }
        let room = self.session.around.room();
        room.ask_for(bytes as u64, "A value")
    }

    /// Between two rows of a change: lets others run once they have waited for long
    /// enough, and fails when the statement is to end.
    pub(crate) async fn breathe(&mut self) -> Result<()> {
        self.check_canceled()?;
        if self.is_overdue() {
            coeval_env::yield_now().await;
            self.slice_began = coeval_env::coarse_milliseconds();
        }
        Ok(())
    }

    /// The transaction, for reads.
    pub fn reads(&mut self) -> Result<&mut (dyn Transaction + 'static)> {
        match &mut self.transaction {
            Some(transaction) => Ok(&mut **transaction),
            None => Err(Error::internal("a read where none can be made")),
        }
    }

    /// What the wall clock shows, in microseconds since 2000 UTC.
    #[must_use]
    pub fn clock() -> i64 {
        let unix = coeval_env::wall_clock().as_micros();
        i64::try_from(unix).unwrap_or(i64::MAX) - calendar::UNIX_EPOCH
    }
}
