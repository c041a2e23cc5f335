//! The startup command: measures the time from the start of an empty server to its first
//! answer.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin startup
//! ```
//!
//! The command starts the server again and again: in a new directory each time, in one
//! directory after a clean shutdown, and in one after a kill. It compares each first
//! answer with the expected one, and exits with 1 if one is wrong.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use coeval_env as env;
use coeval_workload::build::Build;
use coeval_workload::server::{Launch, free_port};

/// Upper bound for the start of an empty server.
const AIM: Duration = Duration::from_millis(100);

/// Measures the start of an empty server.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of starts of each kind.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
}

/// How the previous run of the server ended, before a start that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Stopped,
    Killed,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("startup: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let binary = arguments.build.coeval(arguments.binary)?;
    println!("from the start of the process to its first answer, in ms:");
    println!(
        "{:<24} {:>8} {:>8} {:>8}  aim",
        "directory", "least", "median", "most"
    );
    for before in [Before::Nothing, Before::Stopped, Before::Killed] {
        let mut took = Vec::new();
        let shared = tempfile::tempdir()?;
        for start in 0..=arguments.starts {
            let own = tempfile::tempdir()?;
            let folder = if before == Before::Nothing {
                own.path()
            } else {
                shared.path()
            };
            let launch = Launch::coeval(binary.clone(), folder, free_port().await?)?;
            let started = env::now();
            let mut server = launch.start()?;
            let connection = server.ready().await?;
            let elapsed = started.elapsed();
            let answer: i32 = connection
                .query_one("SELECT 6 * 7", &[])
                .await?
                .try_get(0)?;
            if answer != 42 {
                return Err(format!("the server says that 6 × 7 is {answer}").into());
            }
            drop(connection);
            if before == Before::Killed {
                server.kill()?;
            } else {
                server.stop().await?;
            }
            // The first start does not count: it reads the binary from the disk, and
            // creates the directory for the later ones.
            if start > 0 {
                took.push(elapsed);
            }
        }
        took.sort();
        let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
        let median = took[took.len() / 2];
        println!(
            "{:<24} {:>8.1} {:>8.1} {:>8.1}  {} ms: {}",
            match before {
                Before::Nothing => "new",
                Before::Stopped => "stopped in order",
                Before::Killed => "killed",
            },
            milliseconds(took[0]),
            milliseconds(median),
            milliseconds(took[took.len() - 1]),
            AIM.as_millis(),
            if median <= AIM { "reached" } else { "missed" },
        );
    }
    Ok(())
}
