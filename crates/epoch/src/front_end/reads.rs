//! The reads of a front end: waiting for a timestamp, for epochs to close, for back ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coeval_council::NodeId;

use crate::answer::{Answer, Reason};
use crate::configuration::Configuration;
use crate::message::Part;
use crate::operation::{Found, Key};
use crate::outbox::Outbox;
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};

/// A read with its timestamp.
#[derive(Debug)]
struct Read {
    handle: u64,
    at: EpochTimestamp,
    /// The epochs up to this one must be closed.
    needs: Epoch,
    /// Keys without an answer.
    keys: BTreeSet<Key>,
    found: BTreeMap<Key, Found>,
    is_sent: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: VecDeque<(u64, Vec<Key>)>,
    reads: BTreeMap<u64, Read>,
    next: u64,
}

impl Reads {
    /// The numbers of an incarnation's reads are its own: answers to an earlier one's may come.
    pub(super) fn new(incarnation: u64) -> Self {
        Self {
            next: incarnation << 32,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.reads.len()
    }

    pub(super) fn wait_for_timestamp(&mut self, handle: u64, keys: Vec<Key>) {
        self.waiting.push_back((handle, keys));
    }

    pub(super) fn waits_for_timestamp(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Gives the first read that waits for one a timestamp.
    pub(super) fn timestamp(&mut self, at: EpochTimestamp, needs: Epoch) {
        if let Some((handle, keys)) = self.waiting.pop_front() {
            self.add(handle, keys, at, needs);
        }
    }

    pub(super) fn add(&mut self, handle: u64, keys: Vec<Key>, at: EpochTimestamp, needs: Epoch) {
        let read = Read {
            handle,
            at,
            needs,
            keys: keys.into_iter().collect(),
            found: BTreeMap::new(),
            is_sent: false,
        };
        self.reads.insert(self.next, read);
        self.next += 1;
    }

    /// The lowest timestamp that is being read.
    pub(super) fn oldest(&self, ignoring_all: bool) -> EpochTimestamp {
        let reads = self.reads.values().filter(|_| !ignoring_all);
        let oldest = reads.map(|read| read.at).min();
        oldest.unwrap_or(EpochTimestamp::from_bits(u64::MAX))
    }

    /// Whether a read waits for a timestamp, or for an epoch to close.
    pub(super) fn wait(&self, closed: Epoch) -> bool {
        let mut reads = self.reads.values();
        self.waits_for_timestamp() || reads.any(|read| read.needs > closed)
    }

    /// Asks back ends for what may be read: one message for each, with all its keys.
    pub(super) fn send(
        &mut self,
        id: FrontEndId,
        is_closed: impl Fn(Epoch) -> bool,
        configuration: &Configuration,
        again: bool,
        out: &mut Outbox,
    ) {
        for (number, read) in &mut self.reads {
            if !is_closed(read.needs) || read.is_sent && !again {
                continue;
            }
            read.is_sent = true;
            let mut asked: BTreeMap<NodeId, Vec<Key>> = BTreeMap::new();
            for key in &read.keys {
                if let Some(node) = configuration.copies_of(key).first() {
                    asked.entry(*node).or_default().push(key.clone());
                }
            }
            for (node, keys) in asked {
                out.say(node, Part::Get(id, *number, read.at, keys));
            }
        }
    }

    /// Takes in values, and returns the answer once all are there.
    pub(super) fn got(&mut self, number: u64, values: Vec<(Key, Found)>) -> Option<(u64, Answer)> {
        let read = self.reads.get_mut(&number)?;
        for (key, found) in values {
            if read.keys.remove(&key) {
                read.found.insert(key, found);
            }
        }
        if !read.keys.is_empty() {
            return None;
        }
        let read = self.reads.remove(&number)?;
        let found = read.found.into_iter().collect();
        Some((read.handle, Answer::Values(read.at, found)))
    }

    /// Ends a read that cannot be answered.
    pub(super) fn refuse(&mut self, number: u64, reason: Reason) -> Option<(u64, Answer)> {
        let read = self.reads.remove(&number)?;
        Some((read.handle, Answer::Aborted(reason)))
    }

    /// Ends reads below this timestamp that have not been sent: of a front end that has just
    /// been admitted, and did not know how far versions are collected.
    pub(super) fn refuse_below(&mut self, floor: EpochTimestamp) -> Vec<(u64, Answer)> {
        let is_below = |_: &u64, read: &mut Read| read.at < floor && !read.is_sent;
        let refused = self.reads.extract_if(.., is_below);
        let answer =
            |(_, read): (u64, Read)| (read.handle, Answer::Aborted(Reason::Collected(floor)));
        refused.map(answer).collect()
    }

    /// Ends reads that wait for a timestamp, or for an epoch to close: they have no effect.
    pub(super) fn refuse_waiting(&mut self, closed: Epoch) -> Vec<u64> {
        let waiting = std::mem::take(&mut self.waiting);
        let waiting = waiting.into_iter().map(|(handle, _)| handle);
        let open = self.reads.extract_if(.., |_, read| read.needs > closed);
        waiting.chain(open.map(|(_, read)| read.handle)).collect()
    }

    /// Has every read asked again: the back ends have changed.
    pub(super) fn ask_again(&mut self) {
        for read in self.reads.values_mut() {
            read.is_sent = false;
        }
    }
}
