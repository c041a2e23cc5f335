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
//! Readers are numbered as they come; an answer answers all up to a number.
//!
//! ```text
//!   readers     1       2  3             4  5        6
//!   question    └─ 1: 1 ──────────▶ 80
//!                                    └─ 2: 1-3 ─ lost ─┬─ 3: 1-5 ──▶ 96
//!                                                   2 ticks
//!   a commit            └── sent ───────── 92 ──▶ answers 1-2
//! ```
//!
//! Readers 2 and 3 wait for question 2. It is lost on the way, and after two ticks the driver asks
//! question 3, which all who wait by then share. Had the answer to question 2 come after all, it
//! would be right for 2 and 3, and not for 4 and 5. Meanwhile a client of this node commits at 92,
//! by a message that was sent after reader 2 had come and before reader 3: that answers
//! reader 2 ([`Sending`](coeval_occ::Sending) has the argument).
//!
//! # Invariants
//!
//! 1. *A question is sent after every reader that shares it has asked*, and is sent once.
//! 2. *No reader waits for an answer that cannot come*: when the node follows no leader, or the
//!    leader or the term changes, its readers get an error, and so do readers that ask while the
//!    node may not ask.
//! 3. An answer answers all earlier readers. What answers a reader stays its answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use coeval_occ::Questions;
use coeval_txn::{Answered, Error, Question};
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
    /// Number of readers that have asked, of whom the last has this number.
    came: u64,
    /// The last reader that shares a question which was sent.
    sent: u64,
    /// The last reader that has an answer, and the newest answer.
    answered: u64,
    at: Lsn,
    /// The last reader whose question was answered: others have their answer from a commit.
    by_question: u64,
    /// The last reader whose question is lost, unless it has an answer.
    lost: u64,
    /// The last question sent.
    begun: u64,
    /// The questions under way, each with the last reader that shares it: one, and those that
    /// it repeats.
    under_way: VecDeque<(u64, u64)>,
    /// The waiting readers.
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
    /// Readers that a commit of this node's clients has answered.
    pub spared: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a question is under way.
    fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether a reader waits for the next question.
    fn is_wanted(&self) -> bool {
        self.came > self.sent.max(self.answered).max(self.lost)
    }

    /// Whether the driver has a question to send.
    fn is_due(&self) -> bool {
        self.is_open && self.is_wanted() && !self.is_under_way()
    }

    /// Ends a question, and those before it. Returns the last reader that shares it, if it was
    /// under way.
    fn end(&mut self, question: u64) -> Option<u64> {
        let mut last = None;
        while let Some((_, reader)) = self.under_way.pop_front_if(|(its, _)| *its <= question) {
            last = Some(reader);
        }
        last
    }

    /// All readers up to this one may read at `at`. Returns those to wake.
    fn answer(&mut self, reader: u64, at: Lsn) -> Vec<Waker> {
        self.answered = self.answered.max(reader);
        self.at = self.at.max(at);
        self.waiting.take(reader)
    }

    /// The next question, for all readers that have come.
    fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.sent = self.came;
        self.counts.sent += 1;
        self.under_way.push_back((self.begun, self.came));
        self.begun
    }
}

/// The questions as readers use them. A reader's question has its number, and says whether it
/// shares the one of an earlier reader.
#[derive(Debug)]
struct Readers(Arc<Shared>);

const fn question_of(reader: u64, is_shared: bool) -> Question {
    Question(reader << 1 | is_shared as u64)
}

const fn reader_of(question: Question) -> u64 {
    question.0 >> 1
}

impl Questions for Readers {
    fn ask(&self) -> Question {
        let mut state = self.0.state();
        state.counts.asked += 1;
        if state.answered > 0 && planted!(StampBeforeArrival) {
            return question_of(state.answered, false);
        }
        if state.is_under_way() && planted!(ReuseQuestion) {
            return question_of(state.sent, true);
        }
        let is_shared = state.is_wanted();
        state.came += 1;
        let question = question_of(state.came, is_shared);
        if !state.is_open {
            state.counts.refused += 1;
            state.lost = state.came;
            return question;
        }
        let is_due = state.is_due();
        drop(state);
        if is_due {
            self.0.wanted.notify_one();
        }
        question
    }

    fn poll(&self, question: Question, context: &mut Context<'_>) -> Poll<Result<Lsn, Error>> {
        let mut state = self.0.state();
        let reader = reader_of(question);
        if reader <= state.answered {
            return Poll::Ready(Ok(state.at));
        }
        if reader <= state.lost {
            let reason = "this node follows no leader that could tell it what is committed; try \
                          again";
            return Poll::Ready(Err(Error::Stopped(reason.to_owned())));
        }
        state.waiting.add(reader, context);
        Poll::Pending
    }

    fn answered(&self, question: Question) -> Option<Answered> {
        let state = self.0.state();
        let reader = reader_of(question);
        if reader > state.answered {
            return None;
        }
        Some(if reader > state.by_question {
            Answered::Spared
        } else if question == question_of(reader, true) {
            Answered::Shared
        } else {
            Answered::Asked
        })
    }

    fn asked(&self) -> u64 {
        self.0.state().came
    }

    fn learn(&self, asked: u64, end: Lsn) {
        let mut state = self.0.state();
        let before = state.answered.max(state.lost);
        if asked <= before {
            return;
        }
        state.counts.spared += asked - before;
        let done = state.answer(asked, end);
        drop(state);
        done.into_iter().for_each(Waker::wake);
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
        self.ticks = 0;
        Some(state.begin())
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
        state.counts.repeated += 1;
        self.ticks = 0;
        Some(state.begin())
    }

    /// The leader has answered this question, and so all before it.
    pub(super) fn answered(&self, question: u64, at: Lsn) {
        let mut state = self.shared.state();
        let Some(reader) = state.end(question) else {
            // A later one was answered before, or it was given up.
            return;
        };
        state.by_question = state.by_question.max(reader);
        let done = state.answer(reader, at);
        drop(state);
        done.into_iter().for_each(Waker::wake);
    }

    /// This question will not be answered, nor one before it that is not.
    pub(super) fn lose(&self, question: u64) {
        let mut state = self.shared.state();
        let Some(reader) = state.end(question) else {
            return;
        };
        state.counts.lost += 1;
        state.lost = state.lost.max(reader);
        let done = state.waiting.take(reader);
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
        state.counts.lost += u64::from(state.is_under_way());
        state.under_way.clear();
        // Readers of the question that is not sent yet get the error, too.
        state.lost = state.came;
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
        let question = driver.begin().expect("a reader waits");
        driver.lose(question);
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

    #[test]
    fn readers_are_told_how_they_were_answered() {
        let mut driver = open();
        let readers = driver.readers();
        let first = readers.ask();
        assert_eq!(driver.begin(), Some(1));
        let (second, third) = (readers.ask(), readers.ask());
        let before = readers.asked();
        let fourth = readers.ask();
        assert_eq!(readers.answered(first), None);
        driver.answered(1, Lsn(80));
        assert_eq!(readers.answered(first), Some(Answered::Asked));
        assert_eq!(readers.answered(second), None);
        // A message that was sent before the fourth reader came is answered with a commit.
        readers.learn(before, Lsn(92));
        assert_eq!(poll(&*readers, second), Poll::Ready(Ok(92)));
        assert_eq!(readers.answered(third), Some(Answered::Spared));
        assert_eq!(poll(&*readers, fourth), Poll::Pending);
        assert_eq!(driver.begin(), Some(2));
        driver.answered(2, Lsn(92));
        assert_eq!(readers.answered(fourth), Some(Answered::Shared));
        assert_eq!(driver.counts().spared, 2);
        // All have an answer: there is nothing to ask.
        readers.ask();
        readers.learn(readers.asked(), Lsn(96));
        assert_eq!(driver.begin(), None);
        assert_eq!(driver.counts().sent, 2);
    }
}
