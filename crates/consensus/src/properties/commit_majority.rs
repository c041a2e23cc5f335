//! The property that committed entries are on the disks of a majority, at the latest when
//! a node hands them out as committed.
//!
//! Source: Raft §5.3; FRS, definition 6.1.

use super::Violation;
use super::logs::Logs;
use crate::position::{NodeId, Position};

/// Checks entries when they become committed.
pub(super) struct CommitMajority;

impl CommitMajority {
    /// Checks that the log up to `position`, first seen committed at `node`, is on a
    /// majority's disks.
    pub(super) fn committed(
        logs: &Logs,
        node: NodeId,
        position: Position,
    ) -> Result<(), Violation> {
        // It may have been committed before a membership change, and be handed out after
        // it.
        let mut memberships = logs.log(node).memberships_from(position.end);
        if memberships.any(|membership| logs.is_durable(membership, position)) {
            return Ok(());
        }
        Err(Violation {
            property: "commit by a majority",
            node,
            what: format!("{position} is committed and not on the disks of a majority"),
        })
    }
}
