//! The driver itself: what it counts, when it begins, what it keeps.

use std::collections::BTreeSet;

use coeval_check::history::{Operation, Outcome};
use coeval_workload::driver::Options;
use coeval_workload::loads::bank::Bank;
use coeval_workload::loads::list_append::ListAppend;

use crate::support::{options, run};

#[tokio::test]
async fn a_history_has_every_transaction_and_its_elements_once() {
    let outcome = run(ListAppend::new(4, 10, 4), &options(200)).await;
    let history = outcome.history.expect("it was recorded");
    // And the look at everything in the end.
    assert_eq!(history.transactions.len(), 200 + 1);
    let mut elements = BTreeSet::new();
    let mut read = 0;
    for transaction in &history.transactions {
        assert_eq!(transaction.outcome, Outcome::Committed);
        assert!(
            transaction
                .finished
                .is_some_and(|end| end >= transaction.started)
        );
        assert!(!transaction.operations.is_empty());
        for operation in &transaction.operations {
            match operation {
                Operation::Append { element, .. } => assert!(elements.insert(*element)),
                Operation::ReadList {
                    elements: Some(list),
                    ..
                } => read += list.len(),
                other => panic!("{other:?} in a history of lists"),
            }
        }
    }
    assert!(read > 0, "somebody has seen something");
    // Of one process none overlap: sorted by their beginnings, they end before the next.
    for process in 0..4 {
        let mut end = 0;
        for transaction in &history.transactions {
            if transaction.process == process {
                assert!(transaction.started >= end);
                end = transaction.finished.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_seed_repeats_the_requests() {
    let one = Options {
        threads: 1,
        clients: 1,
        ..options(100)
    };
    let operations = async |seed| {
        let options = Options {
            seed,
            ..one.clone()
        };
        let history = run(ListAppend::new(4, 10, 4), &options).await.history;
        let transactions = history.unwrap().transactions.into_iter();
        transactions
            .map(|transaction| transaction.operations)
            .collect::<Vec<_>>()
    };
    assert!(operations(3).await == operations(3).await);
    assert!(operations(3).await != operations(4).await);
}

#[tokio::test]
async fn json_and_csv_say_the_same() {
    let report = run(Bank::new(8, 30), &options(100)).await.report;
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(json["completed"], 100);
    assert!(json["transactions_per_second"].as_f64().unwrap() > 0.0);
    assert!(json["cpu_microseconds_per_transaction"].as_f64().unwrap() > 0.0);
    let csv = report.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + report.kinds.len() + 1);
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
    assert!(lines[3].contains(",all,100,"), "{csv}");
}
