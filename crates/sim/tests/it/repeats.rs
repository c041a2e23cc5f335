//! A seed decides everything, and a few of every engine and class are clean.

use std::time::Duration;

use coeval_sim::{Class, Engine, Load, Options, Scenario, run};
use coeval_txn::Isolation;

/// Each class and engine once, with workloads and levels in turn.
fn sample() -> Vec<Scenario> {
    let levels = [
        Isolation::ReadCommitted,
        Isolation::SnapshotIsolation,
        Isolation::Serializable,
    ];
    let mut sample = Vec::new();
    for &engine in Engine::ALL {
        for &class in Class::ALL {
            let at = sample.len();
            let scenario = Scenario {
                engine,
                load: Load::ALL[at % Load::ALL.len()],
                isolation: levels[at % levels.len()],
                class,
            };
            if scenario.applies() {
                sample.push(scenario);
            }
        }
    }
    sample
}

#[test]
fn every_class_is_clean_and_repeats_itself() {
    for (seed, scenario) in (100..).zip(sample()) {
        let options = Options {
            length: Duration::from_millis(600),
            ..Options::new(scenario, seed)
        };
        let first = run(&options);
        let command = options.command();
        assert_eq!(first.objections, Vec::<String>::new(), "{command}");
        assert!(first.committed > 0, "{command}: {first}");
        assert_eq!(run(&options), first, "{command}");
    }
}

#[test]
fn another_seed_is_another_run() {
    let scenario = "occ/list-append/serializable/power".parse().unwrap();
    let one = run(&Options::new(scenario, 2));
    let other = run(&Options::new(scenario, 4));
    assert_ne!(one.trace_hash, other.trace_hash);
    assert!(one.starts > 1, "the power failed");
}
