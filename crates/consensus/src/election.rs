//! Leader election: campaigns, votes, and at most one leader per term.
//!
//! ```text
//!             election timeout              a majority would        a majority does
//!  Follower ───────────────────▶ PreCandidate ────────────▶ Candidate ───────────▶ Leader
//!     ▲                              asks, promises            new term,
//!     │                              nothing                   votes for itself
//!     └──────── message of a leader or of a newer term, or a majority refuses ──────┘
//! ```
//!
//! - A *preliminary* vote changes nothing at the voter, so a partitioned node comes back
//!   without a term that deposes the leader (pre-vote, Raft dissertation §9.6).
//! - A voter that has heard from a leader within the election timeout ignores vote requests,
//!   unless the leader itself asked for the election (§4.2.3). Leases rest on this, together
//!   with check quorum: a leader that hears from no majority steps down (`leader`). The rule
//!   also holds in the next term: a node that learns of that term from any other message
//!   than its leader's, for instance a refused vote, has lost its leader but not its promise
//!   to it. With a lease, it grants no vote until the remaining time is over.
//! - A vote, and a vote request, leave when term, vote *and log* are on the disk. The log,
//!   because a request names the end of the candidate's log: a candidate that loses that
//!   tail in a crash must not win the same term with votes that were granted for it.
//!
//! - A *newcomer*, which has joined with an empty log, grants no votes and does not
//!   campaign: it may have lost promises made under its id. That ends when it is admitted.
//!
//! Invariant (election safety): a node grants one vote per term, to a candidate whose log is
//! at least as up to date as its own.

use std::collections::BTreeMap;

use coeval_types::{Lsn, Term, planted};

use crate::consensus::{Consensus, State};
use crate::follower::Follower;
use crate::message::Body;
use crate::position::{NodeId, Position};

/// State of a candidate.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Whether this is a pre-vote, before the term is begun.
    pub(crate) preliminary: bool,
    votes: BTreeMap<NodeId, bool>,
}

/// Least room in the log, in bytes, with which a term is begun.
const ROOM_FOR_A_TERM: u64 = 1 << 20;

impl Consensus {
    /// Whether this node grants no votes now, because a leader may be active.
    pub(crate) fn holds_its_vote_back(&self) -> bool {
        let hears_a_leader = match self.state {
            State::Leader(_) => true,
            State::Follower(_) => {
                self.leader.is_some() && self.elapsed < self.settings.election_ticks
            }
            State::Candidate(_) => false,
        };
        (hears_a_leader || self.reserved > 0) && !planted!(VoteInLease)
    }

    /// Becomes a follower, in this term or a newer one.
    pub(crate) fn follow(&mut self, term: Term, leader: Option<NodeId>) {
        if term > self.term {
            self.term = term;
            self.vote = None;
            self.outbox.promise();
        }
        self.refuse_reads(leader);
        self.lose_questions();
        self.state = State::Follower(Follower::new());
        self.leader = leader;
        self.rest();
    }

    /// Becomes a follower without a leader in a newer term. If this node followed a leader,
    /// it may have confirmed that leader's lease, which a message of a newer term does not
    /// end.
    pub(crate) fn follow_nobody(&mut self, term: Term) {
        let follows = matches!(self.state, State::Follower(_)) && self.leader.is_some();
        let promised = match self.settings.lease {
            Some(_) if follows && !planted!(VoteInLease) => {
                self.settings.election_ticks.saturating_sub(self.elapsed)
            }
            _ => 0,
        };
        self.follow(term, None);
        self.reserved = self.reserved.max(promised);
    }

    /// Begins a pre-vote: asks whether a majority would vote for this node. A node that may
    /// not campaign still drops its leader: other candidates may need its vote.
    pub(crate) fn stand(&mut self) {
        self.leader = None;
        self.lose_questions();
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

    /// Handles the leader's request to take over leadership.
    pub(crate) fn stand_for_transfer(&mut self, from: NodeId) {
        if self.leader == Some(from) && self.may_stand() {
            self.stand_in_earnest(true);
        }
    }

    /// Whether this node may be elected, and the cluster may begin another term. A node that
    /// loses its vote may be elected until that change is committed: the others may need its
    /// log (Raft dissertation §4.2.2).
    fn may_stand(&self) -> bool {
        self.shape.is_voter_so_far(self.id)
            && !self.newcomer
            && self.term < Term::MAX
            && self.shape.end().0 < Lsn::LIMIT.0 - ROOM_FOR_A_TERM
            && !matches!(self.state, State::Leader(_))
    }

    /// Begins a term as its candidate, and requests votes.
    fn stand_in_earnest(&mut self, transfer: bool) {
        self.term = Term(self.term.0 + 1);
        self.vote = Some(self.id);
        self.outbox.promise();
        self.leader = None;
        self.lose_questions();
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

    /// Handles a vote request, for this node's term or, in a pre-vote, for a term that may
    /// come.
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

    /// Handles a voter's answer.
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
