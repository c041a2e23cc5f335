//! The recorder command: measures the cost of recording a history, over the wire.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin recorder
//! cargo run --profile dist -p coeval-workload --bin recorder -- --rounds 20 --seconds 3
//! ```
//!
//! The command runs list-append against one server again and again, with and without a
//! recorder, in pairs whose order alternates, so that a drift of the machine's speed
//! cancels out. For each pair it takes the quotient of the two throughputs, and reports
//! the median of all quotients and their spread; it exits with 1 if the median is a loss
//! of more than `--most` per cent.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use coeval_txn::Isolation;
use coeval_workload::build::Build;
use coeval_workload::driver::{self, Length, Options};
use coeval_workload::loads::list_append::ListAppend;
use coeval_workload::server::{Launch, free_port};
use coeval_workload::store::Database;
use coeval_workload::workload::Workload;

/// Measures what a recorder costs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of pairs of runs.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Duration of each run, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Number of concurrent clients.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// Greatest allowed cost of recording, in per cent.
    #[arg(long, default_value_t = 5.0)]
    most: f64,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("recorder: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Failure> {
    let binary = arguments.build.coeval(arguments.binary)?;
    let folder = tempfile::tempdir()?;
    let launch = Launch::coeval(binary, folder.path(), free_port().await?)?;
    let mut server = launch.start()?;
    drop(server.ready().await?);
    let mut config = tokio_postgres::Config::new();
    config
        .host("127.0.0.1")
        .port(server.port())
        .user("postgres");
    let seconds = Duration::try_from_secs_f64(arguments.seconds)?;

    let mut costs = Vec::new();
    println!(
        "{:>6} {:>12} {:>12} {:>8}   per second",
        "round", "without", "with", "cost %"
    );
    for round in 0..arguments.rounds {
        let mut rates = [0.0; 2];
        for half in 0..2 {
            let record = (round + half) % 2 == 1;
            let workload = Arc::new(ListAppend::new(100, 16, 4));
            let database = Database::over_wire(config.clone(), workload.tables());
            let options = Options {
                threads: 1,
                clients: usize::try_from(arguments.clients)?,
                isolation: Isolation::Serializable,
                warm_up: Duration::from_millis(500),
                length: Length::Time(seconds),
                seed: u64::from(round),
                record,
                ..Options::default()
            };
            let outcome = driver::run(&workload, &database, &options, &mut |_| {}).await?;
            if !outcome.report.is_sound() {
                println!("{}", outcome.report.text(options.length));
                return Ok(false);
            }
            rates[usize::from(record)] = outcome.report.transactions_per_second;
        }
        let cost = (1.0 - rates[1] / rates[0]) * 1e2;
        println!(
            "{:>6} {:>12.0} {:>12.0} {cost:>8.2}",
            round + 1,
            rates[0],
            rates[1]
        );
        costs.push(cost);
    }
    server.stop().await?;
    costs.sort_unstable_by(f64::total_cmp);
    let at = |quarter: usize| costs[(costs.len() - 1) * quarter / 4];
    let median = at(2);
    println!(
        "cost of recording: median {median:.2} %, quartiles {:.2} to {:.2} %, all {:.2} to {:.2} %; \
         throughput with / without: {:.4}; {:.2} % at most",
        at(1),
        at(3),
        at(0),
        at(4),
        1.0 - median / 1e2,
        arguments.most
    );
    Ok(median <= arguments.most)
}
