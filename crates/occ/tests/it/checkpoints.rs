//! Checkpoints of an engine: their contents, when they are taken, and failures of the
//! disk.

use std::path::Path;
use std::time::Duration;

use coeval_env::sim::{Node, World};
use coeval_occ::{Budget, Engine, Settings};
use coeval_txn::{Direction, Engine as _, Error, Isolation, ScanSource};
use coeval_types::StorageId;

use crate::support::{
    Row, SECONDARY, STORAGE, all, attach, begin, change, commit, definition, delete, insert, load,
    lock_table, scan, small_settings,
};

const DIRECTORY: &str = "/data";

fn settings() -> Settings {
    Settings {
        checkpoint_records: 3,
        ..small_settings()
    }
}

async fn open(settings: Settings) -> Engine {
    let (engine, _) = Engine::open(Path::new(DIRECTORY), settings)
        .await
        .expect("it opens");
    attach(&engine);
    engine
}

async fn rows(engine: &Engine) -> Vec<Row> {
    let mut t = begin(engine, Isolation::ReadCommitted).await;
    all(&mut *t)
}

async fn write(engine: &Engine, key: u64, by: u64) -> Result<(), Error> {
    let mut t = begin(engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await?;
    change(&mut *t, key, |value| value + by).await?;
    let timestamp = commit(&mut *t).await?;
    coeval_txn::durable(engine, timestamp).await
}

fn world() -> (World, Node) {
    let world = World::new(1);
    let node = world.node();
    (world, node)
}

#[test]
fn rows_indexes_and_free_places_come_back() {
    let (world, node) = world();
    world
        .run(node, async {
            let engine = open(settings()).await;
            load(&engine, (0..100).map(|key| (key, key * 2))).await;
            let mut t = begin(&engine, Isolation::ReadCommitted).await;
            lock_table(&mut *t).await.expect("nobody else");
            for key in (0..100).step_by(3) {
                delete(&mut *t, key).await.expect("nobody else");
            }
            commit(&mut *t).await.expect("nobody else");
            engine.sweep();
            // A snapshot from before the checkpoint, and one in the middle.
            let mut old = begin(&engine, Isolation::SnapshotIsolation).await;
            let before = all(&mut *old);
            for _ in 0..10 {
                write(&engine, 7, 1).await.expect("nobody else");
            }
            engine.checkpoint().await.expect("a checkpoint");
            assert_eq!(all(&mut *old), before, "the walk changes nothing");
            drop(old);
            // Patches of rows that are in the checkpoint, new rows in freed records.
            write(&engine, 7, 1).await.expect("nobody else");
            load(&engine, (200..230).map(|key| (key, 1))).await;
            let expected = rows(&engine).await;
            assert!(expected.contains(&(7, 25)));
            engine.close().await.expect("it closes");
            drop(engine);

            let engine = open(settings()).await;
            assert_eq!(rows(&engine).await, expected);
            assert_eq!(engine.estimated_rows(STORAGE), expected.len() as u64);
            let mut t = begin(&engine, Isolation::ReadCommitted).await;
            let source = ScanSource::Index(SECONDARY);
            let found = scan(&mut *t, source, 25, 25, Direction::Forward, 10);
            assert_eq!(found.expect("a scan"), [(7, 25)]);
            drop(t);
            load(&engine, (300..400).map(|key| (key, 1))).await;
            let expected = rows(&engine).await;
            engine.checkpoint().await.expect("a checkpoint");
            engine.close().await.expect("it closes");
            drop(engine);

            let engine = open(settings()).await;
            assert_eq!(rows(&engine).await, expected);
            engine.close().await.expect("it closes");
        })
        .expect("no panic");
}

/// Commits during the walk are in the log, and none of them is in the file, though the
/// walk visits their rows.
#[test]
fn writers_go_on_while_one_is_taken() {
    for seed in 0..20 {
        let world = World::new(seed);
        let node = world.node();
        world
            .run(node, async {
                let engine = std::sync::Arc::new(open(settings()).await);
                load(&*engine, (0..60).map(|key| (key, 0))).await;
                let writers: Vec<_> = (0..3)
                    .map(|writer| {
                        let engine = std::sync::Arc::clone(&engine);
                        coeval_env::spawn("writer", async move {
                            for round in 0..40 {
                                let key = (writer * 20 + round * 7) % 60;
                                let written = write(&engine, key, 1).await;
                                assert!(
                                    matches!(written, Ok(()) | Err(Error::Conflict(_))),
                                    "{written:?}"
                                );
                            }
                        })
                    })
                    .collect();
                let mut checkpoints = 0;
                while writers.iter().any(|writer| !writer.is_finished()) {
                    engine.checkpoint().await.expect("a checkpoint");
                    checkpoints += 1;
                }
                assert!(checkpoints > 3);
                for writer in writers {
                    writer.await.expect("no panic");
                }
                let expected = rows(&engine).await;
                engine.close().await.expect("it closes");
                drop(engine);
                let engine = open(settings()).await;
                assert_eq!(rows(&engine).await, expected);
                engine.close().await.expect("it closes");
            })
            .expect("no panic");
    }
}

#[test]
fn dropped_tables_do_not_come_back_and_empty_ones_do_no_harm() {
    const OTHER: StorageId = StorageId(9);
    let (world, node) = world();
    world
        .run(node, async {
            let engine = open(settings()).await;
            let other = coeval_types::StorageDefinition {
                id: OTHER,
                ..definition(Vec::new())
            };
            engine.attach_storage(other).expect("new");
            load(&engine, [(1, 1)]).await;
            let mut t = begin(&engine, Isolation::ReadCommitted).await;
            let exclusive = coeval_txn::TableLock::RowExclusive;
            coeval_txn::lock_table(&mut *t, OTHER, exclusive, 1)
                .await
                .expect("nobody else");
            let row = crate::support::row_bytes((5, 5));
            coeval_txn::insert(&mut *t, OTHER, coeval_types::RowRef::trusted(&row))
                .await
                .expect("nobody else");
            commit(&mut *t).await.expect("nobody else");
            engine.checkpoint().await.expect("a checkpoint");
            let last = engine.checkpoint_status().last.expect("taken");
            assert_eq!(last.records, 2);
            engine.drop_storage(OTHER);
            engine.sweep();
            engine.sweep();
            write(&engine, 1, 1).await.expect("nobody else");
            engine.checkpoint().await.expect("a checkpoint");
            engine.close().await.expect("it closes");
            drop(engine);
            let engine = open(settings()).await;
            assert_eq!(engine.storages(), [STORAGE]);
            engine.close().await.expect("it closes");
        })
        .expect("no panic");
}

#[test]
fn one_is_taken_when_there_is_log_enough_and_at_the_rate_set() {
    let (world, node) = world();
    let settings = Settings {
        checkpoint_log_bytes: 20_000,
        checkpoint_bytes_per_second: 10_000,
        ..settings()
    };
    world
        .run(node, async {
            let engine = open(settings).await;
            load(&engine, (0..500).map(|key| (key, key))).await;
            write(&engine, 1, 1).await.expect("nobody else");
            let status = engine.checkpoint_status();
            assert_eq!((status.taken, status.last), (0, None));
            assert!(status.log_bytes > 0);
            while engine.checkpoint_status().taken == 0 {
                write(&engine, 1, 1).await.expect("nobody else");
            }
            let status = engine.checkpoint_status();
            let last = status.last.expect("taken");
            assert_eq!(last.records, 500);
            let least = last.bytes.saturating_sub(8192) as f64 / 10_000.0;
            let took = status.last_took.expect("taken here").as_secs_f64();
            assert!(took >= least * 0.9, "{took} s for {} bytes", last.bytes);
            // A requested checkpoint is written faster.
            write(&engine, 1, 1).await.expect("nobody else");
            engine.checkpoint().await.expect("a checkpoint");
            let hurried = engine.checkpoint_status();
            assert_eq!((hurried.taken, hurried.failed), (2, 0));
            assert!(hurried.last_took.expect("taken").as_secs_f64() < took / 2.0);
            // Nothing was committed since, so no checkpoint is needed.
            engine.checkpoint().await.expect("nothing to do");
            assert_eq!(engine.checkpoint_status().taken, 2);
            engine.close().await.expect("it closes");
        })
        .expect("no panic");
}

#[test]
fn a_small_database_is_checkpointed_on_a_close() {
    let (world, node) = world();
    for limit in [0, 100_000] {
        let settings = Settings {
            checkpoint_on_close_bytes: limit,
            ..settings()
        };
        world
            .run(node, async move {
                let engine = open(settings).await;
                let mut t = begin(&engine, Isolation::ReadCommitted).await;
                lock_table(&mut *t).await.expect("nobody else");
                insert(&mut *t, (limit, 1)).await.expect("nobody else");
                commit(&mut *t).await.expect("nobody else");
                engine.close().await.expect("it closes");
            })
            .expect("no panic");
        let opened = world.run(node, async {
            let (engine, summary) = Engine::open(Path::new(DIRECTORY), self::settings())
                .await
                .expect("it opens");
            engine.close().await.expect("it closes");
            (summary.checkpoint.is_some(), summary.commits)
        });
        assert_eq!(opened, Ok((limit > 0, u64::from(limit == 0))));
    }
}

#[test]
fn a_full_disk_fails_the_checkpoint_and_nothing_else() {
    let (world, node) = world();
    let settings = Settings {
        checkpoint_log_bytes: 50_000,
        ..settings()
    };
    let engine = world
        .run(node, async {
            let engine = open(settings).await;
            load(&engine, (0..300).map(|key| (key, key))).await;
            write(&engine, 1, 1).await.expect("nobody else");
            // The next segment is allocated meanwhile.
            coeval_env::sleep(Duration::from_millis(100)).await;
            engine
        })
        .expect("no panic");
    let used: usize = world.files(node).iter().map(|(_, bytes)| bytes.len()).sum();
    world.set_capacity(node, used as u64 + 5000);
    world
        .run(node, async {
            let error = engine.checkpoint().await.expect_err("no room");
            assert!(matches!(error, Error::DiskFull(_)), "{error}");
            let status = engine.checkpoint_status();
            assert!(status.failed >= 1 && status.last.is_none());
            assert!(status.failure.is_some_and(|why| why.contains("write")));
            // The room is freed, and commits continue.
            write(&engine, 1, 1).await.expect("nobody else");
            engine
        })
        .map(|engine| {
            world.set_capacity(node, u64::MAX);
            world.run(node, async move {
                // The engine tries again by itself, once the retry is due.
                while engine.checkpoint_status().last.is_none() {
                    write(&engine, 1, 1).await.expect("nobody else");
                    coeval_env::sleep(Duration::from_millis(10)).await;
                }
                assert_eq!(engine.checkpoint_status().failure, None);
                let expected = rows(&engine).await;
                engine.close().await.expect("it closes");
                drop(engine);
                let engine = open(self::settings()).await;
                assert_eq!(rows(&engine).await, expected);
                engine.close().await.expect("it closes");
            })
        })
        .expect("no panic")
        .expect("no panic");
}

#[test]
fn a_checkpoint_whose_snapshot_gives_way_fails_and_is_taken_again() {
    let (world, node) = world();
    let settings = Settings {
        checkpoint_log_bytes: 20_000,
        // So slowly that many versions become old before the checkpoint is complete.
        checkpoint_bytes_per_second: 2_000,
        budget: Budget {
            old_versions: 16 << 10,
            ..Budget::UNLIMITED
        },
        ..settings()
    };
    world
        .run(node, async {
            let engine = open(settings).await;
            load(&engine, (0..1000).map(|key| (key, key))).await;
            while engine.checkpoint_status().running.is_none() {
                write(&engine, 1, 1).await.expect("nobody else");
            }
            // The whole table changes during the walk, and the oldest snapshot, which is
            // the checkpoint's, must be ended.
            for key in 0..1000 {
                write(&engine, key, 7).await.expect("nobody else");
            }
            engine.sweep();
            assert_eq!(engine.memory().ended_snapshots, 1);
            while engine.checkpoint_status().failed == 0 {
                coeval_env::sleep(Duration::from_millis(10)).await;
            }
            let status = engine.checkpoint_status();
            assert_eq!((status.taken, status.last), (0, None));
            let why = status.failure.expect("it says why");
            assert!(why.contains("memory that old versions may take"), "{why}");
            // The next checkpoint runs without a limit, and its success clears the
            // failure.
            while engine.checkpoint_status().taken == 0 {
                write(&engine, 1, 1).await.expect("nobody else");
                coeval_env::sleep(Duration::from_millis(10)).await;
            }
            let status = engine.checkpoint_status();
            assert_eq!((status.failed, status.failure), (1, None));
            let last = status.last.expect("taken");
            assert_eq!(last.records, 1000);
            let took = status.last_took.expect("taken here").as_secs_f64();
            assert!(took < last.bytes as f64 / 2_000.0 / 2.0, "{took} s");
            // The engine can start from this checkpoint.
            let expected = rows(&engine).await;
            engine.close().await.expect("it closes");
            drop(engine);
            let engine = open(self::settings()).await;
            assert_eq!(rows(&engine).await, expected);
            engine.close().await.expect("it closes");
        })
        .expect("no panic");
}

#[tokio::test]
async fn a_database_in_memory_has_nothing_to_do() {
    let engine = crate::support::engine();
    engine.checkpoint().await.expect("nothing to do");
    assert_eq!(engine.checkpoint_status().taken, 0);
}
