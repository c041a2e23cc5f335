//! Tests of the driver itself: its counters, its timing, its history.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coeval_check::history::{History, Operation, Outcome, Register};
use coeval_check::transactions::{Level, judge};
use coeval_workload::driver::{self, Length, Options, Stop};
use coeval_workload::loads::bank::Bank;
use coeval_workload::loads::list_append::ListAppend;
use coeval_workload::loads::rw_register::RwRegister;
use coeval_workload::loads::smallbank::SmallBank;
use coeval_workload::loads::ycsb::{Letter, Settings, Ycsb};
use coeval_workload::store::{Database, Failure};
use coeval_workload::workload::Workload;

use crate::support::{database, hybrid, options, run, tpcc, ycsb};

#[tokio::test]
async fn a_history_has_every_transaction_and_its_elements_once() {
    let outcome = run(ListAppend::new(4, 10, 4), &options(200)).await;
    let history = outcome.history.expect("it was recorded");
    // Plus the final check.
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
    // Transactions of one process never overlap: sorted by start, each ends before the
    // next.
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

/// The reads of a register among a transaction's operations, and the number of its
/// writes.
fn accesses(operations: &mut [Operation], of: u64) -> (Vec<&mut Option<Register>>, usize) {
    let (mut reads, mut writes) = (Vec::new(), 0);
    for operation in operations {
        match operation {
            Operation::Read { key, value } if *key == of => reads.push(value),
            Operation::Write { key, .. } if *key == of => writes += 1,
            _ => {}
        }
    }
    (reads, writes)
}

/// Edits a history as if the second of two transactions that changed a register had not
/// seen the first.
fn lose_an_update(history: &mut History, key: u64) -> bool {
    let mut seen = None;
    for transaction in &mut history.transactions {
        let (mut reads, writes) = accesses(&mut transaction.operations, key);
        if writes != 1 || reads.len() != 1 {
            continue;
        }
        match seen {
            None => seen = *reads[0],
            Some(seen) => {
                *reads[0] = Some(seen);
                return true;
            }
        }
    }
    false
}

/// Judges a run of the workload, first unmodified and then with an update lost.
async fn is_judged<W: Workload>(workload: W) {
    let name = workload.name();
    let outcome = run(workload, &options(300)).await;
    let mut history = outcome.history.expect("it was recorded");
    let level = Level::StrictSerializable;
    let judged = judge(&history, &[level]).expect("no value is there twice");
    assert!(judged.permits(level), "{name}: not even in turn");
    let all = history.transactions.iter();
    let changed: BTreeSet<u64> = all
        .flat_map(|transaction| &transaction.operations)
        .filter(|operation| operation.is_write())
        .map(Operation::key)
        .collect();
    let mut keys = changed.into_iter();
    assert!(
        keys.any(|key| lose_an_update(&mut history, key)),
        "{name}: nobody changed what another had"
    );
    let judged = judge(&history, &[level]).expect("no value is there twice");
    assert!(!judged.permits(level), "{name}: a lost update");
}

#[tokio::test]
async fn histories_of_balances_and_counts_are_judged() {
    is_judged(Bank::new(8, 30)).await;
    is_judged(SmallBank::new(20, 5, 90)).await;
    is_judged(tpcc(2)).await;
    is_judged(tpcc(2).with_rewards(15)).await;
}

#[tokio::test]
async fn a_scan_has_read_what_it_has_shown() {
    let outcome = run(ycsb(Letter::E), &options(100)).await;
    let history = outcome.history.expect("it was recorded");
    let judged = judge(&history, &[Level::StrictSerializable]).unwrap();
    assert!(judged.permits(Level::StrictSerializable));
    let empty = |history: &History| {
        let all = history.transactions.iter();
        all.filter(|transaction| transaction.operations.is_empty())
            .count()
    };
    assert_eq!(empty(&history), 0, "every scan begins where there are rows");
}

/// A run on existing tables.
async fn resumed<W: Workload>(workload: W, database: &Database) -> Result<Vec<String>, Failure> {
    let options = Options {
        load: false,
        record: false,
        ..options(300)
    };
    let workload = Arc::new(workload);
    let outcome = driver::run(&workload, database, &options, &mut |_| {}).await?;
    let report = outcome.report;
    assert_eq!(report.failed, 0, "{report:?}");
    Ok(report.violations)
}

/// Runs the workload again and again on tables that are filled once.
async fn goes_on<W: Workload>(make: impl Fn() -> W) -> Database {
    let workload = Arc::new(make());
    let database = database(&*workload);
    let outcome = driver::run(&workload, &database, &options(300), &mut |_| {}).await;
    assert!(outcome.expect("it runs").report.is_sound());
    for _ in 0..2 {
        let found = resumed(make(), &database).await;
        assert_eq!(found, Ok(Vec::new()), "{}", workload.name());
    }
    database
}

#[tokio::test]
async fn a_run_goes_on_from_the_tables_of_a_run_before() {
    goes_on(|| ListAppend::new(4, 10, 4)).await;
    goes_on(|| RwRegister::new(10, 4)).await;
    goes_on(|| Bank::new(8, 30)).await;
    goes_on(|| SmallBank::new(20, 5, 90)).await;
    for letter in [Letter::A, Letter::D, Letter::E] {
        goes_on(|| ycsb(letter)).await;
    }
    goes_on(hybrid).await;
    let database = goes_on(|| tpcc(2).with_rewards(15)).await;
    // The check distinguishes what rewards have changed.
    assert_eq!(resumed(tpcc(2), &database).await, Ok(Vec::new()));
}

/// The error for tables of another size.
async fn refused<W: Workload>(workload: W, database: &Database) -> String {
    match resumed(workload, database).await {
        Err(Failure::Wrong(said)) => said,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tables_of_another_size_are_refused() {
    let database = goes_on(|| Bank::new(8, 30)).await;
    let said = refused(Bank::new(9, 30), &database).await;
    let expected = "bank_account has 8 accounts, and the workload was told of 9";
    assert!(said.starts_with(expected), "{said}");
    let database = goes_on(|| SmallBank::new(20, 5, 90)).await;
    let said = refused(SmallBank::new(50, 5, 90), &database).await;
    let expected = "smallbank_savings has 20 customers, and the workload was told of 50";
    assert!(said.starts_with(expected), "{said}");
    let database = goes_on(|| tpcc(2)).await;
    let said = refused(tpcc(1), &database).await;
    let expected = "tpcc_warehouse has 2 warehouses, and the workload was told of 1";
    assert!(said.starts_with(expected), "{said}");
    let database = goes_on(|| RwRegister::new(10, 4)).await;
    let said = refused(RwRegister::new(7, 4), &database).await;
    assert!(said.contains("7 registers"), "{said}");
    let database = goes_on(|| ycsb(Letter::D)).await;
    for records in [150, 250_000] {
        let other = Ycsb::new(Settings {
            records,
            fields: 3,
            field_bytes: 20,
            ..Settings::default()
        });
        let said = refused(other, &database).await;
        assert!(said.contains("rows from its load"), "{said}");
        assert!(said.contains(&format!("told of {records}: ")), "{said}");
    }
    let wider = Ycsb::new(Settings {
        records: 200,
        fields: 3,
        field_bytes: 30,
        ..Settings::default()
    });
    let said = refused(wider, &database).await;
    let expected = "ycsb_usertable has 20 bytes in a field, and the workload was told of 30";
    assert!(said.starts_with(expected), "{said}");
}

#[tokio::test]
async fn as_many_transactions_are_measured_as_were_asked_for() {
    for rate in [None, Some(50_000.0)].repeat(5) {
        let options = Options {
            warm_up: Duration::from_millis(20),
            clients: 8,
            record: false,
            rate,
            ..options(200)
        };
        let report = run(Bank::new(50, 50), &options).await.report;
        assert_eq!(report.completed, 200, "{report:?}");
        assert_eq!(report.unserved_arrivals, 0, "{report:?}");
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_says_so_and_is_checked() {
    let stop = Stop::default();
    let options = Options {
        length: Length::Time(Duration::MAX),
        stop: stop.clone(),
        ..options(0)
    };
    let workload = Arc::new(Bank::new(8, 30));
    let there = database(&*workload);
    let mut look = move |tick: &driver::Tick| {
        if tick.phase == "running" && tick.completed > 100 {
            stop.stop();
        }
    };
    let outcome = driver::run(&workload, &there, &options, &mut look).await;
    let outcome = outcome.expect("it comes to its end");
    let report = outcome.report;
    assert!(report.interrupted && report.checked && report.is_sound());
    assert!(report.text(options.length).contains("interrupted"));
    assert!(outcome.history.expect("it was recorded").transactions.len() > 100);
    // A run that was stopped before its tables were filled measures nothing.
    let (workload, database) = (Arc::new(ycsb(Letter::A)), database(&ycsb(Letter::A)));
    let again = driver::run(&workload, &database, &options, &mut |_| {}).await;
    let said = again.expect_err("nothing was measured").to_string();
    assert!(said.contains("interrupted"), "{said}");
}
