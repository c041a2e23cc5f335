//! The front end of a comparator: rounds of writes and of reads.
//!
//! Timestamps are a counter and the front end's number. The counter is never behind what was seen
//! in an answer, so the timestamps of all front ends grow together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use coeval_council::NodeId;

use super::Control;
use super::word::{Version, Word};
use crate::answer::{Answer, Reason};
use crate::configuration::Configuration;
use crate::message::Piece;
use crate::operation::{Found, Key, Write};
use crate::timestamp::{EpochTimestamp, FrontEndId};

/// A write-only transaction.
#[derive(Debug)]
struct Put {
    handle: u64,
    writes: Vec<Write>,
    back_ends: BTreeSet<NodeId>,
    /// Back ends that have not answered in this round.
    awaits: BTreeSet<NodeId>,
    at: EpochTimestamp,
    is_refused: bool,
    attempts: u64,
}

/// A read-only transaction.
#[derive(Debug)]
struct Get {
    handle: u64,
    keys: Vec<Key>,
    /// Back ends that have not answered in this round, and those that hold locks.
    awaits: BTreeSet<NodeId>,
    locked: BTreeSet<NodeId>,
    found: BTreeMap<Key, Version>,
    stamps: Vec<(Key, EpochTimestamp)>,
    is_refused: bool,
    is_second: bool,
    attempts: u64,
}

/// A transaction that begins anew in so many ticks.
#[derive(Debug)]
struct Again {
    ticks: u64,
    handle: u64,
    what: Request,
    attempts: u64,
}

#[derive(Debug)]
enum Request {
    Put(Vec<Write>),
    Get(Vec<Key>),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Front {
    id: FrontEndId,
    control: Control,
    configuration: Arc<Configuration>,
    counter: u64,
    next: u64,
    puts: BTreeMap<u64, Put>,
    gets: BTreeMap<u64, Get>,
    again: VecDeque<Again>,
    /// Decisions of two-phase commit that are not handed out as records, and those that wait for
    /// a write.
    decided: Vec<u64>,
    writing: BTreeMap<u64, Vec<u64>>,
    answers: Vec<(u64, Answer)>,
    restarts: u64,
}

impl Front {
    pub(super) fn new(id: FrontEndId, control: Control, configuration: Arc<Configuration>) -> Self {
        Self {
            id,
            control,
            configuration,
            counter: 0,
            next: 1,
            puts: BTreeMap::new(),
            gets: BTreeMap::new(),
            again: VecDeque::new(),
            decided: Vec::new(),
            writing: BTreeMap::new(),
            answers: Vec::new(),
            restarts: 0,
        }
    }

    pub(super) fn restarts(&self) -> u64 {
        self.restarts
    }

    pub(super) fn take_answers(&mut self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut self.answers)
    }

    fn draw(&mut self) -> EpochTimestamp {
        self.counter += 1;
        EpochTimestamp::from_bits(self.counter << 8 | u64::from(self.id.0))
    }

    fn saw(&mut self, at: EpochTimestamp) {
        self.counter = self.counter.max(at.to_bits() >> 8);
    }

    pub(super) fn put_all(
        &mut self,
        handle: u64,
        writes: Vec<Write>,
        say: &mut impl FnMut(NodeId, Word),
    ) {
        let keys: BTreeSet<&Key> = writes.iter().map(|write| &write.key).collect();
        match writes.is_empty() || keys.len() != writes.len() {
            true => self.answers.push((handle, Answer::Aborted(Reason::Form))),
            false => self.begin_put(handle, writes, 0, say),
        }
    }

    pub(super) fn get_latest(
        &mut self,
        handle: u64,
        keys: Vec<Key>,
        say: &mut impl FnMut(NodeId, Word),
    ) {
        match keys.is_empty() {
            true => self.answers.push((handle, Answer::Aborted(Reason::Form))),
            false => self.begin_get(handle, keys, 0, say),
        }
    }

    fn begin_put(
        &mut self,
        handle: u64,
        writes: Vec<Write>,
        attempts: u64,
        say: &mut impl FnMut(NodeId, Word),
    ) {
        let (number, at) = (self.next, self.draw());
        self.next += 1;
        let mut pieces: BTreeMap<NodeId, Vec<Write>> = BTreeMap::new();
        for write in &writes {
            for node in self.configuration.copies_of(&write.key) {
                pieces.entry(*node).or_default().push(write.clone());
            }
        }
        let siblings: Arc<Vec<Key>> = match self.control {
            Control::RampFast => Arc::new(writes.iter().map(|write| write.key.clone()).collect()),
            _ => Arc::default(),
        };
        let back_ends: BTreeSet<NodeId> = pieces.keys().copied().collect();
        let put = Put {
            handle,
            writes,
            awaits: back_ends.clone(),
            back_ends,
            at,
            is_refused: false,
            attempts,
        };
        self.puts.insert(number, put);
        for (node, writes) in pieces {
            let siblings = Arc::clone(&siblings);
            say(node, Word::Prepare(number, at, Arc::new(writes), siblings));
        }
    }

    fn begin_get(
        &mut self,
        handle: u64,
        keys: Vec<Key>,
        attempts: u64,
        say: &mut impl FnMut(NodeId, Word),
    ) {
        let number = self.next;
        self.next += 1;
        let asked = self.by_node(keys.iter().cloned(), |key| key);
        let get = Get {
            handle,
            keys,
            awaits: asked.keys().copied().collect(),
            locked: BTreeSet::new(),
            found: BTreeMap::new(),
            stamps: Vec::new(),
            is_refused: false,
            is_second: false,
            attempts,
        };
        self.gets.insert(number, get);
        for (node, keys) in asked {
            say(node, Word::Read(number, keys));
        }
    }

    /// Divides things among the nodes that are read for their keys.
    fn by_node<T>(
        &self,
        all: impl Iterator<Item = T>,
        key: impl Fn(&T) -> &Key,
    ) -> BTreeMap<NodeId, Vec<T>> {
        let mut divided: BTreeMap<NodeId, Vec<T>> = BTreeMap::new();
        for one in all {
            if let Some(node) = self.configuration.copies_of(key(&one)).first() {
                divided.entry(*node).or_default().push(one);
            }
        }
        divided
    }

    pub(super) fn hear(&mut self, from: NodeId, word: Word, say: &mut impl FnMut(NodeId, Word)) {
        match word {
            Word::Prepared(number, newest) => {
                if let Some(newest) = newest {
                    self.saw(newest);
                }
                if let Some(put) = self.puts.get_mut(&number) {
                    put.is_refused |= newest.is_none();
                    put.awaits.remove(&from);
                    if put.awaits.is_empty() {
                        self.prepared(number, say);
                    }
                }
            }
            Word::Done(number) => {
                let Some(put) = self.puts.get_mut(&number) else {
                    return;
                };
                put.awaits.remove(&from);
                if put.awaits.is_empty()
                    && let Some(put) = self.puts.remove(&number)
                {
                    self.end_put(put);
                }
            }
            Word::Found(number, versions) => self.found((from, number), versions, say),
            Word::Stamps(number, stamps) => {
                stamps.iter().for_each(|(_, at)| self.saw(*at));
                if let Some(get) = self.gets.get_mut(&number) {
                    get.awaits.remove(&from);
                    get.stamps.extend(stamps);
                    if get.awaits.is_empty() {
                        self.read_among(number, say);
                    }
                }
            }
            _ => {}
        }
    }

    /// All back ends have answered in a put's first round.
    fn prepared(&mut self, number: u64, say: &mut impl FnMut(NodeId, Word)) {
        let Some(put) = self.puts.get_mut(&number) else {
            return;
        };
        if put.is_refused {
            put.awaits = put.back_ends.clone();
            return put
                .back_ends
                .iter()
                .for_each(|node| say(*node, Word::Abort(number)));
        }
        match self.control {
            Control::None => {
                if let Some(put) = self.puts.remove(&number) {
                    self.end_put(put);
                }
            }
            Control::RampFast | Control::RampSmall(_) => self.commit(number, say),
            // With the locks held, it has a timestamp above all that its keys have; and it is decided
            // when the record of that is on the disk.
            Control::Locking => {
                let at = self.draw();
                if let Some(put) = self.puts.get_mut(&number) {
                    put.at = at;
                    self.decided.push(number);
                }
            }
        }
    }

    fn commit(&mut self, number: u64, say: &mut impl FnMut(NodeId, Word)) {
        if let Some(put) = self.puts.get_mut(&number) {
            put.awaits = put.back_ends.clone();
            for node in &put.back_ends {
                say(*node, Word::Commit(number, put.at));
            }
        }
    }

    fn end_put(&mut self, put: Put) {
        if put.is_refused {
            return self.begin_again(put.handle, Request::Put(put.writes), put.attempts + 1);
        }
        self.answers.push((put.handle, Answer::Committed(put.at)));
    }

    /// Waits longer after each attempt, and not as long as the others.
    fn begin_again(&mut self, handle: u64, what: Request, attempts: u64) {
        self.restarts += 1;
        let ticks = 1 + attempts.min(8) * (u64::from(self.id.0) + handle) % 7;
        self.again.push_back(Again {
            ticks,
            handle,
            what,
            attempts,
        });
    }

    pub(super) fn tick(&mut self, say: &mut impl FnMut(NodeId, Word)) {
        for mut again in std::mem::take(&mut self.again) {
            again.ticks -= 1;
            if again.ticks > 0 {
                self.again.push_back(again);
                continue;
            }
            match again.what {
                Request::Put(writes) => self.begin_put(again.handle, writes, again.attempts, say),
                Request::Get(keys) => self.begin_get(again.handle, keys, again.attempts, say),
            }
        }
    }

    /// Records of decisions, to be written with what this node's back end writes.
    pub(super) fn take_decisions(&self) -> Vec<Piece> {
        let record = |number: &u64| {
            let put = self.puts.get(number)?;
            Some(Piece {
                at: put.at,
                size: put.writes.len() as u32,
                writes: Arc::default(),
            })
        };
        self.decided.iter().filter_map(record).collect()
    }

    /// The decisions are in this write.
    pub(super) fn wait_for(&mut self, write: u64) {
        let decided = std::mem::take(&mut self.decided);
        self.writing.insert(write, decided);
    }

    /// Log writes up to this number are on the disk, and the decisions in them.
    pub(super) fn persisted(&mut self, number: u64, say: &mut impl FnMut(NodeId, Word)) {
        let rest = self.writing.split_off(&(number + 1));
        let decided = std::mem::replace(&mut self.writing, rest);
        for number in decided.into_values().flatten() {
            self.commit(number, say);
        }
    }

    fn found(
        &mut self,
        (from, number): (NodeId, u64),
        versions: Option<Vec<Version>>,
        say: &mut impl FnMut(NodeId, Word),
    ) {
        for version in versions.iter().flatten() {
            self.saw(version.at);
        }
        let Some(get) = self.gets.get_mut(&number) else {
            return;
        };
        get.awaits.remove(&from);
        match versions {
            Some(versions) => {
                get.locked.insert(from);
                for version in versions {
                    get.found.insert(version.key.clone(), version);
                }
            }
            None => get.is_refused = true,
        }
        if !get.awaits.is_empty() {
            return;
        }
        if self.control == Control::RampFast && !get.is_second {
            get.is_second = true;
            let missing = missing(&get.found);
            if !missing.is_empty() {
                let asked = self.by_node(missing.into_iter(), |(key, _)| key);
                if let Some(get) = self.gets.get_mut(&number) {
                    get.awaits = asked.keys().copied().collect();
                }
                for (node, wanted) in asked {
                    say(node, Word::Exactly(number, wanted));
                }
                return;
            }
        }
        if let Some(get) = self.gets.remove(&number) {
            self.end_get(number, get, say);
        }
    }

    fn end_get(&mut self, number: u64, get: Get, say: &mut impl FnMut(NodeId, Word)) {
        if self.control == Control::Locking {
            get.locked
                .iter()
                .for_each(|node| say(*node, Word::Release(number)));
        }
        if get.is_refused {
            return self.begin_again(get.handle, Request::Get(get.keys), get.attempts + 1);
        }
        let newest = get.found.values().map(|version| version.at).max();
        let values: Vec<(Key, Found)> = get
            .found
            .into_values()
            .map(|version| (version.key, version.found))
            .collect();
        let answer = Answer::Values(newest.unwrap_or_default(), values);
        self.answers.push((get.handle, answer));
    }

    /// The second round of RAMP-Small: the newest version of each key among all timestamps.
    fn read_among(&mut self, number: u64, say: &mut impl FnMut(NodeId, Word)) {
        let Some(get) = self.gets.get(&number) else {
            return;
        };
        let stamps: BTreeSet<EpochTimestamp> = get.stamps.iter().map(|(_, at)| *at).collect();
        let stamps: Vec<EpochTimestamp> = stamps.into_iter().collect();
        let asked = self.by_node(get.keys.iter().cloned(), |key| key);
        if let Some(get) = self.gets.get_mut(&number) {
            get.awaits = asked.keys().copied().collect();
        }
        for (node, keys) in asked {
            say(node, Word::Among(number, keys, stamps.clone()));
        }
    }
}

/// The versions that transactions have which are seen in part, by RAMP-Fast's first round.
fn missing(found: &BTreeMap<Key, Version>) -> Vec<(Key, EpochTimestamp)> {
    let mut wanted: BTreeMap<&Key, EpochTimestamp> = BTreeMap::new();
    for version in found.values() {
        for sibling in version.siblings.iter() {
            let newest = wanted.entry(sibling).or_default();
            *newest = version.at.max(*newest);
        }
    }
    let missing = found.iter().filter_map(|(key, version)| {
        let at = *wanted.get(key)?;
        (at > version.at).then(|| (key.clone(), at))
    });
    missing.collect()
}
