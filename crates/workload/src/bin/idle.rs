//! The idle command: measures the cost of an idle connection.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin idle -- --connections 10000
//! ```
//!
//! The command opens `--connections` sessions, and reports how much the server's memory
//! has grown for each, how long a new session and a statement take beside them, and
//! whether every one of them still answers. It exits with 1 if one does not. The limit on
//! open files (`ulimit -n`) must allow for the sessions, here and in the server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_env as env;
use coeval_workload::build::Build;
use coeval_workload::server::{Launch, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Measures connections that do nothing.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of connections.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
}

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("idle: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let binary = arguments.build.coeval(arguments.binary)?;
    let folder = tempfile::tempdir()?;
    let mut launch = Launch::coeval(binary, folder.path(), free_port().await?)?;
    launch.arguments.extend([
        "--max-connections".to_owned(),
        (arguments.connections + 100).to_string(),
    ]);
    let mut server = launch.start()?;
    let connection = server.ready().await?;
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let before = resident(server.id())?;
    let started = env::now();
    let mut sessions = Vec::with_capacity(arguments.connections);
    for number in 0..arguments.connections {
        let session = session(address).await;
        sessions.push(session.map_err(|error| format!("connection {number}: {error}"))?);
    }
    let opening = started.elapsed().as_secs_f64();
    let grown = resident(server.id())?.saturating_sub(before);
    println!(
        "{} idle connections: {:.1} MB more, {:.0} bytes each; opened in {opening:.1} s, {:.0} µs each",
        sessions.len(),
        grown as f64 / 1e6,
        grown as f64 / sessions.len().max(1) as f64,
        opening * 1e6 / sessions.len().max(1) as f64,
    );
    let mut took = Vec::new();
    for _ in 0..1000 {
        let started = env::now();
        connection.query_one("SELECT 6 * 7", &[]).await?;
        took.push(started.elapsed());
    }
    took.sort();
    println!(
        "a statement among them: {} µs in the median, {} µs at most",
        took[took.len() / 2].as_micros(),
        took[took.len() - 1].as_micros()
    );
    for (number, session) in sessions.iter_mut().enumerate() {
        answers(session)
            .await
            .map_err(|error| format!("connection {number} does not answer: {error}"))?;
    }
    println!("all of them answer");
    let after = resident(server.id())?.saturating_sub(before);
    println!(
        "after a statement each: {:.0} bytes each",
        after as f64 / sessions.len().max(1) as f64
    );
    drop(sessions);
    drop(connection);
    server.stop().await?;
    Ok(())
}

/// Opens a session with the least possible client-side state.
async fn session(address: SocketAddr) -> Result<env::Stream, Failure> {
    let mut stream = env::connect(address).await?;
    let parameters = b"\0\x03\0\0user\0idle\0database\0idle\0\0";
    let length = u32::try_from(parameters.len() + 4)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], parameters].concat())
        .await?;
    until_ready(&mut stream).await?;
    Ok(stream)
}

/// Runs a query in a session and waits for its answer.
async fn answers(stream: &mut env::Stream) -> Result<(), Failure> {
    stream.write_all(b"Q\0\0\0\x0dselect 1\0").await?;
    until_ready(stream).await
}

/// Reads messages up to and including ReadyForQuery.
async fn until_ready(stream: &mut env::Stream) -> Result<(), Failure> {
    loop {
        let kind = stream.read_u8().await?;
        let length = stream.read_u32().await?.saturating_sub(4);
        let mut contents = vec![0; usize::try_from(length)?];
        stream.read_exact(&mut contents).await?;
        match kind {
            b'Z' => return Ok(()),
            b'E' => return Err(String::from_utf8_lossy(&contents).replace('\0', " ").into()),
            _ => {}
        }
    }
}

/// Resident memory of a process, in bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "asks the kernel about a process; nothing of it is simulated"
)]
fn resident(process: u32) -> Result<usize, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages = status
        .split(' ')
        .nth(1)
        .ok_or("statm has no second field")?;
    Ok(pages.parse::<usize>()? * rustix::param::page_size())
}
