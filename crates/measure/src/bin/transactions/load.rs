//! One turn: threads that run transactions for a while.

use std::sync::Arc;
use std::time::Duration;

use coeval_measure::table::{self, Change};
use coeval_measure::{Chance, Failure, Stopwatch, process_time};
use coeval_occ::Engine;
use coeval_txn::{BeginOptions, Error, Isolation};
use coeval_types::Remedy;

/// Operations of a transaction that is not one read.
const OPERATIONS: usize = 16;
/// Of so many operations one is an update.
const UPDATE_IN: usize = 20;
/// Transactions between two looks at the clock.
const BETWEEN_LOOKS: u64 = 256;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    ReadsAtOnce,
    Operations,
}

/// What runs, and where.
#[derive(Clone)]
pub struct Load {
    pub engine: Arc<Engine>,
    pub rows: u64,
    pub kind: Kind,
    pub length: Duration,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// Those that committed.
    pub transactions: u64,
    /// Of the thread that took longest.
    pub elapsed: Duration,
    /// Of all threads of the process.
    pub processor: Duration,
    /// Rows changed by those that committed.
    pub updates: u64,
    /// Attempts that had to give way, and were followed by another transaction.
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
    /// So many threads, all at once.
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

    /// How many rows it has changed.
    #[inline]
    async fn transaction(
        &self,
        options: &BeginOptions,
        chance: &mut Chance,
        keys: &mut Vec<[u8; 8]>,
    ) -> Result<u64, Failure> {
        let (engine, rows) = (&*self.engine, self.rows as usize);
        let updates = match self.kind {
            Kind::Read => {
                table::read(engine, options, chance.below(rows) as u64).await?;
                return Ok(0);
            }
            Kind::ReadsAtOnce => 0,
            Kind::Operations => (0..OPERATIONS)
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
        // In an order that all have in common, nobody waits for somebody who waits for it.
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

/// Whether it met another transaction, and is over.
fn is_to_give_way(error: &Failure) -> bool {
    let error = error.downcast_ref::<Error>();
    error.is_some_and(|error| error.remedy() == Remedy::Retry)
}
