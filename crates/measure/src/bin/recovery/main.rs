//! How fast a database comes back, and what a checkpoint costs those who write meanwhile.
//!
//! ```text
//! bench/recovery                                   with a record of machine and results
//! cargo run --release -p coeval-measure --bin recovery -- --help
//! ```
//!
//! The engine in this process, with a directory, at its default settings. Three parts:
//!
//! - *from a checkpoint*: rows of 100 bytes, and by how much they make the process grow; a
//!   checkpoint, a start from it, again and again:
//!   with its file in the kernel's cache, and without, as behind a loss of power. At the end
//!   `CREATE INDEX` on the rows that are there, with keys in the order of the rows and in an
//!   order by chance;
//! - *from the log alone*: fewer rows, many updates of rows by chance, ten to a commit, a
//!   start that replays it all; once with updates that change a counter, some thirty bytes
//!   of log each, and once with updates that change rows whole;
//! - *beside a load*: clients that change four rows in a transaction and wait until it is
//!   durable, as fast as they can and at a pace of half of that, and a checkpoint on the
//!   way, at its default limit of bytes per second and without one. The pace is kept from
//!   the intended start of a transaction: what comes too late counts with all its delay.
//!
//! A start is done when the first transaction could begin: checkpoint and log read, and the
//! primary index built.
//!
//! # What is checked
//!
//! The number of rows, the sum of their counters (which is the number of updates), and a
//! checksum of every byte of them, read through the primary index: before the end and behind
//! every start. Behind a load, the sum of what clients were told. Ends with 1 when any differs.
//!
//! # What makes it unfair
//!
//! The log was closed in order, so a start has no torn tail to judge. Rows have the memory
//! of the ones before them, which this process has given back to its allocator and not to
//! the kernel; a new process has every page zeroed first. The first start of each part is
//! measured in the same process as the filling.

mod beside;
mod starts;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_measure::{Failure, Output};

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Measures how fast a database comes back, and what a checkpoint costs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rows of the checkpoint; 0 leaves this part out.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Rows of the log.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    log_rows: u64,
    /// Updates of the log; 0 leaves this part out.
    #[arg(long, default_value_t = 10_000_000)]
    updates: u64,
    /// Rows beside whose load a checkpoint is taken; 0 leaves this part out.
    #[arg(long, default_value_t = 2_000_000)]
    load_rows: u64,
    /// How many clients load.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// How much of what they can do at most the paced ones do, in per cent.
    #[arg(long, default_value_t = 50)]
    pace: u64,
    /// How often each is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Where to make the databases; the system's folder for temporary files when absent.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Where the results go.
    #[arg(long)]
    output: PathBuf,
}

impl Arguments {
    /// A folder for a database, gone when it is dropped.
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
    let mut output = Output::new(&arguments.output)?;
    starts::measure(arguments, &mut output).await?;
    beside::measure(arguments, &mut output).await?;
    output.finish("recovery.txt")?;
    Ok(())
}
