//! Random interleavings must be explained by a serial order; and the judge must notice
//! when the engine omits a check.

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

/// As [`check`], and enough transactions must have committed and enough failed.
fn check_many(seeds: std::ops::Range<u64>, levels: &'static [Isolation], settings: &Settings) {
    let runs = (seeds.end - seeds.start) as usize;
    let (committed, failed) = check(seeds, levels, settings);
    assert!(
        committed > 4 * runs && failed > runs / 4,
        "{committed} {failed}"
    );
}

fn without_predicates_the_judge_finds_an_anomaly(settings: &Settings) {
    let found = (0..400).any(|seed| {
        let (engine, history) = run(seed, SERIALIZABLE, settings.clone(), true);
        judged(&engine, &history).is_err()
    });
    assert!(found, "the fault was not noticed");
}

fn on_several_threads(seeds: std::ops::Range<u64>, settings: &Settings) {
    for seed in seeds {
        let engine = Engine::ephemeral(settings.clone()).expect("sound settings");
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

/// The maximum number of ranges, of one key each, in rings of few slots.
fn narrow(settings: Settings) -> Settings {
    Settings {
        range_slots: 8,
        registrations_in_vain: 0,
        records_per_range: 1,
        ranges_per_index: 16,
        ..settings
    }
}

/// The same tests under each validator that the test program names, with seeds from a
/// number on that no other validator has.
macro_rules! under {
    ($($name:ident: $validator:expr, $first:expr;)*) => {
        $(mod $name {
            use coeval_occ::Settings;

            const FIRST: u64 = $first;

            fn settings() -> Settings {
                Settings {
                    validator: $validator,
                    ..super::settings()
                }
            }

            #[test]
            fn serializable_histories_have_an_order() {
                super::check_many(FIRST..FIRST + 150, super::SERIALIZABLE, &settings());
            }

            #[test]
            fn levels_beside_each_other() {
                super::check_many(FIRST + 1000..FIRST + 1150, super::MIXED, &settings());
            }

            #[test]
            fn small_rings_overflow_and_stay_right() {
                let small = Settings {
                    range_slots: 4,
                    ..settings()
                };
                super::check(FIRST + 2000..FIRST + 2100, super::SERIALIZABLE, &small);
            }

            #[test]
            fn ranges_are_split_and_merged_between_operations() {
                let narrow = super::narrow(settings());
                super::check_many(FIRST + 3000..FIRST + 3150, super::SERIALIZABLE, &narrow);
                super::check(FIRST + 4000..FIRST + 4100, super::MIXED, &narrow);
            }

            #[test]
            fn on_several_threads_while_ranges_are_split_and_merged() {
                let narrow = Settings {
                    range_slots: 64,
                    ..super::narrow(settings())
                };
                super::on_several_threads(FIRST + 20..FIRST + 30, &narrow);
            }

            #[test]
            fn without_predicates_the_judge_finds_an_anomaly() {
                super::without_predicates_the_judge_finds_an_anomaly(&settings());
            }

            #[test]
            fn on_several_threads() {
                super::on_several_threads(FIRST..FIRST + 10, &settings());
            }
        })*
    };
}

validators_to_test!(under);
