//! Questions of a follower: learns from the leader, once for many readers, up to where this
//! node's tables must be applied before they are read (read index asked by a follower).
//!
//! `coeval_consensus` has the protocol and why an answer is right (its `follower_reads`;
//! decision 0046). Here the readers of the node come together: one question is under way at a
//! time, the readers that came before it was sent share its answer, and those that come
//! meanwhile share the next, as leaders' readers share rounds ([`read_index`](super::read_index)).
//! Under load a question is held back for readers that are about to come
//! ([`gathering`](super::gathering)).
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

use coeval_env::Instant;
use coeval_occ::{Questions, Reached};
use coeval_txn::{Answered, Asking, Error, Question};
use coeval_types::{Lsn, planted};
use tokio::sync::Notify;

use super::alone::{Alone, Own};
use super::gathering::Gathering;
use super::waiters::Waiters;

/// Ticks after which a question that is not answered is followed by another one.
const PATIENCE_TICKS: u32 = 2;

/// Answers that are kept. A reader that waits for its tables is answered again each time it looks:
/// by a newer answer it would wait anew, for as long as answers come faster than replay.
const ANSWERS: usize = 64;

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
    /// The last reader that wants a question to be sent.
    wanted: u64,
    /// The last reader that shares a question which was sent.
    sent: u64,
    /// The last reader that has an answer.
    answered: u64,
    /// The newest answers, each with the last reader that it answers, in their order.
    answers: VecDeque<(u64, Lsn)>,
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
    /// Whether the next question is held back for more readers.
    gathering: Gathering,
    /// Questions that are not shared.
    alone: Alone,
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
        self.wanted > self.sent.max(self.answered).max(self.lost)
    }

    /// Whether the driver has a question to send that is shared.
    fn is_shared_due(&self) -> bool {
        self.is_open && self.is_wanted() && !self.is_under_way() && !self.gathering.holds(self.came)
    }

    /// Whether the driver has a question to send.
    fn is_due(&self) -> bool {
        self.is_open && self.alone.is_due() || self.is_shared_due()
    }

    /// The earliest answer that is kept of those that answer this reader.
    fn answer_of(&self, reader: u64) -> Lsn {
        let first = self.answers.partition_point(|(last, _)| *last < reader);
        self.answers.get(first).map_or(Lsn(0), |(_, at)| *at)
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
        if reader > self.answered {
            self.answered = reader;
            self.answers.push_back((reader, at));
            if self.answers.len() > ANSWERS {
                self.answers.pop_front();
            }
        }
        self.waiting.take(reader)
    }

    /// The next question, for all readers that have come.
    fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.sent = self.came;
        self.gathering.sent(self.came);
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

fn lost() -> Error {
    let reason = "this node follows no leader that could tell it what is committed; try again";
    Error::Stopped(reason.to_owned())
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
        state.wanted = state.came;
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
            return Poll::Ready(Ok(state.answer_of(reader)));
        }
        if reader <= state.lost {
            return Poll::Ready(Err(lost()));
        }
        state.waiting.add(reader, context);
        Poll::Pending
    }

    fn ask_as(&self, way: Asking) -> Question {
        let silent = match way {
            Asking::Alone => false,
            Asking::Silent => true,
            Asking::Later => {
                let mut state = self.0.state();
                state.counts.asked += 1;
                state.came += 1;
                return question_of(state.came, false);
            }
        };
        let mut state = self.0.state();
        state.counts.asked += 1;
        state.came += 1;
        let reader = state.came;
        match state.is_open {
            true => state.alone.add(Own { reader, silent }),
            false => {
                state.counts.refused += 1;
                state.lost = reader;
            }
        }
        let is_due = state.is_due();
        drop(state);
        if is_due {
            self.0.wanted.notify_one();
        }
        question_of(reader, false)
    }

    fn insist(&self, question: Question) {
        let mut state = self.0.state();
        let reader = reader_of(question);
        state.wanted = state.wanted.max(reader);
        let mut done = Vec::new();
        if !state.is_open && reader > state.answered {
            state.counts.refused += 1;
            state.lost = state.lost.max(reader);
            done = state.waiting.take(reader);
        }
        let is_due = state.is_due();
        drop(state);
        done.into_iter().for_each(Waker::wake);
        if is_due {
            self.0.wanted.notify_one();
        }
    }

    fn poll_reached(
        &self,
        question: Question,
        context: &mut Context<'_>,
    ) -> Poll<Result<Reached, Error>> {
        let mut state = self.0.state();
        let reader = reader_of(question);
        if let Some(found) = state.alone.take(reader) {
            return Poll::Ready(Ok(Reached {
                at: found.at,
                flushed: found.flushed,
                committed: found.committed,
            }));
        }
        // A commit that answers a reader says nothing about how far this node is.
        if !state.alone.waits(reader) {
            return Poll::Ready(Err(lost()));
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

    fn awaits(&self) -> bool {
        let state = self.0.state();
        state.came > state.answered.max(state.lost)
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

    /// The next question to send that is not shared: its number, and whether it is silent.
    pub(super) fn begin_alone(&mut self) -> Option<(u64, bool)> {
        let mut state = self.shared.state();
        if !state.is_open {
            return None;
        }
        let own = state.alone.next()?;
        self.ticks = 0;
        state.begun += 1;
        state.sent = state.sent.max(own.reader);
        state.gathering.pass(own.reader);
        state.counts.sent += 1;
        let number = state.begun;
        state.under_way.push_back((number, own.reader));
        Some((number, own.silent))
    }

    /// The next question to send and its number, if a reader waits for it and none is under
    /// way.
    pub(super) fn begin(&mut self) -> Option<u64> {
        let mut state = self.shared.state();
        if !state.is_shared_due() {
            return None;
        }
        self.ticks = 0;
        Some(state.begin())
    }

    /// Until when the next question is held back for more readers.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.shared.state().gathering.held_until()
    }

    /// Releases a question that was held back for long enough.
    pub(super) fn release(&self, now: Instant) {
        self.shared.state().gathering.release(now);
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

    /// The leader has answered this question, and so all before it; this node's log is on its
    /// disk up to the first of `reached`, and committed up to the second.
    pub(super) fn answered(&self, question: u64, at: Lsn, reached: (Lsn, Lsn)) {
        let mut state = self.shared.state();
        let Some(reader) = state.end(question) else {
            // A later one was answered before, or it was given up.
            return;
        };
        state.by_question = state.by_question.max(reader);
        if !state.alone.waits(reader) {
            let came = state.came;
            state.gathering.answered(came);
        }
        state.alone.answered(reader, at, reached);
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
        state.alone.lose(reader);
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
        let last = state.came;
        state.lost = last;
        state.alone.lose(last);
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

    const HERE: (Lsn, Lsn) = (Lsn(0), Lsn(0));

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
        driver.answered(1, Lsn(80), HERE);
        assert_eq!(poll(&*readers, first), Poll::Ready(Ok(80)));
        assert_eq!(poll(&*readers, later[0]), Poll::Pending);
        assert_eq!(driver.begin(), Some(2));
        driver.answered(2, Lsn(96), HERE);
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
        driver.answered(1, Lsn(80), HERE);
        assert_eq!(poll(&*readers, early), Poll::Ready(Ok(80)));
        assert_eq!(poll(&*readers, late), Poll::Pending);
        driver.answered(2, Lsn(80), HERE);
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
        driver.answered(2, Lsn(8), HERE);
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
        driver.answered(1, Lsn(80), HERE);
        assert_eq!(readers.answered(first), Some(Answered::Asked));
        assert_eq!(readers.answered(second), None);
        // A message that was sent before the fourth reader came is answered with a commit.
        readers.learn(before, Lsn(92));
        assert_eq!(poll(&*readers, second), Poll::Ready(Ok(92)));
        assert_eq!(readers.answered(third), Some(Answered::Spared));
        assert_eq!(poll(&*readers, fourth), Poll::Pending);
        assert_eq!(driver.begin(), Some(2));
        driver.answered(2, Lsn(92), HERE);
        assert_eq!(readers.answered(fourth), Some(Answered::Shared));
        assert_eq!(driver.counts().spared, 2);
        // All have an answer: there is nothing to ask.
        readers.ask();
        readers.learn(readers.asked(), Lsn(96));
        assert_eq!(driver.begin(), None);
        assert_eq!(driver.counts().sent, 2);
    }

    #[test]
    fn a_reader_that_waits_for_its_tables_keeps_its_answer() {
        let mut driver = open();
        let readers = driver.readers();
        let early = readers.ask();
        for question in 1..=ANSWERS as u64 {
            readers.ask();
            assert_eq!(driver.begin(), Some(question));
            driver.answered(question, Lsn(80 * question), HERE);
            assert_eq!(poll(&*readers, early), Poll::Ready(Ok(80)));
        }
        // A reader that waits longer than answers are kept gets a newer one, which is right, too.
        readers.ask();
        let next = driver.begin().expect("a reader waits");
        driver.answered(next, Lsn(80 * next), HERE);
        assert_eq!(poll(&*readers, early), Poll::Ready(Ok(160)));
        // A late copy of an answer changes nothing.
        driver.answered(1, Lsn(80), HERE);
        assert_eq!(poll(&*readers, early), Poll::Ready(Ok(160)));
    }

    #[test]
    fn a_question_that_is_not_shared_is_sent_for_each_reader() {
        let mut driver = open();
        let readers = driver.readers();
        let all: Vec<_> = (0..20).map(|_| readers.ask_as(Asking::Alone)).collect();
        let mut sent = 0;
        while let Some(next) = driver.begin_alone() {
            sent += 1;
            assert_eq!(next, (sent, false));
        }
        assert_eq!(sent, 12, "consensus keeps no more");
        assert_eq!(driver.begin(), None, "no reader shares");
        assert_eq!(poll(&*readers, all[0]), Poll::Pending);
        driver.answered(5, Lsn(80), HERE);
        assert_eq!(poll(&*readers, all[4]), Poll::Ready(Ok(80)));
        assert_eq!(poll(&*readers, all[5]), Poll::Pending);
        while driver.begin_alone().is_some() {
            sent += 1;
        }
        assert_eq!(sent, 17);
        // A reader that shares asks after them all.
        let shared = readers.ask();
        driver.answered(17, Lsn(96), HERE);
        assert_eq!(poll(&*readers, shared), Poll::Pending);
        while driver.begin_alone().is_some() {
            sent += 1;
        }
        driver.answered(20, Lsn(96), HERE);
        assert_eq!(poll(&*readers, all[19]), Poll::Ready(Ok(96)));
        assert_eq!(driver.begin(), Some(21));
        assert_eq!((sent, driver.counts().sent), (20, 21));
    }

    #[test]
    fn questions_of_one_reader_do_not_end_the_gathering_of_those_that_share() {
        let mut driver = open();
        let readers = driver.readers();
        for _ in 0..100 {
            readers.ask();
        }
        assert_eq!(driver.begin(), Some(1));
        readers.ask_as(Asking::Alone);
        assert_eq!(driver.begin_alone(), Some((2, false)));
        driver.answered(1, Lsn(80), HERE);
        assert!(driver.held_until().is_some(), "a hundred may come back");
        let until = driver.held_until();
        driver.answered(2, Lsn(80), HERE);
        assert_eq!(driver.held_until(), until);
        for _ in 0..74 {
            readers.ask();
        }
        assert_eq!(driver.begin(), None);
        readers.ask();
        assert_eq!(driver.begin(), Some(3));
    }

    #[test]
    fn a_silent_answer_says_what_it_found_here_once() {
        let mut driver = open();
        let readers = driver.readers();
        let context = &mut Context::from_waker(Waker::noop());
        let asked = readers.ask_as(Asking::Silent);
        assert_eq!(driver.begin_alone(), Some((1, true)));
        // A commit answers the reader, and not how far this node is.
        readers.learn(readers.asked(), Lsn(88));
        assert!(readers.poll_reached(asked, context).is_pending());
        driver.answered(1, Lsn(96), (Lsn(90), Lsn(80)));
        let Poll::Ready(Ok(reached)) = readers.poll_reached(asked, context) else {
            panic!("the answer has come");
        };
        let expected = Reached {
            at: Lsn(96),
            flushed: Lsn(90),
            committed: Lsn(80),
        };
        assert_eq!(reached, expected);
        let again = readers.poll_reached(asked, context);
        assert!(matches!(again, Poll::Ready(Err(_))));
        let lost = readers.ask_as(Asking::Silent);
        driver.set_open(false);
        assert!(matches!(
            readers.poll_reached(lost, context),
            Poll::Ready(Err(_))
        ));
        assert_eq!(driver.begin_alone(), None);
    }

    #[test]
    fn a_reader_that_asks_later_is_spared_or_insists() {
        let mut driver = open();
        let readers = driver.readers();
        let spared = readers.ask_as(Asking::Later);
        let before = readers.asked();
        let insists = readers.ask_as(Asking::Later);
        assert_eq!(driver.begin(), None, "no reader insists");
        readers.learn(before, Lsn(92));
        assert_eq!(poll(&*readers, spared), Poll::Ready(Ok(92)));
        assert_eq!(poll(&*readers, insists), Poll::Pending);
        readers.insist(insists);
        assert_eq!(driver.begin(), Some(1));
        driver.answered(1, Lsn(96), HERE);
        assert_eq!(poll(&*readers, insists), Poll::Ready(Ok(96)));
        // Without a leader nothing answers.
        driver.set_open(false);
        let late = readers.ask_as(Asking::Later);
        assert_eq!(poll(&*readers, late), Poll::Pending);
        readers.insist(late);
        assert_eq!(poll(&*readers, late), Poll::Ready(Err(())));
    }
}
