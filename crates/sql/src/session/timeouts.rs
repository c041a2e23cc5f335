//! Timeouts: limits on how long a statement or a transaction runs, and how long a client
//! is silent.
//!
//! | setting | runs while | then |
//! | --- | --- | --- |
//! | `statement_timeout` | a statement executes, COPY data are awaited, the answer waits for the engine | 57014; 40003 of a commit |
//! | `lock_timeout` | one lock is waited for | 55P03 (the engine's own) |
//! | `transaction_timeout` | a transaction is open | 25P04, and the session ends |
//! | `idle_in_transaction_session_timeout` | a client is silent, its transaction open | 25P03, and the session ends |
//! | `idle_session_timeout` | a client is silent, without a transaction | 57P05, and the session ends |
//!
//! Zero, the default, means no limit. The module [`deadline`](crate::instance::deadline)
//! explains how a timeout ends a statement that executes.
//!
//! The session cannot see that a client is silent: the connection that reads the client's
//! messages calls [`Session::patience`] before it waits, and ends the session when the
//! timeout has expired.
//!
//! Departure from PostgreSQL: an implicit transaction that stays open because the client
//! does not send its Sync counts as an open transaction.

use super::Session;
use super::transaction::Block;
use crate::instance::{Deadline, TimeLimit};

impl Session {
    /// Starts the statement's clock when its first phase begins: parsing, planning, or
    /// executing.
    pub(super) fn begin_statement_clock(&mut self) {
        if !std::mem::replace(&mut self.clock_runs, true) {
            self.start_statement_clock();
        }
    }

    /// Starts the statement's clock, when a statement begins.
    pub(super) fn start_statement_clock(&mut self) {
        let timeout = self.settings.parsed().statement_timeout;
        let statement = timeout.map(|timeout| Deadline {
            at: coeval_env::now() + timeout,
            limit: TimeLimit::Statement,
        });
        // If no transaction is open, this statement is the one that may open it.
        let transaction = self.settings.parsed().transaction_timeout.map(|timeout| {
            let since = self.transaction_limited.unwrap_or_else(coeval_env::now);
            Deadline::of_transaction(since + timeout)
        });
        self.info.deadline = earlier(statement, transaction);
    }

    /// Updates the transaction's clock when a transaction begins or its timeout changes.
    /// The clock starts when the transaction first has a timeout.
    pub(super) fn update_transaction_clock(&mut self) {
        let timeout = self.settings.parsed().transaction_timeout;
        let timeout = timeout.filter(|_| self.block != Block::Idle);
        self.transaction_limited = match (timeout, self.transaction_limited) {
            (None, _) => None,
            (Some(_), Some(since)) => Some(since),
            (Some(_), None) => Some(coeval_env::now()),
        };
    }

    /// The deadline of the last statement, until its answer has left.
    #[must_use]
    pub fn statement_deadline(&self) -> Option<Deadline> {
        let is_of_statement = |deadline: &Deadline| deadline.limit == TimeLimit::Statement;
        self.info.deadline.filter(is_of_statement)
    }

    /// The deadline for the client's next message, and the timeout that expires then. The
    /// connection must call this whenever it begins to wait for its client.
    #[must_use]
    pub fn patience(&self) -> Option<Deadline> {
        let parsed = self.settings.parsed();
        if self.copy.is_some() {
            return self.info.deadline;
        }
        let (timeout, limit) = match self.block {
            Block::Idle => (parsed.idle_session_timeout, TimeLimit::IdleSession),
            Block::Implicit | Block::Explicit | Block::Failed => (
                parsed.idle_in_transaction_session_timeout,
                TimeLimit::IdleInTransaction,
            ),
        };
        let silence = timeout.map(|timeout| Deadline {
            at: coeval_env::now() + timeout,
            limit,
        });
        let transaction = parsed.transaction_timeout.and_then(|timeout| {
            Some(Deadline::of_transaction(
                self.transaction_limited? + timeout,
            ))
        });
        earlier(silence, transaction)
    }
}

fn earlier(one: Option<Deadline>, other: Option<Deadline>) -> Option<Deadline> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.at < one.at { other } else { one }),
        (one, other) => one.or(other),
    }
}
