//! Statement timing: adds a session's statements to its worker's counters, and logs those
//! that took too long, or failed.
//!
//! ```text
//!   bytes come      statement ends     statement ends      answer sent
//!   ──┬─────────────────┬──────────────────┬───────────────────┬──▶
//!     └── statement 1 ──┴── statement 2 ───┘                   │
//!     └────────────────────── answer ──────────────────────────┘
//! ```
//!
//! The session reads the clock at these points only: a statement's time includes decoding
//! its message and planning it.
//!
//! A failing statement is logged with its message and SQLSTATE. The logged text has neither
//! literals nor passwords; the message may name a value that was wrong, as PostgreSQL's does.

use coeval_env::Instant;
use coeval_sql::Error;
use coeval_sql::output::Completion;
use coeval_sql::session::{LoggedFailures, Session};
use coeval_sql::statement::{Statement, loggable, redact_values};
use tracing::info;

use crate::metrics::Sheet;

/// Maximum length of the logged text of a statement, in bytes.
const MAX_TEXT: usize = 2048;

/// A session's clock.
#[derive(Debug)]
pub(super) struct Clock {
    /// The time of the last reading.
    read: Instant,
    /// When the client sent its oldest unanswered request.
    asked: Option<Instant>,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self {
            read: coeval_env::now(),
            asked: None,
        }
    }

    /// Records that bytes have arrived.
    pub(super) fn bytes_came(&mut self) {
        self.read = coeval_env::now();
    }

    /// Records that the client has sent a request.
    pub(super) fn asked(&mut self) {
        self.asked.get_or_insert(self.read);
    }

    /// Records that the client has its answer.
    pub(super) fn answered(&mut self, sheet: &Sheet) {
        self.read = coeval_env::now();
        if let Some(asked) = self.asked.take() {
            sheet.answered(self.read.duration_since(asked));
        }
    }

    /// Start time of the running statement.
    pub(super) fn statement_began(&self) -> Instant {
        self.read
    }
}

/// Counts a statement that has ended, and logs it if it was slow. `most` is the row limit
/// of the request, if it has one.
pub(super) fn statement_ended(
    statement: &Statement,
    began: Instant,
    result: Result<&Completion, &Error>,
    most: Option<u32>,
    (clock, sheet, session): (&mut Clock, &Sheet, &Session),
) {
    clock.read = coeval_env::now();
    let time = clock.read.duration_since(began);
    let rows = match result {
        Ok(Completion::Complete(tag)) => tag.rows.unwrap_or(0),
        Ok(Completion::Suspended) => u64::from(most.unwrap_or(0)),
        Ok(Completion::Empty | Completion::CopyIn { .. }) => return,
        Err(_) => 0,
    };
    match result {
        Ok(_) => sheet.statement(statement.kind(), time, rows),
        Err(_) => sheet.statement_failed(statement.kind(), time),
    }
    if session.slow_statement().is_some_and(|limit| time >= limit) {
        let shown = session.activity().shown();
        info!(
            session = shown.process_id,
            user = shown.user,
            database = shown.database,
            application = shown.application_name,
            milliseconds = time.as_secs_f64() * 1e3,
            rows,
            sqlstate = result.err().map_or("00000", |error| error.state().0),
            statement = redact_values(statement.text(), MAX_TEXT),
            "slow statement"
        );
    }
}

/// Logs an error that a client gets for its statement, if the settings say so; `ends` is
/// whether it ends the session.
pub(super) fn statement_failed(session: &Session, error: &Error, ends: bool) {
    let is_logged = match session.logged_failures() {
        LoggedFailures::All => true,
        LoggedFailures::EndsOfSessions => ends,
        LoggedFailures::None => false,
    };
    let activity = session.activity();
    // A session that ends while it waits for its client runs no statement.
    if !is_logged || !activity.is_active() {
        return;
    }
    let shown = activity.shown();
    info!(
        session = shown.process_id,
        user = shown.user,
        database = shown.database,
        application = shown.application_name,
        severity = if ends { "FATAL" } else { "ERROR" },
        sqlstate = error.state().0,
        error = error.report().message.as_ref() as &str,
        statement = redact_values(&loggable(&shown.query), MAX_TEXT),
        "statement failed"
    );
}
