//! The same driver in a simulated world: one thread, a clock of its own, and a seed that
//! decides everything. So what it does over time can be said exactly.

use std::sync::Arc;
use std::time::Duration;

use coeval_check::history::History;
use coeval_env::sim::World;
use coeval_workload::driver::{self, Length, Options, Report};
use coeval_workload::loads::list_append::ListAppend;

use crate::support::{database, options};

/// Five minutes after one of warm-up, in which a transaction arrives every second and a
/// quarter.
fn simulate(seed: u64) -> (u64, Report, History) {
    let world = World::new(seed);
    let node = world.node();
    let options = Options {
        threads: 2,
        clients: 6,
        seed,
        warm_up: Duration::from_secs(60),
        length: Length::Time(Duration::from_secs(300)),
        rate: Some(0.8),
        exact: false,
        ..options(0)
    };
    let ran = world.run(node, async move {
        let workload = Arc::new(ListAppend::new(4, 10, 4));
        let database = database(&*workload);
        driver::run(&workload, &database, &options, &mut |_| {}).await
    });
    let outcome = ran.expect("no crash").expect("it runs");
    assert!(outcome.report.is_sound(), "{:?}", outcome.report);
    let history = outcome.history.expect("it was recorded");
    (world.trace_hash(), outcome.report, history)
}

#[test]
fn a_seed_repeats_five_minutes() {
    let (trace, _, history) = simulate(5);
    let (again, _, the_same) = simulate(5);
    assert_eq!(trace, again);
    // Not assert_eq, which would print both.
    assert!(the_same == history, "another history");
    assert!(simulate(6).2 != history, "the same history");
}

#[test]
fn an_open_loop_keeps_its_rate_and_a_warm_up_does_not_count() {
    let (_, report, history) = simulate(1);
    assert!((239..=241).contains(&report.completed), "{report:?}");
    assert!((288..=291).contains(&history.transactions.len()));
    assert!((report.seconds - 300.0).abs() < 0.1, "{}", report.seconds);
    assert!((report.transactions_per_second - 0.8).abs() < 0.01);
    assert_eq!(
        (report.arrival_rate, report.unserved_arrivals),
        (Some(0.8), 0)
    );
    // In simulated time a transaction in memory takes none, and a sleep is exact to a millisecond.
    assert!(report.latency.max < 2_000.0, "{:?}", report.latency);
    assert!(report.timeline.len() >= 290);
}
