//! A simulated cluster for measurements: nodes of `coeval_consensus` on a virtual clock,
//! with a cost model for clients, disks and network.
//!
//! ```text
//!   clients ──requests──▶ inbox ─▶ processor ─▶ Consensus ─▶ ready ─┬─▶ way out ─▶ inboxes
//!      ▲                    ▲      (rounds)                         ├─▶ disk ─┐
//!      │                    └───────────────────────────────────────┼─────────┘ persisted
//!      └────────────────────────────────────────────────────────────┴─ committed ─▶ applied
//! ```
//!
//! The nodes run the real code; their environment is modelled ([`Model`]):
//!
//! - *processor*: one for each node. It takes up to 64 inputs from its queue, works for
//!   the sum of their costs, and then emits the results of all. So a busy leader batches,
//!   and a message queues after the clients before it;
//! - *disk*: one write at a time; pending writes share one sync;
//! - *network*: each node has a limited bandwidth for sending, which receivers share in
//!   turn; then a delay. Messages are lost only at a node that is partitioned or down.
//!   Clients have a network of their own;
//! - *clients*: each waits for its answer. Writes go to the leader, reads round robin
//!   to nodes that have all committed entries;
//! - *applying*: in parallel to the processor, with a fixed time per entry, in order.
//!
//! An entry takes one position of the log ([`Spacing::Entries`]), so positions are the
//! LSNs of FRS. A recovering node may have real [`Files`]: then its writes, and the
//! leader's reads for it, take as long as they took in real time. Without real files, a
//! run is deterministic.
//!
//! Invariant: a node's consensus reports as durable only what is on its [`Disk`]; a crash
//! loses everything else.
//!
//! [`Spacing::Entries`]: coeval_consensus::Spacing::Entries

mod cases;
mod check;
mod clients;
mod disk;
mod files;
mod machine;
mod model;
mod nic;
mod step;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coeval_consensus::{
    Consensus, Content, Entry, Fetch, HardState, Membership, Message, NodeId, Position,
    Recovery as Method, Role, Settings, Spacing,
};
use coeval_types::{Lsn, Term};

pub use cases::{Case, cases, expected};
use clients::Clients;
pub use disk::Disk;
pub use files::Files;
use machine::{Input, Machine};
pub use model::Model;
pub use watch::Recovery;

/// An event at a point in virtual time.
#[derive(Clone, Debug)]
enum Event {
    /// A message arrives at its receiver.
    Arrives(Message),
    /// A client's request arrives at a node.
    Request { node: NodeId, input: Input },
    /// A client sends its next request.
    Ask { client: usize },
    /// A client receives its answer.
    Answer { client: usize },
    /// An internal event of a node, valid in one of its lives.
    Own { node: NodeId, life: u64, own: Own },
}

/// An internal event of a node.
#[derive(Clone, Debug)]
enum Own {
    Tick,
    RoundEnds,
    WriteEnds,
    Sent,
    Read(Fetch),
    Applied(Lsn),
}

/// Nodes, clients, and the network between them.
#[derive(Clone, Debug)]
pub struct Cluster {
    model: Model,
    settings: Settings,
    now: Duration,
    events: BTreeMap<(Duration, u64), Event>,
    sequence: u64,
    machines: BTreeMap<NodeId, Machine>,
    cut_off: BTreeSet<NodeId>,
    slowed: BTreeMap<NodeId, Duration>,
    clients: Clients,
    recovery: Option<Recovery>,
    files: Option<Arc<Files>>,
    writes_anew: bool,
}

/// A membership of three voters.
#[must_use]
pub fn three() -> Membership {
    Membership::new((1..=3).map(NodeId), [])
}

/// An existing log: entries in these terms, each beginning with its mark and of the given
/// length, mark included.
#[must_use]
pub fn log_of(terms: impl IntoIterator<Item = (u32, u64)>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let filler = clients::payload(0);
    for (term, length) in terms {
        for index in 0..length {
            let start = entries.len() as u64;
            entries.push(Entry {
                start: Lsn(start),
                end: Lsn(start + 1),
                term: Term(term),
                content: match index {
                    0 => Content::Mark(three()),
                    _ => Content::Payload(filler.clone()),
                },
            });
        }
    }
    entries
}

/// The disk of one of three nodes, with this log and this commit point.
#[must_use]
pub fn disk_with(log: Arc<Vec<Entry>>, commit: u64) -> Disk {
    let hard_state = HardState {
        term: log.last().map_or(Term(0), |entry| entry.term),
        vote: None,
        commit: Lsn(commit),
    };
    Disk::new(three(), log, hard_state)
}

impl Cluster {
    /// A cluster of nodes 1, 2 … with these disks, all of them down.
    #[must_use]
    pub fn new(model: Model, method: Method, disks: impl IntoIterator<Item = Disk>) -> Self {
        let settings = Settings {
            recovery: method,
            spacing: Spacing::Entries,
            // Measured in log positions, as everything with this spacing.
            window_space: 1 << 16,
            entry_cache_bytes: 1 << 19,
            ..Settings::default()
        };
        let machines = disks.into_iter().zip(1..);
        Self {
            model,
            settings,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            sequence: 0,
            machines: machines
                .map(|(disk, node)| (NodeId(node), Machine::new(disk)))
                .collect(),
            cut_off: BTreeSet::new(),
            slowed: BTreeMap::new(),
            clients: Clients::new(),
            recovery: None,
            files: None,
            writes_anew: false,
        }
    }

    /// Uses these files for the recovering node and its leader from now on. With
    /// `writes_anew` the node writes everything it receives during recovery twice: to the
    /// copy and in place.
    pub fn use_files(&mut self, files: Arc<Files>, writes_anew: bool) {
        self.files = Some(files);
        self.writes_anew = writes_anew;
    }

    /// Adds a delay to messages from this node.
    pub fn slow(&mut self, node: NodeId, by: Duration) {
        self.slowed.insert(node, by);
    }

    fn machine(&mut self, node: NodeId) -> &mut Machine {
        self.machines
            .get_mut(&node)
            .expect("a node of this cluster")
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }

    fn after_own(&mut self, delay: Duration, node: NodeId, own: Own) {
        let life = self.machine(node).life;
        self.after(delay, Event::Own { node, life, own });
    }

    /// Starts a node from its disk.
    ///
    /// # Errors
    /// If consensus refuses the contents of the disk.
    pub fn start(&mut self, node: NodeId) -> Result<(), String> {
        let settings = self.settings.clone();
        let machine = self.machine(node);
        let seed = node.0 * 7919 + machine.life;
        let consensus = Consensus::new(node, settings, &machine.disk.restored(), seed)
            .map_err(|error| format!("node {node}: {error}"))?;
        machine.node = Some(consensus);
        let phase = self.model.tick.mul_f64(node.0 as f64 / 3.0);
        self.after_own(phase, node, Own::Tick);
        Ok(())
    }

    /// Starts a node that has all committed entries.
    ///
    /// # Errors
    /// The same as for [`Self::start`].
    pub fn start_whole(&mut self, node: NodeId) -> Result<(), String> {
        self.start(node)?;
        self.machine(node).is_whole = true;
        Ok(())
    }

    /// Restarts a node, without its commit point if that is lost, and observes its
    /// recovery.
    ///
    /// # Errors
    /// The same as for [`Self::watch`] and [`Self::start`].
    pub fn restart(&mut self, node: NodeId, commit_is_lost: bool) -> Result<(), String> {
        if commit_is_lost {
            self.machine(node).disk.forget_commit();
        }
        self.watch(node)?;
        self.start(node)
    }

    /// Starts observing how a node removes entries that the leader does not have.
    ///
    /// # Errors
    /// If there is no leader.
    pub fn watch(&mut self, node: NodeId) -> Result<(), String> {
        let leader = self.leader().ok_or("there is no leader")?;
        let disk = &self.machines[&node].disk;
        let diverges = disk.parts_from(&self.machines[&leader].disk);
        self.recovery = Some(Recovery::new(node, disk.end(), disk.commit(), diverges));
        Ok(())
    }

    /// Kills a node, which loses its volatile state.
    pub fn kill(&mut self, node: NodeId) {
        let clients = self.machine(node).crash();
        self.turn_away(clients);
    }

    /// Partitions a node: messages from it and to it are lost.
    pub fn cut_off(&mut self, node: NodeId) {
        self.cut_off.insert(node);
    }

    /// Ends the partition of a node.
    pub fn reconnect(&mut self, node: NodeId) {
        self.cut_off.remove(&node);
    }

    /// The serving leader of the newest term.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        let serving = self.machines.iter().filter_map(|(node, machine)| {
            let consensus = machine.node.as_ref()?;
            let serves = machine.role == Role::Leader { serving: true };
            serves.then(|| (consensus.role().term, *node))
        });
        serving.max().map(|(_, node)| node)
    }

    /// Measurements of the observed recovery.
    #[must_use]
    pub const fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// The end of a node's log, in memory.
    #[must_use]
    pub fn last(&self, node: NodeId) -> Option<Position> {
        Some(self.machines.get(&node)?.node.as_ref()?.status().last)
    }

    /// The current virtual time.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Advances the virtual time.
    ///
    /// # Errors
    /// If a node refuses a message from another.
    pub fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = self.now + time;
        while let Some(next) = self.events.first_entry()
            && next.key().0 <= until
        {
            let ((moment, _), event) = next.remove_entry();
            self.now = moment;
            self.happens(event)?;
        }
        self.now = until;
        Ok(())
    }

    /// Advances the virtual time until a condition holds.
    ///
    /// # Errors
    /// If the condition does not hold within `limit`, or as for [`Self::pass`].
    pub fn pass_until(
        &mut self,
        what: &str,
        limit: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let step = Duration::from_millis(1);
        let until = self.now + limit;
        while !is_so(self) {
            if self.now >= until {
                return Err(format!("{what}: not within {limit:?}"));
            }
            self.pass(step)?;
        }
        Ok(())
    }
}
