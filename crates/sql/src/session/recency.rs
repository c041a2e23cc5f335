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
//!   UPDATE a            looks                     –   its commit will show it
//!   SELECT b            looks                     –
//!   COMMIT              nothing is asked          waits for the commit to be durable
//! ```
//!
//! A question is put as early as the last statement that the client waits for begins, so
//! that it is answered while the statement runs; otherwise when the answers are to leave.
//!
//! Invariants:
//! - What has been looked at since the last question is asked for before it leaves, but by
//!   a transaction that is open and has written: that leaves its client nothing to rely on
//!   unless it commits. What was looked at by transactions before it, whose answers leave
//!   with its own, is asked for all the same.
//! - A commit that wrote answers all questions of its session so far, for nothing of it
//!   leaves before that commit is durable.
//! - Of transactions whose statements share a snapshot one question is enough.

use coeval_txn::{Confirmation, Engine, Isolation};
use coeval_types::Timestamp;

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
            committed: Timestamp::ZERO,
        }
    }

    /// A transaction begins, with its first snapshot.
    pub(super) fn transaction_began(&mut self) {
        self.covers_first_snapshot = false;
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

    /// Nothing of what was looked at last matters.
    pub(super) fn not_looked(&mut self, was_new: bool) {
        self.looked &= !was_new;
    }

    /// The question whose answer covers everything so far, put now if it was not yet; of a
    /// transaction that is open and `has_written`, everything before it.
    pub(super) fn confirmation(
        &mut self,
        engine: &dyn Engine,
        has_written: bool,
    ) -> Option<Confirmation> {
        if has_written && !self.ended_looked {
            return self.ended_asked;
        }
        if std::mem::take(&mut self.looked) {
            self.asked = engine.ask_confirmation();
            self.covers_first_snapshot = true;
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
