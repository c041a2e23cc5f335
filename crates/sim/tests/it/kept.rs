//! Tests of the regression runs: runs that once found something stay clean, and runs that
//! catch an injected bug still do.

use clap::Parser;
use coeval_sim::command::Arguments;
use coeval_sim::{Options, run};

/// Lines of arguments of `run`, with the reason after `#`.
const SEEDS: &str = include_str!("../../seeds.txt");

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    run: Arguments,
}

fn kept() -> Vec<Options> {
    let lines = SEEDS
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let lines = lines.filter(|line| !line.trim().is_empty());
    let read = |line: &str| {
        let words = ["run"].into_iter().chain(line.split_whitespace());
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        Options::from(line.run)
    };
    lines.map(read).collect()
}

#[test]
fn kept_runs_are_clean_and_catch_the_bugs_they_are_kept_for() {
    for options in kept() {
        let without = Options {
            bug: None,
            ..options.clone()
        };
        let report = run(&without);
        assert!(report.is_clean(), "{}\n{report}", without.command());
        if options.bug.is_some() {
            let report = run(&options);
            assert!(
                !report.is_clean(),
                "{} no longer catches what it is kept for; seeds.txt says how to find another",
                options.command()
            );
        }
    }
}

#[test]
fn runs_of_every_shape_are_kept() {
    let kept = kept();
    let has = |what: fn(&Options) -> bool| kept.iter().any(what);
    assert!(has(|run| run.bug.is_none()) && has(|run| run.bug.is_some()));
    assert!(has(|run| run.faults.is_none()));
    assert!(has(|run| run.faults.as_ref().is_some_and(Vec::is_empty)));
    assert!(has(|run| run
        .faults
        .as_ref()
        .is_some_and(|only| !only.is_empty())));
}
