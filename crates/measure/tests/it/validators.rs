//! Tests that the validators compared by `bench/rocc` are correct: histories of hybrid
//! YCSB are serializable under each of them, and the test would detect if they were not.

use std::sync::Arc;

use coeval_check::history::History;
use coeval_check::transactions::{self, Level};
use coeval_occ::{Engine, Settings, Validator};
use coeval_txn::Isolation;
use coeval_workload::driver::{self, Length, Options};
use coeval_workload::loads::hybrid::{self, Hybrid};
use coeval_workload::loads::tpcc::{Scale, Tpcc};
use coeval_workload::store::Database;
use coeval_workload::workload::Workload;

fn engine(validator: Validator) -> Arc<Engine> {
    let settings = Settings {
        validator,
        sweep_interval: None,
        ..Settings::default()
    };
    Arc::new(Engine::ephemeral(settings).expect("settings that are allowed"))
}

/// Runs eight interleaved workers on two threads.
async fn drive<W: Workload>(
    workload: W,
    engine: &Arc<Engine>,
    seed: u64,
) -> (driver::Report, History) {
    let database = Database::in_process(engine.clone(), workload.tables()).interleaved();
    let options = Options {
        threads: 2,
        clients: 8,
        isolation: Isolation::Serializable,
        length: Length::Transactions(600),
        seed,
        record: true,
        ..Options::default()
    };
    let outcome = driver::run(&Arc::new(workload), &database, &options, &mut |_| {}).await;
    let outcome = outcome.expect("the run comes to its end");
    (outcome.report, outcome.history.expect("it was recorded"))
}

/// Half of the transactions scan, on hot keys.
fn hybrid() -> Hybrid {
    Hybrid::new(hybrid::Settings {
        records: 200,
        field_bytes: 20,
        theta: 0.7,
        bulk_percent: 50,
        scan: 40,
        write_percent: 30,
    })
}

/// Number of anomalies in a history that SERIALIZABLE forbids.
fn violations(history: &History) -> usize {
    let levels = [Level::Serializable];
    let judged = transactions::judge(history, &levels).expect("a history");
    judged.violations(Level::Serializable).count()
}

#[tokio::test]
async fn histories_are_serializable_under_every_validator() {
    for &validator in Validator::ALL {
        let (report, history) = drive(hybrid(), &engine(validator), 3).await;
        assert!(report.is_sound(), "{validator:?}: {report:?}");
        assert!(report.aborted > 0, "{validator:?}: nobody met anybody");
        assert_eq!(violations(&history), 0, "{validator:?}");
    }
}

#[tokio::test]
async fn scans_that_are_not_validated_are_seen() {
    for seed in 1..=20 {
        let engine = engine(Validator::Ranges);
        engine.skip_predicates();
        let (_, history) = drive(hybrid(), &engine, seed).await;
        if violations(&history) > 0 {
            return;
        }
    }
    panic!("nothing is seen in twenty seeds");
}

#[tokio::test]
async fn rewards_are_counted_under_every_validator() {
    for &validator in Validator::ALL {
        let scale = Scale {
            warehouses: 4,
            items: 100,
            customers: 30,
        };
        let tpcc = Tpcc::new(scale, 7).with_rewards(20);
        let (report, _) = drive(tpcc, &engine(validator), 1).await;
        assert!(report.is_sound(), "{validator:?}: {report:?}");
    }
}
