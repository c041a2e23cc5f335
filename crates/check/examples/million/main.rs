//! Benchmark of the judges: generates a large history, judges it at every level, and prints
//! how long that took.
//!
//! ```text
//! cargo run --release -p coeval-check --example million -- 1000000
//! cargo run --release -p coeval-check --example million -- 1000000 registers
//! ```
//!
//! The history is strictly serializable, so every level must permit it. Then one read in
//! its middle is changed to miss one acknowledged write, and exactly the levels that
//! guarantee real time must report a violation; so must recency or sessions, which found
//! none before. A wrong verdict ends the program with exit code 1.

mod synthetic;

use std::process::ExitCode;
use std::time::Instant;

use coeval_check::history::{Format, History, read, write};
use coeval_check::recency::{self, sessions};
use coeval_check::transactions::{Judgement, Level, judge};
use synthetic::Objects;

#[expect(
    clippy::disallowed_methods,
    reason = "a program that measures itself; there is no world to take the time from"
)]
fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    println!("{what:<40} {:>8.2} s", start.elapsed().as_secs_f64());
    result
}

fn verdict(history: &History) -> Option<Judgement> {
    judge(history, &Level::ALL)
        .inspect_err(|error| eprintln!("{error}"))
        .ok()
}

/// Whether the recency and the session judges find no violation.
fn single(history: &History) -> bool {
    let missed = timed("judged for recency", || {
        recency::judge(history).map(|report| report.missed.len())
    });
    let back = timed("judged for sessions", || {
        sessions::judge(history).map(|report| report.went_back.len())
    });
    (missed, back) == (Ok(0), Ok(0))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let count = arguments
        .next()
        .map_or(Ok(1_000_000), |count| count.parse());
    let (Ok(count), objects) = (count, arguments.next()) else {
        eprintln!("usage: million [TRANSACTIONS] [lists|registers]");
        return ExitCode::from(2);
    };
    let objects = match objects.as_deref() {
        None | Some("lists") => Objects::Lists,
        Some("registers") => Objects::Registers,
        Some(other) => {
            eprintln!("{other} are neither lists nor registers");
            return ExitCode::from(2);
        }
    };
    let mut history = timed("made", || synthetic::history(count, objects, 1));
    let operations = history.transactions.iter().map(|one| one.operations.len());
    println!(
        "{} transactions, {} operations, 32 processes",
        history.transactions.len(),
        operations.sum::<usize>()
    );
    for (name, format) in [("JSON lines", Format::JsonLines), ("EDN", Format::Edn)] {
        let mut text = Vec::new();
        timed(&format!("written as {name}"), || {
            write(&history, format, &mut text).expect("memory can be written to");
        });
        println!("{:<40} {:>8} MB", "", text.len() >> 20);
        let again = timed(&format!("read as {name}"), || read(&text, format));
        if again.map(|again| again.transactions.len()) != Ok(history.transactions.len()) {
            eprintln!("what was written as {name} was not read back");
            return ExitCode::from(1);
        }
    }
    let clean = timed("judged at all levels", || verdict(&history));
    let permits_all =
        |judgement: &Judgement| Level::ALL.iter().all(|level| judgement.permits(*level));
    if !clean.as_ref().is_some_and(permits_all) {
        eprintln!("a strictly serializable history was accused: {clean:#?}");
        return ExitCode::from(1);
    }
    if !single(&history) {
        eprintln!("reads that missed nothing were accused");
        return ExitCode::from(1);
    }
    let Some(reader) = synthetic::plant_stale_read(&mut history) else {
        eprintln!("the history has no read that could miss anything");
        return ExitCode::from(2);
    };
    println!("every level permits it; now T{reader} misses an acknowledged write");
    let planted = timed("judged at all levels", || verdict(&history));
    let expected = |level: Level| level.order() != coeval_check::transactions::Order::RealTime;
    let is_seen = planted.as_ref().is_some_and(|judgement| {
        Level::ALL
            .iter()
            .all(|level| judgement.permits(*level) == expected(*level))
    });
    if !is_seen {
        eprintln!("the stale read was not judged as such: {planted:#?}");
        return ExitCode::from(1);
    }
    println!("only the levels that promise real time object");
    if single(&history) {
        eprintln!("neither recency nor sessions have seen the stale read");
        return ExitCode::from(1);
    }
    println!("and recency, or sessions");
    ExitCode::SUCCESS
}
