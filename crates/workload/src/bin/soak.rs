//! The soak command: tests whether a server's memory use stays constant under updates
//! beside a long scan.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin soak                        an hour
//! cargo run --profile dist -p coeval-workload --bin soak -- --minutes 1 --scan-minutes 0.2
//! ```
//!
//! The command prints a sample now and then, and exits with 1 if the process has grown by
//! more than `--growth` per cent at the end, if the server's memory accounting differs in
//! any sample by more than `--agreement` per cent from the resident memory, if the scan
//! sees anything but its snapshot, or if an update is lost.
#![expect(
    clippy::disallowed_methods,
    reason = "asks the kernel about another process; nothing of it is simulated"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use coeval_env as env;
use coeval_workload::Connection;
use coeval_workload::build::Build;
use coeval_workload::server::{Launch, free_port};
use coeval_workload::soak::{Accounts, Load, accounts};

/// Runs a soak test of a server.
#[derive(Debug, Parser)]
struct Arguments {
    /// Duration of the updates after the warm-up, in minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Duration of the scan in the middle of the updates, in minutes.
    #[arg(long, default_value_t = 10.0)]
    scan_minutes: f64,
    /// Number of rows.
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(i32).range(1_000..))]
    rows: i32,
    /// Length of the text in each row, in bytes.
    #[arg(long, default_value_t = 200)]
    width: usize,
    /// Number of clients that update rows.
    #[arg(long, default_value_t = 4)]
    clients: u64,
    /// Most updates per second after the warm-up, of all clients together; 0 for no
    /// limit.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Greatest allowed growth of the process, in per cent.
    #[arg(long, default_value_t = 5.0)]
    growth: f64,
    /// Greatest allowed difference between the memory accounting and the resident memory,
    /// in per cent.
    #[arg(long, default_value_t = 10.0)]
    agreement: f64,
    /// Seed of the random number generator.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
    /// Further arguments of the server, such as --server=--memory-limit-megabytes=512.
    #[arg(long)]
    server: Vec<String>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One sample of the server's memory use and the machine's load.
#[derive(Debug)]
struct Sample {
    /// Resident memory of the server, in bytes.
    resident: u64,
    /// The server's own memory accounting.
    accounts: Accounts,
    /// Load average of the machine over the last minute.
    load: f64,
}

impl Sample {
    async fn take(process: u32, connection: &Connection) -> Result<Self, Failure> {
        let accounts = accounts(connection).await?;
        let statm = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
        let pages: u64 = statm
            .split_ascii_whitespace()
            .nth(1)
            .ok_or("statm has no resident size")?
            .parse()?;
        let load = std::fs::read_to_string("/proc/loadavg")?;
        let load = load.split(' ').next().ok_or("no load average")?.parse()?;
        Ok(Self {
            resident: pages * rustix::param::page_size() as u64,
            accounts,
            load,
        })
    }

    /// Difference between the memory accounting and the resident memory, in per cent.
    fn disagreement(&self) -> f64 {
        self.accounts.disagreement(self.resident)
    }
}

/// Range of the differences between the memory accounting and the resident memory, in per
/// cent.
#[derive(Debug)]
struct Agreement {
    least: f64,
    most: f64,
}

impl Default for Agreement {
    fn default() -> Self {
        Self {
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
        }
    }
}

impl Agreement {
    fn note(&mut self, sample: &Sample) {
        let off = sample.disagreement();
        self.least = self.least.min(off);
        self.most = self.most.max(off);
    }
}

const MEGABYTE: f64 = 1e6;

fn print_head(accounts: &Accounts) {
    print!(
        "{:<12} {:>8} {:>9} {:>6} {:>9} {:>7}",
        "", "seconds", "updates", "load", "resident", "off, %"
    );
    for (class, _) in &accounts.classes {
        print!(" {class:>12}");
    }
    println!("   (MB)");
}

fn print_sample(name: &str, seconds: f64, updates: u64, sample: &Sample) {
    print!(
        "{name:<12} {seconds:>8.0} {updates:>9} {:>6.2} {:>9.1} {:>7.1}",
        sample.load,
        sample.resident as f64 / MEGABYTE,
        sample.disagreement()
    );
    for (_, bytes) in &sample.accounts.classes {
        print!(" {:>12.1}", *bytes as f64 / MEGABYTE);
    }
    println!();
}

async fn run(arguments: Arguments) -> Result<bool, Failure> {
    let binary = arguments.build.coeval(arguments.binary)?;
    let folder = tempfile::tempdir()?;
    let mut launch = Launch::coeval(binary, folder.path(), free_port().await?)?;
    launch.arguments.extend(arguments.server);
    let mut server = launch.start()?;
    let process = server.id();
    let connection = server.ready().await?;
    let load = Load {
        port: server.port(),
        rows: arguments.rows,
        width: arguments.width,
        clients: arguments.clients,
        rate: arguments.rate,
        seed: arguments.seed,
    };
    load.set_up(&connection).await?;
    let started = env::now();
    // The clients update at full speed until every row has been updated.
    let hasty = Load {
        rate: 0,
        ..load.clone()
    };
    let updates = hasty.start();
    let sample = Sample::take(process, &connection).await?;
    print_head(&sample.accounts);
    print_sample("filled", 0.0, 0, &sample);

    // The warm-up's scan lasts until nearly every row has been updated.
    let enough = 3 * u64::from(arguments.rows.unsigned_abs());
    if load.scan(|| updates.count() > enough).await?.is_none() {
        println!("the scan has seen rows of another snapshot");
        return Ok(false);
    }
    let warm = updates.stop().await?;
    let updates = load.start();
    // The garbage collector reclaims the versions that the scan kept within a round or
    // two.
    let patience = env::now();
    let mut baseline = Sample::take(process, &connection).await?;
    while patience.elapsed() < Duration::from_secs(60)
        && baseline.accounts.of("old_versions") > baseline.accounts.of("rows") / 4
    {
        env::sleep(Duration::from_millis(500)).await;
        baseline = Sample::take(process, &connection).await?;
    }
    print_sample(
        "baseline",
        started.elapsed().as_secs_f64(),
        warm + updates.count(),
        &baseline,
    );

    let whole = Duration::from_secs_f64(arguments.minutes * 60.0);
    let scan = Duration::from_secs_f64(arguments.scan_minutes * 60.0).min(whole);
    let before_scan = (whole - scan) / 2;
    let soaking = env::now();
    let over = Arc::new(AtomicBool::new(false));
    let mut scanning = None;
    let mut sound = true;
    let mut peak = baseline.resident;
    let mut agreement = Agreement::default();
    agreement.note(&baseline);
    let pause = (whole / 60).clamp(Duration::from_secs(1), Duration::from_secs(60));
    while soaking.elapsed() < whole {
        env::sleep(pause.min(whole - soaking.elapsed())).await;
        let sample = Sample::take(process, &connection).await?;
        peak = peak.max(sample.resident);
        agreement.note(&sample);
        let name = if scanning.is_none() && soaking.elapsed() >= before_scan {
            let (load, over) = (load.clone(), Arc::clone(&over));
            scanning = Some(env::spawn("scan", async move {
                load.scan(|| over.load(Ordering::Relaxed)).await
            }));
            "scan begins"
        } else if soaking.elapsed() >= before_scan + scan {
            over.store(true, Ordering::Relaxed);
            ""
        } else if scanning.is_some() {
            "scan"
        } else {
            ""
        };
        print_sample(
            name,
            started.elapsed().as_secs_f64(),
            warm + updates.count(),
            &sample,
        );
    }
    over.store(true, Ordering::Relaxed);
    if let Some(scanning) = scanning {
        match scanning.await?? {
            Some(passes) => println!("the scan has read its snapshot {passes} times"),
            None => {
                println!("the scan has seen rows of another snapshot");
                sound = false;
            }
        }
    }
    // Leaves time for the last round of the garbage collector.
    env::sleep(Duration::from_secs(2)).await;
    let end = Sample::take(process, &connection).await?;
    let made = warm + updates.stop().await?;
    print_sample("end", started.elapsed().as_secs_f64(), made, &end);

    let growth = (end.resident as f64 / baseline.resident as f64 - 1.0) * 1e2;
    println!(
        "growth {growth:.1} % of {:.1} % at most, at the peak {:.1} %",
        arguments.growth,
        (peak as f64 / baseline.resident as f64 - 1.0) * 1e2
    );
    sound &= growth <= arguments.growth;
    agreement.note(&end);
    let (least, most) = (agreement.least, agreement.most);
    println!("accounts are off by {least:+.1} to {most:+.1} % of what is occupied");
    sound &= least.abs().max(most.abs()) <= arguments.agreement;
    let counted = load.updates(&connection).await?;
    if u64::try_from(counted).ok() != Some(made) {
        println!("{made} updates were acknowledged, and {counted} are there");
        sound = false;
    }
    drop(connection);
    server.stop().await?;
    println!("{}", if sound { "stays" } else { "fails" });
    Ok(sound)
}
