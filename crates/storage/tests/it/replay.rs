//! Replay: idempotent, in any mixture of checkpoint and log, and particular about
//! what a patch applies to.

use coeval_memory::epoch::Domain;
use coeval_storage::{ReplayError, Replayed, Table};
use coeval_types::{Rid, RowRef, TransactionId};

use crate::support::{at, row_bytes};

const NOBODY: TransactionId = TransactionId(99);

fn patch(from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut patch = Vec::new();
    assert!(RowRef::trusted(from).diff(RowRef::trusted(to), &mut patch));
    patch
}

#[test]
fn entries_twice_are_entries_once() {
    let (domain, table) = (Domain::new(), Table::new());
    let guard = domain.pin();
    let (one, two, three) = (
        row_bytes(&[b"k", b"one"]),
        row_bytes(&[b"k", b"two"]),
        row_bytes(&[b"K", b"two"]),
    );
    let rid = Rid(1000);
    // The whole history, then each of its suffixes: as after a checkpoint at any
    // point.
    for first in 0..4 {
        let mut applied = 0;
        for entry in first..4 {
            let outcome = match entry {
                0 => table.replay_image(rid, at(10), RowRef::trusted(&one), &guard),
                1 => table
                    .replay_patch(rid, at(20), at(10), &patch(&one, &two), &guard)
                    .unwrap(),
                2 => table
                    .replay_patch(rid, at(30), at(20), &patch(&two, &three), &guard)
                    .unwrap(),
                _ => table.replay_image(rid, at(5), RowRef::trusted(&one), &guard),
            };
            applied += usize::from(outcome == Replayed::Applied);
        }
        assert_eq!(applied, if first == 0 { 3 } else { 0 });
    }
    table.finish_replay();
    let record = table.record(rid).unwrap();
    let version = record.read(at(30), NOBODY, &guard).unwrap();
    assert_eq!(version.cts(), at(30));
    assert_eq!(version.row(), Some(RowRef::trusted(&three)));
    assert_eq!(table.estimated_rows(), 1);
    assert_eq!(table.high_water(), Rid(1001));
    record.try_lock(NOBODY);
    assert_eq!(record.patches_since_image(NOBODY), 2);
}

#[test]
fn a_tombstone_outlasts_older_images_until_the_end() {
    let (domain, table) = (Domain::new(), Table::new());
    let guard = domain.pin();
    let row = row_bytes(&[b"k"]);
    table.replay_image(Rid(2), at(10), RowRef::trusted(&row), &guard);
    table.replay_delete(Rid(2), at(20), &guard);
    let late = table.replay_image(Rid(2), at(10), RowRef::trusted(&row), &guard);
    assert_eq!(late, Replayed::AlreadyThere);
    // Deleted and inserted again: a new life of the same RID.
    table.replay_delete(Rid(1), at(10), &guard);
    table.replay_image(Rid(1), at(20), RowRef::trusted(&row), &guard);
    table.finish_replay();
    assert!(table.record(Rid(2)).unwrap().is_dead());
    assert!(!table.record(Rid(1)).unwrap().is_dead());
    assert_eq!(table.estimated_rows(), 1);
    // RIDs 0 and 2 are free, in that order, at once.
    assert_eq!(table.allocate(NOBODY, &guard).rid(), Rid(0));
    assert_eq!(table.allocate(NOBODY, &guard).rid(), Rid(2));
    assert_eq!(table.allocate(NOBODY, &guard).rid(), Rid(3));
    let taken = coeval_memory::heap::size_class(row.len() + 4);
    assert_eq!(table.memory().values, taken as u64);
}

#[test]
fn a_patch_of_the_wrong_version_says_what_it_expected() {
    let (domain, table) = (Domain::new(), Table::new());
    let guard = domain.pin();
    let (one, two) = (row_bytes(&[b"1"]), row_bytes(&[b"2"]));
    let patch = patch(&one, &two);
    let missing = |found| ReplayError::MissingVersion {
        rid: Rid(0),
        cts: at(30),
        expected: at(20),
        found,
    };
    let replay = |patch: &[u8]| table.replay_patch(Rid(0), at(30), at(20), patch, &guard);
    assert_eq!(replay(&patch), Err(missing(None)));
    table.replay_image(Rid(0), at(10), RowRef::trusted(&one), &guard);
    assert_eq!(replay(&patch), Err(missing(Some(at(10)))));
    assert_eq!(
        missing(Some(at(10))).to_string(),
        "the log entry 0/240 patches version 0/160 of record 0, but the newest version is 0/80"
    );
    table.replay_image(Rid(0), at(20), RowRef::trusted(&one), &guard);
    let malformed = Err(ReplayError::MalformedPatch {
        rid: Rid(0),
        cts: at(30),
    });
    assert_eq!(replay(&patch[..5]), malformed);
    assert_eq!(replay(&patch), Ok(Replayed::Applied));
    table.replay_delete(Rid(0), at(40), &guard);
    let onto_nothing = table.replay_patch(Rid(0), at(50), at(40), &patch, &guard);
    assert!(matches!(
        onto_nothing,
        Err(ReplayError::MalformedPatch { .. })
    ));
}

#[test]
fn normal_work_goes_on_where_replay_ended() {
    use coeval_storage::{Collector, Expiry, Horizon, NoIndexes, Snapshots, TryLock};
    let (domain, snapshots, table) = (Domain::new(), Snapshots::new(), Table::new());
    let guard = domain.pin();
    let (one, two) = (row_bytes(&[b"1"]), row_bytes(&[b"2"]));
    table.replay_image(Rid(0), at(10), RowRef::trusted(&one), &guard);
    table.finish_replay();
    let horizon = Horizon {
        installed: at(10),
        committed: at(10),
    };
    let expiry = Expiry::new(horizon, &snapshots);
    let collector = Collector {
        guard: &guard,
        expiry: &expiry,
        indexes: &NoIndexes,
    };
    let record = table.record(Rid(0)).unwrap();
    assert_eq!(record.try_lock(NOBODY), TryLock::Locked);
    record.write(
        NOBODY,
        coeval_storage::Value::row(RowRef::trusted(&two)),
        &collector,
    );
    record.commit(NOBODY, at(20));
    let seen = |snapshot| {
        let version = record.read(at(snapshot), NOBODY, &guard);
        version.map(|version| version.row().unwrap().bytes().to_vec())
    };
    assert_eq!(
        (seen(9), seen(19), seen(20)),
        (None, Some(one.clone()), Some(two.clone()))
    );
}
