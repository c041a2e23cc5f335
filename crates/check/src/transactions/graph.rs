//! A directed graph of transactions, in two arrays, and its strong components.
//!
//! Nodes `0..transactions` are the transactions of the history. Nodes above them are
//! *virtual*: they stand for a group, so that "each of these precedes each of those"
//! takes as many edges as there are of both, and not the product.
//!
//! ```text
//! a ─┐       ┌─► c              what an edge says is told by the edge that enters
//! b ─┴─► v ──┴─► d              the virtual node; those that leave it go THROUGH
//! ```

/// What an edge says; a set of bits, so that searches can ask for several kinds.
pub(super) mod edge {
    /// Write depends on write: the target installed the next version.
    pub const WW: u8 = 1;
    /// Read depends on write: the target read what the source wrote.
    pub const WR: u8 = 2;
    /// Antidependency: the target overwrote what the source read.
    pub const RW: u8 = 4;
    /// Of one process, one after the other.
    pub const PROCESS: u8 = 8;
    /// The source had finished before the target started.
    pub const REALTIME: u8 = 16;
    /// Goes on from a virtual node: says what the edge before it said.
    pub const THROUGH: u8 = 32;
    /// Beside another: that the versions are in this order was inferred from the
    /// order of processes or of real time.
    pub const BY_ORDER: u8 = 64;

    /// The kinds, without the mark beside them.
    pub const KINDS: u8 = WW | WR | RW | PROCESS | REALTIME | THROUGH;
    /// Every kind but antidependencies.
    pub const NOT_RW: u8 = KINDS & !RW;
    /// The orders in which transactions are started.
    pub const ORDERS: u8 = PROCESS | REALTIME;
}

/// One edge: from, to, what it says.
pub(super) type Edge = (u32, u32, u8);

/// Collects edges, and gives out virtual nodes.
pub(super) struct Edges {
    transactions: u32,
    nodes: u32,
    list: Vec<Edge>,
}

impl Edges {
    /// Without edges.
    pub(super) fn new(transactions: usize) -> Self {
        // An index of a transaction is 32 bits wide throughout; the judge has checked.
        let transactions = u32::try_from(transactions).expect("fewer than 2^31 transactions");
        Self {
            transactions,
            nodes: transactions,
            list: Vec::new(),
        }
    }

    /// A node that stands for several.
    pub(super) fn virtual_node(&mut self) -> u32 {
        let node = self.nodes;
        self.nodes += 1;
        node
    }

    /// Adds one.
    pub(super) fn add(&mut self, from: u32, to: u32, says: u8) {
        debug_assert_ne!(from, to);
        self.list.push((from, to, says));
    }

    /// Adds an edge from each source to each target that is not itself. The targets
    /// are in ascending order, each once.
    ///
    /// In linear size: with the targets in a row, one chain of virtual nodes leads to
    /// all targets up to a place, and another to all from a place on. A source that is
    /// a target itself enters both chains beside its own place.
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

    /// All that were added, as a graph.
    pub(super) fn into_graph(self) -> Graph {
        Graph::new(self.transactions, self.nodes, &self.list)
    }
}

/// Edges by their source.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    transactions: u32,
    /// Where each node's edges begin; one more than there are nodes.
    starts: Vec<u32>,
    targets: Vec<u32>,
    says: Vec<u8>,
}

impl Graph {
    /// Of so many nodes, the first of which are transactions.
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

    /// How many nodes there are, virtual ones included.
    pub(super) fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many of them are transactions.
    pub(super) fn transactions(&self) -> u32 {
        self.transactions
    }

    /// Whether a node is a transaction.
    pub(super) fn is_transaction(&self, node: u32) -> bool {
        node < self.transactions
    }

    /// Targets of a node's edges, and what they say.
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

    /// The part of the graph between these nodes, transactions before virtual ones;
    /// and for each of its nodes, which it was.
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

    /// Strong components that have an edge in them, by edges of these kinds.
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
                // Done, in a component that is complete.
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
    /// When a node was entered, from 1; 0: not yet; the maximum: its component is known.
    order: Vec<u32>,
    /// The earliest entered node on the stack that is reachable.
    low: Vec<u32>,
    next: u32,
    /// The nodes that are being looked at, with the next edge of each.
    path: Vec<(u32, usize)>,
    /// Entered, and not yet in a component.
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

/// Nodes are numbered in 32 bits.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 nodes")
}

#[cfg(test)]
mod tests;
