//! The crash command: kills a server under load, again and again, and compares the data
//! that it kept with the acknowledgements that its clients received.
//!
//! ```text
//! cargo run --release -p coeval-workload --bin crash -- --rounds 200
//! ```
//!
//! Exits with 0 if no transfer was lost, invented or torn; with 1 if one was, in which
//! case the data directory is kept; with 2 if no verdict was reached.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own that drives processes; nothing of it is simulated"
)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser;
use coeval_workload::crash::{self, Options};
use coeval_workload::server::{Launch, build_coeval, free_port};

/// Kills a server under load, restarts it, and compares its data with its clients'
/// acknowledgements.
#[derive(Debug, Parser)]
struct Arguments {
    /// How often to kill the server.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Number of concurrent clients.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Seed that decides the load and the moments of the kills. Taken from the clock when
    /// absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of accounts; few accounts cause conflicts.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    accounts: u32,
    /// The longest time under load before a kill, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    load: u64,
    /// Log volume after which the server takes a checkpoint, in bytes; small, so that
    /// many kills hit one.
    #[arg(long, default_value_t = 50_000)]
    checkpoint_log: u64,
    /// Length of a log segment, in bytes; short, so that checkpoints remove some.
    #[arg(long, default_value_t = 65_536)]
    log_segment: u64,
    /// Parent folder for the server's data directory; the system's temporary folder when
    /// absent.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// A shell command that starts some other server instead, in which {folder} and
    /// {port} are substituted.
    #[arg(long, conflicts_with = "binary")]
    launch: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("crash: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => u64::from(
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)?
                .subsec_nanos(),
        ),
    };
    let options = Options {
        rounds: arguments.rounds,
        clients: arguments.clients,
        seed,
        accounts: arguments.accounts,
        load_at_most: Duration::from_millis(arguments.load),
    };
    let parent = arguments.folder.unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new()
        .prefix("coeval-crash-")
        .tempdir_in(parent)?;
    let port = free_port().await?;
    let settings = [
        ("checkpoint-log-bytes", arguments.checkpoint_log),
        ("log-segment-bytes", arguments.log_segment),
    ];
    let coeval = |binary| Launch::coeval(binary, folder.path(), port);
    let launch = match (&arguments.launch, arguments.binary) {
        (Some(template), _) => Launch::shell(template, folder.path(), port)?,
        (None, Some(binary)) => coeval(binary)?.with(&settings),
        (None, None) => coeval(build_coeval()?)?.with(&settings),
    };
    println!(
        "seed {seed}: {} rounds, {} clients, {} accounts, in {}",
        options.rounds,
        options.clients,
        options.accounts,
        folder.path().display()
    );
    let result = crash::run(&launch, &options, &mut io::stdout()).await;
    let clean = matches!(&result, Ok(summary) if summary.is_clean());
    if !clean {
        let kept = folder.keep();
        println!("\nthe directory is kept: {}", kept.display());
    }
    let summary = result?;
    print!("\n{summary}");
    io::stdout().flush()?;
    Ok(if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}
