//! Reads of a follower's own state after its process was stopped: too old without the hold of
//! such reads, and with it not.

use std::time::Duration;

use coeval_workload::stops::{self, Findings, Options};

use crate::process::{COEVAL, in_runtime};

/// A score above this is no ordinary lag, whatever the machine does besides. A stop is several
/// times as long.
const SPIKE: Duration = Duration::from_millis(50);

async fn run(stops: usize, settings: &[&str]) -> Findings {
    let options = Options {
        binary: COEVAL.into(),
        settings: settings.iter().map(|&word| word.to_owned()).collect(),
        stops,
        stopped: Duration::from_millis(400),
        between: Duration::from_millis(600),
        quiet: Duration::ZERO,
        every: Duration::from_millis(5),
        threshold: SPIKE,
        shadow: Duration::from_millis(500),
    };
    stops::run(&options).await.expect("a verdict")
}

#[test]
fn a_stopped_follower_shows_spikes_without_the_hold_and_none_with_it() {
    in_runtime(async {
        let without = run(10, &["--any-read-away-milliseconds", "0"]).await;
        assert!(without.shown() > 0, "{without}");
        assert_eq!(without.held, 0, "{without}");
        // On a busy machine a follower may be behind for other reasons. Without the hold no run
        // shows no spike.
        let mut tries = 0..3;
        loop {
            let with = run(10, &[]).await;
            assert!(with.held > 0, "{with}");
            if with.shown() == 0 {
                break;
            }
            assert!(tries.next().is_some(), "{with}");
        }
    });
}
