//! Tests of batched key lookups. (Over the wire each key is a statement of its own.)

use std::sync::Arc;

use coeval_txn::Isolation;
use coeval_workload::driver;
use coeval_workload::loads::ycsb::Letter;
use coeval_workload::store::{Cells, Row, Session, Way};

use crate::support::{database, options, ycsb};

/// A session in a transaction, on two hundred rows.
async fn begun() -> Session {
    let workload = Arc::new(ycsb(Letter::C));
    let database = database(&*workload);
    let outcome = driver::run(&workload, &database, &options(10), &mut |_| {}).await;
    assert!(outcome.expect("it runs").report.is_sound());
    let mut session = database.session();
    let way = Way {
        isolation: Isolation::Serializable,
        read_only: false,
        single: false,
    };
    session.begin(way).await.unwrap();
    session
}

#[tokio::test]
async fn each_row_is_shown_with_the_position_of_its_key() {
    let mut session = begun().await;
    // More keys than one batch has; some occur twice, one of them does not exist.
    let keys: Vec<i64> = (0..80).map(|at| at * 7 % 50).chain([1_000, 3]).collect();
    let mut shown = Vec::new();
    session
        .get_many(0, &keys, &mut |at, row| shown.push((at, row.integer(0))))
        .await
        .unwrap();
    let there = keys.iter().enumerate().filter(|(_, key)| **key < 200);
    let expected: Vec<(usize, i64)> = there.map(|(at, key)| (at, *key)).collect();
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn rows_are_locked_until_one_is_missing() {
    let mut session = begun().await;
    let mut rows = vec![Row::default(); 40];
    let keys: Vec<i64> = (20..60).collect();
    assert_eq!(session.lock_many(0, &keys, &mut rows).await, Ok(None));
    for (key, row) in keys.iter().zip(&mut rows) {
        assert_eq!(row.integer(0), *key);
        row.set_text(1, &format!("row {key}"));
        session.update(0, row, &[1]).await.unwrap();
    }
    // The lock returns what this transaction has written.
    assert_eq!(session.lock_many(0, &keys, &mut rows).await, Ok(None));
    for (key, row) in keys.iter().zip(&rows) {
        assert_eq!(row.text(1), format!("row {key}"));
    }
    let missing = session.lock_many(0, &[1, 2, 1_000, 3], &mut rows[..4]);
    assert_eq!(missing.await, Ok(Some(2)));
    session.commit().await.unwrap();
}
