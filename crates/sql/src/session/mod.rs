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
//! the client waits for [`Session::newest_seen`] first.

mod database;
mod output;
mod settings;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use coeval_txn::Engine;
use coeval_types::Timestamp;

pub use database::Database;
pub use output::{
    Column, CommandTag, Completion, Format, Notice, OutputRow, Severity, Sink, TransactionStatus,
};

use crate::error::{Error, Result};
use crate::statement::{self, Statement};

/// How a session begins.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Who the client says it is.
    pub user: String,
    /// Which database it asked for.
    pub database: String,
    /// What it calls itself.
    pub application_name: String,
    /// The number `pg_backend_pid()` returns.
    pub process_id: i32,
    /// Set from outside to end the statement that runs. The session clears it when
    /// the next one begins.
    pub cancel: Arc<AtomicBool>,
    /// Settings the client sent at start, name and value.
    pub parameters: Vec<(String, String)>,
}

/// One client's state.
#[derive(Debug)]
pub struct Session {}

/// A statement whose names and types are resolved.
#[derive(Debug)]
pub struct Prepared {}

impl Prepared {
    /// The types of its parameters, as numbers in `pg_type`.
    #[must_use]
    pub fn parameter_types(&self) -> &[u32] {
        &[]
    }

    /// The columns it returns; `None` when it returns no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[Column]> {
        None
    }

    /// Whether there is nothing to execute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        true
    }
}

/// A prepared statement with its parameters, and how far it has come.
#[derive(Debug)]
pub struct Portal {}

impl Portal {
    /// The columns it returns; `None` when it returns no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[Column]> {
        None
    }

    /// The format of each column.
    #[must_use]
    pub fn formats(&self) -> &[Format] {
        &[]
    }
}

impl Session {
    /// A new session. Fails when a setting among the options does not exist or has
    /// no such value.
    pub fn new(database: Arc<Database>, options: SessionOptions) -> Result<Self> {
        let _ = (database, options);
        Ok(Self {})
    }

    /// Parses a query string. Nothing is looked up and nothing runs.
    pub fn parse(&mut self, text: &str) -> Result<Vec<Statement>> {
        statement::parse(text)
    }

    /// Resolves a statement's names and types. `parameter_oids` says what the
    /// client knows of the parameters' types; 0 and what is missing are inferred.
    ///
    /// Looks into the catalog and so begins a transaction if there is none; after a
    /// failure the caller calls [`Session::fail`].
    pub async fn prepare(
        &mut self,
        statement: Statement,
        parameter_oids: &[u32],
    ) -> Result<Arc<Prepared>> {
        let _ = (statement, parameter_oids);
        Err(Error::unsupported("this"))
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
        let _ = (prepared, parameters, formats, result_formats);
        Err(Error::unsupported("this"))
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
        let _ = (portal, max_rows, sink);
        Err(Error::unsupported("this"))
    }

    /// The client waits for an answer: commits the implicit transaction, if there
    /// is one. Called at Sync and at the end of a simple query, after failures too.
    pub async fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// Data for the COPY FROM STDIN that runs, cut anywhere. Locks may be waited
    /// for.
    pub async fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let _ = data;
        Err(Error::unsupported("this"))
    }

    /// The data for the COPY FROM STDIN is complete.
    pub async fn copy_done(&mut self) -> Result<Completion> {
        Err(Error::unsupported("this"))
    }

    /// The client gives up the COPY FROM STDIN. Returns the error to answer with.
    pub fn copy_fail(&mut self, message: &str) -> Error {
        let _ = message;
        Error::unsupported("this")
    }

    /// Something went wrong outside the session, such as a message that makes no
    /// sense: aborts the implicit transaction, or marks the explicit one failed.
    pub fn fail(&mut self) {}

    /// Where the session stands. To be asked after [`Session::finish`].
    #[must_use]
    pub fn transaction_status(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }

    /// The newest commit that anything handed out so far depends on. It must be
    /// durable ([`Engine::poll_durable`]) before any of that leaves the process.
    #[must_use]
    pub fn newest_seen(&self) -> Timestamp {
        Timestamp::ZERO
    }

    /// The settings that have changed since the last call and that clients are told
    /// of (ParameterStatus), name and value. The first call returns all such
    /// settings.
    pub fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        Vec::new()
    }
}
