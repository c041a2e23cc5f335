//! Command line of the simulator.
//!
//! ```text
//! cargo run -p coeval-sim -- run --seed 7 --scenario occ/bank/serializable/power
//! cargo run -p coeval-sim -- court --seeds 3
//! cargo run --profile dist -p coeval-sim -- throughput --cores 8
//! ```

mod calibrate;
mod sessions;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use coeval_sim::campaign::{CATCHES, Catch, catch};
use coeval_sim::command::Arguments;
use coeval_sim::{Options, Scenario, run, shrink};

/// Runs whole databases under one seed, with workloads, faults, and judges.
#[derive(Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists every scenario.
    List,
    /// Performs one run; if it fails, searches for the smallest failing run.
    Run(RunArguments),
    /// Performs every scenario with each of some seeds.
    Court(CampaignArguments),
    /// Measures the costs of work on this machine.
    Calibrate(calibrate::CalibrateArguments),
    /// Plots the throughput of a simulated server with the measured costs.
    Throughput(calibrate::ThroughputArguments),
    /// Injects known bugs, and reports how many seeds it takes to catch each.
    Planted {
        /// Greatest number of seeds for each bug; that of the table, if not given.
        #[arg(long)]
        seeds: Option<u64>,
        /// Only entries whose bug, scenario or judge contains this text.
        #[arg(long, default_value = "")]
        only: String,
    },
}

#[derive(clap::Args)]
struct RunArguments {
    #[command(flatten)]
    run: Arguments,
    /// Does not search for a smaller failing run.
    #[arg(long)]
    no_shrink: bool,
}

#[derive(clap::Args)]
struct CampaignArguments {
    /// Number of seeds for each scenario.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed of each scenario.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How long clients run, in milliseconds of virtual time.
    #[arg(long, default_value_t = 600)]
    length_ms: u64,
    /// Only scenarios whose names contain this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Samples the scenarios: of whole servers every third, such that all pairs of
    /// workload, level and faults occur; of clusters every eleventh, and of clusters of
    /// whole servers every twentieth.
    #[arg(long)]
    sample: bool,
    /// File of completed runs: read first, and kept up to date.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Name of this build in the record.
    #[arg(long, default_value = "unnamed")]
    build: String,
    /// File that receives the table, in addition to standard output.
    #[arg(long)]
    table: Option<PathBuf>,
    /// Ends after this many seconds, with the runs completed so far.
    #[arg(long)]
    seconds: Option<u64>,
    /// Number of threads; 0 for one for each core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

fn main() -> ExitCode {
    let done: Result<bool, Box<dyn std::error::Error>> = match CommandLine::parse().command {
        Command::List => {
            for scenario in Scenario::all() {
                println!("{scenario}");
            }
            Ok(true)
        }
        Command::Run(arguments) => one(arguments).map_err(Into::into),
        Command::Court(arguments) => sessions::hold(&arguments).map_err(Into::into),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Throughput(arguments) => calibrate::throughput(&arguments),
        Command::Planted { seeds, only } => Ok(planted(seeds, &only)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn one(arguments: RunArguments) -> io::Result<bool> {
    if arguments.run.plant.is_some() && !cfg!(feature = "planted") {
        let error = "this build has no bugs to plant: --features planted";
        return Err(io::Error::other(error));
    }
    let options = Options::from(arguments.run);
    for fault in options.plan() {
        println!("{fault}");
    }
    let report = run(&options);
    println!("{report}");
    if report.is_clean() {
        return Ok(true);
    }
    if !arguments.no_shrink {
        let (smallest, report) = shrink::shrink(&options, report, |candidate| {
            println!("trying {}", candidate.command());
        });
        println!("\nthe smallest that fails:\n{}", smallest.command());
        for fault in smallest.plan() {
            println!("{fault}");
        }
        println!("{report}");
    }
    Ok(false)
}

fn planted(seeds: Option<u64>, only: &str) -> bool {
    if !cfg!(feature = "planted") {
        eprintln!("this build has no bugs to plant: --features planted");
        return false;
    }
    let mut all = true;
    let cases = CATCHES.iter().filter(|case| {
        let of = [case.bug.name(), case.scenario, case.judge];
        of.iter().any(|of| of.contains(only))
    });
    for &case in cases {
        let Some(caught) = catch(case, 0..seeds.unwrap_or(case.within())) else {
            println!("{case} NOT CAUGHT");
            all = false;
            continue;
        };
        let counted = Catch {
            seeds: caught.seeds,
            ..case
        };
        println!("{counted}");
        let mut objections = caught.report.objections_of(case.judge);
        let said = objections.next().and_then(|said| said.lines().next());
        eprintln!("    {}", said.unwrap_or_default());
        all &= caught.seeds <= case.within();
    }
    all
}
