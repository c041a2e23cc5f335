//! The messages that nodes exchange: Raft's requests and responses, and those of
//! recovery.
//!
//! | body | from | to | meaning |
//! | --- | --- | --- | --- |
//! | vote request | candidate | voters | my log ends here: may I lead this term? |
//! | vote | voter | candidate | yes, and it is on my disk; or no |
//! | append | leader | followers | these entries follow this prefix |
//! | appended | follower | leader | up to here your log is on my disk |
//! | heartbeat | leader | followers | I lead, and this is the commit index |
//! | heartbeat answer | follower | leader | I confirm that you led in this round |
//! | recover | follower | leader | my log may diverge from yours here: send yours |
//! | differs | leader | follower | (CHK) no; my entry is this |
//! | campaign | leader | voter | stand for election now |
//! | ask | follower | leader | up to where must I have applied for my reads? |
//! | asked | leader | follower | up to here |
//! | stale | any node | a leader | its term is over |
//!
//! A term is the sender's own, except that a preliminary vote request, and a vote that
//! grants it, carry the term that the candidate would have.
//!
//! Messages may be lost, repeated, delayed and reordered. The caller sends checkpoints by
//! a transport of its own.

use coeval_types::{Lsn, Term};

use crate::entry::Entry;
use crate::position::{NodeId, Position};

/// A consensus message from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The term of the message, mostly the sender's.
    pub term: Term,
    /// The content.
    pub body: Body,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A candidate asks for a vote.
    VoteRequest {
        /// The end of the candidate's log.
        last: Position,
        /// Whether this is a pre-vote, in which voters promise nothing.
        preliminary: bool,
        /// Whether the leader itself has asked for this election.
        transfer: bool,
    },
    /// The answer to a vote request.
    Vote {
        /// Whether the request was a pre-vote.
        preliminary: bool,
        /// Whether the sender grants its vote.
        granted: bool,
    },
    /// Entries that follow a prefix; without entries it carries the commit index.
    Append {
        /// The prefix that the entries follow.
        previous: Position,
        /// The leader's commit index.
        commit: Lsn,
        /// The entries, without a gap.
        entries: Vec<Entry>,
    },
    /// Acknowledges that the receiver's log is on the sender's disk.
    Appended {
        /// End of the acknowledged prefix.
        matched: Lsn,
    },
    /// Asserts that the sender leads its term.
    Heartbeat {
        /// The leader's commit index.
        commit: Lsn,
        /// Number of the round, which increases with each.
        round: u64,
    },
    /// The answer to a heartbeat.
    HeartbeatAnswer {
        /// The round that is answered.
        round: u64,
        /// The part of the leader's log that the sender has, if it knows.
        verified: Option<Verified>,
    },
    /// Asks for the entries from which the sender's log may differ.
    Recover(Request),
    /// Carries the leader's entry where the receiver has another one.
    Differs {
        /// The end that the receiver asked about.
        end: Lsn,
        /// The leader's entry that ends there or contains that offset.
        entry: Entry,
    },
    /// Asks the receiver to campaign at once.
    Campaign,
    /// Informs the receiver that its term is over.
    Stale,
    /// A follower's question for the commit index (`follower_reads`).
    Ask {
        /// Number of the question, which its sender uses once.
        number: u64,
    },
    /// The answer to a question.
    Asked {
        /// The question.
        number: u64,
        /// The leader's commit index, which was confirmed after the question.
        at: Lsn,
    },
}

/// The part of a leader's log that a follower has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// End of the prefix that the follower has received.
    pub received: Lsn,
    /// End of the prefix that is on the follower's disk.
    pub durable: Lsn,
}

/// A follower's question where its log diverges from the leader's. See `recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// FRS: does a term begin in the leader's log at or after `start`, before `end`?
    Marks {
        /// End of the sender's log that is known to be committed.
        start: Lsn,
        /// End of the sender's log, without trailing marks.
        end: Lsn,
    },
    /// CHK: is this prefix in the leader's log?
    Check {
        /// A prefix of the sender's log.
        last: Position,
    },
    /// Everything from an offset on, up to which the sender's log is known to match the
    /// leader's. TC always asks from its commit index; other modes use it only after lost
    /// messages.
    From {
        /// Log offset from which entries are requested.
        start: Lsn,
    },
}
