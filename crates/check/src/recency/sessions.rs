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
//! As with [`recency`](super), only what is certain counts.
//!
//! Source: Terry, Demers, Petersen, Spreitzer, Theimer and Welch, "Session Guarantees
//! for Weakly Consistent Replicated Data", 1994.

use std::collections::BTreeMap;
use std::fmt;

use super::known::{Known, Object};
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
    /// What the earlier one saw or wrote last.
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

/// What a process saw or wrote last in an object.
#[derive(Clone, Copy)]
struct Met {
    value: i64,
    by: usize,
    wrote: bool,
}

/// Judges every process.
///
/// # Errors
/// When a value was written twice.
pub fn judge(history: &History) -> Result<Report, Unjudgeable> {
    let known = Known::new(history)?;
    let mut by_process: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, transaction) in history.transactions.iter().enumerate() {
        if transaction.is_committed() {
            by_process
                .entry(transaction.process)
                .or_default()
                .push(index);
        }
    }
    let mut report = Report {
        processes: by_process.len(),
        ..Report::default()
    };
    for mut transactions in by_process.into_values() {
        transactions.sort_by_key(|index| history.transactions[*index].started);
        let mut met: BTreeMap<Object, Met> = BTreeMap::new();
        for index in transactions {
            for operation in &history.transactions[index].operations {
                step(&known, index, operation, &mut met, &mut report);
            }
        }
    }
    Ok(report)
}

fn step(
    known: &Known<'_>,
    index: usize,
    operation: &Operation,
    met: &mut BTreeMap<Object, Met>,
    report: &mut Report,
) {
    let key = operation.key();
    let (object, seen) = match operation {
        Operation::Append { element: value, .. } => {
            let wrote = Met {
                value: *value,
                by: index,
                wrote: true,
            };
            met.insert(Object::List(key), wrote);
            return;
        }
        Operation::Write { value, .. } => {
            let wrote = Met {
                value: *value,
                by: index,
                wrote: true,
            };
            met.insert(Object::Register(key), wrote);
            return;
        }
        Operation::ReadList {
            elements: Some(elements),
            ..
        } => {
            let object = Object::List(key);
            let is_back = |before: &Met| !known.shows(key, elements, before.value);
            let back = met.get(&object).filter(|before| is_back(before));
            note(back, index, key, report);
            (object, elements.last().copied())
        }
        Operation::Read {
            value: Some(value), ..
        } => {
            let object = Object::Register(key);
            let is_back = |before: &Met| known.is_older(key, *value, Register::Value(before.value));
            let back = met.get(&object).filter(|before| is_back(before));
            note(back, index, key, report);
            let seen = match value {
                Register::Absent => None,
                Register::Value(value) => Some(*value),
            };
            (object, seen)
        }
        _ => return,
    };
    report.reads += 1;
    match seen {
        Some(value) if met.get(&object).is_none_or(|before| before.value != value) => {
            let saw = Met {
                value,
                by: index,
                wrote: false,
            };
            met.insert(object, saw);
        }
        _ => {}
    }
}

/// What a transaction does itself is the business of other judges.
fn note(back: Option<&Met>, later: usize, key: u64, report: &mut Report) {
    if let Some(before) = back.filter(|before| before.by != later) {
        report.went_back.push(WentBack {
            guarantee: if before.wrote {
                Guarantee::ReadYourWrites
            } else {
                Guarantee::MonotonicReads
            },
            earlier: before.by,
            later,
            key,
            value: before.value,
        });
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
    fn who_only_goes_on_is_not_accused() {
        let text = "{:type :ok :process 0 :value [[:append 1 1] [:r 1 [1]]]}
                    {:type :ok :process 1 :value [[:r 1 [1]] [:append 1 2] [:r 1 [1 2]]]}
                    {:type :ok :process 0 :value [[:r 1 [1 2]]]}
                    {:type :ok :process 2 :value [[:r 1 []]]}";
        assert_eq!(found(text), []);
    }
}
