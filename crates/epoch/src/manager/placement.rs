//! Where copies are made: a partition that lacks one gets it on the node that holds the fewest.
//! Nodes that are no members and have asked come before those with as many.
//!
//! ```text
//!   each partition is to have 2 copies
//!   partition 0: node 1       1: nodes 1, 3      2: node 3         node 2 was removed
//!   node 4 has asked          ─▶ node 4 makes copies of 0 and 2
//!   none has asked            ─▶ node 3 makes one of 0; then node 1 one of 2
//! ```

use std::collections::BTreeMap;

use coeval_council::NodeId;

use super::members::Change;
use crate::configuration::{Configuration, MOST_PLACED};

/// The next copies to make, all on one node.
pub(super) fn next(
    configuration: &Configuration,
    spares: &BTreeMap<NodeId, u64>,
) -> Option<Change> {
    let spares = spares
        .iter()
        .map(|(node, incarnation)| (*node, *incarnation));
    let spares = spares.filter(|(node, incarnation)| configuration.may_enlist(*node, *incarnation));
    let members = configuration.back_ends.iter();
    let members = members.map(|(node, incarnation)| (*node, *incarnation));
    let mut loads: Vec<(usize, NodeId, u64)> = spares
        .chain(members)
        .map(|(node, incarnation)| (configuration.load(node), node, incarnation))
        .collect();
    let mut chosen: Option<(NodeId, u64)> = None;
    let mut partitions = Vec::new();
    for partition in 0..configuration.partitions.len() {
        if configuration.lacks(partition) == 0 || partitions.len() == MOST_PLACED {
            continue;
        }
        let is_there = |node: NodeId| {
            configuration.joining.contains_key(&(partition, node))
                || configuration.hosts(node, partition)
        };
        let free = loads.iter_mut().filter(|(_, node, _)| !is_there(*node));
        let Some(best) = free.min_by_key(|(load, _, _)| *load) else {
            continue;
        };
        best.0 += 1;
        let node = (best.1, best.2);
        if *chosen.get_or_insert(node) == node {
            partitions.push(partition);
        }
    }
    let (node, incarnation) = chosen?;
    Some(Change::Place(node, incarnation, partitions))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> Configuration {
        Configuration {
            partitions: vec![vec![NodeId(1)], vec![NodeId(1), NodeId(3)], vec![NodeId(3)]],
            back_ends: [(NodeId(1), 1), (NodeId(3), 1)].into(),
            removed: [(NodeId(2), 4)].into(),
            copies: 2,
            ..Configuration::default()
        }
    }

    #[test]
    fn a_node_that_holds_nothing_gets_what_is_lacking() {
        let spares = [(NodeId(4), 7)].into();
        let placed = next(&configuration(), &spares);
        assert_eq!(placed, Some(Change::Place(NodeId(4), 7, vec![0, 2])));
        // What was removed comes back only by a later start.
        let placed = next(&configuration(), &[(NodeId(2), 4)].into());
        assert_eq!(placed, Some(Change::Place(NodeId(3), 1, vec![0])));
    }

    #[test]
    fn nothing_is_placed_where_it_is_or_where_no_node_can_take_it() {
        let mut lone = configuration();
        lone.back_ends.remove(&NodeId(3));
        lone.partitions = vec![vec![NodeId(1)]];
        assert_eq!(next(&lone, &BTreeMap::new()), None);
        let mut whole = configuration();
        whole.copies = 1;
        assert_eq!(next(&whole, &[(NodeId(4), 7)].into()), None);
        let mut under_way = configuration();
        let after = crate::Epoch(3);
        under_way.joining = [((0, NodeId(3)), after), ((2, NodeId(1)), after)].into();
        assert_eq!(next(&under_way, &[(NodeId(4), 7)].into()), None);
    }
}
