//! Tests of every workload on the serial engine, the reference: no check may find a
//! violation.

use coeval_workload::loads::bank::Bank;
use coeval_workload::loads::list_append::ListAppend;
use coeval_workload::loads::rw_register::RwRegister;
use coeval_workload::loads::smallbank::SmallBank;
use coeval_workload::loads::ycsb::Letter;
use coeval_workload::workload::Workload;

use crate::support::{self, options, run, tpcc, ycsb};

async fn sound<W: Workload>(workload: W, transactions: u64) {
    let name = workload.name();
    let report = run(workload, &options(transactions)).await.report;
    assert!(report.is_sound(), "{name}: {report:?}");
    assert!(report.checked);
    assert_eq!(report.completed, transactions, "{name}");
    assert_eq!(report.backend, "serial");
    // Transactions run one at a time, so none is aborted.
    assert_eq!((report.aborted, report.unknown), (0, 0), "{name}");
    for kind in &report.kinds {
        assert!(kind.completed > 0, "{name}: no {}", kind.name);
    }
}

#[tokio::test]
async fn all_letters_of_ycsb() {
    for letter in [Letter::A, Letter::B, Letter::D, Letter::E, Letter::F] {
        sound(ycsb(letter), 400).await;
    }
    let report = run(ycsb(Letter::C), &options(100)).await.report;
    assert!(report.is_sound() && report.kinds[1].completed == 0);
}

#[tokio::test]
async fn hybrid() {
    sound(support::hybrid(), 400).await;
}

#[tokio::test]
async fn bank() {
    sound(Bank::new(8, 30), 300).await;
}

#[tokio::test]
async fn list_append() {
    sound(ListAppend::new(4, 10, 4), 300).await;
}

#[tokio::test]
async fn rw_register() {
    sound(RwRegister::new(10, 4), 300).await;
}

#[tokio::test]
async fn smallbank() {
    sound(SmallBank::new(50, 5, 90), 500).await;
}

#[tokio::test]
async fn tpcc_of_two_warehouses() {
    let outcome = run(tpcc(2), &options(1_000)).await;
    let report = outcome.report;
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.completed, 1_000);
    assert!(report.kinds.iter().all(|kind| kind.completed > 0));
    assert!(report.rolled_back > 0, "one new order in a hundred");
    assert_eq!(report.parameters["scaled_down"], true);
}

#[tokio::test]
async fn tpcc_with_rewards() {
    let outcome = run(tpcc(2).with_rewards(15), &options(1_000)).await;
    let report = outcome.report;
    assert!(report.is_sound(), "{report:?}");
    assert!(report.kinds.iter().all(|kind| kind.completed > 0));
    assert_eq!(report.parameters["rewarded_of"], 15);
    assert_eq!(report.parameters["reward_percent"], 10);
}
