//! Read confirmation (the read index protocol): ensures that a leader does not answer
//! reads from a state that a newer leader may have superseded.
//!
//! The engine of a cluster's leader may have a successor that it has not heard of. So an
//! answer does not leave the process before a majority has confirmed this leader, by a
//! request issued after the snapshot of the answer ([`coeval_txn`], rule 3, and decision
//! 0028). The session records when a statement reads the database; the connection that
//! sends the answers waits.
//!
//! ```text
//!   SELECT a            reads, and requests       waits for the confirmation
//!   SELECT 1            reads nothing             –
//!   BEGIN               –                         –
//!   SELECT a            reads, and requests       waits
//!   SELECT b            reads                     –   the block's end confirms it
//!   UPDATE a            reads                     –
//!   SELECT b            reads                     –
//!   COMMIT              no request                waits for the commit to be durable
//!   BEGIN               –                         –
//!   SELECT a            reads, and requests       waits
//!   SELECT b            reads                     –
//!   COMMIT              requests                  waits
//! ```
//!
//! The session issues a request when the last statement that the client waits for begins,
//! so that the confirmation arrives while the statement runs; otherwise when the answers
//! are about to leave.
//!
//! Invariants:
//! - Every read since the last request is confirmed before its answer leaves, except
//!   reads of an open transaction ([`Open`]): its commit or rollback on this node
//!   confirms them, and until then the client cannot rely on them. Reads of earlier
//!   transactions whose answers leave together with those of the open one are confirmed
//!   all the same. PREPARE does not count as a transaction's first answer.
//! - A commit that wrote confirms all earlier reads of its session, because none of the
//!   session's answers leaves before that commit is durable.
//! - One request is enough for transactions whose statements share a snapshot.

use coeval_txn::{Confirmation, Engine, Isolation};
use coeval_types::Timestamp;

use super::transaction::{Block, Running};

/// Whether an open transaction's end will confirm that its reads were not stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// No transaction is open, or an implicit one that ends without a command, before its
    /// answers leave.
    No,
    /// A transaction block that has not written. Its first answer waits for a
    /// confirmation; later ones wait only while another node may be about to become
    /// leader.
    Block,
    /// A transaction that has written: its commit needs a majority.
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

/// The reads of a session that need a confirmation, and the requests it has issued.
#[derive(Debug)]
pub(super) struct ReadConfirmation {
    /// Whether the session has read the database since the last request.
    looked: bool,
    /// Whether a transaction that has ended made some of these reads.
    ended_looked: bool,
    /// The last confirmation request.
    asked: Option<Confirmation>,
    /// The request that covers the transactions that have ended, whatever transaction
    /// runs now.
    ended_asked: Option<Confirmation>,
    /// Whether the last request was issued after the running transaction's first
    /// snapshot.
    covers_first_snapshot: bool,
    /// Whether the running transaction has executed, not only prepared, a statement that
    /// reads.
    shows: bool,
    /// Whether the last request was issued after that execution.
    covers_first_answer: bool,
    /// Commit timestamp of this session's newest transaction that wrote.
    committed: Timestamp,
}

impl ReadConfirmation {
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

    /// Called when a transaction begins and takes its first snapshot.
    pub(super) fn transaction_began(&mut self) {
        self.covers_first_snapshot = false;
        self.shows = false;
        self.covers_first_answer = false;
    }

    /// Called when a transaction or a block has ended: the outcome of the next
    /// transaction does not confirm its reads.
    pub(super) fn transaction_ended(&mut self) {
        self.ended_looked |= self.looked;
        self.ended_asked = self.asked;
    }

    /// Records that a statement reads the database. Returns whether this read is the
    /// first since the last request, for [`ReadConfirmation::not_looked`].
    pub(super) fn look(&mut self, isolation: Isolation) -> bool {
        let snapshot_is_covered =
            self.covers_first_snapshot && isolation != Isolation::ReadCommitted;
        let before = self.looked;
        self.looked |= !snapshot_is_covered;
        self.looked && !before
    }

    /// Records that the statement that reads is executed, and not only prepared.
    pub(super) fn shows(&mut self) {
        self.shows = true;
    }

    /// Withdraws the last recorded read, because the statement's result does not depend
    /// on it.
    pub(super) fn not_looked(&mut self, was_new: bool) {
        self.looked &= !was_new;
    }

    /// The request whose confirmation covers all reads so far, issued now if it was not
    /// yet. Reads of an open transaction that its end will confirm are left out.
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

    /// Records the commit of a transaction that wrote.
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
