//! The history of elections: the leaders that a node has seen since its start.

use std::collections::VecDeque;
use std::time::Duration;

use coeval_consensus::{Body, Message, RoleChange};
use coeval_peers::NodeId;
use coeval_types::Term;

/// Number of elections remembered.
const MOST: usize = 64;

/// Why an election took place, as far as a node can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The first leader that this node has seen since its start.
    First,
    /// The previous leader was no longer heard from.
    Lost(NodeId),
    /// The previous leader transferred its leadership.
    HandedOver(NodeId),
    /// The previous leader's disk was full, and it transferred its leadership.
    DiskFull(NodeId),
}

/// A node has become leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Election {
    /// The leader's term.
    pub term: Term,
    /// The elected node.
    pub leader: NodeId,
    /// When this node learned of the election: its wall clock, since 1970.
    pub when: Duration,
    /// Why the election took place.
    pub cause: Cause,
}

/// The most recent elections, oldest first.
#[derive(Debug, Default)]
pub(super) struct Elections {
    seen: VecDeque<Election>,
    /// Term for which the previous leader has asked another node to campaign.
    handed_over: Option<Term>,
    /// The leader whose disk is full and that hands over, with its term.
    full: Option<(NodeId, Term)>,
}

impl Elections {
    /// Notes whether a message announces a leadership transfer, which is then the cause of
    /// the next election.
    pub(super) fn hear(&mut self, message: &Message) {
        match message.body {
            Body::VoteRequest { transfer: true, .. } => self.handed_over = Some(message.term),
            Body::Campaign => self.handed_over = Some(Term(message.term.0 + 1)),
            _ => {}
        }
    }

    /// Notes that the leader of this term hands over because its disk is full.
    pub(super) fn note_full(&mut self, leader: NodeId, term: Term) {
        self.full = Some((leader, term));
    }

    /// Notes a change of this node's role, with which it may have learned of a leader.
    pub(super) fn note(&mut self, change: &RoleChange) {
        let Some(leader) = change.leader.map(|node| NodeId(node.0)) else {
            return;
        };
        let before = self.seen.back();
        if before.is_some_and(|before| before.term >= change.term) {
            return;
        }
        let cause = match before {
            None => Cause::First,
            Some(before) if self.handed_over == Some(change.term) => {
                match self.full == Some((before.leader, before.term)) {
                    true => Cause::DiskFull(before.leader),
                    false => Cause::HandedOver(before.leader),
                }
            }
            Some(before) => Cause::Lost(before.leader),
        };
        if self.seen.len() == MOST {
            self.seen.pop_front();
        }
        self.seen.push_back(Election {
            term: change.term,
            leader,
            when: coeval_env::wall_clock(),
            cause,
        });
    }

    pub(super) fn seen(&self) -> Vec<Election> {
        self.seen.iter().copied().collect()
    }
}
