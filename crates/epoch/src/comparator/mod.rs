//! Comparators: other protocols for the same transactions, behind the same interface ([`Engine`]),
//! on the same payloads, encodings, store and log records as epochs.
//!
//! | protocol | a write | a read | what it promises |
//! | --- | --- | --- | --- |
//! | none | one round | one round | nothing: what is the price of order at all |
//! | RAMP-Fast | prepare, commit; each version names its transaction's keys | one round, and one for what the names show to be missing | atomic visibility |
//! | RAMP-Small | prepare, commit | one round for timestamps, one for versions among them | atomic visibility |
//! | locking | two-phase locking and commit; a lock that is held aborts (NO_WAIT) | one round, which locks; then the locks go | strict serializability |
//!
//! And around any of them, or epochs, a backup for each front end ([`BackedFrontEnd`]).
//!
//! # Limits
//!
//! They are there to be measured, so they do what their protocols do while nothing fails: frames
//! arrive once and in order on each link, as a connection carries them, and no node ends. What they
//! write to the log is what recovery would need; none reads it. Versions are not collected.
//!
//! Source: Bailis et al., *Scalable Atomic Visibility with RAMP Transactions* (SIGMOD 2014);
//! Bernstein et al., *Concurrency Control and Recovery in Database Systems* (1987), chapters 3 and 7.

mod back;
mod backed;
mod front;
mod word;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use coeval_council::NodeId;

use crate::codec::Malformed;
use crate::configuration::Configuration;
use crate::engine::{Engine, Turn};
use crate::operation::{Key, Write};
use crate::timestamp::FrontEndId;
use back::Back;
pub use backed::BackedFrontEnd;
use front::Front;
use word::Word;

/// How a back end of RAMP-Small finds the version that is asked for among many timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Puts the timestamps into a set, once for each request.
    Set,
    /// Tries each timestamp for each key, as the published program does.
    List,
}

/// A comparator's protocol. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// No concurrency control.
    None,
    /// RAMP-Fast.
    RampFast,
    /// RAMP-Small.
    RampSmall(Lookup),
    /// Two-phase locking and two-phase commit, NO_WAIT.
    Locking,
}

/// A node that runs a comparator: a front end, and the copies of its partitions.
#[derive(Debug)]
pub struct ComparatorNode {
    node: NodeId,
    front: Front,
    back: Back,
    said: BTreeMap<NodeId, Vec<Word>>,
}

impl ComparatorNode {
    /// Starts a node of a cluster with these partitions.
    #[must_use]
    pub fn new(
        node: NodeId,
        front_end: FrontEndId,
        control: Control,
        configuration: &Arc<Configuration>,
    ) -> Self {
        Self {
            node,
            front: Front::new(front_end, control, Arc::clone(configuration)),
            back: Back::new(control, Arc::clone(configuration)),
            said: BTreeMap::new(),
        }
    }

    /// Transactions that were aborted because a lock was held, and began anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.front.restarts()
    }

    fn hear(&mut self, from: NodeId, word: Word) {
        let said = &mut self.said;
        let mut say = |to: NodeId, word: Word| said.entry(to).or_default().push(word);
        match word.is_for_back_end() {
            true => self.back.hear(from, word, &mut say),
            false => self.front.hear(from, word, &mut say),
        }
    }
}

impl Engine for ComparatorNode {
    fn put_all(&mut self, handle: u64, writes: Vec<Write>) {
        let said = &mut self.said;
        self.front.put_all(handle, writes, &mut |to, word| {
            said.entry(to).or_default().push(word)
        });
    }

    fn get_latest(&mut self, handle: u64, keys: Vec<Key>) {
        let said = &mut self.said;
        self.front.get_latest(handle, keys, &mut |to, word| {
            said.entry(to).or_default().push(word)
        });
    }

    fn receive(&mut self, from: NodeId, payload: Bytes) -> Result<(), Malformed> {
        for word in word::decode(payload)? {
            self.hear(from, word);
        }
        Ok(())
    }

    fn tick(&mut self) {
        let said = &mut self.said;
        self.front
            .tick(&mut |to, word| said.entry(to).or_default().push(word));
    }

    fn persisted(&mut self, number: u64) {
        let said = &mut self.said;
        let mut say = |to: NodeId, word: Word| said.entry(to).or_default().push(word);
        self.back.persisted(number, &mut say);
        self.front.persisted(number, &mut say);
    }

    fn take(&mut self) -> Turn {
        // What it says to itself is heard at once.
        while let Some(own) = self.said.remove(&self.node) {
            own.into_iter().for_each(|word| self.hear(self.node, word));
        }
        let write = self.back.take_records(self.front.take_decisions());
        if let Some(write) = &write {
            self.front.wait_for(write.number);
        }
        let said = std::mem::take(&mut self.said).into_iter();
        Turn {
            payloads: said.map(|(to, words)| (to, word::encode(&words))).collect(),
            answers: self.front.take_answers(),
            writes: write.into_iter().collect(),
            ..Turn::default()
        }
    }
}
