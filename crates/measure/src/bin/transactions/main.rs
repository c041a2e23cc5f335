//! The transactions benchmark: measures the CPU time of short transactions in the engine
//! itself.
//!
//! ```text
//! bench/transactions                               with a record of machine and results
//! cargo run --profile dist -p coeval-measure --bin transactions -- --help
//! ```
//!
//! The benchmark calls the engine in this process through the transaction contract, one
//! transaction after the other, from one thread and from two; transactions are
//! serializable, on rows of 100 bytes with a primary index of 8, chosen uniformly at
//! random:
//!
//! - *one read*: begin, get, commit; on a million rows with a log file at its default
//!   durability and without one, and on ten thousand, which stay in the CPU caches;
//! - *sixteen reads*: begin, one `get_many` of sixteen keys, commit;
//! - *sixteen operations*: each is an update with a probability of one in twenty; the
//!   reads are done by one `get_many`, then the updates in key order. In memory, and with
//!   a log without waiting for durability: the log's thread writes and syncs, and
//!   notifies no transaction.
//!
//! `bench/ycsb` runs the same loads through the workload driver: a task that may be
//! suspended between any two operations, a reading of the clock and a histogram update
//! for each transaction, rows of any shape. Here there is nothing beside the engine
//! except random keys and their comparison.
//!
//! # What is counted
//!
//! CPU time is that of all threads of the process, including the engine's own. Rounds are
//! the outer loop, so that other work on the machine affects all runs; numbers are
//! medians, and two threads are compared with one of the same round. An attempt aborted
//! by a conflict with the other thread does not count as a transaction, but its time
//! does.
//!
//! # What is checked
//!
//! Every read must return the row of its key, or the run fails. At the end every row must
//! exist and the counters must add up to the committed updates.

mod load;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use coeval_measure::{Failure, Output, median, table};
use coeval_occ::{Engine, Settings};
use coeval_workload::build::Build;
use coeval_workload::plot::{Bar, Bars};

use load::{Load, LoadKind, Turn};

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Measures the CPU time of short transactions in the engine itself.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of rows in the large table.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(16..))]
    rows: u64,
    /// Number of rows in the small table.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(16..))]
    few_rows: u64,
    /// Duration of a turn, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Number of turns of each run.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Folder for the database; the system's temporary folder when absent.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    build: Build,
}

/// An engine with a filled table, and the number of updates made to it.
struct MeasuredTable {
    name: &'static str,
    engine: Arc<Engine>,
    rows: u64,
    updates: u64,
}

/// A run, and its target.
#[derive(Clone, Copy)]
struct MeasuredRun {
    name: &'static str,
    place: &'static str,
    kind: LoadKind,
    /// Target for a transaction on one thread, in microseconds, if there is one.
    aim: Option<f64>,
}

const LOGGED: &str = "with a log";
const MEMORY: &str = "in memory";
const FEW: &str = "few rows";

/// Target for one read, in microseconds.
const AIM: Option<f64> = Some(0.8);
/// Target for the throughput of two threads as a multiple of that of one.
const SCALING_AIM: f64 = 1.8;
/// Greatest number of threads.
const THREADS: usize = 2;

const fn run(
    name: &'static str,
    place: &'static str,
    kind: LoadKind,
    aim: Option<f64>,
) -> MeasuredRun {
    MeasuredRun {
        name,
        place,
        kind,
        aim,
    }
}

const RUNS: [MeasuredRun; 6] = [
    run("one read, log", LOGGED, LoadKind::Read, AIM),
    run("one read", MEMORY, LoadKind::Read, AIM),
    run("one read, few rows", FEW, LoadKind::Read, AIM),
    run("16 reads", MEMORY, LoadKind::ReadsAtOnce, None),
    run("16 operations", MEMORY, LoadKind::Operations, None),
    run("16 operations, log", LOGGED, LoadKind::Operations, None),
];

#[tokio::main]
async fn main() -> ExitCode {
    match measure(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transactions: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = Output::new(&arguments.output, arguments.build)?;
    let parent = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let directory = tempfile::Builder::new()
        .prefix("coeval-transactions-")
        .tempdir_in(parent)?;
    let (logged, _) = Engine::open(directory.path(), Settings::default()).await?;
    let mut places = [
        filled(LOGGED, logged, arguments.rows).await?,
        filled(
            MEMORY,
            Engine::ephemeral(Settings::default())?,
            arguments.rows,
        )
        .await?,
        filled(
            FEW,
            Engine::ephemeral(Settings::default())?,
            arguments.few_rows,
        )
        .await?,
    ];
    let length = Duration::try_from_secs_f64(arguments.seconds)
        .map_err(|error| format!("--seconds {}: {error}", arguments.seconds))?;
    let mut turns = Vec::new();
    // Round 0 finds cold caches and does not count.
    for round in 0..=arguments.rounds {
        for (at, run) in RUNS.iter().enumerate() {
            let place = places.iter_mut().find(|place| place.name == run.place);
            let place = place.expect("each run has its place");
            for threads in 1..=THREADS {
                let load = Load {
                    engine: Arc::clone(&place.engine),
                    rows: place.rows,
                    kind: run.kind,
                    length,
                };
                let turn = load.turn(threads, round).await?;
                place.updates += turn.updates;
                if round > 0 {
                    turns.push((at, threads, turn));
                }
            }
        }
    }
    for place in &places {
        place.check().await?;
    }
    for place in &places {
        place.engine.close().await?;
    }
    report(&turns, &mut output)?;
    output.finish("transactions.txt")?;
    Ok(())
}

async fn filled(name: &'static str, engine: Engine, rows: u64) -> Result<MeasuredTable, Failure> {
    table::attach(&engine)?;
    table::fill(&engine, rows).await?;
    Ok(MeasuredTable {
        name,
        engine: Arc::new(engine),
        rows,
        updates: 0,
    })
}

impl MeasuredTable {
    async fn check(&self) -> Result<(), Failure> {
        let found = table::totals(&self.engine).await?;
        let Self {
            name,
            rows,
            updates,
            ..
        } = self;
        if (found.rows, found.updates) == (*rows, *updates) {
            return Ok(());
        }
        let (left, done) = (found.rows, found.updates);
        Err(format!("{name}: {left} rows of {rows}, {done} updates of {updates}").into())
    }
}

fn report(turns: &[(usize, usize, Turn)], output: &mut Output) -> Result<(), Failure> {
    let mut csv =
        "run,threads,transactions,seconds,processor_seconds,updates,given_way\n".to_owned();
    for (at, threads, turn) in turns {
        let _ = writeln!(
            csv,
            "{},{threads},{},{},{},{},{}",
            RUNS[*at].name.replace(',', ""),
            turn.transactions,
            turn.elapsed.as_secs_f64(),
            turn.processor.as_secs_f64(),
            turn.updates,
            turn.given_way
        );
    }
    output.file("transactions.csv", csv.as_bytes())?;
    output.say(&format!(
        "{:<20} {:>7} {:>14} {:>12} {:>9}",
        "serializable", "threads", "per second", "CPU µs each", "gave way"
    ));
    let of = |at: usize, threads: usize| {
        let same = move |turn: &&(usize, usize, Turn)| turn.0 == at && turn.1 == threads;
        turns.iter().filter(same).map(|(_, _, turn)| turn)
    };
    let mut bars = Vec::new();
    for (at, run) in RUNS.iter().enumerate() {
        for threads in 1..=THREADS {
            let rate = median(of(at, threads).map(Turn::per_second));
            let microseconds = median(of(at, threads).map(Turn::microseconds));
            let given_way: u64 = of(at, threads).map(|turn| turn.given_way).sum();
            let verdict = if threads == 1 {
                run.aim.map_or_else(String::new, |aim| {
                    format!("aim {aim} µs: {}", verdict(microseconds <= aim))
                })
            } else {
                let pairs = of(at, threads).zip(of(at, 1));
                let gain = median(pairs.map(|(two, one)| two.per_second() / one.per_second()));
                let reached = verdict(gain >= SCALING_AIM);
                format!("{gain:.2} × one, aim {SCALING_AIM}: {reached}")
            };
            let name = run.name;
            output.say(&format!(
                "{name:<20} {threads:>7} {rate:>14.0} {microseconds:>12.3} {given_way:>9}   {verdict}"
            ));
        }
        bars.push(Bar {
            name: run.name.to_owned(),
            rounds: of(at, 1).map(Turn::microseconds).collect(),
            aim: run.aim,
        });
    }
    for (name, runs) in [("one-read", "one read"), ("16", "16 ")] {
        let bars = bars.iter().filter(|bar| bar.name.starts_with(runs));
        let bars = Bars {
            title: "Serializable transactions by the contract, one thread".to_owned(),
            axis: "µs of processor time for a transaction".to_owned(),
            bars: bars.cloned().collect(),
        };
        output.bars(&format!("transactions-{name}"), &bars)?;
    }
    Ok(())
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}
