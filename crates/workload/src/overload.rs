//! An overload test: runs more clients than a server can serve, to see whether it slows
//! down or collapses.
//!
//! ```text
//!   clients     1  2  4  8 …   until more of them get no more done: saturation, s
//!   then        s   2 s   4 s  each for some seconds
//! ```
//!
//! Each client transfers money between two accounts in a transaction of its own, in five
//! round trips, as an application would, and starts again at once. After a conflict
//! (40001, 40P01) the client retries, and the retry counts as the same transfer. The
//! report has the number of transfers committed per second, their latency including
//! retries, and the number that failed in any other way, which must be 0.
//!
//! A server that handles overload does as much work at 4 s as at s, and each client waits
//! four times as long. A server that collapses does less work the more clients it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_env as env;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::chance::Chance;
use crate::{Connection, connect};

/// Parameters of the overload test.
#[derive(Clone, Debug)]
pub struct Load {
    /// TCP port of the server, on loopback.
    pub port: u16,
    /// Number of accounts.
    pub accounts: i32,
    /// Isolation level of the transfers, as SQL names it.
    pub isolation: String,
    /// Duration for which each step is measured.
    pub duration: Duration,
    /// Seed of the random number generator.
    pub seed: u64,
}

/// Result of one step of the test.
#[derive(Clone, Debug)]
pub struct LoadLevel {
    /// Number of concurrent clients.
    pub clients: usize,
    /// Transfers committed per second.
    pub throughput: f64,
    /// Number of times a client retried a transfer.
    pub retries: u64,
    /// Number of transfers that failed for good.
    pub failures: u64,
    /// Error message of the first failure.
    pub failure: Option<String>,
    /// Median latency of a transfer.
    pub median: Duration,
    /// 99th percentile of the latency of a transfer.
    pub percentile_99: Duration,
}

#[derive(Debug, Default)]
struct Outcome {
    took: Vec<Duration>,
    retries: u64,
    failures: u64,
    failure: Option<String>,
}

impl Load {
    /// Creates and fills the table.
    pub async fn set_up(&self) -> Result<(), Error> {
        let connection = connect(self.port).await?;
        connection
            .batch_execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)")
            .await?;
        let fill = format!(
            "INSERT INTO account SELECT id, 1000 FROM generate_series(1, {}) AS g (id)",
            self.accounts
        );
        connection.batch_execute(&fill).await
    }

    /// The sum of all balances, which transfers leave unchanged.
    pub async fn total(&self) -> Result<i64, Error> {
        let connection = connect(self.port).await?;
        let row = connection
            .query_one("SELECT sum(balance)::bigint FROM account", &[])
            .await?;
        row.try_get(0)
    }

    /// The sum of all balances that the accounts were opened with.
    #[must_use]
    pub fn expected_total(&self) -> i64 {
        i64::from(self.accounts) * 1000
    }

    /// Runs `clients` clients at once for the duration of a step.
    pub async fn step(&self, clients: usize) -> Result<LoadLevel, Error> {
        let mut connections = Vec::new();
        for _ in 0..clients {
            connections.push(connect(self.port).await?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let began = env::now();
        let mut running = Vec::new();
        for (number, connection) in connections.into_iter().enumerate() {
            let (load, stop) = (self.clone(), Arc::clone(&stop));
            running.push(env::spawn("client", async move {
                load.client(number as u64, &connection, &stop).await
            }));
        }
        env::sleep(self.duration).await;
        stop.store(true, Ordering::Relaxed);
        let seconds = began.elapsed().as_secs_f64();
        let mut all = Outcome::default();
        for client in running {
            match client.await {
                Ok(Ok(outcome)) => {
                    all.took.extend(outcome.took);
                    all.retries += outcome.retries;
                    all.failures += outcome.failures;
                    all.failure = all.failure.or(outcome.failure);
                }
                Ok(Err(error)) => return Err(error),
                Err(error) => {
                    all.failures += 1;
                    all.failure = Some(error.to_string());
                }
            }
        }
        all.took.sort_unstable();
        let at = |share: f64| {
            let last = all.took.len().saturating_sub(1);
            let position = (last as f64 * share) as usize;
            all.took.get(position).copied().unwrap_or_default()
        };
        Ok(LoadLevel {
            clients,
            throughput: all.took.len() as f64 / seconds,
            retries: all.retries,
            failures: all.failures,
            median: at(0.5),
            percentile_99: at(0.99),
            failure: all.failure,
        })
    }

    fn account(&self, chance: &mut Chance) -> i32 {
        let number = chance.within(0..u64::from(self.accounts.unsigned_abs()));
        i32::try_from(number).unwrap_or(0) + 1
    }

    async fn client(
        &self,
        number: u64,
        connection: &Connection,
        stop: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let mut chance = Chance::new(self.seed.wrapping_add(number));
        let begin = connection
            .prepare(&format!("BEGIN ISOLATION LEVEL {}", self.isolation))
            .await?;
        let look = connection
            .prepare("SELECT balance FROM account WHERE id = $1")
            .await?;
        let change = connection
            .prepare("UPDATE account SET balance = balance + $2 WHERE id = $1")
            .await?;
        let commit = connection.prepare("COMMIT").await?;
        let rollback = connection.prepare("ROLLBACK").await?;
        let mut outcome = Outcome::default();
        while !stop.load(Ordering::Relaxed) {
            let from = self.account(&mut chance);
            let to = self.account(&mut chance);
            let amount = chance.within(0..100).cast_signed();
            let began = env::now();
            loop {
                let transfer = async {
                    connection.execute(&begin, &[]).await?;
                    connection.query_one(&look, &[&from]).await?;
                    connection.execute(&change, &[&from, &-amount]).await?;
                    connection.execute(&change, &[&to, &amount]).await?;
                    connection.execute(&commit, &[]).await
                };
                let Err(error) = transfer.await else {
                    outcome.took.push(began.elapsed());
                    break;
                };
                connection.execute(&rollback, &[]).await?;
                if is_retryable(&error) {
                    outcome.retries += 1;
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                } else {
                    outcome.failures += 1;
                    outcome.failure.get_or_insert_with(|| error.to_string());
                    break;
                }
            }
        }
        Ok(outcome)
    }
}

fn is_retryable(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED)
    )
}
