//! The known order of a register's states, as a tree.
//!
//! A transaction that reads a and then writes b puts b *over* a. Each write is over at most
//! one state, so these steps form a tree under the initial state, and a is an ancestor of b
//! exactly if b's preorder number is in the range of a's subtree:
//!
//! ```text
//!                                  state     initial   1   2   4   3   5
//! initial ─┬─ 1 ─┬─ 2 ─── 4        number    0         1   2   3   4   5
//!          │     └─ 3              up to     5         4   3   3   4   5
//!          └─ 5
//!                                  1 is older than 4: 3 is one of 1 to 4
//! ```
//!
//! For [`recency`](super) alone, real time adds further steps: a is older than b when a's
//! write was acknowledged before b's started. Such a step may follow and precede steps of
//! the tree. For a read of a, the judge needs the first acknowledged state of all that are
//! newer. It is in a's subtree, or it is the first state that started, or has an ancestor
//! that started, after a had been acknowledged. So each state has a time
//!
//! - `since`: the latest start among its ancestors and itself.
//!
//! (A state that follows in time another state of a's subtree was acknowledged after that
//! one. A second step of time adds nothing: a reader of a value finished after its write
//! had started. In histories in which values are read before they are written, the judge
//! finds less than it could; other judges report those.)
//!
//! Writes of unknown outcome are in the tree, since other transactions may have seen them.
//! Those of aborted transactions are not.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::known::{Write, all, may_be_seen};
use crate::history::{History, Operation, Register};
use crate::transactions::Unjudgeable;

/// Denotes the absence of a state.
const NONE: u32 = u32::MAX;

/// A state, by its index among all.
pub(super) type State = u32;

/// The known facts about one state.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The state that this one is over.
    over: State,
    /// When the state's write was acknowledged; `u64::MAX` when it never was.
    acknowledged: u64,
    since: u64,
    /// Preorder numbers of the state itself and of the last one in its subtree.
    number: u32,
    last: u32,
    /// The first acknowledged state of the subtree, without the state itself.
    replaced_by: State,
}

/// The states of all registers that are written.
pub(super) struct Registers {
    /// Sorted by key; the initial state of each register is first.
    states: Vec<(u64, Register)>,
    writers: Vec<usize>,
    known: Vec<Known>,
    /// The acknowledged states by key, then by time of acknowledgement; each with the
    /// greatest `since` up to it.
    by_time: Vec<(u64, u64, State, u64)>,
}

impl Registers {
    pub(super) fn new(history: &History) -> Result<Self, Unjudgeable> {
        let mut writes = all(history, |operation| match operation {
            Operation::Write { key, value } => Some((*key, *value)),
            _ => None,
        })?;
        writes.retain(|write| may_be_seen(history, write));
        // Each write may add an initial state.
        if writes.len() > NONE as usize / 2 {
            return Err(Unjudgeable::TooLarge);
        }
        let mut registers = Self {
            states: Vec::new(),
            writers: Vec::new(),
            known: Vec::new(),
            by_time: Vec::new(),
        };
        for of_key in writes.chunk_by(|a, b| a.key == b.key) {
            registers.add(history, of_key);
        }
        registers.put_over(history);
        let order = registers.number();
        registers.spread(&order);
        registers.sort_by_time();
        Ok(registers)
    }

    fn add(&mut self, history: &History, of_key: &[Write]) {
        let initial = self.states.len();
        let initial = State::try_from(initial).expect("few enough writes");
        let key = of_key[0].key;
        let mut add = |state, writer, over, started, acknowledged| {
            self.states.push((key, state));
            self.writers.push(writer);
            self.known.push(Known {
                over,
                acknowledged,
                since: started,
                number: NONE,
                last: 0,
                replaced_by: NONE,
            });
        };
        add(Register::Absent, usize::MAX, NONE, 0, u64::MAX);
        for write in of_key {
            let transaction = &history.transactions[write.transaction];
            let at = transaction.acknowledged_at().unwrap_or(u64::MAX);
            let state = Register::Value(write.value);
            add(state, write.transaction, initial, transaction.started, at);
        }
    }

    /// The index of a state; `None` if no transaction wrote it.
    pub(super) fn find(&self, key: u64, state: Register) -> Option<State> {
        let place = self.states.binary_search(&(key, state)).ok()?;
        u32::try_from(place).ok()
    }

    /// The transaction that wrote a state, and the value; `None` for the initial state.
    pub(super) fn write(&self, state: State) -> Option<(usize, i64)> {
        match self.states[state as usize].1 {
            Register::Absent => None,
            Register::Value(value) => Some((self.writers[state as usize], value)),
        }
    }

    fn at(&self, state: State) -> &Known {
        &self.known[state as usize]
    }

    /// Records which write is over which state.
    fn put_over(&mut self, history: &History) {
        for transaction in &history.transactions {
            let mut met: BTreeMap<u64, State> = BTreeMap::new();
            for operation in &transaction.operations {
                let (key, state, writes) = match operation {
                    Operation::Write { key, value } => (*key, Register::Value(*value), true),
                    Operation::Read {
                        key,
                        value: Some(state),
                    } => (*key, *state, false),
                    _ => continue,
                };
                // A state that an aborted transaction or none wrote is not part of the
                // order.
                let Some(state) = self.find(key, state) else {
                    met.remove(&key);
                    continue;
                };
                if let Some(before) = met.insert(key, state)
                    && writes
                    && before != state
                {
                    self.known[state as usize].over = before;
                }
            }
        }
    }

    /// Numbers all states in preorder, and returns them in that order. Where writes form a
    /// cycle, the step that closes it is dropped.
    fn number(&mut self) -> Vec<State> {
        let count = self.states.len();
        let mut first = vec![0_u32; count + 1];
        for known in self.known.iter().filter(|known| known.over != NONE) {
            first[known.over as usize + 1] += 1;
        }
        for place in 0..count {
            first[place + 1] += first[place];
        }
        let mut free = first.clone();
        let mut below = vec![NONE; first[count] as usize];
        for (state, known) in (0..).zip(&self.known) {
            if known.over != NONE {
                let place = &mut free[known.over as usize];
                below[*place as usize] = state;
                *place += 1;
            }
        }
        let mut order = Vec::with_capacity(count);
        let mut stack: Vec<State> = Vec::new();
        let roots = (0..)
            .zip(&self.known)
            .filter(|(_, known)| known.over == NONE);
        let roots: Vec<State> = roots.map(|(state, _)| state).collect();
        let every = 0..State::try_from(count).expect("few enough writes");
        for root in roots.into_iter().chain(every) {
            if self.at(root).number != NONE {
                continue;
            }
            self.known[root as usize].over = NONE;
            stack.push(root);
            while let Some(state) = stack.pop() {
                let number = State::try_from(order.len()).expect("few enough writes");
                let known = &mut self.known[state as usize];
                (known.number, known.last) = (number, number);
                order.push(state);
                let range = first[state as usize] as usize..first[state as usize + 1] as usize;
                // The root of a cycle is also below another of its members.
                stack.extend(below[range].iter().filter(|state| **state != root));
            }
        }
        order
    }

    /// Propagates `since` down the trees, and the first acknowledged state up.
    fn spread(&mut self, order: &[State]) {
        for state in order {
            let known = *self.at(*state);
            if known.over != NONE {
                let since = self.at(known.over).since;
                // Otherwise the state would be later than itself.
                if since <= known.acknowledged {
                    self.known[*state as usize].since = known.since.max(since);
                }
            }
        }
        for state in order.iter().rev() {
            let known = *self.at(*state);
            if known.over == NONE {
                continue;
            }
            let below = match known.replaced_by {
                NONE => *state,
                other if self.at(other).acknowledged < known.acknowledged => other,
                _ => *state,
            };
            let first = self.at(below).acknowledged;
            let replaced_by = self.at(known.over).replaced_by;
            let is_first = replaced_by == NONE || first < self.at(replaced_by).acknowledged;
            let over = &mut self.known[known.over as usize];
            over.last = over.last.max(known.last);
            if is_first {
                over.replaced_by = below;
            }
        }
    }

    fn sort_by_time(&mut self) {
        self.by_time = (0..)
            .zip(self.states.iter().zip(&self.known))
            .filter(|(_, (_, known))| known.acknowledged != u64::MAX)
            .map(|(state, ((key, _), known))| (*key, known.acknowledged, state, known.since))
            .collect();
        self.by_time.sort_unstable();
        for place in 1..self.by_time.len() {
            let (before, since) = (self.by_time[place - 1], self.by_time[place].3);
            if before.0 == self.by_time[place].0 {
                self.by_time[place].3 = since.max(before.3);
            }
        }
    }

    /// The first acknowledged of all states that are newer than `state`, with the time of
    /// acknowledgement, if that was before `moment`.
    pub(super) fn missing(&self, state: State, moment: u64) -> Option<(u64, State)> {
        let key = self.states[state as usize].0;
        let known = self.at(state);
        let by_tree = (known.replaced_by != NONE).then_some(known.replaced_by);
        let first = self.by_time.partition_point(|(of, ..)| *of < key);
        let of_key = &self.by_time[first..];
        let place =
            of_key.partition_point(|(of, _, _, since)| *of == key && *since <= known.acknowledged);
        let by_time = of_key.get(place).filter(|(of, ..)| *of == key);
        let candidates = by_tree
            .into_iter()
            .chain(by_time.map(|(_, _, state, _)| *state));
        candidates
            .map(|state| (self.at(state).acknowledged, state))
            .filter(|(at, _)| *at < moment)
            .min()
    }

    /// The preorder number of a state.
    pub(super) fn place(&self, state: State) -> u32 {
        self.at(state).number
    }

    /// The range of preorder numbers of all states over a state.
    pub(super) fn over(&self, state: State) -> (Bound<u32>, Bound<u32>) {
        let known = self.at(state);
        (Bound::Excluded(known.number), Bound::Included(known.last))
    }
}
