//! The background garbage collector: removes versions that no snapshot can see, and frees
//! dropped storages and indexes.
//!
//! Writers remove most garbage as they go. The garbage collector finds the rest: the last
//! version of a deleted row, or the versions that an old snapshot kept and that no writer
//! has passed since. It works in small steps, so that it delays no transaction, and drops
//! its reference to the engine between two steps.
//!
//! A dropped storage is freed when no registered snapshot is older than the moment at
//! which every transaction assigned a timestamp before the drop was installed: a
//! transaction that could still read the catalog row that names the storage has an older
//! snapshot.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use coeval_memory::heap;
use coeval_storage::{Collector, Expiry};
use coeval_types::{IndexId, Rid, StorageId, Timestamp};

use crate::memory;
#[cfg(feature = "planted")]
use crate::planted;
use crate::shared::{Retired, Shared};
use crate::statistics;
use crate::storage::{Storage, Upkeep};

/// Notes that a storage, or one index of it, was dropped.
pub(crate) fn retire(shared: &Shared, storage: StorageId, index: Option<IndexId>) {
    let mut retired = shared.retired.lock().expect("no panic while it was held");
    retired.push(Retired {
        storage,
        index,
        since: None,
    });
}

/// Work left in a storage that was written.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    /// All garbage that existed when the storage was last found written has expired once
    /// no older snapshot is registered.
    written: Timestamp,
    /// Rounds to run after that. Two, because a commit may mark a storage a moment before
    /// the installed prefix reaches that commit.
    rounds: u8,
}

/// Collects garbage until the engine is dropped. It skips storages that no transaction
/// has written since the last thorough round; the others take a small share of one core,
/// however large they are.
///
/// When memory is short, the collector runs without pauses, and when old versions still
/// exceed their share after a whole round, it ends the snapshot that holds the oldest of
/// them.
pub(crate) async fn run(shared: Weak<Shared>, interval: Duration) {
    let mut unfinished: BTreeMap<StorageId, Unfinished> = BTreeMap::new();
    loop {
        coeval_env::sleep(interval).await;
        let Some(engine) = shared.upgrade() else {
            return;
        };
        let began = engine.log.installed();
        statistics::sample(&engine);
        #[cfg(feature = "planted")]
        planted::end_old_snapshots(&engine, began);
        let all = engine.all_storages();
        unfinished.retain(|id, _| all.iter().any(|storage| storage.id == *id));
        drop(engine);
        for storage in all {
            let Some(engine) = shared.upgrade() else {
                return;
            };
            if storage.take_written() {
                let left = Unfinished {
                    written: engine.log.installed(),
                    rounds: 2,
                };
                unfinished.insert(storage.id, left);
            }
            let Some(left) = unfinished.get_mut(&storage.id) else {
                continue;
            };
            let oldest = engine.snapshots.oldest();
            if oldest.is_none_or(|oldest| oldest >= left.written) {
                left.rounds -= 1;
            }
            if left.rounds == 0 {
                unfinished.remove(&storage.id);
            }
            let mut next = step(&engine, &storage, Rid(0));
            let mut pressed = memory::is_short(&engine);
            drop(engine);
            let mut steps = 0_u32;
            while let Some(from) = next {
                rest(pressed).await;
                let Some(engine) = shared.upgrade() else {
                    return;
                };
                next = step(&engine, &storage, from);
                steps += 1;
                if steps.is_multiple_of(STEPS_BETWEEN_LOOKS) {
                    pressed = memory::is_short(&engine);
                    engine.domain.collect();
                }
            }
        }
        let Some(engine) = shared.upgrade() else {
            return;
        };
        engine.domain.collect();
        forget_retired(&engine);
        memory::end_oldest(&engine, began);
        engine.counters.sweep_done();
        drop(engine);
        heap::give_back();
    }
}

/// Steps between two checks of the memory budget.
const STEPS_BETWEEN_LOOKS: u32 = 64;

/// Pauses between two steps: with a few hundred records a step, the collector takes some
/// per cent of a core, or under memory pressure as much of one as other tasks leave.
async fn rest(pressed: bool) {
    if pressed {
        coeval_env::yield_now().await;
    } else {
        coeval_env::sleep(Duration::from_millis(1)).await;
    }
}

/// Runs one round without pauses.
pub(crate) fn sweep_all(shared: &Shared) {
    let began = shared.log.installed();
    for storage in shared.all_storages() {
        let mut next = Some(Rid(0));
        while let Some(from) = next {
            next = step(shared, &storage, from);
        }
    }
    shared.domain.collect();
    forget_retired(shared);
    memory::end_oldest(shared, began);
    shared.counters.sweep_done();
}

fn step(shared: &Shared, storage: &Storage, from: Rid) -> Option<Rid> {
    let guard = shared.domain.pin();
    let expiry = Expiry::cached(shared.horizon(), &shared.snapshots);
    let indexes = storage.indexes();
    let collector = Collector {
        guard: &guard,
        expiry: &expiry,
        indexes: &Upkeep(&indexes),
    };
    let records = shared.settings.sweep_records;
    let progress = storage.records.sweep(from, records, &collector);
    let end = progress
        .next
        .unwrap_or_else(|| storage.records.high_water());
    let seen = end.0.saturating_sub(from.0);
    shared.counters.swept(seen, progress.removed as u64);
    progress.next
}

/// Frees dropped storages and indexes that no snapshot can reach any more. A new entry of
/// the list gets its timestamp now, and is checked again in a later round.
fn forget_retired(shared: &Shared) {
    let now = shared.log.installed();
    let oldest = shared.snapshots.oldest().unwrap_or(now);
    let mut unreachable = Vec::new();
    {
        let mut retired = shared.retired.lock().expect("no panic while it was held");
        retired.retain_mut(|entry| match entry.since {
            None => {
                entry.since = Some(now);
                true
            }
            Some(since) if oldest >= since => {
                unreachable.push((entry.storage, entry.index));
                false
            }
            Some(_) => true,
        });
    }
    for (storage, index) in unreachable {
        match index {
            None => {
                let mut storages = shared.storages.write().expect("no panic while it was held");
                let dropped = storages.remove(&storage);
                drop(storages);
                shared.pool.forget_storages();
                shared.conflicts.forget(storage);
                drop(dropped);
            }
            Some(index) => {
                if let Ok(storage) = shared.storage(storage) {
                    storage.remove_index(index);
                    shared.pool.forget_storages();
                }
            }
        }
    }
}
