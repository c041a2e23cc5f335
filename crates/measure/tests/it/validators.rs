//! Tests that the validators compared by `bench/rocc` are correct: histories of hybrid
//! YCSB are serializable under each of them, and the test would detect if they were not.

use std::path::PathBuf;
use std::sync::Arc;

use coeval_check::history::History;
use coeval_check::transactions::{self, Level};
use coeval_measure::validators::{ALL, WHOLE_RANGES, named};
use coeval_occ::{Engine, Settings, Validator};
use coeval_txn::{Engine as Contract, Isolation};
use coeval_workload::driver::{self, Length, Options};
use coeval_workload::loads::hybrid::{self, Hybrid};
use coeval_workload::loads::tpcc::{Scale, Tpcc};
use coeval_workload::store::Database;
use coeval_workload::workload::Workload;

use crate::scans::{Deed, Look, act, attempt, loaded};
use crate::support::{begin, ready, settings};

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
    for &validator in ALL {
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
    for &validator in ALL {
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

/// Another validator may say otherwise why it refuses. What it lets pass is the same.
#[test]
fn no_validator_shows_an_anomaly() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../txn/tests/scripts");
    for &validator in ALL {
        crate::script::play_scripts(&folder, validator.name(), || {
            let settings = Settings {
                validator,
                ..settings()
            };
            let engine = Engine::ephemeral(settings).expect("sound settings");
            Box::new(engine) as Box<dyn Contract>
        });
    }
}

/// A scan that is older than all that a whole list is kept for looks at more than it
/// has to meet.
#[test]
fn an_old_snapshot_makes_lists_long() {
    let transactions = |with_old: bool| {
        let engine = loaded(WHOLE_RANGES);
        let old = with_old.then(|| ready(begin(&engine, Isolation::SnapshotIsolation)));
        (0..20).for_each(|value| act(&engine, Deed::Set(70, value)));
        assert_eq!(attempt(&engine, &[Look::Forward], &[]), Ok(()));
        drop(old);
        engine.statistics().validation.transactions
    };
    assert_eq!((transactions(false), transactions(true)), (0, 20));
}

#[test]
fn names_lead_back() {
    for validator in ALL {
        assert_eq!(named(validator.name()), Some(*validator));
    }
    assert_eq!(named("2pl"), None);
}
