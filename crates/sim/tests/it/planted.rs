//! Tests that injected bugs are caught, and that runs without a bug are clean.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use coeval_sim::campaign::{
    self, BENEATH, CATCHES, Catch, Caught, ELSEWHERE, JUDGES, News, Verdict, catch,
};
use coeval_sim::command::Arguments;
use coeval_sim::{Class, Options, Report, Scenario, run, shrink};
use coeval_types::planted::{self, Bug};
use coeval_workload::faults::harness::planted as system;

/// The document with the table of bugs.
const TESTING: &str = include_str!("../../../../docs/internals/testing.md");

fn class(case: &Catch) -> Class {
    let scenario: Scenario = case.scenario.parse().expect("a scenario");
    scenario.class
}

/// Tries first the seed that caught the bug when it was last counted.
fn caught(case: Catch) -> Option<Caught> {
    catch(case, case.seeds - 1..case.seeds).or_else(|| catch(case, 0..case.within()))
}

#[test]
fn every_bug_class_and_judge_has_its_catch() {
    let in_processes: BTreeSet<Bug> = system::CATCHES.iter().map(|case| case.bug).collect();
    assert!(ELSEWHERE.iter().all(|bug| in_processes.contains(bug)));
    let bugs = CATCHES.iter().map(|case| case.bug);
    let elsewhere = ELSEWHERE.iter().chain(BENEATH).copied();
    let bugs: BTreeSet<Bug> = bugs.chain(elsewhere).collect();
    assert_eq!(bugs, Bug::ALL.iter().copied().collect());
    // The tests of consensus and of epochs inject these, those of SQL two.
    let of_sql = [Bug::CatalogVersionWithoutTerm, Bug::SequenceWithoutRow];
    let is_of_sql = |bug: &Bug| of_sql.contains(bug);
    assert!(
        BENEATH
            .iter()
            .all(|bug| bug.is_of_consensus() || bug.is_of_epochs() || is_of_sql(bug))
    );
    let classes: BTreeSet<Class> = CATCHES.iter().map(class).collect();
    assert_eq!(classes, Class::ALL.iter().copied().collect());
    let judges: BTreeSet<&str> = CATCHES.iter().map(|case| case.judge).collect();
    assert_eq!(judges, JUDGES.iter().copied().collect());
}

#[test]
fn the_table_is_what_is_held() {
    // The processes in the dock have a table of their own, further down.
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
        // Only one of each class, because those of servers take long.
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

/// The arguments of a printed command.
#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    run: Arguments,
}

/// Runs a printed command.
fn replay(command: &str) -> (Options, Report) {
    let (_, arguments) = command.split_once(" -- ").expect("arguments");
    let line = Line::try_parse_from(arguments.split_whitespace());
    let options = Options::from(
        line.unwrap_or_else(|error| panic!("{command}: {error}"))
            .run,
    );
    let report = run(&options);
    (options, report)
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
    assert_eq!(replay(&smallest.command()), (smallest, report));
}

#[test]
fn a_failure_without_faults_is_repeated_without_faults() {
    let scenario = "occ/list-append/snapshot-isolation/all".parse().unwrap();
    let options = Options {
        bug: Some(Bug::StaleSnapshot),
        faults: Some(Vec::new()),
        ..Options::new(scenario, 1)
    };
    let all = Options {
        faults: None,
        ..options.clone()
    };
    assert!(!all.plan().is_empty() && options.plan().is_empty());
    let report = run(&options);
    assert!(!report.is_clean());
    assert_eq!(replay(&options.command()), (options, report));
}

#[test]
fn a_court_tells_a_failure_when_it_happens_and_then_the_smallest() {
    let _planted = planted::plant(Bug::StaleSnapshot).expect("a build that has bugs");
    let scenario: Scenario = "occ/list-append/snapshot-isolation/none".parse().unwrap();
    let runs = [(scenario, 0), (scenario, 1)];
    let told = Mutex::new(Vec::new());
    // With one thread, runs are on the calling thread, where the bug is injected.
    campaign::hold(
        &runs,
        Duration::from_millis(400),
        1,
        || false,
        |news| {
            let mut told = told.lock().unwrap();
            match news {
                News::Done(done, options, report) => {
                    assert_eq!(done.verdict, Verdict::Failed, "{report}");
                    told.push((options.seed, "done"));
                }
                News::Shrunk(failure) => {
                    assert!(failure.smallest.length < failure.options.length);
                    told.push((failure.options.seed, "shrunk"));
                }
            }
        },
    );
    let expected = [(0, "done"), (0, "shrunk"), (1, "done"), (1, "shrunk")];
    assert_eq!(told.into_inner().unwrap(), expected);
}
