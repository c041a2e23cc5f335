//! Tests of verdicts against the definitions of the levels, by exhaustive search.
//!
//! In these small random histories, the last transaction reads every list as a whole, so
//! that all versions are known. Then a history is serializable if some order of the
//! transactions explains all reads, and snapshot isolated if some order of commits does
//! together with some snapshot for each. The test tries all of them, and the judge must
//! agree exactly. For registers, versions remain unknown: the judge must not report a
//! history that can be explained, and must report most that cannot.

use std::collections::BTreeMap;

use coeval_check::history::{History, Operation, Outcome, Register, Transaction};
use coeval_check::transactions::{Level, judge, story};

use super::store::Random;

/// The state of all objects: a list's elements, or a register's value as the last of them.
type State = BTreeMap<u64, Vec<i64>>;

/// Executes a transaction on a state, with its own writes on top. Returns whether every
/// read matches the state.
fn explains(transaction: &Transaction, state: &State) -> bool {
    let mut state = state.clone();
    transaction.operations.iter().all(|operation| {
        let object = state.entry(operation.key()).or_default();
        match operation {
            Operation::Append { element: value, .. } | Operation::Write { value, .. } => {
                object.push(*value);
                true
            }
            Operation::ReadList { elements, .. } => elements.as_ref() == Some(object),
            Operation::Read { value, .. } => {
                let last = object.last().copied();
                *value == Some(last.map_or(Register::Absent, Register::Value))
            }
        }
    })
}

fn apply(transaction: &Transaction, state: &mut State) {
    for operation in &transaction.operations {
        if let Operation::Append {
            key,
            element: value,
        }
        | Operation::Write { key, value } = operation
        {
            state.entry(*key).or_default().push(*value);
        }
    }
}

fn share_a_write(one: &Transaction, two: &Transaction) -> bool {
    let writes = |transaction: &Transaction| {
        let operations = transaction.operations.iter();
        operations
            .filter(|operation| operation.is_write())
            .map(Operation::key)
            .collect::<Vec<_>>()
    };
    let other = writes(two);
    writes(one).iter().any(|key| other.contains(key))
}

/// Tries orders of commits, and for each transaction the states that it may have read.
struct Trial<'history> {
    all: &'history [Transaction],
    /// Whether a snapshot may be older than the commit.
    by_snapshot: bool,
    /// Whether the order must respect real time.
    in_real_time: bool,
    order: Vec<usize>,
    /// The state after this number of commits.
    states: Vec<State>,
}

impl Trial<'_> {
    fn is_explained(history: &History, by_snapshot: bool, in_real_time: bool) -> bool {
        let mut trial = Trial {
            all: &history.transactions,
            by_snapshot,
            in_real_time,
            order: Vec::new(),
            states: vec![State::new()],
        };
        trial.extend()
    }

    fn extend(&mut self) -> bool {
        if self.order.len() == self.all.len() {
            return true;
        }
        for next in 0..self.all.len() {
            if self.order.contains(&next) || !self.may_commit(next) {
                continue;
            }
            let mut state = self.states[self.order.len()].clone();
            apply(&self.all[next], &mut state);
            self.order.push(next);
            self.states.push(state);
            let works = self.extend();
            self.order.pop();
            self.states.pop();
            if works {
                return true;
            }
        }
        false
    }

    fn may_commit(&self, next: usize) -> bool {
        let transaction = &self.all[next];
        let precedes = |other: usize| self.in_real_time && self.all[other].precedes(transaction);
        // A transaction that had finished before this one started must have committed.
        let missing = (0..self.all.len()).filter(|other| !self.order.contains(other));
        if missing.into_iter().any(precedes) {
            return false;
        }
        let now = self.order.len();
        let oldest = if self.by_snapshot { 0 } else { now };
        (oldest..=now).any(|snapshot| {
            let since = &self.order[snapshot..];
            let is_allowed = since
                .iter()
                .all(|other| !precedes(*other) && !share_a_write(&self.all[*other], transaction));
            is_allowed && explains(transaction, &self.states[snapshot])
        })
    }
}

/// Two to four transactions on two objects, and one that reads all. Their reads mostly, but
/// not always, return values that some order explains.
fn history(lists: bool, random: &mut Random) -> History {
    let count = 2 + random.below(3) as usize;
    let mut next = 0;
    let plans: Vec<Vec<(u64, Option<i64>)>> = (0..count)
        .map(|_| {
            let operations = 0..1 + random.below(3);
            let operations = operations.map(|_| {
                let written = (random.below(2) == 0).then(|| {
                    next += 1;
                    next
                });
                (random.below(2), written)
            });
            operations.collect()
        })
        .collect();
    // The commit order: one for all objects, or one for each.
    let mut turns: Vec<usize> = (0..count).collect();
    let mut versions: [Vec<i64>; 2] = Default::default();
    for (key, versions) in versions.iter_mut().enumerate() {
        if key == 0 || random.below(3) == 0 {
            for place in (1..count).rev() {
                turns.swap(place, random.below(place as u64 + 1) as usize);
            }
        }
        for turn in &turns {
            let operations = plans[*turn].iter();
            versions.extend(
                operations
                    .filter(|one| one.0 == key as u64)
                    .filter_map(|one| one.1),
            );
        }
    }
    let mut transactions: Vec<Transaction> = Vec::new();
    for (process, plan) in plans.iter().enumerate() {
        let started = random.below(20);
        let mut own: BTreeMap<u64, i64> = BTreeMap::new();
        let mut before: BTreeMap<u64, usize> = BTreeMap::new();
        let operations = plan.iter().map(|(key, written)| {
            let versions = &versions[*key as usize];
            if let Some(value) = written {
                own.insert(*key, *value);
                return write(lists, *key, *value);
            }
            // The value that it wrote itself, that it read before, or any state.
            let is_odd = random.below(12) == 0;
            let length = match own.get(key) {
                Some(own) if !is_odd => 1 + versions.iter().position(|value| value == own).unwrap(),
                _ if !is_odd && before.contains_key(key) => before[key],
                _ => random.below(versions.len() as u64 + 1) as usize,
            };
            before.insert(*key, length);
            read(lists, *key, &versions[..length])
        });
        let operations = operations.collect();
        let finished = started + 1 + random.below(12);
        transactions.push(transaction(process, started, finished, operations));
    }
    let all = (0..2).map(|key| read(lists, key, &versions[key as usize]));
    transactions.push(transaction(count, 100, 110, all.collect()));
    History { transactions }
}

fn transaction(
    process: usize,
    started: u64,
    finished: u64,
    operations: Vec<Operation>,
) -> Transaction {
    Transaction {
        process: process as u64,
        started,
        finished: Some(finished),
        outcome: Outcome::Committed,
        read_only: false,
        operations,
    }
}

fn write(lists: bool, key: u64, value: i64) -> Operation {
    match lists {
        true => Operation::Append {
            key,
            element: value,
        },
        false => Operation::Write { key, value },
    }
}

fn read(lists: bool, key: u64, state: &[i64]) -> Operation {
    match lists {
        true => Operation::ReadList {
            key,
            elements: Some(state.to_vec()),
        },
        false => Operation::Read {
            key,
            value: Some(
                state
                    .last()
                    .copied()
                    .map_or(Register::Absent, Register::Value),
            ),
        },
    }
}

const LEVELS: [(Level, bool, bool); 4] = [
    (Level::SnapshotIsolation, true, false),
    (Level::StrongSnapshotIsolation, true, true),
    (Level::Serializable, false, false),
    (Level::StrictSerializable, false, true),
];

#[test]
fn lists_are_judged_exactly() {
    let mut verdicts = [[0; 2]; 4];
    for seed in 0..6_000 {
        let history = history(true, &mut Random(seed));
        let judgement = judge(&history, &Level::ALL).unwrap();
        for (place, (level, by_snapshot, in_real_time)) in LEVELS.into_iter().enumerate() {
            let expected = Trial::is_explained(&history, by_snapshot, in_real_time);
            let told: Vec<String> = judgement
                .violations(level)
                .map(|anomaly| story(&history, anomaly))
                .collect();
            assert_eq!(
                judgement.permits(level),
                expected,
                "seed {seed}, {level}: {told:#?} in {history:#?}"
            );
            verdicts[place][usize::from(expected)] += 1;
        }
    }
    // Both verdicts occur often.
    let least = verdicts.iter().flatten().min();
    assert!(least > Some(&600), "{verdicts:?}");
}

#[test]
fn registers_are_never_accused_of_what_can_be_explained() {
    let mut verdicts = [[0; 2]; 4];
    for seed in 0..6_000 {
        let history = history(false, &mut Random(seed));
        let judgement = judge(&history, &Level::ALL).unwrap();
        for (place, (level, by_snapshot, in_real_time)) in LEVELS.into_iter().enumerate() {
            let is_explained = Trial::is_explained(&history, by_snapshot, in_real_time);
            let violation = judgement.violations(level).next();
            if let Some(anomaly) = violation {
                let story = story(&history, anomaly);
                assert!(!is_explained, "seed {seed}, {level}: {story}");
            }
            if !is_explained {
                verdicts[place][usize::from(violation.is_some())] += 1;
            }
        }
    }
    for [missed, found] in verdicts {
        assert!(found > 8 * missed, "{verdicts:?}");
    }
}
