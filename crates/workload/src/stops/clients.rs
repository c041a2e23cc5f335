//! The clients: writers of registers on the leader, readers on the follower, and what both
//! record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coeval_check::history::{Operation, Outcome, Register, Transaction};
use coeval_env::{self as env, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{Error, nanoseconds};
use crate::Connection;

/// Number of keys; each has a writer of its own.
const KEYS: u64 = 4;
/// Number of connections that read.
const READERS: u64 = 2;

/// Records what clients were told, on one clock.
#[derive(Debug)]
pub(super) struct Recorder {
    origin: Instant,
    told: Mutex<Vec<Transaction>>,
    is_over: AtomicBool,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            origin: env::now(),
            told: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// The time, in nanoseconds.
    pub(super) fn time(&self) -> u64 {
        nanoseconds(self.origin.elapsed())
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn record(&self, process: u64, started: u64, operation: Operation, outcome: Outcome) {
        let finished = Some(self.time()).filter(|_| outcome == Outcome::Committed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(Transaction {
            process,
            started,
            finished,
            outcome,
            read_only: !operation.is_write(),
            operations: vec![operation],
        });
    }

    pub(super) fn taken(&self) -> Vec<Transaction> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut told)
    }
}

/// Makes the registers.
pub(super) async fn prepare(leader: u16) -> Result<(), Error> {
    let connection = crate::connect(leader).await?;
    let table = "CREATE TABLE registers (key int8 PRIMARY KEY, value int8)";
    connection.simple_query(table).await?;
    let rows = format!("INSERT INTO registers SELECT g, NULL FROM generate_series(1, {KEYS}) g");
    connection.simple_query(&rows).await?;
    Ok(())
}

/// A client that runs.
pub(super) type Running = env::JoinHandle<Result<(), Error>>;

/// Starts all clients: those of the leader's port write, those of the follower's read.
pub(super) async fn start(
    recorder: &Arc<Recorder>,
    (leader, follower): (u16, u16),
    every: Duration,
) -> Result<Vec<Running>, Error> {
    let mut running = Vec::new();
    for key in 1..=KEYS {
        let connection = crate::connect(leader).await?;
        let writing = write(Arc::clone(recorder), connection, key, every);
        running.push(env::spawn("writer", writing));
    }
    for reader in 0..READERS {
        let connection = crate::connect(follower).await?;
        connection
            .simple_query("SET coeval.read_from = any")
            .await?;
        let reading = read(Arc::clone(recorder), connection, reader, every);
        running.push(env::spawn("reader", reading));
    }
    Ok(running)
}

/// Writes one value after the other.
async fn write(
    recorder: Arc<Recorder>,
    connection: Connection,
    key: u64,
    every: Duration,
) -> Result<(), Error> {
    for value in 1_i64.. {
        if recorder.is_over() {
            break;
        }
        let statement = format!("UPDATE registers SET value = {value} WHERE key = {key}");
        let started = recorder.time();
        let outcome = match connection.simple_query(&statement).await {
            Ok(_) => Outcome::Committed,
            Err(error) if connection.is_closed() => return Err(error.into()),
            Err(_) => Outcome::Unknown,
        };
        recorder.record(key, started, Operation::Write { key, value }, outcome);
        env::sleep(every).await;
    }
    Ok(())
}

/// Sends reads of one key after the other, answered or not.
async fn read(
    recorder: Arc<Recorder>,
    connection: Connection,
    reader: u64,
    every: Duration,
) -> Result<(), Error> {
    let connection = Arc::new(connection);
    let mut sent = Vec::new();
    for turn in 0.. {
        if recorder.is_over() {
            break;
        }
        let key = 1 + turn % KEYS;
        // Each read that may overlap others is a process of its own.
        let process = KEYS + 1 + turn * READERS + reader;
        let (recorder, connection) = (Arc::clone(&recorder), Arc::clone(&connection));
        let reading = async move {
            let started = recorder.time();
            let read = value(&connection, key).await?;
            let value = Some(read.map_or(Register::Absent, Register::Value));
            let operation = Operation::Read { key, value };
            recorder.record(process, started, operation, Outcome::Committed);
            Ok::<(), Error>(())
        };
        sent.push(env::spawn("read", reading));
        if sent.len() > 4096 {
            for read in sent.drain(..2048) {
                read.await??;
            }
        }
        env::sleep(every).await;
    }
    for read in sent {
        read.await??;
    }
    Ok(())
}

async fn value(client: &Client, key: u64) -> Result<Option<i64>, Error> {
    let statement = format!("SELECT value FROM registers WHERE key = {key}");
    let answers = client.simple_query(&statement).await?;
    let value = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row.get(0).and_then(|value| value.parse().ok())),
        _ => None,
    });
    Ok(value.flatten())
}
