//! Validation by logical ranges beside other ways to validate scans.
//!
//! ```text
//! bench/rocc                                   with a record of machine and results
//! cargo run --release -p coeval-measure --bin rocc -- --help
//! ```
//!
//! Figures 3.6 to 3.14 and table 3.2 of ROCC, each a [figure](figures::Figure) of cells,
//! each cell a workload on an [engine of its own](engines) with one validator:
//!
//! ```text
//!   figure 3.6 ─ cells: keys of a scan × {RV, LRV, GWV} ─ turns: rounds × cells
//!      │                  a turn: the driver runs hybrid YCSB for half a second
//!      ├─ rocc.csv        every turn with all that was counted
//!      └─ rocc-3.6a.svg   medians of turns
//! ```
//!
//! Rounds are outside of cells, so that whatever else the machine does meets all of them,
//! and validators take turns in going first.
//!
//! # Concurrency on few cores
//!
//! The source has forty threads on forty cores. Here as many *workers* are spread over two
//! threads, and give way to each other before each statement and within long scans. So as
//! many transactions overlap as there; what they wait for each other is in the latencies,
//! and not in throughput, which is counted in seconds of processor time.
//!
//! # What is checked
//!
//! Every scan shows each key of its range; every turn ends without a failure; after each
//! figure every row is whole and counts the writes that were acknowledged (YCSB), or the
//! twelve conditions hold and there are as many rewards as were acknowledged (TPC-C). None of
//! this sees a validator that lets a scan pass which it should refuse: locks keep the sums
//! right without it. That each validator keeps histories of hybrid YCSB serializable is
//! shown by this crate's tests, and with inserts, deletes and ranges that are cut and
//! merged meanwhile by those of `occ`.
//!
//! # What makes it unfair
//!
//! Reads come from a snapshot under all four, so no rival pays for, or gains by, seeing
//! what has not been committed. All of them share the engine's locks, log and records,
//! which are made for the first of them.

mod engines;
mod figures;
mod report;
mod turn;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_measure::Output;
use figures::Figure;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Measures validation by logical ranges beside other ways to validate scans.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rows of hybrid YCSB; 10,000,000 in the source.
    #[arg(long, default_value_t = 2_000_000)]
    records: u64,
    /// Warehouses of the modified TPC-C, and its workers unless a figure says otherwise;
    /// 40 in the source.
    #[arg(long, default_value_t = 8)]
    warehouses: u32,
    /// Its items; 100,000 in the standard.
    #[arg(long, default_value_t = 10_000)]
    items: u32,
    /// Workers of hybrid YCSB unless a figure says otherwise, as in the source.
    #[arg(long, default_value_t = 40)]
    workers: usize,
    /// Threads that they take turns on.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How long a turn is.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Turns of each cell.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Slots of a ring in figures 3.12. All engines of a figure are in memory together, three
    /// for each of these: some 2 GB each with the source's rows.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 5_000, 10_000])]
    slots: Vec<usize>,
    /// Only these figures, as 3.6,3.11; 3.11 is both 3.11a and 3.11b.
    #[arg(long, value_delimiter = ',')]
    figures: Vec<String>,
    /// Where the results go.
    #[arg(long)]
    output: PathBuf,
}

// Workers have threads of their own; this one has the sweepers.
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

/// Of all figures those that are named, or all; 3.11 names 3.11a and 3.11b.
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
    let mut output = Output::new(&arguments.output).map_err(failed)?;
    let figures = chosen(figures::all(arguments), &arguments.figures)?;
    let mut engines = engines::Engines::default();
    let mut csv = turn::HEAD.to_owned();
    for figure in &figures {
        let turns = figure.measure(arguments, &mut engines).await?;
        for turn in &turns {
            csv.push_str(&turn.csv(figure.number));
        }
        // As it goes, so that a run that ends early has left something.
        output.file("rocc.csv", csv.as_bytes()).map_err(failed)?;
        report::report(figure, &turns, &mut output).map_err(failed)?;
    }
    output.finish("rocc.txt").map_err(failed)
}
