//! Seeds that found something once.

use std::time::Duration;

use coeval_sim::{Options, run};

/// Lines of `scenario seed`, with what was found behind `#`; in between, how many
/// milliseconds the run was long, if not as long as usual.
const SEEDS: &str = include_str!("../../seeds.txt");

#[test]
fn kept_seeds_stay_clean() {
    let mut count = 0;
    for line in SEEDS.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (scenario, rest) = line.split_once(' ').expect("scenario and seed");
        let scenario = scenario.parse().unwrap_or_else(|error| panic!("{error}"));
        let mut numbers = rest
            .split_whitespace()
            .map(|word| word.parse().expect("a number"));
        let mut options = Options::new(scenario, numbers.next().expect("a seed"));
        options.length = numbers.next().map_or(options.length, Duration::from_millis);
        let report = run(&options);
        assert_eq!(
            report.objections,
            Vec::<String>::new(),
            "{}",
            options.command()
        );
        count += 1;
    }
    assert!(count > 0, "nothing was replayed");
}
