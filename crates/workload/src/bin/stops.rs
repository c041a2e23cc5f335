//! The stops command: how stale a follower's `any` reads are after it was stopped.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin stops
//! ```
//!
//! One of three nodes is stopped for 200 ms, a hundred times, without the hold of `any` reads
//! and with it (see `coeval_workload::stops`). The command prints both, and exits with 1
//! unless without the hold at least nine of ten stops show a score above the threshold, with
//! it none does within a second of the stop's end, and without stops fewer than one read of a
//! thousand is held.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use coeval_workload::build::Build;
use coeval_workload::stops::{self, Findings, Options};

/// Stops a follower under `any` reads, and judges them.
#[derive(Debug, Parser)]
struct Arguments {
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Number of stops.
    #[arg(long, default_value_t = 100)]
    stops: usize,
    /// Length of a stop, in milliseconds.
    #[arg(long, default_value_t = 200)]
    stopped_milliseconds: u64,
    /// Scores above this count, in milliseconds.
    #[arg(long, default_value_t = 5)]
    threshold_milliseconds: u64,
    /// Time without stops before the first one, in seconds.
    #[arg(long, default_value_t = 20)]
    quiet_seconds: u64,
    /// Interval between two reads of a client and two writes of a key, in milliseconds.
    #[arg(long, default_value_t = 5)]
    every_milliseconds: u64,
    #[command(flatten)]
    build: Build,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("stops: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let binary = arguments.build.coeval(arguments.binary)?;
    let options = |settings: &[&str]| Options {
        binary: binary.clone(),
        settings: settings.iter().map(|&word| word.to_owned()).collect(),
        stops: arguments.stops,
        stopped: Duration::from_millis(arguments.stopped_milliseconds),
        between: Duration::from_millis(1200),
        quiet: Duration::from_secs(arguments.quiet_seconds),
        every: Duration::from_millis(arguments.every_milliseconds),
        threshold: Duration::from_millis(arguments.threshold_milliseconds),
        shadow: Duration::from_secs(1),
    };
    let without = stops::run(&options(&["--any-read-away-milliseconds", "0"])).await?;
    print!("without the hold:\n{without}");
    let with = stops::run(&options(&[])).await?;
    print!("with the hold:\n{with}");
    Ok(is_as_it_should_be(&without, &with))
}

fn is_as_it_should_be(without: &Findings, with: &Findings) -> bool {
    without.shown() * 10 >= without.stops.len() * 9
        && with.shown() == 0
        && with.quiet_held * 1000 < with.quiet_reads
}
