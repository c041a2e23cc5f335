//! Random interleavings must be explained by an order; and the judge must notice
//! when the engine leaves a check out.

use coeval_occ::{Engine, Settings};
use coeval_txn::{Error, Isolation};

use crate::history::{Chance, History, Plan, interleave, session};
use crate::support::{Row, all, attach, begin, load, ready, settings};

const SERIALIZABLE: &[Isolation] = &[Isolation::Serializable];
const MIXED: &[Isolation] = &[
    Isolation::Serializable,
    Isolation::Serializable,
    Isolation::SnapshotIsolation,
    Isolation::ReadCommitted,
];
const ROWS: [Row; 4] = [(0, 0), (1, 1), (2, 1), (4, 3)];

fn judged(engine: &Engine, history: &History) -> Result<(), String> {
    let mut transaction = ready(begin(engine, Isolation::ReadCommitted));
    history.judge(&ROWS, &all(&mut *transaction))
}

/// One seed's run in one thread.
fn run(
    seed: u64,
    levels: &'static [Isolation],
    settings: Settings,
    fault: bool,
) -> (Engine, History) {
    let engine = Engine::ephemeral(settings).expect("sound settings");
    attach(&engine);
    ready(load(&engine, ROWS));
    if fault {
        engine.skip_predicates();
    }
    let history = History::default();
    let mut chance = Chance(seed);
    let mut sessions: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    for _ in 0..3 {
        let plan = Plan {
            transactions: 6,
            levels,
            chance: Chance(chance.below(u64::MAX)),
        };
        sessions.push(Box::pin(session(&engine, &history, plan)));
    }
    if chance.below(2) == 0 {
        let sweeps = chance.below(30);
        let engine = &engine;
        sessions.push(Box::pin(async move {
            for _ in 0..sweeps {
                coeval_env::yield_now().await;
                engine.sweep();
            }
        }));
    }
    interleave(sessions, &mut chance);
    (engine, history)
}

fn check(
    seeds: std::ops::Range<u64>,
    levels: &'static [Isolation],
    settings: &Settings,
) -> (usize, usize) {
    let mut counts = (0, 0);
    for seed in seeds {
        let (engine, history) = run(seed, levels, settings.clone(), false);
        if let Err(why) = judged(&engine, &history) {
            panic!("seed {seed}: {why}");
        }
        let (committed, failed) = history.counts();
        counts = (counts.0 + committed, counts.1 + failed);
    }
    counts
}

#[test]
fn serializable_histories_have_an_order() {
    let (committed, failed) = check(0..200, SERIALIZABLE, &settings());
    assert!(committed > 1000 && failed > 50, "{committed} {failed}");
}

#[test]
fn levels_beside_each_other() {
    let (committed, failed) = check(1000..1200, MIXED, &settings());
    assert!(committed > 1000 && failed > 50, "{committed} {failed}");
}

#[test]
fn small_rings_overflow_and_stay_right() {
    let small = Settings {
        range_slots: 4,
        ..settings()
    };
    check(2000..2100, SERIALIZABLE, &small);
}

#[test]
fn without_predicates_the_judge_finds_an_anomaly() {
    let found = (0..400).any(|seed| {
        let (engine, history) = run(seed, SERIALIZABLE, settings(), true);
        judged(&engine, &history).is_err()
    });
    assert!(found, "the fault was not noticed");
}

#[test]
fn on_several_threads() {
    for seed in 0..20 {
        let engine = Engine::ephemeral(settings()).expect("sound settings");
        attach(&engine);
        ready(load(&engine, ROWS));
        let history = History::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (engine, history) = (&engine, &history);
                let plan = Plan {
                    transactions: 100,
                    levels: MIXED,
                    chance: Chance(seed * 100 + thread),
                };
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .build()
                        .expect("a runtime");
                    runtime.block_on(session(engine, history, plan));
                });
            }
            for _ in 0..50 {
                engine.sweep();
                std::thread::yield_now();
            }
        });
        if let Err(why) = judged(&engine, &history) {
            panic!("seed {seed}: {why}");
        }
        let unexpected = history
            .failures()
            .into_iter()
            .find(|error| !matches!(error, Error::Conflict(_) | Error::Deadlock { .. }));
        assert_eq!(unexpected, None);
    }
}
