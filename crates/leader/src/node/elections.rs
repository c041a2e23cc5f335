//! The elections that a node has seen since its start.

use std::collections::VecDeque;
use std::time::Duration;

use coeval_consensus::{Body, Message, RoleChange};
use coeval_peers::NodeId;
use coeval_types::Term;

/// So many are remembered.
const MOST: usize = 64;

/// Why there was an election, as far as a node can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is the first leader that this node has heard of since its start.
    First,
    /// The leader before was not heard of any more.
    Lost(NodeId),
    /// The leader before has handed over.
    HandedOver(NodeId),
}

/// Somebody has become leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Election {
    /// Of which term.
    pub term: Term,
    /// Who.
    pub leader: NodeId,
    /// When this node heard of it: by its wall clock, since 1970.
    pub when: Duration,
    /// Why.
    pub cause: Cause,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Elections {
    seen: VecDeque<Election>,
    /// The leader of a term has asked for the election of another.
    handed_over: Option<Term>,
}

impl Elections {
    /// A message may tell why somebody will be elected.
    pub(super) fn hear(&mut self, message: &Message) {
        match message.body {
            Body::VoteRequest { transfer: true, .. } => self.handed_over = Some(message.term),
            Body::Campaign => self.handed_over = Some(Term(message.term.0 + 1)),
            _ => {}
        }
    }

    /// A node's role has changed. It may know a leader now.
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
                Cause::HandedOver(before.leader)
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
