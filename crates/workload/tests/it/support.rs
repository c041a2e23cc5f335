//! Test support: small workloads, and short runs of them.

use std::sync::Arc;
use std::time::Duration;

use coeval_txn::{Isolation, Serial};
use coeval_workload::driver::{self, Length, Options, Outcome};
use coeval_workload::loads::hybrid::{self, Hybrid};
use coeval_workload::loads::tpcc::{Scale, Tpcc};
use coeval_workload::loads::ycsb::{Letter, Settings, Ycsb};
use coeval_workload::store::Database;
use coeval_workload::workload::Workload;

/// A short run of several clients.
pub fn options(transactions: u64) -> Options {
    Options {
        threads: 2,
        clients: 4,
        isolation: Isolation::Serializable,
        warm_up: Duration::ZERO,
        length: Length::Transactions(transactions),
        record: true,
        ..Options::default()
    }
}

/// A database of the serial engine with the workload's tables.
pub fn database<W: Workload>(workload: &W) -> Database {
    Database::in_process(Arc::new(Serial::new()), workload.tables())
}

/// Runs a workload on the serial engine.
pub async fn run<W: Workload>(workload: W, options: &Options) -> Outcome {
    let workload = Arc::new(workload);
    let database = database(&*workload);
    driver::run(&workload, &database, options, &mut |_| {})
        .await
        .expect("the run comes to its end")
}

/// YCSB with few and small rows.
pub fn ycsb(letter: Letter) -> Ycsb {
    Ycsb::new(Settings {
        letter,
        records: 200,
        fields: 3,
        field_bytes: 20,
        ..Settings::default()
    })
}

/// Hybrid YCSB with few and small rows.
pub fn hybrid() -> Hybrid {
    Hybrid::new(hybrid::Settings {
        records: 300,
        field_bytes: 20,
        scan: 20,
        ..hybrid::Settings::default()
    })
}

/// TPC-C with few items and customers.
pub fn tpcc(warehouses: u32) -> Tpcc {
    let scale = Scale {
        warehouses,
        items: 100,
        customers: 20,
    };
    Tpcc::new(scale, 7)
}
