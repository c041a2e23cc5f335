//! The assigned transaction numbers: the counter, the set of running ones, and the
//! horizon.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coeval_types::Term;

use super::TransactionNumber;
use super::store::{Loaded, Mark};
use crate::error::{Error, Result, SqlState};

/// State of a number, as far as it is known without a look at its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberStatus {
    /// The number is not assigned yet.
    Future,
    /// The number is below the horizon; its outcome is no longer known.
    Forgotten,
    /// The transaction is running.
    Running,
    /// The transaction has ended; its row decides the outcome.
    Ended,
}

/// The transaction numbers of a database.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    given: Mutex<Given>,
    /// Horizon: outcomes of smaller numbers are unknown.
    horizon: AtomicU64,
}

#[derive(Debug, Default)]
struct Given {
    /// Last assigned number; initially the one before the first of the term.
    last: TransactionNumber,
    running: BTreeSet<TransactionNumber>,
    /// Newest mark; rows above it may exist, also if there is no mark.
    newest_mark: Option<Mark>,
    /// Whether a number above the newest mark was assigned, or found in a row.
    unmarked: bool,
}

impl Outcomes {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Initialises the counter when a node becomes the log's writer in this term, from
    /// the state loaded from rows.
    pub(crate) fn start(&self, term: Term, loaded: Loaded) {
        let mut given = self.given();
        *given = Given {
            last: TransactionNumber::before(term),
            running: BTreeSet::new(),
            newest_mark: loaded.newest_mark,
            unmarked: loaded.unmarked,
        };
        // Numbers before the first term were never assigned.
        let first = TransactionNumber(TransactionNumber::before(Term(1)).0 + 1);
        self.raise_horizon(loaded.horizon.max(first));
    }

    /// Assigns the next number, and adds it to the running set.
    pub(super) fn give(&self) -> Result<TransactionNumber> {
        let mut given = self.given();
        let number = given.last.next().ok_or_else(|| {
            Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "there are no more transaction numbers until the server is started again",
            )
        })?;
        given.last = number;
        given.running.insert(number);
        given.unmarked = true;
        Ok(number)
    }

    /// Removes the number from the running set, after commit or abort.
    pub(super) fn ended(&self, number: TransactionNumber) {
        self.given().running.remove(&number);
    }

    /// State of a number. The caller must ask before it looks for the number's row.
    pub(crate) fn status(&self, number: TransactionNumber) -> NumberStatus {
        let given = self.given();
        if number > given.last {
            NumberStatus::Future
        } else if given.running.contains(&number) {
            NumberStatus::Running
        } else if self.is_forgotten(number) {
            NumberStatus::Forgotten
        } else {
            NumberStatus::Ended
        }
    }

    /// Whether the number is below the horizon. The caller must ask again if it did not
    /// find the row, because the garbage collector may have removed it meanwhile.
    pub(crate) fn is_forgotten(&self, number: TransactionNumber) -> bool {
        number.0 < self.horizon.load(Ordering::SeqCst)
    }

    pub(super) fn horizon(&self) -> TransactionNumber {
        TransactionNumber(self.horizon.load(Ordering::SeqCst))
    }

    pub(super) fn raise_horizon(&self, horizon: TransactionNumber) {
        self.horizon.fetch_max(horizon.0, Ordering::SeqCst);
    }

    /// A new mark, if transactions have ended since the newest one and at least
    /// `interval` microseconds have passed.
    pub(super) fn due_mark(&self, now: i64, interval: i64) -> Option<Mark> {
        let given = self.given();
        let past_last = TransactionNumber(given.last.0 + 1);
        let below = given.running.first().copied().unwrap_or(past_last);
        if let Some(newest) = given.newest_mark {
            let recently = (0..interval).contains(&now.saturating_sub(newest.time));
            if recently || below <= newest.below {
                return None;
            }
        }
        given.unmarked.then_some(Mark { below, time: now })
    }

    /// Registers a mark whose row has been committed.
    pub(super) fn marked(&self, mark: Mark) {
        let mut given = self.given();
        given.newest_mark = Some(mark);
        given.unmarked = given.last >= mark.below;
    }
}
