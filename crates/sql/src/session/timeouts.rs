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
//! Zero, the default, is no limit. A limit that runs out while something executes
//! asks it to end and waits until it has: nothing is left halfway. What only waits is
//! woken by a timer; what computes looks at the clock where it looks for cancel
//! requests ([`crate::expression::EvaluationContext::check_canceled`]), since a timer
//! of its own executor cannot interrupt it.
//!
//! Silence cannot be seen from here: whoever reads the client's messages asks for
//! [`Session::patience`] before it waits, and ends what has run out.
//!
//! Departure from PostgreSQL: an implicit transaction that stays open because the
//! client does not send its Sync counts as an open transaction.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use coeval_env::Instant;

use super::Session;
use super::transaction::Block;
use crate::error::{Error, Result, SqlState};

/// What can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// `statement_timeout`.
    Statement,
    /// `transaction_timeout`.
    Transaction,
    /// `idle_in_transaction_session_timeout`.
    IdleInTransaction,
    /// `idle_session_timeout`.
    IdleSession,
}

impl TimeLimit {
    /// What the client is told.
    #[must_use]
    pub fn error(self) -> Error {
        let (state, message, setting) = match self {
            Self::Statement => (
                SqlState::QUERY_CANCELED,
                "canceling statement due to statement timeout",
                "statement_timeout",
            ),
            Self::Transaction => (
                SqlState::TRANSACTION_TIMEOUT,
                "terminating connection due to transaction timeout",
                "transaction_timeout",
            ),
            Self::IdleInTransaction => (
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
                "idle_in_transaction_session_timeout",
            ),
            Self::IdleSession => (
                SqlState::IDLE_SESSION_TIMEOUT,
                "terminating connection due to idle-session timeout",
                "idle_session_timeout",
            ),
        };
        Error::new(state, message).with_hint(format!("The limit is the setting {setting}."))
    }
}

/// When something runs out, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// When.
    pub at: Instant,
    /// What.
    pub limit: TimeLimit,
}

impl Deadline {
    const fn of_transaction(at: Instant) -> Self {
        Self {
            at,
            limit: TimeLimit::Transaction,
        }
    }

    /// Fails once the time is over.
    pub(crate) fn check(&self) -> Result<()> {
        if coeval_env::now() >= self.at {
            return Err(self.limit.error());
        }
        Ok(())
    }
}

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

/// Asks `work` to end once its time is over, and waits until it has. Work that is
/// ready at once starts no timer.
pub(super) async fn within<T>(
    deadline: Option<Deadline>,
    cancel: &AtomicBool,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(Deadline { at, limit }) = deadline else {
        return work.await;
    };
    let mut work = pin!(work);
    let mut timer = pin!(coeval_env::sleep_until(at));
    let mut late = false;
    let result = poll_fn(|context| {
        if let Poll::Ready(result) = work.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        if !late && timer.as_mut().poll(context).is_ready() {
            late = true;
            cancel.store(true, Ordering::Release);
            return work.as_mut().poll(context);
        }
        Poll::Pending
    })
    .await;
    match result {
        Err(error) if late && error.state() == SqlState::QUERY_CANCELED => Err(limit.error()),
        other => other,
    }
}
