//! Replica comparison: at the end of a run each node of a cluster is made leader in turn,
//! and all must have the same rows.
//!
//! ```text
//!   all clients have stopped
//!     node 2 leads: its rows ──▶ transfer to node 3: its rows ──▶ node 1: its rows
//!                                  └─ its indexes match its records     └─ all equal
//! ```
//!
//! What a follower would write as a leader, and what its indexes hold beyond the state that
//! it shows, its reads do not tell (those are compared [while nodes follow](super::following));
//! so leadership is transferred to each node, as an operator would do it, without a restart. The new leader's indexes are checked
//! (through the transaction contract at every start of a term, [`live`](crate::cluster_node);
//! a whole server writes at once at the start of its term, and indexes may contain
//! uncommitted entries), and its records: those of all nodes must be equal, in bytes and
//! in record ids.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use coeval_peers::NodeId;
use coeval_server::{OUTCOME_STORAGE, STATISTICS_STORAGE, is_mark};
use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Error, Isolation, ScanProgress, ScanRequest,
    ScanSource, Transaction,
};
use coeval_types::{Rid, RowRef, StorageId};

use super::{BOUND, Run, Stop, TICK};

/// Number of records read in one step.
pub(super) const CHUNK: usize = 256;

/// Every row, by storage and record id.
pub(super) type Rows = BTreeMap<(StorageId, Rid), Vec<u8>>;

impl Run<'_> {
    /// Checks that all nodes have the same rows, after clients and faults have stopped.
    /// Skips a node that is out for good, and everything while a node is being replaced.
    pub(super) async fn compare_replicas(&mut self) -> Result<(), Stop> {
        if !self.system.is_cluster() || self.system.is_replacing() {
            return Ok(());
        }
        let count = self.system.servers.len();
        let first = self.system.leader().unwrap_or(0);
        let mut known: Option<(u64, Rows)> = None;
        for at in (first..first + count).map(|at| at % count) {
            let Some(rows) = self.rows_of(at).await? else {
                continue;
            };
            let number = self.system.servers[at].number();
            let (other, expected) = known.get_or_insert_with(|| (number, rows.clone()));
            if let Some(difference) = difference(expected, &rows, true) {
                let objection = format!("replicas: nodes {other} and {number}: {difference}");
                return Err(Stop::Objection(objection));
            }
        }
        Ok(())
    }

    /// Makes a node leader and reads its rows; `None` if the node is out for good.
    async fn rows_of(&mut self, at: usize) -> Result<Option<Rows>, Stop> {
        let until = self.world.elapsed() + BOUND;
        while self.world.elapsed() < until {
            if self.is_out(at) {
                return Ok(None);
            }
            let server = &self.system.servers[at];
            let number = server.number();
            match self.system.leader() {
                Some(leader) if leader == at => {
                    let node = server.leading();
                    if let (Some(engine), Some(node)) = (server.engine(), node) {
                        let read = self.world.spawn(server.node, async move {
                            let followed = node.node_status().borrow().engine.clone();
                            let checked = followed.map_or(Ok(()), |own| own.check_indexes());
                            (checked, rows(engine).await)
                        });
                        // If the node is no longer the leader, the loop tries again.
                        if let Ok((checked, Ok(rows))) = read.await {
                            if let Err(problem) = checked {
                                let objection = format!("replicas: node {number}: {problem}");
                                return Err(Stop::Objection(objection));
                            }
                            return Ok(Some(rows));
                        }
                    }
                }
                Some(leader) => {
                    self.hand_over(leader, NodeId(number)).await?;
                }
                None => {}
            }
            self.world.wait(TICK).await;
            self.tick()?;
        }
        let objection = format!(
            "liveness: node {} is asked to lead, and does not within {} s: {}",
            self.system.servers[at].number(),
            BOUND.as_secs(),
            self.system.phases()
        );
        Err(Stop::Objection(objection))
    }

    /// Asks the leader to transfer its leadership; the caller observes the result.
    async fn hand_over(&mut self, leader: usize, to: NodeId) -> Result<(), Stop> {
        let leader = &self.system.servers[leader];
        let Some(node) = leader.leading() else {
            return Ok(());
        };
        let asked = self.world.spawn(leader.node, async move {
            let _ = node.transfer(to).await;
        });
        while !asked.is_finished() {
            self.world.wait(TICK).await;
            self.tick()?;
        }
        Ok(())
    }
}

/// Reads all rows of an engine.
async fn rows(engine: Arc<dyn Engine>) -> Result<Rows, Error> {
    let options = BeginOptions {
        isolation: Isolation::SnapshotIsolation,
        read_only: true,
        ..BeginOptions::default()
    };
    let mut transaction = coeval_txn::begin(&*engine, &options).await?;
    rows_in(&*engine, &mut *transaction)
}

/// Reads all rows in a transaction's snapshot.
pub(super) fn rows_in(
    engine: &dyn Engine,
    transaction: &mut dyn Transaction,
) -> Result<Rows, Error> {
    rows_of_storages(&engine.storages(), transaction)
}

/// Reads all rows of these storages in a transaction's snapshot.
pub(super) fn rows_of_storages(
    storages: &[StorageId],
    transaction: &mut dyn Transaction,
) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    for &storage in storages {
        let mut lower = Bound::Unbounded;
        loop {
            transaction.begin_statement()?;
            let request = ScanRequest {
                storage,
                source: ScanSource::Table,
                bounds: Bounds {
                    lower: lower.as_ref().map(Vec::as_slice),
                    upper: Bound::Unbounded,
                },
                direction: Direction::Forward,
                limit: CHUNK,
            };
            let progress = transaction.scan(&request, &mut |rid, row| {
                rows.insert((storage, rid), row.bytes().to_vec());
                ControlFlow::Continue(())
            })?;
            match progress {
                ScanProgress::Complete => break,
                ScanProgress::More(at) => lower = Bound::Excluded(at),
            }
        }
    }
    Ok(rows)
}

/// Describes the first record in which the later rows differ, for people.
///
/// With `allows_marks` they are of a later leader. A server that becomes leader inserts a time mark among the transaction outcomes, which
/// the previous node cannot have. The outcomes themselves are retained for longer than
/// any run lasts, and no client commits any more: an added or missing outcome is a
/// difference. Statistics are no rows of clients: each leader takes them by itself when it finds
/// tables changed, so those of a later one may be others. Whether all nodes have the same ones is
/// compared at the same commit, [while nodes follow](super::following).
pub(super) fn difference(one: &Rows, other: &Rows, allows_marks: bool) -> Option<String> {
    let places = one.keys().chain(other.keys());
    let is_new_mark = |place: &(StorageId, Rid)| {
        let mark = |row: &Vec<u8>| place.0 == OUTCOME_STORAGE && is_mark(RowRef::trusted(row));
        allows_marks && !one.contains_key(place) && other.get(place).is_some_and(mark)
    };
    let is_analyzed = |place: &(StorageId, Rid)| allows_marks && place.0 == STATISTICS_STORAGE;
    let first = places
        .filter(|place| one.get(place) != other.get(place))
        .filter(|place| !is_new_mark(place) && !is_analyzed(place))
        .min()?;
    let (storage, rid) = first;
    Some(format!(
        "{rid} of {storage:?} is {:?} and {:?}",
        one.get(first),
        other.get(first)
    ))
}
