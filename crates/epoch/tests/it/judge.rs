//! The judges: what every client was told, and every version that was ever closed, replayed in the
//! order of the timestamps on a map.

use std::collections::BTreeMap;

use coeval_epoch::{
    Answer, Checkpoint, Epoch, EpochTimestamp, Found, History, Key, Operation, Write,
};

/// A write-only transaction. Its values are its handle, so that each names its writer.
#[derive(Clone, Debug)]
pub struct PutSeen {
    pub writes: Vec<Write>,
    pub begun: u64,
    pub answer: Option<(Answer, u64)>,
}

/// A read-only transaction.
#[derive(Clone, Debug)]
pub struct GetSeen {
    pub begun: u64,
    pub answer: Option<(Answer, u64)>,
    pub is_latest: bool,
}

#[derive(Debug, Default)]
pub struct Judge {
    pub puts: BTreeMap<u64, PutSeen>,
    pub gets: BTreeMap<u64, GetSeen>,
    /// Everything closed, as the first copy that showed it had it.
    closed: BTreeMap<EpochTimestamp, BTreeMap<Key, Operation>>,
    /// How much of the history of each partition is known, and its content by epoch.
    epochs: BTreeMap<(usize, u64), History>,
    /// Up to here only the newest version of each key is known: the rest is in no log any more.
    forgotten: Epoch,
    pub objections: Vec<String>,
}

pub fn value_of(handle: u64) -> Operation {
    Operation::Value(handle.to_le_bytes().to_vec().into())
}

fn handle_in(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

impl Judge {
    fn object(&mut self, judge: &str, what: String) {
        self.objections.push(format!("{judge}: {what}"));
    }

    /// What is known of epochs whose log is gone: the newest versions at their end.
    pub fn base(&mut self, through: Epoch, versions: &BTreeMap<Key, (EpochTimestamp, Operation)>) {
        self.forgotten = through;
        for (key, (at, operation)) in versions {
            let versions = self.closed.entry(*at).or_default();
            versions.insert(key.clone(), operation.clone());
        }
    }

    fn is_forgotten(&self, at: EpochTimestamp) -> bool {
        at.epoch() <= self.forgotten
    }

    /// A node shows the versions of a partition in one closed epoch.
    pub fn shown(&mut self, node: u64, partition: usize, epoch: u64, history: History) {
        match self.epochs.get(&(partition, epoch)) {
            None => {
                for (at, key, operation) in &history {
                    let versions = self.closed.entry(*at).or_default();
                    versions.insert(key.clone(), operation.clone());
                }
                self.epochs.insert((partition, epoch), history);
            }
            Some(known) if *known == history => {}
            Some(known) => {
                let what = format!(
                    "node {node} has {history:?} of partition {partition} in epoch {epoch}, and an \
                     earlier copy {known:?}"
                );
                self.object("copies", what);
            }
        }
    }

    /// A node shows all that its copy of a partition holds at the end of a closed epoch.
    pub fn image(&mut self, node: u64, shown: &Checkpoint, is_in: impl Fn(&Key) -> bool) {
        let end = EpochTimestamp::end_of(shown.epoch);
        let mut expected: BTreeMap<&Key, (EpochTimestamp, &Operation)> = BTreeMap::new();
        for (at, versions) in self.closed.range(..=end) {
            let versions = versions.iter().filter(|(key, _)| is_in(key));
            expected.extend(versions.map(|(key, operation)| (key, (*at, operation))));
        }
        expected.retain(|_, (_, operation)| **operation != Operation::Delete);
        let versions = shown.versions.iter().filter(|(key, ..)| is_in(key));
        let found: BTreeMap<&Key, (EpochTimestamp, &Operation)> = versions
            .map(|(key, at, operation)| (key, (*at, operation)))
            .collect();
        if found != expected {
            let epoch = shown.epoch;
            let what =
                format!("node {node} holds {found:?} at the end of {epoch}, not {expected:?}");
            self.object("copies", what);
        }
    }

    pub fn answered(&mut self, handle: u64, answer: Answer, step: u64) {
        let answer = Some((answer, step));
        if let Some(put) = self.puts.get_mut(&handle) {
            if put.answer.is_none() {
                put.answer = answer;
            }
        } else if let Some(get) = self.gets.get_mut(&handle) {
            get.answer = answer;
        }
    }

    /// Judges everything, once all epochs of all answers are closed.
    pub fn settle(&mut self) {
        self.judge_transactions();
        self.judge_reads();
        self.judge_order();
    }

    /// Every transaction is there whole or not at all, as its client was told.
    fn judge_transactions(&mut self) {
        let mut wrong = Vec::new();
        let mut placed: BTreeMap<u64, EpochTimestamp> = BTreeMap::new();
        for (at, versions) in &self.closed {
            if self.is_forgotten(*at) {
                continue;
            }
            let handles = versions.values().filter_map(|operation| match operation {
                Operation::Value(bytes) => handle_in(bytes),
                _ => None,
            });
            let mut handles: Vec<u64> = handles.collect();
            handles.dedup();
            let [handle] = handles[..] else {
                wrong.push(("replay", format!("{at} is of the transactions {handles:?}")));
                continue;
            };
            let Some(put) = self.puts.get(&handle) else {
                continue;
            };
            let writes = put.writes.iter();
            let writes = writes.map(|write| (write.key.clone(), write.operation.clone()));
            let whole: BTreeMap<Key, Operation> = writes.collect();
            if *versions != whole {
                let (has, of) = (versions.len(), whole.len());
                wrong.push(("torn", format!("{at} has {has} of {of} operations")));
            }
            if let Some(before) = placed.insert(handle, *at) {
                wrong.push(("replay", format!("{handle} is at {before} and at {at}")));
            }
        }
        for (handle, put) in &self.puts {
            match (&put.answer, placed.get(handle)) {
                (Some((Answer::Committed(at), _)), _) if self.is_forgotten(*at) => {}
                (Some((Answer::Committed(at), _)), found) if found != Some(at) => {
                    wrong.push((
                        "ledger",
                        format!("{handle} committed at {at}, is {found:?}"),
                    ));
                }
                (Some((Answer::Aborted(reason), _)), Some(at)) => {
                    wrong.push(("invented", format!("{handle} is at {at}: {reason}")));
                }
                _ => {}
            }
        }
        for (judge, what) in wrong {
            self.object(judge, what);
        }
    }

    /// What the map holds at this timestamp.
    fn at(&self, key: &Key, at: EpochTimestamp) -> (EpochTimestamp, Found) {
        let before = self.closed.range(..=at).rev();
        let mut versions = before.filter_map(|(at, versions)| Some((*at, versions.get(key)?)));
        let newest = versions.next();
        newest.map_or(
            (EpochTimestamp::default(), Found::Nothing),
            |(at, found)| (at, Found::from(found)),
        )
    }

    /// The transaction that wrote a value, and its timestamp.
    fn writer(&self, found: &Found) -> Option<(u64, EpochTimestamp)> {
        let Found::Value(bytes) = found else {
            return None;
        };
        let writer = handle_in(bytes)?;
        let first = &self.puts.get(&writer)?.writes.first()?.key;
        let value = value_of(writer);
        let is_its = |versions: &BTreeMap<Key, Operation>| versions.get(first) == Some(&value);
        let mut closed = self.closed.iter();
        let placed = closed.find(|(_, versions)| is_its(versions));
        placed.map(|(at, _)| (writer, *at))
    }

    fn judge_reads(&mut self) {
        let mut wrong = Vec::new();
        for (handle, get) in &self.gets {
            let Some((Answer::Values(at, values), _)) = &get.answer else {
                continue;
            };
            if self.is_forgotten(*at) {
                continue;
            }
            // Of a transaction that is seen, nothing older is seen.
            for (key, found) in values {
                let found = self.writer(found);
                let Some((writer, at)) = found.filter(|(_, at)| !self.is_forgotten(*at)) else {
                    continue;
                };
                for write in &self.puts[&writer].writes {
                    let other = values.iter().find(|(other, _)| *other == write.key);
                    let seen = other.map(|(_, seen)| self.writer(seen).map(|(_, at)| at));
                    if seen.is_some_and(|seen| seen.unwrap_or_default() < at) {
                        let what = format!("{handle} sees {key:?} of {writer} and not all of it");
                        wrong.push(("atomic visibility", what));
                    }
                }
            }
            for (key, found) in values {
                let (version, expected) = self.at(key, *at);
                if *found != expected {
                    let what = format!(
                        "{handle} at {at} finds {found:?} under {key:?}, and {version} is \
                         {expected:?}"
                    );
                    wrong.push(("replay", what));
                }
            }
        }
        for (judge, what) in wrong {
            self.object(judge, what);
        }
    }

    /// What begins after another was answered has the higher timestamp. Two readers of one epoch
    /// may have theirs in any order: in an epoch of reads nothing is written between them.
    fn judge_order(&mut self) {
        let stamp = |answer: &Option<(Answer, u64)>| match answer {
            Some((Answer::Committed(at) | Answer::Values(at, _), step)) => Some((*at, *step)),
            _ => None,
        };
        let puts = self.puts.values();
        let puts = puts.map(|put| (put.begun, false, stamp(&put.answer)));
        let gets = self.gets.values().filter(|get| get.is_latest);
        let gets = gets.map(|get| (get.begun, true, stamp(&get.answer)));
        let all: Vec<(u64, bool, EpochTimestamp, u64)> = puts
            .chain(gets)
            .filter_map(|(begun, reads, stamp)| stamp.map(|(at, ended)| (begun, reads, at, ended)))
            .collect();
        let mut wrong = Vec::new();
        for (begun, reads, at, _) in &all {
            let before = all.iter().filter(|(_, _, _, ended)| ended < begun);
            let conflict = before.filter(|(_, other_reads, other, _)| match reads & other_reads {
                true => other.epoch() > at.epoch(),
                false => other >= at,
            });
            for (_, _, other, ended) in conflict.take(1) {
                wrong.push(format!(
                    "{at} begins at step {begun}, {other} was answered at {ended}"
                ));
            }
        }
        for what in wrong {
            self.object("recency", what);
        }
    }
}
