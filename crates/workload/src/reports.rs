//! A soak test of long reads on a follower: reports of a minute in one snapshot, one after the
//! other, beside writers and definitions.
//!
//! ```text
//!   leader     transfers, 95 reads to 5 ………………………………………………………………………………………
//!              CREATE INDEX, ADD COLUMN, DROP …, TRUNCATE ……………………………………………
//!   follower   └─ report, one snapshot ─┘ settle ▲ └─ report ─┘ settle ▲ …
//!                                                └─ resident memory ───┘
//! ```
//!
//! Transfers keep the sum of all accounts at zero, so every pass of a report over the table
//! has to find zero, and all accounts. A report may neither fail nor be executed by the leader.
//! After it the versions that were kept for it have to go: the follower's resident memory is
//! compared with what it was before.
//!
//! A report needs at most one more version of each row, and an allocator keeps memory that it
//! once needed. So every account is changed, several times, while a first report runs that does
//! not count; what the follower occupies after that is the baseline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coeval_env as env;
use tokio_postgres::Error;

use crate::chance::Chance;
use crate::{Connection, connect};

/// Rows that a report reads with one statement.
const PORTION: i64 = 10_000;
/// Pause between two definitions.
const BETWEEN: Duration = Duration::from_millis(300);
/// Of how many rounds of definitions one rewrites all accounts.
const ROUNDS_A_REWRITE: u32 = 20;
/// Interval at which a flag is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Parameters of the load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The port of each node.
    pub ports: Vec<u16>,
    /// Number of accounts.
    pub accounts: i64,
    /// Number of clients that read and transfer, over all nodes.
    pub clients: usize,
    /// Seed of the random number generator.
    pub seed: u64,
}

/// What the load has done so far.
#[derive(Debug, Default)]
pub struct Done {
    /// Reads of an account.
    pub reads: AtomicU64,
    /// Transfers that were acknowledged.
    pub transfers: AtomicU64,
    /// Definitions that were acknowledged.
    pub definitions: AtomicU64,
    /// Statements that failed.
    pub failures: AtomicU64,
    over: AtomicBool,
    /// Whether definitions are to rest, and whether they do.
    rest: AtomicBool,
    rests: AtomicBool,
}

impl Done {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// The load at work.
#[derive(Debug)]
pub struct Running {
    /// What it has done so far.
    pub done: Arc<Done>,
    tasks: Vec<env::JoinHandle<Result<(), Error>>>,
}

impl Running {
    /// Has definitions rest, after a whole round, which leaves no index and no table behind; or
    /// lets them go on.
    pub async fn rest(&self, rest: bool) {
        self.done.rest.store(rest, Ordering::Relaxed);
        let is_over = || self.tasks.iter().all(env::JoinHandle::is_finished);
        while self.done.rests.load(Ordering::Relaxed) != rest && !is_over() {
            env::sleep(LOOK).await;
        }
    }

    /// Ends the load.
    ///
    /// # Errors
    /// If a client could not go on.
    pub async fn end(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.done.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await??;
        }
        Ok(())
    }
}

/// What a report has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundRows {
    /// Every pass found all accounts, and zero; that many passes.
    Sound(u64),
    /// A pass found another sum, or another number of accounts.
    Wrong {
        /// The sum.
        sum: i64,
        /// The number of accounts.
        count: i64,
    },
}

impl Load {
    /// Creates the tables and the accounts.
    ///
    /// # Errors
    /// Those of the statements.
    pub async fn fill(&self) -> Result<(), Error> {
        let connection = connect(self.ports[0]).await?;
        connection
            .batch_execute(
                "CREATE TABLE accounts (id int8 PRIMARY KEY, n int8 NOT NULL, filler text);
                 CREATE TABLE side (id int8 PRIMARY KEY, n int8)",
            )
            .await?;
        for first in (1..=self.accounts).step_by(20_000) {
            let last = self.accounts.min(first + 19_999);
            let fill = format!(
                "INSERT INTO accounts SELECT id, 0, repeat('x', 100) \
                 FROM generate_series({first}, {last}) AS g (id)"
            );
            connection.batch_execute(&fill).await?;
        }
        Ok(())
    }

    /// Changes every account, a portion at a time.
    ///
    /// # Errors
    /// Those of the statements.
    pub async fn change_all(&self) -> Result<(), Error> {
        let connection = connect(self.ports[0]).await?;
        for from in (1..=self.accounts).step_by(PORTION as usize) {
            let change = format!(
                "UPDATE accounts SET filler = repeat('y', 100) WHERE id >= {from} AND id < {}",
                from + PORTION
            );
            connection.batch_execute(&change).await?;
        }
        Ok(())
    }

    /// Starts the clients, and the one that changes definitions.
    #[must_use]
    pub fn start(&self) -> Running {
        let done = Arc::new(Done::default());
        let mut tasks = Vec::new();
        for client in 0..self.clients {
            let (load, done) = (self.clone(), Arc::clone(&done));
            tasks.push(env::spawn("client", async move {
                load.work(client, &done).await
            }));
        }
        let (load, its) = (self.clone(), Arc::clone(&done));
        tasks.push(env::spawn(
            "definitions",
            async move { load.define(&its).await },
        ));
        Running { done, tasks }
    }

    async fn work(&self, client: usize, done: &Done) -> Result<(), Error> {
        let connection = connect(self.ports[client % self.ports.len()]).await?;
        let read = connection
            .prepare("SELECT n FROM accounts WHERE id = $1")
            .await?;
        let mut chance = Chance::of(self.seed, client as u64);
        let accounts = self.accounts.unsigned_abs();
        while !done.is_over() {
            let one = 1 + chance.within(0..accounts);
            if chance.within(0..100) < 95 {
                let id = i64::try_from(one).unwrap_or(1);
                match connection.query_one(&read, &[&id]).await {
                    Ok(_) => done.reads.fetch_add(1, Ordering::Relaxed),
                    Err(error) if connection.is_closed() => return Err(error),
                    Err(_) => done.failures.fetch_add(1, Ordering::Relaxed),
                };
                continue;
            }
            let other = 1 + chance.within(0..accounts);
            // In the order of their keys, so that no two transfers wait for each other.
            let (first, second) = (one.min(other), one.max(other));
            if first == second {
                continue;
            }
            let transfer = format!(
                "UPDATE accounts SET n = n - 1 WHERE id = {first};
                 UPDATE accounts SET n = n + 1 WHERE id = {second}"
            );
            match connection.batch_execute(&transfer).await {
                Ok(()) => done.transfers.fetch_add(1, Ordering::Relaxed),
                Err(error) if connection.is_closed() => return Err(error),
                Err(_) => done.failures.fetch_add(1, Ordering::Relaxed),
            };
        }
        Ok(())
    }

    /// Changes definitions, of the accounts as of other tables.
    async fn define(&self, done: &Done) -> Result<(), Error> {
        const ROUND: [&str; 9] = [
            "CREATE INDEX accounts_n ON accounts (n)",
            "CREATE TABLE passing (id int8 PRIMARY KEY)",
            "INSERT INTO passing SELECT id FROM generate_series(1, 1000) AS g (id)",
            "INSERT INTO side SELECT id, id FROM generate_series(1, 1000) AS g (id)",
            "DROP INDEX accounts_n",
            "ALTER TABLE side ADD COLUMN late text",
            "TRUNCATE side",
            "ALTER TABLE side DROP COLUMN late",
            "DROP TABLE passing",
        ];
        // Rewrites all accounts. A row keeps two bytes for each column that was ever dropped, so
        // it is not done in every round: an hour of that would say nothing about old versions.
        const REWRITE: [&str; 2] = [
            "ALTER TABLE accounts ADD COLUMN late int8 DEFAULT 7",
            "ALTER TABLE accounts DROP COLUMN late",
        ];
        let connection = connect(self.ports[0]).await?;
        // Whole rounds: a table is made before it is dropped.
        let mut round = 0;
        while !done.is_over() {
            if done.rest.load(Ordering::Relaxed) {
                done.rests.store(true, Ordering::Relaxed);
                env::sleep(LOOK).await;
                continue;
            }
            done.rests.store(false, Ordering::Relaxed);
            let rewrite = REWRITE.iter().filter(|_| round % ROUNDS_A_REWRITE == 0);
            for statement in ROUND.iter().chain(rewrite) {
                match connection.batch_execute(statement).await {
                    Ok(()) => done.definitions.fetch_add(1, Ordering::Relaxed),
                    Err(error) if connection.is_closed() => return Err(error),
                    Err(error) => {
                        eprintln!("{statement}: {error}");
                        done.failures.fetch_add(1, Ordering::Relaxed)
                    }
                };
                env::sleep(BETWEEN).await;
            }
            round += 1;
        }
        Ok(())
    }

    /// One report: reads all accounts again and again in one snapshot for this long.
    ///
    /// # Errors
    /// Those of its statements: the report was ended before its time.
    pub async fn report(
        &self,
        connection: &Connection,
        lasting: Duration,
    ) -> Result<FoundRows, Error> {
        let began = env::now();
        connection
            .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .await?;
        let portion = connection
            .prepare("SELECT sum(n)::bigint, count(*) FROM accounts WHERE id >= $1 AND id < $2")
            .await?;
        let mut passes = 0;
        while passes == 0 || began.elapsed() < lasting {
            let (mut sum, mut count) = (0, 0);
            for from in (1..=self.accounts).step_by(PORTION as usize) {
                let row = connection
                    .query_one(&portion, &[&from, &(from + PORTION)])
                    .await?;
                sum += row.try_get::<_, Option<i64>>(0)?.unwrap_or(0);
                count += row.try_get::<_, i64>(1)?;
                // A report is no load of its own: it is one for a minute.
                env::sleep(Duration::from_millis(5)).await;
            }
            if (sum, count) != (0, self.accounts) {
                return Ok(FoundRows::Wrong { sum, count });
            }
            passes += 1;
        }
        connection.batch_execute("COMMIT").await?;
        Ok(FoundRows::Sound(passes))
    }

    /// As [`Load::report`], by one SELECT that makes this many passes.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn select(&self, connection: &Connection, passes: u64) -> Result<FoundRows, Error> {
        let select = format!(
            "SELECT sum(a.n)::bigint, count(*) FROM accounts AS a, \
             generate_series(1, {passes}) AS g (pass)"
        );
        let row = connection.query_one(&select, &[]).await?;
        let (sum, count): (Option<i64>, i64) = (row.try_get(0)?, row.try_get(1)?);
        let sum = sum.unwrap_or(0);
        let all = self
            .accounts
            .checked_mul(i64::try_from(passes).unwrap_or(i64::MAX));
        Ok(match sum == 0 && Some(count) == all {
            true => FoundRows::Sound(passes),
            false => FoundRows::Wrong { sum, count },
        })
    }
}
