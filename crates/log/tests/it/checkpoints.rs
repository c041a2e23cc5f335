//! Checkpoint tests: what recovery loads and replays, which log is removed, and what
//! damage does. Crashes while a checkpoint is taken are tested with an engine, in
//! `coeval-occ`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coeval_env::sim::{Node, World};
use coeval_log::{Error, Log, Settings};
use coeval_types::{Remedy, Rid, RowRef, Timestamp};

use crate::support::{
    STORAGE, Table, begin_checkpoint, checkpoint, open, put, put_durably, row, small,
};

const DIRECTORY: &str = "/data";

async fn open_small() -> (Log, coeval_log::RecoverySummary, Arc<Table>) {
    open(Path::new(DIRECTORY), small()).await.unwrap()
}

/// Commits a value, and records it in the table.
async fn write(log: &Log, table: &Table, rid: u64, value: &[u8]) -> Timestamp {
    let timestamp = put(log, &[(rid, value)]).await.unwrap();
    table.note(timestamp, &[(rid, value)]);
    timestamp
}

fn files(world: &World, node: Node, suffix: &str) -> Vec<PathBuf> {
    let files = world.files(node).into_iter().map(|(path, _)| path);
    let is = |path: &PathBuf| path.to_str().is_some_and(|name| name.ends_with(suffix));
    files.filter(is).collect()
}

#[test]
fn a_start_loads_the_checkpoint_and_replays_what_is_behind_it() {
    for recovery_threads in [1, 3] {
        let world = World::new(1);
        let node = world.node();
        let settings = Settings {
            recovery_threads,
            ..small()
        };
        world
            .run(node, async move {
                let (log, summary, table) = open_small().await;
                assert_eq!(summary.checkpoint, None);
                assert_eq!(log.checkpoint(), None);
                for number in 0..500_u64 {
                    write(&log, &table, number % 90, &number.to_le_bytes()).await;
                }
                let before = log.bytes_to_replay();
                let taken = checkpoint(&log, &table).await.unwrap();
                assert_eq!(log.checkpoint(), Some(taken));
                assert_eq!(taken.records, 90);
                assert!(before > 10_000 && log.bytes_to_replay() == 0, "{before}");
                let behind = write(&log, &table, 7, b"behind").await;
                let expected = table.values();
                log.close().await.unwrap();

                let (log, summary, table) = open(Path::new(DIRECTORY), settings).await.unwrap();
                assert_eq!(summary.checkpoint, Some(taken));
                assert_eq!((summary.commits, summary.last_commit), (1, behind));
                assert!(summary.clean && summary.bytes < 100, "{summary:?}");
                assert_eq!(table.values(), expected);
                log.close().await.unwrap();
            })
            .unwrap();
        assert_eq!(files(&world, node, ".checkpoint").len(), 1);
        let log = files(&world, node, ".log");
        assert!(log.len() <= 3, "the log before it is gone: {log:?}");
        assert!(!log[0].ends_with("00000000000000004096.log"));
    }
}

#[test]
fn one_replaces_the_other_and_none_leaves_anything() {
    let world = World::new(1);
    let node = world.node();
    world
        .run(node, async {
            for life in 0..4_u64 {
                let (log, summary, table) = open_small().await;
                assert_eq!(summary.checkpoint.is_some(), life > 0);
                for number in 0..60_u64 {
                    write(&log, &table, number, &(life * number).to_le_bytes()).await;
                    if number % 20 == 19 {
                        checkpoint(&log, &table).await.unwrap();
                    }
                }
                // A checkpoint that is begun, and dropped with the process.
                let begun = begin_checkpoint(&log, &table).await.unwrap();
                std::mem::forget(begun);
                log.close().await.unwrap();
            }
            let (log, _, table) = open_small().await;
            let expected = (0..60).map(|number: u64| (number, (3 * number).to_le_bytes().to_vec()));
            assert_eq!(table.values(), expected.collect());
            log.close().await.unwrap();
        })
        .unwrap();
    assert_eq!(files(&world, node, ".checkpoint").len(), 1);
    assert_eq!(files(&world, node, ".new"), Vec::<PathBuf>::new());
}

/// A transaction that has written chunks when the snapshot is taken, and commits after
/// it.
#[test]
fn chunks_before_the_snapshot_are_kept_for_a_commit_behind_it() {
    for commits in [true, false] {
        let world = World::new(1);
        let node = world.node();
        world
            .run(node, async move {
                let (log, _, table) = open_small().await;
                let large = |value: u8| row(&[value; 400]);
                let mut entries = log.entry_builder();
                for rid in 1000..1012 {
                    entries.image(STORAGE, Rid(rid), RowRef::trusted(&large(rid as u8)));
                }
                // Chunks, all complete, fill more than half of the ring; the commit has
                // its credit and is not reserved yet.
                let credit = log.prepare(&mut entries).await.unwrap();
                for number in 0..300_u64 {
                    write(&log, &table, number % 10, &number.to_le_bytes()).await;
                }
                let taken = checkpoint(&log, &table).await.unwrap();
                assert!(taken.start.log_start < taken.start.replay_from());
                if commits {
                    let reservation = log.reserve(credit);
                    reservation.commit(&entries).installed();
                } else {
                    drop(credit);
                }
                entries.clear();
                // The commit is after the checkpoint's snapshot, so the next checkpoint
                // still retains its chunks.
                let last = write(&log, &table, 5, b"last").await;
                log.wait_durable(last).await.unwrap();
                log.close().await.unwrap();

                let (log, summary, table) = open_small().await;
                assert_eq!(summary.commits, 1 + u64::from(commits));
                let values = table.values();
                assert_eq!(values.len(), if commits { 22 } else { 10 });
                if commits {
                    assert!((1000..1012).all(|rid| values[&rid] == [rid as u8; 400]));
                }
                // Once a checkpoint covers all of it, no log before is needed.
                let taken = checkpoint(&log, &table).await.unwrap();
                assert_eq!(taken.start.log_start, taken.start.replay_from());
                log.close().await.unwrap();
            })
            .unwrap();
    }
}

#[test]
fn log_is_kept_for_whoever_holds_it_and_as_the_settings_say() {
    let world = World::new(1);
    let node = world.node();
    let segments = |world: &World| files(world, node, ".log").len();
    let fill = |settings: Settings, hold: bool| {
        world
            .run(node, async move {
                let (log, _, table) = open(Path::new(DIRECTORY), settings).await.unwrap();
                let held = hold.then(|| log.hold());
                for number in 0..1000_u64 {
                    write(&log, &table, number % 10, &number.to_le_bytes()).await;
                }
                checkpoint(&log, &table).await.unwrap();
                if let Some(held) = held {
                    let file = log.open_checkpoint(&held).await.unwrap();
                    assert_eq!(file.is_some(), held.checkpoint().is_some());
                }
                log.close().await.unwrap();
            })
            .unwrap();
    };
    fill(small(), true);
    let held = segments(&world);
    assert!(held > 8, "nothing was removed: {held}");
    fill(small(), false);
    let freed = segments(&world);
    assert!(freed <= 3, "all was removed: {freed}");
    let keeping = Settings {
        log_keep_bytes: 20_000,
        ..small()
    };
    fill(keeping, false);
    let kept = segments(&world);
    assert!((4..=8).contains(&kept), "20,000 bytes were kept: {kept}");
    fill(small(), true);
    assert_eq!(
        files(&world, node, ".checkpoint").len(),
        2,
        "what is held, and what replaced it"
    );
}

/// Makes a checkpoint and a little log after it, with the log before it removed. Returns
/// the checkpoint's path and length.
fn with_checkpoint() -> (World, Node, PathBuf, u64) {
    let world = World::new(1);
    let node = world.node();
    let bytes = world
        .run(node, async {
            let (log, _, table) = open_small().await;
            for number in 0..200_u64 {
                write(&log, &table, number % 40, &number.to_le_bytes()).await;
            }
            let taken = checkpoint(&log, &table).await.unwrap();
            put_durably(&log, 1, b"behind").await.unwrap();
            log.close().await.unwrap();
            taken.bytes
        })
        .unwrap();
    let path = files(&world, node, ".checkpoint").remove(0);
    (world, node, path, bytes)
}

/// The error with which the log does not open.
fn refused(world: &World, node: Node) -> Error {
    world
        .run(node, async {
            match open(Path::new(DIRECTORY), small()).await {
                Ok(_) => panic!("a damaged checkpoint was loaded"),
                Err(error) => error,
            }
        })
        .unwrap()
}

#[test]
fn a_damaged_checkpoint_is_refused_with_file_and_offset() {
    let (world, node, path, length) = with_checkpoint();
    assert!(length >= 6000, "header, many blocks, index, end: {length}");
    let name = path.to_str().unwrap();
    // The header's checksum also covers its zeros.
    for at in (0..4096).step_by(97).chain(4096..length) {
        world.damage(node, name, at, |byte| byte ^ 0x20);
        let error = refused(&world, node);
        world.damage(node, name, at, |byte| byte ^ 0x20);
        assert_eq!(error.remedy(), Remedy::Fix);
        let Error::Damaged { file, offset, .. } = &error else {
            panic!("byte {at}: {error}");
        };
        assert_eq!(file, &path);
        assert!(*offset <= at.max(1), "byte {at}: {error}");
    }
    // A refusal changes nothing: without damage it opens.
    world
        .run(node, async {
            let (log, _, table) = open_small().await;
            assert_eq!(table.values().len(), 40);
            log.close().await.unwrap();
        })
        .unwrap();
}

#[test]
fn a_truncated_checkpoint_is_refused() {
    for kept in [0, 100, 4096, 4200, 5000, 5990] {
        let (world, node, path, length) = with_checkpoint();
        let cut = path.clone();
        world
            .run(node, async move {
                let file = coeval_env::fs::open(&cut, coeval_env::fs::OpenOptions::WRITE)
                    .await
                    .unwrap();
                file.set_len(length.min(kept)).await.unwrap();
            })
            .unwrap();
        let error = refused(&world, node);
        assert!(
            matches!(&error, Error::Damaged { file, .. } if *file == path),
            "{kept} bytes: {error}"
        );
    }
}

#[test]
fn a_missing_checkpoint_or_missing_log_is_refused() {
    for suffix in [".checkpoint", ".log"] {
        let (world, node, ..) = with_checkpoint();
        let gone = files(&world, node, suffix);
        let removed = async move {
            for path in gone {
                coeval_env::fs::remove_file(path).await.unwrap();
            }
        };
        world.run(node, removed).unwrap();
        let error = refused(&world, node);
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("the file is missing"), "{error}");
    }
}

/// A checkpoint renamed to another's name, and one of another database.
#[test]
fn a_checkpoint_that_belongs_elsewhere_is_refused() {
    let (world, node, path, _) = with_checkpoint();
    let bytes = world
        .files(node)
        .into_iter()
        .find(|(name, _)| *name == path);
    let (_, bytes) = bytes.unwrap();
    let other = path.with_file_name("00000000000000009992.checkpoint");
    let rename = async move { coeval_env::fs::rename(path, other).await.unwrap() };
    world.run(node, rename).unwrap();
    let renamed = refused(&world, node);
    assert!(renamed.to_string().contains("do not agree"), "{renamed}");

    let world = World::new(2);
    let node = world.node();
    let path = Path::new(DIRECTORY).join("checkpoints");
    world
        .run(node, async move {
            let (log, ..) = open_small().await;
            log.close().await.unwrap();
            let snapshot =
                Timestamp::from_bits(u64::from_le_bytes(bytes[32..40].try_into().unwrap()));
            let path = path.join(format!("{:020}.checkpoint", snapshot.lsn().0 + 8));
            let file = coeval_env::fs::open(&path, coeval_env::fs::OpenOptions::CREATE)
                .await
                .unwrap();
            file.write_at(&bytes, 0).await.unwrap();
        })
        .unwrap();
    let foreign = refused(&world, node);
    assert!(
        foreign.to_string().contains("another database"),
        "{foreign}"
    );
}

#[test]
fn a_checkpoint_that_fails_leaves_what_was_in_force() {
    let mut failed = 0;
    for fail_at in 0..40 {
        let world = World::new(fail_at);
        let node = world.node();
        world
            .run(node, async {
                let (log, _, table) = open_small().await;
                for number in 0..200_u64 {
                    write(&log, &table, number % 30, &number.to_le_bytes()).await;
                }
                checkpoint(&log, &table).await.unwrap();
                log.close().await.unwrap();
            })
            .unwrap();
        let syncs = world.disk_syncs(node);
        world.fail_sync_at(node, Some(syncs + fail_at));
        let outcome = world
            .run(node, async {
                let (log, _, table) = match open(Path::new(DIRECTORY), small()).await {
                    Ok(opened) => opened,
                    // The injected failure hit the repair of the log.
                    Err(_) => return (false, 0),
                };
                let before = log.checkpoint();
                let last = write(&log, &table, 3, b"last").await;
                if log.wait_durable(last).await.is_err() {
                    return (false, 0);
                }
                let failed = match checkpoint(&log, &table).await {
                    Ok(taken) => {
                        assert_eq!(log.checkpoint(), Some(taken));
                        false
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("simulated failure"), "{error}");
                        assert_eq!(log.checkpoint(), before);
                        // The checkpoint can be tried again.
                        checkpoint(&log, &table).await.unwrap();
                        true
                    }
                };
                (failed, table.values().len())
            })
            .unwrap();
        failed += u64::from(outcome.0);
        world.fail_sync_at(node, None);
        world.crash(node);
        if outcome.1 > 0 {
            world
                .run(node, async {
                    let (log, _, table) = open_small().await;
                    let values = table.values();
                    assert_eq!((values.len(), &values[&3][..]), (30, &b"last"[..]));
                    log.close().await.unwrap();
                })
                .unwrap();
        }
    }
    assert!(failed > 0, "the sync of a checkpoint was among them");
}
