//! Sessions: what one client sees of the database, from its settings to its
//! transaction.
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
//! Both go the same way; a simple query is every step at once, for every statement
//! in the string. [`Session::finish`] marks where the client waits for an answer:
//! statements between two such marks that stand in no explicit transaction form
//! one implicit transaction, which ends there.
//!
//! A session is used by one task at a time and knows nothing of the wire: results
//! go to a [`Sink`]. What it hands out may not be durable yet; whoever sends it to
//! the client waits for [`Session::basis`] first.
//!
//! - [`control`]: BEGIN, COMMIT, savepoints, and the state they change.
//! - [`identity`]: SET ROLE.
//! - [`set`] and [`settings`]: SET, SHOW and what there is to set.
//! - [`prepared`]: statements with their names resolved; [`portal`]: with their
//!   parameters.
//! - [`run`]: executing portals; [`utility`]: what has no plan; [`delivery`]: their
//!   results.
//! - [`carried`]: what of it goes on when another node serves it.
//! - [`timeouts`]: how long things may take; [`cluster`]: changes of the cluster.
//!
//! What it shares with the other sessions is in [`crate::instance`].

mod carried;
mod cluster;
mod control;
mod copying;
mod database;
mod delivery;
mod explain;
pub(crate) mod identity;
#[cfg(feature = "planted")]
mod planted;
mod portal;
mod prepared;
mod recency;
mod recent;
mod run;
mod set;
pub mod settings;
mod texts;
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
use coeval_txn::{Basis, Isolation};
use coeval_types::Timestamp;
use smol_str::SmolStr;

pub use carried::{Carried, MOST_BYTES, MOST_PIECE, MOST_RECORD, Malformed};
pub use database::{Account, Database, Login};
pub use portal::Portal;
pub use prepared::Prepared;

use crate::access::FIRST_ROLE;
use crate::catalog::Catalog;
use crate::contention;
use crate::copy::CopyIn;
use crate::error::{Error, Result, SqlState};
use crate::expression::{EvaluationContext, SessionInfo};
use crate::instance::activity::{Activity, Entrant, Interrupt, Listed, SessionState};
use crate::instance::{Limits, Room, Ticket, within};
use crate::outcome::Numbered;
use crate::output::{Completion, Format, Sink, TransactionStatus};
use crate::statement::{self, Modes, Statement, Statements};
use crate::system;
use carried::{CarriedStatement, Noted};
use delivery::Watched;
use identity::Who;
use portal::Portals;
use recency::{Open, Recency};
use recent::Recent;
use settings::Settings;
use texts::Texts;
use transaction::{Block, Running};

/// How a session begins.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Who the client says it is, and has shown to be where that was asked for.
    pub user: String,
    /// The role of that name; `None` for the first role, under that name.
    pub role: Option<Login>,
    /// Which database it asked for.
    pub database: String,
    /// What it calls itself.
    pub application_name: String,
    /// The number `pg_backend_pid()` returns.
    pub process_id: i32,
    /// Set from outside to end the statement that runs. The session clears it when
    /// the next one begins.
    pub cancel: Arc<AtomicBool>,
    /// How others may cancel its statements and end it.
    pub interrupt: Option<Arc<dyn Interrupt>>,
    /// Where the client is, if it came over the network.
    pub client: Option<SocketAddr>,
    /// Settings of the server for its sessions, name and value.
    pub defaults: Vec<(String, String)>,
    /// Settings the client sent at start, name and value.
    pub parameters: Vec<(String, String)>,
    /// How large its statements may be.
    pub limits: Limits,
    /// Whether its transactions never wait for admission: so that somebody can look
    /// at a server that has more to do than it can, and help.
    pub privileged: bool,
}

/// One client's state.
#[derive(Debug)]
pub struct Session {
    database: Arc<Database>,
    info: SessionInfo,
    limits: Limits,
    ticket: Ticket,
    /// Its page among those of all sessions.
    listed: Listed,
    /// Whether the page says already what comes next.
    announced: bool,
    settings: Arc<Settings>,
    /// What [`Session::settings`] goes back to on rollback.
    settings_at_begin: Option<Arc<Settings>>,
    block: Block,
    /// What was said of the transaction; the settings say the rest.
    modes: Modes,
    running: Option<Running>,
    /// Since when the transaction that is open has had a time limit.
    transaction_limited: Option<Instant>,
    /// Whether a statement has run in it; preparing one is none.
    statements_ran: bool,
    /// Counts ends of transactions: a portal does not outlive its own.
    epoch: u64,
    /// Which portals have ended.
    portals: Portals,
    /// The next execution is the last before [`Session::finish`].
    finishing: bool,
    newest_seen: Timestamp,
    recency: Recency,
    /// How many changes of the cluster it has asked for.
    cluster_changes: u64,
    /// The catalog used last.
    catalog: Option<Arc<Catalog>>,
    /// Statements that PREPARE or Parse has prepared under a name.
    named: BTreeMap<String, Arc<Prepared>>,
    /// The one that Parse has prepared without a name.
    unnamed: Option<Arc<Prepared>>,
    /// Statements that were prepared when another node served the session, and not used
    /// since: none of these names is in [`Session::named`].
    asleep: BTreeMap<String, CarriedStatement>,
    /// What is remembered for those who keep what the session carries.
    noted: Option<Box<Noted>>,
    /// The block has failed because the leader has changed, and the client was not told.
    lost_transaction: bool,
    /// Simple queries that were run before.
    texts: Texts,
    copy: Option<CopyIn>,
    /// The reported settings, as the client knows them.
    reported: Vec<(&'static str, String)>,
    /// The settings when they were last compared with what was reported.
    compared: Option<Arc<Settings>>,
    /// Statements that came lately.
    recent: Recent,
}

impl Session {
    /// A new session. Fails when a setting among the options does not exist or has
    /// no such value.
    pub fn new(database: Arc<Database>, options: SessionOptions) -> Result<Self> {
        Self::begin(database, options, &mut Err)
    }

    /// [`Session::new`]; `refused` says what is to be done about a setting that does not
    /// exist or has no such value.
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
        let settings = Arc::new(Settings::at_start(
            login,
            &options.application_name,
            &options.defaults,
            &options.parameters,
            refused,
        )?);
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
        let listed = Listed::enter(&database.around, entrant);
        let info = SessionInfo {
            around: Arc::clone(&database.around),
            numbered: Arc::new(Numbered::new(&database.around.outcomes)),
            alias: (role == FIRST_ROLE).then_some(user),
            database: options.database.into(),
            process_id: options.process_id,
            cancel: options.cancel,
            ..SessionInfo::new(system::OBJECTS)
        };
        let mut session = Self {
            ticket,
            database,
            info,
            limits: options.limits,
            listed,
            announced: false,
            settings,
            settings_at_begin: None,
            block: Block::Idle,
            modes: Modes::default(),
            running: None,
            transaction_limited: None,
            statements_ran: false,
            epoch: 0,
            portals: Portals::default(),
            finishing: false,
            newest_seen: Timestamp::ZERO,
            recency: Recency::new(),
            cluster_changes: 0,
            catalog: None,
            named: BTreeMap::new(),
            unnamed: None,
            asleep: BTreeMap::new(),
            noted: None,
            lost_transaction: false,
            texts: Texts::default(),
            copy: None,
            reported: Vec::new(),
            compared: None,
            recent: Recent::default(),
        };
        session.apply_settings();
        Ok(session)
    }

    /// Parses a query string. Nothing is looked up and nothing runs.
    pub fn parse(&mut self, text: &str) -> Result<Vec<Statement>> {
        self.limits.check_statement(text)?;
        if let Some(statement) = self.recent.statement(text) {
            return Ok(vec![statement]);
        }
        let statements = statement::parse(text, self.info.around.room())?;
        if let [statement] = &statements[..] {
            self.recent.note(text, statement);
        }
        Ok(statements)
    }

    /// [`Session::parse`], for a string that may hold very many statements: not all of
    /// their trees are kept.
    pub fn parse_sequence(&mut self, text: &str) -> Result<Statements> {
        self.limits.check_statement(text)?;
        if let Some(statement) = self.recent.statement(text) {
            return Ok(statement.into());
        }
        let statements = Statements::parse(text, self.info.around.room())?;
        if let Some(statement) = statements.single() {
            self.recent.note(text, statement);
        }
        Ok(statements)
    }

    /// What memory is left for statements.
    #[must_use]
    pub fn room(&self) -> &Room {
        self.info.around.room()
    }

    /// Resolves a statement's names and types. `parameter_oids` says what the
    /// client knows of the parameters' types; 0 and what is missing are inferred.
    ///
    /// Looks into the catalog and so begins a transaction if there is none. An
    /// error has taken its effect on the transaction when it is returned, as if
    /// [`Session::fail`] had been called.
    pub async fn prepare(
        &mut self,
        statement: Statement,
        parameter_oids: &[u32],
    ) -> Result<Arc<Prepared>> {
        self.start_statement_clock();
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
        if prepared.is_err() {
            self.fail();
        }
        prepared
    }

    /// Nothing executes any more for the moment.
    fn pause(&mut self) {
        self.note_seen();
        self.ticket.rest();
    }

    /// Gives a prepared statement its parameters. One format stands for all; none
    /// means text.
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
            // What a parameter such as `now` is read as; the transaction that begins
            // with its execution goes by its own clock.
            self.info.style.now = EvaluationContext::clock();
        }
        // They stay until the portal goes; by the time the next one asks, they are counted.
        let bytes: usize = parameters.iter().flatten().map(|bytes| bytes.len()).sum();
        self.room().ask_for(2 * bytes as u64, "The parameters")?;
        let number = self.portals.number();
        Portal::new(
            Arc::clone(prepared),
            parameters,
            formats,
            result_formats,
            &self.info.style,
            number,
        )
    }

    /// Promises that the next execution is the last before [`Session::finish`]: it
    /// may commit the implicit transaction itself, and so start anew when the
    /// commit meets a conflict.
    pub fn expect_finish(&mut self) {
        self.finishing = true;
    }

    /// Runs a portal, to its end or until it has returned `max_rows` more rows. An
    /// error has taken its effect on the transaction when it is returned, as if
    /// [`Session::fail`] had been called.
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
        self.start_statement_clock();
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

    /// An error in more words, if it is about a conflict or a lock, and without rows
    /// that the session may not read. To be asked while the transaction runs that has
    /// failed: others may still wait for it.
    fn explained(&mut self, error: Error) -> Error {
        let Some(catalog) = self.catalog.clone() else {
            return error.hiding_rows(|_| false);
        };
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
        // Whatever was shown of others is of this moment.
        self.recency.look(Isolation::ReadCommitted);
        error
    }

    /// The client waits for an answer: commits the implicit transaction, if there
    /// is one. Called at Sync and at the end of a simple query, after failures too.
    pub async fn finish(&mut self) -> Result<()> {
        self.finishing = false;
        if self.block == Block::Implicit {
            self.ticket.resume();
            let (deadline, cancel) = (self.info.deadline, Arc::clone(&self.info.cancel));
            let committed = within(deadline, &cancel, self.commit_block()).await;
            committed.map_err(|error| self.explained(error))?;
        }
        Ok(())
    }

    /// The client has asked for this: what others see it do from now on, until
    /// [`Session::rest`]. The next execution counts as begun now.
    pub fn announce(&mut self, text: &str) {
        self.info.statement_start = EvaluationContext::clock();
        self.announced = true;
        self.listed.begin(text, self.info.statement_start);
    }

    /// The client has its answer, after [`Session::finish`]: others see the session
    /// idle.
    pub fn rest(&mut self) {
        let state = match self.block {
            Block::Idle | Block::Implicit => SessionState::Idle,
            Block::Explicit => SessionState::IdleInTransaction,
            Block::Failed => SessionState::IdleInFailedTransaction,
        };
        self.announced = false;
        self.listed.rest(state, EvaluationContext::clock());
    }

    /// Statements that take this long are to be logged; `None` for none.
    #[must_use]
    pub fn slow_statement(&self) -> Option<Duration> {
        self.settings.parsed().slow_statement
    }

    /// Its page, for whoever sends its answers.
    #[must_use]
    pub fn activity(&self) -> &Arc<Activity> {
        self.listed.page()
    }

    /// Something went wrong outside the session, such as a message that makes no
    /// sense: aborts the implicit transaction, or marks the explicit one failed.
    pub fn fail(&mut self) {
        self.copy = None;
        match self.block {
            Block::Idle => {}
            Block::Implicit => self.roll_back(),
            Block::Explicit | Block::Failed => {
                self.block = Block::Failed;
                let keep = self.running.as_ref().is_some_and(Running::has_savepoint);
                if !keep {
                    self.abort_running();
                    self.ticket.leave();
                }
            }
        }
    }

    /// 25P02 in a transaction that has failed, which shows nothing and describes no rows.
    /// 40001, once, in one that was lost with its leader.
    pub fn check_not_failed(&mut self) -> Result<()> {
        match self.block {
            Block::Failed if std::mem::take(&mut self.lost_transaction) => Err(lost_transaction()),
            Block::Failed => Err(in_failed_transaction()),
            Block::Idle | Block::Implicit | Block::Explicit => Ok(()),
        }
    }

    /// As whom statements run.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.info.user
    }

    /// Where the session stands. To be asked after [`Session::finish`].
    #[must_use]
    pub fn transaction_status(&self) -> TransactionStatus {
        match self.block {
            Block::Idle | Block::Implicit => TransactionStatus::Idle,
            Block::Explicit => TransactionStatus::InTransaction,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// The newest commit that anything handed out so far depends on.
    #[must_use]
    pub fn newest_seen(&self) -> Timestamp {
        self.newest_seen
    }

    /// What everything handed out so far rests on, but what the end of an open transaction
    /// block will confirm: what must be durable
    /// ([`coeval_txn::Engine::poll_durable`]) and confirmed
    /// ([`coeval_txn::Engine::poll_confirmed`]) before any of that leaves the process.
    pub fn basis(&mut self) -> Basis {
        let running = self.running.as_ref();
        let open = running.map_or(Open::No, |running| Open::of(self.block, running));
        let engine = &*self.database.engine;
        Basis {
            newest_seen: self.newest_seen,
            confirmation: self.recency.confirmation(engine, open),
        }
    }

    /// The newest commit of this session that wrote something: who is not told of it cannot
    /// know whether it happened.
    #[must_use]
    pub fn newest_commit(&self) -> Timestamp {
        self.recency.newest_commit()
    }

    /// How many changes of the cluster this session has asked for: they happen outside of
    /// transactions.
    #[must_use]
    pub const fn cluster_changes(&self) -> u64 {
        self.cluster_changes
    }

    /// The settings that have changed since the last call and that clients are told
    /// of (ParameterStatus), name and value. The first call returns all such
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

    /// Remembers what the running transaction was shown, and the session was told.
    fn note_seen(&mut self) {
        self.newest_seen = self.newest_seen.max(self.info.numbered.told());
        if let Some(running) = &self.running {
            self.newest_seen = self.newest_seen.max(running.transaction.newest_seen());
        }
    }

    /// The catalog as the running transaction sees it. With that a statement begins to look
    /// at the database; see [`Recency::look`] for the second value.
    fn current_catalog(&mut self) -> Result<(Arc<Catalog>, bool)> {
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        let look = self.recency.look(running.isolation());
        let catalog = self
            .database
            .store
            .catalog(&mut *running.transaction, self.catalog.as_ref())?;
        if !self
            .catalog
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &catalog))
        {
            self.catalog = Some(Arc::clone(&catalog));
        }
        Ok((catalog, look))
    }
}

/// What is left undone when the client is gone is undone.
impl Drop for Session {
    fn drop(&mut self) {
        self.abort_running();
    }
}

/// 40001: the block is over, whatever the client has done in it.
fn lost_transaction() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "the transaction was rolled back because the leader of the cluster has changed",
    )
    .with_hint("Run the transaction again; the new leader has taken over the session.")
}

/// 25P02.
fn in_failed_transaction() -> Error {
    Error::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
