//! How fast a server reads its log back after a kill.
//!
//! ```text
//! cargo run --release -p coeval-workload --bin recovery
//! ```
//!
//! Fills a table, updates its rows from several clients until there is enough log,
//! kills the server, and takes the time and the processor time from its start to its
//! first answer. The rows must add up before and after. Ends with 1 when they do not.
//!
//! Twice: once with updates that change a counter, whose entries in the log are some
//! thirty bytes, and once with updates that change a row of a hundred bytes whole. What
//! an entry costs hardly depends on its size, so the two are far apart in bytes.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own that drives processes; nothing of it is simulated"
)]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use coeval_env as env;
use coeval_workload::chance::Chance;
use coeval_workload::server::{Launch, build_coeval, free_port};
use coeval_workload::{Connection, connect};
use tokio_postgres::types::{ToSql, Type};

/// Bytes of log that one core is to recover in a second.
const AIM: f64 = 200e6;

/// What an update changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Counter,
    WholeRow,
}

/// Measures recovery after a kill.
#[derive(Debug, Parser)]
struct Arguments {
    /// How much log to recover, in megabytes.
    #[arg(long, default_value_t = 512)]
    megabytes: u64,
    /// How many rows there are.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(i32).range(1_000..))]
    rows: i32,
    /// How many rows a transaction updates.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=1_000))]
    rows_per_commit: i32,
    /// How many clients update.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// How often to recover the same log.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Where to make the server's directory; the system's folder for temporary files
    /// when absent.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("recovery: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let binary = match arguments.binary.clone() {
        Some(binary) => binary,
        None => build_coeval()?,
    };
    println!(
        "{:<10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>16}",
        "change", "updates", "MB", "wall, s", "CPU, s", "MB/s", "MB/s and core"
    );
    for change in [Change::Counter, Change::WholeRow] {
        measure(&binary, &arguments, change).await?;
    }
    Ok(())
}

async fn measure(binary: &Path, arguments: &Arguments, change: Change) -> Result<(), Failure> {
    let parent = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new()
        .prefix("coeval-recovery-")
        .tempdir_in(parent)?;
    let binary = binary.to_owned();
    let launch = Launch::coeval(binary, folder.path(), free_port().await?)?;
    let mut server = launch.start()?;
    let connection = server.ready().await?;
    fill(&connection, arguments.rows).await?;
    let updated = update(launch.port, arguments, change, folder.path()).await?;
    let expected = (i64::from(arguments.rows), updated);
    let before = totals(&connection).await?;
    if before != expected {
        return Err(format!("rows and updates are {before:?}, expected {expected:?}").into());
    }
    drop(connection);
    server.kill()?;
    let bytes = log_bytes(folder.path())?;
    for _ in 0..arguments.repeat {
        let started = env::now();
        let mut server = launch.start()?;
        let connection = server.ready().await?;
        let wall = started.elapsed();
        let processor = processor_time(server.id())?;
        let after = totals(&connection).await?;
        if after != expected {
            return Err(format!(
                "rows and updates are {after:?} after recovery, expected {expected:?}"
            )
            .into());
        }
        drop(connection);
        server.kill()?;
        let per_core = bytes as f64 / processor.as_secs_f64();
        println!(
            "{:<10} {updated:>8} {:>8.0} {:>8.2} {:>8.2} {:>8.0} {:>16.0}  aim {:.0}: {}",
            match change {
                Change::Counter => "counter",
                Change::WholeRow => "whole row",
            },
            bytes as f64 / 1e6,
            wall.as_secs_f64(),
            processor.as_secs_f64(),
            bytes as f64 / wall.as_secs_f64() / 1e6,
            per_core / 1e6,
            AIM / 1e6,
            if per_core >= AIM { "reached" } else { "missed" },
        );
    }
    Ok(())
}

async fn fill(connection: &Connection, rows: i32) -> Result<(), Failure> {
    connection
        .batch_execute(
            "CREATE TABLE item (id int PRIMARY KEY, value bigint NOT NULL, filler char(84))",
        )
        .await?;
    let ids: Vec<i32> = (0..rows).collect();
    for ids in ids.chunks(1_000) {
        let values: Vec<String> = ids.iter().map(|id| format!("({id}, 0, 'x')")).collect();
        connection
            .batch_execute(&format!("INSERT INTO item VALUES {}", values.join(",")))
            .await?;
    }
    Ok(())
}

/// Updates rows until there is enough log; how many rows were updated.
async fn update(
    port: u16,
    arguments: &Arguments,
    change: Change,
    folder: &Path,
) -> Result<i64, Failure> {
    let enough = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..arguments.clients)
        .map(|client| {
            let (enough, rows, batch) = (
                Arc::clone(&enough),
                arguments.rows,
                arguments.rows_per_commit,
            );
            env::spawn("updates", async move {
                update_until(port, client, (rows, batch), change, &enough).await
            })
        })
        .collect();
    while !clients.iter().all(env::JoinHandle::is_finished)
        && segment_bytes(folder)? < arguments.megabytes * 1_000_000
    {
        env::sleep(Duration::from_millis(100)).await;
    }
    enough.store(true, Ordering::Relaxed);
    let mut updated = 0;
    for client in clients {
        updated += client
            .await
            .map_err(|error| format!("a client ended: {error:?}"))??;
    }
    Ok(updated)
}

async fn update_until(
    port: u16,
    client: u64,
    (rows, batch): (i32, i32),
    change: Change,
    enough: &AtomicBool,
) -> Result<i64, Failure> {
    let connection = connect(port).await?;
    let filler = match change {
        Change::Counter => "",
        Change::WholeRow => ", filler = $3",
    };
    let text = format!("UPDATE item SET value = value + 1{filler} WHERE id >= $1 AND id < $2");
    let types = [Type::INT4, Type::INT4, Type::BPCHAR];
    let parameters = match change {
        Change::Counter => 2,
        Change::WholeRow => 3,
    };
    let update = connection
        .prepare_typed(&text, &types[..parameters])
        .await?;
    let mut chance = Chance::of(1, client);
    let mut updated = 0;
    while !enough.load(Ordering::Relaxed) {
        let first = i32::try_from(chance.within(0..u64::from((rows - batch + 1).cast_unsigned())))?;
        // Another text each time: a cell that stays the same is not written.
        let filler = format!("{:020}", chance.next()).repeat(4);
        let values: [&(dyn ToSql + Sync); 3] = [&first, &(first + batch), &filler];
        let count = connection.execute(&update, &values[..parameters]).await?;
        updated += i64::try_from(count)?;
    }
    Ok(updated)
}

/// How many rows there are, and how many updates they have seen.
async fn totals(connection: &Connection) -> Result<(i64, i64), Failure> {
    // As a bigint whatever the sum's own type is.
    let row = connection
        .query_one("SELECT count(*), CAST(sum(value) AS bigint) FROM item", &[])
        .await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// The segment files below a folder.
fn segments(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(segments(&path)?);
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Named by an offset; the server's own messages are in a file beside them.
            if name.ends_with(".log") && name.starts_with(|first: char| first.is_ascii_digit()) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// About how much log there is: whole files, of which the newest may be empty yet.
fn segment_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for path in segments(folder)? {
        bytes += std::fs::metadata(path)?.len();
    }
    Ok(bytes)
}

/// How much log there is: each segment up to its last byte that is not zero.
fn log_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut total = 0;
    for path in segments(folder)? {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.read_to_end(&mut bytes)?;
        let last = bytes.iter().rposition(|&byte| byte != 0);
        total += last.map_or(0, |last| last as u64 + 1);
    }
    Ok(total)
}

/// The processor time a process has used so far, its threads' together.
fn processor_time(process: u32) -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Behind the name in brackets; user and system time are fields 14 and 15 of all.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |index: usize| -> Result<u64, Failure> {
        Ok(fields.get(index).ok_or("a short line")?.parse::<u64>()?)
    };
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(
        (ticks(11)? + ticks(12)?) as f64 / per_second as f64,
    ))
}
