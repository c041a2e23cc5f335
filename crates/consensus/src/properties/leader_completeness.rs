//! Leader completeness: what is committed in a term is in the logs of the leaders of all
//! later terms.
//!
//! Source: Raft §5.4.

use super::Violation;
use super::logs::{Logs, Seen};
use crate::position::NodeId;

/// Looks at leaders when they are elected, and when something is committed behind the
/// back of one.
pub(super) struct LeaderCompleteness;

impl LeaderCompleteness {
    /// A node was elected, when this was committed.
    pub(super) fn elected(logs: &Logs, committed: &[Seen], node: NodeId) -> Result<(), Violation> {
        Self::has(logs, committed, node)
    }

    /// This has become committed, as first seen at `node`.
    pub(super) fn committed(logs: &Logs, new: &[Seen], node: NodeId) -> Result<(), Violation> {
        let term = logs.role(node).term;
        for (leader, role) in logs.leaders() {
            if role.term > term {
                Self::has(logs, new, leader)?;
            }
        }
        Ok(())
    }

    fn has(logs: &Logs, committed: &[Seen], leader: NodeId) -> Result<(), Violation> {
        let log = logs.log(leader);
        match committed.iter().find(|entry| !log.has(entry.position())) {
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
