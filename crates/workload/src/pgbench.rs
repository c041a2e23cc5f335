//! A runner for PostgreSQL's own `pgbench`, unmodified, which checks afterwards that the
//! balances add up.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use coeval_check::balance::{self, Moved, Script};

use crate::{Connection, connect};

/// Reason why a run of `pgbench` failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started.
    #[error("cannot start pgbench: {0}")]
    Start(#[from] std::io::Error),
    /// `pgbench` exited with an error.
    #[error("pgbench {arguments:?} failed:\n{output}")]
    Failed {
        /// Its command-line arguments.
        arguments: Vec<String>,
        /// Its output.
        output: String,
    },
    /// `pgbench` succeeded, but some of its transactions failed; holds its output.
    #[error("pgbench counts failed transactions, or none at all:\n{0}")]
    FailedTransactions(String),
    /// The sums of the balances could not be read.
    #[error("cannot read the balances: {0}")]
    Wire(#[from] tokio_postgres::Error),
    /// The sums of the balances do not add up.
    #[error(transparent)]
    Torn(#[from] balance::Torn),
}

/// A `pgbench` that runs against the server on a loopback port.
#[derive(Clone, Debug)]
pub struct Pgbench {
    program: PathBuf,
    port: u16,
}

impl Pgbench {
    /// The `pgbench` on the search path; `None` if this machine has none.
    #[must_use]
    pub fn find(port: u16) -> Option<Self> {
        let program = PathBuf::from("pgbench");
        let answers = Command::new(&program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        answers
            .is_ok_and(|status| status.success())
            .then_some(Self { program, port })
    }

    /// Creates and fills the tables: 100,000 accounts for each unit of `scale`. Blocks
    /// the thread.
    pub fn initialize(&self, scale: u32) -> Result<(), Error> {
        self.call(&["-i", "-q", "-s", &scale.to_string()]).map(drop)
    }

    /// Runs `pgbench` with these arguments (one of its built-in scripts, and not `-n`, so
    /// that it empties its history first), and compares the balances with its history.
    /// Returns the output of `pgbench`. Blocks the thread while it runs.
    pub async fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        let connection = connect(self.port).await?;
        let before = sums(&connection).await?;
        let printed = self.call(arguments)?;
        let counts_none = printed.contains("number of failed transactions: 0 ");
        let ran_some = !printed.contains("number of transactions actually processed: 0");
        if !(counts_none && ran_some) {
            return Err(Error::FailedTransactions(printed));
        }
        let after = sums(&connection).await?;
        let script = if arguments.contains(&"-S") {
            Script::SelectOnly
        } else if arguments.contains(&"-N") {
            Script::SimpleUpdate
        } else {
            Script::TpcB
        };
        let moved = Moved {
            accounts: after.accounts - before.accounts,
            tellers: after.tellers - before.tellers,
            branches: after.branches - before.branches,
            // pgbench emptied the history table at the start of the run.
            history: after.history,
        };
        balance::judge(moved, script)?;
        Ok(printed)
    }

    fn call(&self, arguments: &[&str]) -> Result<String, Error> {
        let output = command(&self.program, self.port).args(arguments).output()?;
        let printed = both(&output);
        if output.status.success() {
            Ok(printed)
        } else {
            Err(Error::Failed {
                arguments: arguments.iter().map(ToString::to_string).collect(),
                output: printed,
            })
        }
    }
}

fn command(program: &Path, port: u16) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", port.to_string())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", "postgres");
    command
}

fn both(output: &Output) -> String {
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    printed.push_str(&String::from_utf8_lossy(&output.stderr));
    printed
}

/// Reads the current sums of the balances.
async fn sums(connection: &Connection) -> Result<Moved, Error> {
    Ok(Moved {
        accounts: sum(connection, "abalance", "pgbench_accounts").await?,
        tellers: sum(connection, "tbalance", "pgbench_tellers").await?,
        branches: sum(connection, "bbalance", "pgbench_branches").await?,
        history: sum(connection, "delta", "pgbench_history").await?,
    })
}

async fn sum(connection: &Connection, column: &str, table: &str) -> Result<i64, Error> {
    let query = format!("SELECT sum({column}) FROM {table}");
    let row = connection.query_one(&query, &[]).await?;
    Ok(row.try_get::<_, Option<i64>>(0)?.unwrap_or(0))
}
