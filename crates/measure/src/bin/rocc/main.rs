//! The rocc benchmark: compares validation by logical ranges with other ways to validate
//! scans.
//!
//! ```text
//! bench/rocc                                   with a record of machine and results
//! cargo run --profile dist -p coeval-measure --bin rocc -- --help
//! ```
//!
//! The benchmark reproduces figures 3.6 to 3.14 and table 3.2 of ROCC, each a
//! [figure](figures::Figure) of cells, each cell a workload on an [engine of its
//! own](engines) with one validator:
//!
//! ```text
//!   figure 3.6 ─ cells: keys of a scan × {RV, LRV, GWV} ─ turns: rounds × cells
//!      │                  a turn: the driver runs hybrid YCSB for half a second
//!      ├─ rocc.csv        every turn with all that was counted
//!      └─ rocc-3.6a.svg   medians of turns
//! ```
//!
//! Rounds are the outer loop and cells the inner one, so that other work on the machine
//! affects all cells, and the order of the validators alternates.
//!
//! # Concurrency on few cores
//!
//! The source has forty threads on forty cores. Here as many *workers* are spread over
//! two threads, and yield to each other before each statement and within long scans. So
//! as many transactions overlap as in the source; the time that they wait for each other
//! is part of the latencies, but not of the throughput, which is per second of CPU time.
//!
//! # What is checked
//!
//! Every scan must return each key of its range; every turn must end without a failure;
//! after each figure every row must be whole and count the acknowledged writes (YCSB), or
//! the twelve conditions must hold and the number of rewards match the acknowledged ones
//! (TPC-C). None of this detects a validator that accepts a scan it should refuse: locks
//! keep the sums right even then. This crate's tests show that histories of hybrid YCSB
//! are serializable under each validator, and the tests of `occ` show it with inserts,
//! deletes and concurrent splits and merges of ranges.
//!
//! # What makes it unfair
//!
//! Reads come from a snapshot under all four validators, so no rival pays for, or gains
//! by, reading uncommitted data. All of them share the engine's locks, log and records,
//! which are designed for the first of them.

mod engines;
mod figures;
mod report;
mod turn;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_measure::Output;
use coeval_workload::build::Build;
use figures::Figure;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Compares validation by logical ranges with other ways to validate scans.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of rows of hybrid YCSB; 10,000,000 in the source.
    #[arg(long, default_value_t = 2_000_000)]
    records: u64,
    /// Warehouses of the modified TPC-C, and its workers unless a figure varies them; 40
    /// in the source.
    #[arg(long, default_value_t = 8)]
    warehouses: u32,
    /// Items of the modified TPC-C; 100,000 in the standard.
    #[arg(long, default_value_t = 10_000)]
    items: u32,
    /// Workers of hybrid YCSB unless a figure varies them, as in the source.
    #[arg(long, default_value_t = 40)]
    workers: usize,
    /// Number of threads that the workers share.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Duration of a turn, in seconds.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Number of turns of each cell.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Numbers of ring slots in figures 3.12. All engines of a figure are in memory
    /// together, three for each of these: some 2 GB each with the source's rows.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 5_000, 10_000])]
    slots: Vec<usize>,
    /// Only these figures, such as 3.6,3.11; 3.11 is both 3.11a and 3.11b.
    #[arg(long, value_delimiter = ',')]
    figures: Vec<String>,
    /// Folder for the results.
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    build: Build,
}

// Workers have threads of their own; this thread runs the garbage collectors.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rocc: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The figures with these names, or all if none is given; 3.11 names 3.11a and 3.11b.
fn chosen(mut all: Vec<Figure>, names: &[String]) -> Result<Vec<Figure>, String> {
    let has = |figure: &Figure, name: &str| {
        figure
            .number
            .trim_end_matches(|letter: char| letter.is_ascii_alphabetic())
            == name
            || figure.number == name
    };
    if let Some(none) = names
        .iter()
        .find(|name| !all.iter().any(|figure| has(figure, name)))
    {
        let numbers: Vec<_> = all.iter().map(|figure| figure.number).collect();
        let numbers = numbers.join(", ");
        return Err(format!("no figure is called {none:?}; there are {numbers}"));
    }
    if !names.is_empty() {
        all.retain(|figure| names.iter().any(|name| has(figure, name)));
    }
    Ok(all)
}

async fn run(arguments: &Arguments) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut output = Output::new(&arguments.output, arguments.build).map_err(failed)?;
    let figures = chosen(figures::all(arguments), &arguments.figures)?;
    let mut engines = engines::Engines::default();
    let mut csv = turn::HEAD.to_owned();
    for figure in &figures {
        let turns = figure.measure(arguments, &mut engines).await?;
        for turn in &turns {
            csv.push_str(&turn.csv(figure.number));
        }
        // Written after each figure, so that an interrupted run leaves results.
        output.file("rocc.csv", csv.as_bytes()).map_err(failed)?;
        report::report(figure, &turns, &mut output).map_err(failed)?;
    }
    output.finish("rocc.txt").map_err(failed)
}
