//! One simulated node: consensus, disk, network interface, and queues of pending work.

use std::collections::VecDeque;
use std::time::Duration;

use coeval_consensus::{Consensus, Fetch, Message, Role, Write};
use coeval_types::Lsn;

use super::disk::Disk;
use super::model::Model;
use super::nic::Nic;

/// Greatest number of inputs that a node handles in one batch.
const MAX_AT_ONCE: usize = 64;

/// An input of a node.
#[derive(Clone, Debug)]
pub(super) enum Input {
    Message(Message),
    Tick,
    Persisted(u64),
    Fetched(Fetch),
    Write { client: usize },
    Read { client: usize },
}

impl Input {
    /// CPU time that the input costs.
    pub(super) fn cost(&self, model: &Model) -> Duration {
        match self {
            Self::Message(message) => model.handling(message),
            Self::Write { .. } => model.write,
            Self::Read { .. } => model.read,
            Self::Fetched(fetch) => model.entry * u32::try_from(fetch.entries).unwrap_or(u32::MAX),
            Self::Tick | Self::Persisted(_) => Duration::ZERO,
        }
    }

    pub(super) const fn client(&self) -> Option<usize> {
        match self {
            Self::Write { client } | Self::Read { client } => Some(*client),
            Self::Message(_) | Self::Tick | Self::Persisted(_) | Self::Fetched(_) => None,
        }
    }
}

/// A client's write that is in the log and not yet committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) client: usize,
    pub(super) number: u64,
    pub(super) end: Lsn,
}

/// A node. Everything except its disk is lost in a crash.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) node: Option<Consensus>,
    pub(super) disk: Disk,
    /// Number of the current life: events of an earlier one are ignored.
    pub(super) life: u64,
    pub(super) inbox: VecDeque<Input>,
    /// Inputs that the processor is handling.
    pub(super) round: Vec<Input>,
    pub(super) writes: VecDeque<Write>,
    /// Writes that the disk is performing.
    pub(super) writing: Vec<Write>,
    pub(super) nic: Nic,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) role: Role,
    /// Time until which the threads that apply entries are busy.
    pub(super) applying: Duration,
    /// Log position up to which entries have been passed to those threads.
    pub(super) handed: Lsn,
    /// Whether the node has all committed entries, and may serve reads.
    pub(super) is_whole: bool,
}

impl Machine {
    pub(super) fn new(disk: Disk) -> Self {
        Self {
            node: None,
            disk,
            life: 0,
            inbox: VecDeque::new(),
            round: Vec::new(),
            writes: VecDeque::new(),
            writing: Vec::new(),
            nic: Nic::default(),
            waiting: VecDeque::new(),
            role: Role::Follower,
            applying: Duration::ZERO,
            handed: Lsn(0),
            is_whole: false,
        }
    }

    /// Loses the volatile state. Returns the clients that waited for it.
    pub(super) fn crash(&mut self) -> Vec<usize> {
        let lost = self.inbox.iter().chain(&self.round);
        let mut clients: Vec<usize> = lost.filter_map(Input::client).collect();
        clients.extend(self.waiting.iter().map(|waiting| waiting.client));
        let disk = self.disk.clone();
        let life = self.life + 1;
        *self = Self::new(disk);
        self.life = life;
        clients
    }

    /// Starts handling pending inputs, if the processor is idle. Returns whether it did.
    pub(super) fn begin_round(&mut self) -> bool {
        if !self.round.is_empty() || self.inbox.is_empty() || self.node.is_none() {
            return false;
        }
        let count = self.inbox.len().min(MAX_AT_ONCE);
        self.round = self.inbox.drain(..count).collect();
        true
    }

    /// Starts all pending writes, which share one sync, if the disk is idle. Returns
    /// whether it did.
    pub(super) fn begin_writing(&mut self) -> bool {
        if !self.writing.is_empty() || self.writes.is_empty() {
            return false;
        }
        self.writing = self.writes.drain(..).collect();
        true
    }
}
