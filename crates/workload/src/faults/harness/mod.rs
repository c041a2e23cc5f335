//! The fault harness ("dock"): runs clients against a server process under fault
//! injection, and passes their history to the judges.
//!
//! ```text
//! start ─ load │ clients at work ────────────────────────────────── │ last look │ judge
//!              │   fault ─ calm ─ fault ─ calm ─ …  (rounds)         │           │
//!              └─ the same directory all the time, whatever happens to the process ┘
//! ```
//!
//! A [`run`] is for one workload, one isolation level and one kind of fault. The clients
//! are those of the [driver](crate::driver): they outlive the server, reconnect when
//! their connection is lost or an answer exceeds the timeout, and record every outcome,
//! unknown ones included. One history spans all rounds, so the judges notice a commit
//! that was acknowledged before the first kill and is missing after the third. The
//! history ends with a read of all data. Then the server is shut down cleanly, started
//! once more, and its data is checked again.
//!
//! | workload | judged by |
//! | --- | --- |
//! | ledger | its final check: nothing lost, invented, torn; index and table agree |
//! | list-append, rw-register | isolation at the level, recency, sessions |
//! | bank | the same, each account being a register; the judge of totals, for every sum read |
//! | ycsb | the same, each field being a register; all fields read are checked |
//! | smallbank | its final check: the sum of the balances is what was deposited |
//! | tpcc | its final check: the twelve conditions, and no acknowledged order or payment missing |
//!
//! Beside each workload a few [raw] clients send requests of every shape of
//! [pipelines](crate::pipelines), and count what each of them is owed: a ReadyForQuery that
//! is missing, or that was not asked for, is a violation, whatever the workload.
//!
//! With several [nodes](Options::nodes) the harness runs a cluster: clients connect to
//! all nodes in turn, the fault hits the nodes of [`Options::whom`], the links are those
//! between nodes, and the harness measures the write outage after it takes a node away.
//!
//! After each kind of fault the server must answer again, and the judges must find no
//! violation. A server whose disk fails to sync, and a follower whose disk is full, must
//! have exited by itself before that. And while fsyncs are slow, no write in the history
//! may be acknowledged before an fsync can have completed.
//!
//! [`planted`] tests whether the harness detects known bugs.
//!
//! A seed decides the clients' requests and the times of the faults. Threads, the kernel
//! and the disk decide the rest: a seed repeats the attempt, not the outcome.
//!
//! Invariants:
//! - Every wait has a timeout: clients for an answer, the harness for clients or
//!   server.
//! - Clients must commit writes between two faults, so a server that answers but
//!   commits nothing is detected.
//! - Evidence of a violation is kept: data directory, the server's output, history,
//!   violations. A run without a verdict keeps the same, since its history up to that
//!   point is judged, too; it has no history if the clients did not end.
#![expect(clippy::disallowed_methods, reason = "keeps real files")]

mod ground;
mod judge;
mod kind;
pub mod planted;
mod raw;

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coeval_check::history::{self, Format, History};
use coeval_env as env;
use coeval_txn::Isolation;
use coeval_types::planted::Bug;

use crate::chance::Chance;
use crate::driver::{self, Length, Outcome, Stop};
use crate::loads::bank::Bank;
use crate::loads::ledger::Ledger;
use crate::loads::list_append::ListAppend;
use crate::loads::rw_register::RwRegister;
use crate::loads::smallbank::SmallBank;
use crate::loads::tpcc::{Scale, Tpcc};
use crate::loads::ycsb::{self, Letter, Ycsb};
use crate::server;
use crate::store::{Database, Failure};
use crate::workload::Workload;

use ground::Ground;
use judge::Judges;
pub use kind::{FaultKind, LEVELS, Whom, level_name};
use raw::RawClients;

/// Timeout for any operation that is not affected by a fault: generous, because the
/// harness does not measure the machine's speed.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// Number of writing transactions that must commit before a fault and after it, however
/// long a slow machine takes.
const WORK: u64 = 20;
/// Number of accounts of the bank workload.
const ACCOUNTS: u32 = 8;

/// Names of the workloads.
pub const WORKLOADS: [&str; 7] = [
    "ledger",
    "bank",
    "list-append",
    "rw-register",
    "ycsb",
    "smallbank",
    "tpcc",
];

/// Parameters of a run of the fault harness.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the workload, one of [`WORKLOADS`].
    pub workload: &'static str,
    /// The isolation level of every transaction.
    pub level: Isolation,
    /// The kind of fault to inject.
    pub kind: FaultKind,
    /// Number of nodes: 1 for a single server, more for a cluster.
    pub nodes: usize,
    /// Of a cluster, the nodes that the fault hits.
    pub whom: Whom,
    /// Number of faults; 0 for a run without faults.
    pub rounds: u32,
    /// Number of clients.
    pub clients: usize,
    /// Seed that decides the clients' requests and the times of the faults.
    pub seed: u64,
    /// The longest time under load before a fault, and after it.
    pub load_at_most: Duration,
    /// How long a client waits for an answer.
    pub operation_timeout: Duration,
    /// Whether to use no network namespace even where one is available.
    pub loopback: bool,
    /// Further settings of the server: small log segments and frequent checkpoints, so
    /// that faults hit both.
    pub settings: Vec<(&'static str, u64)>,
    /// Faults in the format of [`super::controls`] that are in force from the start of
    /// the clients' work until the first fault of the kind is over. Faults that no server
    /// can withstand serve to test the judges.
    pub planted: Vec<&'static str>,
    /// A known bug injected into the server, which needs a binary built with the feature
    /// `planted`.
    pub bug: Option<Bug>,
    /// Timeout after a fault until clients commit again, or until a server exits by
    /// itself where it must.
    pub patience: Duration,
    /// Longest allowed write outage after a node of a cluster was taken away.
    pub outage_at_most: Option<Duration>,
}

impl Options {
    /// Parameters of a short run with six clients and a timeout of two seconds.
    #[must_use]
    pub fn new(workload: &'static str, level: Isolation, kind: FaultKind) -> Self {
        Self {
            workload,
            level,
            kind,
            nodes: 1,
            whom: Whom::Leader,
            rounds: 1,
            clients: 6,
            seed: 1,
            load_at_most: Duration::from_millis(300),
            operation_timeout: Duration::from_secs(2),
            loopback: false,
            settings: vec![
                ("checkpoint-log-bytes", 50_000),
                // If the disk is to be full, small segments make the log need a new file
                // soon.
                (
                    "log-segment-bytes",
                    match kind {
                        FaultKind::Full | FaultKind::Combined => 16_384,
                        _ => 65_536,
                    },
                ),
            ],
            planted: Vec::new(),
            bug: None,
            patience: PATIENCE,
            outage_at_most: None,
        }
    }

    /// Sets a setting of the server, replacing an earlier value.
    pub fn set(&mut self, name: &'static str, value: u64) {
        self.settings.retain(|(other, _)| *other != name);
        self.settings.push((name, value));
    }

    /// Random number generator that decides the times of the faults. For combined faults
    /// it also decides the kinds, so there it differs between runs of one seed.
    fn chance(&self) -> Chance {
        let mut stream: u64 = 1 << 32;
        if self.kind == FaultKind::Combined {
            let names = [self.workload, level_name(self.level), self.whom.name()].concat();
            let number = |sum: u64, byte: u8| (sum * 31 + u64::from(byte)) % 1_000_003;
            stream += names.bytes().fold(0, number);
        }
        Chance::of(self.seed, stream)
    }

    /// Command line that repeats the attempt.
    #[must_use]
    pub fn command(&self) -> String {
        let usual = Self::new(self.workload, self.level, self.kind);
        let mut further = String::new();
        if self.nodes > 1 {
            further += &format!(" --nodes {} --whom {}", self.nodes, self.whom.name());
        }
        if self.loopback {
            further.push_str(" --loopback");
        }
        for setting @ (name, value) in &self.settings {
            if !usual.settings.contains(setting) {
                further += &format!(" --set {name}={value}");
            }
        }
        for fault in &self.planted {
            further += &format!(" --fault '{fault}'");
        }
        if self.patience != usual.patience {
            further += &format!(" --patience {}", self.patience.as_millis());
        }
        if let Some(most) = self.outage_at_most {
            further += &format!(" --outage-at-most {}", most.as_millis());
        }
        if let Some(bug) = self.bug {
            further += &format!(" --bug {bug}");
        }
        format!(
            "cargo run -p coeval-workload --bin dock -- --workload {} --level '{}' --kind {} \
             --rounds {} --clients {} --seed {} --load {} --timeout {}{further}",
            self.workload,
            level_name(self.level),
            self.kind.name(),
            self.rounds,
            self.clients,
            self.seed,
            self.load_at_most.as_millis(),
            self.operation_timeout.as_millis(),
        )
    }
}

/// Reason why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not start, answer or stop as it must.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// The machine refuses an operation that the harness needs.
    #[error(transparent)]
    Io(io::Error),
    /// Tables could not be filled or read although no fault was in force.
    #[error("{0}")]
    Load(#[from] Failure),
    /// The server violated a requirement.
    #[error("{0}")]
    Wrong(String),
    /// The harness could not do its own part.
    #[error("{0}")]
    Undone(String),
    /// An operation exceeded its timeout.
    #[error("{0} takes longer than {1:?}")]
    Endless(&'static str, Duration),
    /// Too few transactions committed for the run to show anything.
    #[error("only {committed} transactions committed in {rounds} rounds")]
    Idle {
        /// Number of committed transactions.
        committed: u64,
        /// Number of rounds.
        rounds: u32,
    },
}

impl Error {
    /// Whether the error is the server's fault, rather than that of the harness or the
    /// machine.
    #[must_use]
    pub fn is_the_servers(&self) -> bool {
        match self {
            Self::Wrong(_) | Self::Endless(..) => true,
            Self::Server(error) => error.is_the_servers(),
            Self::Load(failure) => failure.is_the_servers(),
            Self::Io(_) | Self::Undone(_) | Self::Idle { .. } => false,
        }
    }

    /// Replaces the error's message by the result of `say`; the blame stays the same.
    fn with(self, say: impl FnOnce(&Self) -> String) -> Self {
        let said = say(&self);
        match self.is_the_servers() {
            true => Self::Wrong(said),
            false => Self::Undone(said),
        }
    }
}

/// A run that ended early, with its results up to that point.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Undecided {
    /// Reason for the early end.
    #[source]
    pub error: Error,
    /// Results up to that point, violations included.
    pub summary: Box<Summary>,
}

impl From<Error> for Undecided {
    fn from(error: Error) -> Self {
        let summary = Box::default();
        Self { error, summary }
    }
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Number of completed rounds.
    pub rounds: u32,
    /// How often the server was killed.
    pub kills: u32,
    /// Transactions acknowledged as committed.
    pub committed: u64,
    /// Aborted attempts.
    pub aborted: u64,
    /// Transactions of unknown outcome.
    pub unknown: u64,
    /// Requests of the raw clients that were answered as owed.
    pub requests: u64,
    /// How clients reached the server, for people.
    pub reached: String,
    /// Write outages: the time until the other nodes accepted a write, for each time that
    /// a node of a cluster was taken away.
    pub outages: Vec<Duration>,
    /// Violations found.
    pub objections: Vec<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:>6} {:>6} {:>10} {:>8} {:>8}  {}",
            self.rounds,
            self.kills,
            self.committed,
            self.aborted,
            self.unknown,
            match self.objections.len() {
                0 => "sound".to_owned(),
                count => format!("WRONG in {count} ways"),
            }
        )?;
        let mut outages = self.outages.clone();
        outages.sort_unstable();
        match (outages.get(outages.len() / 2), outages.last()) {
            (Some(median), Some(longest)) => write!(
                formatter,
                "; writes again after {} ms in the median, {} at most",
                median.as_millis(),
                longest.as_millis()
            ),
            _ => Ok(()),
        }
    }
}

/// Performs a run with a server of `binary` in `folder`, which must be empty. Writes
/// violations to `folder`, beside the history.
///
/// # Errors
/// If the harness cannot do its part, or the server did not react to its fault as it
/// must. The history up to that point is judged and written all the same.
pub async fn run(binary: &Path, folder: &Path, options: &Options) -> Result<Summary, Undecided> {
    let seed = options.seed;
    match options.workload {
        "ledger" => with(Ledger::new(16), Judges::Own, binary, folder, options).await,
        "bank" => {
            let bank = Bank::new(ACCOUNTS, 30);
            with(bank, Judges::Bank, binary, folder, options).await
        }
        "list-append" => {
            let lists = ListAppend::new(6, 16, 4);
            with(lists, Judges::Transactions, binary, folder, options).await
        }
        "rw-register" => {
            let registers = RwRegister::new(8, 4);
            with(registers, Judges::Transactions, binary, folder, options).await
        }
        "ycsb" => {
            let ycsb = Ycsb::new(ycsb::Settings {
                letter: Letter::F,
                records: 20,
                fields: 2,
                field_bytes: 20,
                operations: 3,
                looked_at: 1,
                ..ycsb::Settings::default()
            });
            with(ycsb, Judges::Transactions, binary, folder, options).await
        }
        "smallbank" => {
            let bank = SmallBank::new(50, 5, 90);
            with(bank, Judges::Own, binary, folder, options).await
        }
        "tpcc" => {
            let scale = Scale {
                warehouses: 1,
                items: 100,
                customers: 20,
            };
            with(Tpcc::new(scale, seed), Judges::Own, binary, folder, options).await
        }
        other => Err(Error::Undone(format!("there is no workload {other}")).into()),
    }
}

async fn with<W: Workload>(
    workload: W,
    judges: Judges,
    binary: &Path,
    folder: &Path,
    options: &Options,
) -> Result<Summary, Undecided> {
    let workload = Arc::new(workload);
    let mut ground = Ground::new(binary, folder, options).await?;
    let raw = RawClients::begin(&ground, options).await?;
    let database = Database::over_wire(ground.config(), workload.tables());
    let clients = Clients::begin(&workload, &database, options);
    let struck = rounds(&mut ground, &clients, options).await;
    // Whatever happened, the clients end, and their history is judged and kept.
    let calm = ground.calm();
    let (ended, raw) = tokio::join!(clients.end(), raw.end());
    let tally = ground.tally();
    let mut summary = Summary {
        kills: tally.kills,
        reached: tally.reached.clone(),
        outages: tally.outages.clone(),
        requests: raw.answered,
        objections: raw.wrong,
        ..Summary::default()
    };
    let (outcome, mut history) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let error = match struck {
                Ok(_) => error,
                Err(before) => before.with(|before| format!("{error}; before that: {before}")),
            };
            return Err(undecided(error, summary, folder, None));
        }
    };
    summary.committed = outcome.report.completed;
    summary.aborted = outcome.report.aborted;
    summary.unknown = outcome.report.unknown;
    let found = outcome.report.violations.iter().cloned();
    summary.objections.extend(found);
    let looked = async {
        summary.rounds = struck?;
        calm?;
        look(&*workload, &database, &outcome, Some(&mut history)).await
    };
    let looked = looked.await;
    let looked = looked.map(|found| summary.objections.extend(found));
    let found = judge::objections(judges, options.level, &history);
    summary.objections.extend(found);
    let found = judge::too_soon(&history, outcome.origin, &ground.tally().slow);
    summary.objections.extend(found);
    let found = judge::too_long(&ground.tally().outages, options.outage_at_most);
    summary.objections.extend(found);
    let shown = async {
        looked?;
        summary.objections.extend(judge::nothing(judges, &history));
        ground.stop().await?;
        ground.ready().await?;
        let found = look(&*workload, &database, &outcome, None).await?;
        let again = |what: String| format!("after a stop and a start: {what}");
        summary.objections.extend(found.into_iter().map(again));
        ground.stop().await
    };
    let shown = shown.await;
    let is_idle = summary.committed < u64::from(options.rounds);
    match shown {
        Err(error) => Err(undecided(error, summary, folder, Some(&history))),
        Ok(()) if summary.objections.is_empty() && is_idle => {
            let error = Error::Idle {
                committed: summary.committed,
                rounds: options.rounds,
            };
            Err(undecided(error, summary, folder, Some(&history)))
        }
        Ok(()) if summary.objections.is_empty() => Ok(summary),
        Ok(()) => match keep(folder, &summary.objections, Some(&history)) {
            Ok(()) => Ok(summary),
            Err(error) => Err(Undecided {
                error,
                summary: Box::new(summary),
            }),
        },
    }
}

/// Judges and keeps the results of a run that ended early.
fn undecided(
    error: Error,
    summary: Summary,
    folder: &Path,
    history: Option<&History>,
) -> Undecided {
    let mut text = vec![format!("ended early: {error}")];
    text.extend(summary.objections.iter().cloned());
    let kept = keep(folder, &text, history);
    let error = match kept {
        Ok(()) => error,
        Err(unkept) => error.with(|error| format!("{error}; and nothing could be kept: {unkept}")),
    };
    let summary = Box::new(summary);
    Undecided { error, summary }
}

/// Performs all rounds, once clients are at work. Returns the number of completed rounds.
async fn rounds(
    ground: &mut Ground<'_>,
    clients: &Clients,
    options: &Options,
) -> Result<u32, Error> {
    clients.at_work().await?;
    ground.plant()?;
    let mut patience = PATIENCE;
    for _ in 0..options.rounds {
        ground.load().await;
        clients.commit(patience).await?;
        ground.strike().await?;
        patience = options.patience;
    }
    ground.load().await;
    clients.commit(patience).await?;
    Ok(options.rounds)
}

/// The clients of one run.
struct Clients {
    running: Arc<AtomicBool>,
    /// Commits of transactions that wrote: a server that commits nothing can still serve
    /// reads.
    written: Arc<AtomicU64>,
    stop: Stop,
    driving: env::JoinHandle<Result<Outcome, Failure>>,
}

impl Clients {
    fn begin<W: Workload>(workload: &Arc<W>, database: &Database, options: &Options) -> Self {
        let (workload, database) = (Arc::clone(workload), database.clone());
        let running = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicU64::new(0));
        let stop = Stop::default();
        let driven = driver::Options {
            clients: options.clients,
            isolation: options.level,
            // Until the harness stops the clients.
            length: Length::Time(Duration::MAX),
            seed: options.seed,
            check: false,
            record: true,
            operation_timeout: Some(options.operation_timeout),
            stop: stop.clone(),
            ..driver::Options::default()
        };
        let (at_work, so_far) = (Arc::clone(&running), Arc::clone(&written));
        let driving = env::spawn("dock clients", async move {
            let mut look = |tick: &driver::Tick| {
                if tick.phase == "running" {
                    so_far.store(tick.written, Ordering::Relaxed);
                    at_work.store(true, Ordering::Release);
                }
            };
            driver::run(&workload, &database, &driven, &mut look).await
        });
        Self {
            running,
            written,
            stop,
            driving,
        }
    }

    async fn at_work(&self) -> Result<(), Error> {
        let waiting = async {
            while !self.running.load(Ordering::Acquire) && !self.driving.is_finished() {
                env::sleep(Duration::from_millis(2)).await;
            }
            Ok(())
        };
        within("loading the tables", waiting).await
    }

    /// Waits until clients have committed writes.
    async fn commit(&self, patience: Duration) -> Result<(), Error> {
        let wanted = self.written.load(Ordering::Relaxed) + WORK;
        let waiting = async {
            while self.written.load(Ordering::Relaxed) < wanted && !self.driving.is_finished() {
                env::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        let done = env::timeout(patience, waiting).await;
        done.unwrap_or(Err(Error::Endless("committing anything", patience)))
    }

    async fn end(self) -> Result<(Outcome, History), Error> {
        self.stop.stop();
        let ended = async {
            match self.driving.await {
                Ok(driven) => Ok(driven?),
                Err(error) => Err(Error::Undone(format!("a client ended: {error}"))),
            }
        };
        let mut outcome = within("the clients' last transaction", ended).await?;
        let history = outcome.history.take().unwrap_or_default();
        Ok((outcome, history))
    }
}

async fn look<W: Workload>(
    workload: &W,
    database: &Database,
    outcome: &Outcome,
    history: Option<&mut History>,
) -> Result<Vec<String>, Error> {
    let looking = async {
        let looked = driver::look(workload, database, outcome.origin, history).await;
        match looked {
            Ok(found) => Ok(found),
            // The data that was read violates the workload's own check.
            Err(Failure::Wrong(what)) => Ok(vec![what]),
            Err(failure) => Err(failure.into()),
        }
    };
    within("the last look", looking).await
}

async fn within<T>(
    what: &'static str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let done = env::timeout(PATIENCE, work).await;
    done.unwrap_or(Err(Error::Endless(what, PATIENCE)))
}

/// Writes the violations, and the history if there is one.
fn keep(folder: &Path, objections: &[String], history: Option<&History>) -> Result<(), Error> {
    std::fs::write(folder.join("objections"), objections.join("\n\n") + "\n")?;
    let Some(history) = history else {
        return Ok(());
    };
    let mut file = BufWriter::new(File::create(folder.join("history.jsonl"))?);
    history::write(history, Format::JsonLines, &mut file)?;
    Ok(file.flush()?)
}
