//! Random runs: messages lost, repeated, delayed and out of order, nodes that crash within a
//! write, membership changes, checkpoints; then the faults end, and the cluster must converge.
//!
//! A seed decides all events; a failure names it.

mod run;

use coeval_consensus::{Lease, Recovery, Settings, Spacing};

pub use run::{Clocks, Plan, run};

fn settings(recovery: Recovery) -> Settings {
    Settings {
        election_ticks: 8,
        heartbeat_ticks: 2,
        message_space: 4,
        message_entries: 3,
        window_space: 12,
        window_entries: 8,
        entry_cache_bytes: 6,
        recovery,
        lease: None,
        spacing: Spacing::Entries,
        batches_non_quorum: false,
    }
}

pub fn plan(voters: u64, seed: u64, recovery: Recovery) -> Plan {
    Plan {
        voters,
        spare: 2,
        steps: 2500,
        seed,
        settings: settings(recovery),
        one_in_is_late: 4,
        leaders_doze: false,
        clocks: Clocks::Any,
        asks: false,
    }
}

/// Runs the plans, and returns how often a node was certain to lead.
fn all_hold(plans: impl Iterator<Item = Plan>) -> usize {
    let (mut committed, mut elections, mut reads, mut certain) = (0, 0, 0, 0);
    for plan in plans {
        match run(&plan) {
            Ok(report) => {
                committed += report.committed;
                elections += report.terms;
                reads += report.reads;
                certain += report.certain;
            }
            Err(failure) => panic!("seed {} of {} voters: {failure}", plan.seed, plan.voters),
        }
    }
    assert!(
        committed > 0 && elections > 0 && reads > 0,
        "the runs did nothing"
    );
    certain
}

#[test]
fn three_nodes_keep_the_properties() {
    all_hold((0..200).map(|seed| plan(3, seed, Recovery::Marks)));
}

#[test]
fn five_nodes_keep_the_properties() {
    all_hold((1000..1100).map(|seed| plan(5, seed, Recovery::Marks)));
}

#[test]
fn late_packets_and_leaders_that_doze_break_nothing() {
    all_hold((6000..6100).map(|seed| Plan {
        one_in_is_late: 1,
        leaders_doze: true,
        ..plan(3, seed, Recovery::Marks)
    }));
}

#[test]
fn the_comparators_keep_them_too() {
    all_hold((2000..2060).map(|seed| plan(3, seed, Recovery::Checking)));
    all_hold((3000..3060).map(|seed| plan(3, seed, Recovery::Truncating)));
}

#[test]
fn entries_that_wait_for_others_keep_them_too() {
    for voters in [3, 5] {
        let reports = (6000..6060).map(|seed| {
            let mut plan = plan(voters, seed, Recovery::Marks);
            plan.settings.batches_non_quorum = true;
            run(&plan).unwrap_or_else(|failure| panic!("seed {seed} of {voters}: {failure}"))
        });
        let waited: usize = reports.map(|report| report.waited).sum();
        assert!(waited > 500, "{waited}");
    }
}

#[test]
fn frames_of_bytes_keep_them_too() {
    all_hold((4000..4060).map(|seed| {
        let mut plan = plan(3, seed, Recovery::Marks);
        plan.settings = Settings {
            message_space: 200,
            window_space: 600,
            entry_cache_bytes: 300,
            spacing: Spacing::REDO_LOG,
            ..plan.settings
        };
        plan
    }));
}

#[test]
fn reads_on_a_lease_are_not_stale_while_clocks_agree() {
    let certain = all_hold((5000..5100).map(|seed| {
        let mut plan = plan(3, seed, Recovery::Marks);
        plan.settings.lease = Some(Lease { drift_per_mille: 0 });
        plan.clocks = Clocks::Together;
        plan
    }));
    assert!(certain > 0, "nobody had a lease");
}

/// A plan in which followers ask their leader for reads.
pub fn asking(voters: u64, seed: u64) -> Plan {
    let mut plan = Plan {
        asks: true,
        leaders_doze: seed.is_multiple_of(2),
        ..plan(voters, seed, Recovery::Marks)
    };
    plan.settings.batches_non_quorum = seed.is_multiple_of(3);
    plan
}

#[test]
fn followers_reads_include_everything_acknowledged() {
    for voters in [1, 2, 3, 5] {
        let reports = (9000..9040).map(|seed| {
            run(&asking(voters, seed))
                .unwrap_or_else(|failure| panic!("{seed} of {voters}: {failure}"))
        });
        let asked: usize = reports.map(|report| report.asked).sum();
        assert!(asked > 1000, "{asked} of {voters}");
    }
}

#[test]
fn followers_reads_on_a_lease_of_their_leader_do_too() {
    for voters in [3, 5] {
        for seed in 9200..9230 {
            let plan = Plan {
                asks: true,
                ..leased(voters, seed)
            };
            run(&plan).unwrap_or_else(|failure| panic!("{seed} of {voters}: {failure}"));
        }
    }
}

/// A plan with a lease, on clocks that drift as far as it allows.
pub fn leased(voters: u64, seed: u64) -> Plan {
    const DRIFT: u32 = 120;
    let mut plan = plan(voters, seed, Recovery::Marks);
    plan.settings.lease = Some(Lease {
        drift_per_mille: DRIFT,
    });
    plan.clocks = Clocks::Drifting(DRIFT);
    plan.spare = 0;
    plan
}

#[test]
fn reads_on_a_lease_are_not_stale_while_clocks_drift_as_it_allows() {
    let three = all_hold((7000..7150).map(|seed| leased(3, seed)));
    let five = all_hold((8000..8050).map(|seed| leased(5, seed)));
    assert!(three > 0 && five > 0, "nobody had a lease");
}

/// For long searches: `cargo test --release -p coeval-consensus --test it -- --ignored
/// hundred_thousand`.
#[test]
#[ignore = "a search of many minutes; the tests above run hundreds of such seeds in every suite"]
fn a_hundred_thousand_seeds() {
    for seed in 10_000..110_000 {
        let mut plan = plan(3 + 2 * (seed % 2), seed, Recovery::Marks);
        plan.one_in_is_late = 1 + seed % 5;
        if seed % 7 == 0 {
            plan.settings.lease = Some(Lease { drift_per_mille: 0 });
            plan.clocks = Clocks::Together;
        } else if seed % 7 == 1 {
            plan = leased(plan.voters, seed);
        }
        plan.leaders_doze = seed % 3 == 0 && plan.settings.lease.is_none();
        plan.asks = seed % 4 == 0;
        if let Err(fault) = run(&plan) {
            panic!("{plan:?}: {fault}");
        }
    }
}
