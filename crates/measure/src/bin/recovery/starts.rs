//! Recovery times: starts from a checkpoint and from the log alone.
#![expect(
    clippy::disallowed_methods,
    reason = "files are put out of the kernel's cache behind the database's back"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use coeval_measure::table::{self, Change, Keys, Totals};
use coeval_measure::{Chance, Failure, Output, Stopwatch, median, process_time, resident_bytes};
use coeval_occ::{Engine, Settings};
use coeval_types::IndexKind;
use coeval_workload::plot::{Bar, Bars};

use super::Arguments;

/// Number of updates per commit.
const COMMIT: usize = 10;

/// Label of a start from a checkpoint.
const CHECKPOINT: &str = "checkpoint";

/// Target for a start from a checkpoint of ten million rows, in seconds.
const CHECKPOINT_AIM: f64 = 8.0;
/// Target for the memory of a row, including its index entry and all overhead, in bytes.
const MEMORY_AIM: f64 = 220.0;
/// Target for the replay of updates, per second and core.
const LOG_AIM: f64 = 1e6;

/// Measurements of one start of the engine.
struct Start {
    from: &'static str,
    /// Whether the files were in the kernel's cache.
    cached: bool,
    round: u64,
    /// Number of checkpoint rows, and of log entries.
    entries: u64,
    bytes: u64,
    read: Duration,
    indexes: Duration,
    processor: Duration,
}

impl Start {
    fn seconds(&self) -> f64 {
        (self.read + self.indexes).as_secs_f64()
    }

    /// Label of the start: its source, and whether that was cached.
    fn name(&self) -> String {
        name(self.from, self.cached)
    }
}

fn name(from: &str, cached: bool) -> String {
    let place = if cached { "in cache" } else { "on disk" };
    format!("{from}, {place}")
}

/// All starts measured so far.
struct Starts {
    all: Vec<Start>,
    csv: String,
}

/// Measures both kinds of start, and prints the results.
pub async fn measure(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut starts = Starts {
        all: Vec::new(),
        csv: String::from(
            "from,cached,round,entries,bytes,read_seconds,index_seconds,processor_seconds\n",
        ),
    };
    output.say(&format!(
        "{:<26} {:>10} {:>6} {:>7} {:>8} {:>8} {:>7} {:>8} {:>13} {:>12}",
        "start from",
        "entries",
        "MB",
        "read, s",
        "index, s",
        "whole, s",
        "CPU, s",
        "M/s",
        "M/s and core",
        "MB/s, core"
    ));
    let mut indexes = String::new();
    if arguments.rows > 0 {
        indexes = from_checkpoint(arguments, &mut starts, output).await?;
    }
    if arguments.updates > 0 {
        from_log(arguments, Change::Counter, &mut starts, output).await?;
        from_log(arguments, Change::WholeRow, &mut starts, output).await?;
    }
    output.file("recovery.csv", starts.csv.as_bytes())?;
    output.bars("recovery-starts", &chart(&starts.all, arguments.rows))?;
    if !indexes.is_empty() {
        output.say(&format!("\n{}", indexes.trim_end()));
    }
    Ok(())
}

async fn from_checkpoint(
    arguments: &Arguments,
    starts: &mut Starts,
    output: &mut Output,
) -> Result<String, Failure> {
    let directory = arguments.directory()?;
    let engine = open(directory.path()).await?;
    table::attach(&engine)?;
    let before = resident_bytes()?;
    table::fill(&engine, arguments.rows).await?;
    let row_bytes = resident_bytes()?.saturating_sub(before) as f64 / arguments.rows as f64;
    let clock = Stopwatch::start();
    coeval_txn::Engine::checkpoint(&engine).await?;
    let taken = clock.elapsed();
    let totals = checked(&engine, arguments.rows, 0).await?;
    engine.close().await?;
    drop(engine);
    let rows = arguments.rows;
    let mut indexes = String::new();
    for cached in [true, false] {
        for round in 0..arguments.rounds {
            let engine = start(
                starts,
                directory.path(),
                (CHECKPOINT, cached, round),
                totals,
            )
            .await?;
            if !cached && round + 1 == arguments.rounds {
                indexes = create_indexes(&engine, rows).await?;
            }
            engine.close().await?;
        }
        let aim = checkpoint_aim(rows);
        starts.say(output, CHECKPOINT, cached, |seconds, _| {
            format!("aim {aim:.1} s: {}", verdict(seconds <= aim))
        });
    }
    let _ = writeln!(
        indexes,
        "memory: {row_bytes:.0} bytes of the resident size for each row of 100 bytes with its \
         primary index of 8; aim {MEMORY_AIM:.0}: {}",
        verdict(row_bytes <= MEMORY_AIM)
    );
    let _ = writeln!(
        indexes,
        "checkpoint of {rows} rows, without other load: {:.2} s",
        taken.as_secs_f64()
    );
    Ok(indexes)
}

async fn create_indexes(engine: &Engine, rows: u64) -> Result<String, Failure> {
    let mut text = String::new();
    for (keys, order) in [
        (Keys::Ascending, "in the order of the rows"),
        (Keys::Scattered, "in an order by chance"),
    ] {
        for kind in [IndexKind::Secondary, IndexKind::Unique] {
            let clock = Stopwatch::start();
            table::build_index(engine, keys, kind).await?;
            let took = clock.elapsed().as_secs_f64();
            let _ = writeln!(
                text,
                "CREATE INDEX, {kind:?}, on {rows} rows with keys {order}: {took:.2} s, \
                 {:.2} million rows a second",
                rows as f64 / took / 1e6
            );
        }
    }
    Ok(text)
}

async fn from_log(
    arguments: &Arguments,
    change: Change,
    starts: &mut Starts,
    output: &mut Output,
) -> Result<(), Failure> {
    let from = match change {
        Change::Counter => "log of counters",
        Change::WholeRow => "log of whole rows",
    };
    let directory = arguments.directory()?;
    let engine = open(directory.path()).await?;
    table::attach(&engine)?;
    table::fill(&engine, arguments.log_rows).await?;
    let mut chance = Chance::new(1);
    let mut updates = 0;
    while updates < arguments.updates {
        let key = |_| chance.below(arguments.log_rows as usize) as u64;
        let mut keys: Vec<u64> = (0..COMMIT).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        updates += keys.len() as u64;
        table::update(&engine, &keys, change, updates).await?;
    }
    let totals = checked(&engine, arguments.log_rows, updates).await?;
    engine.close().await?;
    drop(engine);
    for round in 0..arguments.rounds {
        let engine = start(starts, directory.path(), (from, true, round), totals).await?;
        engine.close().await?;
    }
    starts.say(output, from, true, |_, per_core| {
        format!(
            "aim {:.0} M/s and core: {}",
            LOG_AIM / 1e6,
            verdict(per_core >= LOG_AIM)
        )
    });
    Ok(())
}

fn checkpoint_aim(rows: u64) -> f64 {
    CHECKPOINT_AIM * rows as f64 / 1e7
}

/// A chart of the durations; starts from a log have no target in seconds.
fn chart(starts: &[Start], rows: u64) -> Bars {
    let mut bars: Vec<Bar> = Vec::new();
    for start in starts {
        let name = start.name();
        match bars.iter_mut().find(|bar| bar.name == name) {
            Some(bar) => bar.rounds.push(start.seconds()),
            None => bars.push(Bar {
                name,
                rounds: vec![start.seconds()],
                aim: (start.from == CHECKPOINT).then(|| checkpoint_aim(rows)),
            }),
        }
    }
    Bars {
        title: "Start from a checkpoint and from the log alone".to_owned(),
        axis: "seconds until the first transaction could begin".to_owned(),
        bars,
    }
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}

fn settings() -> Settings {
    Settings {
        // No automatic checkpoints: the benchmark requests each.
        checkpoint_log_bytes: 0,
        ..Settings::default()
    }
}

async fn open(directory: &Path) -> Result<Engine, Failure> {
    Ok(Engine::open(directory, settings()).await?.0)
}

/// Reads the table, and checks that it has this many rows and updates.
async fn checked(engine: &Engine, rows: u64, updates: u64) -> Result<Totals, Failure> {
    let totals = table::totals(engine).await?;
    if (totals.rows, totals.updates) != (rows, updates) {
        return Err(format!("there are {totals:?}, not {rows} rows and {updates} updates").into());
    }
    Ok(totals)
}

/// Starts the engine once, and checks the recovered data.
async fn start(
    starts: &mut Starts,
    directory: &Path,
    (from, cached, round): (&'static str, bool, u64),
    expected: Totals,
) -> Result<Engine, Failure> {
    if !cached {
        forget_files(directory)?;
    }
    let (processor, clock) = (process_time(), Stopwatch::start());
    let (engine, summary) = Engine::open(directory, settings()).await?;
    let read = clock.elapsed();
    table::attach(&engine)?;
    let indexes = clock.elapsed() - read;
    let processor = process_time() - processor;
    let (rows, bytes) = summary
        .checkpoint
        .map_or((0, 0), |checkpoint| (checkpoint.records, checkpoint.bytes));
    let start = Start {
        from,
        cached,
        round,
        entries: rows + summary.entries,
        bytes: bytes + summary.bytes,
        read,
        indexes,
        processor,
    };
    let found = table::totals(&engine).await?;
    if found != expected {
        return Err(format!("{found:?} came back instead of {expected:?}").into());
    }
    starts.push(start);
    Ok(engine)
}

/// Evicts all files below a folder from the kernel's cache.
fn forget_files(folder: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            forget_files(&path)?;
        } else {
            let file = std::fs::File::open(&path)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

impl Starts {
    fn push(&mut self, start: Start) {
        let _ = writeln!(
            self.csv,
            "{},{},{},{},{},{:.4},{:.4},{:.4}",
            start.from,
            start.cached,
            start.round,
            start.entries,
            start.bytes,
            start.read.as_secs_f64(),
            start.indexes.as_secs_f64(),
            start.processor.as_secs_f64()
        );
        self.all.push(start);
    }

    /// Prints medians of the starts of one kind.
    fn say(&self, output: &mut Output, from: &str, cached: bool, aim: impl Fn(f64, f64) -> String) {
        let of_these = |start: &&Start| start.from == from && start.cached == cached;
        let of = |number: fn(&Start) -> f64| median(self.all.iter().filter(of_these).map(number));
        let entries = of(|start| start.entries as f64);
        let bytes = of(|start| start.bytes as f64);
        let processor = of(|start| start.processor.as_secs_f64());
        let whole = of(Start::seconds);
        output.say(&format!(
            "{:<26} {entries:>10.0} {:>6.0} {:>7.2} {:>8.2} {whole:>8.2} {processor:>7.2} \
             {:>8.2} {:>13.2} {:>12.0}  {}",
            name(from, cached),
            bytes / 1e6,
            of(|start| start.read.as_secs_f64()),
            of(|start| start.indexes.as_secs_f64()),
            entries / whole / 1e6,
            entries / processor / 1e6,
            bytes / processor / 1e6,
            aim(whole, entries / processor)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_of_a_kind_are_one_bar_and_those_from_a_checkpoint_have_an_aim() {
        let start = |from, cached, seconds| Start {
            from,
            cached,
            round: 0,
            entries: 1,
            bytes: 1,
            read: Duration::from_secs(seconds),
            indexes: Duration::from_secs(1),
            processor: Duration::ZERO,
        };
        let all = [
            start(CHECKPOINT, true, 1),
            start(CHECKPOINT, true, 3),
            start(CHECKPOINT, false, 4),
            start("log of counters", true, 5),
        ];
        let bars = chart(&all, 5_000_000).bars;
        let of = |bar: &Bar| (bar.name.clone(), bar.rounds.clone(), bar.aim);
        let expected = [
            ("checkpoint, in cache", vec![2.0, 4.0], Some(4.0)),
            ("checkpoint, on disk", vec![5.0], Some(4.0)),
            ("log of counters, in cache", vec![6.0], None),
        ];
        let expected = expected.map(|(name, rounds, aim)| (name.to_owned(), rounds, aim));
        assert_eq!(bars.iter().map(of).collect::<Vec<_>>(), expected);
    }
}
