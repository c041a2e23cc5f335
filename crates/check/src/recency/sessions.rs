//! The judge of sessions: no client goes back in time.
//!
//! Of every process, and every object by itself:
//!
//! - **Monotonic reads**: it never reads an older state than it has read before.
//! - **Read your writes**: it never reads a state older than its own acknowledged write.
//!
//! ```text
//! process 3    read x: [1 2]     read x: [1]          went back behind 2
//! process 4    append 7 to y     read y: [5]          does not see its own
//! ```
//!
//! Only what is certain counts. A list only grows, so who loses one element of it goes
//! back, whatever else is shown. Of a register, a state is older than another
//!
//! - if a transaction read (or wrote) the one and then wrote the other, whichever
//!   process did so, and what follows from such steps: no level permits them to be in
//!   another order,
//! - if this process has met the one and then the other: it goes forward.
//!
//! So who returns to a state after another one has gone back, whatever the order of the
//! two. That one write had been acknowledged before another began says nothing here: the
//! order of blind writes of several processes is what the database makes of it, unless it
//! promises to respect real time, which [`recency`](super) asks.
//!
//! ```text
//! process 1    write 2 to z
//! process 2                   write 1 to z     read z: 2      process 1 may have come last
//! process 2    read z: 2      read z: 1        read z: 2      went back behind 1
//! ```
//!
//! All that a process has met stays with it. Of two processes that meet two states in
//! opposite orders one has gone back, and nobody knows which: that is left to
//! [`transactions`](crate::transactions), as cyclic versions.
//!
//! Source: Terry, Demers, Petersen, Spreitzer, Theimer and Welch, "Session Guarantees
//! for Weakly Consistent Replicated Data", 1994.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::known::{Appends, Shown};
use super::registers::{Registers, State};
use crate::history::{History, Operation, Register};
use crate::transactions::Unjudgeable;

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// What was seen once is seen from then on.
    MonotonicReads,
    /// What was done is seen.
    ReadYourWrites,
}

/// A client that went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WentBack {
    /// The promise.
    pub guarantee: Guarantee,
    /// The earlier transaction, by its place in the history.
    pub earlier: usize,
    /// The later one of the same process, that read an older state.
    pub later: usize,
    /// The object.
    pub key: u64,
    /// What the earlier one saw or wrote.
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

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many processes there are.
    pub processes: usize,
    /// How many reads were looked at.
    pub reads: usize,
    /// In the order of processes, then of time.
    pub went_back: Vec<WentBack>,
}

/// A value that a process saw or wrote.
#[derive(Clone, Copy, Debug)]
struct Met {
    value: i64,
    by: usize,
    wrote: bool,
}

/// What a process has met of a list: each element once, in the order of meeting.
#[derive(Default)]
struct MetList {
    elements: Vec<Met>,
    values: BTreeSet<i64>,
}

impl MetList {
    /// The first of them that a read does not show. All before it are shown, so this
    /// takes no more steps than the read has elements, and one.
    fn missing(&self, shown: &Shown) -> Option<&Met> {
        self.elements.iter().find(|met| !shown.has(met.value))
    }

    fn meet(&mut self, met: Met) {
        if self.values.insert(met.value) {
            self.elements.push(met);
        }
    }
}

/// What a process has met of a register.
#[derive(Default)]
struct MetRegister {
    /// By the numbers of states, with the turn of the first meeting.
    states: BTreeMap<u32, (usize, Met)>,
    turns: usize,
    /// The state that was met last, and the last meeting of any other one, with its turn.
    last: Option<(u32, Met)>,
    other: Option<(usize, Met)>,
}

impl MetRegister {
    /// One that a state is older than.
    fn newer_than(&self, registers: &Registers, state: State) -> Option<&Met> {
        let over = self.states.range(registers.over(state)).next_back();
        over.map(|(_, (_, met))| met)
            .or_else(|| self.left(registers.place(state)))
    }

    /// What came after the first meeting of a state, and is another.
    fn left(&self, state: u32) -> Option<&Met> {
        let (first, _) = self.states.get(&state)?;
        let (last, met) = self.last.as_ref()?;
        if *last != state {
            return Some(met);
        }
        let (turn, met) = self.other.as_ref()?;
        (turn > first).then_some(met)
    }

    fn meet(&mut self, registers: &Registers, state: State, met: Met) {
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

/// One process, as far as it has come.
#[derive(Default)]
struct Process {
    lists: BTreeMap<u64, MetList>,
    registers: BTreeMap<u64, MetRegister>,
}

/// Judges every process.
///
/// # Errors
/// When a value was written twice.
pub fn judge(history: &History) -> Result<Report, Unjudgeable> {
    let registers = Registers::new(history)?;
    // That no element was appended twice.
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
            // What a transaction does itself is the business of other judges.
            process.look_back(&registers, index, operations, &mut shown, &mut report);
            process.go_on(&registers, index, operations);
        }
    }
    Ok(report)
}

impl Process {
    /// Compares a transaction's reads with what was met before it.
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

    /// Takes in what a transaction saw and wrote.
    fn go_on(&mut self, registers: &Registers, by: usize, operations: &[Operation]) {
        let met = |value, wrote| Met { value, by, wrote };
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
