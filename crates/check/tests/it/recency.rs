//! Tests of the recency and session judges against their definitions, on small random
//! histories.
//!
//! Here, the test finds older states by following every step of every kind, and missed
//! writes by checking every pair of a read and a write.

use std::collections::BTreeSet;

use coeval_check::history::{History, Operation, Outcome, Register, Transaction};
use coeval_check::recency::{self, sessions};

use super::store::{self, Isolation, Random};

/// The known order of states: pairs (older, newer) of one key.
type Order = BTreeSet<(u64, Register, Register)>;

/// Readers that missed a write: transaction, key, delay.
type Late = Vec<(usize, u64, u64)>;

/// Readers that went back: transaction, key.
type Back = Vec<(usize, u64)>;

/// Writes that may have been seen, with their transactions.
fn writes(history: &History) -> Vec<(u64, Register, &Transaction)> {
    let transactions = history.transactions.iter();
    let transactions = transactions.filter(|one| one.outcome != Outcome::Aborted);
    let writes = transactions.flat_map(|one| {
        one.operations
            .iter()
            .filter_map(move |operation| match operation {
                Operation::Write { key, value } => Some((*key, Register::Value(*value), one)),
                _ => None,
            })
    });
    writes.collect()
}

/// Every step from a state to a newer one, and their transitive closure; including steps of
/// time, where they count.
fn order(history: &History, in_real_time: bool) -> Order {
    let writes = writes(history);
    let mut order = Order::new();
    for (key, state, transaction) in &writes {
        order.insert((*key, Register::Absent, *state));
        for (other, newer, later) in &writes {
            if in_real_time && key == other && transaction.precedes(later) {
                order.insert((*key, *state, *newer));
            }
        }
        let place = |operation: &Operation| match operation {
            Operation::Write { key: of, value } => (of, Register::Value(*value)) == (key, *state),
            _ => false,
        };
        let place = transaction.operations.iter().position(place).unwrap();
        let before = transaction.operations[..place].iter().rev();
        let over = before.filter(|operation| operation.key() == *key);
        let over = over.filter_map(|operation| match operation {
            Operation::Write { value, .. } => Some(Register::Value(*value)),
            Operation::Read { value, .. } => *value,
            _ => None,
        });
        order.extend(over.take(1).map(|over| (*key, over, *state)));
    }
    let states: BTreeSet<_> = order
        .iter()
        .flat_map(|(key, a, b)| [(*key, *a), (*key, *b)])
        .collect();
    for (key, via) in &states {
        for (of, from) in states.iter().filter(|(of, _)| of == key) {
            for (_, to) in states.iter().filter(|(of, _)| of == key) {
                let steps = [(*of, *from, *via), (*of, *via, *to)];
                if steps.iter().all(|step| order.contains(step)) {
                    order.insert((*of, *from, *to));
                }
            }
        }
    }
    order
}

fn goes_in_a_circle(order: &Order) -> bool {
    order.iter().any(|(_, a, b)| a == b)
}

/// Whether a read does not contain a write that it must contain.
fn lacks(order: &Order, read: &Operation, write: &Operation) -> bool {
    if read.key() != write.key() {
        return false;
    }
    match (read, write) {
        (
            Operation::ReadList {
                elements: Some(elements),
                ..
            },
            Operation::Append { element, .. },
        ) => !elements.contains(element),
        (
            Operation::Read {
                key,
                value: Some(value),
            },
            Operation::Write { value: newer, .. },
        ) => order.contains(&(*key, *value, Register::Value(*newer))),
        _ => false,
    }
}

/// The staleness of each read, by reader and key.
fn missed(history: &History, order: &Order) -> Late {
    let mut missed = Vec::new();
    for (place, reader) in history.transactions.iter().enumerate() {
        if !reader.is_committed() || reader.writes() {
            continue;
        }
        for read in &reader.operations {
            let writers = history.transactions.iter();
            let late = writers
                .filter(|writer| writer.precedes(reader))
                .filter(|writer| {
                    let mut operations = writer.operations.iter();
                    operations.any(|write| lacks(order, read, write))
                });
            let late = late.filter_map(Transaction::acknowledged_at).min();
            missed.extend(late.map(|at| (place, read.key(), reader.started - at)));
        }
    }
    missed
}

/// The writes that an operation reads or makes.
fn met(operation: &Operation) -> Vec<Operation> {
    match operation {
        Operation::ReadList {
            key,
            elements: Some(elements),
        } => elements
            .iter()
            .map(|element| Operation::Append {
                key: *key,
                element: *element,
            })
            .collect(),
        Operation::Read {
            key,
            value: Some(Register::Value(value)),
        } => vec![Operation::Write {
            key: *key,
            value: *value,
        }],
        operation if operation.is_write() => vec![operation.clone()],
        _ => Vec::new(),
    }
}

/// Whether a read returns a state that the process has seen before, with another in
/// between.
fn returns(history: &History, met: &[Operation], read: &Operation) -> bool {
    let Operation::Read {
        key,
        value: Some(value),
    } = read
    else {
        return false;
    };
    let writes = writes(history);
    let is_state = |state: &Register| writes.iter().any(|(of, it, _)| (of, it) == (key, state));
    let met: Vec<Register> = met
        .iter()
        .filter_map(|one| match one {
            Operation::Write { key: of, value } if of == key => Some(Register::Value(*value)),
            _ => None,
        })
        .filter(is_state)
        .collect();
    let first = met.iter().position(|state| state == value);
    first.is_some_and(|first| met[first..].iter().any(|state| state != value))
}

/// Reads that miss a state that the process had seen, or return to one; by later
/// transaction and key.
fn went_back(history: &History, order: &Order) -> Back {
    let mut went_back = Vec::new();
    for (place, later) in history.transactions.iter().enumerate() {
        let earlier = history.transactions.iter().filter(|earlier| {
            earlier.is_committed()
                && earlier.process == later.process
                && earlier.started < later.started
        });
        let mut earlier: Vec<&Transaction> = earlier.collect();
        earlier.sort_by_key(|one| one.started);
        let met: Vec<Operation> = earlier
            .into_iter()
            .flat_map(|one| &one.operations)
            .flat_map(met)
            .collect();
        for read in later.operations.iter().filter(|_| later.is_committed()) {
            let lacks = met.iter().any(|write| lacks(order, read, write));
            if lacks || returns(history, &met, read) {
                went_back.push((place, read.key()));
            }
        }
    }
    went_back.sort_unstable();
    went_back
}

/// The judges' reports, in the same form; also checks that each reported violation is real.
fn judged(history: &History, [timed, proven]: &[Order; 2]) -> (Late, Back) {
    let missed = recency::judge(history).unwrap().missed;
    for one in &missed {
        let writer = &history.transactions[one.writer];
        assert!(writer.precedes(&history.transactions[one.reader]), "{one}");
        let mut wrote = writer.operations.iter().flat_map(met);
        let is_it = |wrote: Operation| {
            wrote.is_write() && lacks_of(history, timed, one.reader, &wrote, one.value)
        };
        assert!(wrote.any(is_it), "{one}");
    }
    let back = sessions::judge(history).unwrap().went_back;
    for one in &back {
        let [earlier, later] = [one.earlier, one.later].map(|place| &history.transactions[place]);
        assert!(
            earlier.process == later.process && earlier.started < later.started,
            "{one}"
        );
        let mut saw = earlier.operations.iter().flat_map(met);
        let of_key = later.operations.iter().filter(|its| its.key() == one.key);
        let shown: Vec<Operation> = of_key.filter(|its| !its.is_write()).flat_map(met).collect();
        let written = Operation::Write {
            key: one.key,
            value: one.value,
        };
        let is_it = |saw: Operation| {
            lacks_of(history, proven, one.later, &saw, one.value)
                || (saw == written && shown.iter().any(|other| *other != saw))
        };
        assert!(saw.any(is_it), "{one}");
    }
    let mut back: Vec<_> = back.iter().map(|one| (one.later, one.key)).collect();
    back.sort_unstable();
    let missed = missed.iter().map(|one| (one.reader, one.key, one.late_by));
    (missed.collect(), back)
}

/// Whether a write has this value, and some read of a transaction misses it.
fn lacks_of(
    history: &History,
    order: &Order,
    reader: usize,
    write: &Operation,
    value: i64,
) -> bool {
    let is_it = matches!(write, Operation::Append { element: of, .. } | Operation::Write { value: of, .. } if *of == value);
    let mut reads = history.transactions[reader].operations.iter();
    is_it && reads.any(|read| lacks(order, read, write))
}

/// A few transactions of three processes that read arbitrary values, possible or not.
fn any_history(random: &mut Random, lists: bool) -> History {
    let mut clocks = [0_u64; 3];
    let mut values = Vec::new();
    let mut transactions = Vec::new();
    for _ in 0..3 + random.below(8) {
        let process = random.below(3);
        let clock = &mut clocks[process as usize];
        let started = *clock + 1 + random.below(6);
        let finished = started + random.below(6);
        *clock = finished;
        let outcome = match random.below(8) {
            0 => Outcome::Aborted,
            1 => Outcome::Unknown,
            _ => Outcome::Committed,
        };
        let only_reads = random.below(2) == 0;
        let operations = (0..=random.below(3)).map(|_| {
            let key = random.below(2);
            let writes = !only_reads && random.below(3) > 0;
            let value = values.len() as i64;
            if writes {
                values.push(key);
            }
            let of_key = (0..).zip(&values).filter(|(_, of)| **of == key);
            let mut of_key: Vec<i64> = of_key.map(|(value, _)| value).collect();
            match (lists, writes) {
                (true, true) => Operation::Append {
                    key,
                    element: value,
                },
                (false, true) => Operation::Write { key, value },
                (true, false) => {
                    of_key.retain(|_| random.below(5) > 0);
                    let turn = random.below(of_key.len() as u64 + 1) as usize;
                    of_key.rotate_left(if random.below(3) == 0 { turn } else { 0 });
                    Operation::ReadList {
                        key,
                        elements: Some(of_key),
                    }
                }
                (false, false) => {
                    let place = random.below(of_key.len() as u64 + 1) as usize;
                    let value = of_key.get(place).copied();
                    Operation::Read {
                        key,
                        value: Some(value.map_or(Register::Absent, Register::Value)),
                    }
                }
            }
        });
        transactions.push(Transaction {
            process,
            started,
            operations: operations.collect(),
            finished: (outcome != Outcome::Unknown).then_some(finished),
            outcome,
            read_only: false,
        });
    }
    History { transactions }
}

#[test]
fn lists_are_judged_as_defined() {
    let mut found = [0; 2];
    for seed in 0..4_000 {
        let history = any_history(&mut Random(seed), true);
        let orders = [Order::new(), Order::new()];
        let expected = (
            missed(&history, &orders[0]),
            went_back(&history, &orders[1]),
        );
        found[0] += expected.0.len();
        found[1] += expected.1.len();
        assert_eq!(judged(&history, &orders), expected, "{seed}: {history:#?}");
    }
    assert!(found.iter().all(|found| *found > 1_000), "{found:?}");
}

/// In histories that some database might produce, the judge finds every violation.
#[test]
fn registers_are_judged_as_defined() {
    let mut found = [0; 2];
    for isolation in [
        Isolation::SerialWithStaleReads,
        Isolation::SessionSnapshot,
        Isolation::AnySnapshot,
        Isolation::ReadCommitted,
        Isolation::ReadUncommitted,
    ] {
        for seed in 0..200 {
            let history = store::history(isolation, false, 8 + seed as usize % 30, seed);
            let orders = [true, false].map(|in_real_time| order(&history, in_real_time));
            if goes_in_a_circle(&orders[0]) {
                continue;
            }
            let expected = (
                missed(&history, &orders[0]),
                went_back(&history, &orders[1]),
            );
            found[0] += expected.0.len();
            found[1] += expected.1.len();
            assert_eq!(
                judged(&history, &orders),
                expected,
                "{isolation:?}, {seed}: {history:#?}"
            );
        }
    }
    assert!(found.iter().all(|found| *found > 400), "{found:?}");
}

/// In all others, the judge reports no false violation.
#[test]
fn registers_are_not_accused_wrongly() {
    let mut found = 0;
    for seed in 0..4_000 {
        let history = any_history(&mut Random(seed), false);
        let orders = [true, false].map(|in_real_time| order(&history, in_real_time));
        let (late, back) = judged(&history, &orders);
        found += late.len() + back.len();
        let expected = (
            missed(&history, &orders[0]),
            went_back(&history, &orders[1]),
        );
        assert!(
            back.iter().all(|one| expected.1.contains(one)),
            "{seed}: {history:#?}"
        );
        let readers: BTreeSet<_> = expected
            .0
            .iter()
            .map(|(reader, key, _)| (reader, key))
            .collect();
        let is_so = |(reader, key, _): &(usize, u64, u64)| readers.contains(&(reader, key));
        assert!(late.iter().all(is_so), "{seed}: {history:#?}");
    }
    assert!(found > 1_000, "{found}");
}
