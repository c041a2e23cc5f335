//! The counters of one worker.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coeval_memory::counters::{Counter, Distribution, Durations};
use coeval_sql::SqlState;
use coeval_sql::statement::StatementKind;

/// Number of statement kinds.
pub(crate) const KINDS: usize = StatementKind::ALL.len();

/// One worker's counters. Only the worker's thread writes them.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    statements: [Statements; KINDS],
    answers: Durations,
    durability_waits: Durations,
    confirmation_waits: Durations,
    received_bytes: Counter,
    sent_bytes: Counter,
    sessions: Counter,
    refusals: Counter,
    errors: Mutex<BTreeMap<&'static str, u64>>,
}

#[derive(Debug, Default)]
struct Statements {
    durations: Durations,
    failures: Counter,
    rows: Counter,
}

impl Sheet {
    /// Counts a successful statement: its duration, and the rows that it returned or
    /// changed.
    #[inline]
    pub(crate) fn statement(&self, kind: StatementKind, time: Duration, rows: u64) {
        let statements = &self.statements[kind as usize];
        statements.durations.record_time_alone(time);
        statements.rows.add_alone(rows);
    }

    /// Counts a failed statement and its duration.
    pub(crate) fn statement_failed(&self, kind: StatementKind, time: Duration) {
        let statements = &self.statements[kind as usize];
        statements.durations.record_time_alone(time);
        statements.failures.add_alone(1);
    }

    /// Counts an error that the server sent to a client.
    pub(crate) fn error(&self, state: SqlState) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        *errors.entry(state.0).or_default() += 1;
    }

    /// Records the time from a client's request to its complete answer.
    #[inline]
    pub(crate) fn answered(&self, time: Duration) {
        self.answers.record_time_alone(time);
    }

    /// Records how long an answer waited for the transactions that it depends on to be
    /// durable.
    pub(crate) fn waited_for_durability(&self, time: Duration) {
        self.durability_waits.record_time_alone(time);
    }

    /// Records how long an answer waited for the confirmation that this node leads.
    pub(crate) fn waited_for_confirmation(&self, time: Duration) {
        self.confirmation_waits.record_time_alone(time);
    }

    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes.add_alone(bytes as u64);
    }

    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.add_alone(bytes as u64);
    }

    /// Counts a client that was let in.
    pub(crate) fn session(&self) {
        self.sessions.add_alone(1);
    }

    /// Counts a client that was refused.
    pub(crate) fn refused(&self) {
        self.refusals.add_alone(1);
    }
}

/// The sum of several workers' counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    /// Statement counters, indexed by kind as in [`StatementKind::ALL`].
    pub(crate) statements: [Statement; KINDS],
    pub(crate) answers: Distribution,
    pub(crate) durability_waits: Distribution,
    pub(crate) confirmation_waits: Distribution,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) sessions: u64,
    pub(crate) refusals: u64,
    /// Number of errors by SQLSTATE.
    pub(crate) errors: BTreeMap<&'static str, u64>,
}

/// The counters of one kind of statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statement {
    pub(crate) durations: Distribution,
    pub(crate) failures: u64,
    pub(crate) rows: u64,
}

impl Sum {
    /// Adds one more worker's counters.
    pub(crate) fn add(&mut self, sheet: &Sheet) {
        for (sum, statements) in self.statements.iter_mut().zip(&sheet.statements) {
            sum.durations.merge(&statements.durations.read());
            sum.failures += statements.failures.get();
            sum.rows += statements.rows.get();
        }
        self.answers.merge(&sheet.answers.read());
        self.durability_waits.merge(&sheet.durability_waits.read());
        self.confirmation_waits
            .merge(&sheet.confirmation_waits.read());
        self.received_bytes += sheet.received_bytes.get();
        self.sent_bytes += sheet.sent_bytes.get();
        self.sessions += sheet.sessions.get();
        self.refusals += sheet.refusals.get();
        let errors = sheet.errors.lock().unwrap_or_else(PoisonError::into_inner);
        for (state, count) in &*errors {
            *self.errors.entry(state).or_default() += count;
        }
    }

    /// The counters of one kind of statement.
    pub(crate) fn of(&self, kind: StatementKind) -> &Statement {
        &self.statements[kind as usize]
    }
}
