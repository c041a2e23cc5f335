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
//! databases are written to; give it empty ones. Exits with 0 if the server of ours refuses
//! whatever PostgreSQL refuses, with 1 if it commits such a permutation, with 2 if no verdict was
//! reached.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own that reads files; nothing of it is simulated"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_workload::isolation::{Failure, Row, Server, Spec, Turn, Verdict, compare};

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

async fn play_spec(
    spec: &Spec,
    (ours, postgres): (&Server, &Server),
    arguments: &Arguments,
) -> Result<Row, tokio_postgres::Error> {
    let mut row = Row::default();
    ours.clean().await?;
    postgres.clean().await?;
    for turns in drawn(spec.runs(), arguments.most) {
        let theirs = match postgres.play(spec, &turns).await {
            Ok(events) => events,
            Err(Failure::Connection(error)) => return Err(error),
            Err(Failure::Stuck(_)) => continue,
            Err(failure) => {
                row.skipped = Some(format!("PostgreSQL: {failure}"));
                return Ok(row);
            }
        };
        let events = match ours.play(spec, &turns).await {
            Ok(events) => events,
            Err(Failure::Connection(error)) => return Err(error),
            Err(failure) => {
                row.skipped = Some(failure.to_string());
                return Ok(row);
            }
        };
        let comparison = compare(&events, &theirs);
        row.add(&comparison);
        let differs = comparison.waits.is_some() || comparison.answers.is_some();
        let verdict = comparison.verdict;
        let one_sided = matches!(
            verdict,
            Verdict::OnlyOursAborts | Verdict::OnlyPostgresAborts
        );
        if arguments.verbose && (differs || one_sided) {
            let steps: Vec<&str> = turns.iter().map(|turn| &*turn.step).collect();
            println!("  {verdict:?}: {}", steps.join(" "));
            for (our, their) in events
                .iter()
                .zip(&theirs)
                .filter(|(our, their)| our != their)
            {
                println!("    {}: {our:?}", our.step);
                println!("    {}: {their:?}", our.step);
            }
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
    let mut total = Row::default();
    let mut bad = false;
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
        let row = play_spec(&spec, (&ours, &postgres), &arguments).await?;
        println!("{name:<34}{row}");
        bad |= row.is_bad();
        for (sum, count) in total.verdicts.iter_mut().zip(row.verdicts) {
            *sum += count;
        }
        total.waits += row.waits;
        total.answers += row.answers;
    }
    println!("{:<34}{total}", "all");
    Ok(ExitCode::from(u8::from(bad)))
}
