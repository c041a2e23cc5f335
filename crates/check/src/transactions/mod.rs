//! The isolation judge: checks whether a history shows an anomaly that an isolation level
//! forbids.
//!
//! ```text
//! T0  append 1 to x                          committed, 10 to 20
//! T1  read x: [1], append 2 to y             committed, 25 to 40
//! T2  read y: [2], read x: []                committed, 45 to 50
//!
//!     T0 ──wr──► T1 ──wr──► T2 ──rw──► T0     one rw edge: G-single
//!
//! read committed      not violated
//! snapshot isolation  violated: T2 saw T1, which followed T0, but not T0
//! ```
//!
//! From the reads and writes, the judge infers the order in which the versions of each
//! object were installed ([`lists`], [`registers`]), from these the dependencies between
//! transactions ([`versions`]), and searches for cycles ([`cycles`]). Every edge means
//! "before", so a transaction in a cycle would precede itself; the kinds of edges in the
//! cycle determine which levels it violates ([`anomaly`]). Some anomalies need no graph,
//! and are found on the way. For levels that guarantee to respect the order of a process or
//! of real time, the judge adds the edges of that order ([`orders`]).
//!
//! # Soundness and completeness
//!
//! - A reported violation is sound: for every anomaly, no execution at that level could
//!   have given clients these answers. This assumes the requirements of
//!   [`history`](crate::history) on a recorder, and that an append is one step of the
//!   database.
//! - The absence of violations is not a proof. Writes that no transaction read,
//!   transactions of unknown outcome that none saw, and blind writes to registers leave
//!   room. Lists that are read often leave little.
//! - Whether a level is violated is decided exactly with regard to the inferred
//!   dependencies, however large the component. The number of examples is limited ([`KEPT`]
//!   per name).
//!
//! # Scalability
//!
//! Time and memory are linear in the operations (plus n log n for sorting them), also where
//! all transactions overlap; a million transactions take seconds (`cargo run --release -p
//! coeval-check --example million`). The exception is the order of registers by real time,
//! which takes additional steps for each version of a register that was written at the same
//! time as others.
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

/// Error: the history cannot be judged, because the recorder or the workload is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjudgeable {
    /// A value was written twice, so that a read of it would not identify its writer.
    #[error("{value} was written to key {key} twice, by T{} and T{}: values are used once", by[0], by[1])]
    WrittenTwice {
        /// The key of the object.
        key: u64,
        /// The value that was written twice.
        value: i64,
        /// The two transactions, by their indexes in the history.
        by: [usize; 2],
    },
    /// Two transactions of a process overlap, although a process executes one after
    /// another.
    #[error("T{} and T{} of process {process} overlap", transactions[0], transactions[1])]
    Overlap {
        /// The process whose transactions overlap.
        process: u64,
        /// The two transactions, by their indexes in the history.
        transactions: [usize; 2],
    },
    /// The history exceeds 31 bits of transactions or 32 bits of operations.
    #[error("the history is too large")]
    TooLarge,
}

impl Unjudgeable {
    /// The caller's remedy: the history, or its recorder, must be changed first.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        Remedy::Fix
    }
}

/// Result of the isolation judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Anomalies with explanations, the most severe first; at most [`KEPT`] of each name.
    pub anomalies: Vec<Anomaly>,
    /// Number of anomalies found, by name and order. For cycles it counts the examples: the
    /// history may contain more.
    pub counts: BTreeMap<(Phenomenon, Order), usize>,
    /// Number of transactions that took effect, as far as the history shows.
    pub transactions: usize,
}

impl Judgement {
    /// The anomalies that this level forbids.
    pub fn violations(&self, level: Level) -> impl Iterator<Item = &Anomaly> {
        self.anomalies
            .iter()
            .filter(move |anomaly| level.forbids(anomaly.phenomenon, anomaly.seen_in))
    }

    /// Whether no anomaly was found that this level forbids. For a level that was not among
    /// those given to [`judge`], the search may have been incomplete.
    #[must_use]
    pub fn permits(&self, level: Level) -> bool {
        self.violations(level).next().is_none()
    }
}

/// Judges a history with regard to these levels. Fewer levels take less time.
///
/// # Errors
/// When the history cannot be judged.
pub fn judge(history: &History, levels: &[Level]) -> Result<Judgement, Unjudgeable> {
    check(history)?;
    let takes_part = accesses::takes_part(history)?;
    let mut findings = Findings::default();
    let lists = lists::versions(history, &takes_part, &mut findings)?;
    let registers = Registers::collect(history, &takes_part, &mut findings)?;
    let mut orders: Vec<Order> = levels.iter().map(|level| level.order()).collect();
    orders.sort_unstable();
    orders.dedup();
    // The strongest first: its graph includes the edges of all weaker ones, and a graph
    // without cycles has none with fewer edges.
    while let Some(order) = orders.pop() {
        let registers = registers.versions(history, order, &mut findings);
        let run = CycleSearch {
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

/// Checks the assumptions of the inference.
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
        // A process that never learned a transaction's outcome may continue with the next.
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

/// One search for cycles, with the edges of one order.
struct CycleSearch<'run> {
    history: &'run History,
    takes_part: &'run [bool],
    versions: [&'run Versions; 2],
    order: Order,
}

impl CycleSearch<'_> {
    /// Searches for cycles and returns whether there are any.
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
        // Small components give short explanations.
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
