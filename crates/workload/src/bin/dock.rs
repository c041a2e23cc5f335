//! The dock command: a server process under every kind of fault that can be made from
//! outside, at every isolation level.
//!
//! ```text
//! cargo run -p coeval-workload --bin dock -- --rounds 10
//! cargo run -p coeval-workload --bin dock -- --kind power --level SERIALIZABLE
//! ```
//!
//! Ends with 0 when nothing was lost, invented, torn or served wrong; with 1 when
//! something was; with 2 when no verdict was reached. Faults of disk and clock need a
//! debug build, which this makes when it is one itself.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use coeval_workload::faults::dock::{self, Kind, LEVELS, Options};
use coeval_workload::server::build_coeval;

/// Puts a server process under faults, restarts it, and compares what it kept with what
/// its clients were told.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only this kind: kill, pause, network, power, sync, full, clock or damage.
    #[arg(long)]
    kind: Option<String>,
    /// Only this level, as SQL names it.
    #[arg(long)]
    level: Option<String>,
    /// How often, for each kind and level.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How many clients load it.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Decides the load and the moments of faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The longest time under load before and after a fault, in milliseconds.
    #[arg(long, default_value_t = 300)]
    load: u64,
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
            eprintln!("dock: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => build_coeval()?,
    };
    println!(
        "{:<16} {:<9} {:>6} {:>12} {:>8}  verdict",
        "level", "kind", "rounds", "acknowledged", "refused"
    );
    let mut clean = true;
    for level in LEVELS {
        for (kind, name) in Kind::ALL {
            let wanted = |wanted: &Option<String>, name: &str| {
                wanted.as_deref().is_none_or(|wanted| wanted == name)
            };
            let possible = cfg!(debug_assertions) || !kind.needs_debug_build();
            if possible && wanted(&arguments.level, level) && wanted(&arguments.kind, name) {
                let options = Options {
                    kind,
                    level,
                    rounds: arguments.rounds,
                    clients: arguments.clients,
                    accounts: 16,
                    seed: arguments.seed,
                    load_at_most: Duration::from_millis(arguments.load),
                };
                clean &= one(&binary, &options, name).await?;
            }
        }
    }
    Ok(clean)
}

/// One kind at one level; its line of the table.
async fn one(
    binary: &Path,
    options: &Options,
    name: &str,
) -> Result<bool, Box<dyn std::error::Error>> {
    let folder = tempfile::Builder::new().prefix("coeval-dock-").tempdir()?;
    let result = dock::run(binary, folder.path(), options, &mut io::sink()).await;
    let clean = matches!(&result, Ok(summary) if summary.verdict.is_clean());
    match &result {
        Ok(summary) => println!(
            "{:<16} {name:<9} {:>6} {:>12} {:>8}  {}",
            options.level, summary.rounds, summary.acknowledged, summary.refused, summary.verdict
        ),
        Err(error) => println!("{:<16} {name:<9} {error}", options.level),
    }
    if !clean {
        println!("the directory is kept: {}", folder.keep().display());
    }
    Ok(clean)
}
