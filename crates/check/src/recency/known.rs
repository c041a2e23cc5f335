//! What is known of the order of versions, without a graph.
//!
//! Of a list, the longest committed read is its history, and whatever was committed
//! and is not in it came behind. Of a register, a is older than b if
//!
//! - a is the initial state,
//! - the write of a was acknowledged before that of b started,
//! - b was written by a transaction that had read a, or something older that goes back
//!   to a in this way.

use std::collections::BTreeMap;

use crate::history::{History, Operation, Register, Transaction};
use crate::transactions::Unjudgeable;

/// A committed write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) transaction: usize,
    /// What a register held when its transaction read it before.
    over: Option<Register>,
}

/// All objects of one kind: by object and value, who wrote it.
type Writes = BTreeMap<(u64, i64), Write>;

/// A list or a register, with the value by which it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    List(u64),
    Register(u64),
}

/// What is known.
pub(super) struct Known<'history> {
    history: &'history History,
    pub(super) appends: Writes,
    pub(super) writes: Writes,
    /// Of every element that somebody read, its place in its list.
    places: BTreeMap<(u64, i64), usize>,
    /// How many writes each write of a register goes back to.
    depths: BTreeMap<(u64, i64), usize>,
}

impl<'history> Known<'history> {
    /// Of what committed.
    pub(super) fn new(history: &'history History) -> Result<Self, Unjudgeable> {
        let mut known = Self {
            history,
            appends: BTreeMap::new(),
            writes: BTreeMap::new(),
            places: BTreeMap::new(),
            depths: BTreeMap::new(),
        };
        let mut longest: BTreeMap<u64, &[i64]> = BTreeMap::new();
        for (index, transaction) in history.transactions.iter().enumerate() {
            if !transaction.is_committed() {
                continue;
            }
            let mut met: BTreeMap<u64, Register> = BTreeMap::new();
            for operation in &transaction.operations {
                let (writes, key, value, over) = match operation {
                    Operation::Append { key, element } => {
                        (&mut known.appends, *key, *element, None)
                    }
                    Operation::Write { key, value } => {
                        let over = met.insert(*key, Register::Value(*value));
                        (&mut known.writes, *key, *value, over)
                    }
                    Operation::ReadList {
                        key,
                        elements: Some(elements),
                    } => {
                        let longest = longest.entry(*key).or_default();
                        if elements.len() > longest.len() {
                            *longest = elements;
                        }
                        continue;
                    }
                    Operation::Read {
                        key,
                        value: Some(value),
                    } => {
                        met.insert(*key, *value);
                        continue;
                    }
                    _ => continue,
                };
                let write = Write {
                    transaction: index,
                    over,
                };
                if let Some(before) = writes.insert((key, value), write) {
                    return Err(Unjudgeable::WrittenTwice {
                        key,
                        value,
                        by: [before.transaction, index],
                    });
                }
            }
        }
        for (key, elements) in longest {
            let places = elements.iter().enumerate();
            known
                .places
                .extend(places.map(|(place, element)| ((key, *element), place)));
        }
        known.measure();
        Ok(known)
    }

    fn measure(&mut self) {
        for (key, value) in self.writes.keys() {
            // Back to one whose depth is known, or that goes back to none.
            let mut way = Vec::new();
            let mut at = *value;
            let mut depth = loop {
                if let Some(depth) = self.depths.get(&(*key, at)) {
                    break depth + 1;
                }
                // Until it is known better; this ends a history that goes in a circle.
                self.depths.insert((*key, at), 0);
                way.push(at);
                match self.writes.get(&(*key, at)).and_then(|write| write.over) {
                    Some(Register::Value(over)) => at = over,
                    Some(Register::Absent) | None => break 0,
                }
            };
            for at in way.into_iter().rev() {
                self.depths.insert((*key, at), depth);
                depth += 1;
            }
        }
    }

    /// The place of an element in its list; one that nobody read stands behind all.
    pub(super) fn place(&self, key: u64, element: i64) -> usize {
        self.places
            .get(&(key, element))
            .copied()
            .unwrap_or(usize::MAX)
    }

    /// Whether a read of a list shows an element.
    pub(super) fn shows(&self, key: u64, elements: &[i64], element: i64) -> bool {
        // At its place, unless the read is no prefix of the longest.
        elements.get(self.place(key, element)) == Some(&element) || elements.contains(&element)
    }

    /// Whether one state of a register is known to be older than another.
    pub(super) fn is_older(&self, key: u64, one: Register, than: Register) -> bool {
        let Register::Value(newer) = than else {
            return false;
        };
        let Register::Value(older) = one else {
            return true;
        };
        if older == newer {
            return false;
        }
        if let (Some(old), Some(new)) = (
            self.writes.get(&(key, older)),
            self.writes.get(&(key, newer)),
        ) && self.of(old).precedes(self.of(new))
        {
            return true;
        }
        let depth = |value| self.depths.get(&(key, value)).copied().unwrap_or(0);
        // Back from the newer, as far as the older can be.
        let mut at = newer;
        for _ in 0..depth(newer).saturating_sub(depth(older)) {
            match self.writes.get(&(key, at)).and_then(|write| write.over) {
                Some(Register::Value(over)) if over == older => return true,
                Some(Register::Value(over)) => at = over,
                Some(Register::Absent) | None => return false,
            }
        }
        false
    }

    /// The transaction of a write.
    pub(super) fn of(&self, write: &Write) -> &'history Transaction {
        &self.history.transactions[write.transaction]
    }

    /// For each state of a register that a transaction is known to have replaced: the
    /// first that was acknowledged of those that came after it in this way.
    pub(super) fn replaced(&self) -> BTreeMap<(u64, Register), Write> {
        let mut by_acknowledgement: Vec<(u64, u64, i64, Write)> = self
            .writes
            .iter()
            .filter_map(|((key, value), write)| {
                let at = self.of(write).acknowledged_at()?;
                Some((at, *key, *value, *write))
            })
            .collect();
        by_acknowledgement.sort_unstable_by_key(|(at, key, value, _)| (*at, *key, *value));
        let mut replaced = BTreeMap::new();
        for (_, key, _, write) in by_acknowledgement {
            let mut over = write.over;
            while let Some(state) = over {
                if replaced.contains_key(&(key, state)) {
                    break;
                }
                replaced.insert((key, state), write);
                over = match state {
                    Register::Absent => None,
                    Register::Value(value) => {
                        self.writes.get(&(key, value)).and_then(|write| write.over)
                    }
                };
            }
        }
        replaced
    }
}
