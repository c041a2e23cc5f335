//! Failure detection: which nodes are dead, by whether they are connected.
//!
//! The connections themselves notice a peer that ends or falls silent. A node that was connected
//! since this process began and is not any more is dead after a short while: another front end
//! may then be fenced, a copy removed. One that was never connected may be starting still, after
//! the power has failed everywhere: it gets a long while.
//!
//! Suspecting a node that lives is safe, and costs it its part: what it says under the old
//! configuration is refused.

use std::collections::{BTreeMap, BTreeSet};

use coeval_peers::NodeId;

/// After how many ticks without a connection a node is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// A node that was connected before.
    pub(super) lost: u64,
    /// A node that never was.
    pub(super) absent: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Detector {
    patience: Patience,
    connected: BTreeSet<NodeId>,
    /// Ticks since a node was connected, or since the beginning; and whether it ever was.
    away: BTreeMap<NodeId, (u64, bool)>,
}

impl Detector {
    pub(super) fn new(patience: Patience, others: impl Iterator<Item = NodeId>) -> Self {
        Self {
            patience,
            connected: BTreeSet::new(),
            away: others.map(|node| (node, (0, false))).collect(),
        }
    }

    pub(super) fn connected(&mut self, node: NodeId) {
        self.away.remove(&node);
        self.connected.insert(node);
    }

    pub(super) fn disconnected(&mut self, node: NodeId) {
        if self.connected.remove(&node) {
            self.away.insert(node, (0, true));
        }
    }

    pub(super) fn tick(&mut self) {
        self.away.values_mut().for_each(|(ticks, _)| *ticks += 1);
    }

    /// The nodes that are dead.
    pub(super) fn dead(&self) -> impl Iterator<Item = NodeId> {
        let away = self.away.iter().filter(|(_, (ticks, was_there))| {
            let patience = match was_there {
                true => self.patience.lost,
                false => self.patience.absent,
            };
            *ticks >= patience
        });
        away.map(|(node, _)| *node)
    }

    pub(super) fn is_connected(&self, node: NodeId) -> bool {
        self.connected.contains(&node)
    }

    /// Number of nodes that are connected.
    pub(super) fn count(&self) -> usize {
        self.connected.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_is_dead_soon_and_one_that_was_never_there_late() {
        let patience = Patience { lost: 3, absent: 9 };
        let mut detector = Detector::new(patience, [NodeId(2), NodeId(3)].into_iter());
        detector.connected(NodeId(2));
        let mut dead_at = BTreeMap::new();
        for tick in 0..20 {
            if tick == 2 {
                detector.disconnected(NodeId(2));
            }
            detector.tick();
            for node in detector.dead() {
                dead_at.entry(node).or_insert(tick);
            }
        }
        assert_eq!(dead_at, [(NodeId(2), 4), (NodeId(3), 8)].into());
        detector.connected(NodeId(2));
        assert_eq!(detector.dead().collect::<Vec<_>>(), [NodeId(3)]);
        assert_eq!(detector.count(), 1);
        // What was not connected cannot be disconnected, and waits on.
        detector.disconnected(NodeId(3));
        assert_eq!(detector.dead().collect::<Vec<_>>(), [NodeId(3)]);
    }
}
