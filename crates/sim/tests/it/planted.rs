//! Bugs that are put back are caught.

use std::collections::BTreeSet;

use coeval_sim::court::{CATCHES, NOT_CAUGHT, catch};
use coeval_sim::{run, shrink};
use coeval_types::planted::Bug;

/// Seeds that each bug is given to show itself.
const SEEDS: u64 = 60;

#[test]
fn every_bug_has_a_scenario_or_is_said_to_have_none() {
    let caught = CATCHES.iter().map(|catch| catch.bug);
    let covered: BTreeSet<Bug> = caught.chain(NOT_CAUGHT.iter().copied()).collect();
    assert_eq!(covered, Bug::ALL.iter().copied().collect());
}

#[test]
fn every_bug_is_caught() {
    let mut missed = Vec::new();
    for &case in CATCHES {
        match catch(case, SEEDS) {
            Some(caught) => println!("{} in {}: {} seeds", case.bug, case.scenario, caught.seeds),
            None => missed.push(case),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[test]
fn a_failure_shrinks_and_its_command_repeats_it() {
    let case = CATCHES
        .iter()
        .find(|case| case.bug == Bug::ForgetTombstone)
        .unwrap();
    let caught = catch(*case, SEEDS).expect("it is caught");
    let before = caught.options.clone();
    let (smallest, report) = shrink::shrink(&caught.options, caught.report, |_| {});
    assert!(!report.is_clean());
    assert!(smallest.length <= before.length);
    assert!(smallest.plan().len() <= before.plan().len());
    assert_eq!(run(&smallest), report, "{}", smallest.command());
    assert!(smallest.command().contains("--plant forget-tombstone"));
}
