//! Tests of replay: it is idempotent, accepts any mixture of checkpoint and log, checks to
//! which version a patch applies, and excludes other threads from a record.

use coeval_memory::epoch::Domain;
use coeval_storage::{RecoveringTable, ReplayError, Replayed, Table};
use coeval_types::{Rid, RowRef, Timestamp, TransactionId};
use proptest::prelude::*;

use crate::support::{at, row_bytes};

const NOBODY: TransactionId = TransactionId(99);

fn patch(from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut patch = Vec::new();
    assert!(RowRef::trusted(from).diff(RowRef::trusted(to), &mut patch));
    patch
}

fn image(table: &RecoveringTable, rid: Rid, cts: Timestamp, row: &[u8]) -> Replayed {
    table.record(rid).unwrap().image(cts, RowRef::trusted(row))
}

fn delete(table: &RecoveringTable, rid: Rid, cts: Timestamp) -> Replayed {
    table.record(rid).unwrap().delete(cts)
}

/// The newest version of a record, and the number of patches that the log has of it.
fn newest(table: &Table, rid: Rid) -> Option<(Timestamp, Vec<u8>, u64)> {
    let domain = Domain::new();
    let guard = domain.pin();
    let record = table.record(rid)?;
    let version = record.newest_committed(&guard)?;
    let row = version.row()?.bytes().to_vec();
    let cts = version.cts();
    record.try_lock(NOBODY);
    let patches = record.patches_since_image(NOBODY);
    record.abort(NOBODY, &guard);
    Some((cts, row, patches))
}

#[test]
fn entries_twice_are_entries_once() {
    let recovering = RecoveringTable::new();
    let (one, two, three) = (
        row_bytes(&[b"k", b"one"]),
        row_bytes(&[b"k", b"two"]),
        row_bytes(&[b"K", b"two"]),
    );
    let rid = Rid(1000);
    let record = recovering.record(rid).unwrap();
    // The whole history, then each of its suffixes: as after a checkpoint at any point.
    for first in 0..4 {
        let mut applied = 0;
        for entry in first..4 {
            let outcome = match entry {
                0 => record.image(at(10), RowRef::trusted(&one)),
                1 => record.patch(at(20), at(10), &patch(&one, &two)).unwrap(),
                2 => record.patch(at(30), at(20), &patch(&two, &three)).unwrap(),
                _ => record.image(at(5), RowRef::trusted(&one)),
            };
            applied += usize::from(outcome == Replayed::Applied);
        }
        assert_eq!(applied, if first == 0 { 3 } else { 0 });
    }
    let table = recovering.finish();
    assert_eq!(newest(&table, rid), Some((at(30), three, 2)));
    assert_eq!(table.estimated_rows(), 1);
    assert_eq!(table.high_water(), Rid(1001));
}

#[test]
fn a_tombstone_outlasts_older_images_until_the_end() {
    let (domain, recovering) = (Domain::new(), RecoveringTable::new());
    let guard = domain.pin();
    let row = row_bytes(&[b"k"]);
    image(&recovering, Rid(2), at(10), &row);
    delete(&recovering, Rid(2), at(20));
    let late = image(&recovering, Rid(2), at(10), &row);
    assert_eq!(late, Replayed::AlreadyThere);
    // Deleted and inserted again: the same RID is reused.
    delete(&recovering, Rid(1), at(10));
    image(&recovering, Rid(1), at(20), &row);
    let table = recovering.finish();
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
    let recovering = RecoveringTable::new();
    let (one, two) = (row_bytes(&[b"1"]), row_bytes(&[b"2"]));
    let patch = patch(&one, &two);
    let missing = |found| ReplayError::MissingVersion {
        rid: Rid(0),
        cts: at(30),
        expected: at(20),
        found,
    };
    let record = recovering.record(Rid(0)).unwrap();
    let replay = |patch: &[u8]| record.patch(at(30), at(20), patch);
    assert_eq!(replay(&patch), Err(missing(None)));
    image(&recovering, Rid(0), at(10), &one);
    assert_eq!(replay(&patch), Err(missing(Some(at(10)))));
    assert_eq!(
        missing(Some(at(10))).to_string(),
        "the log entry 0/240 patches version 0/160 of record 0, but the newest version is 0/80"
    );
    image(&recovering, Rid(0), at(20), &one);
    let malformed = Err(ReplayError::MalformedPatch {
        rid: Rid(0),
        cts: at(30),
    });
    assert_eq!(replay(&patch[..5]), malformed);
    assert_eq!(replay(&patch), Ok(Replayed::Applied));
    delete(&recovering, Rid(0), at(40));
    let onto_nothing = record.patch(at(50), at(40), &patch);
    assert!(matches!(
        onto_nothing,
        Err(ReplayError::MalformedPatch { .. })
    ));
    assert!(recovering.record(Rid(u64::MAX)).is_none());
}

/// One step in a record's history.
#[derive(Clone, Debug)]
enum ReplayStep {
    Image(Vec<Vec<u8>>),
    Patch(Vec<Vec<u8>>),
    Delete,
}

/// The log entry of a step.
enum Entry {
    Image(Vec<u8>),
    Patch(Timestamp, Vec<u8>),
    Delete,
}

fn step() -> impl Strategy<Value = ReplayStep> {
    // Cells of few distinct lengths: some rows are overwritten, some take new memory.
    let cells = || {
        let cell = prop_oneof![
            4 => prop::collection::vec(any::<u8>(), 8),
            1 => prop::collection::vec(any::<u8>(), 0..30),
        ];
        prop::collection::vec(cell, 3)
    };
    prop_oneof![
        2 => cells().prop_map(ReplayStep::Image),
        6 => cells().prop_map(ReplayStep::Patch),
        1 => Just(ReplayStep::Delete),
    ]
}

proptest! {
    #[test]
    fn what_is_replayed_is_what_was_written(
        steps in prop::collection::vec(step(), 1..20),
        again in any::<prop::sample::Index>(),
    ) {
        let recovering = RecoveringTable::new();
        let record = recovering.record(Rid(3)).unwrap();
        let mut expected: Option<(Timestamp, Vec<u8>, u64)> = None;
        let mut entries = Vec::new();
        for (number, step) in (1..).zip(&steps) {
            let cts = at(number * 10);
            let row = |cells: &[Vec<u8>]| {
                row_bytes(&cells.iter().map(Vec::as_slice).collect::<Vec<_>>())
            };
            let entry = match (step, &mut expected) {
                (ReplayStep::Delete, expected) => {
                    *expected = None;
                    Entry::Delete
                }
                (ReplayStep::Patch(cells), Some((previous, there, patches))) => {
                    let newer = row(cells);
                    let entry = Entry::Patch(*previous, patch(there, &newer));
                    (*previous, *there, *patches) = (cts, newer, *patches + 1);
                    entry
                }
                (ReplayStep::Image(cells) | ReplayStep::Patch(cells), expected) => {
                    *expected = Some((cts, row(cells), 0));
                    Entry::Image(row(cells))
                }
            };
            entries.push((cts, entry));
        }
        let replay = |entries: &[(Timestamp, Entry)]| {
            let outcomes = entries.iter().map(|(cts, entry)| match entry {
                Entry::Image(row) => record.image(*cts, RowRef::trusted(row)),
                Entry::Patch(previous, patch) => record.patch(*cts, *previous, patch).unwrap(),
                Entry::Delete => record.delete(*cts),
            });
            outcomes.collect::<Vec<_>>()
        };
        prop_assert_eq!(replay(&entries), vec![Replayed::Applied; entries.len()]);
        let suffix = &entries[again.index(entries.len())..];
        prop_assert_eq!(replay(suffix), vec![Replayed::AlreadyThere; suffix.len()]);
        let bytes = expected.as_ref().map_or(0, |(_, row, _)| {
            coeval_memory::heap::size_class(row.len() + 4) as u64
        });
        prop_assert_eq!(recovering.memory().values, bytes);
        let table = recovering.finish();
        prop_assert_eq!(newest(&table, Rid(3)), expected);
    }
}

/// Every thread replays every entry, in order, so that they contend for the records. Miri
/// detects any two threads that access a row at once.
#[test]
fn threads_that_meet_in_a_record_take_turns() {
    const RECORDS: u64 = 4;
    const PATCHES: u64 = if cfg!(miri) { 10 } else { 2000 };
    let recovering = RecoveringTable::new();
    let value = |number: u64| row_bytes(&[b"key", &number.to_le_bytes()]);
    let applied: u64 = std::thread::scope(|scope| {
        let replay = || {
            let mut applied = 0;
            for rid in (0..RECORDS).map(Rid) {
                let first = image(&recovering, rid, at(1), &value(0));
                applied += u64::from(first == Replayed::Applied);
            }
            for number in 1..=PATCHES {
                let patch = patch(&value(number - 1), &value(number));
                for rid in (0..RECORDS).map(Rid) {
                    let record = recovering.record(rid).unwrap();
                    record.prefetch();
                    record.prefetch_row();
                    let outcome = record.patch(at(number + 1), at(number), &patch);
                    applied += u64::from(outcome == Ok(Replayed::Applied));
                }
            }
            applied
        };
        let threads = [(); 3].map(|()| scope.spawn(replay));
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert_eq!(applied, RECORDS * (PATCHES + 1), "every entry once");
    let table = recovering.finish();
    for rid in (0..RECORDS).map(Rid) {
        let expected = (at(PATCHES + 1), value(PATCHES), PATCHES);
        assert_eq!(newest(&table, rid), Some(expected));
    }
}

#[test]
fn normal_work_goes_on_where_replay_ended() {
    use coeval_storage::{Collector, Expiry, Horizon, NoIndexes, Snapshots, TryLock};
    let (domain, snapshots) = (Domain::new(), Snapshots::new());
    let guard = domain.pin();
    let recovering = RecoveringTable::new();
    let (one, two) = (row_bytes(&[b"1"]), row_bytes(&[b"2"]));
    image(&recovering, Rid(0), at(10), &one);
    let table = recovering.finish();
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
