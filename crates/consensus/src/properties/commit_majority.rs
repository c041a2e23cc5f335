//! What is committed is on the disks of a majority, at the latest when anybody hands it
//! out as committed.
//!
//! Source: Raft §5.3; FRS, definition 6.1.

use super::Violation;
use super::logs::Logs;
use crate::position::{NodeId, Position};

/// Looks at what becomes committed.
pub(super) struct CommitMajority;

impl CommitMajority {
    /// Everything up to here has become committed, as first seen at `node`.
    pub(super) fn committed(
        logs: &Logs,
        node: NodeId,
        position: Position,
    ) -> Result<(), Violation> {
        // It may have been decided before the members changed, and be handed out after.
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
