//! What a session notes of its statements: how long they took and what came of
//! them, on its worker's sheet, and those that took too long in the log.
//!
//! ```text
//!   bytes come      statement ends     statement ends      answer sent
//!   ──┬─────────────────┬──────────────────┬───────────────────┬──▶
//!     └── statement 1 ──┴── statement 2 ───┘                   │
//!     └────────────────────── answer ──────────────────────────┘
//! ```
//!
//! The clock is read at these points and no others: a statement's time includes
//! taking its message apart and planning it.

use coeval_env::Instant;
use coeval_sql::Error;
use coeval_sql::output::Completion;
use coeval_sql::session::Session;
use coeval_sql::statement::{Statement, elide};
use tracing::info;

use crate::metrics::Sheet;

/// The longest text of a slow statement that is logged, in bytes.
const MOST_TEXT: usize = 2048;

/// A session's clock.
#[derive(Debug)]
pub(super) struct Clock {
    /// When it was read last.
    read: Instant,
    /// When the client asked for what it has no answer to yet.
    asked: Option<Instant>,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self {
            read: coeval_env::now(),
            asked: None,
        }
    }

    /// Bytes have come.
    pub(super) fn bytes_came(&mut self) {
        self.read = coeval_env::now();
    }

    /// The client asks for something.
    pub(super) fn asked(&mut self) {
        self.asked.get_or_insert(self.read);
    }

    /// Whether the client waits for an answer.
    pub(super) const fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// The client has its answer.
    pub(super) fn answered(&mut self, sheet: &Sheet) {
        self.read = coeval_env::now();
        if let Some(asked) = self.asked.take() {
            sheet.answered(self.read.duration_since(asked));
        }
    }

    /// When the statement that runs began.
    pub(super) fn statement_began(&self) -> Instant {
        self.read
    }
}

/// Notes that a statement has ended. `most` is how many rows were asked for, if not
/// all were.
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
            statement = elide(statement.text(), MOST_TEXT),
            "slow statement"
        );
    }
}
