//! Clients that each wait for an answer before they ask again.

use std::time::Duration;

use bytes::Bytes;
use coeval_consensus::{NodeId, Role};
use coeval_types::Lsn;

use super::machine::{Input, Waiting};
use super::{Cluster, Event};

/// What a client writes: its bytes, as in the source.
const PAYLOAD: usize = 100;
/// A client that finds nobody to serve it asks again after this.
const RETRY: Duration = Duration::from_millis(10);
/// Answers are counted by so much time.
const SLICE: Duration = Duration::from_millis(100);

/// What clients do, and what they have been told.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    /// What each asks next is a write if this divides its number.
    one_in_is_write: u64,
    /// How many ask; others that wait for an answer do not ask again.
    asking: usize,
    /// Of each, how often it has asked, and whether it waits.
    asked: Vec<(u64, bool)>,
    writes: u64,
    reads: u64,
    /// Writes that were acknowledged: place and number.
    pub(super) acknowledged: Vec<(Lsn, u64)>,
    /// From when on answers are counted.
    begin: Duration,
    /// Answers in each slice of time.
    pub(super) answers: Vec<u64>,
}

impl Clients {
    pub(super) const fn new() -> Self {
        Self {
            one_in_is_write: 1,
            asking: 0,
            asked: Vec::new(),
            writes: 0,
            reads: 0,
            acknowledged: Vec::new(),
            begin: Duration::ZERO,
            answers: Vec::new(),
        }
    }
}

/// The bytes of the write with this number.
pub(super) fn payload(number: u64) -> Bytes {
    let mut bytes = vec![0; PAYLOAD];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes.into()
}

impl Cluster {
    /// So many clients ask from now on; of what each asks, one in so many is a write.
    pub fn load(&mut self, clients: usize, one_in_is_write: u64) {
        self.clients.one_in_is_write = one_in_is_write.max(1);
        self.clients.asking = clients;
        if self.clients.asked.len() < clients {
            self.clients.asked.resize(clients, (0, false));
        }
        for client in 0..clients {
            self.ask(client);
        }
    }

    /// Answers are counted from now on.
    pub fn begin(&mut self) {
        self.clients.begin = self.now;
        self.clients.answers.clear();
    }

    /// Answers that clients have had, by tenths of a second.
    #[must_use]
    pub fn answers(&self) -> &[u64] {
        &self.clients.answers
    }

    fn ask(&mut self, client: usize) {
        let (asked, waits) = &mut self.clients.asked[client];
        if client < self.clients.asking && !*waits {
            *asked += 1;
            *waits = true;
            self.after(Duration::ZERO, Event::Ask { client });
        }
    }

    /// Sends what a client asks to whoever may serve it.
    pub(super) fn asks(&mut self, client: usize) {
        // Not all of them write at once.
        let turn = self.clients.asked[client].0 + client as u64;
        let input = if turn.is_multiple_of(self.clients.one_in_is_write) {
            Input::Write { client }
        } else {
            Input::Read { client }
        };
        let node = match input {
            Input::Write { .. } => self.leader(),
            _ => self.reader(),
        };
        match node {
            Some(node) => self.after(self.model.one_way, Event::Request { node, input }),
            None => self.after(RETRY, Event::Ask { client }),
        }
    }

    /// The next node that has everything.
    fn reader(&mut self) -> Option<NodeId> {
        let whole = self.machines.iter().filter(|(_, machine)| machine.is_whole);
        let whole: Vec<NodeId> = whole.map(|(node, _)| *node).collect();
        self.clients.reads += 1;
        let turn = self.clients.reads as usize % whole.len().max(1);
        whole.get(turn).copied()
    }

    /// Those were not served.
    pub(super) fn turn_away(&mut self, clients: impl IntoIterator<Item = usize>) {
        for client in clients {
            self.after(RETRY, Event::Ask { client });
        }
    }

    /// A client's write has come to the leader.
    pub(super) fn propose(&mut self, node: NodeId, client: usize) {
        self.clients.writes += 1;
        let number = self.clients.writes;
        let machine = self.machine(node);
        let position = machine
            .node
            .as_mut()
            .and_then(|consensus| consensus.propose(payload(number)).ok());
        match position {
            Some(position) => machine.waiting.push_back(Waiting {
                client,
                number,
                end: position.end,
            }),
            None => self.turn_away([client]),
        }
    }

    /// So much is committed: those who waited for it are told.
    pub(super) fn acknowledge(&mut self, node: NodeId, commit: Lsn) {
        let is_leader = matches!(self.machine(node).role, Role::Leader { .. });
        while is_leader
            && let machine = self.machine(node)
            && let Some(waiting) = machine.waiting.front().copied()
            && waiting.end <= commit
        {
            machine.waiting.pop_front();
            let place = Lsn(waiting.end.0 - 1);
            self.clients.acknowledged.push((place, waiting.number));
            self.answer(waiting.client);
        }
    }

    pub(super) fn answer(&mut self, client: usize) {
        self.after(self.model.one_way, Event::Answer { client });
    }

    pub(super) fn answered(&mut self, client: usize) {
        let time = self.now - self.clients.begin;
        let slice = (time.as_nanos() / SLICE.as_nanos()) as usize;
        if self.clients.answers.len() <= slice {
            self.clients.answers.resize(slice + 1, 0);
        }
        self.clients.answers[slice] += 1;
        self.clients.asked[client].1 = false;
        self.ask(client);
    }
}
