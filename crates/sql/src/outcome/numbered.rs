//! The transaction number of a session: assigned on demand, and used to look up
//! outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use coeval_txn::Engine;
use coeval_types::Timestamp;

use super::outcomes::{NumberStatus, Outcomes};
use super::{TransactionNumber, store};
use crate::error::{Error, Result, SqlState};

/// State: the session has no open transaction.
const CLOSED: u64 = 0;
/// State: the open transaction has no number yet. Smaller than any number.
const UNNUMBERED: u64 = 1;

/// The number of a session's open transaction. Only the session's own task uses it.
#[derive(Debug, Default)]
pub(crate) struct Numbered {
    outcomes: Arc<Outcomes>,
    state: AtomicU64,
    /// Whether the transaction has written anything.
    wrote: AtomicBool,
    /// Newest commit that the session has reported as committed.
    told: AtomicU64,
}

impl Numbered {
    pub(crate) fn new(outcomes: &Arc<Outcomes>) -> Self {
        Self {
            outcomes: Arc::clone(outcomes),
            ..Self::default()
        }
    }

    /// Opens the session's transaction; it ends when the returned guard is dropped.
    pub(crate) fn open(self: &Arc<Self>) -> Open {
        self.state.store(UNNUMBERED, Ordering::Relaxed);
        self.wrote.store(false, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    /// The transaction's number; assigns one if it has none.
    pub(crate) fn number(&self) -> Result<TransactionNumber> {
        match self.state.load(Ordering::Relaxed) {
            CLOSED => Err(Error::unsupported("the number of a transaction here")),
            UNNUMBERED => {
                let number = self.outcomes.give()?;
                self.state.store(number.0, Ordering::Relaxed);
                Ok(number)
            }
            number => Ok(TransactionNumber(number)),
        }
    }

    /// The transaction's number; assigns one if the transaction has written anything,
    /// and returns `None` otherwise.
    pub(crate) fn number_if_assigned(&self) -> Result<Option<TransactionNumber>> {
        match self.state.load(Ordering::Relaxed) {
            CLOSED => Ok(None),
            UNNUMBERED if !self.wrote.load(Ordering::Relaxed) => Ok(None),
            _ => self.number().map(Some),
        }
    }

    /// The outcome of the transaction with this number, in PostgreSQL's words; `None`
    /// if it is no longer known, error 22023 if the number is not assigned yet.
    ///
    /// Reads the current state, outside of any snapshot. The session must not disclose
    /// a commit before the commit is durable; see [`Numbered::told`].
    pub(crate) fn status(&self, number: i64, engine: &dyn Engine) -> Result<Option<&'static str>> {
        let number = TransactionNumber(number as u64);
        let outcomes = &self.outcomes;
        match outcomes.status(number) {
            NumberStatus::Future => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("transaction ID {} is in the future", number.0),
            )),
            NumberStatus::Forgotten => Ok(None),
            NumberStatus::Running => Ok(Some("in progress")),
            NumberStatus::Ended => match store::exists(engine, number) {
                Some(timestamp) => {
                    self.tell(timestamp);
                    Ok(Some("committed"))
                }
                None if outcomes.is_forgotten(number) => Ok(None),
                None => Ok(Some("aborted")),
            },
        }
    }

    /// Notes a commit that the answer of the running statement depends on, and that no
    /// snapshot of the transaction has shown.
    pub(crate) fn tell(&self, commit: Timestamp) {
        self.told.fetch_max(commit.to_bits(), Ordering::Relaxed);
    }

    /// The newest commit that the session has reported as committed: it must be durable
    /// before the answer leaves the process.
    pub(crate) fn told(&self) -> Timestamp {
        Timestamp::from_bits(self.told.load(Ordering::Relaxed))
    }
}

/// Guard of an open transaction, with or without a number. It is dropped when the
/// transaction has ended: after the commit of its row, or once it cannot commit any
/// more.
#[derive(Debug)]
pub(crate) struct Open(Arc<Numbered>);

impl Open {
    /// Records that the transaction is about to write.
    pub(crate) fn note_write(&self) {
        self.0.wrote.store(true, Ordering::Relaxed);
    }

    /// Whether the transaction has written anything.
    pub(crate) fn wrote(&self) -> bool {
        self.0.wrote.load(Ordering::Relaxed)
    }

    /// The transaction's number, if assigned.
    pub(crate) fn number(&self) -> Option<TransactionNumber> {
        match self.0.state.load(Ordering::Relaxed) {
            CLOSED | UNNUMBERED => None,
            number => Some(TransactionNumber(number)),
        }
    }

    /// Drops the guard of a transaction with an unknown outcome, whose number therefore
    /// stays in the running set.
    pub(crate) fn lose_sight(self) {
        self.0.state.store(CLOSED, Ordering::Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(number) = self.number() {
            self.0.outcomes.ended(number);
        }
        self.0.state.store(CLOSED, Ordering::Relaxed);
    }
}
