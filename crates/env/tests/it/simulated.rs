//! Tests of the simulated environment.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use coeval_env::fs::{self, OpenOptions};
use coeval_env::sim::{Loss, World};
use coeval_env::{JoinError, sim};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const NEVER: Duration = Duration::from_secs(1_000_000);

/// A mixture of operations whose results the seed decides.
async fn mixture() -> Vec<u64> {
    let mut seen = vec![coeval_env::random_u64()];
    let listener = coeval_env::listen("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let echo = coeval_env::spawn("echo", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 100];
        let count = stream.read(&mut bytes).await.unwrap();
        stream.write_all(&bytes[..count]).await.unwrap();
    });
    let writers: Vec<_> = (0..4)
        .map(|number| {
            coeval_env::spawn_dedicated("writer", move || async move {
                let file = fs::open(format!("/{number}"), OpenOptions::CREATE)
                    .await
                    .unwrap();
                for block in 0..5 {
                    file.write_at(&[number; 700], block * 700).await.unwrap();
                    file.sync_data().await.unwrap();
                }
                coeval_env::now().duration_since(coeval_env::now() + NEVER)
            })
        })
        .collect();
    let mut stream = coeval_env::connect(address).await.unwrap();
    stream.write_all(b"ping").await.unwrap();
    for writer in writers {
        writer.await.unwrap();
        seen.push(coeval_env::wall_clock().as_nanos() as u64);
    }
    let mut back = [0; 4];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"ping");
    echo.await.unwrap();
    seen
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| {
        let world = World::new(seed);
        let seen = world.run(world.node(), mixture()).unwrap();
        (seen, world.trace_hash())
    };
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let first = run(seed);
        assert_eq!(first, run(seed));
        hashes.insert(first.1);
    }
    assert_eq!(hashes.len(), 20, "and another seed something else");
}

#[test]
fn waiting_takes_no_time() {
    let world = World::new(1);
    let (elapsed, timed_out) = world
        .run(world.node(), async {
            let started = coeval_env::now();
            coeval_env::sleep(NEVER).await;
            let waited = coeval_env::timeout(NEVER, std::future::pending::<()>()).await;
            (started.elapsed(), waited.is_err())
        })
        .unwrap();
    assert!(timed_out && elapsed >= 2 * NEVER);
}

#[test]
#[should_panic(expected = "outside every task")]
fn a_call_from_no_task_panics() {
    let world = World::new(1);
    world.block_on(async { coeval_env::random_u64() });
}

#[test]
fn each_node_has_its_own_disk_and_a_crash_drops_its_tasks_only() {
    let world = World::new(1);
    let (one, two) = (world.node(), world.node());
    let ticks = Rc::new(RefCell::new([0; 2]));
    let tick = |node: usize| {
        let ticks = ticks.clone();
        async move {
            let path = "/file";
            fs::open(path, OpenOptions::CREATE_NEW).await.unwrap();
            loop {
                coeval_env::sleep(Duration::from_secs(1)).await;
                ticks.borrow_mut()[node] += 1;
            }
        }
    };
    let wait = |seconds| async move { coeval_env::sleep(Duration::from_secs(seconds)).await };
    let (first, second) =
        world.block_on(async { (world.spawn(one, tick(0)), world.spawn(two, tick(1))) });
    world.run(two, wait(10)).unwrap();
    world.crash(one);
    let before = *ticks.borrow();
    assert!(before[0] >= 5);
    world.run(two, wait(10)).unwrap();
    assert_eq!(world.block_on(first), Err::<(), _>(JoinError::Cancelled));
    assert_eq!(ticks.borrow()[0], before[0]);
    assert!(ticks.borrow()[1] >= before[1] + 5);
    assert!(!second.is_finished());
    assert!(
        world
            .run(one, async { fs::read_dir("/").await.unwrap().len() })
            .unwrap()
            <= 1
    );
}

#[test]
fn a_crash_keeps_what_was_synced_and_any_of_the_rest() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let world = World::new(seed);
        let node = world.node();
        world
            .run(node, async {
                let file = fs::open("/log", OpenOptions::CREATE).await.unwrap();
                file.write_at(&[1; 1536], 0).await.unwrap();
                file.sync_all().await.unwrap();
                fs::sync_dir("/").await.unwrap();
                file.write_at(&[2; 1024], 512).await.unwrap();
                file.write_at(&[3; 512], 1024).await.unwrap();
            })
            .unwrap();
        world.crash(node);
        let files = world.files(node);
        let (_, bytes) = &files[0];
        assert_eq!(bytes.len(), 1536);
        assert!(
            bytes
                .chunks(512)
                .all(|sector| sector.iter().all(|byte| *byte == sector[0]))
        );
        outcomes.insert([bytes[0], bytes[512], bytes[1024]]);
    }
    let all: BTreeSet<_> = [
        [1, 1, 1],
        [1, 1, 2],
        [1, 1, 3],
        [1, 2, 1],
        [1, 2, 2],
        [1, 2, 3],
    ]
    .into();
    assert_eq!(outcomes, all, "every combination, and no other");
}

#[test]
fn names_need_their_directory_synced() {
    let left = |loss, sync| {
        let world = World::new(3);
        let node = world.node();
        world.set_loss(node, loss);
        world
            .run(node, async move {
                let file = fs::open("/new", OpenOptions::CREATE).await.unwrap();
                file.write_at(b"x", 0).await.unwrap();
                file.sync_all().await.unwrap();
                fs::rename("/new", "/name").await.unwrap();
                if sync {
                    fs::sync_dir("/").await.unwrap();
                }
            })
            .unwrap();
        world.crash(node);
        world
            .files(node)
            .into_iter()
            .map(|(path, _)| path)
            .collect::<Vec<_>>()
    };
    assert!(left(Loss::Everything, false).is_empty());
    assert_eq!(
        left(Loss::Everything, true),
        [std::path::PathBuf::from("/name")]
    );
    assert_eq!(
        left(Loss::Nothing, false),
        [std::path::PathBuf::from("/name")]
    );
}

#[test]
fn every_change_can_be_the_last() {
    let steps = |world: &World, node: sim::Node| {
        let done = Rc::new(RefCell::new(0));
        let counter = done.clone();
        let result = world.run(node, async move {
            let file = fs::open("/a", OpenOptions::CREATE).await.unwrap();
            for number in 0..3 {
                file.write_at(&[number; 10], 0).await.unwrap();
                *counter.borrow_mut() += 1;
                file.sync_data().await.unwrap();
                *counter.borrow_mut() += 1;
            }
        });
        (result, *done.borrow())
    };
    for crash_at in 0..7 {
        let world = World::new(5);
        let node = world.node();
        world.crash_at(node, Some(crash_at));
        let (result, done) = steps(&world, node);
        assert_eq!(result, Err(JoinError::Cancelled));
        assert_eq!(
            done,
            crash_at.saturating_sub(1),
            "change {crash_at} did not return"
        );
        assert_eq!(steps(&world, node).0, Ok(()), "after a restart");
    }
    let world = World::new(5);
    let node = world.node();
    world.crash_at(node, Some(7));
    assert_eq!(steps(&world, node), (Ok(()), 6));
}

#[test]
fn a_killed_process_leaves_what_it_wrote_until_the_power_fails() {
    let world = World::new(5);
    let node = world.node();
    world.set_loss(node, Loss::Everything);
    let waiting = world.spawn(node, async {
        let file = fs::open("/a", OpenOptions::CREATE).await.unwrap();
        assert!(file.try_lock().await.unwrap());
        fs::sync_dir("/").await.unwrap();
        file.write_at(b"1", 0).await.unwrap();
        coeval_env::sleep(NEVER).await;
    });
    let soon = async { coeval_env::sleep(Duration::from_secs(1)).await };
    world.run(world.node(), soon).unwrap();
    world.kill(node);
    assert_eq!(world.block_on(waiting), Err(JoinError::Cancelled));
    let left = world.run(node, async {
        let file = fs::open("/a", OpenOptions::WRITE).await.unwrap();
        assert!(
            file.try_lock().await.unwrap(),
            "the lock ended with its holder"
        );
        fs::read("/a").await.unwrap()
    });
    assert_eq!(left.unwrap(), b"1");
    world.crash(node);
    assert_eq!(world.files(node)[0].1, b"");
}

#[test]
fn a_failed_sync_loses_what_it_was_for_even_if_the_next_succeeds() {
    let world = World::new(5);
    let node = world.node();
    world.fail_sync_at(node, Some(1));
    world
        .run(node, async {
            let file = fs::open("/a", OpenOptions::CREATE).await.unwrap();
            file.write_at(b"1", 0).await.unwrap();
            file.sync_all().await.unwrap();
            fs::sync_dir("/").await.unwrap();
            file.write_at(b"2", 0).await.unwrap();
            assert!(file.sync_data().await.is_err());
            assert_eq!(fs::read("/a").await.unwrap(), b"2", "still shown");
            file.sync_data().await.unwrap();
        })
        .unwrap();
    world.crash(node);
    assert_eq!(world.files(node)[0].1, b"1");
}

#[test]
fn disks_fill_up_and_locks_end_with_their_file_or_the_crash() {
    let world = World::new(5);
    let node = world.node();
    world.set_capacity(node, 100);
    let held = world
        .run(node, async {
            let file = fs::open("/a", OpenOptions::CREATE).await.unwrap();
            file.allocate(90).await.unwrap();
            let full = |error: io::Error| error.kind() == io::ErrorKind::StorageFull;
            assert!(full(file.write_at(&[0; 20], 85).await.unwrap_err()));
            assert!(full(file.set_len(101).await.unwrap_err()));
            file.write_at(&[0; 10], 90).await.unwrap();
            file.sync_all().await.unwrap();
            fs::sync_dir("/").await.unwrap();

            assert!(file.try_lock().await.unwrap());
            let other = fs::open("/a", OpenOptions::WRITE).await.unwrap();
            assert!(!other.try_lock().await.unwrap());
            drop(file);
            assert!(other.try_lock().await.unwrap());
            other
        })
        .unwrap();
    world.crash(node);
    let free = world.run(node, async {
        let file = fs::open("/a", OpenOptions::WRITE).await.unwrap();
        file.try_lock().await.unwrap()
    });
    assert_eq!(free, Ok(true));
    drop(held);
}

#[test]
fn a_file_that_is_removed_makes_room() {
    let world = World::new(5);
    let node = world.node();
    world.set_capacity(node, 100);
    let allocated = world.run(node, async {
        let allocate = async |path| {
            let file = fs::open(path, OpenOptions::CREATE).await.unwrap();
            file.allocate(90).await
        };
        allocate("/a").await.unwrap();
        let error = allocate("/b").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        fs::remove_file("/a").await.unwrap();
        allocate("/b").await.is_ok()
    });
    assert_eq!(allocated, Ok(true));
}

#[test]
fn connections_end_when_either_side_goes() {
    let world = World::new(5);
    let (server, client) = (world.node(), world.node());
    let address = "127.0.0.1:5433".parse().unwrap();
    let serving = world.spawn(server, async move {
        let listener = coeval_env::listen(address).await.unwrap();
        assert!(coeval_env::listen(address).await.is_err());
        let (stream, _) = listener.accept().await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let mut request = Vec::new();
        read.read_to_end(&mut request).await.unwrap();
        write.write_all(&request).await.unwrap();
        std::future::pending::<()>().await;
    });
    let connected = world.run(client, async move {
        coeval_env::sleep(Duration::from_secs(1)).await;
        let stream = coeval_env::connect(address).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        // More bytes than a pipe holds, so that both sides wait for each other.
        let request = vec![7; 200_000];
        write.write_all(&request).await.unwrap();
        drop(write);
        let mut answer = vec![0; request.len()];
        read.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, request);
        read
    });
    let mut read = connected.unwrap();
    world.kill(server);
    assert_eq!(world.block_on(serving), Err(JoinError::Cancelled));
    let end = world.run(client, async move {
        let refused = coeval_env::connect(address).await.unwrap_err().kind();
        (read.read(&mut [0; 1]).await.unwrap(), refused)
    });
    assert_eq!(end, Ok((0, io::ErrorKind::ConnectionRefused)));
}
