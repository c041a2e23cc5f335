//! Range maintenance: the background task that runs the range balancer.
//!
//! It is a separate task, because a round of the [garbage collector](crate::garbage_collector)
//! takes longer the larger the tables are. Each round asks every key space whether it has
//! work; where it has, the task performs steps, and after each pauses nine times as long
//! as the step took ([`super::balancer`]).

use std::ops::{Bound, ControlFlow};
use std::sync::Weak;
use std::time::Duration;

use coeval_memory::sync::Backoff;
use coeval_types::IndexId;

use super::balancer::{BalancerInput, BalancerProgress};
use crate::shared::Shared;
use crate::storage::{Storage, find};

/// Shortest pause between two steps.
const REST: Duration = Duration::from_millis(1);
/// Pause after a step, as a multiple of the step: the task takes a tenth of a core at
/// most.
const REST_PER_STEP: u32 = 9;

/// Idle storages that the task passes before it yields to other tasks.
const STORAGES_AT_ONCE: usize = 256;

/// Maintains the ranges until the engine is dropped.
pub(crate) async fn run(shared: Weak<Shared>, interval: Duration) {
    loop {
        coeval_env::sleep(interval).await;
        let Some(engine) = shared.upgrade() else {
            return;
        };
        let all = engine.all_storages();
        drop(engine);
        for (at, storage) in all.iter().enumerate() {
            if at % STORAGES_AT_ONCE == STORAGES_AT_ONCE - 1 {
                coeval_env::yield_now().await;
            }
            for space in begin_round(storage) {
                loop {
                    let Some(engine) = shared.upgrade() else {
                        return;
                    };
                    let began = coeval_env::now();
                    if step(&engine, storage, space) == BalancerProgress::Done {
                        break;
                    }
                    drop(engine);
                    let rest = REST_PER_STEP * began.elapsed();
                    coeval_env::sleep(rest.max(REST)).await;
                }
            }
        }
    }
}

/// Runs one round without pauses.
pub(crate) fn tend_all(shared: &Shared) {
    for storage in shared.all_storages() {
        for space in begin_round(&storage) {
            let mut backoff = Backoff::default();
            loop {
                match step(shared, &storage, space) {
                    BalancerProgress::Done => break,
                    BalancerProgress::More => {}
                    BalancerProgress::Waiting => backoff.wait(),
                }
            }
        }
    }
}

/// The storage's key spaces that have work: indexes, or `None` for RID order.
fn begin_round(storage: &Storage) -> Vec<Option<IndexId>> {
    let mut spaces = Vec::new();
    if let Some(ranges) = storage.rows_by_rid()
        && ranges.begin_round(keys(storage, None))
    {
        spaces.push(None);
    }
    for index in storage.indexes().iter() {
        if index.ranges.begin_round(keys(storage, Some(index.id))) {
            spaces.push(Some(index.id));
        }
    }
    spaces
}

/// Estimated number of keys.
fn keys(storage: &Storage, space: Option<IndexId>) -> u64 {
    match space {
        None => storage.records.high_water().0,
        Some(_) => storage.records.estimated_rows(),
    }
}

fn step(shared: &Shared, storage: &Storage, space: Option<IndexId>) -> BalancerProgress {
    let installed = shared.log.installed();
    let oldest = shared.snapshots.oldest();
    let horizon = oldest.map_or(installed, |oldest| oldest.min(installed));
    let keys = keys(storage, space);
    let reorganised = &shared.counters.reorganised;
    let Some(id) = space else {
        let walk = |lower: &[u8], upper: Option<&[u8]>, visit: &mut Visit<'_>| {
            walk_rids(storage, lower, upper, visit);
        };
        let input = BalancerInput {
            keys,
            horizon,
            walk: &walk,
            reorganised,
        };
        let ranges = storage.rows_by_rid();
        return ranges.map_or(BalancerProgress::Done, |ranges| ranges.step(&input));
    };
    let indexes = storage.indexes();
    let Ok(index) = find(&indexes, id) else {
        return BalancerProgress::Done;
    };
    let walk = |lower: &[u8], upper: Option<&[u8]>, visit: &mut Visit<'_>| {
        let guard = shared.domain.pin();
        let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
        let _ = index
            .entries
            .scan_forward(Bound::Included(lower), upper, &guard, |entry, _| {
                visit(entry)
            });
    };
    let input = BalancerInput {
        keys,
        horizon,
        walk: &walk,
        reorganised,
    };
    index.ranges.step(&input)
}

type Visit<'visit> = dyn FnMut(&[u8]) -> ControlFlow<()> + 'visit;

/// Visits RIDs as keys: every RID that was ever used counts as one.
fn walk_rids(storage: &Storage, lower: &[u8], upper: Option<&[u8]>, visit: &mut Visit<'_>) {
    let rid = |bound: &[u8]| {
        // Boundaries are RIDs, except the first, which is empty.
        bound.try_into().map_or(0, u64::from_be_bytes)
    };
    let end = storage.records.high_water().0;
    let end = upper.map_or(end, |upper| rid(upper).min(end));
    let _ = (rid(lower)..end).try_for_each(|rid| visit(&rid.to_be_bytes()));
}
