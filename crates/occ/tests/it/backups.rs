//! Backups taken while writers run, restored elsewhere, also to a point in time.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coeval_env::fs;
use coeval_env::sim::{Node, World};
use coeval_log::{BackupSummary, RestoreOptions, RestoreTarget, Restored, Unpacker};
use coeval_occ::Engine;
use coeval_txn::{Engine as _, Error, Isolation};
use coeval_types::Timestamp;

use crate::support::{Row, all, attach, begin, change, commit, load, lock_table, small_settings};

const ACCOUNTS: u64 = 20;
const BALANCE: u64 = 1000;

async fn open(directory: &str) -> Engine {
    let (engine, _) = Engine::open(Path::new(directory), small_settings())
        .await
        .expect("it opens");
    attach(&engine);
    engine
}

async fn rows(directory: &str) -> Vec<Row> {
    let engine = open(directory).await;
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    let rows = all(&mut *t);
    drop(t);
    engine.close().await.expect("it closes");
    rows
}

async fn backup(engine: &Engine, to: &str) -> Result<BackupSummary, coeval_log::Error> {
    let mut stream = engine.backup().expect("it has a directory");
    let mut unpacker = Unpacker::new(Path::new(to)).await?;
    while let Some(piece) = poll_fn(|context| stream.poll_next(context)).await {
        unpacker.feed(&piece.expect("the disk is well")).await?;
        // A connection would let other tasks run here.
        coeval_env::yield_now().await;
    }
    unpacker.finish().await
}

async fn restore(
    from: &str,
    to: &str,
    log_from: Option<&str>,
    target: RestoreTarget,
) -> Result<Restored, coeval_log::Error> {
    coeval_log::restore(&RestoreOptions {
        from: from.into(),
        log_from: log_from.map(Into::into),
        to: to.into(),
        target,
    })
    .await
}

fn world(seed: u64) -> (World, Node) {
    let world = World::new(seed);
    let node = world.node();
    (world, node)
}

/// Writes this content to a file, and returns the old content.
async fn replace(path: &str, bytes: &[u8]) -> Vec<u8> {
    let before = fs::read(path).await.expect("it is there");
    let file = fs::open(path, fs::OpenOptions::WRITE).await;
    let file = file.expect("it is there");
    file.set_len(bytes.len() as u64).await.expect("well");
    file.write_at(bytes, 0).await.expect("well");
    before
}

/// Moves 1 from one account to another; returns the new balances and the commit.
async fn transfer(engine: &Engine, from: u64, to: u64) -> Result<(Timestamp, [Row; 2]), Error> {
    let mut t = begin(engine, Isolation::Serializable).await;
    lock_table(&mut *t).await?;
    let (given, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    change(&mut *t, from, |value| {
        given.store(value - 1, Ordering::Relaxed);
        value - 1
    })
    .await?;
    coeval_env::yield_now().await;
    change(&mut *t, to, |value| {
        taken.store(value + 1, Ordering::Relaxed);
        value + 1
    })
    .await?;
    let balances = [(from, given.into_inner()), (to, taken.into_inner())];
    Ok((commit(&mut *t).await?, balances))
}

#[test]
fn a_backup_under_load_is_the_state_at_its_end() {
    for seed in 0..8 {
        let (world, node) = world(seed);
        world
            .run(node, async move {
                let engine = Arc::new(open("/data").await);
                load(&*engine, (0..ACCOUNTS).map(|key| (key, BALANCE))).await;
                let made = Arc::new(Mutex::new(BTreeMap::new()));
                let writers: Vec<_> = (0..3)
                    .map(|writer| {
                        let (engine, made) = (Arc::clone(&engine), Arc::clone(&made));
                        coeval_env::spawn("writer", async move {
                            for round in 0..150 {
                                let from = (writer * 7 + round) % ACCOUNTS;
                                let to = (from + 1 + round % 5) % ACCOUNTS;
                                if let Ok((commit, balances)) = transfer(&engine, from, to).await {
                                    made.lock().expect("no panic").insert(commit, balances);
                                }
                                coeval_env::sleep(Duration::from_millis(1)).await;
                            }
                        })
                    })
                    .collect();
                coeval_env::sleep(Duration::from_millis(20)).await;
                if seed % 2 == 0 {
                    engine.checkpoint().await.expect("a checkpoint");
                }
                let taken = async { backup(&engine, "/backup").await };
                let other = async {
                    // Checkpoints meanwhile must not remove log that the backup needs.
                    for _ in 0..5 {
                        engine.checkpoint().await.expect("a checkpoint");
                        coeval_env::sleep(Duration::from_millis(1)).await;
                    }
                };
                let (taken, ()) = tokio::join!(taken, other);
                let taken = taken.expect("a backup");
                for writer in writers {
                    writer.await.expect("no panic");
                }
                engine.close().await.expect("it closes");
                let restored = restore("/backup", "/new", None, RestoreTarget::End)
                    .await
                    .expect("a restore");
                assert!(!restored.passed && restored.backup == taken);
                let mut expected: BTreeMap<u64, u64> =
                    (0..ACCOUNTS).map(|key| (key, BALANCE)).collect();
                let made = made.lock().expect("no panic").clone();
                let before = made.range(..=taken.end);
                let count = before.clone().count();
                expected.extend(before.flat_map(|(_, balances)| *balances));
                assert!(count < made.len(), "it was taken in between: {count}");
                assert!(count > 0, "it was taken in between");
                let rows = rows("/new").await;
                assert_eq!(rows, expected.into_iter().collect::<Vec<_>>());
                assert_eq!(
                    rows.iter().map(|row| row.1).sum::<u64>(),
                    ACCOUNTS * BALANCE
                );
            })
            .expect("no panic");
    }
}

/// Commits ten seconds apart, some before the backup's checkpoint, some after the
/// backup's end.
#[test]
fn a_restore_to_a_point_in_time_lands_between_two_commits() {
    let (world, node) = world(1);
    world
        .run(node, async {
            let engine = open("/data").await;
            load(&engine, [(1, 0)]).await;
            let mut commits = Vec::new();
            for number in 1..=9 {
                coeval_env::sleep(Duration::from_secs(10)).await;
                let mut t = begin(&engine, Isolation::ReadCommitted).await;
                lock_table(&mut *t).await.expect("nobody else");
                change(&mut *t, 1, |_| number).await.expect("nobody else");
                let timestamp = commit(&mut *t).await.expect("nobody else");
                coeval_txn::durable(&engine, timestamp).await.expect("well");
                commits.push((timestamp, coeval_env::wall_clock()));
                match number {
                    2 => engine.checkpoint().await.expect("a checkpoint"),
                    6 => {
                        backup(&engine, "/backup").await.expect("a backup");
                    }
                    _ => {}
                }
            }
            engine.close().await.expect("it closes");
            let five = Duration::from_secs(5);
            for number in 2..=9_u64 {
                let (timestamp, time) = commits[number as usize - 1];
                // The log after the backup is in the old directory.
                let log_from = (number > 5).then_some("/data");
                for (name, target) in [
                    ("time", RestoreTarget::Time(time + five)),
                    ("timestamp", RestoreTarget::Timestamp(timestamp)),
                ] {
                    // The checkpoint holds the second commit, and may hold later ones.
                    if (name, number) == ("timestamp", 2) {
                        continue;
                    }
                    let to = format!("/{name}-{number}");
                    let restored = restore("/backup", &to, log_from, target)
                        .await
                        .expect("a restore");
                    assert_eq!(restored.passed, number < 9, "{name} {number}");
                    if number > 2 {
                        let (last, at) = restored.last.expect("one behind the checkpoint");
                        assert_eq!(last, timestamp);
                        assert!(at <= time && at + five > time);
                    }
                    assert_eq!(rows(&to).await, [(1, number)], "{name} {number}");
                }
            }
            // There is nothing to restore from before the checkpoint.
            let early = RestoreTarget::Time(commits[0].1 + five);
            let refused = restore("/backup", "/early", None, early).await;
            let refused = refused.expect_err("too early").to_string();
            assert!(refused.contains("earlier backup"), "{refused}");
            // A restored database is a database like any other.
            let engine = open("/time-4").await;
            load(&engine, [(2, 2)]).await;
            engine.checkpoint().await.expect("a checkpoint");
            engine.close().await.expect("it closes");
            assert_eq!(rows("/time-4").await, [(1, 4), (2, 2)]);
        })
        .expect("no panic");
}

#[test]
fn what_is_no_whole_backup_is_refused() {
    let (world, node) = world(1);
    world
        .run(node, async {
            let engine = open("/data").await;
            load(&engine, (0..200).map(|key| (key, key))).await;
            engine.checkpoint().await.expect("a checkpoint");
            load(&engine, (200..220).map(|key| (key, key))).await;
            let installed = engine.log().installed();
            coeval_txn::durable(&engine, installed).await.expect("well");
            backup(&engine, "/backup").await.expect("a backup");
            assert!(backup(&engine, "/backup").await.is_err(), "not empty");
            // A backup that is broken off.
            let mut stream = engine.backup().expect("it has a directory");
            let mut unpacker = Unpacker::new(Path::new("/broken")).await.expect("empty");
            let first = poll_fn(|context| stream.poll_next(context)).await;
            let piece = first.expect("some").expect("the disk is well");
            unpacker.feed(&piece).await.expect("a beginning");
            let refused = unpacker.finish().await.expect_err("it has no end");
            assert!(refused.to_string().contains("broken off"), "{refused}");
            let refused = restore("/broken", "/a", None, RestoreTarget::End).await;
            assert!(refused.is_err());
            engine.close().await.expect("it closes");
        })
        .expect("no panic");
    let files: Vec<_> = world
        .files(node)
        .into_iter()
        .filter(|(path, _)| path.starts_with("/backup"))
        .collect();
    assert!(files.len() >= 4, "CONTROL, BACKUP, a checkpoint, log");
    for (number, (path, bytes)) in files.iter().enumerate() {
        let name = path.to_str().expect("plain");
        // Within the listed part; a segment ends in zeros that are not listed.
        let at = (bytes.len() as u64 / 3).min(5000);
        world.damage(node, name, at, |byte| byte ^ 1);
        let to = format!("/damaged-{number}");
        let refused = world
            .run(node, async move {
                restore("/backup", &to, None, RestoreTarget::End).await
            })
            .expect("no panic");
        let refused = refused.expect_err("it is damaged");
        assert!(
            matches!(&refused, coeval_log::Error::Damaged { file, .. } if file == path),
            "{name}: {refused}"
        );
        world.damage(node, name, at, |byte| byte ^ 1);
    }
    let whole = world
        .run(node, async {
            restore("/backup", "/whole", None, RestoreTarget::End)
                .await
                .expect("a restore");
            rows("/whole").await.len()
        })
        .expect("no panic");
    assert_eq!(whole, 220);
}

/// Both files are whole, so neither checksum tells which of them does not belong there.
#[test]
fn a_list_and_a_control_file_of_two_backups_are_both_named() {
    let (world, node) = world(3);
    world
        .run(node, async {
            let engine = open("/data").await;
            for (key, to) in [(1, "/older"), (2, "/newer")] {
                load(&engine, [(key, key)]).await;
                let installed = engine.log().installed();
                coeval_txn::durable(&engine, installed).await.expect("well");
                backup(&engine, to).await.expect("a backup");
                engine.checkpoint().await.expect("a checkpoint");
            }
            engine.close().await.expect("it closes");
            for name in ["BACKUP", "CONTROL"] {
                let older = fs::read(format!("/older/{name}")).await;
                let path = format!("/newer/{name}");
                let newer = replace(&path, &older.expect("it is there")).await;
                let refused = restore("/newer", "/to", None, RestoreTarget::End).await;
                let refused = refused.expect_err("two backups").to_string();
                assert!(refused.contains("/newer/BACKUP"), "{refused}");
                assert!(refused.contains("/newer/CONTROL"), "{refused}");
                replace(&path, &newer).await;
            }
            let restored = restore("/newer", "/to", None, RestoreTarget::End).await;
            restored.expect("as it was");
        })
        .expect("no panic");
}

/// Bytes of the log that have rotted on the disk are copied into a backup, under a
/// checksum that fits. The restored database must not have less than was durable.
#[test]
fn a_backup_of_a_damaged_log_is_not_restored_as_if_it_ended_there() {
    let (world, node) = world(2);
    let engine = world
        .run(node, async {
            let engine = open("/data").await;
            load(&engine, (0..20).map(|key| (key, key))).await;
            engine.checkpoint().await.expect("a checkpoint");
            for key in 20..60 {
                load(&engine, [(key, key)]).await;
            }
            let installed = engine.log().installed();
            coeval_txn::durable(&engine, installed).await.expect("well");
            engine
        })
        .expect("no panic");
    let written = |(path, bytes): (std::path::PathBuf, Vec<u8>)| {
        let end = bytes.iter().rposition(|byte| *byte != 0)?;
        (path.starts_with("/data/log") && end > 4096).then_some((path, end))
    };
    let mut segments: Vec<_> = world.files(node).into_iter().filter_map(written).collect();
    segments.sort();
    let (path, end) = segments.pop().expect("there is a log");
    let middle = (4096 + end as u64) / 2;
    world.damage(node, path.to_str().expect("plain"), middle, |byte| byte ^ 1);
    let refused = world
        .run(node, async move {
            backup(&engine, "/backup").await.expect("a backup");
            restore("/backup", "/restored", None, RestoreTarget::End).await
        })
        .expect("no panic")
        .expect_err("commits are missing");
    assert!(
        matches!(&refused, coeval_log::Error::Damaged { file, .. } if file.starts_with("/restored/log")),
        "{refused}"
    );
}
