//! The overload command: measures a server under two and four times the clients that
//! saturate it.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin overload
//! cargo run --profile dist -p coeval-workload --bin overload -- --isolation serializable
//! ```
//!
//! The command prints a line for each step, and exits with 1 if the server collapses: if
//! its throughput at twice or four times saturation is less than `--least` of that at
//! saturation, if a transfer fails for any other reason than a conflict, or if the sum of
//! the balances has changed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use coeval_workload::build::Build;
use coeval_workload::overload::{Load, LoadLevel};
use coeval_workload::server::{Launch, free_port};

/// Factor by which doubling the clients must raise the throughput; with less, the server
/// counts as saturated.
const WORTHWHILE: f64 = 1.1;

/// Measures a server beyond its saturation.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of accounts: the fewer, the more conflicts.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(i32).range(1..))]
    accounts: i32,
    /// The isolation level of the transfers.
    #[arg(long, default_value = "read committed")]
    isolation: String,
    /// Duration of each step, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The greatest number of clients that are tried in search of saturation.
    #[arg(long, default_value_t = 64)]
    most: usize,
    /// The least share of the throughput at saturation that the server must keep beyond
    /// it.
    #[arg(long, default_value_t = 0.8)]
    least: f64,
    /// Seed of the random number generator.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
    /// Further arguments of the server, such as --server=--max-running-transactions=8.
    #[arg(long)]
    server: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("overload: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let binary = arguments.build.coeval(arguments.binary)?;
    let folder = tempfile::tempdir()?;
    let mut launch = Launch::coeval(binary, folder.path(), free_port().await?)?;
    launch.arguments.extend(arguments.server);
    let mut server = launch.start()?;
    drop(server.ready().await?);
    let load = Load {
        port: server.port(),
        accounts: arguments.accounts,
        isolation: arguments.isolation,
        duration: Duration::from_secs(arguments.seconds),
        seed: arguments.seed,
    };
    load.set_up().await?;
    println!(
        "transfers between {} accounts, {}, {} s a step",
        load.accounts, load.isolation, arguments.seconds
    );
    println!(
        "{:<12} {:>8} {:>12} {:>10} {:>10} {:>10} {:>9}",
        "", "clients", "per second", "median ms", "p99 ms", "retries", "failures"
    );

    let mut sound = true;
    let mut saturated = show("", load.step(1).await?, &mut sound);
    while saturated.clients < arguments.most {
        let next = show("", load.step(2 * saturated.clients).await?, &mut sound);
        if next.throughput < saturated.throughput * WORTHWHILE {
            break;
        }
        saturated = next;
    }
    let clients = saturated.clients;
    let at = show("saturation", load.step(clients).await?, &mut sound);
    for times in [2, 4] {
        let step = load.step(times * clients).await?;
        let step = show(&format!("{times} times"), step, &mut sound);
        let left = step.throughput / at.throughput;
        if left < arguments.least {
            println!(
                "collapse: {:.0} % of the throughput at saturation is left, of {:.0} % at least",
                left * 1e2,
                arguments.least * 1e2
            );
            sound = false;
        }
    }
    let total = load.total().await?;
    if total != load.expected_total() {
        println!("money: {total} instead of {}", load.expected_total());
        sound = false;
    }
    server.stop().await?;
    println!("{}", if sound { "stands" } else { "falls" });
    Ok(sound)
}

/// Prints a step, and clears `sound` if a transfer failed in it.
fn show(name: &str, step: LoadLevel, sound: &mut bool) -> LoadLevel {
    println!(
        "{name:<12} {:>8} {:>12.0} {:>10.2} {:>10.2} {:>10} {:>9}",
        step.clients,
        step.throughput,
        step.median.as_secs_f64() * 1e3,
        step.percentile_99.as_secs_f64() * 1e3,
        step.retries,
        step.failures
    );
    if let Some(failure) = &step.failure {
        println!("  the first failure: {failure}");
        *sound = false;
    }
    step
}
