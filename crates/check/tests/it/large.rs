//! Tests of larger histories; `examples/million` judges one of full length.

#[path = "../../examples/million/synthetic.rs"]
mod synthetic;

use coeval_check::transactions::{Level, Order, judge};
use coeval_check::{recency, registers};
use synthetic::{Objects, history, plant_stale_read};

#[test]
fn a_long_history_is_permitted_and_one_stale_read_in_it_seen() {
    for objects in [Objects::Lists, Objects::Registers] {
        let mut history = history(4_000, objects, 3);
        let clean = judge(&history, &Level::ALL).unwrap();
        assert_eq!(clean.anomalies, [], "{objects:?}");
        assert_eq!(clean.transactions, 4_000);
        assert_eq!(recency::judge(&history).unwrap().missed, []);
        assert_eq!(recency::sessions::judge(&history).unwrap().went_back, []);
        assert!(registers::judge(&history).unwrap().is_linearizable());

        let reader = plant_stale_read(&mut history).unwrap();
        let planted = judge(&history, &Level::ALL).unwrap();
        for level in Level::ALL {
            assert_eq!(
                planted.permits(level),
                level.order() != Order::RealTime,
                "{level}"
            );
        }
        let told = &planted.anomalies[planted.anomalies.len() - 1];
        assert!(told.transactions.contains(&reader), "{told:?}");
        let missed = recency::judge(&history).unwrap().missed;
        assert_eq!(missed.len(), 1);
        assert_eq!(missed[0].reader, reader);
        let is_linearizable = registers::judge(&history).unwrap().is_linearizable();
        assert_eq!(is_linearizable, objects == Objects::Lists);
    }
}

/// All transactions overlap, and all read the first state and write: the groups that
/// virtual nodes represent are as large as possible.
#[test]
fn a_tangle_is_judged_in_time() {
    use coeval_check::history::{History, Operation, Outcome, Register, Transaction};
    let count = 3_000;
    let transactions = (0..count).map(|index| Transaction {
        process: index,
        started: index,
        finished: Some(count + index),
        outcome: Outcome::Committed,
        read_only: false,
        operations: vec![
            Operation::Read {
                key: 0,
                value: Some(Register::Absent),
            },
            Operation::Write {
                key: 0,
                value: index as i64,
            },
            Operation::ReadList {
                key: 1,
                elements: Some(Vec::new()),
            },
            Operation::Append {
                key: 1,
                element: index as i64,
            },
        ],
    });
    let history = History {
        transactions: transactions.collect(),
    };
    let judgement = judge(&history, &Level::ALL).unwrap();
    assert!(judgement.permits(Level::ReadCommitted));
    assert!(!judgement.permits(Level::SnapshotIsolation));
    assert!(!judgement.permits(Level::Serializable));
}
