//! Long reads on the nodes of a cluster while they follow, for runs in which memory is short.
//!
//! ```text
//!   node 2, follows   ──●────●────●────●────●────●──▶  commits
//!   long read           └ pass   pass   pass ─ ended
//! ```
//!
//! On each node one transaction after the other reads all tables in one snapshot, again and
//! again. While its snapshot is not ended every pass shows the same rows with the same RIDs. It
//! ends by an error that says so, once old versions take more than their share of memory, and
//! after some time by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_txn::{BeginOptions, Engine, Error, Isolation};

use super::replicas::{difference, rows_of_storages};
use super::{Run, Stop};
use crate::Class;

/// Longest pause between two passes.
const PAUSE: Duration = Duration::from_millis(60);
/// Number of passes of a read that nothing ends.
const PASSES: u32 = 100;

#[derive(Debug, Default)]
struct Results {
    ended: u64,
    /// The first difference.
    found: Option<String>,
}

/// The long reads of a run.
#[derive(Debug, Default)]
pub(super) struct LongReads {
    /// The read on each node.
    running: Vec<Option<JoinHandle<()>>>,
    /// Shared with the tasks that read.
    results: Arc<Mutex<Results>>,
}

fn results(results: &Mutex<Results>) -> MutexGuard<'_, Results> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LongReads {
    /// Number of reads that were ended for the memory that they held.
    pub(super) fn ended(&self) -> u64 {
        results(&self.results).ended
    }
}

impl Run<'_> {
    /// Has one long read on each node that follows, and reports what one has found.
    pub(super) fn read_long(&mut self) -> Result<(), Stop> {
        if let Some(found) = results(&self.long_reads.results).found.take() {
            return Err(Stop::Objection(format!("reports: {found}")));
        }
        if self.options.scenario.class != Class::Memory || self.tasks.is_empty() {
            return Ok(());
        }
        let count = self.system.servers.len();
        self.long_reads.running.resize_with(count, || None);
        for (server, running) in self.system.servers.iter().zip(&mut self.long_reads.running) {
            if running.as_ref().is_some_and(|task| !task.is_finished()) {
                continue;
            }
            *running = server.reader().map(|engine| {
                let (number, noted) = (server.number(), Arc::clone(&self.long_reads.results));
                self.world.spawn(server.node, async move {
                    let read = read(&*engine).await;
                    let mut results = results(&noted);
                    match read {
                        Ok(None) => {}
                        Ok(Some(difference)) => {
                            let found = format!("node {number} in one snapshot: {difference}");
                            results.found.get_or_insert(found);
                        }
                        Err(Error::SnapshotTooOld) => results.ended += 1,
                        // The node has lost its tables.
                        Err(_) => {}
                    }
                })
            });
        }
        Ok(())
    }
}

/// Reads all tables again and again in one snapshot; returns the first difference.
async fn read(engine: &dyn Engine) -> Result<Option<String>, Error> {
    let options = BeginOptions {
        isolation: Isolation::SnapshotIsolation,
        read_only: true,
        ..BeginOptions::default()
    };
    let mut transaction = coeval_txn::begin(engine, &options).await?;
    // An engine that has lost its tables has no storages, and no rows.
    let storages = engine.storages();
    let first = rows_of_storages(&storages, &mut *transaction)?;
    for _ in 0..PASSES {
        let pause = coeval_env::random_u64() % PAUSE.as_micros() as u64;
        coeval_env::sleep(Duration::from_micros(pause)).await;
        let rows = rows_of_storages(&storages, &mut *transaction)?;
        if let Some(difference) = difference(&first, &rows, false) {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}
