//! Who leads: candidates, votes, and one leader a term.
//!
//! ```text
//!             patience is over              a majority would        a majority does
//!  Follower ───────────────────▶ PreCandidate ────────────▶ Candidate ───────────▶ Leader
//!     ▲                              asks, promises            new term,
//!     │                              nothing                   votes for itself
//!     └──────── a leader is heard, or a newer term, or a majority says no ──────────┘
//! ```
//!
//! - A *preliminary* vote changes nothing at the voter, so a node that was cut off comes
//!   back without a term that deposes everybody (pre-vote, Raft dissertation §9.6).
//! - A voter that has heard of a leader lately does not even look at requests, unless
//!   the leader itself asked for the election (§4.2.3). Together with a leader that steps
//!   down when it hears of no majority (`leader`), that is also what leases rest on.
//!   It holds in the next term, too: a node that hears of one by anything else than its
//!   leader, say by a voter that says no, has lost its leader and not what it promised it.
//!   With a lease, it gives no vote until the time that it would have waited is over.
//! - A vote, and the request for one, leave when term, vote *and log* are on the disk.
//!   The log, because a request says where the candidate's log ends: a candidate that
//!   loses that tail in a crash must not win the same term with votes that were given for
//!   it.
//!
//! - A *newcomer*, which has joined with nothing, gives no vote and does not stand: what its
//!   id has promised it may have lost. That ends when it is admitted.
//!
//! Invariant (election safety): a node gives one vote a term, to a candidate whose log is
//! at least as up to date as its own.

use std::collections::BTreeMap;

use coeval_types::planted::{Bug, is_planted};
use coeval_types::{Lsn, Term};

use crate::consensus::{Consensus, State};
use crate::follower::Follower;
use crate::message::Body;
use crate::position::{NodeId, Position};

/// What a candidate knows.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// It only asks so far.
    pub(crate) preliminary: bool,
    votes: BTreeMap<NodeId, bool>,
}

/// A term is not begun with less room in the log than this.
const ROOM_FOR_A_TERM: u64 = 1 << 20;

impl Consensus {
    /// Whether this node gives no vote now, because a leader may be there.
    pub(crate) fn holds_its_vote_back(&self) -> bool {
        let hears_a_leader = match self.state {
            State::Leader(_) => true,
            State::Follower(_) => {
                self.leader.is_some() && self.elapsed < self.settings.election_ticks
            }
            State::Candidate(_) => false,
        };
        (hears_a_leader || self.reserved > 0) && !is_planted(Bug::VoteInLease)
    }

    /// Becomes a follower, in this term or a newer one.
    pub(crate) fn follow(&mut self, term: Term, leader: Option<NodeId>) {
        if term > self.term {
            self.term = term;
            self.vote = None;
            self.outbox.promise();
        }
        self.refuse_reads(leader);
        self.state = State::Follower(Follower::new());
        self.leader = leader;
        self.rest();
    }

    /// Becomes a follower of nobody in a newer term. If it followed a leader, it may have
    /// confirmed that one's lease, which a message of a newer term does not end.
    pub(crate) fn follow_nobody(&mut self, term: Term) {
        let follows = matches!(self.state, State::Follower(_)) && self.leader.is_some();
        let promised = match self.settings.lease {
            Some(_) if follows && !is_planted(Bug::VoteInLease) => {
                self.settings.election_ticks.saturating_sub(self.elapsed)
            }
            _ => 0,
        };
        self.follow(term, None);
        self.reserved = self.reserved.max(promised);
    }

    /// Asks whether a majority would vote for this node. One that does not know that it
    /// may be elected has not heard of a leader all the same: others may need its vote.
    pub(crate) fn stand(&mut self) {
        self.leader = None;
        if !self.may_stand() {
            return;
        }
        self.state = State::Candidate(Candidate {
            preliminary: true,
            votes: BTreeMap::new(),
        });
        let request = Body::VoteRequest {
            last: self.shape.last(),
            preliminary: true,
            transfer: false,
        };
        let term = Term(self.term.0 + 1);
        for voter in self.other_voters() {
            self.send_preliminarily(voter, term, request.clone());
        }
        self.voted(self.id, term, true, true);
    }

    /// The leader has asked this node to take over.
    pub(crate) fn stand_for_transfer(&mut self, from: NodeId) {
        if self.leader == Some(from) && self.may_stand() {
            self.stand_in_earnest(true);
        }
    }

    /// Whether this node may be elected, and the cluster may have another term. A node
    /// that loses its vote may, until that is committed: the others may need its log
    /// (Raft dissertation §4.2.2).
    fn may_stand(&self) -> bool {
        self.shape.is_voter_so_far(self.id)
            && !self.newcomer
            && self.term < Term::MAX
            && self.shape.end().0 < Lsn::LIMIT.0 - ROOM_FOR_A_TERM
            && !matches!(self.state, State::Leader(_))
    }

    /// Begins a term, and asks for votes.
    fn stand_in_earnest(&mut self, transfer: bool) {
        self.term = Term(self.term.0 + 1);
        self.vote = Some(self.id);
        self.outbox.promise();
        self.leader = None;
        self.rest();
        self.state = State::Candidate(Candidate {
            preliminary: false,
            votes: BTreeMap::new(),
        });
        let request = Body::VoteRequest {
            last: self.shape.last(),
            preliminary: false,
            transfer,
        };
        for voter in self.other_voters() {
            self.promise(voter, request.clone());
        }
        let yes = Body::Vote {
            preliminary: false,
            granted: true,
        };
        self.promise(self.id, yes);
    }

    fn other_voters(&self) -> Vec<NodeId> {
        let voters = self.shape.membership().voters();
        voters.filter(|voter| *voter != self.id).collect()
    }

    /// Somebody asks for this node's vote, in this node's term or, preliminarily, in
    /// one that may come.
    pub(crate) fn vote_requested(
        &mut self,
        from: NodeId,
        term: Term,
        last: Position,
        preliminary: bool,
    ) {
        let is_up_to_date = last >= self.shape.last() && !self.newcomer;
        if preliminary {
            let granted = term > self.term && is_up_to_date;
            let vote = Body::Vote {
                preliminary,
                granted,
            };
            if granted {
                self.send_preliminarily(from, term, vote);
            } else {
                self.send(from, vote);
            }
            return;
        }
        let is_free = match self.vote {
            Some(candidate) => candidate == from,
            None => self.leader.is_none() && self.reserved == 0,
        };
        let granted = is_free && is_up_to_date;
        if granted && self.vote.is_none() {
            self.vote = Some(from);
            self.outbox.promise();
            self.elapsed = 0;
        }
        self.promise(
            from,
            Body::Vote {
                preliminary,
                granted,
            },
        );
    }

    /// A voter has answered.
    pub(crate) fn voted(&mut self, from: NodeId, term: Term, preliminary: bool, granted: bool) {
        let expected = if preliminary && granted {
            Term(self.term.0 + 1)
        } else {
            self.term
        };
        let State::Candidate(candidate) = &mut self.state else {
            return;
        };
        if candidate.preliminary != preliminary || term != expected {
            return;
        }
        candidate.votes.insert(from, granted);
        let membership = self.shape.membership();
        let count = |answer| {
            let votes = candidate.votes.iter();
            votes
                .filter(|(voter, vote)| **vote == answer && membership.is_voter(**voter))
                .count()
        };
        if count(true) >= membership.majority() {
            if preliminary {
                self.stand_in_earnest(false);
            } else {
                self.lead();
            }
        } else if count(false)
            > membership
                .voters()
                .len()
                .saturating_sub(membership.majority())
        {
            self.follow(self.term, None);
        }
    }
}
