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
fn a_stopped_follower_shows_fewer_spikes_with_the_hold_than_without_it() {
    in_runtime(async {
        // On a busy machine a follower is behind for other reasons, too: so both are counted,
        // and compared, up to three times. `--bin stops` measures it on a quiet one.
        let mut tries = 0..3;
        loop {
            let without = run(8, &["--any-read-away-milliseconds", "0"]).await;
            assert_eq!(without.held, 0, "{without}");
            let with = run(8, &[]).await;
            assert!(with.held > 0, "{with}");
            if 2 * with.shown() < without.shown() {
                break;
            }
            assert!(tries.next().is_some(), "{without}\n{with}");
        }
    });
}
