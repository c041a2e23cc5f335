//! A soak test: updates for a long time beside a long scan, to see whether the server's
//! memory use stays constant.
//!
//! ```text
//!   fill │ warm up, with a short scan │ updates ………………………………………………………………………………
//!                                     ▲         └── one scan, one snapshot ──┘      ▲
//!                                     │ baseline                          compare │
//! ```
//!
//! Clients update rows at random, all the time. The scan reads the whole table again and
//! again in one REPEATABLE READ transaction; every pass has to see the same rows, all of
//! which are overwritten for every newer snapshot after a while. During the scan the
//! server must keep one old version of each row for it, and no more: the garbage
//! collector has to reclaim the hundreds of versions in between.
//!
//! An allocator keeps memory that it once needed. A scan needs at most one more version
//! of each row, and the warm-up has a scan of its own until every row has that version;
//! so the baseline includes this memory already, and any increase over it is growth.
//!
//! Each sample compares the process's resident memory, as the kernel reports it, with the
//! memory that the server accounts for, by class.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coeval_env as env;
use tokio_postgres::Error;

use crate::chance::Chance;
use crate::{Connection, connect};

/// Parameters of the soak test.
#[derive(Clone, Debug)]
pub struct Load {
    /// TCP port of the server, on loopback.
    pub port: u16,
    /// Number of rows.
    pub rows: i32,
    /// Length of the text in each row, in bytes.
    pub width: usize,
    /// Number of clients that update the rows.
    pub clients: u64,
    /// Most updates per second, of all clients together; 0 for no limit.
    pub rate: u64,
    /// Seed of the random number generator.
    pub seed: u64,
}

/// The server's own memory accounting, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Bytes of each class of memory, in the server's order.
    pub classes: Vec<(String, u64)>,
}

impl Accounts {
    /// Sum of all classes, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.classes.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Difference between the sum of all classes and the resident memory, in per cent.
    #[must_use]
    pub fn disagreement(&self, resident: u64) -> f64 {
        (self.total() as f64 / resident as f64 - 1.0) * 1e2
    }

    /// Bytes of one class.
    #[must_use]
    pub fn of(&self, class: &str) -> u64 {
        let mut classes = self.classes.iter();
        let found = classes.find(|(name, _)| name == class);
        found.map_or(0, |(_, bytes)| *bytes)
    }
}

/// Reads the server's memory accounting.
pub async fn accounts(connection: &Connection) -> Result<Accounts, Error> {
    let rows = connection
        .query(
            "SELECT labels, value FROM coeval.metrics WHERE name = 'coeval_memory_bytes'",
            &[],
        )
        .await?;
    let mut accounts = Accounts::default();
    for row in rows {
        let labels: String = row.try_get(0)?;
        let bytes: f64 = row.try_get(1)?;
        let class = labels.split('"').nth(1).unwrap_or(&labels).to_owned();
        accounts.classes.push((class, bytes as u64));
    }
    Ok(accounts)
}

/// Clients that update rows until they are stopped.
pub struct Updates {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    clients: Vec<env::JoinHandle<Result<(), Error>>>,
}

impl Updates {
    /// Number of updates so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Stops the clients. Returns the number of updates, or the first error of any
    /// client.
    pub async fn stop(self) -> Result<u64, Error> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            if let Ok(ended) = client.await {
                ended?;
            }
        }
        Ok(self.count.load(Ordering::Relaxed))
    }
}

impl Load {
    /// Creates and fills the table.
    pub async fn set_up(&self, connection: &Connection) -> Result<(), Error> {
        connection
            .batch_execute(
                "CREATE TABLE soak (id int PRIMARY KEY, n bigint NOT NULL, filler text NOT NULL)",
            )
            .await?;
        /// Rows per INSERT statement.
        const PORTION: i32 = 10_000;
        for first in (1..=self.rows).step_by(PORTION as usize) {
            let last = self.rows.min(first.saturating_add(PORTION - 1));
            let fill = format!(
                "INSERT INTO soak SELECT id, 0, repeat('x', {}) \
                 FROM generate_series({first}, {last}) AS g (id)",
                self.width
            );
            connection.batch_execute(&fill).await?;
        }
        Ok(())
    }

    /// Number of updates according to the rows themselves.
    pub async fn updates(&self, connection: &Connection) -> Result<i64, Error> {
        let row = connection
            .query_one("SELECT sum(n)::bigint FROM soak", &[])
            .await?;
        row.try_get(0)
    }

    /// Starts the clients that update rows.
    #[must_use]
    pub fn start(&self) -> Updates {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let clients = (0..self.clients).map(|number| {
            let (load, stop, count) = (self.clone(), Arc::clone(&stop), Arc::clone(&count));
            env::spawn(
                "client",
                async move { load.update(number, &stop, &count).await },
            )
        });
        Updates {
            clients: clients.collect(),
            stop,
            count,
        }
    }

    async fn update(&self, number: u64, stop: &AtomicBool, count: &AtomicU64) -> Result<(), Error> {
        let connection = connect(self.port).await?;
        let update = connection
            .prepare("UPDATE soak SET n = n + 1, filler = $2 WHERE id = $1")
            .await?;
        let mut chance = Chance::of(self.seed, number);
        let letters = ["x", "y", "z"].map(|letter| letter.repeat(self.width));
        let between = match self.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(self.clients as f64 / rate as f64),
        };
        let mut next = env::now();
        while !stop.load(Ordering::Relaxed) {
            if !between.is_zero() {
                // A client does not make up for updates that were late: a pause of the
                // machine must not become a burst.
                next = (next + between).max(env::now());
                env::sleep_until(next).await;
            }
            let row = chance.within(0..u64::from(self.rows.unsigned_abs()));
            let id = i32::try_from(row).unwrap_or(0) + 1;
            let filler = &letters[usize::try_from(chance.within(0..3)).unwrap_or(0)];
            connection.execute(&update, &[&id, filler]).await?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads the table again and again in one snapshot, a portion at a time, until `done`
    /// returns true. Returns the number of passes; `None` if two passes differ.
    pub async fn scan(&self, done: impl Fn() -> bool) -> Result<Option<u64>, Error> {
        /// Rows per SELECT statement.
        const PORTION: i32 = 1_000;
        let connection = connect(self.port).await?;
        connection
            .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            .await?;
        let portion = connection
            .prepare("SELECT sum(n)::bigint, count(*) FROM soak WHERE id >= $1 AND id < $2")
            .await?;
        let (mut first, mut passes) = (None, 0);
        loop {
            let mut pass = (0, 0);
            for from in (1..=self.rows).step_by(PORTION as usize) {
                let to = from.saturating_add(PORTION);
                let row = connection.query_one(&portion, &[&from, &to]).await?;
                let (sum, count): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                pass = (pass.0 + sum, pass.1 + count);
                if done() && passes > 0 {
                    break;
                }
                env::sleep(Duration::from_millis(1)).await;
            }
            if done() && passes > 0 {
                connection.batch_execute("COMMIT").await?;
                return Ok(Some(passes));
            }
            if *first.get_or_insert(pass) != pass || pass.1 != i64::from(self.rows) {
                return Ok(None);
            }
            passes += 1;
        }
    }
}
