//! How readers of a leader's engine find out together that it still leads.
//!
//! A leader that is cut off does not know it: for up to two election timeouts it goes on,
//! while another one leads and commits. What it has read may then be old, and a client that
//! has seen the new leader's value would see it gone. So an answer to a transaction that
//! wrote nothing waits until a majority has answered a round of consensus that began after
//! its snapshot (`coeval_consensus`, read index; decision 0028).
//!
//! # Worked example
//!
//! ```text
//!   readers     a       b  c             d
//!   collecting  1 ──▶ 2 ───────────▶ 3 ──────────▶ 4
//!   round       └─ 1: a ──────────▶ ok └─ 2: b c d ───▶ ok
//! ```
//!
//! `a` asks, is told 1, and wakes the driver, which begins round 1: from now on 2 collects.
//! `b` and `c` are told 2, and wake nobody, since a round is under way. When that is
//! answered `a` goes on, and round 2 begins at once, because somebody wants it.
//! However many read, there is one round at a time, and one message to each member for it.
//!
//! A transaction that wrote needs no round: a majority has taken its commit, which came
//! after its snapshot, in this leader's term. Nor does anybody while it is certain that
//! there is no other leader: where nobody else votes, and within a lease. The driver says
//! so ahead of time. What an open transaction shows, which asks at its end, need not wait
//! while that is to be expected: for half an election timeout after a majority was heard of
//! (decision 0031).
//!
//! # Invariants
//!
//! 1. *A round begins after everybody who waits for it has asked.*
//! 2. *Certainty is taken back before the message leaves* that may make another one leader.
//! 3. When the term is over everybody who waits is told, and everybody who asks later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use coeval_env::Instant;
use coeval_occ::Leadership;
use coeval_txn::{Confirmation, Error};
use coeval_types::planted;
use tokio::sync::Notify;

/// What readers and the driver share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the driver.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The round that began last: readers who come now share the next.
    begun: u64,
    /// The last one that a majority has answered.
    confirmed: u64,
    /// Whether somebody waits for the next round.
    is_wanted: bool,
    /// Until when nobody else can lead, whatever happens.
    certain: Certain,
    /// The same as is to be expected, and not for certain.
    unchallenged: Certain,
    /// The term is over.
    ended: bool,
    /// Who waits for which round.
    waiting: Vec<(u64, Waker)>,
    counts: Counts,
}

/// How long nobody else can lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Certain {
    /// It has to be found out.
    #[default]
    Not,
    /// Until then: a lease.
    Until(Instant),
    /// Nobody else votes.
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

/// What came of the readers of this node's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Readers that asked whether it still leads.
    pub asked: u64,
    /// Those for whom that was certain already.
    pub certain: u64,
    /// Rounds that were begun for the others.
    pub rounds: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the driver has something to begin.
    fn is_due(&self) -> bool {
        self.is_wanted && self.confirmed == self.begun
    }
}

/// The readers' side.
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
        let known =
            |(round, waker): &(u64, Waker)| *round == asked.0 && waker.will_wake(context.waker());
        if !state.waiting.iter().any(known) {
            state.waiting.push((asked.0, context.waker().clone()));
        }
        Poll::Pending
    }
}

/// The driver's side, for one engine. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Confirmations {
    shared: Arc<Shared>,
    /// What was said last.
    certain: (Certain, Certain),
}

impl Confirmations {
    pub(super) fn new(counts: Counts) -> Self {
        let shared = Shared::default();
        shared.state().counts = counts;
        Self {
            shared: Arc::new(shared),
            certain: (Certain::Not, Certain::Not),
        }
    }

    /// For the engine.
    pub(super) fn readers(&self) -> Arc<dyn Leadership> {
        Arc::new(Readers(Arc::clone(&self.shared)))
    }

    /// Waits until a round is to be begun.
    pub(super) async fn wanted(&self) {
        while !self.shared.state().is_due() {
            self.shared.wanted.notified().await;
        }
    }

    /// Begins the next round, if somebody wants it and none is under way. Its number.
    pub(super) fn begin(&self) -> Option<u64> {
        let mut state = self.shared.state();
        if !state.is_due() {
            return None;
        }
        state.is_wanted = false;
        state.begun += 1;
        state.counts.rounds += 1;
        Some(state.begun)
    }

    /// A majority has answered this round.
    pub(super) fn confirmed(&self, round: u64) {
        let mut state = self.shared.state();
        state.confirmed = state.confirmed.max(round);
        let done = state.waiting.extract_if(.., |(waits, _)| *waits <= round);
        let done: Vec<_> = done.collect();
        drop(state);
        done.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// For how long it is certain from now on, and to be expected. Before messages are sent.
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

impl Drop for Confirmations {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        let all = std::mem::take(&mut state.waiting);
        drop(state);
        all.into_iter().for_each(|(_, waker)| waker.wake());
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
        let driver = Confirmations::new(Counts::default());
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
        let driver = Confirmations::new(Counts::default());
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
        let mut driver = Confirmations::new(Counts::default());
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
