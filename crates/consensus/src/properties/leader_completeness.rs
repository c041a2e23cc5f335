//! Leader completeness: what is committed in a term is in the logs of the leaders of all
//! later terms.
//!
//! Source: Raft §5.4.

use coeval_types::Term;

use super::Violation;
use super::logs::{Logs, Seen};
use crate::position::NodeId;

/// Looks at leaders when they are elected, and when something is committed behind the
/// back of one.
///
/// A node may learn that it has won an election when others lead a later term already and
/// have committed in it: that it need not have.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaderCompleteness {
    /// By place among all that is committed: the term of the node at which that was first
    /// seen, in which it was committed or later than that.
    seen_in: Vec<Term>,
}

impl LeaderCompleteness {
    /// A node was elected, when this was committed.
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

    /// This has become committed, as first seen at `node`.
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
