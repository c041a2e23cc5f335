//! One turn of the transactions benchmark: threads that run transactions for a fixed
//! time.

use std::sync::Arc;
use std::time::Duration;

use coeval_measure::table::{self, Change};
use coeval_measure::{Chance, Failure, Stopwatch, process_time};
use coeval_occ::Engine;
use coeval_txn::{BeginOptions, Error, Isolation};
use coeval_types::Remedy;

/// Number of operations in a transaction of several operations.
const OPERATIONS: usize = 16;
/// One in this many operations is an update.
const UPDATE_IN: usize = 20;
/// Number of transactions between two readings of the clock.
const BETWEEN_LOOKS: u64 = 256;

/// Kind of transaction that the threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    Read,
    ReadsAtOnce,
    Operations,
}

/// Parameters of a turn.
#[derive(Clone)]
pub struct Load {
    pub engine: Arc<Engine>,
    pub rows: u64,
    pub kind: LoadKind,
    pub length: Duration,
}

/// Results of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// Number of committed transactions.
    pub transactions: u64,
    /// Duration of the slowest thread.
    pub elapsed: Duration,
    /// CPU time of all threads of the process.
    pub processor: Duration,
    /// Number of rows updated by committed transactions.
    pub updates: u64,
    /// Number of attempts aborted by a conflict; each was followed by another
    /// transaction.
    pub given_way: u64,
}

impl Turn {
    pub fn per_second(&self) -> f64 {
        self.transactions as f64 / self.elapsed.as_secs_f64()
    }

    pub fn microseconds(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.transactions as f64
    }
}

impl Load {
    /// Runs `threads` threads at the same time.
    pub async fn turn(&self, threads: usize, round: u64) -> Result<Turn, Failure> {
        let before = process_time();
        let begin = |thread: usize| {
            let (load, seed) = (self.clone(), round * 1_000 + thread as u64);
            coeval_env::spawn_dedicated("load", move || async move { load.thread(seed).await })
        };
        let threads: Vec<_> = (0..threads).map(begin).collect();
        let mut turn = Turn::default();
        for thread in threads {
            let done = thread.await.map_err(|error| error.to_string())??;
            turn.transactions += done.transactions;
            turn.updates += done.updates;
            turn.given_way += done.given_way;
            turn.elapsed = turn.elapsed.max(done.elapsed);
        }
        turn.processor = process_time().saturating_sub(before);
        Ok(turn)
    }

    async fn thread(&self, seed: u64) -> Result<Turn, Failure> {
        let options = BeginOptions {
            isolation: Isolation::Serializable,
            ..BeginOptions::default()
        };
        let mut chance = Chance::new(seed + 1);
        let mut keys = Vec::with_capacity(OPERATIONS);
        let mut turn = Turn::default();
        let clock = Stopwatch::start();
        while clock.elapsed() < self.length {
            for _ in 0..BETWEEN_LOOKS {
                match self.transaction(&options, &mut chance, &mut keys).await {
                    Ok(updates) => {
                        turn.transactions += 1;
                        turn.updates += updates;
                    }
                    Err(error) if is_to_give_way(&error) => turn.given_way += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        turn.elapsed = clock.elapsed();
        Ok(turn)
    }

    /// Runs one transaction; returns the number of updated rows.
    #[inline]
    async fn transaction(
        &self,
        options: &BeginOptions,
        chance: &mut Chance,
        keys: &mut Vec<[u8; 8]>,
    ) -> Result<u64, Failure> {
        let (engine, rows) = (&*self.engine, self.rows as usize);
        let updates = match self.kind {
            LoadKind::Read => {
                table::read(engine, options, chance.below(rows) as u64).await?;
                return Ok(0);
            }
            LoadKind::ReadsAtOnce => 0,
            LoadKind::Operations => (0..OPERATIONS)
                .filter(|_| chance.below(UPDATE_IN) == 0)
                .count(),
        };
        keys.clear();
        keys.extend((updates..OPERATIONS).map(|_| (chance.below(rows) as u64).to_be_bytes()));
        if updates == 0 {
            table::read_at_once(engine, options, keys).await?;
            return Ok(0);
        }
        let mut writer = table::writer(engine, options).await?;
        writer.read_many(keys)?;
        keys.clear();
        keys.extend((0..updates).map(|_| (chance.below(rows) as u64).to_be_bytes()));
        // Sorted keys avoid deadlocks.
        keys.sort_unstable();
        for key in &*keys {
            writer
                .update(u64::from_be_bytes(*key), Change::Counter, 0)
                .await?;
        }
        writer.commit().await?;
        Ok(updates as u64)
    }
}

/// Whether the error is a conflict with another transaction, which aborted this one.
fn is_to_give_way(error: &Failure) -> bool {
    let error = error.downcast_ref::<Error>();
    error.is_some_and(|error| error.remedy() == Remedy::Retry)
}
