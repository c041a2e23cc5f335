//! Bugs that are put back are caught, and nothing is found where there is none.

use std::collections::BTreeSet;

use coeval_sim::court::{CATCHES, Catch, Caught, JUDGES, catch};
use coeval_sim::{Class, Options, Scenario, run, shrink};
use coeval_types::planted::Bug;

/// The table of bugs stands in here.
const TESTING: &str = include_str!("../../../../docs/internals/testing.md");

fn class(case: &Catch) -> Class {
    let scenario: Scenario = case.scenario.parse().expect("a scenario");
    scenario.class
}

/// Tries the seed first that caught it when it was last counted.
fn caught(case: Catch) -> Option<Caught> {
    catch(case, case.seeds - 1..case.seeds).or_else(|| catch(case, 0..case.within()))
}

#[test]
fn every_bug_class_and_judge_has_its_catch() {
    let bugs: BTreeSet<Bug> = CATCHES.iter().map(|case| case.bug).collect();
    assert_eq!(bugs, Bug::ALL.iter().copied().collect());
    let classes: BTreeSet<Class> = CATCHES.iter().map(class).collect();
    assert_eq!(classes, Class::ALL.iter().copied().collect());
    let judges: BTreeSet<&str> = CATCHES.iter().map(|case| case.judge).collect();
    assert_eq!(judges, JUDGES.iter().copied().collect());
}

#[test]
fn the_table_is_what_is_held() {
    // Processes in the dock have a table of their own, further down.
    let (simulated, _) = TESTING
        .split_once("\n## Processes in the dock")
        .expect("what comes after the simulator");
    let written: Vec<&str> = simulated
        .lines()
        .filter(|line| {
            Bug::ALL
                .iter()
                .any(|bug| line.starts_with(&format!("| {bug} |")))
        })
        .collect();
    let held: Vec<String> = CATCHES.iter().map(ToString::to_string).collect();
    assert_eq!(
        written, held,
        "docs/internals/testing.md has what the command planted prints"
    );
}

#[test]
fn every_bug_is_caught_and_nothing_else_is() {
    let (mut missed, mut accused) = (Vec::new(), Vec::new());
    let mut clean = BTreeSet::new();
    for &case in CATCHES {
        let Some(caught) = caught(case) else {
            missed.push(case.to_string());
            continue;
        };
        let without = Options {
            bug: None,
            ..caught.options
        };
        // One of each class: those of servers take long.
        if clean.insert(without.scenario.class) {
            let report = run(&without);
            if !report.is_clean() {
                accused.push(format!("{}: {report}", without.command()));
            }
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
    assert!(accused.is_empty(), "without a bug: {accused:#?}");
}

#[test]
fn a_failure_shrinks_and_its_command_repeats_it() {
    let case = CATCHES
        .iter()
        .find(|case| case.bug == Bug::ForgetTombstone)
        .unwrap();
    let caught = caught(*case).expect("it is caught");
    let before = caught.options.clone();
    let (smallest, report) = shrink::shrink(&caught.options, caught.report, |_| {});
    assert!(!report.is_clean());
    assert!(smallest.length <= before.length);
    assert!(smallest.plan().len() <= before.plan().len());
    assert_eq!(run(&smallest), report, "{}", smallest.command());
    assert!(smallest.command().contains("--plant forget-tombstone"));
}
