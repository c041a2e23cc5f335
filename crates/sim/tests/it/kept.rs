//! Seeds that found something once.

use coeval_sim::{Options, run};

/// Lines of `scenario seed`, with what was found behind `#`.
const SEEDS: &str = include_str!("../../seeds.txt");

#[test]
fn kept_seeds_stay_clean() {
    let mut count = 0;
    for line in SEEDS.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (scenario, seed) = line.split_once(' ').expect("scenario and seed");
        let scenario = scenario.parse().unwrap_or_else(|error| panic!("{error}"));
        let options = Options::new(scenario, seed.trim().parse().expect("a seed"));
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
