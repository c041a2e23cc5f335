//! The corruption command: edits every kind of file of a data directory, of a backup and
//! of the configuration in every way, and reports how a server handles it.
//!
//! ```text
//! cargo run -p coeval-workload --bin corruption
//! cargo run -p coeval-workload --bin corruption -- --trials 20 --verify --seed 7
//! ```
//!
//! The command prints a table in Markdown. It exits with 0 if the server refused (naming
//! the file), repaired or tolerated every edit; with 1 if the server returned wrong data,
//! or refused without naming the file; with 2 if no verdict was reached.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_env as env;
use coeval_workload::faults::corruption::{self, Edit, Options};
use coeval_workload::server::build_coeval;

/// Edits files, starts servers, and reports how they handled the edits.
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each edit is made of each kind of file, each time at another offset.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// Seed that decides where files are edited.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs `coeval verify` as well: it must not accept a file that the server refuses at
    /// start.
    #[arg(long)]
    verify: bool,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("corruption: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let binary = match arguments.binary {
        Some(binary) => binary,
        None => build_coeval()?,
    };
    let options = Options {
        seed: arguments.seed,
        trials: arguments.trials,
        edits: Edit::ALL.len(),
        verify: arguments.verify,
        only: None,
        bug: None,
    };
    let folder = tempfile::Builder::new()
        .prefix("coeval-corruption-")
        .tempdir()?;
    let began = env::now();
    let report = corruption::run(&binary, folder.path(), &options).await?;
    print!("{report}");
    println!(
        "\n{} edits in {:.0} s, seed {}: {} wrong",
        report.trials,
        began.elapsed().as_secs_f64(),
        arguments.seed,
        report.wrong.len()
    );
    for wrong in &report.wrong {
        println!("WRONG: {wrong}");
    }
    if !report.wrong.is_empty() {
        println!("the directories are kept: {}", folder.keep().display());
    }
    Ok(report.wrong.is_empty())
}
