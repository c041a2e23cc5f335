//! Comparison of the nodes of a cluster while they follow.
//!
//! ```text
//!   node 1, leader     ──●──────●──●────●──▶
//!   node 2             ────●──────●──●────▶     at one moment, nodes that show the
//!   node 3             ──────●───────●──●──▶     same commit have the same rows
//!                               ▲
//!                               1 and 2 show the same commit, 3 an earlier one
//! ```
//!
//! Committed log is a unique prefix, so the newest commit that a node shows names one state
//! of all its tables. At regular intervals the simulator takes a snapshot of each node at
//! the same moment, and compares the rows of those whose commit is the same: the record ids
//! and bytes of every table, and that each index leads to every row, and to no other. A
//! leader takes part when its newest commit is one that a follower shows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Error, Isolation, ScanProgress, ScanRequest,
    ScanSource, Transaction,
};
use coeval_types::{IndexId, Rid, StorageDefinition, StorageId, Timestamp};
use coeval_workload::store::definitions;

use super::replicas::{CHUNK, Rows, difference, rows_in};
use super::{Run, Stop};
use crate::client_session::storage;

/// Interval between two comparisons.
const EVERY: Duration = Duration::from_millis(100);

/// Results of the comparisons.
#[derive(Debug, Default)]
struct Results {
    compared: u64,
    /// The first difference.
    found: Option<String>,
}

/// The comparisons of a run.
#[derive(Debug, Default)]
pub(super) struct Comparisons {
    next: Duration,
    /// Shared with the tasks that compare.
    results: Arc<Mutex<Results>>,
}

fn results(results: &Mutex<Results>) -> MutexGuard<'_, Results> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Comparisons {
    /// How often two nodes were compared.
    pub(super) fn compared(&self) -> u64 {
        results(&self.results).compared
    }
}

impl Run<'_> {
    /// Starts a comparison if one is due, and reports what an earlier one has found.
    pub(super) fn compare_followers(&mut self) -> Result<(), Stop> {
        if let Some(found) = results(&self.comparisons.results).found.take() {
            return Err(Stop::Objection(format!("replicas: {found}")));
        }
        if !self.system.is_cluster() || self.world.elapsed() < self.comparisons.next {
            return Ok(());
        }
        self.comparisons.next = self.world.elapsed() + EVERY;
        let servers = self.system.servers.iter();
        let shown: Vec<_> = servers
            .filter_map(|server| {
                let engine = server.reader().or_else(|| server.engine())?;
                Some((server.node, (server.number(), engine)))
            })
            .collect();
        let Some(&(machine, _)) = shown.first().filter(|_| shown.len() > 1) else {
            return Ok(());
        };
        let engines: Vec<_> = shown.into_iter().map(|(_, engine)| engine).collect();
        let indexes = self.known_indexes();
        let noted = Arc::clone(&self.comparisons.results);
        self.world.spawn(machine, async move {
            // A node that has just lost its tables is compared the next time.
            if let Ok((compared, found)) = compare(&engines, &indexes).await {
                let mut results = results(&noted);
                results.compared += compared;
                results.found = results.found.take().or(found);
            }
        });
        Ok(())
    }

    /// Indexes of the tables that clients use through the transaction contract.
    fn known_indexes(&self) -> Vec<(StorageId, IndexId)> {
        if self.options.scenario.engine.is_remote() {
            return Vec::new();
        }
        let own = || vec![storage()];
        let defined: Vec<StorageDefinition> = self
            .clients
            .tables()
            .map_or_else(own, |tables| definitions(&tables));
        let indexes = defined.iter().flat_map(|storage| {
            let indexes = storage.indexes.iter();
            indexes.map(|index| (storage.id, index.id))
        });
        indexes.collect()
    }
}

/// A snapshot of the engine with this index.
type Snapshot = (usize, Box<dyn Transaction>);

/// Compares the nodes that show the same commit at this moment; returns how many pairs, and
/// the first difference.
async fn compare(
    engines: &[(u64, Arc<dyn Engine>)],
    indexes: &[(StorageId, IndexId)],
) -> Result<(u64, Option<String>), Error> {
    let options = BeginOptions {
        isolation: Isolation::SnapshotIsolation,
        read_only: true,
        ..BeginOptions::default()
    };
    let mut shown: BTreeMap<Timestamp, Vec<Snapshot>> = BTreeMap::new();
    for (at, (_, engine)) in engines.iter().enumerate() {
        let transaction = coeval_txn::begin(&**engine, &options).await?;
        let same = shown.entry(transaction.snapshot()).or_default();
        same.push((at, transaction));
    }
    let mut compared = 0;
    for mut same in shown.into_values().filter(|same| same.len() > 1) {
        let mut known: Option<(u64, Rows)> = None;
        for (at, transaction) in &mut same {
            let (number, engine) = &engines[*at];
            let rows = rows_in(&**engine, &mut **transaction)?;
            for (storage, index) in indexes {
                if let Some(wrong) = unlike(&mut **transaction, (*storage, *index), &rows)? {
                    return Ok((compared, Some(format!("node {number}: {wrong}"))));
                }
            }
            let Some((other, expected)) = &known else {
                known = Some((*number, rows));
                continue;
            };
            compared += 1;
            if let Some(difference) = difference(expected, &rows, false) {
                let commit = transaction.snapshot();
                let found = format!("nodes {other} and {number} at commit {commit}: {difference}");
                return Ok((compared, Some(found)));
            }
        }
    }
    Ok((compared, None))
}

/// Describes a difference between the records that an index leads to and those of its table.
fn unlike(
    transaction: &mut dyn Transaction,
    (storage, index): (StorageId, IndexId),
    rows: &Rows,
) -> Result<Option<String>, Error> {
    let mut led_to = BTreeSet::new();
    let mut lower = Bound::Unbounded;
    transaction.begin_statement()?;
    loop {
        let request = ScanRequest {
            storage,
            source: ScanSource::Index(index),
            bounds: Bounds {
                lower: lower.as_ref().map(Vec::as_slice),
                upper: Bound::Unbounded,
            },
            direction: Direction::Forward,
            limit: CHUNK,
        };
        let progress = transaction.scan(&request, &mut |rid, _| {
            led_to.insert(rid);
            ControlFlow::Continue(())
        });
        match progress {
            Ok(ScanProgress::Complete) => break,
            Ok(ScanProgress::More(at)) => lower = Bound::Excluded(at),
            // The table, or the index, is not there yet.
            Err(Error::Unknown(_) | Error::SchemaChanged(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let there: BTreeSet<Rid> = rows
        .keys()
        .filter(|(of, _)| *of == storage)
        .map(|(_, rid)| *rid)
        .collect();
    let odd = led_to.symmetric_difference(&there).next();
    Ok(odd.map(|rid| {
        let leads = if there.contains(rid) {
            "does not lead"
        } else {
            "leads"
        };
        format!("{index:?} of {storage:?} {leads} to {rid}")
    }))
}
