//! The kinds of fault, and the isolation levels under test.

use coeval_check::transactions::Level;
use coeval_txn::Isolation;

use crate::chance::Chance;

/// A kind of fault that the harness injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// SIGKILL; in one case of four also during the recovery that follows.
    Kill,
    /// SIGTERM, with clients at work.
    Stop,
    /// SIGSTOP and SIGCONT; in one case of four the pause is longer than the clients'
    /// timeout.
    Pause,
    /// A bad network: delay, jitter, little throughput, stalls.
    Network,
    /// The proxy cuts all connections.
    Cut,
    /// No bytes pass; in one case of four for longer than the clients' timeout.
    Partition,
    /// No bytes pass in one direction.
    OneWay,
    /// A share of the packets is lost.
    Loss,
    /// A loss of power: unsynced data is lost.
    Power,
    /// Failing fsyncs of the server's disk.
    Sync,
    /// Slow fsyncs of the server's disk.
    Slow,
    /// Failing writes to the server's disk.
    Write,
    /// A full disk, until the server has noticed and for a while longer. A follower's
    /// disk stays full until the follower has exited and the others have written, or
    /// until it is the leader.
    Full,
    /// A wall clock that jumps, in one case of two also across a kill.
    Clock,
    /// Another random kind of fault in each round, while all links are slow, the clients'
    /// included; in a debug build, fsyncs are slow too and every kill is a loss of power.
    Combined,
}

impl FaultKind {
    /// All kinds with their names.
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

    /// A random kind that this build can inject on its own.
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

    /// Faults that are in force from the server's start to its end.
    pub(super) const fn always(self) -> &'static [&'static str] {
        match self {
            Self::Power => &["unsynced lost"],
            Self::Combined if cfg!(debug_assertions) => &["unsynced lost"],
            _ => &[],
        }
    }

    /// Name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(kind, _)| *kind == self);
        named.map_or("", |(_, name)| name)
    }

    /// Whether the fault is injected inside the server, which needs a debug build.
    #[must_use]
    pub const fn needs_debug_build(self) -> bool {
        matches!(
            self,
            Self::Power | Self::Sync | Self::Slow | Self::Write | Self::Full | Self::Clock
        )
    }

    /// Whether the fault is better injected by a firewall than by a proxy.
    #[must_use]
    pub const fn wants_namespace(self) -> bool {
        matches!(self, Self::Partition | Self::OneWay | Self::Loss)
    }
}

/// The nodes of a cluster that a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The leader at the time when the fault begins.
    Leader,
    /// One of the followers.
    Follower,
    /// All nodes at once.
    All,
}

impl Whom {
    /// All choices with their names.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Leader, "leader"),
        (Self::Follower, "follower"),
        (Self::All, "all"),
    ];

    /// Name of the choice.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(whom, _)| *whom == self);
        named.map_or("", |(_, name)| name)
    }
}

/// The isolation levels with their names in SQL.
pub const LEVELS: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "READ COMMITTED"),
    (Isolation::SnapshotIsolation, "REPEATABLE READ"),
    (Isolation::Serializable, "SERIALIZABLE"),
];

/// Name of an isolation level in SQL.
#[must_use]
pub fn level_name(level: Isolation) -> &'static str {
    let named = LEVELS.iter().find(|(other, _)| *other == level);
    named.map_or("", |(_, name)| name)
}

/// The consistency level that the server guarantees for each isolation level, on one node
/// or as a cluster.
pub(super) const fn promised(level: Isolation) -> Level {
    match level {
        Isolation::ReadCommitted => Level::ReadCommitted,
        Isolation::SnapshotIsolation => Level::StrongSnapshotIsolation,
        Isolation::Serializable => Level::StrictSerializable,
    }
}
