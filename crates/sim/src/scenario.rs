//! Scenarios: an engine, a workload, an isolation level and a class of faults, which
//! together with a seed identify a run.

use std::fmt;
use std::str::FromStr;

use coeval_txn::Isolation;

macro_rules! named {
    ($(#[doc = $about:literal])+ $type:ident { $($(#[doc = $what:literal])+ $variant:ident = $name:literal,)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[doc = $what])+ $variant,)+
        }

        impl $type {
            /// All values of the type.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name within a scenario's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

named! {
    /// The system under test, and how clients access it.
    Engine {
        /// An in-memory engine that runs one transaction at a time, accessed through the
        /// transaction contract.
        Serial = "serial",
        /// The transaction engine on one node with its log, accessed through the
        /// transaction contract.
        Occ = "occ",
        /// A whole server, over simulated links.
        Server = "server",
        /// Three nodes with a replicated log, accessed through the transaction contract
        /// of the leader.
        Cluster = "cluster",
        /// A cluster of three whole servers, any of which clients access over simulated
        /// links.
        Servers = "servers",
    }
}

named! {
    /// The workload that clients run.
    Load {
        /// Transfers between accounts, each with a line in a ledger.
        Bank = "bank",
        /// Transactions that append elements to lists and read lists.
        Lists = "list-append",
        /// Transactions that write and read registers.
        Registers = "rw-register",
        /// Bookings while seats are available, and cancellations.
        Seats = "seats",
        /// YCSB: reads and writes by key, and scans; the seed decides which of YCSB's
        /// mixes.
        Ycsb = "ycsb",
        /// SmallBank: short transactions on the accounts of a few customers.
        SmallBank = "smallbank",
        /// All of TPC-C, on one small warehouse.
        Tpcc = "tpcc",
        /// Requests of every shape, by raw clients that know what each is owed.
        Pipelines = "pipelines",
    }
}

named! {
    /// The class of faults.
    Class {
        /// No fault is injected.
        None = "none",
        /// The process is killed, and restarted.
        Kill = "kill",
        /// The power fails, and returns.
        Power = "power",
        /// The machine is paused for a while.
        Pause = "pause",
        /// Fsyncs are slow, fail once, or fail for a while; writes fail.
        Sync = "sync",
        /// The disk is full for a while.
        Full = "full",
        /// Bits flip on the disk, or writes land in the wrong sector; then the power
        /// fails.
        Corruption = "corruption",
        /// Links are slow, lose packets, or break.
        Network = "network",
        /// Links are blocked in one direction or both.
        Partition = "partition",
        /// Clocks drift and jump.
        Clock = "clock",
        /// All of these except corruption, also at the same time; in a cluster, disks are
        /// lost, too.
        All = "all",
        /// A node's disk and all its data are lost, and the node is replaced by a new
        /// one, while processes are killed and the power fails.
        Loss = "loss",
        /// In a cluster, while a follower's question to its leader is under way: the leader
        /// is paused, its answers are held back until another node leads, or the follower
        /// is cut off from the leader alone.
        Questions = "questions",
        /// In a cluster of servers, definitions change all the time beside reads: tables
        /// are emptied, altered and replaced, indexes come and go.
        Ddl = "ddl",
        /// In a cluster, old row versions may take little memory, and long reads on every
        /// node hold more; half of the runs have processes killed and paused besides.
        Memory = "memory",
        /// In a cluster of servers, a follower is paused, beside readers on every node that
        /// take the state that it has.
        Away = "away",
    }
}

impl Load {
    /// The loads whose transactions run on any engine.
    pub const ON_ANY_ENGINE: &'static [Self] = &[
        Self::Bank,
        Self::Lists,
        Self::Registers,
        Self::Seats,
        Self::Ycsb,
        Self::SmallBank,
        Self::Tpcc,
    ];

    /// Whether the load's clients need a server that speaks the protocol.
    #[must_use]
    pub const fn is_of_protocol(self) -> bool {
        matches!(self, Self::Pipelines)
    }
}

impl Class {
    /// Whether only a cluster can meet these faults.
    #[must_use]
    pub const fn is_of_clusters(self) -> bool {
        matches!(
            self,
            Self::Loss | Self::Questions | Self::Ddl | Self::Memory | Self::Away
        )
    }
}

impl Engine {
    /// Number of nodes that the engine consists of.
    #[must_use]
    pub const fn nodes(self) -> usize {
        match self {
            Self::Serial | Self::Occ | Self::Server => 1,
            Self::Cluster | Self::Servers => 3,
        }
    }

    /// Whether clients have machines of their own.
    #[must_use]
    pub const fn is_remote(self) -> bool {
        matches!(self, Self::Server | Self::Servers)
    }
}

/// A scenario, which together with a seed identifies a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scenario {
    /// System under test.
    pub engine: Engine,
    /// Workload of the clients.
    pub load: Load,
    /// Isolation level of the transactions.
    pub isolation: Isolation,
    /// Class of faults.
    pub class: Class,
}

/// The isolation levels with their names.
const LEVELS: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "read-committed"),
    (Isolation::SnapshotIsolation, "snapshot-isolation"),
    (Isolation::Serializable, "serializable"),
];

/// Name of an isolation level.
#[must_use]
pub fn level(isolation: Isolation) -> &'static str {
    let known = LEVELS.iter().find(|(level, _)| *level == isolation);
    known.map_or("unknown", |(_, name)| *name)
}

impl Scenario {
    /// Whether load and class of faults are meaningful for the engine: an in-memory
    /// database has no disk, clients on its machine have no links and no protocol, a
    /// single node's lost disk has no other copy, and only followers ask questions, and have
    /// long reads of their own to end. Only servers have definitions that change, and reads that
    /// take the state that there is.
    #[must_use]
    pub fn applies(&self) -> bool {
        if self.load.is_of_protocol() && !self.engine.is_remote() {
            return false;
        }
        match self.engine {
            Engine::Serial => matches!(self.class, Class::None | Class::Pause | Class::Clock),
            Engine::Occ => {
                !self.class.is_of_clusters()
                    && !matches!(self.class, Class::Network | Class::Partition)
            }
            Engine::Server => !self.class.is_of_clusters(),
            Engine::Cluster => !matches!(self.class, Class::Ddl | Class::Away),
            Engine::Servers => true,
        }
    }

    /// All scenarios that are meaningful.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for &engine in Engine::ALL {
            for &load in Load::ALL {
                for (isolation, _) in LEVELS {
                    for &class in Class::ALL {
                        let scenario = Self {
                            engine,
                            load,
                            isolation,
                            class,
                        };
                        if scenario.applies() {
                            all.push(scenario);
                        }
                    }
                }
            }
        }
        all
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}/{}/{}/{}",
            self.engine.name(),
            self.load.name(),
            level(self.isolation),
            self.class.name()
        )
    }
}

/// Error for an unknown or meaningless scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownScenario(String);

impl fmt::Display for UnknownScenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "no scenario is called {}: engine/workload/level/faults, as in \
             occ/bank/serializable/power; the command list names all",
            self.0
        )
    }
}

impl std::error::Error for UnknownScenario {}

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(text: &str) -> Result<Self, UnknownScenario> {
        let found = Self::all()
            .into_iter()
            .find(|scenario| scenario.to_string() == text);
        found.ok_or_else(|| UnknownScenario(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_found_by_its_name() {
        let all = Scenario::all();
        assert!(all.len() > 100);
        for scenario in all {
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        let error = "occ/bank/serializable/network"
            .parse::<Scenario>()
            .unwrap_err();
        assert!(error.to_string().contains("occ/bank/serializable/network"));
    }
}
