//! The corruption command: every kind of file of a data directory, of a backup and beside
//! them, edited in every way, and what a server makes of it.
//!
//! ```text
//! cargo run -p coeval-workload --bin corruption
//! cargo run -p coeval-workload --bin corruption -- --trials 20 --verify --seed 7
//! ```
//!
//! Prints a table in Markdown. Ends with 0 when everything was refused by name, repaired
//! or harmless; with 1 when something was served wrong, or refused without saying which
//! file; with 2 when no verdict was reached.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_env as env;
use coeval_workload::faults::corruption::{self, Edit, Options};
use coeval_workload::server::build_coeval;

/// Edits files, starts servers, and says what they made of it.
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each edit is made of each kind of file, each time elsewhere.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// Decides where files are edited.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Asks `coeval verify` as well: it may call nothing sound that a start refuses.
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
