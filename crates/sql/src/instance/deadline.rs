//! Deadlines: the end of a statement's, a transaction's or an idle client's time, and the
//! error that the client then receives.
//!
//! A timeout that expires while a statement executes asks it to end and waits until it
//! has, so that nothing is left half done. A timer wakes a statement that only waits
//! ([`within`]); a statement that computes reads the clock where it checks for cancel
//! requests ([`Deadline::check`]), because a timer of its own executor cannot interrupt
//! it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use coeval_env::Instant;

use crate::error::{Error, Result, SqlState};

/// The timeout settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// The timeout of `statement_timeout`.
    Statement,
    /// The timeout of `transaction_timeout`.
    Transaction,
    /// The timeout of `idle_in_transaction_session_timeout`.
    IdleInTransaction,
    /// The timeout of `idle_session_timeout`.
    IdleSession,
}

impl TimeLimit {
    /// The error that the client receives when the timeout expires.
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

/// The moment at which a timeout expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// When the timeout expires.
    pub at: Instant,
    /// The timeout that expires then.
    pub limit: TimeLimit,
}

impl Deadline {
    pub(crate) const fn of_transaction(at: Instant) -> Self {
        Self {
            at,
            limit: TimeLimit::Transaction,
        }
    }

    /// Fails once the deadline has passed.
    pub(crate) fn check(&self) -> Result<()> {
        if coeval_env::now() >= self.at {
            return Err(self.limit.error());
        }
        Ok(())
    }
}

/// Asks `work` to end once its deadline has passed, and waits until it has. Work that is
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
