//! State machine safety: no two nodes apply different entries at the same offset, and no
//! node applies out of order, twice in one run, or undoes an applied committed entry.
//!
//! Source: Raft §5.4.

use std::collections::BTreeMap;

use coeval_types::Lsn;

use super::Violation;
use super::logs::{Logs, Seen};
use crate::position::{NodeId, Position};
use crate::ready::Committed;

/// The committed entries, and how far each node has applied them.
#[derive(Clone, Debug, Default)]
pub(super) struct StateMachineSafety {
    /// All committed entries, without a gap.
    committed: Vec<Seen>,
    /// End up to which each node has applied in its current run.
    applied: BTreeMap<NodeId, Lsn>,
}

impl StateMachineSafety {
    fn violation(node: NodeId, what: String) -> Violation {
        Violation {
            property: "state machine safety",
            node,
            what,
        }
    }

    pub(super) fn committed(&self) -> &[Seen] {
        &self.committed
    }

    pub(super) fn committed_end(&self) -> Lsn {
        self.committed.last().map_or(Lsn(0), |entry| entry.end)
    }

    pub(super) fn started(&mut self, node: NodeId, applied: Lsn) {
        self.applied.insert(node, applied);
    }

    /// Checks a checkpoint that a node installs: its position must be committed.
    pub(super) fn installed(&mut self, node: NodeId, position: Position) -> Result<(), Violation> {
        let is_committed = self
            .committed
            .binary_search_by_key(&position.end, |entry| entry.end)
            .is_ok_and(|index| self.committed[index].term == position.term);
        if !is_committed {
            let what = format!("a checkpoint of {position}, which is not what was committed");
            return Err(Self::violation(node, what));
        }
        self.applied.insert(node, position.end);
        Ok(())
    }

    /// Checks a truncation. Before a crash a node may have applied entries that were not
    /// on its own disk yet, so entries applied in an earlier run do not count.
    pub(super) fn truncated(&self, logs: &Logs, node: NodeId, to: Lsn) -> Result<(), Violation> {
        let applied = self.applied.get(&node).copied().unwrap_or_default();
        let cut = logs.log(node).between(to, Lsn(u64::MAX)).first();
        let at = self
            .committed
            .binary_search_by_key(&to, |entry| entry.start);
        let was_committed = at.is_ok_and(|index| Some(&self.committed[index]) == cut);
        if was_committed || to < applied {
            let what = format!("its log is cut at {to}, and what it cuts is committed");
            return Err(Self::violation(node, what));
        }
        Ok(())
    }

    /// Checks entries that a node applies, and returns those that no node had applied
    /// before.
    pub(super) fn applied(
        &mut self,
        logs: &Logs,
        node: NodeId,
        committed: Committed,
    ) -> Result<&[Seen], Violation> {
        let applied = self.applied.get(&node).copied().unwrap_or_default();
        let entries = logs.log(node).between(committed.from, committed.to.end);
        let is_whole = entries.first().map(|first| first.start) == Some(committed.from)
            && entries.last().map(Seen::position) == Some(committed.to);
        if committed.from != applied || !is_whole {
            let what = format!(
                "it applies from {} to {}, after it applied up to {applied}, and its log has {} \
                 entries there",
                committed.from,
                committed.to,
                entries.len()
            );
            return Err(Self::violation(node, what));
        }
        self.applied.insert(node, committed.to.end);
        let before = self.committed.len();
        for entry in entries {
            // A log need not begin at 0.
            if self.committed.is_empty() || entry.start == self.committed_end() {
                self.committed.push(*entry);
                continue;
            }
            let index = self
                .committed
                .binary_search_by_key(&entry.end, |other| other.end);
            if index.map(|index| self.committed[index]) != Ok(*entry) {
                let there = match index {
                    Ok(index) | Err(index) => self.committed.get(index),
                };
                let what = format!("it applies {entry:?}, where {there:?} was committed");
                return Err(Self::violation(node, what));
            }
        }
        Ok(&self.committed[before..])
    }
}
