//! The multi-version record beside other ways to keep versions.
//!
//! ```text
//! bench/ems                                    with a record of machine and results
//! cargo run --release -p coeval-measure --bin ems -- --help
//! ```
//!
//! Two parts, after figures 2.4 to 2.7 of EMS:
//!
//! - *reads*: records with four versions each; threads read one record after the other
//!   by chance, all its newest version or all its oldest, while no record is being updated
//!   or while somebody holds every one of them with a private version;
//! - *memory*: what headers, lists and values take after more and more updates of values
//!   of 10 and of 100 bytes, uniform, and with four of five updates in a fifth of the
//!   records.
//!
//! Nothing is collected, as in the source.
//!
//! # What is checked
//!
//! Every row that is read says which record and which version it is; the number of
//! versions passed on the way to it is what table 2.1 says; after the updates every
//! record shows its first version and its newest.
//!
//! # What makes it unfair
//!
//! To the others' favour: their headers lie in one array whose length does not change, so
//! a record is one load away; the engine's tables grow, which takes two. Their readers need
//! no guard, and get one all the same. To the engine's: its header is a whole cache line,
//! so two records never share one.

mod memory;
mod reads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_measure::Output;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Measures the multi-version record beside other ways to keep versions.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many records there are.
    #[arg(long, default_value_t = 2_000_000)]
    records: usize,
    /// How many threads read, one number after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    threads: Vec<usize>,
    /// Reads of each thread in one turn.
    #[arg(long, default_value_t = 1_000_000)]
    reads: usize,
    /// Turns of each storage.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Updates of the memory part, in all.
    #[arg(long, default_value_t = 10_000_000)]
    updates: usize,
    /// Where the results go.
    #[arg(long)]
    output: PathBuf,
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
    let mut output = Output::new(&arguments.output)?;
    reads::measure(arguments, &mut output)?;
    memory::measure(arguments, &mut output)?;
    output.finish("ems.txt")
}
