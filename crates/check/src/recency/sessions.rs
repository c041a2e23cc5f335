//! The session judge: checks the session guarantees of each client.
//!
//! For every process, and every object by itself:
//!
//! - **Monotonic reads**: the process never reads an older state than it has read before.
//! - **Read your writes**: it never reads a state older than its own acknowledged write.
//!
//! ```text
//! process 3    read x: [1 2]     read x: [1]          went back before 2
//! process 4    append 7 to y     read y: [5]          does not see its own write
//! ```
//!
//! The judge reports only certain violations. A list only grows, so a process that loses
//! one element goes back in time, whatever else the read contains. A register's state is
//! older than another
//!
//! - if a transaction read (or wrote) the one and then wrote the other, in whatever
//!   process, or if a chain of such steps leads from one to the other: no level permits
//!   another order,
//! - if this process has seen the one and then the other: it must go forward.
//!
//! So a process that returns to a state after another one has gone back, whatever the order
//! of the two. That one write was acknowledged before another began proves nothing here:
//! the database may order blind writes of several processes as it likes, unless it
//! guarantees real time, which [`recency`](super) checks.
//!
//! ```text
//! process 1    write 2 to z
//! process 2                   write 1 to z     read z: 2      process 1 may have come last
//! process 2    read z: 2      read z: 1        read z: 2      went back before 1
//! ```
//!
//! The judge remembers everything that a process has seen. If two processes see two states
//! in opposite orders, one of them has gone back, but it is unknown which: the judge leaves
//! that to [`transactions`](crate::transactions), which reports cyclic versions.
//!
//! Source: Terry, Demers, Petersen, Spreitzer, Theimer and Welch, "Session Guarantees
//! for Weakly Consistent Replicated Data", 1994.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::known::{Appends, Shown};
use super::registers::{Registers, State};
use crate::history::{History, Operation, Register};
use crate::transactions::Unjudgeable;

/// A session guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// A state that the process has read is visible to it from then on.
    MonotonicReads,
    /// The process's own writes are visible to it.
    ReadYourWrites,
}

/// Violation: a client read an older state than it had seen or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WentBack {
    /// The violated guarantee.
    pub guarantee: Guarantee,
    /// The earlier transaction, by its index in the history.
    pub earlier: usize,
    /// The later transaction of the same process, which read an older state.
    pub later: usize,
    /// The key of the object.
    pub key: u64,
    /// The value that the earlier transaction saw or wrote.
    pub value: i64,
}

impl fmt::Display for WentBack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            earlier,
            later,
            key,
            value,
            guarantee,
        } = self;
        let (name, did) = match guarantee {
            Guarantee::MonotonicReads => ("monotonic reads", "saw"),
            Guarantee::ReadYourWrites => ("read your writes", "wrote"),
        };
        write!(
            formatter,
            "{name}: T{earlier} {did} {value} in key {key}, and T{later} of the same process read \
             it without that"
        )
    }
}

/// Result of the session judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of processes in the history.
    pub processes: usize,
    /// Number of reads that were checked.
    pub reads: usize,
    /// The violations, by process, then by time.
    pub went_back: Vec<WentBack>,
}

/// A value that a process saw or wrote, and the transaction in which it did.
#[derive(Clone, Copy, Debug)]
struct Observation {
    value: i64,
    by: usize,
    wrote: bool,
}

/// The elements of a list that a process has seen, each once, in the order of first sight.
#[derive(Default)]
struct MetList {
    elements: Vec<Observation>,
    values: BTreeSet<i64>,
}

impl MetList {
    /// The first seen element that a read does not contain. The read contains all before
    /// it, so this takes at most one step more than the read has elements.
    fn missing(&self, shown: &Shown) -> Option<&Observation> {
        self.elements.iter().find(|met| !shown.has(met.value))
    }

    fn meet(&mut self, met: Observation) {
        if self.values.insert(met.value) {
            self.elements.push(met);
        }
    }
}

/// The states of a register that a process has seen.
#[derive(Default)]
struct MetRegister {
    /// The states seen, by preorder number; each with the turn of its first sight.
    states: BTreeMap<u32, (usize, Observation)>,
    turns: usize,
    /// The state that was seen last, and the latest sight of any other one, with its turn.
    last: Option<(u32, Observation)>,
    other: Option<(usize, Observation)>,
}

impl MetRegister {
    /// A state that the process has seen and that is newer than this one.
    fn newer_than(&self, registers: &Registers, state: State) -> Option<&Observation> {
        let over = self.states.range(registers.over(state)).next_back();
        over.map(|(_, (_, met))| met)
            .or_else(|| self.left(registers.place(state)))
    }

    /// A different state that the process has seen after its first sight of this one.
    fn left(&self, state: u32) -> Option<&Observation> {
        let (first, _) = self.states.get(&state)?;
        let (last, met) = self.last.as_ref()?;
        if *last != state {
            return Some(met);
        }
        let (turn, met) = self.other.as_ref()?;
        (turn > first).then_some(met)
    }

    fn meet(&mut self, registers: &Registers, state: State, met: Observation) {
        let state = registers.place(state);
        self.turns += 1;
        self.states.entry(state).or_insert((self.turns, met));
        if let Some((last, before)) = self.last
            && last != state
        {
            self.other = Some((self.turns - 1, before));
        }
        self.last = Some((state, met));
    }
}

/// The states that one process has seen so far.
#[derive(Default)]
struct Process {
    lists: BTreeMap<u64, MetList>,
    registers: BTreeMap<u64, MetRegister>,
}

/// Checks every process.
///
/// # Errors
/// When a value was written twice.
pub fn judge(history: &History) -> Result<Report, Unjudgeable> {
    let registers = Registers::new(history)?;
    // Fails if an element was appended twice.
    Appends::new(history)?;
    let mut by_process: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, transaction) in history.transactions.iter().enumerate() {
        if transaction.is_committed() {
            let of_process = by_process.entry(transaction.process).or_default();
            of_process.push(index);
        }
    }
    let mut report = Report {
        processes: by_process.len(),
        ..Report::default()
    };
    let mut shown = Shown::default();
    for mut transactions in by_process.into_values() {
        transactions.sort_by_key(|index| history.transactions[*index].started);
        let mut process = Process::default();
        for index in transactions {
            let operations = &history.transactions[index].operations;
            // Other judges check what a transaction sees of its own operations.
            process.look_back(&registers, index, operations, &mut shown, &mut report);
            process.go_on(&registers, index, operations);
        }
    }
    Ok(report)
}

impl Process {
    /// Compares a transaction's reads with what the process had seen before it.
    fn look_back(
        &self,
        registers: &Registers,
        later: usize,
        operations: &[Operation],
        shown: &mut Shown,
        report: &mut Report,
    ) {
        for operation in operations {
            let before = match operation {
                Operation::ReadList {
                    key,
                    elements: Some(elements),
                } => self.lists.get(key).and_then(|list| {
                    shown.set(elements);
                    list.missing(shown)
                }),
                Operation::Read {
                    key,
                    value: Some(value),
                } => self.registers.get(key).and_then(|register| {
                    let state = registers.find(*key, *value)?;
                    register.newer_than(registers, state)
                }),
                _ => continue,
            };
            report.reads += 1;
            report.went_back.extend(before.map(|before| WentBack {
                guarantee: if before.wrote {
                    Guarantee::ReadYourWrites
                } else {
                    Guarantee::MonotonicReads
                },
                earlier: before.by,
                later,
                key: operation.key(),
                value: before.value,
            }));
        }
    }

    /// Adds the states that a transaction saw and wrote.
    fn go_on(&mut self, registers: &Registers, by: usize, operations: &[Operation]) {
        let met = |value, wrote| Observation { value, by, wrote };
        for operation in operations {
            match operation {
                Operation::Append { key, element } => {
                    let list = self.lists.entry(*key).or_default();
                    list.meet(met(*element, true));
                }
                Operation::ReadList {
                    key,
                    elements: Some(elements),
                } => {
                    let list = self.lists.entry(*key).or_default();
                    for element in elements {
                        list.meet(met(*element, false));
                    }
                }
                Operation::Write { key, value }
                | Operation::Read {
                    key,
                    value: Some(Register::Value(value)),
                } => {
                    if let Some(state) = registers.find(*key, Register::Value(*value)) {
                        let register = self.registers.entry(*key).or_default();
                        register.meet(registers, state, met(*value, operation.is_write()));
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Format, read};

    fn found(text: &str) -> Vec<(Guarantee, usize, usize)> {
        let history = read(text.as_bytes(), Format::Edn).unwrap();
        let report = judge(&history).unwrap();
        let went_back = report.went_back.iter();
        went_back
            .map(|one| (one.guarantee, one.earlier, one.later))
            .collect()
    }

    #[test]
    fn lists_that_shrink_are_seen() {
        let text = "{:type :ok :process 0 :value [[:append 1 1]]}
                    {:type :ok :process 0 :value [[:append 1 2]]}
                    {:type :ok :process 1 :value [[:r 1 [1 2]]]}
                    {:type :ok :process 2 :value [[:r 1 [1]]]}
                    {:type :ok :process 1 :value [[:r 1 [1]]]}
                    {:type :ok :process 0 :value [[:r 1 [1]]]}";
        assert_eq!(
            found(text),
            [
                (Guarantee::ReadYourWrites, 1, 5),
                (Guarantee::MonotonicReads, 2, 4)
            ]
        );
    }

    #[test]
    fn a_list_that_loses_an_element_is_seen() {
        let text = "{:type :ok :process 0 :value [[:append 1 5]]}
                    {:type :ok :process 1 :value [[:append 1 6]]}
                    {:type :ok :process 0 :value [[:r 1 [5 6]]]}
                    {:type :ok :process 1 :value [[:r 1 [5 6]]]}
                    {:type :ok :process 0 :value [[:r 1 [6]]]}
                    {:type :ok :process 1 :value [[:r 1 [6]]]}";
        assert_eq!(
            found(text),
            [
                (Guarantee::ReadYourWrites, 0, 4),
                (Guarantee::MonotonicReads, 3, 5)
            ]
        );
    }

    #[test]
    fn registers_that_go_back_are_seen() {
        let text = "{:type :ok :process 0 :value [[:w 1 1]]}
                    {:type :ok :process 1 :value [[:r 1 1]]}
                    {:type :ok :process 0 :value [[:r 1 1] [:w 1 2]]}
                    {:type :ok :process 1 :value [[:r 1 2]]}
                    {:type :ok :process 1 :value [[:r 1 1]]}
                    {:type :ok :process 0 :value [[:r 1 nil]]}
                    {:type :ok :process 2 :value [[:r 1 nil]]}";
        assert_eq!(
            found(text),
            [
                (Guarantee::ReadYourWrites, 2, 5),
                (Guarantee::MonotonicReads, 3, 4)
            ]
        );
    }

    #[test]
    fn blind_writes_of_several_processes_have_no_order() {
        let text = "{:type :ok :process 1 :value [[:w 3 2]]}
                    {:type :ok :process 2 :value [[:w 3 1]]}
                    {:type :ok :process 2 :value [[:r 3 2]]}";
        assert_eq!(found(text), []);
    }

    #[test]
    fn who_returns_to_a_state_goes_back() {
        let text = "{:type :ok :process 1 :value [[:w 3 2]]}
                    {:type :ok :process 2 :value [[:r 3 2]]}
                    {:type :ok :process 2 :value [[:w 3 1]]}
                    {:type :ok :process 2 :value [[:r 3 2]]}
                    {:type :ok :process 1 :value [[:r 3 1]]}
                    {:type :ok :process 1 :value [[:r 3 1]]}
                    {:type :ok :process 1 :value [[:r 3 2]]}";
        assert_eq!(
            found(text),
            [
                (Guarantee::MonotonicReads, 5, 6),
                (Guarantee::ReadYourWrites, 2, 3)
            ]
        );
    }

    #[test]
    fn who_only_goes_on_is_not_accused() {
        let text = "{:type :ok :process 0 :value [[:append 1 1] [:r 1 [1]]]}
                    {:type :ok :process 1 :value [[:r 1 [1]] [:append 1 2] [:r 1 [1 2]]]}
                    {:type :ok :process 0 :value [[:r 1 [1 2]]]}
                    {:type :ok :process 2 :value [[:r 1 []]]}";
        assert_eq!(found(text), []);
    }
}
