//! The dock command: a server process under every kind of fault that can be made from
//! outside, with every workload, at every isolation level.
//!
//! ```text
//! cargo run -p coeval-workload --bin dock -- --quick
//! cargo run -p coeval-workload --bin dock -- --rounds 5
//! cargo run -p coeval-workload --bin dock -- --kind power --level SERIALIZABLE
//! cargo run -p coeval-workload --bin dock -- --kind kill --rounds 25 \
//!     --workload list-append --workload rw-register --workload bank
//! ```
//!
//! Ends with 0 when nothing was lost, invented, torn or served wrong; with 1 when
//! something was; with 2 when no verdict was reached. Faults of disk and clock need a
//! debug build, which this makes when it is one itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use coeval_env as env;
use coeval_workload::faults::dock::{self, Kind, LEVELS, Options, Summary, WORKLOADS, level_name};
use coeval_workload::server::build_coeval;

/// Puts a server process under faults, and judges what its clients were told.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only this kind, or several: kill, stop, pause, network, cut, partition, one-way,
    /// loss, power, sync, slow, write, full or clock.
    #[arg(long)]
    kind: Vec<String>,
    /// Only this level, or several, as SQL names them.
    #[arg(long)]
    level: Vec<String>,
    /// Only this workload, or several: ledger, bank, list-append, rw-register, ycsb,
    /// smallbank or tpcc.
    #[arg(long)]
    workload: Vec<String>,
    /// Each kind at each level with one workload only, another each time.
    #[arg(long)]
    quick: bool,
    /// How often the fault happens, for each workload, level and kind.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many clients load it.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// Decides the load and the moments of faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The longest time under load before and after a fault, in milliseconds.
    #[arg(long, default_value_t = 300)]
    load: u64,
    /// How long a client waits for an answer, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    timeout: u64,
    /// Loses packets by no firewall, even where network namespaces are to be had.
    #[arg(long)]
    loopback: bool,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("dock: {error}");
            ExitCode::from(2)
        }
    }
}

/// What is asked for, by the names that there are.
fn chosen<T: Copy>(
    what: &str,
    wanted: &[String],
    all: &[(T, &'static str)],
) -> Result<Vec<T>, String> {
    for name in wanted {
        if !all.iter().any(|(_, known)| known == name) {
            let known: Vec<&str> = all.iter().map(|(_, known)| *known).collect();
            return Err(format!("there is no {what} {name:?}: {}", known.join(", ")));
        }
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let all = all.iter().filter(|(_, name)| is_wanted(name));
    Ok(all.map(|(value, _)| *value).collect())
}

/// Everything to be done, in its order.
fn plan(arguments: &Arguments) -> Result<Vec<Options>, String> {
    let kinds = chosen("kind", &arguments.kind, &Kind::ALL)?;
    let levels = chosen("level", &arguments.level, &LEVELS)?;
    let workloads = chosen(
        "workload",
        &arguments.workload,
        &WORKLOADS.map(|name| (name, name)),
    )?;
    let mut all = Vec::new();
    for (at, &kind) in kinds.iter().enumerate() {
        for (beside, &level) in levels.iter().enumerate() {
            for (which, &workload) in workloads.iter().enumerate() {
                // Coprime steps, so that kinds, levels and workloads all meet in time.
                let turn = (at + 3 * beside) % workloads.len();
                if arguments.quick && which != turn {
                    continue;
                }
                all.push(Options {
                    rounds: arguments.rounds,
                    clients: usize::try_from(arguments.clients).unwrap_or(1),
                    seed: arguments.seed,
                    load_at_most: Duration::from_millis(arguments.load),
                    operation_timeout: Duration::from_millis(arguments.timeout),
                    loopback: arguments.loopback,
                    ..Options::new(workload, level, kind)
                });
            }
        }
    }
    Ok(all)
}

async fn run(arguments: Arguments) -> Result<u8, Box<dyn std::error::Error>> {
    let plan = plan(&arguments)?;
    let binary = match arguments.binary {
        Some(binary) => binary,
        None => build_coeval()?,
    };
    let began = env::now();
    println!(
        "{:<12} {:<16} {:<10} {:>6} {:>6} {:>10} {:>8} {:>8}  verdict",
        "workload", "level", "kind", "rounds", "kills", "committed", "aborted", "unknown"
    );
    let mut total = Summary::default();
    let (mut wrong, mut undecided, mut skipped) = (0, 0, 0);
    let mut ways: Vec<String> = Vec::new();
    for options in &plan {
        if options.kind.needs_debug_build() && !cfg!(debug_assertions) {
            skipped += 1;
            continue;
        }
        match one(&binary, options).await? {
            Some(summary) => {
                wrong += usize::from(!summary.objections.is_empty());
                total.rounds += summary.rounds;
                total.kills += summary.kills;
                total.committed += summary.committed;
                total.aborted += summary.aborted;
                total.unknown += summary.unknown;
                let way = summary.reached.trim_end_matches(|end: char| {
                    // Of namespaces the number does not matter.
                    end.is_ascii_digit() || end == '-'
                });
                if !ways.iter().any(|known| known == way) {
                    ways.push(way.to_owned());
                }
            }
            None => undecided += 1,
        }
    }
    let runs = plan.len() - skipped;
    println!(
        "\n{runs} runs in {:.0} s: {} rounds, {} kills, {} transactions committed, {} undone, {} \
         unknown; {wrong} wrong, {undecided} without a verdict",
        began.elapsed().as_secs_f64(),
        total.rounds,
        total.kills,
        total.committed,
        total.aborted,
        total.unknown,
    );
    println!("the server was reached by: {}", ways.join("; "));
    if skipped > 0 {
        println!("{skipped} runs were skipped: they need a debug build");
    }
    Ok(match (wrong, undecided) {
        (0, 0) => 0,
        (0, _) => 2,
        _ => 1,
    })
}

/// One run; its line of the table. What is not sound is kept.
async fn one(
    binary: &Path,
    options: &Options,
) -> Result<Option<Summary>, Box<dyn std::error::Error>> {
    let folder = tempfile::Builder::new().prefix("coeval-dock-").tempdir()?;
    let result = dock::run(binary, folder.path(), options).await;
    let what = format!(
        "{:<12} {:<16} {:<10}",
        options.workload,
        level_name(options.level),
        options.kind.name()
    );
    let sound = match &result {
        Ok(summary) => {
            println!("{what} {summary}");
            for objection in &summary.objections {
                println!("    {}", objection.replace('\n', "\n    "));
            }
            summary.objections.is_empty()
        }
        Err(error) => {
            println!("{what} NO VERDICT: {error}");
            false
        }
    };
    if !sound {
        println!(
            "    data, log and history are kept in {}",
            folder.keep().display()
        );
        println!("    again: {}", options.command());
    }
    Ok(result.ok())
}
