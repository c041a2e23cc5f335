//! The dock command: the fault harness for server processes. It runs a server under every
//! kind of fault that can be caused from outside, with every workload, at every isolation
//! level.
//!
//! ```text
//! cargo run -p coeval-workload --bin dock -- --quick
//! cargo run -p coeval-workload --bin dock -- --rounds 5
//! cargo run -p coeval-workload --bin dock -- --kind power --level SERIALIZABLE
//! cargo run -p coeval-workload --bin dock -- --kind kill --rounds 25 \
//!     --workload list-append --workload rw-register --workload bank
//! cargo run --release -p coeval-workload --bin dock -- --nodes 3 --whom leader --kind kill \
//!     --rounds 50
//! cargo run -p coeval-workload --bin dock -- --planted
//! ```
//!
//! Exits with 0 if nothing was lost, invented, torn or returned wrong; with 1 if
//! something was, or a server did not start, stop, exit or answer as it must; with 2 if
//! no verdict was reached. Faults of disk and clock need a debug build of the server,
//! which the command builds if it is a debug build itself.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use coeval_env as env;
use coeval_types::planted::Bug;
use coeval_workload::faults::harness::planted::{CATCHES, Outcome};
use coeval_workload::faults::harness::{
    self, FaultKind, LEVELS, Options, PATIENCE, Summary, Undecided, WORKLOADS, Whom, level_name,
};
use coeval_workload::faults::namespace::Namespace;
use coeval_workload::server::{build_coeval, build_coeval_with};
use tokio::sync::mpsc;

/// Runs a server process under faults, and judges the histories of its clients.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only these kinds of fault: kill, stop, pause, network, cut, partition, one-way,
    /// loss, power, sync, slow, write, full, clock or combined.
    #[arg(long)]
    kind: Vec<String>,
    /// Only these isolation levels, as SQL names them.
    #[arg(long)]
    level: Vec<String>,
    /// Only these workloads: ledger, bank, list-append, rw-register, ycsb, smallbank or
    /// tpcc.
    #[arg(long)]
    workload: Vec<String>,
    /// Runs each kind at each level with only one workload, a different one each time.
    #[arg(long)]
    quick: bool,
    /// How often the fault happens, for each workload, level and kind; 0 for a run
    /// without faults.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Number of nodes: one server, or a cluster whose clients connect to all nodes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=9))]
    nodes: u64,
    /// Of a cluster, the nodes that the faults hit: leader, follower or all; several
    /// values make a run each.
    #[arg(long, default_value = "leader")]
    whom: Vec<String>,
    /// Number of concurrent clients.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// Seed that decides the load and the moments of faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The longest time under load before and after a fault, in milliseconds.
    #[arg(long, default_value_t = 300)]
    load: u64,
    /// How long a client waits for an answer, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    timeout: u64,
    /// Drops no packets by firewall, even where network namespaces are available.
    #[arg(long)]
    loopback: bool,
    /// Settings of the server, such as log-segment-bytes=65536.
    #[arg(long, value_parser = setting)]
    set: Vec<(&'static str, u64)>,
    /// Faults that are in force until the first fault of the kind is over, such as 'sync
    /// takes 30'.
    #[arg(long)]
    fault: Vec<String>,
    /// Longest time after a fault until clients commit again, in milliseconds.
    #[arg(long, default_value_t = PATIENCE.as_millis() as u64)]
    patience: u64,
    /// Longest write outage after a node of a cluster is taken away, in milliseconds;
    /// unlimited when absent.
    #[arg(long)]
    outage_at_most: Option<u64>,
    /// Number of concurrent runs: most of each run is waiting.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    jobs: u64,
    /// A known bug to inject into the server, which is then built with the feature
    /// `planted`.
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// Tests the harness itself: injects known bugs, one under each requested kind of
    /// fault, instead of running a sound server. Exits with 1 if one of them is not
    /// caught.
    #[arg(long)]
    planted: bool,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn bug(name: &str) -> Result<Bug, String> {
    let all: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
    Bug::named(name).ok_or_else(|| format!("there are {}", all.join(", ")))
}

/// Parses a setting: a name, leaked to live as long as the process, and a number.
fn setting(text: &str) -> Result<(&'static str, u64), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is NAME=NUMBER")?;
    let value = value.parse().map_err(|error| format!("{value}: {error}"))?;
    Ok((name.to_owned().leak(), value))
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

/// Resolves the requested names among all known ones; all if none is requested.
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

/// All runs to do, in order.
fn plan(arguments: &Arguments) -> Result<Vec<Options>, String> {
    let kinds = chosen("kind", &arguments.kind, &FaultKind::ALL)?;
    let levels = chosen("level", &arguments.level, &LEVELS)?;
    let workloads = chosen(
        "workload",
        &arguments.workload,
        &WORKLOADS.map(|name| (name, name)),
    )?;
    let whom = match arguments.nodes {
        // A single node is its own leader.
        1 => vec![Whom::Leader],
        _ => chosen("whom", &arguments.whom, &Whom::ALL)?,
    };
    // Leaking is fine: the faults are few and needed for the whole run.
    let faults = arguments.fault.iter().map(|fault| &*fault.clone().leak());
    let faults: Vec<&'static str> = faults.collect();
    let mut all = Vec::new();
    for (at, &kind) in kinds.iter().enumerate() {
        for (beside, &level) in levels.iter().enumerate() {
            for (which, &workload) in workloads.iter().enumerate() {
                // Coprime steps, so that all combinations of kinds, levels and workloads
                // occur in time.
                let turn = (at + 3 * beside) % workloads.len();
                if arguments.quick && which != turn {
                    continue;
                }
                for &whom in &whom {
                    let mut options = Options {
                        nodes: usize::try_from(arguments.nodes).unwrap_or(1),
                        whom,
                        rounds: arguments.rounds,
                        clients: usize::try_from(arguments.clients).unwrap_or(1),
                        seed: arguments.seed,
                        load_at_most: Duration::from_millis(arguments.load),
                        operation_timeout: Duration::from_millis(arguments.timeout),
                        loopback: arguments.loopback,
                        planted: faults.clone(),
                        patience: Duration::from_millis(arguments.patience),
                        outage_at_most: arguments.outage_at_most.map(Duration::from_millis),
                        bug: arguments.bug,
                        ..Options::new(workload, level, kind)
                    };
                    for &(name, value) in &arguments.set {
                        options.set(name, value);
                    }
                    all.push(options);
                }
            }
        }
    }
    Ok(all)
}

async fn run(arguments: Arguments) -> Result<u8, Failure> {
    if arguments.planted {
        return planted(&arguments).await;
    }
    let mut plan = plan(&arguments)?;
    let binary = match (arguments.binary, arguments.bug) {
        (Some(binary), _) => binary,
        (None, None) => build_coeval()?,
        (None, Some(_)) => build_coeval_with(&["planted"])?,
    };
    let asked = plan.len();
    plan.retain(|options| cfg!(debug_assertions) || !options.kind.needs_debug_build());
    let skipped = asked - plan.len();
    let began = env::now();
    println!(
        "{:<12} {:<16} {:<18} {:>6} {:>6} {:>10} {:>8} {:>8}  verdict",
        "workload", "level", "kind", "rounds", "kills", "committed", "aborted", "unknown"
    );
    let (runs, at_once) = (plan.len(), arguments.jobs);
    let mut done = at_once_in_order(binary, plan, at_once);
    let mut total = Total::default();
    while let Some(line) = done.recv().await {
        let line = line?;
        print!("{}", line.text);
        total.add(line.result);
    }
    println!(
        "\n{runs} runs in {:.0} s, {at_once} at a time: {total}",
        began.elapsed().as_secs_f64(),
    );
    println!("the server was reached by: {}", total.ways.join("; "));
    if skipped > 0 {
        println!("{skipped} runs were skipped: they need a debug build");
    }
    Ok(total.code())
}

/// Summary over all runs of the command.
#[derive(Default)]
struct Total {
    sum: Summary,
    wrong: u32,
    undecided: u32,
    ways: Vec<String>,
}

impl Total {
    fn add(&mut self, result: Result<Summary, Undecided>) {
        let (summary, is_wrong, is_decided) = match result {
            Ok(summary) => {
                let is_wrong = !summary.objections.is_empty();
                (summary, is_wrong, true)
            }
            Err(Undecided { error, summary }) => {
                let is_wrong = error.is_the_servers() || !summary.objections.is_empty();
                (*summary, is_wrong, error.is_the_servers())
            }
        };
        self.wrong += u32::from(is_wrong);
        self.undecided += u32::from(!is_decided);
        self.sum.rounds += summary.rounds;
        self.sum.kills += summary.kills;
        self.sum.committed += summary.committed;
        self.sum.aborted += summary.aborted;
        self.sum.unknown += summary.unknown;
        self.sum.requests += summary.requests;
        // The numbers of namespaces do not matter.
        let number = |end: char| end.is_ascii_digit() || end == '-';
        let way = summary.reached.trim_end_matches(number);
        if !way.is_empty() && !self.ways.iter().any(|known| known == way) {
            self.ways.push(way.to_owned());
        }
    }

    fn code(&self) -> u8 {
        match (self.wrong, self.undecided) {
            (0, 0) => 0,
            (0, _) => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} rounds, {} kills, {} transactions committed, {} undone, {} unknown, {} raw requests \
             answered as owed; {} wrong, {} without a verdict",
            self.sum.rounds,
            self.sum.kills,
            self.sum.committed,
            self.sum.aborted,
            self.sum.unknown,
            self.sum.requests,
            self.wrong,
            self.undecided,
        )
    }
}

/// The printed line of a run, and the run's result.
struct Line {
    text: String,
    result: Result<Summary, Undecided>,
}

/// Performs all runs, `at_once` of them concurrently. The lines arrive in the order of
/// the plan, each as soon as it and its predecessors are complete.
fn at_once_in_order(
    binary: PathBuf,
    plan: Vec<Options>,
    at_once: u64,
) -> mpsc::UnboundedReceiver<Result<Line, Failure>> {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let (sender, lines) = mpsc::unbounded_channel();
    let plan = Arc::new((binary, plan, AtomicUsize::new(0)));
    for _ in 0..at_once {
        let (plan, ended) = (Arc::clone(&plan), ended.clone());
        env::spawn("runs", async move {
            let (binary, plan, next) = &*plan;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(options) = plan.get(number) else {
                    return;
                };
                if ended.send((number, one(binary, options).await)).is_err() {
                    return;
                }
            }
        });
    }
    drop(ended);
    env::spawn("lines", async move {
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        while let Some((number, line)) = ends.recv().await {
            waiting.insert(number, line);
            while let Some(line) = waiting.remove(&next) {
                next += 1;
                if sender.send(line).is_err() {
                    return;
                }
            }
        }
    });
    lines
}

/// Performs one run. The data directory of a run that is not clean is kept.
async fn one(binary: &Path, options: &Options) -> Result<Line, Failure> {
    let folder = tempfile::Builder::new().prefix("coeval-dock-").tempdir()?;
    let result = harness::run(binary, folder.path(), options).await;
    let of = match options.nodes {
        1 => String::new(),
        _ => format!(", {}", options.whom.name()),
    };
    let mut text = format!(
        "{:<12} {:<16} {:<18} ",
        options.workload,
        level_name(options.level),
        options.kind.name().to_owned() + &of
    );
    let objections: &[String] = match &result {
        Ok(summary) => {
            writeln!(text, "{summary}")?;
            &summary.objections
        }
        Err(Undecided { error, summary }) => {
            let found = match error.is_the_servers() {
                true => "WRONG",
                false => "NO VERDICT",
            };
            writeln!(text, "{found}: {error}")?;
            &summary.objections
        }
    };
    for objection in objections {
        writeln!(text, "    {}", objection.replace('\n', "\n    "))?;
    }
    let sound = result.is_ok() && objections.is_empty();
    if !sound {
        let kept = folder.keep();
        let kept = kept.display();
        writeln!(text, "    data, log and history are kept in {kept}")?;
        writeln!(text, "    again: {}", options.command())?;
    }
    Ok(Line { text, result })
}

/// Runs each known bug under its fault, the same run without the bug, and the bug without
/// the fault; prints a table in Markdown.
async fn planted(arguments: &Arguments) -> Result<u8, Failure> {
    if !cfg!(debug_assertions) {
        return Err("faults of disk and clock need a debug build".into());
    }
    let kinds = chosen("kind", &arguments.kind, &FaultKind::ALL)?;
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => build_coeval_with(&["planted"])?,
    };
    let mut missed = 0;
    println!("| bug | kind | workload | level | seeds | caught by | without the fault |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for catch in CATCHES.iter().filter(|catch| kinds.contains(&catch.kind)) {
        if catch.namespace && Namespace::or_say(&catch.name()).is_none() {
            continue;
        }
        let folder = tempfile::Builder::new().prefix("coeval-dock-").tempdir()?;
        let with = catch.test(&binary, &folder.path().join("with")).await?;
        // A run without a verdict does not stop the other runs.
        let said = |done: Result<Vec<String>, harness::Error>| {
            done.unwrap_or_else(|error| vec![format!("no verdict: {error}")])
        };
        let without = folder.path().join("without");
        let without = said(catch.without(&binary, &without).await);
        let no_fault = folder.path().join("no-fault");
        let no_fault = said(catch.without_fault(&binary, &no_fault).await);
        let (seeds, mut said) = match with {
            Outcome::Caught { seed, said } => (seed.to_string(), said),
            Outcome::Missed(said) => {
                missed += 1;
                ("–".to_owned(), format!("MISSED: {}", said.join("; ")))
            }
        };
        if !without.is_empty() {
            missed += 1;
            said = format!("NOT CLEAN WITHOUT: {}", without.join("; "));
        }
        println!(
            "| {} | `{}`{} | {} | {} | {seeds} | {} | {} |",
            catch.bug,
            catch.kind.name(),
            if catch.namespace {
                ", in a namespace"
            } else {
                ""
            },
            catch.workload,
            level_name(catch.level),
            said.lines().next().unwrap_or_default(),
            no_fault
                .first()
                .map_or("nothing", |said| said.lines().next().unwrap_or_default()),
        );
    }
    Ok(u8::from(missed > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a command into words, as a shell does.
    fn words(command: &str) -> Vec<String> {
        let parts = command.split('\'').enumerate();
        parts
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    #[test]
    fn what_the_server_does_is_a_verdict_and_what_the_machine_does_is_none() {
        let code = |results: Vec<Result<Summary, harness::Error>>| {
            let mut total = Total::default();
            for result in results {
                total.add(result.map_err(Undecided::from));
            }
            total.code()
        };
        let sound = || Ok(Summary::default());
        let lost = || Summary {
            objections: vec!["one is lost".to_owned()],
            ..Summary::default()
        };
        let machine = || Err(harness::Error::Io(std::io::ErrorKind::StorageFull.into()));
        let goes_on = || Err(harness::Error::Wrong("it goes on".to_owned()));
        let silent = || {
            Err(harness::Error::Server(
                coeval_workload::server::Error::Silent { log: "".into() },
            ))
        };
        let broken = || {
            Err(harness::Error::Load(
                coeval_workload::store::Failure::Aborted {
                    cause: "XX000".into(),
                    message: "internal error".to_owned(),
                    retry: false,
                },
            ))
        };
        let endless = || Err(harness::Error::Endless("committing", PATIENCE));
        assert_eq!(code(vec![sound()]), 0);
        assert_eq!(code(vec![sound(), machine()]), 2);
        assert_eq!(code(vec![Ok(lost()), machine()]), 1);
        for wrong in [goes_on(), silent(), broken(), endless()] {
            assert_eq!(code(vec![machine(), wrong, sound()]), 1);
        }
    }

    #[test]
    fn what_repeats_a_run_says_all_of_it() {
        let plain = Options::new("bank", LEVELS[1].0, FaultKind::Cut);
        let several = Options {
            nodes: 3,
            whom: Whom::Follower,
            ..plain.clone()
        };
        let catches = CATCHES.iter().map(|catch| catch.options(7));
        for options in catches.chain([plain, several]) {
            let command = options.command();
            let (_, said) = command.split_once(" --bin ").unwrap();
            let said = words(said).into_iter().filter(|word| word != "--");
            let arguments = Arguments::try_parse_from(said).unwrap();
            let again = plan(&arguments).unwrap();
            assert_eq!(format!("{again:?}"), format!("[{options:?}]"), "{command}");
        }
    }
}
