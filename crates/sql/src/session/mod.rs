//! Sessions: the server-side state of one client connection, from its settings and
//! prepared statements to its open transaction.
//!
//! ```text
//!  simple query            extended query
//!  parse ─> for each:      parse ─> prepare        (Parse)
//!    prepare                        bind           (Bind)
//!    bind                           execute        (Execute, as often as wanted)
//!    execute                        finish         (Sync)
//!  finish
//! ```
//!
//! The simple and the extended protocol take the same path: a simple query performs every
//! step at once, for every statement in the string. [`Session::finish`] marks the point
//! at which the client waits for an answer: the statements between two such points that
//! are outside an explicit transaction block form one implicit transaction, which ends
//! there.
//!
//! A session is used by one task at a time and does not know the wire protocol: it writes
//! results to a [`Sink`]. Those results may not be durable yet, so the caller that sends
//! them to the client first waits for [`Session::dependencies`].
//!
//! - [`at_home`]: what a session of a follower executes, and blocks that move to the leader.
//! - [`cursors`]: DECLARE, FETCH, MOVE, CLOSE.
//! - [`control`]: BEGIN, COMMIT, savepoints, and the state they change.
//! - [`identity`]: SET ROLE.
//! - [`set`] and [`settings`]: SET, SHOW and the list of settings.
//! - [`prepared`]: statements with their names resolved; [`plan`]: their plans;
//!   [`portal`]: prepared statements with their parameters.
//! - [`run`]: executing portals; [`utility`]: statements without a plan; [`result_writer`]:
//!   writing results to the sink.
//! - [`handover`]: session handover, the state that survives a move to another node;
//!   [`lost_block`]: the block that does not.
//! - [`timeouts`]: time limits; [`cluster_view`]: changes of the cluster; [`commit_waits`]:
//!   waits for commits of other sessions.
//!
//! The state that a session shares with the other sessions is in [`crate::instance`].

mod analyze;
mod at_home;
mod cluster_view;
mod commit_waits;
mod control;
mod copying;
mod counted;
mod current_catalog;
mod cursors;
mod database;
mod explain;
mod handover;
pub(crate) mod identity;
mod interrupting;
mod lock_view;
mod lost_block;
mod parsing;
mod plan;
mod plan_cache;
#[cfg(feature = "planted")]
mod planted;
mod portal;
mod prepared;
mod read_confirmation;
mod result_writer;
mod run;
mod set;
pub mod settings;
mod statement_cache;
mod table_as;
mod timeouts;
mod transaction;
mod utility;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_env::Instant;
use coeval_txn::{Isolation, ResponseDependencies};
use coeval_types::Timestamp;
use smol_str::SmolStr;

pub use at_home::{BlockHere, lost_here, not_in_this_block};
pub use database::{Account, Database, Login};
pub use explain::Freshness;
pub use handover::{
    MAX_BYTES, MAX_PIECE, MAX_RECORD, Malformed, SessionHandover, mark, mark_of, marked_commit,
};
pub use portal::Portal;
pub use prepared::Prepared;

use crate::access::{FIRST_ROLE, LoginSetting};
use crate::catalog::Catalog;
use crate::contention;
use crate::copy::CopyIn;
use crate::error::{Error, Result, SqlState};
use crate::expression::{EvaluationContext, SessionInfo, WorkMeter};
use crate::instance::activity::{Activity, Entrant, Interrupt, Listed, Listing, SessionState};
use crate::instance::advisory::SessionLocks;
use crate::instance::{Charge, Limits, MemoryBudget, SessionMemory, Ticket, measured, within};
use crate::outcome::Numbered;
use crate::output::{Completion, Format, Notice, Severity, Sink, TransactionStatus};
use crate::statement::{self, Modes, Statement, Statements};
use crate::system;
use crate::temporary::Temporary;
use cursors::Cursors;
use handover::{HandoverDelta, HandoverStatement};
use identity::Who;
use interrupting::Asks;
use lost_block::{LostBlock, lost_transaction};
use plan_cache::PlanCache;
use portal::Portals;
use read_confirmation::{Open, ReadConfirmation};
use result_writer::Watched;
pub use settings::LoggedFailures;
use settings::{Beginning, Settings};
use statement_cache::StatementCache;
use transaction::{Block, Running};

/// What a client requests, and the server grants, when a session starts.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// The user name the client gave, authenticated if the server asked for that.
    pub user: String,
    /// The role of that name; `None` makes the session act as the first role, under that
    /// name.
    pub role: Option<Login>,
    /// Name of the database the client asked for.
    pub database: String,
    /// The client's `application_name`.
    pub application_name: String,
    /// The number `pg_backend_pid()` returns.
    pub process_id: i32,
    /// Cancel flag: another thread sets it to end the statement that is running. The
    /// session clears it when the next statement begins.
    pub cancel: Arc<AtomicBool>,
    /// How other sessions may cancel this session's statements or terminate it.
    pub interrupt: Option<Arc<dyn Interrupt>>,
    /// The client's network address, if the client connected over the network.
    pub client: Option<SocketAddr>,
    /// The server's default settings for its sessions, as name and value.
    pub defaults: Vec<(String, String)>,
    /// The settings that the role and the database have for the session.
    pub stored: Arc<[LoginSetting]>,
    /// Settings from the client's startup message, as name and value.
    pub parameters: Vec<(String, String)>,
    /// Upper limits on the size of the session's statements.
    pub limits: Limits,
    /// Whether the session's transactions bypass admission control, so that an
    /// administrator can inspect and repair an overloaded server.
    pub privileged: bool,
}

/// The state of one client's session.
#[derive(Debug)]
pub struct Session {
    database: Arc<Database>,
    info: SessionInfo,
    limits: Limits,
    /// How fresh the next statement's snapshot is, on a follower.
    freshness: Option<Freshness>,
    /// What the session keeps between statements.
    memory: Arc<SessionMemory>,
    ticket: Ticket,
    /// This session's entry in the list of all sessions.
    listed: Arc<Listed>,
    /// Whether the entry already shows the statement that executes next.
    announced: bool,
    /// Whether the statement's clock goes on from its last phase to the next one.
    clock_runs: bool,
    /// The thread that parses a long text, or has not ended yet although the session does
    /// not wait for it any more.
    parsing: Option<coeval_env::JoinHandle<()>>,
    settings: Arc<Settings>,
    /// The value that a rollback restores [`Session::settings`] to.
    settings_at_begin: Option<Arc<Settings>>,
    block: Block,
    /// Modes that BEGIN or SET TRANSACTION gave explicitly; the settings supply the rest.
    modes: Modes,
    running: Option<Running>,
    /// Whether the block has read on the node that it came from.
    has_read_elsewhere: bool,
    /// When the open transaction got its time limit.
    transaction_limited: Option<Instant>,
    /// Whether a statement has run in the transaction; preparing a statement does not
    /// count.
    statements_ran: bool,
    /// Number of transactions that have ended: a portal does not outlive its transaction.
    epoch: u64,
    /// The session's record of which portals have ended.
    portals: Portals,
    /// The cursors that DECLARE has made.
    cursors: Cursors,
    /// The session's temporary tables, if it has had any.
    temporary: Option<Temporary>,
    /// Whether the next execution is the last one before [`Session::finish`].
    finishing: bool,
    newest_seen: Timestamp,
    read_confirmation: ReadConfirmation,
    /// On a follower: the commit that snapshots have to include.
    minimum: Option<Timestamp>,
    /// The newest commit that the session made while other nodes served it.
    commit_elsewhere: Timestamp,
    /// On a follower: whether transaction blocks may begin.
    begins_blocks: bool,
    /// On a follower: whether the transaction's snapshot was taken for what the client has
    /// asked last; see [`Session::renew_here`].
    is_renewed: bool,
    /// Number of cluster changes this session has requested.
    cluster_changes: u64,
    /// The catalog version the session used last.
    catalog: Option<Arc<Catalog>>,
    /// Statements that PREPARE or Parse has prepared under a name.
    named: BTreeMap<String, Arc<Prepared>>,
    /// The statement that Parse has prepared without a name.
    unnamed: Option<Arc<Prepared>>,
    /// Statements that were prepared while another node served the session, and have not
    /// been used since: none of these names is in [`Session::named`].
    asleep: BTreeMap<String, HandoverStatement>,
    /// What the sleeping statements are charged to the session.
    asleep_charge: Option<Charge>,
    /// Changes the node of the client needs for a session handover, if it asked for them.
    delta: Option<Box<HandoverDelta>>,
    /// Whether the block that is open was lost with its leader.
    lost_block: LostBlock,
    /// The plan cache, keyed by the text of simple queries.
    plan_cache: PlanCache,
    copy: Option<CopyIn>,
    /// When other nodes are asked for the sessions that a statement interrupts.
    asks: Asks,
    /// Why settings of the role or the database are not among those that the session began
    /// with.
    left_out: Vec<Error>,
    /// The reported settings, with the values last sent to the client.
    reported: Vec<(&'static str, String)>,
    /// The settings when they were last compared with what was reported.
    compared: Option<Arc<Settings>>,
    /// The statement cache, keyed by text.
    statement_cache: StatementCache,
}

impl Session {
    /// Creates a session. Fails when one of the settings among the options does not exist
    /// or cannot have its value.
    pub fn new(database: Arc<Database>, options: SessionOptions) -> Result<Self> {
        Self::begin(database, options, &mut Err)
    }

    /// [`Session::new`], with a callback: for a setting that does not exist or cannot
    /// have its value, `refused` decides whether that is an error.
    fn begin(
        database: Arc<Database>,
        options: SessionOptions,
        refused: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<Self> {
        let user = SmolStr::from(options.user);
        let (role, superuser) = match &options.role {
            Some(login) => (login.role, login.superuser),
            None => (FIRST_ROLE, true),
        };
        let login = Who {
            role,
            name: user.clone(),
            superuser,
        };
        let beginning = Beginning {
            login,
            application_name: &options.application_name,
            defaults: &options.defaults,
            stored: &options.stored,
            parameters: &options.parameters,
        };
        let (settings, left_out) = Settings::at_start(beginning, refused)?;
        let settings = Arc::new(settings);
        let ticket = Ticket::new(&database.admission, options.privileged);
        let entrant = Entrant {
            process_id: options.process_id,
            role,
            user: &user,
            database: &options.database,
            application_name: &options.application_name,
            client: options.client,
            interrupt: options.interrupt,
            observer: ticket.observer(),
            now: EvaluationContext::clock(),
        };
        let listed = Arc::new(Listed::enter(&database.around, entrant));
        let memory = SessionMemory::new(
            options.limits.session_memory,
            database.around.sessions_memory(),
        );
        let info = SessionInfo {
            around: Arc::clone(&database.around),
            numbered: Arc::new(Numbered::new(&database.around.outcomes)),
            alias: (role == FIRST_ROLE).then_some(user),
            database: options.database.into(),
            process_id: options.process_id,
            cancel: options.cancel,
            memory: Some(Arc::clone(&memory)),
            advisory: Some(Arc::new(SessionLocks::new(
                &database.around.advisory,
                options.process_id,
                listed.page(),
            ))),
            ..SessionInfo::new(system::OBJECTS)
        };
        let mut session = Self {
            ticket,
            memory,
            database,
            info,
            limits: options.limits,
            listed,
            announced: false,
            clock_runs: false,
            parsing: None,
            settings,
            settings_at_begin: None,
            block: Block::Idle,
            modes: Modes::default(),
            running: None,
            has_read_elsewhere: false,
            transaction_limited: None,
            statements_ran: false,
            epoch: 0,
            portals: Portals::default(),
            cursors: Cursors::default(),
            temporary: None,
            finishing: false,
            newest_seen: Timestamp::ZERO,
            freshness: None,
            read_confirmation: ReadConfirmation::new(),
            minimum: None,
            commit_elsewhere: Timestamp::ZERO,
            begins_blocks: false,
            is_renewed: false,
            cluster_changes: 0,
            catalog: None,
            named: BTreeMap::new(),
            unnamed: None,
            asleep: BTreeMap::new(),
            asleep_charge: None,
            delta: None,
            lost_block: LostBlock::No,
            plan_cache: PlanCache::default(),
            copy: None,
            asks: Asks::First,
            left_out,
            reported: Vec::new(),
            compared: None,
            statement_cache: StatementCache::default(),
        };
        session.apply_settings();
        Ok(session)
    }

    /// Takes the warnings for the client about settings of its role or the database that
    /// cannot be set.
    pub fn take_login_warnings(&mut self) -> Vec<Notice> {
        let left_out = std::mem::take(&mut self.left_out);
        let least = self.settings.parsed().least_notice;
        if least.is_none_or(|least| Severity::Warning < least) {
            return Vec::new();
        }
        let warning = |error: Error| Notice {
            severity: Severity::Warning,
            report: error.report().clone(),
        };
        left_out.into_iter().map(warning).collect()
    }

    /// The session's entry in the list of sessions, which may outlive the session.
    #[must_use]
    pub fn listing(&self) -> Listing {
        Listing(Arc::clone(&self.listed))
    }

    /// Counts the work of the session's statements.
    #[must_use]
    pub fn work_meter(&self) -> &Arc<WorkMeter> {
        &self.info.work_meter
    }

    /// Parses a query string without looking anything up or executing anything.
    pub fn parse(&mut self, text: &str) -> Result<Vec<Statement>> {
        self.limits.check_statement(text)?;
        if let Some(statement) = self.statement_cache.statement(text) {
            return Ok(vec![statement]);
        }
        let statements = statement::parse(text, self.info.around.budget())?;
        if let [statement] = &statements[..] {
            self.statement_cache.note(text, statement);
        }
        Ok(statements)
    }

    /// [`Session::parse`] for a string that may hold very many statements: the session
    /// does not keep all of their syntax trees in memory.
    pub fn parse_sequence(&mut self, text: &str) -> Result<Statements> {
        self.limits.check_statement(text)?;
        if let Some(statement) = self.statement_cache.statement(text) {
            return Ok(statement.into());
        }
        let statements = Statements::parse(text, self.info.around.budget(), None)?;
        if let Some(statement) = statements.single() {
            self.statement_cache.note(text, statement);
        }
        Ok(statements)
    }

    /// The memory budget for statements.
    #[must_use]
    pub fn budget(&self) -> &MemoryBudget {
        self.info.around.budget()
    }

    /// Resolves a statement's names and types. `parameter_oids` holds the parameter types
    /// that the client specified; the binder infers the types that are 0 or missing.
    ///
    /// Preparing reads the catalog and so begins a transaction if none is open. When it
    /// fails, the session has already failed the transaction, as [`Session::fail`] does.
    pub async fn prepare(
        &mut self,
        statement: Statement,
        parameter_oids: &[u32],
    ) -> Result<Arc<Prepared>> {
        self.begin_statement_clock();
        self.ticket.resume();
        let (deadline, cancel) = (self.info.deadline, Arc::clone(&self.info.cancel));
        let work = self.prepare_statement(statement, parameter_oids);
        let prepared = within(deadline, &cancel, work).await;
        let prepared = prepared.and_then(|prepared| {
            self.limits
                .check_parameters(prepared.parameter_types().len())?;
            Ok(prepared)
        });
        self.pause();
        prepared.map_err(|error| {
            let error = self.explained(error);
            self.fail();
            error
        })
    }

    /// Marks the transaction as waiting for its client, for admission control.
    fn pause(&mut self) {
        self.note_seen();
        self.ticket.rest();
    }

    /// Binds parameters to a prepared statement. A single format applies to all
    /// parameters; an empty list of formats means text.
    pub fn bind(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Option<&[u8]>],
        formats: &[Format],
        result_formats: &[Format],
    ) -> Result<Portal> {
        if !prepared.statement.is_transaction_exit() {
            self.check_not_failed()?;
        }
        if self.block == Block::Idle && prepared.takes_moments() {
            // A parameter such as `now` is read by this clock; the transaction that
            // begins with the portal's execution has a clock of its own.
            self.info.style.now = EvaluationContext::clock();
        }
        // The parameters stay until the portal is dropped; the next bind finds them
        // counted as used.
        let bytes: usize = parameters.iter().flatten().map(|bytes| bytes.len()).sum();
        self.budget().ask_for(2 * bytes as u64, "The parameters")?;
        let number = self.portals.number();
        let prepared = self.with_cursor_columns(prepared);
        let default_format = [self.default_format(&prepared)];
        let result_formats = match result_formats {
            [] => &default_format[..],
            given => given,
        };
        let (portal, kept) = measured(2 * bytes as u64, || {
            Portal::new(
                prepared,
                parameters,
                formats,
                result_formats,
                &self.info.style,
                number,
            )
        });
        let mut portal = portal?;
        portal.bytes = kept + size_of::<Portal>() as u64;
        Ok(portal)
    }

    /// Charges the session for a portal that is kept under a name, or fails with SQLSTATE
    /// 53200.
    pub fn charge_portal(&self, portal: &mut Portal) -> Result<()> {
        let charge = || self.memory.charge(portal.bytes, "A portal");
        portal.charge = Some(charge().or_else(|_| {
            self.info.patterns.clear();
            charge()
        })?);
        Ok(())
    }

    /// What the session keeps between statements.
    #[must_use]
    pub fn memory(&self) -> &Arc<SessionMemory> {
        &self.memory
    }

    /// Promises that the next execution is the last before [`Session::finish`]: that
    /// execution may then commit the implicit transaction itself, and so restart it when
    /// the commit meets a conflict.
    pub fn expect_finish(&mut self) {
        self.finishing = true;
    }

    /// Runs a portal to its end, or until it has returned `max_rows` more rows. When it
    /// fails, the session has already failed the transaction, as [`Session::fail`] does.
    pub async fn execute(
        &mut self,
        portal: &mut Portal,
        max_rows: Option<NonZeroU32>,
        sink: &mut dyn Sink,
    ) -> Result<Completion> {
        self.info.cancel.store(false, Ordering::Relaxed);
        if !std::mem::take(&mut self.announced) {
            self.info.statement_start = EvaluationContext::clock();
            if !self.listed.is_active() {
                let text = portal.prepared.statement.text();
                self.listed.begin(text, self.info.statement_start);
            }
        }
        self.begin_statement_clock();
        // The next statement of the same text has a clock of its own.
        self.clock_runs = false;
        self.ticket.resume();
        let mut sink = Watched {
            sink,
            drained: false,
            least: self.settings.parsed().least_notice,
        };
        let completion = match self.info.deadline {
            None => self.run_portal(portal, max_rows, &mut sink).await,
            deadline => {
                let cancel = Arc::clone(&self.info.cancel);
                let work = self.run_portal(portal, max_rows, &mut sink);
                within(deadline, &cancel, work).await
            }
        };
        self.finishing = false;
        self.pause();
        completion.map_err(|error| {
            let error = self.explained(error);
            self.fail();
            error
        })
    }

    /// Adds detail to an error about a conflict or a lock, and removes row values that
    /// the session's role may not read. Must be called while the failed transaction still
    /// runs, because other transactions may still wait for it.
    fn explained(&mut self, error: Error) -> Error {
        let refused = self.temporary.as_ref().and_then(Temporary::take_refused);
        let error = match refused {
            Some(refused) if error.state() == SqlState::OUT_OF_MEMORY => refused,
            _ => error,
        };
        let Some(catalog) = self.catalog.clone() else {
            return error.hiding_rows(|_| false);
        };
        let catalog = self.with_temporary(catalog);
        let role = self.info.role;
        let error = error.hiding_rows(|oid| {
            let table = catalog.table_by_oid(oid);
            table.is_some_and(|table| catalog.may_read(role, table))
        });
        if error.engine_error().is_none() {
            return error;
        }
        let (error, seen) = contention::explain(error, &catalog, &*self.database.engine, role);
        self.newest_seen = self.newest_seen.max(seen);
        // The detail describes other transactions as of now, so the answer needs a
        // confirmation.
        self.read_confirmation.look(Isolation::ReadCommitted);
        error
    }

    /// Commits the implicit transaction, if one is open, because the client waits for an
    /// answer. Called at Sync and at the end of a simple query, after failures too.
    pub async fn finish(&mut self) -> Result<()> {
        self.finishing = false;
        self.asks_anew();
        if self.block == Block::Implicit {
            self.ticket.resume();
            let (deadline, cancel) = (self.info.deadline, Arc::clone(&self.info.cancel));
            let committed = within(deadline, &cancel, self.commit_block()).await;
            committed.map_err(|error| self.explained(error))?;
        }
        Ok(())
    }

    /// Shows other sessions `text` as this session's activity until [`Session::rest`].
    /// The next execution counts as begun now.
    pub fn announce(&mut self, text: &str) {
        self.info.statement_start = EvaluationContext::clock();
        self.announced = true;
        self.clock_runs = false;
        self.listed.begin(text, self.info.statement_start);
    }

    /// Shows other sessions this session as idle: called after [`Session::finish`], when
    /// the client has received its answer.
    pub fn rest(&mut self) {
        let state = match self.block {
            Block::Idle | Block::Implicit => SessionState::Idle,
            Block::Explicit => SessionState::IdleInTransaction,
            Block::Failed => SessionState::IdleInFailedTransaction,
        };
        self.announced = false;
        self.clock_runs = false;
        self.doze();
        self.info.deadline = None;
        self.listed.rest(state, EvaluationContext::clock());
    }

    /// Statements that take at least this long are logged; `None` logs none.
    #[must_use]
    pub fn slow_statement(&self) -> Option<Duration> {
        self.settings.parsed().slow_statement
    }

    /// The failures of statements that are logged.
    #[must_use]
    pub fn logged_failures(&self) -> LoggedFailures {
        self.settings.parsed().logged_failures
    }

    /// The session's activity entry, for the connection that sends its answers.
    #[must_use]
    pub fn activity(&self) -> &Arc<Activity> {
        self.listed.page()
    }

    /// Handles an error outside the session, such as a malformed protocol message: aborts
    /// the implicit transaction, or marks the explicit one as failed.
    pub fn fail(&mut self) {
        self.copy = None;
        match self.block {
            Block::Idle => {}
            Block::Implicit => self.roll_back(),
            Block::Explicit | Block::Failed => {
                self.block = Block::Failed;
                let undone = self.running.as_mut().is_some_and(Running::undo_to_last);
                if !undone {
                    self.abort_running();
                    self.ticket.leave();
                }
            }
        }
    }

    /// Fails in a transaction that has failed, which returns no rows and describes none:
    /// with SQLSTATE 25P02, or once with 40001 if the transaction was lost with its
    /// leader.
    pub fn check_not_failed(&mut self) -> Result<()> {
        match self.block {
            Block::Failed if self.lost_block.tell() => Err(lost_transaction()),
            Block::Failed => Err(in_failed_transaction()),
            Block::Idle | Block::Implicit | Block::Explicit => Ok(()),
        }
    }

    /// Name of the role as which statements run.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.info.user
    }

    /// The transaction status for ReadyForQuery. Must be called after
    /// [`Session::finish`].
    #[must_use]
    pub fn transaction_status(&self) -> TransactionStatus {
        match self.block {
            Block::Idle | Block::Implicit => TransactionStatus::Idle,
            Block::Explicit => TransactionStatus::InTransaction,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// Commit timestamp of the newest commit that a result returned so far depends on.
    #[must_use]
    pub fn newest_seen(&self) -> Timestamp {
        self.newest_seen
    }

    /// The dependencies of all results returned so far, except those that the end of an
    /// open transaction block will confirm. The caller waits until they are durable
    /// ([`coeval_txn::Engine::poll_durable`]) and confirmed
    /// ([`coeval_txn::Engine::poll_confirmed`]) before any of these results leaves the
    /// process.
    pub fn dependencies(&mut self) -> ResponseDependencies {
        let running = self.running.as_ref();
        let open = running.map_or(Open::No, |running| Open::of(self.block, running));
        let engine = &*self.database.engine;
        ResponseDependencies {
            newest_seen: self.newest_seen,
            confirmation: self.read_confirmation.confirmation(engine, open),
        }
    }

    /// The newest commit of this session that wrote something. A client that does not
    /// receive its answer cannot know whether that transaction committed.
    #[must_use]
    pub fn newest_commit(&self) -> Timestamp {
        self.read_confirmation.newest_commit()
    }

    /// The newest commit of this session that wrote something, on whichever node; zero if
    /// there is none.
    #[must_use]
    pub fn last_commit(&self) -> Timestamp {
        self.newest_commit().max(self.commit_elsewhere)
    }

    /// Has the snapshots of transactions that begin from now on include this commit.
    pub fn require(&mut self, minimum: Option<Timestamp>) {
        self.minimum = minimum;
    }

    /// The settings that the executor and the server need, in parsed form.
    #[must_use]
    pub fn parsed_settings(&self) -> &settings::Parsed {
        self.settings.parsed()
    }

    /// Number of cluster changes that this session has requested. They take effect
    /// outside of transactions.
    #[must_use]
    pub const fn cluster_changes(&self) -> u64 {
        self.cluster_changes
    }

    /// The settings that the protocol reports to clients (ParameterStatus) and that have
    /// changed since the last call, as name and value. The first call returns all such
    /// settings.
    pub fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        if let Some(compared) = &self.compared
            && Arc::ptr_eq(compared, &self.settings)
        {
            return Vec::new();
        }
        self.compared = Some(Arc::clone(&self.settings));
        let mut changes = Vec::new();
        let first = self.reported.is_empty();
        for (position, (name, value)) in self.settings.reported().enumerate() {
            if first {
                self.reported.push((name, value.to_owned()));
            } else if self.reported[position].1 != value {
                value.clone_into(&mut self.reported[position].1);
            } else {
                continue;
            }
            changes.push((name.to_owned(), value.to_owned()));
        }
        changes
    }

    /// Raises `newest_seen` to the newest commit that the running transaction
    /// or a transaction status function has shown.
    fn note_seen(&mut self) {
        self.newest_seen = self.newest_seen.max(self.info.numbered.told());
        if let Some(running) = &self.running {
            self.newest_seen = self.newest_seen.max(running.transaction.newest_seen());
        }
    }
}

/// Rolls back the open transaction when the client has disconnected.
impl Drop for Session {
    fn drop(&mut self) {
        self.abort_running();
    }
}

/// SQLSTATE 25P02: the block has failed, and only its end is accepted.
fn in_failed_transaction() -> Error {
    Error::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
