//! A server process in the dock: clients at work, faults, and what the judges say of what
//! clients were told.
//!
//! ```text
//! start ─ load │ clients at work ────────────────────────────────── │ last look │ judge
//!              │   fault ─ calm ─ fault ─ calm ─ …  (rounds)         │           │
//!              └─ the same directory all the time, whatever happens to the process ┘
//! ```
//!
//! A [`run`] is for one workload, one isolation level and one kind of fault. The clients
//! are those of the [driver](crate::driver): they outlive the server, take a new
//! connection when theirs is lost or silent for longer than they wait, and note every
//! outcome, unknown ones included. One history spans all rounds, so a commit that was
//! acknowledged before the first kill and is gone after the third is seen. It ends with a
//! look at everything. Then the server is stopped in order, started once more, and looked
//! at again.
//!
//! | workload | what judges |
//! | --- | --- |
//! | ledger | its own end: nothing lost, invented, torn; index and table agree |
//! | list-append, rw-register | isolation at the level, recency, sessions |
//! | bank | the same, each account being a register; the judge of totals, on every sum that was read |
//! | ycsb | the same, each field being a register; all fields read are checked |
//! | smallbank | its own end: the money is what was paid in |
//! | tpcc | its own end: the twelve conditions, and no acknowledged order or payment gone |
//!
//! With several [nodes](Options::nodes) a cluster is in the dock: clients connect to all of
//! them in turn, the fault is for whom [`Options::whom`] says, links are those between nodes,
//! and it is noted how long nobody could write after a node was gone.
//!
//! What each kind of fault must end in: the server answers again, and the judges are
//! content. One whose disk does not sync, and a follower whose disk is full, must have ended by
//! itself before that. And while
//! syncs are slow, no write in the history was acknowledged before one can have been over.
//!
//! Whether any of this would find something: [`planted`].
//!
//! A seed decides what clients ask for and when faults happen. Threads, the kernel and
//! the disk decide the rest: a seed repeats the attempt, not the outcome.
//!
//! Invariants:
//! - Nobody waits for ever: clients for an answer, the harness for clients or server.
//! - Between two faults clients get something written; a server that answers and commits
//!   nothing any more is found.
//! - What is objected to stays to be looked at: data directory, the server's words,
//!   history, objections. A run without a verdict leaves the same, since what clients were
//!   told until then is judged, too; it has no history where clients did not end.
#![expect(clippy::disallowed_methods, reason = "keeps real files")]

mod ground;
mod judge;
mod kind;
pub mod planted;

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
pub use kind::{Kind, LEVELS, Whom, level_name};

/// How long anything may take that nothing is wrong with: a machine may be slow, and
/// this is not there to measure it.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// So many transactions that write are to commit before a fault, and after it: a machine
/// that is slow takes its time for that.
const WORK: u64 = 20;
/// Accounts of the bank.
const ACCOUNTS: u32 = 8;

/// The workloads, by their names.
pub const WORKLOADS: [&str; 7] = [
    "ledger",
    "bank",
    "list-append",
    "rw-register",
    "ycsb",
    "smallbank",
    "tpcc",
];

/// What to do, and how much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// One of [`WORKLOADS`].
    pub workload: &'static str,
    /// The isolation level of every transaction.
    pub level: Isolation,
    /// What is done to the server.
    pub kind: Kind,
    /// How many nodes there are: a server alone, or a cluster.
    pub nodes: usize,
    /// Of a cluster, who is meant.
    pub whom: Whom,
    /// How often; 0 for a run in which nothing goes wrong.
    pub rounds: u32,
    /// How many clients there are.
    pub clients: usize,
    /// Decides what clients ask for, and when faults happen.
    pub seed: u64,
    /// The longest time under load before a fault, and after it.
    pub load_at_most: Duration,
    /// How long a client waits for an answer.
    pub operation_timeout: Duration,
    /// No network namespace even where there could be one.
    pub loopback: bool,
    /// Further settings of the server: little log in a file and before a checkpoint, so
    /// that faults meet both.
    pub settings: Vec<(&'static str, u64)>,
    /// Faults that are in force from when clients are at work until the first fault of
    /// the kind is over, as [`super::controls`] has them. With those that no server can
    /// withstand, the judges are put to the test.
    pub planted: Vec<&'static str>,
    /// A bug that the server has, which takes a binary that was built with the feature
    /// `planted`.
    pub bug: Option<Bug>,
    /// How long a server may take after a fault until clients commit again, or to end by
    /// itself where it must.
    pub patience: Duration,
    /// How long nobody may be able to write after a node of a cluster was taken away.
    pub outage_at_most: Option<Duration>,
}

impl Options {
    /// Short, of six clients who wait for two seconds.
    #[must_use]
    pub fn new(workload: &'static str, level: Isolation, kind: Kind) -> Self {
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
                // Where there is no room for a file of log, one is to be wanted soon.
                (
                    "log-segment-bytes",
                    match kind {
                        Kind::Full | Kind::Combined => 16_384,
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

    /// Another value for a setting of the server.
    pub fn set(&mut self, name: &'static str, value: u64) {
        self.settings.retain(|(other, _)| *other != name);
        self.settings.push((name, value));
    }

    /// What decides the moments of faults, and where they are drawn also which: there runs
    /// of one seed are to differ.
    fn chance(&self) -> Chance {
        let mut stream: u64 = 1 << 32;
        if self.kind == Kind::Combined {
            let names = [self.workload, level_name(self.level), self.whom.name()].concat();
            let number = |sum: u64, byte: u8| (sum * 31 + u64::from(byte)) % 1_000_003;
            stream += names.bytes().fold(0, number);
        }
        Chance::of(self.seed, stream)
    }

    /// What repeats the attempt.
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

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not start, answer or stop as it must.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// The machine refuses something that this needs.
    #[error(transparent)]
    Io(io::Error),
    /// Tables could not be made, or not be looked at, while nothing was wrong.
    #[error("{0}")]
    Load(#[from] Failure),
    /// The server does what it must not.
    #[error("{0}")]
    Wrong(String),
    /// The dock cannot do its own part.
    #[error("{0}")]
    Undone(String),
    /// Something has no end.
    #[error("{0} takes longer than {1:?}")]
    Endless(&'static str, Duration),
    /// So few transactions committed that the run has shown nothing.
    #[error("only {committed} transactions committed in {rounds} rounds")]
    Idle {
        /// How many.
        committed: u64,
        /// In how many rounds.
        rounds: u32,
    },
}

impl Error {
    /// Whether it is the server that is found wanting, and not what is around it.
    #[must_use]
    pub fn is_the_servers(&self) -> bool {
        match self {
            Self::Wrong(_) | Self::Endless(..) => true,
            Self::Server(error) => error.is_the_servers(),
            Self::Load(failure) => failure.is_the_servers(),
            Self::Io(_) | Self::Undone(_) | Self::Idle { .. } => false,
        }
    }

    /// The same, and more to be said.
    fn with(self, say: impl FnOnce(&Self) -> String) -> Self {
        let said = say(&self);
        match self.is_the_servers() {
            true => Self::Wrong(said),
            false => Self::Undone(said),
        }
    }
}

/// A run that did not come to its end, and what it had shown until then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Undecided {
    /// Why.
    #[source]
    pub error: Error,
    /// What is known all the same, objections among it.
    pub summary: Box<Summary>,
}

impl From<Error> for Undecided {
    fn from(error: Error) -> Self {
        let summary = Box::default();
        Self { error, summary }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Rounds done.
    pub rounds: u32,
    /// How often the server was killed.
    pub kills: u32,
    /// Transactions that committed, as their clients know.
    pub committed: u64,
    /// Attempts that were undone.
    pub aborted: u64,
    /// Of which nobody was told how they ended.
    pub unknown: u64,
    /// How the server was reached.
    pub reached: String,
    /// After each time that a node of a cluster was taken away: how long it took until the
    /// others wrote.
    pub outages: Vec<Duration>,
    /// What cannot be.
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

/// Does it all with a server of `binary` in `folder`, which is to be empty. What is
/// objected to is written there, beside the history.
///
/// # Errors
/// When the dock cannot do its part, or the server did not do what its fault asks for. What
/// clients were told until then is judged and written all the same.
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
    let database = Database::over_wire(ground.config(), workload.tables());
    let clients = Clients::begin(&workload, &database, options);
    let struck = rounds(&mut ground, &clients, options).await;
    // Whatever happened: clients end, and what they know is judged and kept.
    let calm = ground.calm();
    let ended = clients.end().await;
    let tally = ground.tally();
    let mut summary = Summary {
        kills: tally.kills,
        reached: tally.reached.clone(),
        outages: tally.outages.clone(),
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
    summary.objections.clone_from(&outcome.report.violations);
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

/// Of a run that ended early, everything that it has shown, which is kept.
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

/// All rounds, as soon as clients are at work. How many were done.
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
    /// Commits that are no mere reads: those a server can serve that commits nothing.
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
            // Until it is told to stop.
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

    /// Waits until they have got something written.
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
            // What is read is wrong in itself.
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

/// Writes what is objected to, and the history if there is one.
fn keep(folder: &Path, objections: &[String], history: Option<&History>) -> Result<(), Error> {
    std::fs::write(folder.join("objections"), objections.join("\n\n") + "\n")?;
    let Some(history) = history else {
        return Ok(());
    };
    let mut file = BufWriter::new(File::create(folder.join("history.jsonl"))?);
    history::write(history, Format::JsonLines, &mut file)?;
    Ok(file.flush()?)
}
