//! The frs benchmark: compares the recovery of a follower by marks with checking entry by
//! entry and with truncation.
//!
//! ```text
//! bench/frs                                    with a record of machine and results
//! cargo run --profile dist -p coeval-measure --bin frs -- --help
//! ```
//!
//! The benchmark reproduces table 6.1 and figures 6.5 to 6.8 of FRS, with three nodes of
//! `coeval_consensus` on the virtual clock of [`coeval_measure::virtual_cluster`], which
//! documents the model:
//!
//! - *table 6.1*: logs that diverge in every way of the text; requests and entries are
//!   counted;
//! - *figures 6.5 to 6.7*: a million records in five terms; clients that only write;
//!   the leader is partitioned, writes on until all its clients wait, loses its term, is
//!   killed and restarted ([`fail`]). Requests and entries are counted. The time from the
//!   new leader's first message to the complete log on the old leader's disk is measured,
//!   by load, by added delay, with a commit point and without;
//! - *figure 6.8*: a thousand clients that also read, from any node with all entries;
//!   the leader is partitioned for 0.2 s, killed after 10 s and restarted 5 s later;
//!   answers are counted by tenths of a second.
//!
//! There are four lines: FRS; CHK; TC as consensus implements it, which keeps correct
//! entries on the disk; and TC as the text describes it, which first writes everything it
//! receives to another file and then in place (*TC, anew*). In figures 6.6 to 6.8 the
//! recovering node's log is a real file with fdatasync, and its leader's old log is read
//! from one.
//!
//! # What is checked
//!
//! Each recovery takes the requests and entries of table 6.1, except for one case of 25
//! in which FRS sends a mark once more; after each recovery, the nodes' logs are equal
//! and contain every acknowledged write. The program exits with 1 if any check fails.
//!
//! # What makes it unfair
//!
//! In the rivals' favour: requests and answers are handled by the same code, so a request
//! of CHK costs five microseconds instead of a remote call of a database. No message is
//! lost, and no waiting request times out. In FRS's favour: the model has one processor
//! per node, on which a request queues after earlier clients' requests. In favour of all,
//! compared with a server: the recovering node's file is overwritten in place, with one
//! fdatasync (*TC, anew*: another file before it). There is no file per term, and the
//! work that makes the product's log truncation crash-safe is not charged (decision 0023:
//! CONTROL twice, a file cleared, a new file of zeros for the term).

mod fail;
mod recover;
mod table;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_consensus::Recovery as Method;
use coeval_measure::Output;
use coeval_workload::build::Build;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Measures how a follower removes log entries that its leader does not have.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of initial records.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10..10_000_000))]
    records: u64,
    /// Numbers of writing clients, measured one after the other.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100,200,400,600,800,1000"
    )]
    clients: Vec<usize>,
    /// Delay added to the recovering node's messages, in milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,5,10,20")]
    delays: Vec<u64>,
    /// Number of turns of each variant that writes to real files.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these tables and figures, such as 6.1,6.8.
    #[arg(long, value_delimiter = ',')]
    figures: Vec<String>,
    /// Folder for the log files; the system's temporary folder when absent.
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

/// One of the rivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    name: &'static str,
    method: Method,
    writes_anew: bool,
}

const fn line(name: &'static str, method: Method, writes_anew: bool) -> Line {
    Line {
        name,
        method,
        writes_anew,
    }
}

/// All rivals; only the last writes the disk differently.
const LINES: [Line; 4] = [
    line("FRS", Method::Marks, false),
    line("CHK", Method::Checking, false),
    line("TC", Method::Truncating, false),
    line("TC, anew", Method::Truncating, true),
];

/// Error of a measurement.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("frs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = Output::new(&arguments.output, arguments.build)?;
    if arguments.wants("6.1") {
        table::measure(&mut output)?;
    }
    let base = fail::Base::new(arguments)?;
    recover::measure(arguments, &base, &mut output)?;
    if arguments.wants("6.8") {
        throughput::measure(&base, &mut output)?;
    }
    output.finish("frs.txt")?;
    Ok(())
}
