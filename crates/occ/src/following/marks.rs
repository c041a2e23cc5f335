//! Marks that a follower puts between the messages of one session to its leader, so that the
//! leader can say which message a commit is of ([`MarkedMessages`](coeval_txn::MarkedMessages)),
//! and what each of them answers.

use std::collections::VecDeque;

use coeval_types::Timestamp;

use super::Sending;

/// Marks that are kept. A mark in front of messages that commit nothing is never told.
const MOST: usize = 8;

/// The marks on one stream to a leader. Their numbers have no meaning on another stream, which
/// begins with others.
#[derive(Debug, Default)]
pub struct Marks {
    /// The last mark.
    last: u64,
    /// The newest marks that no commit was told with, each noted before it was sent.
    sent: VecDeque<(u64, Sending)>,
}

impl Marks {
    /// The next mark, to be sent before the next message. The caller has noted the sending
    /// before, and sends the mark after this call.
    pub fn send(&mut self, sending: Sending) -> u64 {
        self.last += 1;
        if self.sent.len() == MOST {
            self.sent.pop_front();
        }
        self.sent.push_back((self.last, sending));
        self.last
    }

    /// Whether a commit may be told that answers a reader.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sent.is_empty()
    }

    /// The leader has made this commit after the mark had come, and it is durable. It answers
    /// what the earlier marks could have answered, too. One that is not kept any more is as good
    /// as the one before it.
    pub fn answered(&mut self, mark: u64, commit: Timestamp) {
        let mut newest = None;
        while let Some((_, sending)) = self.sent.pop_front_if(|(sent, _)| *sent <= mark) {
            newest = Some(sending);
        }
        if let Some(sending) = newest.filter(|_| mark <= self.last) {
            sending.answered(commit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll};

    use coeval_txn::{Answered, Error, Question};
    use coeval_types::{Lsn, Term};

    use super::super::Questions;
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

        fn awaits(&self) -> bool {
            true
        }

        fn learn(&self, asked: u64, end: Lsn) {
            self.learned.lock().unwrap().push((asked, end.0));
        }
    }

    #[test]
    fn a_commit_answers_those_who_had_asked_before_its_mark() {
        let node = Arc::new(Node::default());
        let mut marks = Marks::default();
        let send = |marks: &mut Marks| {
            node.ask();
            marks.send(Sending::new(Arc::clone(&node) as _))
        };
        let at = |lsn| Timestamp::new(Term(3), Lsn(lsn));
        let all: Vec<u64> = (0..5).map(|_| send(&mut marks)).collect();
        marks.answered(all[1], at(80));
        marks.answered(all[1], at(88));
        marks.answered(all[4] + 1, at(96));
        assert!(!marks.is_open());
        let late = send(&mut marks);
        marks.answered(all[4], at(104));
        marks.answered(late, at(112));
        // Of more marks than are kept, the first ones answer no reader.
        let all: Vec<u64> = (0..MOST + 2).map(|_| send(&mut marks)).collect();
        marks.answered(all[1], at(120));
        marks.answered(all[2], at(128));
        let learned = node.learned.lock().unwrap();
        assert_eq!(*learned, [(2, 81), (6, 113), (9, 129)]);
    }
}
