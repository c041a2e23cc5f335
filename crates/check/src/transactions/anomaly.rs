//! The anomalies that a history can show, with their names in the literature, and the
//! isolation levels that forbid them.
//!
//! # Anomalies found without a graph
//!
//! | name | what happened |
//! | --- | --- |
//! | garbage read | a read shows a value that no transaction wrote |
//! | duplicate elements | a read shows an element twice |
//! | incompatible order | two reads show a list in orders of which neither extends the other |
//! | cyclic versions | the versions of a register precede each other |
//! | internal | a transaction does not see its own last write |
//! | future read | a transaction sees its own write before it makes it |
//! | G1a, aborted read | a read shows a write of an aborted transaction |
//! | G1b, intermediate read | a read shows a value that its writer itself replaced later |
//! | dirty update | a committed write builds on an aborted one |
//! | non-repeatable read | a transaction sees another's write come between two reads |
//! | lost update | two transactions read the same version, and both replace it |
//!
//! # Cycles of the dependency graph
//!
//! | name | the cycle consists of |
//! | --- | --- |
//! | G0, write cycle | ww |
//! | G1c, circular information flow | ww and wr, at least one wr |
//! | G-single, single antidependency cycle | exactly one rw |
//! | long fork | wr, rw, wr, rw: two readers see two writes in opposite orders |
//! | G-nonadjacent | several rw, no two of them adjacent |
//! | G2-item, item antidependency cycle | two rw in succession, perhaps more |
//!
//! If a cycle contains edges between the transactions of one process, its name is
//! `G0-process` and so on; with edges of real time, `G0-realtime`. An edge of process or
//! real time counts as a write dependency: its source was installed before its target
//! began.
//!
//! G2 is the union of G2-item and of cycles through predicate reads. Histories of lists and
//! registers have no predicates, so they can show only the G2-item part of G2.
//!
//! # Levels
//!
//! Read committed forbids the anomalies found without a graph, except the last two, and G0
//! and G1c. Snapshot isolation forbids every cycle in which no two rw edges are adjacent: a
//! transaction reads as of its start and writes as of its commit, so every edge but rw
//! leads from a commit to a later start, and an rw edge, from a start to a later commit,
//! cannot compensate for it alone. Serializability forbids every cycle. The strong forms
//! forbid the same with the edges of their orders.
//!
//! Sources: Adya 1999, §3 and §4 (G0 to G2, G-single); Cerone and Gotsman,
//! "Analysing Snapshot Isolation", JACM 2018 (adjacent antidependencies); Daudjee and
//! Salem, "Lazy Database Replication with Snapshot Isolation", VLDB 2006 (strong and
//! strong session SI); Berenson et al., "A Critique of ANSI SQL Isolation Levels",
//! 1995 (lost update, non-repeatable read); Sovran et al., "Transactional Storage for
//! Geo-Replicated Systems", SOSP 2011 (long fork); Elle (garbage read, dirty update,
//! the process and realtime forms).

use std::fmt;

/// An order of transactions that a client can observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// No order: only reads and writes count.
    Values,
    /// The order of one process's transactions.
    Process,
    /// The order of transactions of which one had finished before the other started, or
    /// preceded it in their process.
    RealTime,
}

/// The kind of an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the table above says what each is")]
pub enum Phenomenon {
    GarbageRead,
    DuplicateElements,
    IncompatibleOrder,
    CyclicVersions,
    Internal,
    FutureRead,
    G1a,
    G1b,
    DirtyUpdate,
    G0,
    G1c,
    NonRepeatableRead,
    LostUpdate,
    GSingle,
    LongFork,
    GNonadjacent,
    G2Item,
}

impl Phenomenon {
    /// The anomaly's name, as the command prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GarbageRead => "garbage-read",
            Self::DuplicateElements => "duplicate-elements",
            Self::IncompatibleOrder => "incompatible-order",
            Self::CyclicVersions => "cyclic-versions",
            Self::Internal => "internal",
            Self::FutureRead => "future-read",
            Self::G1a => "G1a",
            Self::G1b => "G1b",
            Self::DirtyUpdate => "dirty-update",
            Self::G0 => "G0",
            Self::G1c => "G1c",
            Self::NonRepeatableRead => "non-repeatable-read",
            Self::LostUpdate => "lost-update",
            Self::GSingle => "G-single",
            Self::LongFork => "long-fork",
            Self::GNonadjacent => "G-nonadjacent",
            Self::G2Item => "G2-item",
        }
    }

    /// Explanation of the anomaly in one sentence, for readers who do not know its name.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::GarbageRead => "a read shows a value that no transaction wrote",
            Self::DuplicateElements => "a read shows an element twice",
            Self::IncompatibleOrder => {
                "two reads show a list in orders of which none continues the other"
            }
            Self::CyclicVersions => "versions of one register each precede the other",
            Self::Internal => "a transaction does not see its own write",
            Self::FutureRead => "a transaction sees what it writes only later",
            Self::G1a => "a read shows what an aborted transaction wrote",
            Self::G1b => "a read shows what its writer itself replaced before it committed",
            Self::DirtyUpdate => "a committed write builds on an aborted one",
            Self::G0 => "transactions overwrite each other in a circle",
            Self::G1c => "information flows in a circle",
            Self::NonRepeatableRead => "another's write came between two reads of one transaction",
            Self::LostUpdate => "transactions read the same version, and all replace it",
            Self::GSingle => {
                "a transaction sees part of another's effects, or its past, and not all"
            }
            Self::LongFork => "two readers see two writes in opposite orders",
            Self::GNonadjacent => "readers see states that no sequence of snapshots goes through",
            Self::G2Item => "transactions each miss what another writes, in a circle (write skew)",
        }
    }
}

/// An isolation level, as a set of guarantees about transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Read committed: Adya's PL-2.
    ReadCommitted,
    /// Snapshot isolation: every transaction works on some snapshot, and no two overlapping
    /// transactions write the same object.
    SnapshotIsolation,
    /// Snapshot isolation in which a process's snapshots include all its own earlier
    /// commits.
    StrongSessionSnapshotIsolation,
    /// Snapshot isolation in which every snapshot includes all earlier commits.
    StrongSnapshotIsolation,
    /// Serializability: some serial order of the transactions explains everything; Adya's
    /// PL-3.
    Serializable,
    /// Serializability in an order that respects real time.
    StrictSerializable,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 6] = [
        Self::ReadCommitted,
        Self::SnapshotIsolation,
        Self::StrongSessionSnapshotIsolation,
        Self::StrongSnapshotIsolation,
        Self::Serializable,
        Self::StrictSerializable,
    ];

    /// The level's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read-committed",
            Self::SnapshotIsolation => "snapshot-isolation",
            Self::StrongSessionSnapshotIsolation => "strong-session-snapshot-isolation",
            Self::StrongSnapshotIsolation => "strong-snapshot-isolation",
            Self::Serializable => "serializable",
            Self::StrictSerializable => "strict-serializable",
        }
    }

    /// The level with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The order of transactions that the level guarantees to respect.
    #[must_use]
    pub fn order(self) -> Order {
        match self {
            Self::ReadCommitted | Self::SnapshotIsolation | Self::Serializable => Order::Values,
            Self::StrongSessionSnapshotIsolation => Order::Process,
            Self::StrongSnapshotIsolation | Self::StrictSerializable => Order::RealTime,
        }
    }

    /// Whether the level forbids this phenomenon, if the order `seen_in` is needed to
    /// observe it.
    #[must_use]
    pub fn forbids(self, phenomenon: Phenomenon, seen_in: Order) -> bool {
        if seen_in > self.order() {
            return false;
        }
        match phenomenon {
            Phenomenon::GarbageRead
            | Phenomenon::DuplicateElements
            | Phenomenon::IncompatibleOrder
            | Phenomenon::CyclicVersions
            | Phenomenon::Internal
            | Phenomenon::FutureRead
            | Phenomenon::G1a
            | Phenomenon::G1b
            | Phenomenon::DirtyUpdate
            | Phenomenon::G0
            | Phenomenon::G1c => true,
            Phenomenon::NonRepeatableRead
            | Phenomenon::LostUpdate
            | Phenomenon::GSingle
            | Phenomenon::LongFork
            | Phenomenon::GNonadjacent => self != Self::ReadCommitted,
            Phenomenon::G2Item => matches!(self, Self::Serializable | Self::StrictSerializable),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// An occurrence of a phenomenon that some level forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// The kind of the anomaly.
    pub phenomenon: Phenomenon,
    /// The order of transactions that is needed to observe it.
    pub seen_in: Order,
    /// The transactions involved, by their indexes in the history, in the order of the
    /// explanation.
    pub transactions: Vec<usize>,
    /// For each transaction, how it leads to the next (in a cycle, the last to the first),
    /// or what is wrong with it.
    pub steps: Vec<String>,
    /// Whether the last transaction leads to the first again.
    pub is_cycle: bool,
}

impl Anomaly {
    /// The anomaly's name, with the order that is needed to observe it:
    /// `G-single-realtime`.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.phenomenon.name();
        match self.seen_in {
            Order::Values => name.to_owned(),
            Order::Process => format!("{name}-process"),
            Order::RealTime => format!("{name}-realtime"),
        }
    }
}
