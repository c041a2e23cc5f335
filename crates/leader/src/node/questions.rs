//! Questions of a follower: learns from the leader, once for many readers, up to where this
//! node's tables must be applied before they are read (read index asked by a follower).
//!
//! `coeval_consensus` has the protocol and why an answer is right (its `follower_reads`;
//! decision 0046). Here the readers of the node come together: one question is under way at a
//! time, the readers that came before it was sent share its answer, and those that come
//! meanwhile share the next, as leaders' readers share rounds ([`read_index`](super::read_index)).
//!
//! # Worked example
//!
//! ```text
//!   readers     a       b  c             d  e
//!   collecting  1 ──▶ 2 ───────────▶ 3 ──────────────────────────▶ 4
//!   question    └─ 1: a ──────────▶ 80
//!                                    └─ 2: b c ── lost ─┬─ 3: b c d e ──▶ 96
//!                                                    2 ticks
//! ```
//!
//! `b` and `c` wait for question 2. It is lost on the way, and after two ticks the driver asks
//! question 3, which all who wait by then share. Had the answer to question 2 come after all, it
//! would be right for `b` and `c`, and not for `d` and `e`.
//!
//! # Invariants
//!
//! 1. *A question is sent after every reader that shares it has asked*, and is sent once.
//! 2. *No reader waits for an answer that cannot come*: when the node follows no leader, or the
//!    leader or the term changes, its readers get an error, and so do readers that ask while the
//!    node may not ask.
//! 3. An answer answers all earlier questions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use coeval_occ::Questions;
use coeval_txn::{Error, Question};
use coeval_types::{Lsn, planted};
use tokio::sync::Notify;

use super::waiters::Waiters;

/// Ticks after which a question that is not answered is followed by another one.
const PATIENCE_TICKS: u32 = 2;

/// State shared by the readers and the driver.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the driver.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Whether this node may ask: it follows a leader, and the cluster version lets it.
    is_open: bool,
    /// The last question sent: readers that ask now share the next.
    begun: u64,
    /// The last question answered, and the newest answer.
    answered: u64,
    at: Lsn,
    /// The last question that is lost, as all before it that are not answered.
    lost: u64,
    /// Whether a reader waits for the next question.
    is_wanted: bool,
    /// The waiting readers, each with its question.
    waiting: Waiters,
    counts: Counts,
}

/// Counters of a node's questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Readers that asked.
    pub asked: u64,
    /// Readers that asked while the node could not ask a leader.
    pub refused: u64,
    /// Questions sent, repeated ones included.
    pub sent: u64,
    /// Questions sent because the one before was not answered in time.
    pub repeated: u64,
    /// Questions lost with their leader or term.
    pub lost: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a question is under way.
    fn is_under_way(&self) -> bool {
        self.begun > self.answered.max(self.lost)
    }

    /// Whether the driver has a question to send.
    fn is_due(&self) -> bool {
        self.is_open && self.is_wanted && !self.is_under_way()
    }
}

/// The questions as readers use them.
#[derive(Debug)]
struct Readers(Arc<Shared>);

impl Questions for Readers {
    fn ask(&self) -> Question {
        let mut state = self.0.state();
        state.counts.asked += 1;
        if !state.is_open {
            // A question of its own, which is never sent.
            state.counts.refused += 1;
            state.begun += 1;
            state.lost = state.begun;
            return Question(state.begun);
        }
        if state.is_under_way() && planted!(ReuseQuestion) {
            return Question(state.begun);
        }
        let question = Question(state.begun + 1);
        state.is_wanted = true;
        let is_due = state.is_due();
        drop(state);
        if is_due {
            self.0.wanted.notify_one();
        }
        question
    }

    fn poll(&self, question: Question, context: &mut Context<'_>) -> Poll<Result<Lsn, Error>> {
        let mut state = self.0.state();
        if question.0 <= state.answered {
            return Poll::Ready(Ok(state.at));
        }
        if question.0 <= state.lost {
            let reason = "this node follows no leader that could tell it what is committed; try \
                          again";
            return Poll::Ready(Err(Error::Stopped(reason.to_owned())));
        }
        state.waiting.add(question.0, context);
        Poll::Pending
    }
}

/// The questions as the driver uses them. Dropping them loses all questions.
#[derive(Debug, Default)]
pub(super) struct NodeQuestions {
    shared: Arc<Shared>,
    /// What was last published to readers.
    is_open: bool,
    /// Ticks since the last question was sent.
    ticks: u32,
}

impl NodeQuestions {
    /// The readers' handle.
    pub(super) fn readers(&self) -> Arc<dyn Questions> {
        Arc::new(Readers(Arc::clone(&self.shared)))
    }

    /// Waits until a question is due.
    pub(super) async fn wanted(&self) {
        while !self.shared.state().is_due() {
            self.shared.wanted.notified().await;
        }
    }

    /// The next question to send and its number, if a reader waits for it and none is under
    /// way.
    pub(super) fn begin(&mut self) -> Option<u64> {
        let mut state = self.shared.state();
        if !state.is_due() {
            return None;
        }
        state.is_wanted = false;
        state.begun += 1;
        state.counts.sent += 1;
        self.ticks = 0;
        Some(state.begun)
    }

    /// A tick has passed. Returns the number of another question to send, if the one under way
    /// has not been answered in time: readers that came meanwhile share it.
    pub(super) fn tick(&mut self) -> Option<u64> {
        self.ticks += 1;
        if self.ticks < PATIENCE_TICKS {
            return None;
        }
        self.repeat()
    }

    /// The number of another question to send, if one is under way.
    pub(super) fn repeat(&mut self) -> Option<u64> {
        let mut state = self.shared.state();
        if !state.is_under_way() {
            return None;
        }
        state.is_wanted = false;
        state.begun += 1;
        state.counts.sent += 1;
        state.counts.repeated += 1;
        self.ticks = 0;
        Some(state.begun)
    }

    /// The leader has answered this question, and so all before it.
    pub(super) fn answered(&self, question: u64, at: Lsn) {
        let mut state = self.shared.state();
        state.answered = state.answered.max(question);
        state.at = state.at.max(at);
        let done = state.waiting.take(question);
        drop(state);
        done.into_iter().for_each(Waker::wake);
    }

    /// This question will not be answered, nor one before it that is not.
    pub(super) fn lose(&self, question: u64) {
        let mut state = self.shared.state();
        if question > state.answered.max(state.lost) {
            state.counts.lost += 1;
        }
        state.lost = state.lost.max(question);
        let done = state.waiting.take(question);
        drop(state);
        done.into_iter().for_each(Waker::wake);
    }

    /// Publishes whether this node may ask. When it may not, its readers get an error.
    pub(super) fn set_open(&mut self, is_open: bool) {
        if std::mem::replace(&mut self.is_open, is_open) == is_open {
            return;
        }
        let mut state = self.shared.state();
        state.is_open = is_open;
        if is_open {
            return;
        }
        // Readers of the question that is not sent yet get the error, too.
        state.counts.lost += u64::from(state.is_under_way());
        state.begun += u64::from(std::mem::take(&mut state.is_wanted));
        state.lost = state.begun;
        let all = state.waiting.take_all();
        drop(state);
        all.into_iter().for_each(Waker::wake);
    }

    pub(super) fn counts(&self) -> Counts {
        self.shared.state().counts
    }
}

impl Drop for NodeQuestions {
    fn drop(&mut self) {
        self.set_open(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> NodeQuestions {
        let mut questions = NodeQuestions::default();
        questions.set_open(true);
        questions
    }

    fn poll(readers: &dyn Questions, question: Question) -> Poll<Result<u64, ()>> {
        let answer = readers.poll(question, &mut Context::from_waker(Waker::noop()));
        answer.map(|answer| answer.map(|at| at.0).map_err(|_| ()))
    }

    #[test]
    fn readers_share_the_question_that_is_sent_after_they_asked() {
        let mut driver = open();
        let readers = driver.readers();
        assert_eq!(driver.begin(), None, "no reader wants it");
        let first = readers.ask();
        assert_eq!(driver.begin(), Some(1));
        let later: Vec<_> = (0..9).map(|_| readers.ask()).collect();
        assert_eq!(driver.begin(), None, "a question is under way");
        assert_eq!(poll(&*readers, first), Poll::Pending);
        driver.answered(1, Lsn(80));
        assert_eq!(poll(&*readers, first), Poll::Ready(Ok(80)));
        assert_eq!(poll(&*readers, later[0]), Poll::Pending);
        assert_eq!(driver.begin(), Some(2));
        driver.answered(2, Lsn(96));
        for reader in later {
            assert_eq!(poll(&*readers, reader), Poll::Ready(Ok(96)));
        }
        assert_eq!(driver.begin(), None, "no reader waits any more");
        let counts = driver.counts();
        assert_eq!((counts.asked, counts.sent), (10, 2));
    }

    #[test]
    fn a_question_that_is_not_answered_is_followed_by_another() {
        let mut driver = open();
        let readers = driver.readers();
        assert_eq!(driver.tick(), None);
        assert_eq!(driver.tick(), None, "none is under way");
        let early = readers.ask();
        assert_eq!(driver.begin(), Some(1));
        let late = readers.ask();
        assert_eq!(driver.tick(), None);
        assert_eq!(driver.tick(), Some(2));
        let latest = readers.ask();
        // The answer to the first question was late, and says nothing about later readers.
        driver.answered(1, Lsn(80));
        assert_eq!(poll(&*readers, early), Poll::Ready(Ok(80)));
        assert_eq!(poll(&*readers, late), Poll::Pending);
        driver.answered(2, Lsn(80));
        assert_eq!(poll(&*readers, late), Poll::Ready(Ok(80)));
        assert_eq!(poll(&*readers, latest), Poll::Pending);
        assert_eq!(driver.begin(), Some(3));
        assert_eq!(driver.counts().repeated, 1);
    }

    #[test]
    fn readers_learn_that_there_is_no_leader() {
        let mut driver = open();
        let readers = driver.readers();
        let sent = readers.ask();
        driver.begin();
        let collected = readers.ask();
        driver.set_open(false);
        let refused = readers.ask();
        for question in [sent, collected, refused] {
            assert_eq!(poll(&*readers, question), Poll::Ready(Err(())));
        }
        driver.set_open(true);
        let again = readers.ask();
        assert_eq!(driver.begin(), Some(again.0));
        driver.lose(again.0);
        assert_eq!(poll(&*readers, again), Poll::Ready(Err(())));
        let counts = driver.counts();
        assert_eq!((counts.lost, counts.refused), (2, 1));
        let last = readers.ask();
        driver.begin();
        drop(driver);
        assert_eq!(poll(&*readers, last), Poll::Ready(Err(())));
        assert_eq!(poll(&*readers, readers.ask()), Poll::Ready(Err(())));
    }

    /// A reader is answered by a later question when its own was lost with its leader: it came
    /// before that one, too.
    #[test]
    fn a_later_answer_is_right_for_readers_of_a_lost_question() {
        let mut driver = open();
        let readers = driver.readers();
        let lost = readers.ask();
        driver.begin();
        driver.lose(1);
        readers.ask();
        assert_eq!(driver.begin(), Some(2));
        driver.answered(2, Lsn(8));
        assert_eq!(poll(&*readers, lost), Poll::Ready(Ok(8)));
    }
}
