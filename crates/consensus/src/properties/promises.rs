//! The property of promises: no vote, acknowledgement or answer leaves a node before its
//! disk has the state it promises, because after a crash the node would not know what other
//! nodes rely on.
//!
//! Source: Raft §5.1 and figure 2, "updated on stable storage before responding".

use coeval_types::Lsn;

use super::Violation;
use super::logs::Logs;
use crate::message::{Body, Message};
use crate::position::NodeId;
use crate::ready::Role;

/// Checks messages when they are sent.
pub(super) struct Promises;

impl Promises {
    /// Checks a message that a node hands out for sending.
    pub(super) fn said(logs: &Logs, node: NodeId, message: &Message) -> Result<(), Violation> {
        let broken = |what: String| {
            Err(Violation {
                property: "promises",
                node,
                what: format!("it tells {} {what}", message.to),
            })
        };
        let (term, vote) = logs.promised(node);
        let its = message.term;
        let (vote_said, durable_said) = match &message.body {
            // A pre-vote is of a term that is not in force.
            Body::VoteRequest {
                preliminary: true, ..
            }
            | Body::Vote {
                preliminary: true, ..
            } => return Ok(()),
            Body::VoteRequest { last, .. } => {
                // A candidate whose request was held until it had another leader cannot win
                // any more.
                let role = logs.role(node);
                let may_win = role.role == Role::Candidate && role.term == its;
                let has_log = logs.disk(node).is_some_and(|disk| disk.has(*last));
                if may_win && !has_log {
                    return broken(format!(
                        "that its log ends at {last}, which is not on its disk"
                    ));
                }
                (Some(node), None)
            }
            Body::Vote { granted: true, .. } => (Some(message.to), None),
            Body::Appended { matched } => (None, Some(*matched)),
            Body::HeartbeatAnswer { verified, .. } => {
                (None, verified.map(|verified| verified.durable))
            }
            _ => (None, None),
        };
        if its > term {
            return broken(format!("of term {its}, and its disk knows term {term}"));
        }
        if vote_said.is_some() && its == term && vote != vote_said {
            return broken(format!(
                "that {vote_said:?} has its vote in term {its}, and on its disk {vote:?} has it"
            ));
        }
        match durable_said {
            Some(end) if !Self::is_on_disk(logs, node, end) => broken(format!(
                "that everything before {end} is on its disk, and it is not"
            )),
            _ => Ok(()),
        }
    }

    /// Whether the log as it is in memory is on the disk up to `end`.
    fn is_on_disk(logs: &Logs, node: NodeId, end: Lsn) -> bool {
        let Some(disk) = logs.disk(node) else {
            return false;
        };
        match logs.log(node).position_at(end) {
            Some(position) => disk.has(position),
            // A checkpoint covers it.
            None => disk.last().end >= end,
        }
    }
}
