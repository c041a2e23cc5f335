//! Which numbers have been given out, and which of them are running.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coeval_types::Term;

use super::TransactionNumber;
use super::store::{Loaded, Mark};
use crate::error::{Error, Result, SqlState};

/// What can be said of a number without looking for its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was not given out yet.
    Future,
    /// It is so old that nothing is known of it.
    Forgotten,
    /// Its transaction has not ended.
    Running,
    /// Its row says how it ended.
    Ended,
}

/// The numbers of a database.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    given: Mutex<Given>,
    /// Nothing is known of numbers below.
    horizon: AtomicU64,
}

#[derive(Debug, Default)]
struct Given {
    /// The last one; that before the first of the term when there is none yet.
    last: TransactionNumber,
    running: BTreeSet<TransactionNumber>,
    /// The newest mark; none, or an older one, means that there may be rows above.
    newest_mark: Option<Mark>,
    /// Whether a number was given, or found in a row, that no mark is above.
    unmarked: bool,
}

impl Outcomes {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node begins to write the log in this term, and found this in its rows.
    pub(crate) fn start(&self, term: Term, loaded: Loaded) {
        let mut given = self.given();
        *given = Given {
            last: TransactionNumber::before(term),
            running: BTreeSet::new(),
            newest_mark: loaded.newest_mark,
            unmarked: loaded.unmarked,
        };
        // There were no numbers before the first term's.
        let first = TransactionNumber(TransactionNumber::before(Term(1)).0 + 1);
        self.raise_horizon(loaded.horizon.max(first));
    }

    /// The next number, which is running from now on.
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

    /// The transaction of this number has ended, one way or the other.
    pub(super) fn ended(&self, number: TransactionNumber) {
        self.given().running.remove(&number);
    }

    /// What can be said of this number. To be asked before its row is looked for.
    pub(crate) fn standing(&self, number: TransactionNumber) -> Standing {
        let given = self.given();
        if number > given.last {
            Standing::Future
        } else if given.running.contains(&number) {
            Standing::Running
        } else if self.is_forgotten(number) {
            Standing::Forgotten
        } else {
            Standing::Ended
        }
    }

    /// Whether nothing is known of this number: to be asked again when its row was not
    /// found, for it may have been removed meanwhile.
    pub(crate) fn is_forgotten(&self, number: TransactionNumber) -> bool {
        number.0 < self.horizon.load(Ordering::SeqCst)
    }

    pub(super) fn horizon(&self) -> TransactionNumber {
        TransactionNumber(self.horizon.load(Ordering::SeqCst))
    }

    pub(super) fn raise_horizon(&self, horizon: TransactionNumber) {
        self.horizon.fetch_max(horizon.0, Ordering::SeqCst);
    }

    /// A mark for now, if something lies between the newest one and it, and if
    /// `interval` microseconds have passed since.
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

    /// This mark has been written.
    pub(super) fn marked(&self, mark: Mark) {
        let mut given = self.given();
        given.newest_mark = Some(mark);
        given.unmarked = given.last >= mark.below;
    }
}
