//! Closed-loop clients of the simulated cluster: each waits for an answer before its next
//! request.

use std::time::Duration;

use bytes::Bytes;
use coeval_consensus::{NodeId, Role};
use coeval_types::Lsn;

use super::machine::{Input, Waiting};
use super::{Cluster, Event};

/// Length of a client's write, in bytes, as in the source.
const PAYLOAD: usize = 100;
/// Pause of a client before it retries when no node can serve it.
const RETRY: Duration = Duration::from_millis(10);
/// Length of a counting interval for answers.
const SLICE: Duration = Duration::from_millis(100);

/// State of the clients, and the answers they received.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    /// A client's request is a write if this divides the request's number.
    one_in_is_write: u64,
    /// Number of active clients; the others send no further request.
    asking: usize,
    /// For each client, the number of its requests, and whether it awaits an answer.
    asked: Vec<(u64, bool)>,
    writes: u64,
    reads: u64,
    /// Acknowledged writes: log position and number.
    pub(super) acknowledged: Vec<(Lsn, u64)>,
    /// Time from which answers are counted.
    begin: Duration,
    /// Number of answers in each interval.
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
    /// Sets the number of active clients from now on; one in `one_in_is_write` of their
    /// requests is a write.
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

    /// Discards earlier counts, and starts counting answers.
    pub fn begin(&mut self) {
        self.clients.begin = self.now;
        self.clients.answers.clear();
    }

    /// Number of answers in each tenth of a second.
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

    /// Sends a client's next request to a node that can serve it.
    pub(super) fn asks(&mut self, client: usize) {
        // Clients are staggered, so that they do not all write at once.
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

    /// The next node, round robin, that has all committed entries.
    fn reader(&mut self) -> Option<NodeId> {
        let whole = self.machines.iter().filter(|(_, machine)| machine.is_whole);
        let whole: Vec<NodeId> = whole.map(|(node, _)| *node).collect();
        self.clients.reads += 1;
        let turn = self.clients.reads as usize % whole.len().max(1);
        whole.get(turn).copied()
    }

    /// Makes clients retry whose requests were not served.
    pub(super) fn turn_away(&mut self, clients: impl IntoIterator<Item = usize>) {
        for client in clients {
            self.after(RETRY, Event::Ask { client });
        }
    }

    /// Proposes a client's write at the leader.
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

    /// Answers the clients whose writes are committed up to `commit`.
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
