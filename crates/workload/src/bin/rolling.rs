//! The rolling command: upgrades a cluster of three processes, one by one, under load.
//!
//! ```text
//! cargo run -p coeval-workload --bin rolling -- --old target/old/coeval --new target/debug/coeval
//! ```
//!
//! Three nodes of the old program found a cluster. Clients insert rows through every node, and
//! note those that were acknowledged. Each node is stopped, and started with the new program; with
//! `--back`, each is first started with the new program and then with the old one again, while
//! the new one is told to keep the cluster version. At the end every acknowledged row must be
//! there, and the cluster version must be the new program's; the old program must refuse the
//! directory of a node then. The command exits with 1 if anything is wrong.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use coeval_env as env;
use coeval_workload::server::{Error, Launch, READS_VERSION, Server, free_port};

type Wrong = Box<dyn std::error::Error>;

/// Upgrades a cluster of three processes, one by one, under load.
#[derive(Debug, Parser)]
struct Arguments {
    /// The program that the cluster begins with.
    #[arg(long)]
    old: PathBuf,
    /// The program that it ends with.
    #[arg(long)]
    new: PathBuf,
    /// Goes forth and back once before it goes forth for good.
    #[arg(long)]
    back: bool,
    /// Kills each node instead of stopping it in order.
    #[arg(long)]
    kill: bool,
    /// Acknowledged rows between two restarts, at least.
    #[arg(long, default_value_t = 200)]
    rows: usize,
}

/// Longest time that one step may take.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
const NODES: usize = 3;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rolling: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the clients have been told.
#[derive(Debug, Default)]
struct Told {
    rows: Mutex<BTreeSet<i64>>,
    next: AtomicI64,
    is_over: AtomicBool,
}

impl Told {
    fn count(&self) -> usize {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.len()
    }
}

/// Inserts rows through one node until the run is over, and notes the acknowledged ones.
async fn insert(port: u16, told: Arc<Told>) {
    while !told.is_over.load(Ordering::Relaxed) {
        let Ok(connection) = coeval_workload::connect(port).await else {
            env::sleep(POLL).await;
            continue;
        };
        while !told.is_over.load(Ordering::Relaxed) {
            let row = told.next.fetch_add(1, Ordering::Relaxed);
            let statement = format!("INSERT INTO rolled VALUES ({row})");
            match connection.simple_query(&statement).await {
                Ok(_) => {
                    let mut rows = told.rows.lock().unwrap_or_else(PoisonError::into_inner);
                    rows.insert(row);
                }
                Err(_) if connection.is_closed() => break,
                // Whether the row is there is not known, or it is not.
                Err(_) => {}
            }
        }
    }
}

/// The first value of a query through a node.
async fn value(port: u16, query: &str) -> Option<String> {
    let connection = coeval_workload::connect(port).await.ok()?;
    let messages = connection.simple_query(query).await.ok()?;
    messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

/// Waits for a condition that a query shows.
async fn until(port: u16, query: &str, wanted: &str) -> Result<(), Wrong> {
    let began = env::now();
    let mut last = None;
    while began.elapsed() < PATIENCE {
        last = value(port, query).await;
        if last.as_deref() == Some(wanted) {
            return Ok(());
        }
        env::sleep(POLL).await;
    }
    Err(format!("{query}: {last:?} instead of {wanted} after {PATIENCE:?}").into())
}

/// The cluster version that the new program raises the cluster to, as the program says itself:
/// every node runs it, so it does not matter which of them answers.
async fn newest(port: u16) -> Result<String, Wrong> {
    let began = env::now();
    while began.elapsed() < PATIENCE {
        if let Some(version) = value(port, READS_VERSION).await {
            return Ok(version);
        }
        env::sleep(POLL).await;
    }
    Err(format!("no node says what it reads in {PATIENCE:?}").into())
}

/// Waits until clients have had more rows acknowledged.
async fn work(told: &Told, rows: usize) -> Result<(), Wrong> {
    let (before, began) = (told.count(), env::now());
    while told.count() < before + rows {
        if began.elapsed() > PATIENCE {
            return Err(format!("no {rows} rows in {PATIENCE:?}").into());
        }
        env::sleep(POLL).await;
    }
    Ok(())
}

/// A launch of this program, with these further arguments.
fn with(launch: &Launch, program: &Path, further: &[&str]) -> Launch {
    let mut launch = launch.clone();
    launch.program = program.to_owned();
    launch
        .arguments
        .extend(further.iter().map(|word| (*word).to_owned()));
    launch
}

async fn run(arguments: Arguments) -> Result<(), Wrong> {
    let folder = tempfile::tempdir()?;
    let mut between = Vec::new();
    for node in 1..=NODES {
        between.push(format!("{node}=127.0.0.1:{}", free_port().await?));
    }
    let mut launches = Vec::new();
    for node in 1..=NODES {
        let folder = folder.path().join(format!("node-{node}"));
        let mut launch = Launch::coeval(arguments.old.clone(), &folder, free_port().await?)?;
        for (name, value) in [
            (
                "--cluster-id",
                "00000000000000000000000000000007".to_owned(),
            ),
            ("--cluster-node", node.to_string()),
            ("--cluster-members", between.join(",")),
            ("--cluster-election-timeout-milliseconds", "1000".to_owned()),
        ] {
            launch.arguments.extend([name.to_owned(), value]);
        }
        launches.push(launch);
    }
    let mut servers: Vec<Server> = Vec::new();
    for launch in &launches {
        servers.push(with(launch, &arguments.old, &["--cluster-found"]).start()?);
    }
    let port = launches[0].port;
    drop(servers[0].ready().await?);
    let made = env::now();
    while value(
        port,
        "CREATE TABLE IF NOT EXISTS rolled (id int8 PRIMARY KEY)",
    )
    .await
    .is_none()
        && value(port, "SELECT count(*) FROM rolled").await.is_none()
    {
        if made.elapsed() > PATIENCE {
            return Err("the table is not made".into());
        }
        env::sleep(POLL).await;
    }
    let told = Arc::new(Told::default());
    let clients: Vec<_> = launches
        .iter()
        .map(|launch| env::spawn("insert rows", insert(launch.port, Arc::clone(&told))))
        .collect();
    work(&told, arguments.rows).await?;
    let keeps = ["--cluster-version-limit", "1"];
    let ways: &[(&Path, &[&str])] = match arguments.back {
        true => &[
            (&arguments.new, &keeps),
            (&arguments.old, &[]),
            (&arguments.new, &[]),
        ],
        false => &[(&arguments.new, &[])],
    };
    for (program, further) in ways {
        for (node, launch) in launches.iter().enumerate() {
            let server = servers.remove(0);
            match arguments.kill {
                true => server.kill()?,
                false => server.stop().await?,
            }
            let mut server = with(launch, program, further).start()?;
            drop(server.ready().await?);
            servers.push(server);
            let sound = "SELECT reachable_voters FROM coeval.cluster_status";
            until(launch.port, sound, "3").await?;
            work(&told, arguments.rows).await?;
            println!(
                "node {} runs {}: {} rows",
                node + 1,
                program.display(),
                told.count()
            );
        }
    }
    let newest = newest(port).await?;
    until(
        port,
        "SELECT cluster_version FROM coeval.cluster_status",
        &newest,
    )
    .await?;
    work(&told, arguments.rows).await?;
    told.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await?;
    }
    let connection = coeval_workload::connect(port).await?;
    let there: BTreeSet<i64> = connection
        .query("SELECT id FROM rolled", &[])
        .await?
        .iter()
        .map(|row| row.get(0))
        .collect();
    let rows = told
        .rows
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let lost: Vec<&i64> = rows.difference(&there).collect();
    if !lost.is_empty() {
        return Err(format!("acknowledged and lost: {lost:?}").into());
    }
    servers.remove(0).stop().await?;
    let mut refused = with(&launches[0], &arguments.old, &[]).start()?;
    match refused.ready().await {
        Err(Error::Ended { log, .. })
            if log.contains("format version") || log.contains("of cluster version") => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("the old program takes the directory".into()),
    }
    println!(
        "{} rows acknowledged, none lost; cluster version {newest}",
        rows.len()
    );
    Ok(())
}
