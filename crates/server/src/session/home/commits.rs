//! Commits of the client's session as answers: what the leader has committed for a message of
//! this node includes everything that was acknowledged before the message was sent. So it
//! spares readers that had asked by then their question ([`Sending`]).
//!
//! ```text
//!   reader of any session      asks ──────────────────────────▶ may read at 92
//!   this session's relay            sends ──── COMMIT ── 92 told ──┘
//! ```
//!
//! The leader tells the newest commit of the session, with the ReadyForQuery of its cycle. That
//! is a commit of the message only if the leader had told another one before, and nothing was
//! under way when the message was sent.

use coeval_occ::Sending;
use coeval_types::{Timestamp, planted};

/// The commits that the leader's session has told, and the message that may make the next.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// The newest commit that the leader has told. Its first may be of any age.
    told: Option<Timestamp>,
    /// Noted before the first message that is not answered was sent.
    sending: Option<Sending>,
}

impl Commits {
    /// The client's next message goes to the leader, which owes the client nothing.
    pub(super) fn send(&mut self, sending: Sending) {
        self.sending = Some(sending);
    }

    /// The leader has told the newest commit of its session, perhaps the same as before.
    pub(super) fn told(&mut self, newest: Option<Timestamp>) {
        let before = std::mem::replace(&mut self.told, newest);
        let is_new = before.is_some() && before != newest;
        if let (Some(sending), Some(commit)) = (&self.sending, newest)
            && (is_new || planted!(StampByOldCommit))
        {
            sending.answered(commit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll};

    use coeval_occ::Questions;
    use coeval_txn::{Answered, Error, Question};
    use coeval_types::planted::{Bug, plant};
    use coeval_types::{Lsn, Term};

    use super::*;

    /// Readers that have asked, and what they have learned.
    #[derive(Debug, Default)]
    struct Node {
        asked: AtomicU64,
        learned: Mutex<Vec<(u64, u64)>>,
    }

    impl Questions for Node {
        fn ask(&self) -> Question {
            Question(self.asked.fetch_add(1, Ordering::Relaxed))
        }

        fn poll(&self, _: Question, _: &mut Context<'_>) -> Poll<Result<Lsn, Error>> {
            Poll::Pending
        }

        fn answered(&self, _: Question) -> Option<Answered> {
            None
        }

        fn asked(&self) -> u64 {
            self.asked.load(Ordering::Relaxed)
        }

        fn learn(&self, asked: u64, end: Lsn) {
            self.learned.lock().unwrap().push((asked, end.0));
        }
    }

    /// What readers learn from a session that commits at 80 and at 96.
    fn learned() -> Vec<(u64, u64)> {
        let node = Arc::new(Node::default());
        let questions: Arc<dyn Questions> = Arc::clone(&node) as _;
        let mut commits = Commits::default();
        let at = |lsn| Some(Timestamp::new(Term(3), Lsn(lsn)));
        // What the leader tells first may have been committed long ago.
        let send = |commits: &mut Commits| commits.send(Sending::new(Arc::clone(&questions)));
        node.ask();
        send(&mut commits);
        commits.told(at(64));
        node.ask();
        send(&mut commits);
        node.ask();
        commits.told(at(80));
        // A cycle that only reads tells nothing new.
        node.ask();
        send(&mut commits);
        commits.told(at(80));
        node.ask();
        send(&mut commits);
        commits.told(at(96));
        let learned = node.learned.lock().unwrap();
        learned.clone()
    }

    #[test]
    fn a_commit_answers_readers_that_had_asked_before_its_message_was_sent() {
        assert_eq!(learned(), [(2, 81), (5, 97)]);
    }

    #[test]
    fn a_commit_that_is_older_than_the_message_is_found() {
        let planted = plant(Bug::StampByOldCommit);
        let learned = learned();
        drop(planted);
        assert!(learned.contains(&(4, 81)), "{learned:?}");
    }
}
