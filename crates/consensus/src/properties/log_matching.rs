//! Log matching: logs that have an entry of the same term at the same offset have the
//! same entries up to there.
//!
//! Checked by induction: an entry of a term that ends at an offset is the same in every
//! log, and so is the position right before it.
//!
//! Source: Raft §5.3; FRS, definition 6.2.

use std::collections::BTreeMap;

use super::Violation;
use super::logs::Seen;
use crate::entry::Entry;
use crate::position::{NodeId, Position};

/// Every entry that any log ever had, with the position before it.
#[derive(Clone, Debug, Default)]
pub(super) struct LogMatching(BTreeMap<Position, (Position, Seen)>);

impl LogMatching {
    /// Checks an entry of a node's log, which follows the prefix `before`.
    pub(super) fn has(
        &mut self,
        node: NodeId,
        before: Position,
        entry: &Entry,
    ) -> Result<(), Violation> {
        let here = (before, Seen::new(entry));
        let there = *self.0.entry(entry.position()).or_insert(here);
        if there == here {
            return Ok(());
        }
        Err(Violation {
            property: "log matching",
            node,
            what: format!(
                "its entry {} is {:?} behind {before}; elsewhere it is {:?} behind {}",
                entry.position(),
                here.1,
                there.1,
                there.0
            ),
        })
    }
}
