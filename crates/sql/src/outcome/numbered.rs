//! The number of a session's transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use coeval_txn::Engine;
use coeval_types::Timestamp;

use super::outcomes::{Outcomes, Standing};
use super::{TransactionNumber, store};
use crate::error::{Error, Result, SqlState};

/// No transaction runs.
const CLOSED: u64 = 0;
/// One runs, and nobody has asked for its number. No number is this small.
const UNNUMBERED: u64 = 1;

/// Whether a session's transaction has a number. Only the session's own task uses it.
#[derive(Debug, Default)]
pub(crate) struct Numbered {
    outcomes: Arc<Outcomes>,
    state: AtomicU64,
    /// Whether the transaction has changed anything.
    wrote: AtomicBool,
    /// The newest commit of which the session was told that it happened.
    told: AtomicU64,
}

impl Numbered {
    pub(crate) fn new(outcomes: &Arc<Outcomes>) -> Self {
        Self {
            outcomes: Arc::clone(outcomes),
            ..Self::default()
        }
    }

    /// The session's transaction begins. It ends when what is returned is dropped.
    pub(crate) fn open(self: &Arc<Self>) -> Open {
        self.state.store(UNNUMBERED, Ordering::Relaxed);
        self.wrote.store(false, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    /// The transaction's number. Gives it one if it has none.
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

    /// The number that the transaction has, or has to have because it has changed
    /// something.
    pub(crate) fn number_if_assigned(&self) -> Result<Option<TransactionNumber>> {
        match self.state.load(Ordering::Relaxed) {
            CLOSED => Ok(None),
            UNNUMBERED if !self.wrote.load(Ordering::Relaxed) => Ok(None),
            _ => self.number().map(Some),
        }
    }

    /// How the transaction of this number has ended, in PostgreSQL's words; `None` if
    /// that is not known any more, 22023 for a number that was not given out.
    ///
    /// Outside of any snapshot: what is asked for is how things are. That something
    /// has committed is not to be disclosed before that is durable; see
    /// [`Numbered::told`].
    pub(crate) fn status(&self, number: i64, engine: &dyn Engine) -> Result<Option<&'static str>> {
        let number = TransactionNumber(number as u64);
        let outcomes = &self.outcomes;
        match outcomes.standing(number) {
            Standing::Future => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("transaction ID {} is in the future", number.0),
            )),
            Standing::Forgotten => Ok(None),
            Standing::Running => Ok(Some("in progress")),
            Standing::Ended => match store::exists(engine, number) {
                Some(timestamp) => {
                    self.told.fetch_max(timestamp.to_bits(), Ordering::Relaxed);
                    Ok(Some("committed"))
                }
                None if outcomes.is_forgotten(number) => Ok(None),
                None => Ok(Some("aborted")),
            },
        }
    }

    /// The newest commit of which the session was told that it happened: it must be
    /// durable before anything of that leaves the process.
    pub(crate) fn told(&self) -> Timestamp {
        Timestamp::from_bits(self.told.load(Ordering::Relaxed))
    }
}

/// A transaction that runs, with or without a number. Dropped, it has ended: after its
/// commit with its row, or once it cannot commit any more.
#[derive(Debug)]
pub(crate) struct Open(Arc<Numbered>);

impl Open {
    /// It is about to change something.
    pub(crate) fn note_write(&self) {
        self.0.wrote.store(true, Ordering::Relaxed);
    }

    /// Whether it has changed anything.
    pub(crate) fn wrote(&self) -> bool {
        self.0.wrote.load(Ordering::Relaxed)
    }

    /// Its number, if it has asked for one.
    pub(crate) fn number(&self) -> Option<TransactionNumber> {
        match self.0.state.load(Ordering::Relaxed) {
            CLOSED | UNNUMBERED => None,
            number => Some(TransactionNumber(number)),
        }
    }

    /// Nobody knows how it ended, so that it is never said to have ended.
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
