//! Which run: engine, workload, isolation level, class of faults.

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
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// As it stands in the name of a scenario.
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
    /// What is in the dock, and how clients reach it.
    Engine {
        /// One transaction at a time, in memory, by the contract.
        Serial = "serial",
        /// Transactions on one node with their log, by the contract.
        Occ = "occ",
        /// A whole server, over simulated links.
        Server = "server",
        /// Three nodes with a log on a majority of their disks, by the contract of
        /// whichever leads.
        Cluster = "cluster",
        /// Three whole servers as a cluster, over simulated links, through any of them.
        Servers = "servers",
    }
}

named! {
    /// What clients do.
    Load {
        /// Transfers between accounts, each with a line in a ledger.
        Bank = "bank",
        /// Elements appended to lists, and lists read.
        Lists = "list-append",
        /// Registers written and read.
        Registers = "rw-register",
        /// Bookings as long as there are seats, and cancellations.
        Seats = "seats",
        /// Reads and writes by key, and scans; the seed says by which of YCSB's letters.
        Ycsb = "ycsb",
        /// Short transactions on the accounts of a few customers.
        SmallBank = "smallbank",
        /// TPC-C whole, on one small warehouse.
        Tpcc = "tpcc",
    }
}

named! {
    /// What goes wrong.
    Class {
        /// Nothing.
        None = "none",
        /// The process is killed, and started again.
        Kill = "kill",
        /// The power fails, and comes back.
        Power = "power",
        /// The machine stops for a while, and goes on.
        Pause = "pause",
        /// Syncs take long, fail once, or fail for a while; writes fail.
        Sync = "sync",
        /// There is no room for a while.
        Full = "full",
        /// Bits flip on the disk, writes land elsewhere; then the power fails.
        Corruption = "corruption",
        /// Links are slow, lose, break.
        Network = "network",
        /// Nothing passes a link, one way or both.
        Partition = "partition",
        /// Clocks drift and jump.
        Clock = "clock",
        /// All of these but corruption, also at once; of a cluster, disks are lost, too.
        All = "all",
        /// A node's disk is lost with all that was on it, and the node replaced by a new one,
        /// while processes die and the power fails.
        Loss = "loss",
    }
}

impl Engine {
    /// How many nodes it takes.
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

/// Which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scenario {
    /// What is in the dock.
    pub engine: Engine,
    /// What clients do.
    pub load: Load,
    /// At which level.
    pub isolation: Isolation,
    /// What goes wrong.
    pub class: Class,
}

/// The levels, with their names.
const LEVELS: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "read-committed"),
    (Isolation::SnapshotIsolation, "snapshot-isolation"),
    (Isolation::Serializable, "serializable"),
];

/// The level's name.
#[must_use]
pub fn level(isolation: Isolation) -> &'static str {
    let known = LEVELS.iter().find(|(level, _)| *level == isolation);
    known.map_or("unknown", |(_, name)| *name)
}

impl Scenario {
    /// Whether the class of faults means anything for the engine: a database in memory
    /// has no disk, clients on its machine have no links, and what one node's disk had is
    /// nowhere else.
    #[must_use]
    pub fn applies(&self) -> bool {
        match self.engine {
            Engine::Serial => matches!(self.class, Class::None | Class::Pause | Class::Clock),
            Engine::Occ => !matches!(self.class, Class::Network | Class::Partition | Class::Loss),
            Engine::Server => self.class != Class::Loss,
            Engine::Cluster | Engine::Servers => true,
        }
    }

    /// Every scenario that means something.
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

/// There is no such scenario.
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
