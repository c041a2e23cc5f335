//! Crash tests: the power fails at every change of the simulated disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use coeval_env::JoinError;
use coeval_env::sim::{Loss, Node, World};
use coeval_log::{Error, Log, Settings};
use coeval_types::{Remedy, Rid, RowRef, Timestamp};

use crate::support::{STORAGE, Table, open, put, put_durably, row, small};

const DIRECTORY: &str = "/data";
const WRITERS: u64 = 3;

type Values = Vec<(u64, Vec<u8>)>;

/// The commits that clients know to be durable.
#[derive(Debug, Default)]
struct Clients {
    /// Commits that may be in the log: those recovered in earlier runs, and those made in
    /// this one.
    made: BTreeMap<Timestamp, Values>,
    acknowledged: Vec<Timestamp>,
    next: u64,
}

type Shared = Arc<Mutex<Clients>>;

/// One transaction: most are small, some larger than a frame, some aborted.
async fn transaction(log: &Log, clients: &Shared, writer: u64) -> Result<(), Error> {
    let number = {
        let mut clients = clients.lock().unwrap();
        clients.next += 1;
        clients.next
    };
    let records = if number.is_multiple_of(7) {
        12
    } else {
        1 + number % 3
    };
    let values: Values = (0..records)
        .map(|record| {
            let value = number.to_le_bytes().repeat(1 + (number as usize * 5) % 12);
            (writer + WRITERS * record, value)
        })
        .collect();
    let mut entries = log.entry_builder();
    for (rid, value) in &values {
        entries.image(STORAGE, Rid(*rid), RowRef::trusted(&row(value)));
    }
    let credit = log.prepare(&mut entries).await?;
    let reservation = log.reserve(credit);
    let timestamp = reservation.timestamp();
    if number.is_multiple_of(5) {
        reservation.skip();
        return Ok(());
    }
    clients.lock().unwrap().made.insert(timestamp, values);
    reservation.commit(&entries).installed();
    log.wait_durable(timestamp).await?;
    clients.lock().unwrap().acknowledged.push(timestamp);
    Ok(())
}

/// One run of the process: opens the log, checks the recovered commits, commits, closes.
async fn life(clients: Shared, settings: Settings) {
    let (log, summary, table) = open(Path::new(DIRECTORY), settings).await.unwrap();
    {
        let mut clients = clients.lock().unwrap();
        let recovered = table.commits();
        assert_eq!(summary.commits as usize, recovered.len());
        for acknowledged in &clients.acknowledged {
            assert!(recovered.contains(acknowledged), "{acknowledged} is lost");
        }
        let made: Vec<_> = clients.made.keys().copied().collect();
        assert!(
            made.starts_with(&recovered),
            "not the first of {made:?}, but {recovered:?}"
        );
        // A commit that was not recovered must never reappear.
        let kept = recovered.last().copied().unwrap_or(Timestamp::ZERO);
        clients.made.retain(|timestamp, _| *timestamp <= kept);
        let mut expected = BTreeMap::<_, Vec<_>>::new();
        for (timestamp, values) in &clients.made {
            for (rid, value) in values {
                expected
                    .entry((STORAGE, Rid(*rid)))
                    .or_default()
                    .push((*timestamp, Some(value.clone())));
            }
        }
        assert_eq!(
            table.histories(),
            expected,
            "each commit whole and in order"
        );
    }
    let log = Arc::new(log);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (log, clients) = (log.clone(), clients.clone());
            coeval_env::spawn("writer", async move {
                for _ in 0..5 {
                    transaction(&log, &clients, writer).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    log.close().await.unwrap();
}

/// Commits without waiting for the disk, until the process is killed.
async fn reckless_life(clients: Shared) {
    let (log, ..) = open(Path::new(DIRECTORY), small()).await.unwrap();
    loop {
        let number = {
            let mut clients = clients.lock().unwrap();
            clients.next += 1;
            clients.next
        };
        let value = number.to_le_bytes().to_vec();
        let timestamp = put(&log, &[(number, &value)]).await.unwrap();
        clients
            .lock()
            .unwrap()
            .made
            .insert(timestamp, vec![(number, value)]);
        coeval_env::sleep(std::time::Duration::from_millis(1)).await;
    }
}

fn run(world: &World, node: Node, clients: &Shared) -> Result<(), JoinError> {
    world.run(node, life(clients.clone(), small()))?;
    let files = world.files(node);
    let (_, control) = files
        .iter()
        .find(|(path, _)| path.ends_with("CONTROL"))
        .unwrap();
    let end = u64::from_le_bytes(control[40..48].try_into().unwrap());
    for (path, bytes) in &files {
        let Some(name) = path.to_str().unwrap().strip_suffix(".log") else {
            continue;
        };
        let first: u64 = name.rsplit('/').next().unwrap().parse().unwrap();
        let written = usize::try_from(end.saturating_sub(first)).unwrap();
        let behind = bytes.get(4096 + written..).unwrap_or_default();
        assert!(
            behind.iter().all(|&byte| byte == 0),
            "what is behind the end is cleared"
        );
    }
    Ok(())
}

#[test]
fn whatever_write_the_power_fails_at() {
    for (seed, loss) in [
        (1, Loss::Random),
        (2, Loss::Random),
        (3, Loss::Everything),
        (4, Loss::Nothing),
    ] {
        let mut crash_at = 0;
        loop {
            let world = World::new(seed);
            let node = world.node();
            world.set_loss(node, loss);
            let clients = Shared::default();
            world.crash_at(node, Some(crash_at));
            let first = run(&world, node, &clients);
            if first.is_ok() {
                assert!(crash_at > 40, "the log was written many times");
                break;
            }
            assert_eq!(first, Err(JoinError::Cancelled), "change {crash_at}");
            assert_eq!(
                run(&world, node, &clients),
                Ok(()),
                "after change {crash_at}"
            );
            assert_eq!(
                run(&world, node, &clients),
                Ok(()),
                "after an orderly close"
            );
            crash_at += 1;
        }
    }
}

#[test]
fn whatever_write_of_a_recovery_the_power_fails_at() {
    for seed in 0..6 {
        // A first run that is cut off where recovery has much to repair.
        let begin = || {
            let world = World::new(seed);
            let node = world.node();
            let clients = Shared::default();
            world.crash_at(node, Some(25 + seed * 3));
            assert!(run(&world, node, &clients).is_err());
            let start = world.disk_changes(node);
            (world, node, clients, start)
        };
        for crash_at in 0.. {
            let (world, node, clients, start) = begin();
            world.crash_at(node, Some(start + crash_at));
            if run(&world, node, &clients).is_ok() {
                assert!(crash_at > 15, "recovery alone changes the disk that often");
                break;
            }
            assert_eq!(
                run(&world, node, &clients),
                Ok(()),
                "seed {seed} change {crash_at}"
            );
        }
    }
}

/// Bytes that a killed process had written, and not synced, are there when the next one
/// starts. The next process shows them to its clients and builds on them, so it must make
/// sure that the power can fail afterwards.
#[test]
fn what_recovery_has_shown_survives_the_power() {
    for seed in 0..40 {
        let world = World::new(seed);
        let node = world.node();
        let clients = Shared::default();
        let reckless = world.spawn(node, reckless_life(clients.clone()));
        let awhile = std::time::Duration::from_millis(40 + seed);
        // Sometimes a sync has failed: the kernel then shows bytes that the disk lacks,
        // and believes that there is nothing to write.
        if seed % 2 == 0 {
            world.fail_sync_at(node, Some(6 + seed / 4));
        }
        let other = world.node();
        let wait = async move { coeval_env::sleep(awhile).await };
        world.run(other, wait).unwrap();
        world.kill(node);
        world.fail_sync_at(node, None);
        let _ = world.block_on(reckless);
        world.set_loss(
            node,
            if seed % 3 == 0 {
                Loss::Random
            } else {
                Loss::Everything
            },
        );
        let shown = clients.clone();
        let second = world.spawn(node, async move {
            let (log, _, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
            shown.lock().unwrap().acknowledged = table.commits();
            std::mem::forget(log);
        });
        world.block_on(second).unwrap();
        world.crash(node);
        assert_eq!(run(&world, node, &clients), Ok(()), "seed {seed}");
    }
}

#[test]
fn many_lives() {
    for seed in 0..15 {
        let world = World::new(seed);
        let node = world.node();
        let clients = Shared::default();
        for life in 0..12 {
            let ahead = 20 + (seed * 31 + life * 17) % 50;
            world.crash_at(node, Some(world.disk_changes(node) + ahead));
            match run(&world, node, &clients) {
                Ok(()) | Err(JoinError::Cancelled) => {}
                Err(error) => panic!("seed {seed} life {life}: {error}"),
            }
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    let hash = |seed| {
        let world = World::new(seed);
        let node = world.node();
        let clients = Shared::default();
        world.crash_at(node, Some(30));
        let _ = run(&world, node, &clients);
        run(&world, node, &clients).unwrap();
        world.trace_hash()
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_failed_sync_stops_the_log_for_good() {
    let mut stopped = 0;
    for fail_at in 0..40 {
        let world = World::new(fail_at);
        let node = world.node();
        world.fail_sync_at(node, Some(fail_at));
        let clients = Shared::default();
        let seen = clients.clone();
        let outcome = world.run(node, async move {
            let table = Arc::new(Table::default());
            let log = match Log::open(Path::new(DIRECTORY), small(), table).await {
                Ok((log, _)) => log,
                Err(error) => return assert_eq!(error.remedy(), Remedy::Fix),
            };
            let calls = Arc::new(Mutex::new(0));
            let counter = calls.clone();
            log.set_fatal_handler(Box::new(move |error| {
                assert_eq!(error.remedy(), Remedy::Fatal);
                *counter.lock().unwrap() += 1;
            }));
            let mut error = None;
            for _ in 0..15 {
                match (transaction(&log, &seen, 0).await, &error) {
                    (Ok(()), None) => {}
                    (Ok(()), Some(_)) => panic!("acknowledged after a failed sync"),
                    (Err(Error::Stopped(reason)), None) => error = Some(reason),
                    (Err(Error::Stopped(reason)), Some(first)) => assert_eq!(reason, *first),
                    (Err(other), _) => panic!("{other}"),
                }
            }
            let closed = log.close().await;
            assert_eq!(closed.is_err(), *calls.lock().unwrap() == 1);
            if let Some(error) = error {
                assert!(error.contains("simulated failure"), "{error}");
                assert!(closed.is_err());
            }
        });
        assert_eq!(outcome, Ok(()), "sync {fail_at}");
        stopped += u64::from(world.disk_syncs(node) > fail_at);
        world.fail_sync_at(node, None);
        world.crash(node);
        assert_eq!(
            run(&world, node, &clients),
            Ok(()),
            "after the failure of sync {fail_at}"
        );
    }
    assert!(stopped > 15, "most of them were reached: {stopped}");
}

#[test]
fn a_full_disk_refuses_commits_loses_nothing_and_ends() {
    let mut refused = 0;
    for capacity in (0..80_000).step_by(4000) {
        let world = World::new(capacity);
        let node = world.node();
        world.set_capacity(node, capacity);
        let clients = Shared::default();
        let seen = clients.clone();
        let opened = world.run(node, async move {
            let table = Arc::new(Table::default());
            match Log::open(Path::new(DIRECTORY), small(), table).await {
                Ok((log, _)) => Some(log),
                Err(error) => {
                    assert_eq!(error.remedy(), Remedy::Fix);
                    assert!(error.is_disk_full(), "{error}");
                    None
                }
            }
        });
        let Some(log) = opened.unwrap() else {
            continue;
        };
        let log = Arc::new(log);
        let fills = log.clone();
        let filled = world.run(node, async move {
            loop {
                if let Err(error) = transaction(&fills, &seen, 0).await {
                    assert!(matches!(error, Error::DiskFull(_)), "{error}");
                    assert_eq!(error.remedy(), Remedy::Fix);
                    break;
                }
            }
            // Every commit that is reserved becomes durable all the same.
            fills.wait_durable(fills.installed()).await.unwrap();
            assert!(transaction(&fills, &seen, 1).await.is_err());
        });
        assert_eq!(filled, Ok(()), "capacity {capacity}");
        refused += 1;
        // There is space again, and the log accepts commits without a restart.
        world.set_capacity(node, u64::MAX);
        let seen = clients.clone();
        let resumed = world.run(node, async move {
            let second = std::time::Duration::from_secs(1);
            coeval_env::sleep(second).await;
            for _ in 0..20 {
                transaction(&log, &seen, 2).await.unwrap();
            }
            log.close().await.unwrap();
        });
        assert_eq!(resumed, Ok(()), "capacity {capacity}");
        world.crash(node);
        assert_eq!(run(&world, node, &clients), Ok(()), "capacity {capacity}");
    }
    assert!(
        refused > 10,
        "most of the capacities let it open: {refused}"
    );
}

/// A commit that deletes a row, and says that it only frees space.
async fn delete(log: &Log, rid: u64) -> Result<(), Error> {
    let mut entries = log.entry_builder();
    entries.delete(STORAGE, Rid(rid));
    entries.set_only_frees(true);
    let credit = log.prepare(&mut entries).await?;
    let reservation = log.reserve(credit);
    let timestamp = reservation.timestamp();
    reservation.commit(&entries).installed();
    log.wait_durable(timestamp).await?;
    Ok(())
}

/// With a reserve, commits that only free space go on while the disk is full, until the
/// reserve is used up; no others do before there is room for all of the reserve again.
#[test]
fn a_full_disk_lets_commits_that_free_go_on_out_of_the_reserve() {
    const RESERVE: u64 = 40_000;
    let reserve = Path::new(DIRECTORY).join("RESERVE");
    let settings = || Settings {
        reserve_bytes: RESERVE,
        ..small()
    };
    let second = std::time::Duration::from_secs(1);
    let mut survived = 0;
    for capacity in (90_000..190_000).step_by(5000) {
        let world = World::new(capacity);
        let node = world.node();
        world.set_capacity(node, capacity);
        let clients = Shared::default();
        let (seen, path) = (clients.clone(), reserve.clone());
        let log = world.run(node, async move {
            let (log, ..) = open(Path::new(DIRECTORY), settings()).await.unwrap();
            coeval_env::sleep(second).await;
            assert!(coeval_env::fs::exists(&path).await.unwrap());
            loop {
                match transaction(&log, &seen, 0).await {
                    Ok(()) => {}
                    Err(Error::DiskFull(_)) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            coeval_env::sleep(second).await;
            assert!(!coeval_env::fs::exists(&path).await.unwrap(), "given up");
            let mut freed = 0;
            while delete(&log, freed % 3).await.is_ok() {
                freed += 1;
                let refused = transaction(&log, &seen, 1).await;
                assert!(matches!(refused, Err(Error::DiskFull(_))), "{refused:?}");
            }
            assert!(freed > 100, "{freed} out of {RESERVE} bytes");
            log.wait_durable(log.installed()).await.unwrap();
            log
        });
        let log = log.unwrap();
        // Room for a segment is not room for the reserve.
        world.set_capacity(node, capacity + 10_000);
        let (seen, path) = (clients.clone(), reserve.clone());
        let log = world.run(node, async move {
            coeval_env::sleep(second).await;
            let refused = transaction(&log, &seen, 1).await;
            assert!(matches!(refused, Err(Error::DiskFull(_))), "{refused:?}");
            assert!(delete(&log, 0).await.is_ok());
            assert!(!coeval_env::fs::exists(&path).await.unwrap());
            log
        });
        let log = log.unwrap();
        world.set_capacity(node, u64::MAX);
        let (seen, path) = (clients.clone(), reserve.clone());
        let resumed = world.run(node, async move {
            coeval_env::sleep(second).await;
            transaction(&log, &seen, 2).await.unwrap();
            let whole = coeval_env::fs::read(&path).await.unwrap();
            assert_eq!(whole.len() as u64, RESERVE);
            log.close().await.unwrap();
        });
        assert_eq!(resumed, Ok(()), "capacity {capacity}");
        survived += 1;
    }
    assert_eq!(survived, 20);
}

#[test]
fn a_log_closes_while_the_disk_is_full() {
    let world = World::new(1);
    let node = world.node();
    world.set_capacity(node, 60_000);
    let clients = Shared::default();
    let seen = clients.clone();
    world
        .run(node, async move {
            let (log, ..) = open(Path::new(DIRECTORY), small()).await.unwrap();
            while transaction(&log, &seen, 0).await.is_ok() {}
            // In order or with an error, but `close` returns.
            let _ = log.close().await;
        })
        .unwrap();
    world.set_capacity(node, u64::MAX);
    assert_eq!(run(&world, node, &clients), Ok(()));
}

#[test]
fn recovery_by_several_threads_is_the_same() {
    let world = World::new(9);
    let node = world.node();
    let clients = Shared::default();
    run(&world, node, &clients).unwrap();
    for recovery_threads in [2, 5] {
        let settings = Settings {
            recovery_threads,
            ..small()
        };
        world.run(node, life(clients.clone(), settings)).unwrap();
    }
}

#[test]
fn closing_waits_for_commits_that_have_their_room() {
    let world = World::new(9);
    let node = world.node();
    world
        .run(node, async {
            let (log, ..) = open(Path::new(DIRECTORY), small()).await.unwrap();
            let log = Arc::new(log);
            let mut entries = log.entry_builder();
            entries.image(STORAGE, Rid(1), RowRef::trusted(&row(b"late")));
            let credit = log.prepare(&mut entries).await.unwrap();
            let given_back = log.prepare(&mut entries).await.unwrap();
            let closing = {
                let log = log.clone();
                coeval_env::spawn("close", async move { log.close().await })
            };
            coeval_env::sleep(std::time::Duration::from_secs(1)).await;
            assert!(!closing.is_finished());
            assert!(
                log.prepare(&mut entries).await.is_err(),
                "new ones are refused"
            );
            let reservation = log.reserve(credit);
            let timestamp = reservation.timestamp();
            reservation.commit(&entries).installed();
            log.wait_durable(timestamp).await.unwrap();
            coeval_env::sleep(std::time::Duration::from_secs(1)).await;
            assert!(!closing.is_finished());
            drop(given_back);
            closing.await.unwrap().unwrap();
            let (log, summary, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
            assert!(summary.clean);
            assert_eq!(table.commits(), [timestamp]);
            log.close().await.unwrap();
        })
        .unwrap();
}

#[test]
fn two_processes_on_one_machine() {
    let world = World::new(9);
    let node = world.node();
    world
        .run(node, async {
            let (log, ..) = open(Path::new(DIRECTORY), small()).await.unwrap();
            let second = open(Path::new(DIRECTORY), small()).await;
            assert!(matches!(second, Err(Error::InUse { .. })));
            put_durably(&log, 1, b"first").await.unwrap();
            log.close().await.unwrap();
        })
        .unwrap();
}
