//! The crash test: kills a server under load, restarts it, and checks that every
//! acknowledged transaction survived.
//!
//! ```text
//! start ─ ready ─ look, judge ─ load by clients ──┬── SIGKILL ─┐
//!   ▲                                             │ at a random│ moment
//!   └─────── the same directory, again ───────────┴────────────┘
//! ```
//!
//! In each round several clients move money between accounts ([`client`]), each recording
//! the acknowledgements it received, until the server is killed. After the restart all
//! tables are read in one snapshot ([`look`]) and passed to the ledger judge
//! (`coeval_check::ledger`). Some rounds kill the server a second time during recovery.
//! At the end the server is shut down cleanly, and its tables are checked once more.
//!
//! A kill ends the process but not the operating system: data written but not synced
//! survives it. Loss of power is tested where the disk is simulated, in the log's own
//! tests.

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

/// Parameters of the crash test.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often the server is killed.
    pub rounds: u32,
    /// Number of concurrent clients.
    pub clients: u32,
    /// Seed that decides the load and the moments of the kills. Threads and the disk
    /// decide the rest, so a seed repeats the attempt but not the outcome.
    pub seed: u64,
    /// Number of accounts. Few accounts cause conflicts.
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

/// The opening balance of every account.
const OPENING: i64 = 1_000_000;

/// One in this many restarts is killed again before it answers.
const KILL_RECOVERY_ONCE_IN: u64 = 8;

/// Reason why no verdict was reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not start, answer or stop as it must.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// A statement failed while no kill was in progress.
    #[error("{doing}: {}", describe(source))]
    Statement {
        /// Purpose of the statement.
        doing: &'static str,
        /// The client library's error.
        source: tokio_postgres::Error,
    },
    /// The server returned data that contradicts itself.
    #[error("{0}")]
    Inconsistent(String),
    /// The machine refuses an operation that the test needs.
    #[error(transparent)]
    Io(io::Error),
    /// Too few transfers were acknowledged for the run to show anything.
    #[error("only {acknowledged} transfers were acknowledged in {rounds} rounds")]
    Idle {
        /// Number of acknowledged transfers.
        acknowledged: usize,
        /// Number of rounds.
        rounds: u32,
    },
    /// The progress could not be written.
    #[error(transparent)]
    Progress(#[from] io::Error),
}

/// The server's own error message, if there is one.
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} {}", said.code().code(), said.message()),
        None => error.to_string(),
    }
}

/// Runs all rounds on the directory of `launch`, which must be empty, and writes a line
/// for each to `progress`. Ends early if a verdict is not clean.
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
    /// The first sequence number that no client has used yet.
    next_sequence: u64,
    summary: Summary,
}

impl Run<'_> {
    /// One round: start the server, check its tables, load it, kill it. The verdict is on
    /// the rounds before.
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

    /// Starts the server; in some rounds kills it once before it answers.
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

    /// Passes the clients' outcomes to the judge; returns the transfers that clients read
    /// although no client had sent them.
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

    /// After the last kill: checks the tables, shuts down cleanly, restarts, and checks
    /// again.
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
