//! `coeval bench`: runs a workload against an engine or a server, and writes the results.
//!
//! The workloads and the driver are `coeval_workload`'s, which depends on no concurrency
//! control protocol; this module chooses the engine, as the server does.

mod place;
mod signals;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use coeval_check::history::{self, Format, History};
use coeval_server::{Settings, preallocate_memory};
use coeval_workload::driver::{self, Options, Outcome, Report, Tick};
use coeval_workload::loads::bank::Bank;
use coeval_workload::loads::hybrid::{Hybrid, Settings as HybridSettings};
use coeval_workload::loads::list_append::ListAppend;
use coeval_workload::loads::rw_register::RwRegister;
use coeval_workload::loads::smallbank::SmallBank;
use coeval_workload::loads::tpcc::{Rewards, Scale, Tpcc};
use coeval_workload::loads::ycsb::{Settings as YcsbSettings, Ycsb};
use coeval_workload::workload::Workload;

use crate::progress::{ProgressBar, Unit};

/// The workload, and its size.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    Tpcc(Scale, Option<Rewards>),
    Ycsb(YcsbSettings),
    Hybrid(HybridSettings),
    SmallBank {
        customers: u64,
        hot: u64,
        percent: u64,
    },
    Bank {
        accounts: u32,
        totals: u64,
    },
    ListAppend {
        keys: u64,
        length: u64,
        operations: u64,
    },
    RwRegister {
        keys: u64,
        operations: u64,
    },
}

/// The engine to run in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Occ,
    Serial,
}

/// The target of the workload.
#[derive(Clone, Debug)]
pub(crate) enum BenchTarget {
    Server(String),
    Engine {
        protocol: Protocol,
        directory: Option<PathBuf>,
    },
}

/// A planned run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) load: Load,
    pub(crate) place: BenchTarget,
    pub(crate) options: Options,
    pub(crate) json: Option<String>,
    pub(crate) csv: Option<String>,
    pub(crate) plot: Option<(String, Picture)>,
    pub(crate) record: Option<(String, Format)>,
}

/// Runs the plan, and prints the result.
pub(crate) fn run(plan: &Plan) -> ExitCode {
    // Clients and the engine have threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(signalled(plan)),
        Err(error) => Err(error.to_string()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

fn say(error: &str) {
    let _ = writeln!(std::io::stderr(), "coeval bench: {error}");
}

/// Runs the plan; a signal may end it early. Violations of the run take precedence in the
/// exit code.
async fn signalled(plan: &Plan) -> Result<ExitCode, String> {
    let first = signals::end_at_the_first(plan.options.stop.clone()).await;
    let first = first.map_err(|error| format!("signals cannot be waited for: {error}"))?;
    let done = go(plan).await;
    if let Err(error) = &done {
        say(error);
    }
    Ok(match (done, first.code()) {
        (Ok(report), _) if !report.is_sound() => ExitCode::FAILURE,
        (_, Some(code)) => ExitCode::from(code),
        (Ok(_), None) => ExitCode::SUCCESS,
        (Err(_), None) => ExitCode::FAILURE,
    })
}

/// The file format of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picture {
    Svg,
    Png,
}

impl Picture {
    /// The format by the extension of the file's name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }
}

/// Runs the plan, writes its result files, and returns the report.
async fn go(plan: &Plan) -> Result<Report, String> {
    let outcome = match plan.load {
        Load::Tpcc(scale, rewards) => {
            let standard = Tpcc::new(scale, plan.options.seed).remembering();
            match rewards {
                None => drive(standard, plan).await,
                Some(rewards) => drive(standard.rewarding(rewards), plan).await,
            }
        }
        Load::Ycsb(settings) => drive(Ycsb::new(settings), plan).await,
        Load::Hybrid(settings) => drive(Hybrid::new(settings), plan).await,
        Load::SmallBank {
            customers,
            hot,
            percent,
        } => drive(SmallBank::new(customers, hot, percent), plan).await,
        Load::Bank { accounts, totals } => drive(Bank::new(accounts, totals), plan).await,
        Load::ListAppend {
            keys,
            length,
            operations,
        } => drive(ListAppend::new(keys, length, operations), plan).await,
        Load::RwRegister { keys, operations } => {
            drive(RwRegister::new(keys, operations), plan).await
        }
    }?;
    if let (Some((name, format)), Some(history)) = (&plan.record, &outcome.history) {
        write_history(name, *format, history).await?;
    }
    write_report(plan, &outcome.report).await?;
    Ok(outcome.report)
}

async fn drive<W: Workload>(workload: W, plan: &Plan) -> Result<Outcome, String> {
    let settings = Settings {
        memory_preallocated_megabytes: plan.options.preallocated_megabytes,
        ..Settings::default()
    };
    let preallocated = preallocate_memory(&settings).await;
    preallocated.map_err(|error| error.to_string())?;
    let workload = Arc::new(workload);
    let opened = place::open(&plan.place, workload.tables()).await?;
    let options = Options {
        durability: opened.durability.clone(),
        ..plan.options.clone()
    };
    let mut shown: Option<(&'static str, ProgressBar)> = None;
    let mut look = |tick: &Tick| show(&mut shown, tick);
    let outcome = driver::run(&workload, &opened.database, &options, &mut look).await;
    drop(shown);
    opened.close().await;
    outcome.map_err(|failure| failure.to_string())
}

/// Shows a progress bar for each phase.
fn show(shown: &mut Option<(&'static str, ProgressBar)>, tick: &Tick) {
    if shown.as_ref().is_none_or(|(phase, _)| *phase != tick.phase) {
        // The bar of the previous phase is removed before the next one appears.
        *shown = None;
        let unit = match tick.phase {
            "loading" => Unit::Of("parts"),
            "checking" => Unit::Of("looks"),
            _ if tick.in_time => Unit::Milliseconds,
            _ => Unit::Of("transactions"),
        };
        *shown = Some((tick.phase, ProgressBar::new(tick.phase, unit)));
    }
    if let Some((phase, progress)) = shown {
        if tick.per_second > 0 {
            progress.rename(format!("{phase}, {} per second", tick.per_second));
        }
        progress.at(tick.done, tick.of);
    }
}

async fn write_history(name: &str, format: Format, history: &History) -> Result<(), String> {
    let mut bytes = Vec::new();
    let written = history::write(history, format, &mut bytes);
    written.map_err(|error| format!("{name}: {error}"))?;
    place::write_file(name, &bytes).await
}

async fn write_report(plan: &Plan, report: &Report) -> Result<(), String> {
    let mut text = report.text(plan.options.length);
    match plan.json.as_deref() {
        Some("-") => text = report.json(),
        Some(name) => place::write_file(name, report.json().as_bytes()).await?,
        None => {}
    }
    if let Some(name) = &plan.csv {
        place::write_file(name, report.csv().as_bytes()).await?;
    }
    if let Some((name, picture)) = &plan.plot {
        let chart = report.chart();
        let bytes = match picture {
            Picture::Svg => chart.svg().into_bytes(),
            Picture::Png => chart.png().map_err(|error| format!("{name}: {error}"))?,
        };
        place::write_file(name, &bytes).await?;
    }
    // A closed pipe does not change the exit code.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
