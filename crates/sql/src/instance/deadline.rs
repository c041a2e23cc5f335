//! Deadlines: when a statement, a transaction or a client's silence has lasted too long,
//! and what the client is told then.
//!
//! A limit that runs out while something executes asks it to end and waits until it has:
//! nothing is left halfway. What only waits is woken by a timer ([`within`]); what
//! computes looks at the clock where it looks for cancel requests
//! ([`Deadline::check`]), since a timer of its own executor cannot interrupt it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use coeval_env::Instant;

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
    pub(crate) const fn of_transaction(at: Instant) -> Self {
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

/// Asks `work` to end once its time is over, and waits until it has. Work that is
/// ready at once starts no timer.
pub(crate) async fn within<T>(
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
