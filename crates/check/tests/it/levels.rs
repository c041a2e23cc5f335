//! Tests of the levels against each other: no level permits an anomaly that a weaker one
//! forbids, and a verdict does not depend on the other requested levels.

use coeval_check::history::{self, Format, History, Operation, Outcome, Register, Transaction};
use coeval_check::transactions::{Level, judge};

use super::store::Random;

/// Pairs of a level and one that gives at least its guarantees.
const STRONGER: [(Level, Level); 7] = [
    (Level::ReadCommitted, Level::SnapshotIsolation),
    (
        Level::SnapshotIsolation,
        Level::StrongSessionSnapshotIsolation,
    ),
    (
        Level::StrongSessionSnapshotIsolation,
        Level::StrongSnapshotIsolation,
    ),
    (Level::SnapshotIsolation, Level::Serializable),
    (Level::Serializable, Level::StrictSerializable),
    (Level::StrongSnapshotIsolation, Level::StrictSerializable),
    (
        Level::StrongSessionSnapshotIsolation,
        Level::StrictSerializable,
    ),
];

/// The violated levels; each requested alone, with every other, and with all.
fn violated(history: &History, says: &str) -> Vec<Level> {
    let mut alone = Vec::new();
    let mut ask = |asked: &[Level]| {
        let judgement = judge(history, asked).unwrap();
        for level in asked {
            let is_violated = !judgement.permits(*level);
            if asked.len() == 1 && is_violated {
                alone.push(*level);
            }
            assert_eq!(
                is_violated,
                alone.contains(level),
                "{level} among {asked:?}, {says}"
            );
        }
    };
    for level in Level::ALL {
        ask(&[level]);
    }
    for (place, level) in Level::ALL.into_iter().enumerate() {
        for other in &Level::ALL[..place] {
            ask(&[level, *other]);
        }
    }
    ask(&Level::ALL);
    for (weaker, stronger) in STRONGER {
        let is_kept = !alone.contains(&weaker) || alone.contains(&stronger);
        assert!(
            is_kept,
            "{weaker} is violated and {stronger} is not, {says}"
        );
    }
    alone
}

#[test]
fn a_process_goes_on_at_the_moment_at_which_it_finished() {
    let text = r#"
{"process":2,"started":5,"finished":10,"outcome":"committed","operations":[["write",2,1]]}
{"process":2,"started":10,"outcome":"unknown","operations":[["write",2,2],["write",3,3],["write",2,4]]}
{"process":9,"started":100,"finished":110,"outcome":"committed","read_only":true,"operations":[["read",2,1],["read",3,3]]}"#;
    let history = history::read(text.as_bytes(), Format::JsonLines).unwrap();
    let expected = [
        Level::StrongSessionSnapshotIsolation,
        Level::StrongSnapshotIsolation,
        Level::StrictSerializable,
    ];
    assert_eq!(violated(&history, "by hand"), expected);
}

/// A few transactions of three processes on two objects, often without a pause between
/// them. Their reads return arbitrary values.
fn any_history(lists: bool, random: &mut Random) -> History {
    let mut clocks = [0_u64; 3];
    let mut written: [Vec<i64>; 2] = Default::default();
    let mut transactions: Vec<Transaction> = Vec::new();
    for _ in 0..3 + random.below(4) {
        let process = random.below(3);
        let clock = &mut clocks[process as usize];
        let started = *clock + random.below(2) * random.below(6);
        let finished = started + 1 + random.below(5);
        *clock = finished;
        let outcome = match random.below(8) {
            0 => Outcome::Aborted,
            1 => Outcome::Unknown,
            _ => Outcome::Committed,
        };
        let operations = (0..=random.below(3)).map(|_| {
            let key = random.below(2);
            let value = 1 + written.iter().map(Vec::len).sum::<usize>() as i64;
            let of_key = &mut written[key as usize];
            if random.below(2) == 0 {
                of_key.push(value);
                return match lists {
                    true => Operation::Append {
                        key,
                        element: value,
                    },
                    false => Operation::Write { key, value },
                };
            }
            let length = random.below(of_key.len() as u64 + 1) as usize;
            let last = length.checked_sub(1).map(|last| of_key[last]);
            match lists {
                true => Operation::ReadList {
                    key,
                    elements: Some(of_key[..length].to_vec()),
                },
                false => Operation::Read {
                    key,
                    value: Some(last.map_or(Register::Absent, Register::Value)),
                },
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
fn what_a_weaker_level_forbids_no_stronger_permits() {
    for lists in [true, false] {
        let mut counts = [0; 6];
        for seed in 0..1_200 {
            let history = any_history(lists, &mut Random(seed));
            let violated = violated(
                &history,
                &format!("lists {lists}, seed {seed}: {history:?}"),
            );
            for level in violated {
                counts[level as usize] += 1;
            }
        }
        // Each level is often the weakest that is violated.
        assert!(counts[0] > 40 && counts[5] < 1_160, "{counts:?}");
        assert!(counts[2] > counts[1] && counts[3] > counts[2], "{counts:?}");
    }
}
