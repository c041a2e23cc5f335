//! The isolation command: plays PostgreSQL's isolation specs on a server of ours and on a
//! PostgreSQL, and compares them permutation by permutation.
//!
//! ```text
//! cargo run --release -p coeval-workload --bin isolation -- --specs src/test/isolation/specs \
//!     --ours 'host=127.0.0.1 port=5432 user=coeval dbname=coeval' \
//!     --postgres 'host=127.0.0.1 port=5433 user=postgres dbname=postgres'
//! ```
//!
//! The specs are files of PostgreSQL's source, which is not part of this repository. Both
//! databases are written to; give it empty ones. Prints a row for each spec that was played, then
//! what differs by name, then the specs that were not played, with what they lack. Exits with 0 if
//! the server of ours refuses whatever PostgreSQL refuses, and answers what it answers where
//! neither refuses anything; with 1 if a permutation shows otherwise, with 2 if no verdict was
//! reached.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own that reads files; nothing of it is simulated"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_workload::isolation::{
    Comparison, Event, Failure, Report, Row, Server, Spec, Turn, Verdict, compare, unsupported,
};

/// Plays PostgreSQL's isolation specs on two servers, and compares them.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder of the specs.
    #[arg(long, value_name = "DIR")]
    specs: PathBuf,
    /// Where the server under test is.
    #[arg(long, value_name = "ADDRESS")]
    ours: String,
    /// Where PostgreSQL is.
    #[arg(long, value_name = "ADDRESS")]
    postgres: String,
    /// Play only specs whose names contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Most permutations of a spec, drawn at equal distances.
    #[arg(long, default_value_t = 100)]
    most: usize,
    /// Print each permutation that differs.
    #[arg(long)]
    verbose: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("isolation: {error}");
            ExitCode::from(2)
        }
    }
}

/// At most this many permutations, at equal distances.
fn drawn(runs: Vec<Vec<Turn>>, most: usize) -> Vec<Vec<Turn>> {
    let distance = runs.len().div_ceil(most.max(1)).max(1);
    runs.into_iter().step_by(distance).collect()
}

/// A permutation in which a session of ours waits for a later step of another one.
fn stuck(step: String, events: &[Event], theirs: &[Event]) -> Comparison {
    let missing = unsupported(events, theirs);
    Comparison {
        verdict: match missing {
            Some(_) => Verdict::Unsupported,
            None => Verdict::Stuck,
        },
        waits: None,
        answers: None,
        refused: Some(missing.unwrap_or(step)),
    }
}

fn print_differences(comparison: &Comparison, turns: &[Turn], ours: &[Event], theirs: &[Event]) {
    let steps: Vec<&str> = turns.iter().map(|turn| &*turn.step).collect();
    println!("  {:?}: {}", comparison.verdict, steps.join(" "));
    for (our, their) in ours.iter().zip(theirs).filter(|(our, their)| our != their) {
        println!("    {}: {our:?}", our.step);
        println!("    {}: {their:?}", our.step);
    }
}

async fn play_spec(
    (name, spec): (&str, &Spec),
    (ours, postgres): (&Server, &Server),
    arguments: &Arguments,
    report: &mut Report,
) -> Result<Row, tokio_postgres::Error> {
    let mut row = Row::default();
    ours.clean().await?;
    postgres.clean().await?;
    for turns in drawn(spec.runs(), arguments.most) {
        let theirs = match postgres.play(spec, &turns).await {
            Ok(events) => events,
            Err(Failure::Connection(error)) => return Err(error),
            // PostgreSQL's own player leaves out such an interleaving.
            Err(Failure::Stuck { .. }) => continue,
            Err(failure) => {
                row.missing = Some(format!("PostgreSQL: {failure}"));
                return Ok(row);
            }
        };
        let (events, comparison) = match ours.play(spec, &turns).await {
            Ok(events) => {
                let comparison = compare(&events, &theirs);
                (events, comparison)
            }
            Err(Failure::Connection(error)) => return Err(error),
            Err(Failure::Stuck { step, events }) => {
                let comparison = stuck(step, &events, &theirs);
                (events, comparison)
            }
            Err(failure) => {
                row.missing = Some(failure.to_string());
                return Ok(row);
            }
        };
        row.add(&comparison);
        report.note(name, &turns, &comparison);
        let verdict = comparison.verdict;
        if verdict == Verdict::Unsupported && row.missing.is_none() {
            row.missing.clone_from(&comparison.refused);
        }
        let agrees = matches!(
            verdict,
            Verdict::BothCommit | Verdict::BothAbort | Verdict::Unsupported
        );
        let differs = comparison.waits.is_some() || comparison.answers.is_some();
        if arguments.verbose && (differs || !agrees) {
            print_differences(&comparison, &turns, &events, &theirs);
        }
    }
    Ok(row)
}

async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(&arguments.specs)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "spec"))
        .collect();
    files.sort();
    let ours = Server::connect(&arguments.ours, true).await?;
    let postgres = Server::connect(&arguments.postgres, false).await?;
    println!("{}", Row::title());
    let mut report = Report::default();
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let wanted = arguments
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only));
        if !wanted {
            continue;
        }
        let spec = Spec::parse(&std::fs::read_to_string(&path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let servers = (&ours, &postgres);
        let row = play_spec((&name, &spec), servers, &arguments, &mut report).await?;
        if let Some(line) = report.add(&name, &row) {
            println!("{line}");
        }
    }
    print!("{report}");
    if report.is_empty() {
        return Err("no spec could be played".into());
    }
    Ok(ExitCode::from(u8::from(report.is_bad())))
}
