//! The judge of isolation: does a history show what a level forbids?
//!
//! ```text
//! T0  append 1 to x                          committed, 10 to 20
//! T1  read x: [1], append 2 to y             committed, 25 to 40
//! T2  read y: [2], read x: []                committed, 45 to 50
//!
//!     T0 ──wr──► T1 ──wr──► T2 ──rw──► T0     one rw edge: G-single
//!
//! read committed      not violated
//! snapshot isolation  violated: T2 saw what came after T0, and not T0
//! ```
//!
//! From what was read and written, the judge infers in which order the versions of
//! each object were installed ([`lists`], [`registers`]), from these who depends on
//! whom ([`versions`]), and looks for cycles ([`cycles`]). Every edge says "before", so
//! who is in a cycle would be before himself; which kinds of edges it has says which
//! levels it violates ([`anomaly`]). Some anomalies need no graph, and are found on the
//! way. For levels that promise to respect the order of a process or of real time, the
//! edges of that order are added ([`orders`]).
//!
//! # What a verdict is worth
//!
//! - An accusation is sound: for every anomaly there is no execution at that level that
//!   clients would have seen so. It supposes what [`history`](crate::history) asks of a
//!   recorder, and that an append is one step of the database.
//! - The absence of one is not a proof. Writes that nobody read, transactions of
//!   unknown outcome that nobody saw, and blind writes to registers leave room. Lists
//!   that are read often leave little.
//! - Whether a level is violated is decided exactly with regard to what is inferred,
//!   however large the tangle. Examples are limited in number ([`KEPT`] a name).
//!
//! # Size
//!
//! Time and memory grow with the operations (and n log n for sorting them), also where
//! everybody overlaps; a million transactions take seconds
//! (`cargo run --release -p coeval-check --example million`). The exception is the
//! order of registers by real time, which takes as many steps more as versions of one
//! register were written at the same time.
//!
//! Sources: Adya's thesis (1999) for graphs and phenomena; Kingsbury and Alvaro, "Elle"
//! (PVLDB 2020), for the inference; [`anomaly`] cites those of each name.

mod accesses;
pub mod anomaly;
mod cycles;
mod explain;
mod findings;
mod graph;
mod inside;
mod lists;
mod orders;
mod picture;
mod registers;
mod versions;

use std::collections::BTreeMap;

use coeval_types::Remedy;

pub use anomaly::{Anomaly, Level, Order, Phenomenon};
pub use explain::story;
pub use findings::KEPT;
pub use picture::svg;

use crate::history::History;
use cycles::Budget;
use findings::Findings;
use graph::Edges;
use registers::Registers;
use versions::Versions;

/// A history that cannot be judged; the recorder or the workload is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjudgeable {
    /// A read would not say whose value it shows.
    #[error("{value} was written to key {key} twice, by T{} and T{}: values are used once", by[0], by[1])]
    WrittenTwice {
        /// The object.
        key: u64,
        /// What was written.
        value: i64,
        /// The transactions, by their places in the history.
        by: [usize; 2],
    },
    /// A process is a client that does one thing after another.
    #[error("T{} and T{} of process {process} overlap", transactions[0], transactions[1])]
    Overlap {
        /// The process.
        process: u64,
        /// The transactions, by their places in the history.
        transactions: [usize; 2],
    },
    /// Transactions are numbered in 31 bits, operations of one in 32.
    #[error("the history is too large")]
    TooLarge,
}

impl Unjudgeable {
    /// The history, or who made it, must be changed first.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        Remedy::Fix
    }
}

/// What was found in a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Anomalies with their stories, the gravest first; at most [`KEPT`] of each name.
    pub anomalies: Vec<Anomaly>,
    /// How many of each were found. Of cycles, examples are counted: there may be more.
    pub counts: BTreeMap<(Phenomenon, Order), usize>,
    /// Transactions that took effect, as far as anybody could see.
    pub transactions: usize,
}

impl Judgement {
    /// What this level forbids, of what was found.
    pub fn violations(&self, level: Level) -> impl Iterator<Item = &Anomaly> {
        self.anomalies
            .iter()
            .filter(move |anomaly| level.forbids(anomaly.phenomenon, anomaly.seen_in))
    }

    /// Whether nothing was found that this level forbids. Of levels that were not
    /// asked for, this says less than it could.
    #[must_use]
    pub fn permits(&self, level: Level) -> bool {
        self.violations(level).next().is_none()
    }
}

/// Judges a history with regard to these levels. Asking for fewer takes less time.
///
/// # Errors
/// When the history is none that can be judged.
pub fn judge(history: &History, levels: &[Level]) -> Result<Judgement, Unjudgeable> {
    check(history)?;
    let takes_part = accesses::takes_part(history)?;
    let mut findings = Findings::default();
    let lists = lists::versions(history, &takes_part, &mut findings)?;
    let registers = Registers::collect(history, &takes_part, &mut findings)?;
    let mut orders: Vec<Order> = levels.iter().map(|level| level.order()).collect();
    orders.sort_unstable();
    orders.dedup();
    // The strongest first: it has the edges of all weaker ones, and a graph without cycles
    // has none with fewer edges.
    while let Some(order) = orders.pop() {
        let registers = registers.versions(history, order, &mut findings);
        let run = Run {
            history,
            takes_part: &takes_part,
            versions: [&lists, &registers],
            order,
        };
        if !run.look_for_cycles(&mut findings) && !findings.has(Phenomenon::CyclicVersions) {
            break;
        }
    }
    let (anomalies, counts) = findings.into_parts();
    Ok(Judgement {
        anomalies,
        counts,
        transactions: takes_part.iter().filter(|takes_part| **takes_part).count(),
    })
}

/// What the inference rests on.
fn check(history: &History) -> Result<(), Unjudgeable> {
    let transactions = &history.transactions;
    let is_small = |length: usize| u32::try_from(length).is_ok_and(|length| length < 1 << 31);
    let steps = transactions
        .iter()
        .map(|transaction| transaction.operations.len());
    if !is_small(transactions.len()) || !steps.sum::<usize>().checked_mul(4).is_some_and(is_small) {
        return Err(Unjudgeable::TooLarge);
    }
    let mut by_process: Vec<usize> = (0..transactions.len()).collect();
    by_process.sort_by_key(|index| (transactions[*index].process, transactions[*index].started));
    for pair in by_process.windows(2) {
        let [before, after] = [&transactions[pair[0]], &transactions[pair[1]]];
        // Who never learnt how a transaction ended may go on with the next.
        if before.process == after.process
            && before
                .finished
                .is_some_and(|finished| finished > after.started)
        {
            return Err(Unjudgeable::Overlap {
                process: before.process,
                transactions: [pair[0], pair[1]],
            });
        }
    }
    Ok(())
}

/// One look for cycles.
struct Run<'run> {
    history: &'run History,
    takes_part: &'run [bool],
    versions: [&'run Versions; 2],
    order: Order,
}

impl Run<'_> {
    /// Whether there are any.
    fn look_for_cycles(&self, findings: &mut Findings) -> bool {
        let mut edges = Edges::new(self.history.transactions.len());
        for versions in self.versions {
            versions.edges(&mut edges);
        }
        if self.order >= Order::Process {
            orders::by_process(self.history, self.takes_part, &mut edges);
        }
        if self.order == Order::RealTime {
            orders::by_real_time(self.history, self.takes_part, &mut edges);
        }
        let graph = edges.into_graph();
        let mut components = graph.components(graph::edge::KINDS);
        let is_tangled = !components.is_empty();
        // Small tangles tell short stories.
        components.sort_by_key(Vec::len);
        let mut budget = Budget::default();
        for (place, members) in components.into_iter().enumerate() {
            if place == cycles::COMPONENTS {
                budget.first_edges = 1;
            }
            for cycle in cycles::examples(&graph, members, &mut budget) {
                let transactions = cycle.transactions.iter().map(|node| *node as usize);
                let first = cycle.transactions.clone();
                findings.add_cycle(
                    cycle.phenomenon(),
                    cycle.seen_in(self.order),
                    transactions.collect(),
                    |in_order| {
                        let shift = first.iter().position(|node| *node as usize == in_order[0]);
                        let shift = shift.unwrap_or(0);
                        (0..first.len())
                            .map(|place| {
                                let at = (place + shift) % first.len();
                                let next = first[(at + 1) % first.len()];
                                self.explain(first[at], next, cycle.says[at])
                            })
                            .collect()
                    },
                );
            }
        }
        is_tangled
    }

    fn explain(&self, from: u32, to: u32, says: u8) -> String {
        explain::step(self.history, self.versions, from, to, says)
    }
}
