//! The reports command: a soak test of long reads on a follower, beside writers and definitions.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin reports                     an hour
//! cargo run -p coeval-workload --bin reports -- --trial --minutes 2 --seconds 10
//! ```
//!
//! A cluster of three processes is under load; a client of a follower makes one report after the
//! other. The command exits with 1 if a report failed, saw anything but its snapshot or was
//! executed by the leader, if the follower occupies more than `--growth` per cent more after a
//! report than before the first one that counts, or if the load itself stopped.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Parser;
use coeval_env as env;
use coeval_workload::build::Build;
use coeval_workload::cluster::{Cluster, Settings, resident, sum};
use coeval_workload::connect;
use coeval_workload::reports::{FoundRows, Load};

/// Makes long reports on a follower, beside writers and definitions.
#[derive(Debug, Parser)]
struct Arguments {
    /// Duration of all reports together, in minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Duration of one report, in seconds.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Number of accounts.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i64).range(1_000..))]
    accounts: i64,
    /// Number of clients beside the reports.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Makes each report by one SELECT, instead of a block at REPEATABLE READ.
    #[arg(long)]
    one_select: bool,
    /// Value of coeval.read_from for the reports and the clients beside.
    #[arg(long, default_value = "fresh")]
    read_from: String,
    /// Greatest allowed growth of the follower's process, in per cent.
    #[arg(long, default_value_t = 5.0)]
    growth: f64,
    /// Time after a report until the follower's memory is looked at, in seconds.
    #[arg(long, default_value_t = 5.0)]
    settle: f64,
    /// Seed of the random number generator.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further arguments of the servers, such as --server=--memory-limit-megabytes=512.
    #[arg(long)]
    server: Vec<String>,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("reports: {error}");
            ExitCode::from(2)
        }
    }
}

const MEGABYTE: f64 = 1e6;
/// How often each account is changed while the first report runs.
const CHANGES: u32 = 3;
/// Share of its time that a report has to last before those count that follow it.
const WHOLE: f64 = 0.6;
/// How long the load runs before the first report, at most.
const WARM_UP: Duration = Duration::from_secs(20);
const LOCAL: &str = "coeval_reads_total{route=\"local\"";

async fn run(arguments: Arguments) -> Result<bool, Failure> {
    let binary = arguments.build.coeval(arguments.binary)?;
    let folder = tempfile::Builder::new()
        .prefix("coeval-reports-")
        .tempdir()?;
    let settings = Settings {
        nodes: 3,
        proxied: None,
        arguments: arguments.server,
        environment: Vec::new(),
    };
    let cluster = Cluster::start(&binary, folder.path(), &settings).await?;
    let load = Load {
        ports: (0..cluster.size()).map(|node| cluster.port(node)).collect(),
        accounts: arguments.accounts,
        clients: arguments.clients,
        seed: arguments.seed,
    };
    load.fill().await?;
    let leader = cluster.leader().await?;
    let follower = (leader + 1) % cluster.size();
    let process = cluster
        .process(follower)
        .ok_or("the follower does not run")?;
    let connection = connect(cluster.port(follower)).await?;
    let set = format!(
        "SET coeval.read_from = '{}'",
        arguments.read_from.replace('\'', "''")
    );
    connection.batch_execute(&set).await?;
    let running = load.start();
    let lasting = Duration::from_secs_f64(arguments.seconds);
    let settle = Duration::from_secs_f64(arguments.settle);
    println!(
        "node {} follows node {}; reports of {lasting:?} by {}, {} accounts",
        follower + 1,
        leader + 1,
        if arguments.one_select {
            "one SELECT"
        } else {
            "a block at REPEATABLE READ"
        },
        arguments.accounts,
    );
    println!(
        "{:<8} {:>8} {:>7} {:>12} {:>10} {:>12} {:>11} {:>12} {:>9}",
        "report",
        "seconds",
        "passes",
        "resident, MB",
        "growth, %",
        "reads",
        "transfers",
        "definitions",
        "failures"
    );
    let whole = Duration::from_secs_f64(arguments.minutes * 60.0);
    let (mut sound, mut before, mut passes, mut report) = (true, 0, 1, 0_u32);
    let mut began = env::now();
    // Definitions come and go a few times first, too.
    env::sleep(lasting.min(WARM_UP)).await;
    while report < 2 || began.elapsed() < whole {
        let warm_up = (report == 0 && before == 0).then(|| {
            let load = load.clone();
            env::spawn("warm-up", async move {
                for _ in 0..CHANGES {
                    load.change_all().await?;
                }
                Ok::<_, tokio_postgres::Error>(())
            })
        });
        let local = sum(&cluster.metrics(follower).await?, LOCAL);
        let at = env::now();
        let found = match arguments.one_select {
            true => load.select(&connection, passes).await,
            false => load.report(&connection, lasting).await,
        };
        let took = at.elapsed();
        match found {
            Ok(FoundRows::Sound(done)) if arguments.one_select => {
                // The next one lasts as long as it should.
                let longer = lasting.as_secs_f64() / took.as_secs_f64().max(1e-3);
                passes = ((done as f64 * longer) as u64).max(1);
            }
            Ok(FoundRows::Sound(done)) => passes = done,
            Ok(FoundRows::Wrong { sum, count }) => {
                println!("report {report} found {count} accounts, and {sum} in them");
                sound = false;
                break;
            }
            Err(error) => {
                println!("report {report} was ended after {took:?}: {error}");
                sound = false;
                break;
            }
        }
        if sum(&cluster.metrics(follower).await?, LOCAL) <= local {
            println!("the leader has executed report {report}");
            sound = false;
            break;
        }
        if let Some(warm_up) = warm_up {
            warm_up.await??;
        }
        running.rest(true).await;
        env::sleep(settle).await;
        let occupied = resident(process)?;
        // A report that was too short holds too little: it does not count, either.
        if report == 0 {
            (before, began) = (occupied, env::now());
        }
        let is_whole = took >= lasting.mul_f64(WHOLE);
        let growth = (occupied as f64 / before as f64 - 1.0) * 1e2;
        let done = &running.done;
        println!(
            "{:<8} {:>8.1} {passes:>7} {:>12.1} {growth:>10.1} {:>12} {:>11} {:>12} {:>9}",
            match report {
                0 => "warm-up".to_owned(),
                report => report.to_string(),
            },
            took.as_secs_f64(),
            occupied as f64 / MEGABYTE,
            done.reads.load(Ordering::Relaxed),
            done.transfers.load(Ordering::Relaxed),
            done.definitions.load(Ordering::Relaxed),
            done.failures.load(Ordering::Relaxed),
        );
        running.rest(false).await;
        sound &= growth <= arguments.growth;
        report += u32::from(report > 0 || is_whole);
    }
    sound &= running.done.failures.load(Ordering::Relaxed) == 0;
    running.end().await?;
    cluster.stop().await?;
    println!("{}", if sound { "stays" } else { "fails" });
    Ok(sound)
}
