//! Recovery of followers by marks, beside checking entry by entry and truncating.
//!
//! ```text
//! bench/frs                                    with a record of machine and results
//! cargo run --release -p coeval-measure --bin frs -- --help
//! ```
//!
//! Table 6.1 and figures 6.5 to 6.8 of FRS, with three nodes of `coeval_consensus` on the
//! virtual clock of [`coeval_measure::cluster`], which says what is modelled:
//!
//! - *table 6.1*: logs that part in every way the text knows; requests and entries, counted;
//! - *figures 6.5 to 6.7*: a million records in five terms; clients that only write; the
//!   leader is cut off, writes on until all its clients wait, loses its term, is killed and
//!   started again ([`fail`]). Counted: requests and entries. Timed: from the new leader's
//!   first word to its log on the old one's disk, by load, by added delay, with a commit
//!   point and without;
//! - *figure 6.8*: a thousand clients that also read, from whoever has everything; the
//!   leader is cut off for 0.2 s, killed after 10 s and started again 5 s later; answers by
//!   tenths of a second.
//!
//! Four lines: FRS; CHK; TC as consensus has it, which leaves alone what is right on the
//! disk; and TC as the text has it, which writes all that it gets aside and then in its
//! place (*TC, anew*). In figures 6.6 to 6.8 the recovering node's log is a real file with
//! fdatasync, and its leader's old log is read from one.
//!
//! # What is checked
//!
//! Each recovery takes the requests and entries of table 6.1, but for the one case of 25 in
//! which FRS sends a mark once more; behind each, the nodes' logs are
//! one log and every acknowledged write is in it. Ends with 1 when any does not.
//!
//! # What makes it unfair
//!
//! To the rivals' favour: requests and answers are handled by the same code, so a request of
//! CHK costs five microseconds and not a remote call of a database. Nothing is lost on the
//! way, and a request that waits is not a request given up. To FRS's: the model has one
//! processor a node, on which a request waits behind the clients that came before it. To all
//! of them alike, beside a server: the recovering node's file is written over in place, with
//! one fdatasync (*TC, anew*: another file before it). There is no file for a term, and what
//! makes a cut of the product's log safe from crashes is not charged (decision 0023: CONTROL
//! twice, a file cleared, a new file of zeros for the term).

mod fail;
mod recover;
mod table;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_consensus::Recovery as Method;
use coeval_measure::Output;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Measures how a follower gets rid of what is not its leader's.
#[derive(Debug, Parser)]
struct Arguments {
    /// Records that are there before anything happens.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10..10_000_000))]
    records: u64,
    /// How many clients write, one number after the other.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100,200,400,600,800,1000"
    )]
    clients: Vec<usize>,
    /// What is added to the delay of the recovering node's messages, in milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,5,10,20")]
    delays: Vec<u64>,
    /// Turns of each that writes to real files.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these, as 6.1,6.8.
    #[arg(long, value_delimiter = ',')]
    figures: Vec<String>,
    /// Where to make the files; the system's folder for temporary files when absent.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Where the results go.
    #[arg(long)]
    output: PathBuf,
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

/// All of them; what comes to the disk is another thing only for the last.
const LINES: [Line; 4] = [
    line("FRS", Method::Marks, false),
    line("CHK", Method::Checking, false),
    line("TC", Method::Truncating, false),
    line("TC, anew", Method::Truncating, true),
];

/// Why there is no result.
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
    let mut output = Output::new(&arguments.output)?;
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
