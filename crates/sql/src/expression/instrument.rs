//! Instrumentation of a plan for EXPLAIN ANALYZE: rows, loops and time of each node.

use std::collections::BTreeMap;
use std::time::Duration;

/// What has been counted of the nodes of the plans that a statement runs.
#[derive(Debug, Default)]
pub struct Instrument {
    /// By the address of the node, which stays where it is while its plan runs.
    nodes: BTreeMap<usize, Counted>,
    /// Whether time is taken.
    timing: bool,
}

/// What has been counted of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Rows that it has returned in all.
    pub rows: u64,
    /// Number of times that it was opened.
    pub loops: u64,
    /// Time spent in it and below it.
    pub time: Duration,
    /// Time until the first row of each loop.
    pub startup: Duration,
    /// Time since the node was last opened.
    since_opened: Duration,
    /// Whether the loop has returned a row.
    has_row: bool,
}

impl Instrument {
    /// Counters of nothing yet.
    #[must_use]
    pub fn new(timing: bool) -> Self {
        Self {
            nodes: BTreeMap::new(),
            timing,
        }
    }

    /// Whether time is taken.
    pub(crate) const fn takes_time(&self) -> bool {
        self.timing
    }

    fn node<T>(&mut self, node: &T) -> &mut Counted {
        let address = std::ptr::from_ref(node).cast::<()>() as usize;
        self.nodes.entry(address).or_default()
    }

    pub(crate) fn opened<T>(&mut self, node: &T, time: Duration) {
        let counted = self.node(node);
        counted.loops += 1;
        counted.time += time;
        counted.since_opened = time;
        counted.has_row = false;
    }

    pub(crate) fn pulled<T>(&mut self, node: &T, row: bool, time: Duration) {
        let counted = self.node(node);
        counted.rows += u64::from(row);
        counted.time += time;
        counted.since_opened += time;
        if row && !counted.has_row {
            counted.has_row = true;
            counted.startup += counted.since_opened;
        }
    }

    /// What has been counted of a node; nothing of one that has not run.
    #[must_use]
    pub fn of<T>(&self, node: &T) -> Counted {
        let address = std::ptr::from_ref(node).cast::<()>() as usize;
        self.nodes.get(&address).copied().unwrap_or_default()
    }
}
