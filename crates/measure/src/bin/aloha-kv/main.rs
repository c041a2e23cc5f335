//! The aloha-kv benchmark: figures 3.5 to 3.8, 3.10 and 3.11 of the thesis on ALOHA-KV, by epochs and
//! the protocols that they are compared with.
//!
//! ```text
//! bench/aloha-kv                               with a record of machine and results
//! cargo run --profile dist -p coeval-measure --bin aloha-kv -- --help
//! ```
//!
//! One thread runs all nodes of a cluster: step functions, of which each is handed what has come for
//! it, as the bytes that a connection would carry, and whose payloads are queued for the others. So
//! every protocol has the same transport, codecs, store and records, and what is compared is *processor
//! time*: of a transaction, and therefore the keys that a core can do in a second. Five nodes on a
//! machine each have five cores for it and a network between; here there is neither.
//!
//! | figure | what is varied | what the text says |
//! | --- | --- | --- |
//! | 3.5 | keys of a transaction, 1 to 1000; epochs of 20 ms | from 6 keys on above RAMP-Small, from 10 on above RAMP-Fast; at 1000 20 times and over 1000 times; close to no control |
//! | 3.6 | length of epochs, 5 to 200 ms | 10 ms is about 10 % below 100 ms; latency grows with the length |
//! | 3.7 | keys of a transaction, 1 to 4000; epochs of 100 ms | rises up to 1000, flat beyond 2000 |
//! | 3.8 | share of reads | epochs of equal lengths do half or more of what lengths of the known mix do |
//! | 3.10 | front ends, up to 255 | a switch of 640 takes 3.4 ms, 5.3 µs for each; it grows with their number |
//! | 3.11 | log, backup of front ends, copies | 2 to 5 %, 16 to 21 %, 20 to 25 %; all three 40 % |
//!
//! Figure 3.9, scale-out, needs machines.
//!
//! # What differs from the text
//!
//! - A put is answered when its epoch is closed, not before anything is on a disk: with epochs that
//!   take turns, it waits for the end of one. So more transactions have to be under way to fill a core:
//!   as many as have `load::IN_FLIGHT_KEYS` keys together, and at least as many as the text's clients
//!   would have where that is more.
//! - Latencies are those of a cluster that is not busy, of ten transactions at a time.
//! - The barrier is flat for up to 255 front ends, as many as a timestamp has numbers for.
//! - Without "+log" the log's records are made and not written.
//!
//! # What is checked
//!
//! Every transaction is answered, and none refused. Of 64 keys the newest value at the end is the one of
//! the committed transaction with the highest timestamp. The program exits with 1 if not.

mod figures;
mod load;
mod net;
mod switch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_measure::{Failure, Output};
use coeval_workload::build::Build;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Redraws the figures of ALOHA-KV, with the text's values beside.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only these figures, such as 3.5,3.10.
    #[arg(long, value_delimiter = ',')]
    figures: Vec<String>,
    /// Processor time of each point, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Turns of each point, of which the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Keys that there are.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(10_000..=10_000_000))]
    keys: u32,
    /// Folder for the log files of figure 3.11; the system's temporary folder when absent.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    build: Build,
}

impl Arguments {
    fn wants(&self, figure: &str) -> bool {
        self.figures.is_empty() || self.figures.iter().any(|name| name == figure)
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aloha-kv: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = Output::new(&arguments.output, arguments.build)?;
    figures::measure(arguments, &mut output)?;
    if arguments.wants("3.10") {
        switch::measure(arguments.seconds, &mut output)?;
    }
    output.finish("aloha-kv.txt")?;
    Ok(())
}
