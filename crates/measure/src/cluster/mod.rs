//! Nodes of `coeval_consensus` on a virtual clock, with clients, disks and a network that
//! have prices.
//!
//! ```text
//!   clients ──requests──▶ inbox ─▶ processor ─▶ Consensus ─▶ ready ─┬─▶ way out ─▶ inboxes
//!      ▲                    ▲      (rounds)                         ├─▶ disk ─┐
//!      │                    └───────────────────────────────────────┼─────────┘ persisted
//!      └────────────────────────────────────────────────────────────┴─ committed ─▶ applied
//! ```
//!
//! The nodes are the real code; what is around it is modelled ([`Model`]):
//!
//! - *processor*: one for each node. It takes on up to 64 of what waits in its inbox, works
//!   for as long as they cost together, and hands out what follows from all of them. So a
//!   busy leader batches, and a message waits behind the clients before it;
//! - *disk*: one write at a time; those that wait share one flush;
//! - *network*: each node's way out has a width, which receivers share by turns; then a
//!   delay. Nothing is lost but at a node that is cut off or down. Clients have a network of
//!   their own;
//! - *clients*: each waits for its answer. Writes go to the leader, reads in turn to nodes
//!   that have everything;
//! - *applying*: beside the processor, so much for each entry, in order.
//!
//! An entry takes one place of the log ([`Spacing::Entries`]), so places are the LSNs of FRS.
//! A recovering node may have real [`Files`]: then its writes, and the leader's reads for it,
//! take as long as they took. Without, a run comes out the same every time.
//!
//! Invariant: whatever a node says about its disk is on [`Disk`] before; a crash loses all
//! but that.
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

/// What happens at a moment.
#[derive(Clone, Debug)]
enum Event {
    /// A message comes to its receiver.
    Arrives(Message),
    /// A client's request comes to a node.
    Request { node: NodeId, input: Input },
    /// A client asks.
    Ask { client: usize },
    /// A client has its answer.
    Answer { client: usize },
    /// Something of a node's own, in one of its lives.
    Own { node: NodeId, life: u64, own: Own },
}

/// What a node has to do with itself.
#[derive(Clone, Debug)]
enum Own {
    Tick,
    RoundEnds,
    WriteEnds,
    Sent,
    Read(Fetch),
    Applied(Lsn),
}

/// Nodes, clients, and what is between them.
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

/// Three voters.
#[must_use]
pub fn three() -> Membership {
    Membership::new((1..=3).map(NodeId), [])
}

/// A log that has been written already: entries in these terms, each begun by its mark and
/// as long as said, the mark included.
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

/// The disk of a node that takes part with two others, has this log, and knows that it is
/// committed up to here.
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
    /// Nodes 1, 2 … with these disks, all of them down.
    #[must_use]
    pub fn new(model: Model, method: Method, disks: impl IntoIterator<Item = Disk>) -> Self {
        let settings = Settings {
            recovery: method,
            spacing: Spacing::Entries,
            // Counted in places, as everything is with this spacing.
            window_space: 1 << 16,
            recent_space: 1 << 19,
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

    /// The recovering node and its leader have these files from here on. With `writes_anew`
    /// the node writes all that it receives while it recovers, aside and in its place.
    pub fn use_files(&mut self, files: Arc<Files>, writes_anew: bool) {
        self.files = Some(files);
        self.writes_anew = writes_anew;
    }

    /// Messages from this node take so much longer.
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

    /// Starts a node with what its disk has.
    ///
    /// # Errors
    /// When that cannot be.
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

    /// Starts a node that has all that is committed.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_whole(&mut self, node: NodeId) -> Result<(), String> {
        self.start(node)?;
        self.machine(node).is_whole = true;
        Ok(())
    }

    /// Starts a node again, without its commit point if that is lost, and watches how it
    /// recovers.
    ///
    /// # Errors
    /// As [`Self::watch`] and [`Self::start`].
    pub fn restart(&mut self, node: NodeId, commit_is_lost: bool) -> Result<(), String> {
        if commit_is_lost {
            self.machine(node).disk.forget_commit();
        }
        self.watch(node)?;
        self.start(node)
    }

    /// Watches from now on how a node gets rid of what is not the leader's.
    ///
    /// # Errors
    /// When nobody leads.
    pub fn watch(&mut self, node: NodeId) -> Result<(), String> {
        let leader = self.leader().ok_or("nobody leads")?;
        let disk = &self.machines[&node].disk;
        let diverges = disk.parts_from(&self.machines[&leader].disk);
        self.recovery = Some(Recovery::new(node, disk.end(), disk.commit(), diverges));
        Ok(())
    }

    /// Takes a node down.
    pub fn kill(&mut self, node: NodeId) {
        let clients = self.machine(node).crash();
        self.turn_away(clients);
    }

    /// Nothing arrives from this node, nor at it.
    pub fn cut_off(&mut self, node: NodeId) {
        self.cut_off.insert(node);
    }

    /// It does again.
    pub fn reconnect(&mut self, node: NodeId) {
        self.cut_off.remove(&node);
    }

    /// Who serves in the newest term.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        let serving = self.machines.iter().filter_map(|(node, machine)| {
            let consensus = machine.node.as_ref()?;
            let serves = machine.role == Role::Leader { serving: true };
            serves.then(|| (consensus.role().term, *node))
        });
        serving.max().map(|(_, node)| node)
    }

    /// The recovery that is watched.
    #[must_use]
    pub const fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// The end of a node's log, in memory.
    #[must_use]
    pub fn last(&self, node: NodeId) -> Option<Position> {
        Some(self.machines.get(&node)?.node.as_ref()?.status().last)
    }

    /// What the clock shows.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Lets so much time pass.
    ///
    /// # Errors
    /// When a node refuses what another sent.
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

    /// Lets time pass until something is so.
    ///
    /// # Errors
    /// When it is not within `limit`, or as [`Self::pass`].
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
