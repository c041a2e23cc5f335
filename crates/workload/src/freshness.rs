//! Pairs of a write and a read on different nodes of a cluster: is what was acknowledged on one
//! node shown by the next read on another?
//!
//! ```text
//!   client 7     write n = 41 ──▶ node 1 ── acknowledged
//!                read ──────────▶ node 2 ── 41, or 40: stale
//!   writers      rows of their own, through every node, all the time
//! ```
//!
//! A client has a row of its own, so it knows what a read must show. It writes through one node
//! and reads through another, each time the same two; the clients together use every ordered
//! pair of nodes. A write whose answer is lost may happen later: it never lowers the number in
//! the row, so it makes no read look stale. So a read has to show exactly the number that was
//! acknowledged just before it.
//!
//! Beside the clients there may be impatient ones, which interrupt the commits of their writes
//! (40003), and then have the leader execute what only reads: what its answers tell of such
//! commits must make no read of the same node stale.
//!
//! A client waits long for an answer: a read that a paused node answers when it goes on is the
//! one most likely to be stale.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use coeval_env as env;
use tokio_postgres::{Error, Statement};

use crate::chance::Chance;
use crate::{Connection, connect};

/// How long a client waits for an answer, longer than any pause of a node; after that it
/// connects anew.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause before another attempt to connect.
const AGAIN: Duration = Duration::from_millis(50);
/// Rows of each writer.
const ROWS: u64 = 1_000;

/// What clients and writers do.
#[derive(Clone, Debug)]
pub struct Load {
    /// The port of each node.
    pub ports: Vec<u16>,
    /// Number of clients that make pairs.
    pub clients: usize,
    /// Number of clients that only write.
    pub writers: usize,
    /// Number of clients that write and do not wait for all of their commits.
    pub impatient: usize,
    /// Statements that a connection is set up with, before its client reads by it.
    pub set: Vec<String>,
    /// Seed of the random number generator.
    pub seed: u64,
}

/// A read that showed what it must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The node that was written through, by its place.
    pub written: usize,
    /// The node that was read through, by its place.
    pub read: usize,
    /// What it had to show.
    pub owed: i64,
    /// What it showed.
    pub shown: i64,
}

/// What has happened so far.
#[derive(Debug)]
pub struct Tally {
    /// Pairs of an acknowledged write and an answered read.
    pub pairs: AtomicU64,
    /// Reads that showed less than they had to.
    pub stale: AtomicU64,
    /// Reads that showed what was never written, or no row.
    pub invented: AtomicU64,
    /// Writes and reads without an answer, or with an error.
    pub unanswered: AtomicU64,
    /// Updates by writers that were acknowledged.
    pub updates: AtomicU64,
    /// Commits of impatient clients that were interrupted.
    pub interrupted: AtomicU64,
    /// Answered reads by the place of their node.
    pub reads: Vec<AtomicU64>,
    /// The first wrong read.
    pub first: std::sync::Mutex<Option<Wrong>>,
    over: AtomicBool,
}

impl Tally {
    fn new(nodes: usize) -> Self {
        Self {
            pairs: AtomicU64::default(),
            stale: AtomicU64::default(),
            invented: AtomicU64::default(),
            unanswered: AtomicU64::default(),
            updates: AtomicU64::default(),
            interrupted: AtomicU64::default(),
            reads: (0..nodes).map(|_| AtomicU64::default()).collect(),
            first: std::sync::Mutex::default(),
            over: AtomicBool::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Judges what a read showed.
    fn judge(&self, read: &Wrong) {
        let counter = match read.shown.cmp(&read.owed) {
            Ordering::Less => &self.stale,
            Ordering::Greater => &self.invented,
            Ordering::Equal => return,
        };
        counter.fetch_add(1, Relaxed);
        let mut first = self.first.lock().expect("no panic while it was held");
        first.get_or_insert_with(|| read.clone());
    }
}

/// Clients and writers at work.
#[derive(Debug)]
pub struct Running {
    /// What has happened so far.
    pub tally: Arc<Tally>,
    tasks: Vec<env::JoinHandle<()>>,
}

impl Running {
    /// Ends the load, and waits for its last answers.
    pub async fn end(self) -> Arc<Tally> {
        self.tally.over.store(true, Relaxed);
        for task in self.tasks {
            // A client's failures are in the tally.
            let _ = task.await;
        }
        self.tally
    }
}

/// The nodes that a client writes and reads through, by their places: two different ones, and
/// each ordered pair in its turn.
fn places(client: usize, nodes: usize) -> (usize, usize) {
    let written = client % nodes;
    let further = 1 + client / nodes % (nodes - 1).max(1);
    (written, (written + further) % nodes)
}

impl Load {
    /// Creates the tables through the first node, with the rows of all clients.
    ///
    /// # Errors
    /// Those of the statements.
    pub async fn fill(&self) -> Result<(), Error> {
        let connection = connect(self.ports[0]).await?;
        let rows = ROWS * (self.writers + self.impatient) as u64;
        connection
            .batch_execute(&format!(
                "CREATE TABLE pairs (id int8 PRIMARY KEY, n int8 NOT NULL);
                 CREATE TABLE beside (id int8 PRIMARY KEY, n int8 NOT NULL, filler text);
                 INSERT INTO pairs SELECT id, 0 FROM generate_series(0, {}) AS g (id);
                 INSERT INTO beside SELECT id, 0, repeat('x', 100) \
                 FROM generate_series(0, {rows}) AS g (id)",
                self.clients
            ))
            .await
    }

    /// Starts clients and writers.
    #[must_use]
    pub fn start(&self) -> Running {
        let tally = Arc::new(Tally::new(self.ports.len()));
        let mut tasks = Vec::new();
        for client in 0..self.clients {
            let (load, tally) = (self.clone(), Arc::clone(&tally));
            tasks.push(env::spawn("pairs", async move {
                load.make_pairs(client, &tally).await;
            }));
        }
        for writer in 0..self.writers {
            let (load, tally) = (self.clone(), Arc::clone(&tally));
            tasks.push(env::spawn("writer", async move {
                load.write(writer, &tally).await;
            }));
        }
        for writer in 0..self.impatient {
            let (load, tally) = (self.clone(), Arc::clone(&tally));
            tasks.push(env::spawn("impatient", async move {
                load.interrupt(writer, &tally).await;
            }));
        }
        Running { tally, tasks }
    }

    async fn make_pairs(&self, client: usize, tally: &Tally) {
        let (written, read) = places(client, self.ports.len());
        let mut writer = Client::new(
            self.ports[written],
            "UPDATE pairs SET n = $2 WHERE id = $1 AND n < $2",
            &[],
        );
        let mut reader = Client::new(
            self.ports[read],
            "SELECT n FROM pairs WHERE id = $1",
            &self.set,
        );
        let id = client as i64;
        let mut next = 0_i64;
        while !tally.is_over() {
            next += 1;
            match writer.update(&[&id, &next]).await {
                Some(1) => {}
                Some(_) => {
                    // The row has a number that was never sent.
                    tally.invented.fetch_add(1, Relaxed);
                    continue;
                }
                None => {
                    tally.unanswered.fetch_add(1, Relaxed);
                    continue;
                }
            }
            let Some(shown) = reader.number(&[&id]).await else {
                tally.unanswered.fetch_add(1, Relaxed);
                continue;
            };
            tally.reads[read].fetch_add(1, Relaxed);
            tally.judge(&Wrong {
                written,
                read,
                owed: next,
                shown: shown.unwrap_or(i64::MAX),
            });
            tally.pairs.fetch_add(1, Relaxed);
        }
    }

    async fn write(&self, writer: usize, tally: &Tally) {
        let port = self.ports[writer % self.ports.len()];
        let update = "UPDATE beside SET n = n + 1, filler = repeat('y', 100) WHERE id = $1";
        let mut client = Client::new(port, update, &[]);
        let mut chance = Chance::of(self.seed, writer as u64);
        while !tally.is_over() {
            let row = chance.within(0..ROWS) + ROWS * writer as u64;
            let id = i64::try_from(row).unwrap_or(0);
            match client.update(&[&id]).await {
                Some(_) => tally.updates.fetch_add(1, Relaxed),
                None => tally.unanswered.fetch_add(1, Relaxed),
            };
        }
    }
}

impl Load {
    /// Writes with a time limit that many commits exceed, and has the leader read after each.
    async fn interrupt(&self, writer: usize, tally: &Tally) {
        let port = self.ports[writer % self.ports.len()];
        let update = "UPDATE beside SET n = n + 1 WHERE id = $1";
        let set = ["SET coeval.read_from = leader".to_owned()];
        let mut client = Client::new(port, update, &set);
        let mut chance = Chance::of(self.seed, (self.writers + writer) as u64);
        while !tally.is_over() {
            let row = chance.within(0..ROWS) + ROWS * (self.writers + writer) as u64;
            let id = i64::try_from(row).unwrap_or(0);
            let limit = format!("SET statement_timeout = {}", chance.within(1..6));
            let done = client.once(async |connection, statement| {
                connection.batch_execute(&limit).await?;
                let updated = connection.execute(statement, &[&id]).await;
                connection
                    .batch_execute("SET statement_timeout = 0")
                    .await?;
                for _ in 0..2 {
                    let read = "SELECT n FROM beside WHERE id = 0";
                    connection.batch_execute(read).await?;
                }
                Ok(updated)
            });
            let state = match done.await {
                Some(Ok(_)) => {
                    tally.updates.fetch_add(1, Relaxed);
                    continue;
                }
                Some(Err(error)) => error.code().cloned(),
                None => None,
            };
            let counter = match state.is_some_and(|state| state.code() == "40003") {
                true => &tally.interrupted,
                false => &tally.unanswered,
            };
            counter.fetch_add(1, Relaxed);
        }
    }
}

/// A client of one node with one prepared statement, which connects anew after an error.
struct Client {
    port: u16,
    text: &'static str,
    set: Vec<String>,
    prepared: Option<(Connection, Statement)>,
}

type Parameter<'p> = &'p (dyn tokio_postgres::types::ToSql + Sync);

impl Client {
    fn new(port: u16, text: &'static str, set: &[String]) -> Self {
        Self {
            port,
            text,
            set: set.to_vec(),
            prepared: None,
        }
    }

    async fn prepare(&self) -> Result<(Connection, Statement), Error> {
        let connection = connect(self.port).await?;
        for statement in &self.set {
            connection.batch_execute(statement).await?;
        }
        let statement = connection.prepare(self.text).await?;
        Ok((connection, statement))
    }

    /// Performs one request; `None` if it has no answer, or an error as its answer.
    async fn once<T>(
        &mut self,
        request: impl AsyncFnOnce(&Connection, &Statement) -> Result<T, Error>,
    ) -> Option<T> {
        if self.prepared.is_none() {
            match env::timeout(PATIENCE, self.prepare()).await {
                Ok(Ok(prepared)) => self.prepared = Some(prepared),
                Ok(Err(_)) | Err(_) => {
                    env::sleep(AGAIN).await;
                    return None;
                }
            }
        }
        let (connection, statement) = self.prepared.as_ref()?;
        let answered = env::timeout(PATIENCE, request(connection, statement)).await;
        let is_usable = matches!(answered, Ok(Ok(_)))
            || matches!(answered, Ok(Err(_)) if !connection.is_closed());
        if !is_usable {
            self.prepared = None;
        }
        answered.ok()?.ok()
    }

    /// Executes a statement that changes rows, and returns how many it has changed.
    async fn update(&mut self, parameters: &[Parameter<'_>]) -> Option<u64> {
        self.once(async |connection, statement| connection.execute(statement, parameters).await)
            .await
    }

    /// The number that the statement returns; `Some(None)` without a row.
    async fn number(&mut self, parameters: &[Parameter<'_>]) -> Option<Option<i64>> {
        self.once(async |connection, statement| {
            let row = connection.query_opt(statement, parameters).await?;
            row.map(|row| row.try_get(0)).transpose()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_use_every_ordered_pair_of_nodes() {
        let used: BTreeSet<_> = (0..6).map(|client| places(client, 3)).collect();
        assert_eq!(used.len(), 6);
        assert!(
            used.iter()
                .all(|(written, read)| written != read && *read < 3)
        );
        assert_eq!(places(6, 3), places(0, 3));
    }

    #[test]
    fn a_read_shows_what_was_acknowledged_and_nothing_else() {
        let tally = Tally::new(3);
        let read = |shown| Wrong {
            written: 0,
            read: 1,
            owed: 5,
            shown,
        };
        for shown in [5, 4, 7, i64::MAX, 3] {
            tally.judge(&read(shown));
        }
        assert_eq!(tally.stale.into_inner(), 2);
        assert_eq!(tally.invented.into_inner(), 2);
        assert_eq!(tally.first.into_inner().unwrap(), Some(read(4)));
    }
}
