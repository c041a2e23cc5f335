//! A directed graph of transactions, in two arrays, and its strongly connected components.
//!
//! Nodes `0..transactions` are the transactions of the history. Nodes above them are
//! *virtual*: each represents a group, so that "each of these precedes each of those" takes
//! as many edges as the sum of the two group sizes, and not the product.
//!
//! ```text
//! a ─┐       ┌─► c              the edge that enters the virtual node has the kind;
//! b ─┴─► v ──┴─► d              edges that leave it are THROUGH
//! ```

/// The kinds of an edge; a set of bits, so that searches can select several kinds.
pub(super) mod edge {
    /// Write depends on write: the target installed the next version.
    pub const WW: u8 = 1;
    /// Read depends on write: the target read what the source wrote.
    pub const WR: u8 = 2;
    /// Antidependency: the target overwrote what the source read.
    pub const RW: u8 = 4;
    /// Process order: both belong to one process, one after the other.
    pub const PROCESS: u8 = 8;
    /// The source had finished before the target started.
    pub const REALTIME: u8 = 16;
    /// Continues from a virtual node: has the kind of the edge before it.
    pub const THROUGH: u8 = 32;
    /// Flag beside a kind: the order of the versions was inferred from the order of
    /// processes or of real time.
    pub const BY_ORDER: u8 = 64;

    /// All kinds, without the flag beside them.
    pub const KINDS: u8 = WW | WR | RW | PROCESS | REALTIME | THROUGH;
    /// Every kind but antidependencies.
    pub const NOT_RW: u8 = KINDS & !RW;
    /// The kinds that follow from the order in which transactions are executed.
    pub const ORDERS: u8 = PROCESS | REALTIME;
}

/// One edge: source, target, kinds.
pub(super) type Edge = (u32, u32, u8);

/// Collects edges, and allocates virtual nodes.
pub(super) struct Edges {
    transactions: u32,
    nodes: u32,
    list: Vec<Edge>,
}

impl Edges {
    /// Creates a collection without edges.
    pub(super) fn new(transactions: usize) -> Self {
        // Transaction indexes have 32 bits throughout; the judge has checked the size.
        let transactions = u32::try_from(transactions).expect("fewer than 2^31 transactions");
        Self {
            transactions,
            nodes: transactions,
            list: Vec::new(),
        }
    }

    /// Allocates a node that represents a group.
    pub(super) fn virtual_node(&mut self) -> u32 {
        let node = self.nodes;
        self.nodes += 1;
        node
    }

    /// Adds one edge.
    pub(super) fn add(&mut self, from: u32, to: u32, says: u8) {
        debug_assert_ne!(from, to);
        self.list.push((from, to, says));
    }

    /// Adds an edge from each source to each target that is not itself. The targets
    /// are in ascending order, each once.
    ///
    /// The number of edges is linear: over the targets in a row, one chain of virtual nodes
    /// leads to all targets up to a position, and another to all targets from a position
    /// on. A source that is itself a target enters both chains next to its own position.
    pub(super) fn all_pairs(&mut self, sources: &[(u32, u8)], targets: &[u32]) {
        debug_assert!(targets.is_sorted());
        if sources.len().min(targets.len()) <= 4 {
            for (source, says) in sources {
                for target in targets.iter().filter(|target| *target != source) {
                    self.add(*source, *target, *says);
                }
            }
            return;
        }
        let upto: Vec<u32> = targets.iter().map(|_| self.virtual_node()).collect();
        let from: Vec<u32> = targets.iter().map(|_| self.virtual_node()).collect();
        for (at, target) in targets.iter().enumerate() {
            self.add(upto[at], *target, edge::THROUGH);
            self.add(from[at], *target, edge::THROUGH);
            if at > 0 {
                self.add(upto[at], upto[at - 1], edge::THROUGH);
                self.add(from[at - 1], from[at], edge::THROUGH);
            }
        }
        let last = targets.len() - 1;
        for (source, says) in sources {
            match targets.binary_search(source) {
                Err(_) => self.add(*source, upto[last], *says),
                Ok(at) => {
                    if at > 0 {
                        self.add(*source, upto[at - 1], *says);
                    }
                    if at < last {
                        self.add(*source, from[at + 1], *says);
                    }
                }
            }
        }
    }

    /// Converts the collected edges to a graph.
    pub(super) fn into_graph(self) -> Graph {
        Graph::new(self.transactions, self.nodes, &self.list)
    }
}

/// A graph, stored as edges sorted by source.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    transactions: u32,
    /// Index of each node's first edge; one entry more than there are nodes.
    starts: Vec<u32>,
    targets: Vec<u32>,
    says: Vec<u8>,
}

impl Graph {
    /// Creates a graph of `nodes` nodes, the first of which are transactions.
    pub(super) fn new(transactions: u32, nodes: u32, edges: &[Edge]) -> Self {
        let mut starts = vec![0_u32; nodes as usize + 1];
        for (from, _, _) in edges {
            starts[*from as usize + 1] += 1;
        }
        for node in 0..nodes as usize {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; edges.len()];
        let mut says = vec![0; edges.len()];
        for (from, to, what) in edges {
            let place = &mut next[*from as usize];
            targets[*place as usize] = *to;
            says[*place as usize] = *what;
            *place += 1;
        }
        Self {
            transactions,
            starts,
            targets,
            says,
        }
    }

    /// Number of nodes, virtual ones included.
    pub(super) fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of nodes that are transactions.
    pub(super) fn transactions(&self) -> u32 {
        self.transactions
    }

    /// Whether a node is a transaction.
    pub(super) fn is_transaction(&self, node: u32) -> bool {
        node < self.transactions
    }

    /// The targets and kinds of a node's edges.
    pub(super) fn edges(&self, node: u32) -> impl Iterator<Item = (u32, u8)> {
        let range = self.range(node);
        self.targets[range.clone()]
            .iter()
            .copied()
            .zip(self.says[range].iter().copied())
    }

    fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize
    }

    /// The subgraph of these nodes, transactions before virtual ones; and for each of its
    /// nodes, the node in this graph.
    pub(super) fn part(&self, mut members: Vec<u32>) -> (Self, Vec<u32>) {
        members.sort_unstable();
        let transactions = members.partition_point(|node| self.is_transaction(*node));
        let mut edges = Vec::new();
        for (from, member) in members.iter().enumerate() {
            for (target, says) in self.edges(*member) {
                if let Ok(to) = members.binary_search(&target) {
                    edges.push((number(from), number(to), says));
                }
            }
        }
        let part = Self::new(number(transactions), number(members.len()), &edges);
        (part, members)
    }

    /// The strongly connected components with at least one edge, by edges of these kinds.
    ///
    /// Tarjan's algorithm, with a stack of its own. Source: Tarjan, "Depth-First
    /// Search and Linear Graph Algorithms", 1972.
    pub(super) fn components(&self, kinds: u8) -> Vec<Vec<u32>> {
        let mut walk = Walk {
            order: vec![0; self.nodes()],
            low: vec![0; self.nodes()],
            next: 1,
            path: Vec::new(),
            stack: Vec::new(),
            found: Vec::new(),
        };
        for node in 0..number(self.nodes()) {
            if walk.order[node as usize] == 0 {
                self.walk(node, kinds, &mut walk);
            }
        }
        walk.found
    }

    fn walk(&self, root: u32, kinds: u8, walk: &mut Walk) {
        walk.enter(root, self.range(root).start);
        while let Some((node, place)) = walk.path.last_mut() {
            let node = *node;
            if *place == self.range(node).end {
                walk.path.pop();
                if let Some((parent, _)) = walk.path.last() {
                    let parent = *parent as usize;
                    walk.low[parent] = walk.low[parent].min(walk.low[node as usize]);
                }
                walk.leave(node);
                continue;
            }
            let (target, says) = (self.targets[*place], self.says[*place]);
            *place += 1;
            if says & kinds == 0 {
                continue;
            }
            match walk.order[target as usize] {
                0 => walk.enter(target, self.range(target).start),
                // Visited, in a component that is complete.
                u32::MAX => {}
                order => {
                    let low = &mut walk.low[node as usize];
                    *low = (*low).min(order);
                }
            }
        }
    }
}

struct Walk {
    /// When a node was entered, from 1; 0 means not yet, the maximum that its component is
    /// known.
    order: Vec<u32>,
    /// The earliest entered node on the stack that is reachable from each node.
    low: Vec<u32>,
    next: u32,
    /// The nodes that are being visited, with the next edge of each.
    path: Vec<(u32, usize)>,
    /// Nodes that are entered, and not yet in a component.
    stack: Vec<u32>,
    found: Vec<Vec<u32>>,
}

impl Walk {
    fn enter(&mut self, node: u32, first_edge: usize) {
        self.order[node as usize] = self.next;
        self.low[node as usize] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.path.push((node, first_edge));
    }

    fn leave(&mut self, node: u32) {
        if self.low[node as usize] != self.order[node as usize] {
            return;
        }
        let place = self.stack.iter().rposition(|member| *member == node);
        let place = place.expect("a node is on the stack until its component is known");
        let members = self.stack.split_off(place);
        for member in &members {
            self.order[*member as usize] = u32::MAX;
        }
        // No node has an edge to itself.
        if members.len() > 1 {
            self.found.push(members);
        }
    }
}

/// Converts an index to a node number of 32 bits.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 nodes")
}

#[cfg(test)]
mod tests;
