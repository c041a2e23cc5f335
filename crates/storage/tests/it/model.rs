//! Model test: one record against a plain list of versions, through random histories.

use std::collections::BTreeMap;

use coeval_memory::epoch::Domain;
use coeval_storage::{
    Aborted, Collector, Expiry, Horizon, Snapshot, Snapshots, Table, TryLock, Value,
};
use coeval_types::TransactionId;
use proptest::prelude::*;

use crate::entries::Entries;
use crate::support::{at, number, numbered};

#[derive(Clone, Debug)]
enum ModelStep {
    /// Locks the record, if no transaction holds the lock.
    Lock(u64),
    /// Writes a key, or deletes the row.
    Write(Option<u64>),
    Savepoint,
    RollBack,
    Commit,
    Abort,
    /// Registers a snapshot at the installed prefix.
    Register,
    /// Drops one of the registered snapshots.
    Release(usize),
    /// Advances the committed prefix to the installed prefix.
    Settle,
    Sweep,
}

fn step() -> impl Strategy<Value = ModelStep> {
    prop_oneof![
        4 => (1u64..4).prop_map(ModelStep::Lock),
        4 => prop_oneof![3 => (0u64..3).prop_map(Some), 1 => Just(None)].prop_map(ModelStep::Write),
        1 => Just(ModelStep::Savepoint),
        1 => Just(ModelStep::RollBack),
        4 => Just(ModelStep::Commit),
        1 => Just(ModelStep::Abort),
        2 => Just(ModelStep::Register),
        2 => any::<usize>().prop_map(ModelStep::Release),
        2 => Just(ModelStep::Settle),
        2 => Just(ModelStep::Sweep),
    ]
}

/// The model of a record: every version ever committed, since it was allocated.
#[derive(Default)]
struct Model {
    versions: BTreeMap<u64, Option<u64>>,
    holder: Option<u64>,
    private: Option<Option<u64>>,
    /// Private versions at savepoints, with the value that storage returned.
    savepoints: Vec<(Option<Option<u64>>, Option<Value>)>,
    installed: u64,
    committed: u64,
}

impl Model {
    fn seen(&self, snapshot: u64) -> Option<(u64, Option<u64>)> {
        let version = self.versions.range(..=snapshot).next_back();
        version.map(|(&cts, &key)| (cts, key))
    }
}

fn run(steps: &[ModelStep]) -> Result<(), TestCaseError> {
    let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
    let entries = Entries::default();
    let mut model = Model {
        holder: Some(1),
        installed: 1,
        ..Model::default()
    };
    let mut registered: Vec<Snapshot> = Vec::new();
    let rid = table.allocate(TransactionId(1), &domain.pin()).rid();
    for step in steps {
        let guard = domain.pin();
        let horizon = Horizon {
            installed: at(model.installed),
            committed: at(model.committed),
        };
        let expiry = Expiry::new(horizon, &snapshots);
        let collector = Collector {
            guard: &guard,
            expiry: &expiry,
            indexes: &entries,
        };
        let record = table.record(rid).unwrap();
        let holder = TransactionId(model.holder.unwrap_or(0));
        match step {
            ModelStep::Lock(id) => {
                let expected = match model.holder {
                    Some(holder) if holder == *id => TryLock::AlreadyLocked,
                    Some(holder) => TryLock::HeldBy(TransactionId(holder)),
                    None => TryLock::Locked,
                };
                prop_assert_eq!(record.try_lock(TransactionId(*id)), expected);
                model.holder.get_or_insert(*id);
            }
            ModelStep::Write(key) if model.holder.is_some() => {
                let value = key.map_or_else(Value::tombstone, numbered);
                record.write(holder, value, &collector);
                let replaced = model.private.replace(*key);
                if let Some(key) = key {
                    entries.add(*key, rid);
                }
                if let Some(Some(old)) = replaced {
                    let kept = record.any_row(holder, true, &guard, |row| number(row) == old);
                    entries.keep(kept, old, rid);
                }
            }
            ModelStep::Savepoint if model.holder.is_some() => {
                let value = record.private_value(holder);
                model.savepoints.push((model.private, value));
            }
            ModelStep::RollBack if !model.savepoints.is_empty() => {
                let (private, value) = model.savepoints.pop().unwrap();
                record.restore_private(holder, value, &guard);
                let replaced = std::mem::replace(&mut model.private, private);
                for key in [replaced, private].into_iter().flatten().flatten() {
                    let kept = record.any_row(holder, true, &guard, |row| number(row) == key);
                    entries.keep(kept, key, rid);
                }
            }
            ModelStep::Commit if model.private.is_some() => {
                model.installed += 2;
                record.commit(holder, at(model.installed));
                model
                    .versions
                    .insert(model.installed, model.private.take().unwrap());
                model.holder = None;
                model.savepoints.clear();
            }
            ModelStep::Abort if model.holder.is_some() => {
                if let Some(Some(key)) = model.private {
                    let kept = record.any_row(holder, false, &guard, |row| number(row) == key);
                    entries.keep(kept, key, rid);
                }
                let outcome = record.abort(holder, &guard);
                if model.versions.is_empty() {
                    prop_assert_eq!(outcome, Aborted::Dead);
                    return Ok(());
                }
                prop_assert_eq!(outcome, Aborted::Restored);
                (model.holder, model.private) = (None, None);
                model.savepoints.clear();
            }
            ModelStep::Register => registered.push(snapshots.register(|| at(model.installed))),
            ModelStep::Release(which) if !registered.is_empty() => {
                drop(registered.swap_remove(which % registered.len()));
            }
            ModelStep::Settle => model.committed = model.installed,
            ModelStep::Sweep => {
                record.collect(&collector);
                let newest = model.versions.iter().next_back();
                let forgettable = model.holder.is_none()
                    && newest.is_some_and(|(&cts, key)| key.is_none() && cts <= model.committed)
                    && registered.iter().all(|snapshot| {
                        model
                            .seen(snapshot.timestamp().to_bits())
                            .is_none_or(|seen| Some(seen.0) == newest.map(|newest| *newest.0))
                    });
                prop_assert!(!record.is_dead() || forgettable);
                if record.is_dead() {
                    prop_assert_eq!(entries.keys(rid).len(), 0);
                    prop_assert_eq!(table.memory().values, 0);
                    return Ok(());
                }
            }
            _ => {}
        }
        check(&model, &table, &registered, rid, &domain, &entries)?;
    }
    Ok(())
}

fn check(
    model: &Model,
    table: &Table,
    registered: &[Snapshot],
    rid: coeval_types::Rid,
    domain: &Domain,
    entries: &Entries,
) -> Result<(), TestCaseError> {
    let guard = domain.pin();
    let record = table.record(rid).unwrap();
    let stranger = TransactionId(99);
    prop_assert_eq!(record.holder(), model.holder.map(TransactionId));
    // Every registered snapshot, and the one that a new reader would get.
    let positions = registered
        .iter()
        .map(|snapshot| snapshot.timestamp().to_bits());
    for snapshot in positions.chain([model.installed]) {
        let seen = record
            .read(at(snapshot), stranger, &guard)
            .map(|version| (version.cts().to_bits(), version.row().map(number)));
        prop_assert_eq!(seen, model.seen(snapshot), "at {}", snapshot);
    }
    let newest = record
        .newest_committed(&guard)
        .map(|version| (version.cts().to_bits(), version.row().map(number)));
    prop_assert_eq!(newest, model.seen(u64::MAX - 1));
    if let Some(holder) = model.holder {
        let own = record.read(at(model.installed), TransactionId(holder), &guard);
        match model.private {
            Some(key) => {
                let own = own.unwrap();
                prop_assert!(own.is_own());
                prop_assert_eq!(own.row().map(number), key);
            }
            None => prop_assert!(own.is_none_or(|version| !version.is_own())),
        }
    }
    // The expected entries: one for every key of a version that some snapshot can see.
    let keys = entries.keys(rid);
    let positions = registered
        .iter()
        .map(|snapshot| snapshot.timestamp().to_bits());
    let visible = positions
        .chain([model.installed])
        .filter_map(|snapshot| model.seen(snapshot)?.1);
    for key in visible.chain(model.private.flatten()) {
        prop_assert!(keys.contains(&key), "no entry for {}", key);
    }
    let rows = model.versions.values().next_back();
    prop_assert_eq!(
        table.estimated_rows(),
        u64::from(matches!(rows, Some(Some(_))))
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_record_behaves_like_a_list_of_versions(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        run(&steps)?;
    }
}
