//! Follower reads: the answer to a follower's question includes everything that was committed
//! when it was asked, and nothing that is not committed.
//!
//! Source: read index, Raft dissertation §6.4.

use std::collections::BTreeMap;

use coeval_types::Lsn;

use super::Violation;
use crate::position::NodeId;
use crate::ready::ReadAnswer;

/// What had been committed when each open question was asked.
#[derive(Clone, Debug, Default)]
pub(super) struct FollowerReads {
    asked: BTreeMap<(NodeId, u64), Lsn>,
}

impl FollowerReads {
    /// A node has started: it knows nothing of earlier questions.
    pub(super) fn started(&mut self, node: NodeId) {
        self.asked.retain(|(asker, _), _| *asker != node);
    }

    pub(super) fn asked(&mut self, node: NodeId, context: u64, committed: Lsn) {
        self.asked.insert((node, context), committed);
    }

    pub(super) fn answered(
        &mut self,
        node: NodeId,
        answer: &ReadAnswer,
        committed: Lsn,
    ) -> Result<(), Violation> {
        let needed = self.asked.remove(&(node, answer.context));
        let Ok(at) = answer.outcome else {
            return Ok(());
        };
        let what = match needed {
            None => "it takes an answer to what it never asked".to_owned(),
            Some(needed) if at < needed => {
                format!("a read sees up to {at}, and {needed} was committed before it")
            }
            Some(_) if at > committed => {
                format!("a read sees up to {at}, and only {committed} is committed")
            }
            Some(_) => return Ok(()),
        };
        let property = "follower reads";
        Err(Violation {
            property,
            node,
            what,
        })
    }
}
