//! The recovery benchmark: measures how fast a database starts, and how much a checkpoint
//! slows concurrent writers down.
//!
//! ```text
//! bench/recovery                                   with a record of machine and results
//! cargo run --profile dist -p coeval-measure --bin recovery -- --help
//! ```
//!
//! The benchmark runs the engine in this process, with a data directory and default
//! settings, in three parts:
//!
//! - *from a checkpoint*: rows of 100 bytes, and the memory by which they make the
//!   process grow; a checkpoint, and a start from it, several times: with its file in the
//!   kernel's cache, and without, as after a loss of power. At the end `CREATE INDEX` on
//!   the existing rows, with keys in the order of the rows and in a random order;
//! - *from the log alone*: fewer rows, many updates of random rows, ten per commit, and
//!   a start that replays the whole log; once with updates that change a counter, some
//!   thirty bytes of log each, and once with updates that change whole rows;
//! - *beside a load*: clients that update four rows per transaction and wait until it
//!   is durable, at full speed and at half of that rate, with a checkpoint during the
//!   load, with its default limit of bytes per second and without one. The rate counts
//!   from the intended start of a transaction: the latency of a late one includes its
//!   whole delay.
//!
//! A start is complete when the first transaction could begin: checkpoint and log are
//! read, and the primary index is built.
//!
//! # What is checked
//!
//! The number of rows, the sum of their counters (which is the number of updates), and a
//! checksum of every byte of them are read through the primary index, before the shutdown
//! and after every start; after a load, the sum must equal the acknowledged updates. The
//! program exits with 1 if any of them differs.
//!
//! # What makes it unfair
//!
//! The log was closed cleanly, so recovery finds no torn tail. Rows reuse the memory of
//! earlier ones, which this process has returned to its allocator and not to the kernel;
//! in a new process the kernel first zeroes every page. The first start of each part is
//! measured in the process that filled the tables.

mod beside;
mod starts;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_measure::{Failure, Output};
use coeval_workload::build::Build;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Measures how fast a database starts, and what a checkpoint costs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of rows for the checkpoint; 0 skips this part.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Number of rows for the log.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    log_rows: u64,
    /// Number of updates in the log; 0 skips this part.
    #[arg(long, default_value_t = 10_000_000)]
    updates: u64,
    /// Number of rows for the checkpoint under load; 0 skips this part.
    #[arg(long, default_value_t = 2_000_000)]
    load_rows: u64,
    /// Number of clients of the load.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Rate of the paced clients, in per cent of their full speed.
    #[arg(long, default_value_t = 50)]
    pace: u64,
    /// Number of measurements of each kind.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Folder for the databases; the system's temporary folder when absent.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    build: Build,
}

impl Arguments {
    /// Creates a folder for a database, which is removed when the value is dropped.
    fn directory(&self) -> std::io::Result<tempfile::TempDir> {
        let parent = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        tempfile::Builder::new()
            .prefix("coeval-recovery-")
            .tempdir_in(parent)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("recovery: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = Output::new(&arguments.output, arguments.build)?;
    starts::measure(arguments, &mut output).await?;
    beside::measure(arguments, &mut output).await?;
    output.finish("recovery.txt")?;
    Ok(())
}
