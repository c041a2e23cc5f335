//! Tests of Γ against its definition, on small histories.

use super::*;
use crate::history::Transaction;

/// A pseudorandom number generator that is determined by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // Steele, Lea and Flood's SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// One operation, in the terms of the definition.
#[derive(Clone, Copy, Debug)]
struct Plain {
    is_write: bool,
    value: Register,
    start: i64,
    finish: i64,
}

const NEVER: i64 = 1 << 40;

/// Whether some order of the operations explains them, in which an operation must precede
/// another if it finished more than `stretch` before the other started.
fn is_linearizable(operations: &[Plain], stretch: i64) -> bool {
    fn place(left: &mut Vec<Plain>, holds: Register, stretch: i64) -> bool {
        if left.is_empty() {
            return true;
        }
        for index in 0..left.len() {
            let next = left[index];
            let is_free = left
                .iter()
                .all(|other| next.start - other.finish <= stretch);
            if is_free && (next.is_write || next.value == holds) {
                left.remove(index);
                let works = place(
                    left,
                    if next.is_write { next.value } else { holds },
                    stretch,
                );
                left.insert(index, next);
                if works {
                    return true;
                }
            }
        }
        false
    }
    place(&mut operations.to_vec(), Register::Absent, stretch)
}

/// Γ as defined: the smallest stretch that makes the history linearizable. The required
/// order changes only at differences of finishes and starts.
fn gamma_by_definition(operations: &[Plain]) -> i64 {
    let mut stretches: Vec<i64> = operations
        .iter()
        .flat_map(|one| operations.iter().map(|two| two.start - one.finish))
        .filter(|stretch| *stretch > 0)
        .chain([0])
        .collect();
    stretches.sort_unstable();
    stretches
        .into_iter()
        .find(|stretch| is_linearizable(operations, *stretch))
        .expect("with all at the same time, every read can stand behind its write")
}

/// The score of a value as defined by the essay's table.
fn score_by_definition(value: Register, operations: &[Plain]) -> i64 {
    let zone = |value: Register| {
        let of = operations.iter().filter(move |one| one.value == value);
        // The initial state was written before everything.
        let write = (value == Register::Absent).then_some(-NEVER);
        let l = of.clone().map(|one| one.finish).chain(write).min()?;
        let h = of.clone().map(|one| one.start).chain(write).max()?;
        Some((l, h))
    };
    let (l, h) = zone(value).unwrap();
    let start = operations
        .iter()
        .find(|one| one.is_write && one.value == value);
    let start = start.map_or(-NEVER, |write| write.start);
    let reads = operations
        .iter()
        .filter(|one| !one.is_write && one.value == value);
    let within = reads
        .map(|read| start - read.finish)
        .max()
        .unwrap_or(i64::MIN);
    let mut values: Vec<Register> = operations.iter().map(|one| one.value).collect();
    values.push(Register::Absent);
    let others = values.into_iter().filter(|other| *other != value);
    let between = others.filter_map(|other| {
        let (other_l, other_h) = zone(other)?;
        let collide = l < h || other_l < other_h;
        collide.then_some((h - other_l).min(other_h - l))
    });
    between.chain([within, 0]).max().unwrap()
}

fn history(operations: &[Plain]) -> History {
    let transactions = operations.iter().enumerate().map(|(index, one)| {
        let is_known = one.finish < NEVER;
        Transaction {
            process: index as u64,
            started: one.start.unsigned_abs(),
            finished: is_known.then_some(one.finish.unsigned_abs()),
            outcome: if is_known {
                Outcome::Committed
            } else {
                Outcome::Unknown
            },
            read_only: !one.is_write,
            operations: vec![match (one.is_write, one.value) {
                (true, Register::Value(value)) => Operation::Write { key: 7, value },
                (_, value) => Operation::Read {
                    key: 7,
                    value: Some(value),
                },
            }],
        }
    });
    History {
        transactions: transactions.collect(),
    }
}

/// Random operations at few distinct moments, so that many of them are equal.
fn random(random: &mut Random, unknown: bool) -> Vec<Plain> {
    let writes = random.below(4);
    let moments = 4 + random.below(16);
    let count = 1 + random.below(7);
    let mut operations = Vec::new();
    for index in 0..count {
        let is_write = index < writes;
        let value = if is_write {
            Register::Value(index as i64)
        } else {
            match random.below(writes.min(count) + 1) {
                0 => Register::Absent,
                value => Register::Value(value as i64 - 1),
            }
        };
        let start = random.below(moments) as i64;
        let finish = if unknown && is_write && random.below(3) == 0 {
            NEVER
        } else {
            start + random.below(6) as i64
        };
        operations.push(Plain {
            is_write,
            value,
            start,
            finish,
        });
    }
    operations
}

#[test]
fn gamma_is_as_defined() {
    let mut positive = 0;
    for seed in 0..20_000 {
        let operations = random(&mut Random(seed), seed % 4 == 0);
        let report = judge(&history(&operations)).unwrap();
        assert_eq!(report.impossible, []);
        let expected = gamma_by_definition(&operations);
        assert_eq!(
            i64::try_from(report.gamma).unwrap(),
            expected,
            "seed {seed}: {operations:#?}"
        );
        assert_eq!(report.is_linearizable(), is_linearizable(&operations, 0));
        positive += usize::from(expected > 0);
    }
    assert!((4_000..16_000).contains(&positive), "{positive}");
}

#[test]
fn scores_are_as_defined() {
    for seed in 0..20_000 {
        let operations = random(&mut Random(seed), seed % 4 == 0);
        let report = judge(&history(&operations)).unwrap();
        for value in [0, 1, 2, 3]
            .map(Register::Value)
            .into_iter()
            .chain([Register::Absent])
        {
            let of_value = |one: &Plain| one.value == value;
            if !operations.iter().any(of_value) {
                continue;
            }
            let mut scores = report.scores.iter();
            let score = scores.find(|score| score.value == value);
            let score = score.map_or(0, |score| i64::try_from(score.gamma).unwrap());
            let expected = score_by_definition(value, &operations);
            assert_eq!(score, expected, "seed {seed}, {value:?}: {operations:#?}");
        }
    }
}

fn write(value: i64, start: i64, finish: i64) -> Plain {
    Plain {
        is_write: true,
        value: Register::Value(value),
        start,
        finish,
    }
}

fn read(value: i64, start: i64, finish: i64) -> Plain {
    Plain {
        is_write: false,
        ..write(value, start, finish)
    }
}

#[test]
fn a_stale_read_is_as_late_as_it_is() {
    // Either 1 is still read 20 too late, or 1 is written 17 too early.
    let operations = [
        write(1, 0, 5),
        write(2, 10, 20),
        read(2, 22, 24),
        read(1, 40, 45),
    ];
    let report = judge(&history(&operations)).unwrap();
    assert_eq!(report.gamma, 17);
    let operations = [
        write(1, 0, 5),
        write(2, 10, 20),
        read(2, 90, 95),
        read(1, 40, 45),
    ];
    let report = judge(&history(&operations)).unwrap();
    assert_eq!(report.gamma, 20);
    let values: Vec<_> = report.scores.iter().map(|score| score.value).collect();
    assert_eq!(values, [Register::Value(1), Register::Value(2)]);
    assert_eq!(report.scores[0].because, Because::Other(Register::Value(2)));
    // From the answer to the write of 2 until the start of the last read of 1.
    let score = report.scores[0];
    assert_eq!((score.begins, score.time, score.ends), (20, 30, 40));
    assert!(report.scores[0].to_string().contains("by 20 ns"));
}

#[test]
fn the_order_in_which_transactions_come_does_not_matter() {
    for seed in 0..2_000 {
        let operations = random(&mut Random(seed), true);
        let mut turned = operations.clone();
        turned.reverse();
        let reports = [&operations, &turned].map(|all| judge(&history(all)).unwrap());
        assert_eq!(reports[0], reports[1], "seed {seed}: {operations:#?}");
    }
}

#[test]
fn a_read_from_the_future_is_seen() {
    let report = judge(&history(&[read(1, 0, 4), write(1, 10, 20)])).unwrap();
    assert_eq!(report.gamma, 6);
    assert_eq!(report.scores[0].because, Because::ReadBeforeWrite);
}

#[test]
fn what_nobody_wrote_is_impossible() {
    let reads = [read(1, 7, 8), read(3, 9, 10), read(3, 11, 12)];
    let mut history = history(&[&[write(1, 0, 5)], &reads[..]].concat());
    let report = judge(&history).unwrap();
    assert!(!report.is_linearizable());
    let impossible = report.impossible[0];
    assert_eq!((impossible.value, impossible.writer), (3, None));
    assert_eq!((impossible.reader, impossible.readers), (2, 2));
    assert!(impossible.to_string().ends_with("wrote; so did another"));
    history.transactions[0].outcome = Outcome::Aborted;
    let report = judge(&history).unwrap();
    assert_eq!(report.impossible[0].writer, Some(0));
    assert!(report.impossible[0].to_string().contains("aborted"));
}

#[test]
fn a_value_that_is_written_twice_cannot_be_judged() {
    let twice = judge(&history(&[write(1, 0, 5), write(1, 7, 8)]));
    assert!(matches!(
        twice,
        Err(Unjudgeable::WrittenTwice { by: [0, 1], .. })
    ));
}

#[test]
fn a_transaction_counts_by_what_others_can_see_of_it() {
    let mut history = history(&[write(1, 0, 5), read(1, 10, 12)]);
    // It reads, writes, and reads its own write: other clients cannot observe the last.
    history.transactions[1].operations.extend([
        Operation::Write { key: 7, value: 2 },
        Operation::Read {
            key: 7,
            value: Some(Register::Value(2)),
        },
    ]);
    let report = judge(&history).unwrap();
    assert!(report.is_linearizable());
    assert_eq!(report.operations, 3);
}
