//! The ems benchmark: compares the multi-version record with other designs of version
//! storage.
//!
//! ```text
//! bench/ems                                    with a record of machine and results
//! cargo run --profile dist -p coeval-measure --bin ems -- --help
//! ```
//!
//! The benchmark has two parts, after figures 2.4 to 2.7 of EMS:
//!
//! - *reads*: records with four versions each; threads read random records, either
//!   always the newest version or always the oldest, while no record is being updated or
//!   while a writer holds every one of them with a private version;
//! - *memory*: the memory of headers, lists and values after more and more updates of
//!   values of 10 and of 100 bytes, uniform, and with four of five updates in a fifth of
//!   the records.
//!
//! There is no garbage collection, as in the source.
//!
//! # What is checked
//!
//! Every row that is read identifies its record and its version; the number of versions
//! traversed is that of table 2.1; after the updates every record still has its first
//! version and its newest.
//!
//! # What makes it unfair
//!
//! In the rivals' favour: their headers are in one array of fixed length, so a record is
//! one load away; the engine's tables grow, which takes two. Their readers need no guard,
//! but the benchmark takes one for them too. In the engine's favour: its header is a
//! whole cache line, so two records never share one.

mod memory;
mod reads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_measure::Output;
use coeval_workload::build::Build;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Compares the multi-version record with other designs of version storage.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of records.
    #[arg(long, default_value_t = 2_000_000)]
    records: usize,
    /// Numbers of reading threads, measured one after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    threads: Vec<usize>,
    /// Number of reads of each thread in one turn.
    #[arg(long, default_value_t = 1_000_000)]
    reads: usize,
    /// Number of turns of each storage.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Total number of updates in the memory part.
    #[arg(long, default_value_t = 10_000_000)]
    updates: usize,
    /// Folder for the results.
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    build: Build,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ems: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> std::io::Result<()> {
    let mut output = Output::new(&arguments.output, arguments.build)?;
    reads::measure(arguments, &mut output)?;
    memory::measure(arguments, &mut output)?;
    output.finish("ems.txt")
}
