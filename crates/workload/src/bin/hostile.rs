//! The hostile command: measures how soon statements that compute for long end, and how
//! long others wait for them.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin hostile
//! ```
//!
//! All sessions share one worker. The command prints a line for each statement, and
//! exits with 1 if a timeout or a cancel request takes effect later than `--ends-within`
//! or a point read is answered later than `--answers-within` at the 99th percentile.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use coeval_workload::build::Build;
use coeval_workload::hostile::{HostileLoad, Measured, STATEMENTS, long_text};
use coeval_workload::server::{Launch, free_port};

/// Measures statements that compute for long.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rows of the table that is aggregated.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Sessions that aggregate it meanwhile.
    #[arg(long, default_value_t = 4)]
    analysts: usize,
    /// Milliseconds within which a timeout or cancel request takes effect.
    #[arg(long, default_value_t = 100)]
    ends_within: u64,
    /// Milliseconds within which 99 of 100 point reads are answered.
    #[arg(long, default_value_t = 50)]
    answers_within: u64,
    /// Only the statements whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hostile: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let binary = arguments.build.coeval(arguments.binary)?;
    let folder = tempfile::tempdir()?;
    let launch = Launch::coeval(binary, folder.path(), free_port().await?)?;
    let mut server = launch.with(&[("worker-threads", 1)]).start()?;
    drop(server.ready().await?);
    let load = HostileLoad {
        port: server.port(),
        rows: arguments.rows,
        analysts: arguments.analysts,
    };
    load.set_up().await?;
    println!(
        "one worker, {} sessions that aggregate {} rows; milliseconds",
        load.analysts, load.rows
    );
    println!(
        "{:<24} {:>6} {:>14} {:>13} {:>9} {:>9} {:>9}",
        "beside", "ended", "after timeout", "after cancel", "read p50", "read p99", "read max"
    );
    let long = long_text();
    let statements = STATEMENTS
        .iter()
        .copied()
        .chain([("a long text", long.as_str())]);
    let mut sound = true;
    for (name, statement) in statements {
        if !name.contains(&arguments.only) {
            continue;
        }
        let measured = load.measure(statement).await?;
        sound &= show(
            name,
            &measured,
            arguments.ends_within,
            arguments.answers_within,
        );
    }
    server.stop().await?;
    println!("{}", if sound { "stands" } else { "falls" });
    Ok(sound)
}

/// Prints what was measured beside a statement; whether it is within the limits.
fn show(name: &str, measured: &Measured, ends_within: u64, answers_within: u64) -> bool {
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    let percentile_99 = measured.read_within(0.99);
    let ends = measured.after_timeout.max(measured.after_cancel);
    let sound = ends <= Duration::from_millis(ends_within)
        && percentile_99 <= Duration::from_millis(answers_within);
    println!(
        "{name:<24} {:>6} {:>14.1} {:>13.1} {:>9.1} {:>9.1} {:>9.1}{}",
        measured.ended,
        milliseconds(measured.after_timeout),
        milliseconds(measured.after_cancel),
        milliseconds(measured.read_within(0.5)),
        milliseconds(percentile_99),
        milliseconds(measured.read_within(1.0)),
        if sound { "" } else { "  late" }
    );
    sound
}
