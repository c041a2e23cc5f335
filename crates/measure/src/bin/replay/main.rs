//! The replay benchmark: measures how fast a follower replays its leader's log.
//!
//! ```text
//! bench/replay                                   with a record of machine and results
//! cargo run --profile dist -p coeval-measure --bin replay -- --help
//! ```
//!
//! An engine as leader, with its log in a real file, fills a table and changes random
//! rows of it, four per commit; one commit in eight deletes rows instead, and the next
//! one inserts them again. Then its log is replayed into empty tables, from the kernel's
//! cache, with varying numbers of workers:
//!
//! - *written over*: as at a start, when everything is committed and there are no
//!   readers; then the engine takes over the tables and builds its two indexes;
//! - *ahead*: as on a follower, ahead of its commit point: every replaced version is
//!   kept until the end, which is more than a follower ever keeps;
//! - *ahead, indexes*: the same while maintaining both indexes, which the engine takes
//!   over.
//!
//! *Taken back* is the rollback of the last tenth of the log or somewhat more, in the
//! last mode, in entries and seconds.
//!
//! # What is checked
//!
//! The number of rows and a checksum of every byte of them must equal the leader's,
//! before the rollback and after the rolled back entries were replayed again; indexes
//! must have an entry for every row and no other. The program exits with 1 if any check
//! fails.
//!
//! # What makes it unfair
//!
//! There is no network, and no concurrent writer of the log. With the commit point far
//! back, hot rows have long version chains; here rows are chosen uniformly.

mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use coeval_log::{HardState, RecoverySummary, Replayer, ReplicaLog};
use coeval_measure::Output;
use coeval_occ::{Engine, FollowedTables, Settings};
use coeval_types::{Lsn, Term, Timestamp};
use coeval_workload::build::Build;
use table::Totals;

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Measures how fast a follower replays its leader's log.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of rows in the table.
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Number of changes to the rows.
    #[arg(long, default_value_t = 2_000_000)]
    updates: u64,
    /// Numbers of workers, measured one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    workers: Vec<usize>,
    /// Number of measurements of each kind.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Folder for the log; the system's temporary folder when absent.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    build: Build,
}

/// Error of a measurement.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How the replay fills the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    WrittenOver,
    Ahead,
    AheadWithIndexes,
}

/// Result of one replay.
struct Measured {
    entries: u64,
    took: Duration,
    /// Time from the end of the log to an engine with its indexes.
    led: Duration,
    taken_back: Option<(u64, Duration)>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut output = Output::new(&arguments.output, arguments.build)?;
    let parent = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let directory = tempfile::Builder::new()
        .prefix("coeval-replay-")
        .tempdir_in(parent)?;
    let leader = make(directory.path(), arguments).await?;
    output.say(&format!(
        "{} rows, {} changes; {} MiB of log",
        arguments.rows,
        arguments.updates,
        leader.1 >> 20
    ));
    output.say("                    workers   entries/s   to an engine   taken back");
    for mode in [Mode::WrittenOver, Mode::Ahead, Mode::AheadWithIndexes] {
        for &workers in &arguments.workers {
            let mut rounds = Vec::new();
            for _ in 0..arguments.rounds {
                rounds.push(replay(directory.path(), mode, workers, leader.0).await?);
            }
            rounds.sort_by_key(|measured| measured.took);
            let middle = &rounds[rounds.len() / 2];
            let taken_back = middle.taken_back.map_or(String::new(), |(entries, took)| {
                format!("{entries} in {:.3} s", took.as_secs_f64())
            });
            output.say(&format!(
                "{:<20}{workers:>7}{:>12.0}{:>13.3} s   {taken_back}",
                match mode {
                    Mode::WrittenOver => "written over",
                    Mode::Ahead => "ahead",
                    Mode::AheadWithIndexes => "ahead, indexes",
                },
                middle.entries as f64 / middle.took.as_secs_f64(),
                middle.led.as_secs_f64(),
            ));
        }
    }
    output.finish("replay.txt")?;
    Ok(())
}

fn settings(workers: usize) -> Settings {
    let mut settings = Settings {
        sweep_interval: None,
        checkpoint_log_bytes: 0,
        checkpoint_on_close_bytes: 0,
        ..Settings::default()
    };
    settings.log.recovery_threads = workers;
    settings
}

/// Opens the log in the folder, without replaying committed entries anywhere.
async fn open(directory: &std::path::Path, workers: usize) -> Result<ReplicaLog, Failure> {
    let nobody = FollowedTables::new().replay();
    let settings = settings(workers).log;
    let opened = ReplicaLog::open(directory, Some(1), settings, nobody);
    Ok(opened.await?.0)
}

async fn lead(
    mut log: ReplicaLog,
    tables: FollowedTables,
    workers: usize,
) -> Result<Engine, Failure> {
    let state = HardState {
        term: Term(log.hard_state().term.0 + 1),
        vote: Some(1),
        ..log.hard_state()
    };
    log.set_hard_state(state).await?;
    let log = log.lead(&[]).await?;
    let mark = log.marks().last().map(|mark| mark.end);
    log.set_committed(mark.ok_or("a leader has a mark")?);
    Ok(Engine::lead(tables, log, settings(workers))?)
}

/// Writes the log as leader; returns the totals of the leader's tables, and the length of
/// the log.
async fn make(
    directory: &std::path::Path,
    arguments: &Arguments,
) -> Result<(Totals, u64), Failure> {
    let log = open(directory, 1).await?;
    let engine = lead(log, FollowedTables::new(), 1).await?;
    table::attach(&engine)?;
    table::fill(&engine, arguments.rows).await?;
    table::change(&engine, arguments.rows, arguments.updates).await?;
    let totals = table::totals(&engine).await?;
    let log = engine.retire().await?;
    let bytes = log.end().0 - log.begin().0;
    log.close().await?;
    Ok((totals, bytes))
}

/// Replays the whole log, and makes an engine the leader on it.
async fn replay(
    directory: &std::path::Path,
    mode: Mode,
    workers: usize,
    expected: Totals,
) -> Result<Measured, Failure> {
    const STEP: u64 = 4 << 20;
    let log = open(directory, workers).await?;
    let tables = FollowedTables::new();
    if mode != Mode::WrittenOver {
        tables.follow(&nothing(), workers);
    }
    if mode == Mode::AheadWithIndexes {
        tables.define(vec![table::definition()]);
    }
    let mut replayer = log.replayer(tables.replay(), log.begin());
    let began = coeval_env::now();
    let mut entries = 0;
    let mut steps = Vec::new();
    while replayer.position() < log.end() {
        entries = replayer.advance_by(log.end(), STEP).await?.entries;
        tables.settle();
        steps.push((replayer.position(), entries));
    }
    let took = began.elapsed();
    let taken_back = match mode {
        Mode::AheadWithIndexes => {
            Some(take_back(&log, &tables, &mut replayer, &steps, expected).await?)
        }
        Mode::WrittenOver | Mode::Ahead => None,
    };
    // A real follower has done most of this already, as its commit point advanced.
    tables.commit(log.end());
    check("replayed", tables.view(), expected)?;
    replayer.close().await?;
    let began = coeval_env::now();
    let engine = lead(log, tables, workers).await?;
    table::attach(&engine)?;
    let led = began.elapsed();
    engine.check_indexes()?;
    let led_on = table::totals(&engine).await?;
    if led_on != expected {
        return Err(format!("led on {led_on:?} instead of {expected:?}").into());
    }
    // The next replay finds a log that is longer by a mark.
    engine.retire().await?.close().await?;
    Ok(Measured {
        entries,
        took,
        led,
        taken_back,
    })
}

/// Rolls the last tenth of the log back, and replays it again.
async fn take_back(
    log: &ReplicaLog,
    tables: &FollowedTables,
    replayer: &mut Replayer,
    steps: &[(Lsn, u64)],
    expected: Totals,
) -> Result<(u64, Duration), Failure> {
    let tenth = (steps.len() * 9 / 10).min(steps.len().saturating_sub(2));
    let (from, before) = steps[tenth];
    let all = steps.last().map_or(0, |(_, entries)| *entries);
    let began = coeval_env::now();
    tables.take_back(from)?;
    let took = began.elapsed();
    replayer.cut(from);
    while replayer.position() < log.end() {
        replayer.advance(log.end()).await?;
    }
    tables.settle();
    tables.commit(log.end());
    check("taken back and replayed", tables.view(), expected)?;
    Ok((all - before, took))
}

fn check(
    what: &str,
    view: Option<coeval_occ::FollowedView>,
    expected: Totals,
) -> Result<(), Failure> {
    let Some(view) = view else { return Ok(()) };
    let found = table::totals_of(&view);
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}").into()),
    }
}

/// The recovery summary of an empty log.
fn nothing() -> RecoverySummary {
    RecoverySummary {
        checkpoint: None,
        clean: true,
        commits: 0,
        entries: 0,
        bytes: 0,
        last_commit: Timestamp::ZERO,
        end: Lsn(0),
        cut_bytes: 0,
    }
}
