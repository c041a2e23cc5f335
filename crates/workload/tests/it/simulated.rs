//! Tests of the driver in a simulation: one thread, a virtual clock, and a seed that
//! decides everything, so that its timing is deterministic.

use std::sync::Arc;
use std::time::Duration;

use coeval_check::history::History;
use coeval_env as env;
use coeval_env::sim::World;
use coeval_workload::driver::{self, Length, Options, Report};
use coeval_workload::loads::list_append::ListAppend;
use coeval_workload::store::{Failure, Loader, Session, Table};
use coeval_workload::workload::{Client, Nature, Parameters, Workload};

use crate::support::{database, options};

/// Simulates one minute of warm-up and five of measurement, with an arrival every second
/// and a quarter.
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
    // Not `assert_eq`, which would print both histories.
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
    // In virtual time a transaction in memory takes no time, and a sleep is exact to a
    // millisecond.
    assert!(report.latency.max < 2_000.0, "{:?}", report.latency);
    assert!(report.timeline.len() >= 290);
}

/// A workload whose transactions take no time until one moment; a transaction that runs
/// then stalls until another moment.
struct Stall {
    from: env::Instant,
    until: Duration,
}

impl Workload for Stall {
    type Request = ();
    type Effect = ();

    fn name(&self) -> &'static str {
        "stall"
    }

    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["nothing"]
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    async fn load(&self, _: u64, _: &mut Loader) -> Result<(), Failure> {
        Ok(())
    }

    fn draw(&self, _: &mut Client) {}

    fn nature(&self, (): &()) -> Nature {
        Nature {
            kind: 0,
            read_only: true,
            single: false,
        }
    }

    async fn run(&self, (): &(), _: &mut Client, _: &mut Session) -> Result<(), Failure> {
        if self.from.elapsed() >= Duration::from_secs(60) {
            let until = self.until.saturating_sub(self.from.elapsed());
            env::sleep(until).await;
        }
        Ok(())
    }

    async fn check(&self, _: &mut Session) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }
}

/// Simulates eighty seconds with ten arrivals each, of which the first ten are the
/// warm-up; in the last twenty, and for `longer` after that, all transactions stall.
fn stalled(longer: Duration, operation_timeout: Option<Duration>) -> Report {
    let world = World::new(1);
    let node = world.node();
    let options = Options {
        threads: 1,
        clients: 3,
        warm_up: Duration::from_secs(10),
        length: Length::Time(Duration::from_secs(70)),
        rate: Some(10.0),
        exact: false,
        operation_timeout,
        ..options(0)
    };
    let ran = world.run(node, async move {
        let workload = Arc::new(Stall {
            from: env::now(),
            until: Duration::from_secs(80) + longer,
        });
        let database = database(&*workload);
        driver::run(&workload, &database, &options, &mut |_| {}).await
    });
    ran.expect("no crash").expect("it runs").report
}

#[test]
fn a_stall_that_reaches_the_end_counts_in_full() {
    let seconds = Duration::from_secs;
    let near = |micros: f64, seconds: f64| (micros / 1e6 - seconds).abs() < 0.2;
    // The stall ends five seconds after the run: the three transactions in progress
    // complete then.
    let report = stalled(seconds(5), Some(seconds(30)));
    assert_eq!((report.completed, report.unserved_arrivals), (503, 197));
    assert!(near(report.latency.max, 25.0), "{:?}", report.latency);
    assert!(near(report.kinds[0].latency.max, 25.0));
    // Of the arrivals that no client took, half had waited for ten seconds or more.
    assert!(report.latency.p50 < 200_000.0, "{:?}", report.latency);
    assert!(near(report.latency.p90, 13.0), "{:?}", report.latency);
    // The stall outlasts every wait: only the time waited so far is known.
    for (timeout, waited) in [(Some(seconds(30)), 50.0), (None, 80.0)] {
        let report = stalled(seconds(3600), timeout);
        assert_eq!((report.completed, report.unserved_arrivals), (500, 200));
        assert!(near(report.latency.max, waited), "{:?}", report.latency);
        assert_eq!((report.failed, report.unknown), (0, 0));
    }
}
