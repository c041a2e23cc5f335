//! Leader completeness: entries committed in a term are in the logs of the leaders of all
//! later terms.
//!
//! Source: Raft §5.4.

use coeval_types::Term;

use super::Violation;
use super::logs::{Logs, Seen};
use crate::position::NodeId;

/// Checks leaders when they are elected, and when an entry is committed that a later
/// leader may lack.
///
/// A node may learn that it has won an election after a leader of a later term has
/// committed entries: it need not have those.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaderCompleteness {
    /// For each committed entry, by index: the term of the node at which it was first
    /// seen committed, which is at least the term in which it was committed.
    seen_in: Vec<Term>,
}

impl LeaderCompleteness {
    /// Checks a leader's log against the committed entries when it is elected.
    pub(super) fn elected(
        &self,
        logs: &Logs,
        committed: &[Seen],
        node: NodeId,
    ) -> Result<(), Violation> {
        let term = logs.role(node).term;
        let before = committed.iter().zip(&self.seen_in);
        let before = before.filter(|(_, seen_in)| **seen_in < term);
        Self::has(logs, before.map(|(entry, _)| entry), node)
    }

    /// Checks the logs of later leaders for entries that have become committed, as first
    /// seen at `node`.
    pub(super) fn committed(
        &mut self,
        logs: &Logs,
        new: &[Seen],
        node: NodeId,
    ) -> Result<(), Violation> {
        let term = logs.role(node).term;
        self.seen_in.extend(new.iter().map(|_| term));
        for (leader, role) in logs.leaders() {
            if role.term > term {
                Self::has(logs, new.iter(), leader)?;
            }
        }
        Ok(())
    }

    fn has<'seen>(
        logs: &Logs,
        mut committed: impl Iterator<Item = &'seen Seen>,
        leader: NodeId,
    ) -> Result<(), Violation> {
        let log = logs.log(leader);
        match committed.find(|entry| !log.has(entry.position())) {
            None => Ok(()),
            Some(missing) => Err(Violation {
                property: "leader completeness",
                node: leader,
                what: format!(
                    "it leads term {} without {}, which is committed; its log ends at {}",
                    logs.role(leader).term,
                    missing.position(),
                    log.last()
                ),
            }),
        }
    }
}
