//! Kill, restart, compare: does a server keep what it promised?
//!
//! ```text
//! start ─ ready ─ look, judge ─ load by clients ──┬── SIGKILL ─┐
//!   ▲                                             │ at a random│ moment
//!   └─────── the same directory, again ───────────┴────────────┘
//! ```
//!
//! In each round several clients move money between accounts ([`client`]), each
//! remembering what it was told, until the server is killed under them. After the
//! restart everything is read in one snapshot ([`look`]) and handed to the ledger
//! judge (`coeval_check::ledger`). Some rounds kill the server a second time while it
//! is recovering. At the end it is stopped politely, and looked at once more.
//!
//! A kill takes the process and leaves the operating system: what was written but
//! not synced survives it. Loss of power is tried where the disk is simulated, in
//! the log's own tests.

pub mod client;
pub(crate) mod look;
mod report;

use std::io::{self, Write};
use std::time::Duration;

use coeval_check::ledger::{Invention, Ledger, TransferId, Verdict};
use coeval_env as env;

pub use report::Summary;

use crate::Connection;
use crate::chance::Chance;
use crate::server::{self, Launch};

/// What to do, and how much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often the server is killed.
    pub rounds: u32,
    /// How many clients load it at a time.
    pub clients: u32,
    /// Decides the load and the moments of the kills. Threads and the disk decide
    /// the rest, so a seed repeats the attempt and not the outcome.
    pub seed: u64,
    /// How many accounts there are. Few make conflicts.
    pub accounts: u32,
    /// The longest time under load before a kill.
    pub load_at_most: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 200,
            clients: 8,
            seed: 1,
            accounts: 64,
            load_at_most: Duration::from_secs(1),
        }
    }
}

/// The balance every account opens with.
const OPENING: i64 = 1_000_000;

/// One in so many restarts is killed again before it answers.
const KILL_RECOVERY_ONCE_IN: u64 = 8;

/// Why no verdict was reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not start, answer or stop as it must.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// A statement failed while nothing was being killed.
    #[error("{doing}: {}", describe(source))]
    Statement {
        /// What the statement was for.
        doing: &'static str,
        /// What the server said.
        source: tokio_postgres::Error,
    },
    /// The server shows something that is wrong by itself.
    #[error("{0}")]
    Inconsistent(String),
    /// The machine refuses something that a test needs.
    #[error(transparent)]
    Io(io::Error),
    /// So few transfers went through that the run has shown nothing.
    #[error("only {acknowledged} transfers were acknowledged in {rounds} rounds")]
    Idle {
        /// How many went through.
        acknowledged: usize,
        /// In how many rounds.
        rounds: u32,
    },
    /// The progress could not be written.
    #[error(transparent)]
    Progress(#[from] io::Error),
}

/// The server's own words, where there are any.
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} {}", said.code().code(), said.message()),
        None => error.to_string(),
    }
}

/// Runs all rounds on the directory of `launch`, which is to be empty, and tells
/// `progress` of each. Ends early when a verdict is not clean.
pub async fn run(
    launch: &Launch,
    options: &Options,
    progress: &mut (dyn Write + Send),
) -> Result<Summary, Error> {
    let mut run = Run {
        launch,
        options,
        ledger: Ledger::new(options.accounts, OPENING),
        chance: Chance::new(options.seed),
        next_sequence: 1,
        summary: Summary::default(),
    };
    for round in 1..=options.rounds {
        let verdict = run.round(round).await?;
        writeln!(progress, "{}", run.summary.line(round, options.rounds))?;
        if !verdict.is_clean() {
            run.summary.finish(verdict);
            return Ok(run.summary);
        }
    }
    let verdict = run.last_looks().await?;
    run.summary.finish(verdict);
    let acknowledged = run.summary.acknowledged;
    if run.summary.is_clean() && acknowledged < options.rounds as usize {
        return Err(Error::Idle {
            acknowledged,
            rounds: options.rounds,
        });
    }
    Ok(run.summary)
}

struct Run<'run> {
    launch: &'run Launch,
    options: &'run Options,
    ledger: Ledger,
    chance: Chance,
    /// The first number that no client has used yet.
    next_sequence: u64,
    summary: Summary,
}

impl Run<'_> {
    /// Start, look, load, kill. The verdict is on the rounds before.
    async fn round(&mut self, round: u32) -> Result<Verdict, Error> {
        let (server, connection) = self.start(round).await?;
        if round == 1 {
            look::create(
                &connection,
                self.options.accounts,
                OPENING,
                self.options.clients,
            )
            .await?;
        }
        let verdict = self.look(&connection).await?;
        drop(connection);
        if !verdict.is_clean() {
            return Ok(verdict);
        }
        let port = server.port();
        let clients: Vec<_> = (0..self.options.clients)
            .map(|client| {
                let plan = client::Plan {
                    client,
                    clients: self.options.clients,
                    accounts: self.options.accounts,
                    first_sequence: self.next_sequence,
                    seed: self.chance.next(),
                    level: None,
                };
                env::spawn("crash client", client::run(port, plan))
            })
            .collect();
        let longest = u64::try_from(self.options.load_at_most.as_micros()).unwrap_or(u64::MAX);
        let load = Duration::from_micros(self.chance.within(1..longest.max(2)));
        env::sleep(load).await;
        server.kill()?;
        let mut told = Vec::new();
        for client in clients {
            match client.await {
                Ok(history) => told.push(history?),
                Err(error) => {
                    return Err(Error::Inconsistent(format!("a client ended: {error:?}")));
                }
            }
        }
        let invented = self.record(told);
        self.summary.loaded(load, &self.ledger);
        self.summary.kept(self.launch.checkpoint_files()?);
        if invented.is_empty() {
            Ok(verdict)
        } else {
            Ok(Verdict {
                invented,
                ..Verdict::default()
            })
        }
    }

    /// Starts the server, now and then killing it before it answers.
    async fn start(&mut self, round: u32) -> Result<(server::Server, Connection), Error> {
        if round > 1 && self.chance.once_in(KILL_RECOVERY_ONCE_IN) {
            let recovering = self.launch.start()?;
            env::sleep(Duration::from_micros(self.chance.within(0..50_000))).await;
            recovering.kill()?;
            self.summary.killed_recovering += 1;
        }
        let started = env::now();
        let mut server = self.launch.start()?;
        let connection = server.ready().await?;
        self.summary.started(started.elapsed());
        Ok((server, connection))
    }

    async fn look(&mut self, connection: &Connection) -> Result<Verdict, Error> {
        let shown = look::everything(connection).await?;
        let verdict = self.ledger.judge(&shown);
        self.summary.judged(&verdict);
        Ok(verdict)
    }

    /// Hands what clients were told to the judge; gives back what they were shown and
    /// nobody had sent.
    fn record(&mut self, histories: Vec<client::History>) -> Vec<Invention> {
        for history in &histories {
            for (id, transfer, told) in &history.transfers {
                self.ledger.record(*id, *transfer, *told);
                self.next_sequence = self.next_sequence.max(id.sequence.0 + 1);
                self.summary.told(*told);
            }
        }
        let seen: Vec<TransferId> = histories
            .iter()
            .flat_map(|history| history.seen.iter().copied())
            .collect();
        self.summary.seen += seen.len();
        seen.into_iter()
            .filter(|id| !self.ledger.saw(*id))
            .map(Invention::NeverSent)
            .collect()
    }

    /// After the last kill: look, stop politely, start, look.
    async fn last_looks(&mut self) -> Result<Verdict, Error> {
        let (server, connection) = self.start(self.options.rounds).await?;
        let verdict = self.look(&connection).await?;
        drop(connection);
        if !verdict.is_clean() {
            return Ok(verdict);
        }
        server.stop().await?;
        let mut server = self.launch.start()?;
        let connection = server.ready().await?;
        self.look(&connection).await
    }
}
