//! Tests that a seed decides everything, and that a few runs of every engine and class
//! are clean.

use std::time::Duration;

use coeval_env::sim::Traffic;
use coeval_sim::plan::{Accident, Fault, Packets};
use coeval_sim::{Class, Engine, Load, Options, Reads, Scenario, run};
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
                load: Load::ON_ANY_ENGINE[at % Load::ON_ANY_ENGINE.len()],
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

/// Duplicated or delayed packets change a run, but it stays deterministic.
#[test]
fn a_network_loses_repeats_and_reorders() {
    let scenario = "server/ycsb/snapshot-isolation/network".parse().unwrap();
    let mut all = Traffic::default();
    for seed in 0..12 {
        let options = Options {
            length: Duration::from_millis(2000),
            ..Options::new(scenario, seed)
        };
        let report = run(&options);
        assert!(report.is_clean(), "{}: {report}", options.command());
        let traffic = report.traffic;
        let repeats = || {
            options
                .plan()
                .iter()
                .any(|fault| has(fault, Packets::Repeated))
        };
        assert!(traffic.repeated == 0 || repeats(), "{report}");
        let reorders = || {
            options
                .plan()
                .iter()
                .any(|fault| has(fault, Packets::Reordered))
        };
        assert!(traffic.detoured == 0 || reorders(), "{report}");
        all.lost += traffic.lost;
        all.repeated += traffic.repeated;
        all.detoured += traffic.detoured;
    }
    assert!(
        all.lost > 0 && all.repeated > 0 && all.detoured > 0,
        "{all:?}"
    );
}

fn has(fault: &Fault, packets: Packets) -> bool {
    matches!(fault.accident, Accident::Link(_, these) if these == packets)
}

/// Followers ask, answer reads and are compared under the seeds that say so, and under no
/// other.
#[test]
fn followers_answer_reads_where_the_seed_says_so() {
    for scenario in [
        "cluster/list-append/snapshot-isolation/none",
        "servers/rw-register/read-committed/none",
    ] {
        let scenario: Scenario = scenario.parse().unwrap();
        for reads in [Reads::AtLeader, Reads::AtHome, Reads::Mixed] {
            let seed = (0..).find(|seed| Reads::draw(scenario.engine, *seed) == reads);
            let options = Options {
                length: Duration::from_millis(1000),
                ..Options::new(scenario, seed.unwrap())
            };
            let report = run(&options);
            assert!(report.is_clean(), "{}: {report}", options.command());
            let reads_followers = reads != Reads::AtLeader;
            assert_eq!(report.questions > 10, reads_followers, "{report}");
            let is_remote = scenario.engine.is_remote();
            let in_process = report.reads_on_followers > 10;
            assert_eq!(in_process, reads_followers && !is_remote, "{report}");
            assert!(report.compared > 0, "{report}");
        }
    }
}

/// Each node of a cluster of servers is the first choice of some clients.
#[test]
fn clients_of_servers_begin_at_every_node() {
    let scenario = "servers/list-append/serializable/none".parse().unwrap();
    let options = Options {
        length: Duration::from_millis(600),
        ..Options::new(scenario, 1)
    };
    let report = run(&options);
    assert!(report.is_clean(), "{}: {report}", options.command());
    let ports = report.entered.values().map(|address| address.port());
    let first = report.entered[&0].port();
    let nodes: Vec<u16> = ports.map(|port| port - first).collect();
    assert_eq!(nodes, [0, 1, 2, 0]);
}
