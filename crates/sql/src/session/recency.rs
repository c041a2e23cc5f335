//! Whether what a session was shown may be old.
//!
//! The engine of a cluster's leader may have a successor that it has not heard of. So an
//! answer does not leave before the engine is confirmed to be the one, by a question that
//! was put after the snapshot of what the answer shows ([`coeval_txn`], rule 3, and decision
//! 0028). The session knows when it has looked at something; whoever sends its answers
//! waits.
//!
//! ```text
//!   SELECT a            looks, and asks           waits for the answer to that
//!   SELECT 1            looks at nothing          –
//!   BEGIN               –                         –
//!   SELECT a            looks, and asks           waits
//!   SELECT b            looks                     –   its end will show it
//!   UPDATE a            looks                     –
//!   SELECT b            looks                     –
//!   COMMIT              nothing is asked          waits for the commit to be durable
//!   BEGIN               –                         –
//!   SELECT a            looks, and asks           waits
//!   SELECT b            looks                     –
//!   COMMIT              asks                      waits
//! ```
//!
//! A question is put as early as the last statement that the client waits for begins, so
//! that it is answered while the statement runs; otherwise when the answers are to leave.
//!
//! Invariants:
//! - What has been looked at since the last question is asked for before it leaves, but by
//!   a transaction that is open ([`Open`]): when it has committed here everything is, and
//!   when it was rolled back here; until then its client has nothing to rely on. What was
//!   looked at by transactions before it, whose answers leave with its own, is asked for all
//!   the same. What PREPARE looks at is no first answer.
//! - A commit that wrote answers all questions of its session so far, for nothing of it
//!   leaves before that commit is durable.
//! - Of transactions whose statements share a snapshot one question is enough.

use coeval_txn::{Confirmation, Engine, Isolation};
use coeval_types::Timestamp;

use super::transaction::{Block, Running};

/// Whether a transaction is open whose end will tell if what it showed was old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// None, or one that ends without being told to, and whose answers leave afterwards.
    No,
    /// Between BEGIN and its end, and has not written. Its first answer waits; others only
    /// while somebody else may be about to lead.
    Block,
    /// It has written: its commit needs a majority.
    Written,
}

impl Open {
    pub(super) fn of(block: Block, running: &Running) -> Self {
        match block {
            _ if running.wrote() => Self::Written,
            Block::Explicit => Self::Block,
            Block::Idle | Block::Implicit | Block::Failed => Self::No,
        }
    }
}

/// What a session has looked at and asked.
#[derive(Debug)]
pub(super) struct Recency {
    /// Something was looked at that no question covers.
    looked: bool,
    /// Some of that by a transaction that has ended.
    ended_looked: bool,
    /// The question put last.
    asked: Option<Confirmation>,
    /// The one that transactions wait for which have ended, whatever runs now.
    ended_asked: Option<Confirmation>,
    /// The last was put after the running transaction's first snapshot.
    covers_first_snapshot: bool,
    /// A statement of the running transaction was executed that looked.
    shows: bool,
    /// The last was put after that.
    covers_first_answer: bool,
    /// The newest commit of this session that wrote.
    committed: Timestamp,
}

impl Recency {
    pub(super) const fn new() -> Self {
        Self {
            looked: false,
            ended_looked: false,
            asked: None,
            ended_asked: None,
            covers_first_snapshot: false,
            shows: false,
            covers_first_answer: false,
            committed: Timestamp::ZERO,
        }
    }

    /// A transaction begins, with its first snapshot.
    pub(super) fn transaction_began(&mut self) {
        self.covers_first_snapshot = false;
        self.shows = false;
        self.covers_first_answer = false;
    }

    /// A transaction has ended, or a block. What it was shown does not hang on what the next
    /// one comes to.
    pub(super) fn transaction_ended(&mut self) {
        self.ended_looked |= self.looked;
        self.ended_asked = self.asked;
    }

    /// A statement of a transaction looks at the database. Returns whether that was new,
    /// for [`Recency::not_looked`].
    pub(super) fn look(&mut self, isolation: Isolation) -> bool {
        let snapshot_is_covered =
            self.covers_first_snapshot && isolation != Isolation::ReadCommitted;
        let before = self.looked;
        self.looked |= !snapshot_is_covered;
        self.looked && !before
    }

    /// The statement that looked is executed, and not only prepared.
    pub(super) fn shows(&mut self) {
        self.shows = true;
    }

    /// Nothing of what was looked at last matters.
    pub(super) fn not_looked(&mut self, was_new: bool) {
        self.looked &= !was_new;
    }

    /// The question whose answer covers everything so far, put now if it was not yet; of a
    /// transaction that is open, everything that its end does not.
    pub(super) fn confirmation(&mut self, engine: &dyn Engine, open: Open) -> Option<Confirmation> {
        if !self.ended_looked {
            match open {
                Open::Written => return self.ended_asked,
                Open::Block if self.covers_first_answer && engine.is_unchallenged() => {
                    return self.asked;
                }
                Open::Block | Open::No => {}
            }
        }
        if std::mem::take(&mut self.looked) {
            self.asked = engine.ask_confirmation();
            self.covers_first_snapshot = true;
            self.covers_first_answer = self.shows;
        }
        if std::mem::take(&mut self.ended_looked) {
            self.ended_asked = self.asked;
        }
        self.asked
    }

    /// A transaction has committed that wrote.
    pub(super) fn committed(&mut self, timestamp: Timestamp) {
        self.looked = false;
        self.ended_looked = false;
        self.asked = None;
        self.ended_asked = None;
        self.committed = timestamp;
    }

    pub(super) const fn newest_commit(&self) -> Timestamp {
        self.committed
    }
}
