//! Commits that the leader makes for messages of this node's clients, as answers to readers that
//! had asked before the message was sent: they are spared a question.
//!
//! ```text
//!   reader of any session      asks ─────────────────────────────────▶ may read at 92
//!   this session's relay            mark 7, COMMIT ──── (7, 92) told ──┘
//! ```
//!
//! # Which message a commit is of
//!
//! The leader says it. The relay puts a mark before a cycle that it forwards, if a reader of this
//! node waits then, and notes who has asked by then ([`Marks`]). The leader's session tells a
//! commit together with the last mark before it, if it made the commit after that mark had come
//! ([`MarkedMessages`](coeval_txn::MarkedMessages)).
//!
//! # Why it is an answer
//!
//! Everything acknowledged before a reader asked was committed then. The commit got its place in
//! the log later: after its mark had come, which was sent after the reader had asked. It is told
//! as answers are, once it is durable on a majority, so it is in the committed log, of which there
//! is one; and what was committed before it was made stands before it there
//! ([`Sending`](coeval_occ::Sending)). The reader waits until this node's tables show the commit,
//! and so all of that. What that argument does not need, and what could be thought to break it:
//!
//! - *The leader's term.* A deposed leader that does not know it gets its commit to no majority,
//!   so it tells none. If it had told one, that would be in the log of the next leader.
//! - *The asker as a voter.* No leadership has to be confirmed: the commit itself needed a
//!   majority after the mark.
//! - *Withdrawn answers* (40003). What told the commit is sent again with a later answer as it
//!   was, with its own mark, once the commit is durable. If nothing had told it yet, the next mark
//!   ends that: a commit older than the last mark is not told with any.
//! - *Another leader.* Its stream begins with no marks, and numbers on one stream mean nothing on
//!   another: those of the lost stream answer no reader any more.
//! - *Several cycles in one packet.* Messages are handled in their order, and marks among them. A
//!   mark counts for all that follow it up to the next, so a commit of the third cycle under the
//!   mark of the first answers only readers that had asked before the first: fewer than could be.
//! - *Blocks and portals.* The place is reserved while COMMIT or the Sync of an implicit
//!   transaction is handled. What the transaction has read or locked before its mark came, or what
//!   portals still read, moves no commit.
//! - *Errors.* A transaction that fails has no commit, and what the same cycle had committed
//!   before is told with the error, once it is durable.
//!
//! What only reads at the leader would be an answer as well, at the leader's commit index. It is
//! not used: sessions do not know that index, and it costs as much as the question that it spares.

use std::sync::atomic::Ordering;

use coeval_sql::session;

use super::Reads;
use crate::session::opening;
use crate::shared::Shared;

impl Reads {
    /// Writes a mark before the client's next message to the leader, if a reader of this node
    /// waits whom a commit could help.
    pub(in crate::session) fn mark(&mut self, shared: &Shared, out: &mut Vec<u8>) {
        if !shared.marks_messages.load(Ordering::Relaxed) {
            return;
        }
        let reader = shared.reader.borrow();
        let Some(sending) = reader.as_ref().and_then(|reader| reader.sends()) else {
            return;
        };
        let mark = self.marks.send(sending);
        opening::handover(out, &session::mark(mark));
    }

    /// Takes the commit that the leader tells in this piece, if there is one, for an answer to
    /// the readers that had asked before its mark.
    pub(super) fn note_marked(&mut self, piece: &[u8]) {
        if self.marks.is_open()
            && let Some((mark, commit)) = session::marked_commit(piece)
        {
            self.marks.answered(mark, commit);
        }
    }
}
