//! What is done to a server, and at which isolation levels.

use coeval_check::transactions::Level;
use coeval_txn::Isolation;

use crate::chance::Chance;

/// What is done to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SIGKILL; in one case of four again while it recovers.
    Kill,
    /// SIGTERM, with clients at work.
    Stop,
    /// SIGSTOP, for longer than clients wait in one case of four, and SIGCONT.
    Pause,
    /// A bad network: delay, jitter, little throughput, stalls.
    Network,
    /// Connections that are cut.
    Cut,
    /// Nothing passes, for longer than clients wait in one case of four.
    Partition,
    /// Nothing passes one way.
    OneWay,
    /// Packets that are lost.
    Loss,
    /// A loss of power.
    Power,
    /// Failing syncs.
    Sync,
    /// Slow syncs.
    Slow,
    /// Failing writes.
    Write,
    /// A full disk, until the server has noticed and for a while longer; a follower's until
    /// it has ended and the others have written, or leads.
    Full,
    /// A wall clock that jumps, in one case of two also across a kill.
    Clock,
    /// Another of these in each round, while links are late, clients' own among them, and,
    /// in a debug build, syncs are slow and every kill is a loss of power.
    Combined,
}

impl Kind {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 15] = [
        (Self::Kill, "kill"),
        (Self::Stop, "stop"),
        (Self::Pause, "pause"),
        (Self::Network, "network"),
        (Self::Cut, "cut"),
        (Self::Partition, "partition"),
        (Self::OneWay, "one-way"),
        (Self::Loss, "loss"),
        (Self::Power, "power"),
        (Self::Sync, "sync"),
        (Self::Slow, "slow"),
        (Self::Write, "write"),
        (Self::Full, "full"),
        (Self::Clock, "clock"),
        (Self::Combined, "combined"),
    ];

    /// One that this build can make by itself.
    pub(super) fn drawn(chance: &mut Chance) -> Self {
        let can = |kind: &Self| {
            *kind != Self::Combined && (cfg!(debug_assertions) || !kind.needs_debug_build())
        };
        let kinds: Vec<Self> = Self::ALL
            .iter()
            .map(|(kind, _)| *kind)
            .filter(can)
            .collect();
        let at = chance.within(0..kinds.len() as u64);
        kinds[usize::try_from(at).expect("there are few")]
    }

    /// What holds for a server from its start to its end.
    pub(super) const fn always(self) -> &'static [&'static str] {
        match self {
            Self::Power => &["unsynced lost"],
            Self::Combined if cfg!(debug_assertions) => &["unsynced lost"],
            _ => &[],
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(kind, _)| *kind == self);
        named.map_or("", |(_, name)| name)
    }

    /// Whether it is made within the server, which only a debug build allows.
    #[must_use]
    pub const fn needs_debug_build(self) -> bool {
        matches!(
            self,
            Self::Power | Self::Sync | Self::Slow | Self::Write | Self::Full | Self::Clock
        )
    }

    /// Whether it is better made by a firewall than by a proxy.
    #[must_use]
    pub const fn wants_namespace(self) -> bool {
        matches!(self, Self::Partition | Self::OneWay | Self::Loss)
    }
}

/// Which nodes of a cluster a fault is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Who leads when it begins.
    Leader,
    /// One of the others.
    Follower,
    /// Every node at once.
    All,
}

impl Whom {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Leader, "leader"),
        (Self::Follower, "follower"),
        (Self::All, "all"),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(whom, _)| *whom == self);
        named.map_or("", |(_, name)| name)
    }
}

/// The isolation levels, with the names that SQL has for them.
pub const LEVELS: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "READ COMMITTED"),
    (Isolation::SnapshotIsolation, "REPEATABLE READ"),
    (Isolation::Serializable, "SERIALIZABLE"),
];

/// The name that SQL has for a level.
#[must_use]
pub fn level_name(level: Isolation) -> &'static str {
    let named = LEVELS.iter().find(|(other, _)| *other == level);
    named.map_or("", |(_, name)| name)
}

/// What a server promises with each of its levels, on one node or as a cluster.
pub(super) const fn promised(level: Isolation) -> Level {
    match level {
        Isolation::ReadCommitted => Level::ReadCommitted,
        Isolation::SnapshotIsolation => Level::StrongSnapshotIsolation,
        Isolation::Serializable => Level::StrictSerializable,
    }
}
