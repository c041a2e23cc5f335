//! Cycle search: finds short cycles in a dependency graph, one for each name.
//!
//! Whether a cycle of some kind exists is decided exactly, in linear time, by the strongly
//! connected components of the subgraph that contains such a cycle:
//!
//! | a cycle of | is in a strongly connected component of |
//! | --- | --- |
//! | G0 | ww and order edges |
//! | G1c | ww, wr and order edges, which contains a wr edge |
//! | no two adjacent rw (G-single, long fork, G-nonadjacent) | the graph of states below, which contains an rw edge |
//! | any kind | all edges |
//!
//! The graph of states contains each node twice: as reached by an rw edge, and as reached
//! otherwise. No rw edge leaves the first state. So its closed walks are those of the graph
//! without adjacent rw edges.
//!
//! Then a breadth-first search inside the component finds an example that is as short as
//! possible for its first edge; the search tries several first edges and takes the shortest
//! cycle, within a budget. It prefers a cycle without edges of real time or process. So the
//! *verdict* does not depend on the budget, only the number and the length of the examples
//! do.

use std::collections::VecDeque;

use super::anomaly::{Order, Phenomenon};
use super::graph::{Edge, Graph, edge, number};

/// Number of edges that the searches for examples in one graph may visit. The first search
/// in a component runs whatever has been spent.
const BUDGET: u64 = 100_000_000;
/// Number of first edges that are tried for one name in one component.
const FIRST_EDGES: usize = 48;
/// Number of components in which several first edges are tried; the others get one.
pub(super) const COMPONENTS: usize = 64;

/// A closed walk: its transactions, and the kinds of the edge from each to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    pub(super) transactions: Vec<u32>,
    pub(super) says: Vec<u8>,
}

impl Cycle {
    /// The name of the cycle.
    pub(super) fn phenomenon(&self) -> Phenomenon {
        let is = |kind: u8| self.says.iter().filter(move |says| *says & kind != 0);
        let length = self.says.len();
        let rw = is(edge::RW).count();
        let adjacent = (0..length).any(|place| {
            self.says[place] & self.says[(place + 1) % length] & edge::RW != 0 && rw > 1
        });
        match rw {
            0 if is(edge::WR).count() == 0 => Phenomenon::G0,
            0 => Phenomenon::G1c,
            1 => Phenomenon::GSingle,
            _ if adjacent => Phenomenon::G2Item,
            2 if length == 4 && is(edge::WR).count() == 2 => Phenomenon::LongFork,
            _ => Phenomenon::GNonadjacent,
        }
    }

    /// The order that is needed to observe the cycle; `graphs` is the order from which
    /// versions in this graph may have been inferred.
    pub(super) fn seen_in(&self, graphs: Order) -> Order {
        let all = self.says.iter().fold(0, |all, says| all | says);
        let by_order = if all & edge::BY_ORDER == 0 {
            Order::Values
        } else {
            graphs
        };
        let edges = match all {
            all if all & edge::REALTIME != 0 => Order::RealTime,
            all if all & edge::PROCESS != 0 => Order::Process,
            _ => Order::Values,
        };
        by_order.max(edges)
    }
}

/// Finds examples of every kind of cycle in a strongly connected component. There is at
/// least one; and one without adjacent rw edges, and one without any rw edge, if the
/// component has such cycles.
pub(super) fn examples(graph: &Graph, members: Vec<u32>, budget: &mut Budget) -> Vec<Cycle> {
    let (part, was) = graph.part(members);
    let mut found = Vec::new();
    for (kinds, first) in [
        (edge::WW | edge::THROUGH | edge::ORDERS, edge::WW),
        (edge::NOT_RW, edge::WR),
    ] {
        for members in part.components(kinds) {
            let (part, inner) = part.part(members);
            let cycle = shortest(&part, first, kinds, budget);
            found.extend(cycle.map(|cycle| cycle.renamed(&inner)));
        }
    }
    let states = states(&part);
    let mut has_nonadjacent = false;
    for members in states.components(edge::KINDS) {
        let (inner, inner_was) = states.part(members);
        let names: Vec<u32> = inner_was
            .iter()
            .map(|state| node_of(&part, *state))
            .collect();
        let cycle = shortest(&inner, edge::RW, edge::KINDS, budget);
        if let Some(cycle) = cycle {
            has_nonadjacent = true;
            found.push(cycle.renamed(&names));
        }
    }
    // Any cycle with adjacent rw edges; if all have them, the first one found.
    let is_adjacent = |cycle: &Cycle| cycle.phenomenon() == Phenomenon::G2Item;
    let cycle = search(&part, edge::RW, edge::KINDS, budget, is_adjacent);
    debug_assert!(has_nonadjacent || !found.is_empty() || cycle.is_some());
    found.extend(cycle);
    found.into_iter().map(|cycle| cycle.renamed(&was)).collect()
}

/// The remaining budget for shorter examples.
#[derive(Debug)]
pub(super) struct Budget {
    edges: u64,
    /// Number of first edges that are tried.
    pub(super) first_edges: usize,
    /// Whether the current search has tried its first edge.
    is_begun: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            edges: BUDGET,
            first_edges: FIRST_EDGES,
            is_begun: false,
        }
    }
}

impl Cycle {
    /// Renames the nodes to those of the graph from which a part was taken.
    fn renamed(mut self, was: &[u32]) -> Self {
        for node in &mut self.transactions {
            *node = was[*node as usize];
        }
        self
    }
}

/// The graph of states: each node as reached by other edges and as reached by rw edges. As
/// in every graph here, transactions come first.
fn states(part: &Graph) -> Graph {
    let mut edges: Vec<Edge> = Vec::new();
    for node in 0..number(part.nodes()) {
        let [other, by_rw] = [false, true].map(|by_rw| state_of(part, node, by_rw));
        for (target, says) in part.edges(node) {
            let [target, target_by_rw] = [false, true].map(|by_rw| state_of(part, target, by_rw));
            if says & edge::RW != 0 {
                edges.push((other, target_by_rw, says));
            } else if says & edge::THROUGH != 0 {
                // A THROUGH edge has the kind of the edge before it.
                edges.push((other, target, says));
                edges.push((by_rw, target_by_rw, says));
            } else {
                edges.push((other, target, says));
                edges.push((by_rw, target, says));
            }
        }
    }
    let (transactions, nodes) = (part.transactions(), number(part.nodes()));
    Graph::new(2 * transactions, 2 * nodes, &edges)
}

fn state_of(part: &Graph, node: u32, by_rw: bool) -> u32 {
    let (transactions, nodes) = (part.transactions(), number(part.nodes()));
    let second = u32::from(by_rw);
    if part.is_transaction(node) {
        node + second * transactions
    } else {
        node + transactions + second * (nodes - transactions)
    }
}

fn node_of(part: &Graph, state: u32) -> u32 {
    let (transactions, nodes) = (part.transactions(), number(part.nodes()));
    if state < 2 * transactions {
        state % transactions
    } else {
        transactions + (state - 2 * transactions) % (nodes - transactions)
    }
}

fn shortest(part: &Graph, first: u8, kinds: u8, budget: &mut Budget) -> Option<Cycle> {
    search(part, first, kinds, budget, |_| true)
}

/// The shortest cycle that begins with an edge of kind `first`, over several such edges,
/// and satisfies a condition.
fn search(
    part: &Graph,
    first: u8,
    kinds: u8,
    budget: &mut Budget,
    satisfies: impl Fn(&Cycle) -> bool,
) -> Option<Cycle> {
    budget.is_begun = false;
    let mut firsts = Vec::new();
    for node in 0..number(part.nodes()) {
        if part.is_transaction(node) {
            firsts.extend(
                part.edges(node)
                    .filter(|(_, says)| says & first != 0)
                    .map(|(target, says)| (node, target, says)),
            );
        }
    }
    let step = firsts.len().div_ceil(budget.first_edges).max(1);
    let mut best: Option<Cycle> = None;
    let rank = |cycle: &Cycle| (cycle.seen_in(Order::RealTime), cycle.says.len());
    let mut offer = |first: Edge, best: &mut Option<Cycle>| {
        let Some(cycle) = close(part, first, kinds, budget) else {
            return false;
        };
        let is_better =
            satisfies(&cycle) && best.as_ref().is_none_or(|best| rank(&cycle) < rank(best));
        if is_better {
            *best = Some(cycle);
        }
        is_better
    };
    for first in firsts.into_iter().step_by(step) {
        offer(first, &mut best);
    }
    // Another edge of the best cycle may be the first of a better one.
    let mut is_better = true;
    while is_better && let Some(cycle) = best.clone() {
        is_better = false;
        let length = cycle.says.len();
        for place in (0..length).filter(|place| cycle.says[*place] & first != 0) {
            let (from, to) = (
                cycle.transactions[place],
                cycle.transactions[(place + 1) % length],
            );
            is_better |= offer((from, to, cycle.says[place]), &mut best);
        }
    }
    best
}

/// The shortest cycle that begins with this edge, unless the budget is spent. Prefers one
/// without order edges.
fn close(part: &Graph, (from, to, says): Edge, kinds: u8, budget: &mut Budget) -> Option<Cycle> {
    if budget.edges == 0 && budget.is_begun {
        return None;
    }
    budget.is_begun = true;
    let without = kinds & !edge::ORDERS;
    let path = path(part, to, from, without, budget);
    let mut cycle = path.or_else(|| self::path(part, to, from, kinds, budget))?;
    // The path leads from the edge's target back to its source.
    cycle.transactions.insert(0, from);
    cycle.says.insert(0, says);
    cycle.simplify(part);
    Some(cycle)
}

impl Cycle {
    /// Removes virtual nodes: the edge into a run of virtual nodes then leads to the
    /// transaction after it. The last node of the walk is implicitly the first again.
    fn simplify(&mut self, part: &Graph) {
        let mut transactions = Vec::new();
        let mut kept = Vec::new();
        for (node, says) in self.transactions.iter().zip(&self.says) {
            if part.is_transaction(*node) {
                transactions.push(*node);
                kept.push(*says);
            }
        }
        self.transactions = transactions;
        self.says = kept;
    }
}

/// The path with the fewest transactions from one node to another; `None` if there is none.
/// The path's edges are `says`, its nodes `transactions` without the last.
fn path(part: &Graph, from: u32, to: u32, kinds: u8, budget: &mut Budget) -> Option<Cycle> {
    const NOT_YET: u32 = u32::MAX;
    let mut came: Vec<(u32, u8)> = vec![(NOT_YET, 0); part.nodes()];
    let mut cost = vec![u32::MAX; part.nodes()];
    let mut queue = VecDeque::from([(from, 0)]);
    cost[from as usize] = 0;
    while let Some((node, at)) = queue.pop_front() {
        if at > cost[node as usize] {
            continue;
        }
        if node == to {
            break;
        }
        for (target, says) in part.edges(node) {
            budget.edges = budget.edges.saturating_sub(1);
            if says & kinds == 0 {
                continue;
            }
            // A virtual node has no cost.
            let counts = u32::from(part.is_transaction(target));
            if at + counts < cost[target as usize] {
                cost[target as usize] = at + counts;
                came[target as usize] = (node, says);
                if counts == 0 {
                    queue.push_front((target, at));
                } else {
                    queue.push_back((target, at + counts));
                }
            }
        }
    }
    if cost[to as usize] == u32::MAX {
        return None;
    }
    let mut cycle = Cycle {
        transactions: Vec::new(),
        says: Vec::new(),
    };
    let mut node = to;
    while node != from {
        let (before, says) = came[node as usize];
        cycle.transactions.push(before);
        cycle.says.push(says);
        node = before;
    }
    cycle.transactions.reverse();
    cycle.says.reverse();
    Some(cycle)
}

#[cfg(test)]
mod tests;
