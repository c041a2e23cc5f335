//! Log matching: logs that have an entry of the same term at the same place have the same
//! entries up to there.
//!
//! Held by induction: an entry of a term that ends at a place is the same wherever it is,
//! and so is what comes right before it.
//!
//! Source: Raft §5.3; FRS, definition 6.2.

use std::collections::BTreeMap;

use super::Violation;
use super::logs::Seen;
use crate::entry::Entry;
use crate::position::{NodeId, Position};

/// Every entry there ever was, and what came before it.
#[derive(Clone, Debug, Default)]
pub(super) struct LogMatching(BTreeMap<Position, (Position, Seen)>);

impl LogMatching {
    /// A node's log has this entry, behind that prefix.
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
