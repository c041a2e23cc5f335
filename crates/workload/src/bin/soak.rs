//! Whether a server's memory stays where it is under updates, with a long scan inside.
//!
//! ```text
//! cargo run --release -p coeval-workload --bin soak                        an hour
//! cargo run --release -p coeval-workload --bin soak -- --minutes 1 --scan-minutes 0.2
//! ```
//!
//! Prints a sample now and then, and ends with 1 when the process has grown by more than
//! `--growth` per cent at the end, when what the server says it has taken differs in any
//! sample by more than `--agreement` per cent from what it occupies, when the scan sees
//! anything but its snapshot, or when an update is lost.
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
use coeval_workload::server::{Launch, build_coeval, free_port};
use coeval_workload::soak::{Accounts, Load, accounts};

/// Soaks a server.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long to update after the warm-up, in minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// How long the scan in the middle of that takes, in minutes.
    #[arg(long, default_value_t = 10.0)]
    scan_minutes: f64,
    /// How many rows there are.
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(i32).range(1_000..))]
    rows: i32,
    /// Bytes of text in each.
    #[arg(long, default_value_t = 200)]
    width: usize,
    /// How many clients update.
    #[arg(long, default_value_t = 4)]
    clients: u64,
    /// Updates per second at most after the warm-up, of all clients together; 0 for as many
    /// as they can.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Per cent that the process may grow.
    #[arg(long, default_value_t = 5.0)]
    growth: f64,
    /// Per cent by which the accounts may differ from what the process occupies.
    #[arg(long, default_value_t = 10.0)]
    agreement: f64,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
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

/// One look at the server.
#[derive(Debug)]
struct Sample {
    /// What it occupies, in bytes.
    resident: u64,
    /// What it says it has taken.
    accounts: Accounts,
    /// How many processes of the machine want a processor, as a mean of the last minute.
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

    /// By how many per cent the accounts differ from what is occupied.
    fn disagreement(&self) -> f64 {
        self.accounts.disagreement(self.resident)
    }
}

/// Between what the accounts have differed from what was occupied, in per cent.
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
    let binary = match arguments.binary {
        Some(binary) => binary,
        None => build_coeval()?,
    };
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
    // As fast as they can until every row has been updated.
    let hasty = Load {
        rate: 0,
        ..load.clone()
    };
    let updates = hasty.start();
    let sample = Sample::take(process, &connection).await?;
    print_head(&sample.accounts);
    print_sample("filled", 0.0, 0, &sample);

    // The warm-up's scan, until nearly every row has been updated.
    let enough = 3 * u64::from(arguments.rows.unsigned_abs());
    if load.scan(|| updates.count() > enough).await?.is_none() {
        println!("the scan has seen what is not its own");
        return Ok(false);
    }
    let warm = updates.stop().await?;
    let updates = load.start();
    // What it kept goes within a round of the sweep or two.
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
                println!("the scan has seen what is not its own");
                sound = false;
            }
        }
    }
    // A moment for the last round of the sweep.
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
