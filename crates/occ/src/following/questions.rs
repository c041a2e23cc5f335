//! Questions for the newest commit: the interface by which a follower's engine learns up to
//! which offset its snapshots must reach (a read index asked by a follower).

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use coeval_txn::{Answered, Asking, Error, Question};
use coeval_types::{Lsn, Timestamp, planted};

/// Consensus, as a follower's engine sees it: the source of answers.
///
/// Rule: when [`Questions::poll`] is ready with an offset, that offset is committed, and
/// every commit that was acknowledged before [`Questions::ask`] returned the question ends
/// at or before it.
///
/// Questions are numbered in the order in which they are asked. An answer answers all
/// earlier questions as well, since it includes more than theirs; so a source need only
/// keep the newest one. A question that is answered stays so: it is polled by all who
/// share it, and again by each of them while its tables are behind.
pub trait Questions: Send + Sync + fmt::Debug {
    /// The question that will be sent next; all callers until then share it.
    fn ask(&self) -> Question;

    /// Ready with the offset before which everything is committed; [`Error::Stopped`] when
    /// the question was lost, or no leader is known.
    fn poll(&self, question: Question, context: &mut Context<'_>) -> Poll<Result<Lsn, Error>>;

    /// How the question was answered; `None` while it is not.
    fn answered(&self, question: Question) -> Option<Answered>;

    /// Number of callers that have asked.
    fn asked(&self) -> u64;

    /// Whether one of them may have no answer yet, so that [`Questions::learn`] helps.
    fn awaits(&self) -> bool;

    /// The first so many callers that have asked may read once everything before `end` is
    /// visible, which is committed ([`Sending::answered`]).
    fn learn(&self, asked: u64, end: Lsn);

    /// As [`Questions::ask`], in another way, for measurements.
    fn ask_as(&self, _way: Asking) -> Question {
        self.ask()
    }

    /// Has a question of [`Asking::Later`] sent, if it is not answered yet.
    fn insist(&self, _question: Question) {}

    /// Ready with what the answer to a question of [`Asking::Silent`] found here, once.
    fn poll_reached(
        &self,
        question: Question,
        context: &mut Context<'_>,
    ) -> Poll<Result<Reached, Error>> {
        let at = ready!(self.poll(question, context))?;
        Poll::Ready(Ok(Reached {
            at,
            flushed: at,
            committed: at,
        }))
    }
}

/// How far a node was when the answer to a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The answer: everything before it is committed.
    pub at: Lsn,
    /// The node's log was on its disk up to here.
    pub flushed: Lsn,
    /// The node knew its log to be committed up to here.
    pub committed: Lsn,
}

/// A message that this node sends to the leader, whose answer may answer questions, too.
#[derive(Clone, Debug)]
pub struct Sending {
    questions: Arc<dyn Questions>,
    /// How many readers had asked before the message was sent.
    asked: u64,
}

impl Sending {
    /// Notes who has asked, before the message is sent.
    #[must_use]
    pub fn new(questions: Arc<dyn Questions>) -> Self {
        let asked = questions.asked();
        Self { questions, asked }
    }

    /// The leader has answered that what it did for this message is this commit, which is
    /// durable. So the readers that had asked before the message was sent may read once the
    /// commit is visible:
    ///
    /// The leader reserved the commit's place in the log after the message was sent. Whatever
    /// was acknowledged before that was committed then, in this term or another one. In the
    /// committed log, of which there is one, it stands before this commit: had it stood
    /// behind, then this commit had been in the log before it was made. So no term has to be
    /// compared, and one offset covers all.
    ///
    /// The commit must be the message's, or a later one's ([`Marks`](super::Marks)): one that the
    /// leader only reports with the answer may be older than what others were told meanwhile.
    pub fn answered(&self, commit: Timestamp) {
        let asked = match planted!(StampAfterMessage) {
            true => self.questions.asked(),
            false => self.asked,
        };
        // A commit's frame is longer than a byte: an end past its start is past its end.
        let end = Lsn(commit.lsn().0.saturating_add(1));
        self.questions.learn(asked, end);
    }
}
