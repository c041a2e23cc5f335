//! What nodes say to each other.
//!
//! | body | from | to | says |
//! | --- | --- | --- | --- |
//! | vote request | candidate | voters | my log ends here: may I lead this term? |
//! | vote | voter | candidate | yes, and it is on my disk; or no |
//! | append | leader | everybody | behind this prefix come these entries |
//! | appended | follower | leader | up to here your log is on my disk |
//! | heartbeat | leader | everybody | I lead, and so far is committed |
//! | heartbeat answer | follower | leader | in this round you did lead |
//! | recover | follower | leader | here my log and yours may part: send what is yours |
//! | differs | leader | follower | (CHK) no; mine is this |
//! | campaign | leader | voter | stand for election now |
//! | stale | anybody | a leader | its term is over |
//!
//! A term is the sender's own, except that a preliminary vote request, and a vote that
//! grants it, carry the term that the candidate would have.
//!
//! Messages may be lost, repeated, late and out of order. Checkpoints travel beside
//! them, by whatever means the caller has.

use coeval_types::{Lsn, Term};

use crate::entry::Entry;
use crate::position::{NodeId, Position};

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
    /// In which term.
    pub term: Term,
    /// What.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// May the sender lead?
    VoteRequest {
        /// The end of the candidate's log.
        last: Position,
        /// Only asked whether it would be of use to stand; nothing is promised.
        preliminary: bool,
        /// The leader itself has asked for this election.
        transfer: bool,
    },
    /// An answer to that.
    Vote {
        /// Whether it was a preliminary request.
        preliminary: bool,
        /// Whether the sender agrees.
        granted: bool,
    },
    /// Entries that follow on a prefix; none, to say what is committed.
    Append {
        /// The prefix they follow on.
        previous: Position,
        /// Everything before it is committed.
        commit: Lsn,
        /// The entries, without a gap.
        entries: Vec<Entry>,
    },
    /// The receiver's log is on the sender's disk.
    Appended {
        /// Up to here.
        matched: Lsn,
    },
    /// The sender leads.
    Heartbeat {
        /// Everything before it is committed.
        commit: Lsn,
        /// Rises with each that is sent.
        round: u64,
    },
    /// An answer to that.
    HeartbeatAnswer {
        /// Which round.
        round: u64,
        /// How much of the leader's log the sender has, if that is known.
        verified: Option<Verified>,
    },
    /// Asks for what the sender's log should hold.
    Recover(Request),
    /// The entry that the sender has where the receiver has another.
    Differs {
        /// The end that was asked about.
        end: Lsn,
        /// The leader's entry before or around it.
        entry: Entry,
    },
    /// Stand for election at once.
    Campaign,
    /// The receiver's term is over.
    Stale,
}

/// How much of a leader's log a follower has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Up to here it has it.
    pub received: Lsn,
    /// Up to here it has it on its disk.
    pub durable: Lsn,
}

/// Where the sender's log may part from the leader's. See `recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// FRS: does a term begin in the leader's log from `start` on, before `end`?
    Marks {
        /// Up to here the sender's log is known to be committed.
        start: Lsn,
        /// Here it ends, not counting marks that nothing follows.
        end: Lsn,
    },
    /// CHK: is this prefix the leader's?
    Check {
        /// A prefix of the sender's log.
        last: Position,
    },
    /// Everything from here on, up to where the sender's log is known to be the
    /// leader's. For TC that is the commit point, always; else a follower asks so only
    /// for messages that were lost.
    From {
        /// The first place asked for.
        start: Lsn,
    },
}
