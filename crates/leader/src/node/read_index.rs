//! The read index: confirms, once for many readers, that this node still leads.
//!
//! A leader that is cut off does not know it: for up to two election timeouts it continues,
//! while another node leads and commits. Its reads may then be stale, and a client that has
//! seen the new leader's value would see that value disappear. So the answer to a read-only
//! transaction waits until a majority has answered a consensus round that began after the
//! transaction's snapshot (`coeval_consensus`, read index; decision 0028).
//!
//! # Worked example
//!
//! ```text
//!   readers     a       b  c             d
//!   collecting  1 ──▶ 2 ───────────▶ 3 ──────────▶ 4
//!   round       └─ 1: a ──────────▶ ok └─ 2: b c d ───▶ ok
//! ```
//!
//! Reader `a` asks, is assigned round 1, and wakes the driver, which begins round 1: from
//! now on round 2 collects readers. `b` and `c` are assigned round 2 and do not wake the
//! driver, since a round is under way. When a majority has answered round 1, `a` continues,
//! and round 2 begins at once because readers wait for it. However many readers ask, one
//! round runs at a time. Under load a round is held back for readers that are about to come
//! ([`gathering`](super::gathering)).
//!
//! A transaction that wrote needs no round: a majority has its commit, which came after its
//! snapshot, in this leader's term. No reader needs one while it is certain that no other
//! node leads: in a cluster with one voter, and within a lease. The driver publishes that
//! certainty ahead of time. The results of a statement in an open transaction, which asks
//! when it ends, need not wait while a challenger is unlikely: for half an election timeout
//! after the leader last heard from a majority (decision 0031).
//!
//! # Invariants
//!
//! 1. *A round begins after every reader that waits for it has asked.*
//! 2. *The driver withdraws certainty before it sends a message* that may elect another
//!    leader.
//! 3. When the term is over every waiting reader gets an error, and so does every later
//!    one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use coeval_env::Instant;
use coeval_occ::Leadership;
use coeval_txn::{Confirmation, Error};
use coeval_types::planted;
use tokio::sync::Notify;

use super::gathering::Gathering;
use super::waiters::Waiters;

/// State shared by the readers and the driver.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the driver.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The last round begun: readers that ask now share the next.
    begun: u64,
    /// The last round that a majority has answered.
    confirmed: u64,
    /// Whether a reader waits for the next round.
    is_wanted: bool,
    /// Until when no other node can lead, in any case.
    certain: Certain,
    /// Until when another leader is unlikely but possible.
    unchallenged: Certain,
    /// Whether the leader's term is over.
    ended: bool,
    /// The waiting readers, each with its round.
    waiting: Waiters,
    /// Whether the next round is held back for more readers.
    gathering: Gathering,
    /// Readers that were assigned a round.
    came: u64,
    counts: Counts,
}

/// How long no other node can lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Certain {
    /// Unknown: a round has to confirm it.
    #[default]
    Not,
    /// Until this instant: a lease.
    Until(Instant),
    /// For ever: no other node votes.
    Always,
}

impl Certain {
    fn holds(self) -> bool {
        match self {
            Self::Not => false,
            Self::Until(then) => coeval_env::now() < then,
            Self::Always => true,
        }
    }
}

/// Counters of the read index, over this node's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Readers that asked whether the node still leads.
    pub asked: u64,
    /// Readers for which that was certain without a round.
    pub certain: u64,
    /// Rounds begun for the other readers.
    pub rounds: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the driver has a round to begin.
    fn is_due(&self) -> bool {
        self.is_wanted && self.confirmed == self.begun && !self.gathering.holds(self.came)
    }
}

/// The read index as readers use it.
#[derive(Debug)]
struct Readers(Arc<Shared>);

impl Leadership for Readers {
    fn ask(&self) -> Option<Confirmation> {
        let mut state = self.0.state();
        state.counts.asked += 1;
        if !state.ended && (state.certain.holds() || planted!(AnswerUnconfirmed)) {
            state.counts.certain += 1;
            return None;
        }
        let asked = Confirmation(state.begun + 1);
        state.came += 1;
        state.is_wanted = true;
        let is_due = state.is_due();
        drop(state);
        if is_due {
            self.0.wanted.notify_one();
        }
        Some(asked)
    }

    fn is_unchallenged(&self) -> bool {
        let state = self.0.state();
        !state.ended && state.unchallenged.holds()
    }

    fn poll(&self, asked: Confirmation, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.0.state();
        if asked.0 <= state.confirmed {
            return Poll::Ready(Ok(()));
        }
        if state.ended {
            let reason = "this node ceased to lead the cluster before it was confirmed that what \
                          was read is not old";
            return Poll::Ready(Err(Error::Stopped(reason.to_owned())));
        }
        state.waiting.add(asked.0, context);
        Poll::Pending
    }
}

/// The read index as the driver uses it, for one engine. Dropping it ends the read index.
#[derive(Debug)]
pub(super) struct ReadIndex {
    shared: Arc<Shared>,
    /// The certainty that was last published.
    certain: (Certain, Certain),
}

impl ReadIndex {
    pub(super) fn new(counts: Counts) -> Self {
        let shared = Shared::default();
        shared.state().counts = counts;
        Self {
            shared: Arc::new(shared),
            certain: (Certain::Not, Certain::Not),
        }
    }

    /// The readers' handle, for the engine.
    pub(super) fn readers(&self) -> Arc<dyn Leadership> {
        Arc::new(Readers(Arc::clone(&self.shared)))
    }

    /// Waits until a round is due.
    pub(super) async fn wanted(&self) {
        while !self.shared.state().is_due() {
            self.shared.wanted.notified().await;
        }
    }

    /// Begins the next round and returns its number, if a reader waits for it and no round
    /// is under way.
    pub(super) fn begin(&self) -> Option<u64> {
        let mut state = self.shared.state();
        if !state.is_due() {
            return None;
        }
        state.is_wanted = false;
        let came = state.came;
        state.gathering.sent(came);
        state.begun += 1;
        state.counts.rounds += 1;
        Some(state.begun)
    }

    /// A majority has answered this round: its readers continue.
    pub(super) fn confirmed(&self, round: u64) {
        let mut state = self.shared.state();
        state.confirmed = state.confirmed.max(round);
        if state.confirmed == state.begun {
            let came = state.came;
            state.gathering.answered(came);
        }
        let done = state.waiting.take(round);
        drop(state);
        done.into_iter().for_each(Waker::wake);
    }

    /// Until when the next round is held back for more readers.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.shared.state().gathering.held_until()
    }

    /// Releases a round that was held back for long enough.
    pub(super) fn release(&self, now: Instant) {
        self.shared.state().gathering.release(now);
    }

    /// Publishes how long leadership is certain, and how long a challenger is unlikely. The
    /// driver calls this before it sends messages.
    pub(super) fn set_certain(&mut self, certain: Certain, unchallenged: Certain) {
        if self.certain != (certain, unchallenged) {
            self.certain = (certain, unchallenged);
            let mut state = self.shared.state();
            (state.certain, state.unchallenged) = self.certain;
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.shared.state().counts
    }
}

impl Drop for ReadIndex {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        let all = state.waiting.take_all();
        drop(state);
        all.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn poll(readers: &dyn Leadership, asked: Confirmation) -> Poll<Result<(), Error>> {
        readers.poll(asked, &mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn readers_share_the_round_that_begins_after_they_asked() {
        let driver = ReadIndex::new(Counts::default());
        let readers = driver.readers();
        assert_eq!(driver.begin(), None, "nobody wants it");
        let first = readers.ask().unwrap();
        assert_eq!(driver.begin(), Some(1));
        let later: Vec<_> = (0..9).map(|_| readers.ask().unwrap()).collect();
        assert_eq!(driver.begin(), None, "a round is under way");
        assert!(poll(&*readers, first).is_pending());
        driver.confirmed(1);
        assert!(matches!(poll(&*readers, first), Poll::Ready(Ok(()))));
        assert!(poll(&*readers, later[0]).is_pending());
        assert_eq!(driver.begin(), Some(2));
        driver.confirmed(2);
        for reader in later {
            assert!(matches!(poll(&*readers, reader), Poll::Ready(Ok(()))));
        }
        assert_eq!(driver.begin(), None, "nobody waits any more");
        let counts = driver.counts();
        assert_eq!((counts.asked, counts.rounds), (10, 2));
    }

    #[test]
    fn whoever_waits_when_the_term_ends_is_told() {
        let driver = ReadIndex::new(Counts::default());
        let readers = driver.readers();
        let asked = readers.ask().unwrap();
        driver.begin();
        drop(driver);
        assert!(matches!(poll(&*readers, asked), Poll::Ready(Err(_))));
        let late = readers.ask().unwrap();
        assert!(matches!(poll(&*readers, late), Poll::Ready(Err(_))));
    }

    #[test]
    fn nobody_asks_while_it_is_certain() {
        let mut driver = ReadIndex::new(Counts::default());
        let readers = driver.readers();
        driver.set_certain(Certain::Always, Certain::Always);
        assert_eq!(readers.ask(), None);
        assert!(readers.is_unchallenged());
        let soon = coeval_env::now() + Duration::from_secs(60);
        driver.set_certain(Certain::Not, Certain::Until(soon));
        assert!(readers.ask().is_some());
        assert!(readers.is_unchallenged());
        driver.set_certain(Certain::Not, Certain::Until(coeval_env::now()));
        assert!(!readers.is_unchallenged(), "its time is over");
        driver.set_certain(Certain::Always, Certain::Always);
        drop(driver);
        assert!(
            readers.ask().is_some(),
            "of a term that is over nothing is certain"
        );
        assert!(!readers.is_unchallenged());
    }
}
