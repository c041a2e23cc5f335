//! Time limits: of a statement, of a transaction, of a client's silence.
//!
//! | setting | runs while | then |
//! | --- | --- | --- |
//! | `statement_timeout` | a statement executes, COPY data are awaited | 57014 |
//! | `lock_timeout` | one lock is waited for | 55P03 (the engine's own) |
//! | `transaction_timeout` | a transaction is open | 25P04, and the session ends |
//! | `idle_in_transaction_session_timeout` | a client is silent, its transaction open | 25P03, and the session ends |
//! | `idle_session_timeout` | a client is silent, without a transaction | 57P05, and the session ends |
//!
//! Zero, the default, is no limit. How a limit ends what executes:
//! [`deadline`](crate::instance::deadline).
//!
//! Silence cannot be seen from here: whoever reads the client's messages asks for
//! [`Session::patience`] before it waits, and ends what has run out.
//!
//! Departure from PostgreSQL: an implicit transaction that stays open because the
//! client does not send its Sync counts as an open transaction.

use super::Session;
use super::transaction::Block;
use crate::instance::{Deadline, TimeLimit};

impl Session {
    /// A statement begins: its time runs from now on.
    pub(super) fn start_statement_clock(&mut self) {
        let timeout = self.settings.parsed().statement_timeout;
        let statement = timeout.map(|timeout| Deadline {
            at: coeval_env::now() + timeout,
            limit: TimeLimit::Statement,
        });
        // One that is not open yet opens with this statement, if at all.
        let transaction = self.settings.parsed().transaction_timeout.map(|timeout| {
            let since = self.transaction_limited.unwrap_or_else(coeval_env::now);
            Deadline::of_transaction(since + timeout)
        });
        self.info.deadline = earlier(statement, transaction);
    }

    /// A transaction begins, or its limit changes: its time runs from the moment at
    /// which it got a limit.
    pub(super) fn update_transaction_clock(&mut self) {
        let timeout = self.settings.parsed().transaction_timeout;
        let timeout = timeout.filter(|_| self.block != Block::Idle);
        self.transaction_limited = match (timeout, self.transaction_limited) {
            (None, _) => None,
            (Some(_), Some(since)) => Some(since),
            (Some(_), None) => Some(coeval_env::now()),
        };
    }

    /// How long the client may be silent from now on, and what has run out then. To
    /// be asked whenever the session begins to wait for its client.
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
