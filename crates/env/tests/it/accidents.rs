//! Faults of simulated links, clocks, processors and disks.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use coeval_env::fs::{self, OpenOptions};
use coeval_env::sim::{Cpu, Latency, Link, Loss, Node, Prices, World};
use coeval_env::{JoinError, ReadHalf, Work, WriteHalf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);

fn address() -> SocketAddr {
    "127.0.0.1:7".parse().unwrap()
}

/// Answers every byte by the next one, on any number of connections.
async fn serve() {
    serve_at(address()).await;
}

async fn serve_at(address: SocketAddr) {
    let listener = coeval_env::listen(address).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut read, mut write) = stream.into_split();
        coeval_env::spawn("echo", async move {
            while let Ok(byte) = read.read_u8().await {
                if write.write_u8(byte.wrapping_add(1)).await.is_err() {
                    return;
                }
            }
        });
    }
}

pub(super) async fn connect() -> (ReadHalf, WriteHalf) {
    coeval_env::connect(address()).await.unwrap().into_split()
}

/// Sends a request and waits for its answer; returns how long that took.
async fn ask(read: &mut ReadHalf, write: &mut WriteHalf) -> io::Result<Duration> {
    let asked = coeval_env::now();
    write.write_u8(1).await?;
    assert_eq!(read.read_u8().await?, 2);
    Ok(asked.elapsed())
}

/// A world with a server and a client, and this link between them.
pub(super) fn pair(seed: u64, link: Link) -> (World, Node, Node) {
    let world = World::new(seed);
    let (server, client) = (world.node(), world.node());
    world.set_usual_link(link);
    world.spawn(server, serve());
    world.block_on(world.wait(MILLISECOND));
    (world, server, client)
}

pub(super) fn distance(milliseconds: u32) -> Link {
    Link {
        latency: Latency {
            least: MILLISECOND * milliseconds,
            ..Latency::default()
        },
        ..Link::default()
    }
}

/// Sends requests one after another, and returns how long each took.
fn asked(seed: u64, link: Link, times: usize) -> (Vec<io::Result<Duration>>, u64) {
    let (world, _, client) = pair(seed, link);
    let answers = world.run(client, async move {
        coeval_env::sleep(SECOND).await;
        let (mut read, mut write) = connect().await;
        let mut answers = Vec::new();
        for _ in 0..times {
            answers.push(ask(&mut read, &mut write).await);
        }
        answers
    });
    (answers.unwrap(), world.trace_hash())
}

#[test]
fn a_link_has_length_jitter_and_a_tail() {
    let (answers, _) = asked(1, distance(5), 3);
    assert!(
        answers
            .iter()
            .all(|took| *took.as_ref().unwrap() == 10 * MILLISECOND)
    );
    let link = Link {
        latency: Latency {
            least: 5 * MILLISECOND,
            spread: 5 * MILLISECOND,
            tail_per_million: 20_000,
            tail: SECOND,
        },
        ..Link::default()
    };
    let (answers, _) = asked(1, link, 300);
    let took: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert!(took.iter().all(|took| *took >= 10 * MILLISECOND));
    let late = took.iter().filter(|took| **took > 21 * MILLISECOND).count();
    assert!((1..40).contains(&late), "{late} of 300");
}

#[test]
fn losses_take_time_and_too_many_of_them_the_connection() {
    let loss = |loss_per_million| Link {
        loss_per_million,
        ..distance(1)
    };
    let (answers, _) = asked(3, loss(100_000), 200);
    let took: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let late = took
        .iter()
        .filter(|took| **took > 200 * MILLISECOND)
        .count();
    assert!((10..80).contains(&late), "{late} of 200");
    // Every segment is lost, already those of the connection setup.
    let (world, _, client) = pair(3, loss(1_000_000));
    let refused = world.run(client, async { coeval_env::connect(address()).await.err() });
    let kind = refused.unwrap().map(|error| error.kind());
    assert_eq!(kind, Some(io::ErrorKind::ConnectionReset));
}

#[test]
fn resets_end_both_ends() {
    let link = Link {
        resets_per_million: 20_000,
        ..distance(1)
    };
    let (answers, _) = asked(4, link, 500);
    let broken: Vec<_> = answers
        .iter()
        .filter_map(|took| took.as_ref().err())
        .collect();
    assert!(!broken.is_empty());
    assert_eq!(broken[0].kind(), io::ErrorKind::ConnectionReset);
    assert!(answers.last().unwrap().is_err(), "and it stays broken");
}

#[test]
fn a_slow_line_is_shared() {
    let link = Link {
        bytes_per_second: Some(10_000),
        ..Link::default()
    };
    let (world, _, client) = pair(5, link);
    let took = world.run(client, async {
        coeval_env::sleep(SECOND).await;
        let started = coeval_env::now();
        let mut askers = Vec::new();
        for _ in 0..4 {
            askers.push(coeval_env::spawn("asker", async {
                let (mut read, mut write) = connect().await;
                write.write_all(&[1; 5000]).await.unwrap();
                read.read_exact(&mut vec![0; 5000]).await.unwrap();
            }));
        }
        for asker in askers {
            asker.await.unwrap();
        }
        started.elapsed()
    });
    let took = took.unwrap();
    assert!(took >= 2 * SECOND && took < 5 * SECOND, "{took:?}");
}

#[test]
fn connections_overtake_each_other() {
    let link = Link {
        latency: Latency {
            spread: 10 * MILLISECOND,
            ..Latency::default()
        },
        ..Link::default()
    };
    let mut orders = BTreeSet::new();
    for seed in 0..20 {
        let (world, _, client) = pair(seed, link);
        let order = world.run(client, async {
            coeval_env::sleep(SECOND).await;
            let mut connections = vec![connect().await, connect().await, connect().await];
            for (_, write) in &mut connections {
                write.write_u8(1).await.unwrap();
            }
            let mut askers = Vec::new();
            for (mut read, _write) in connections {
                askers.push(coeval_env::spawn("asker", async move {
                    read.read_u8().await.unwrap();
                    coeval_env::now()
                }));
            }
            let mut arrivals = Vec::new();
            for (number, asker) in askers.into_iter().enumerate() {
                arrivals.push((asker.await.unwrap(), number));
            }
            arrivals.sort();
            arrivals
                .into_iter()
                .map(|(_, number)| number)
                .collect::<Vec<_>>()
        });
        orders.insert(order.unwrap());
    }
    assert!(orders.len() > 3, "{orders:?}");
}

/// Sends requests over a link of which one direction is blocked after a second, for this
/// many seconds, and returns how the request in between ended.
fn partitioned(there: bool, seconds: u32) -> (io::Result<Duration>, u64) {
    let (world, server, client) = pair(6, distance(1));
    let asking = world.spawn(client, async {
        let (mut read, mut write) = connect().await;
        ask(&mut read, &mut write).await.unwrap();
        coeval_env::sleep(2 * SECOND).await;
        ask(&mut read, &mut write).await
    });
    let (from, to) = if there {
        (client, server)
    } else {
        (server, client)
    };
    let answer = world.block_on(async {
        world.wait(SECOND).await;
        world.block(from, to);
        world.wait(SECOND * seconds).await;
        world.unblock(from, to);
        asking.await
    });
    (answer.unwrap(), world.trace_hash())
}

#[test]
fn a_partition_delays_and_then_breaks() {
    for there in [true, false] {
        let (took, hash) = partitioned(there, 10);
        let took = took.unwrap();
        assert!(took > 8 * SECOND && took < 10 * SECOND, "{took:?}");
        assert_eq!(partitioned(there, 10).1, hash);
    }
    let (broken, _) = partitioned(true, 3600);
    assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

/// Three servers that all send requests to each other. Returns which of the six requests
/// were not answered within a second while one direction was blocked, and within ten
/// seconds once it was open again.
fn three(from: usize, to: usize) -> [Vec<(usize, usize)>; 2] {
    let world = World::new(6);
    world.set_usual_link(distance(1));
    let nodes = [world.node(), world.node(), world.node()];
    let port = |number: usize| SocketAddr::from(([127, 0, 0, 1], 70 + number as u16));
    for (number, node) in nodes.into_iter().enumerate() {
        world.spawn(node, serve_at(port(number)));
    }
    let mut asking = Vec::new();
    for (number, node) in nodes.into_iter().enumerate() {
        for other in (0..3).filter(|other| *other != number) {
            let answer = world.spawn(node, async move {
                coeval_env::sleep(MILLISECOND).await;
                let stream = coeval_env::connect(port(other)).await.unwrap();
                let (mut read, mut write) = stream.into_split();
                ask(&mut read, &mut write).await.unwrap();
                coeval_env::sleep(2 * SECOND).await;
                ask(&mut read, &mut write).await.unwrap()
            });
            asking.push(((number, other), answer));
        }
    }
    world.block_on(async {
        world.wait(SECOND).await;
        world.block(nodes[from], nodes[to]);
        world.wait(2 * SECOND).await;
        let waits = |(_, answer): &&(_, coeval_env::JoinHandle<_>)| !answer.is_finished();
        let waiting = asking.iter().filter(waits).map(|(pair, _)| *pair).collect();
        world.unblock(nodes[from], nodes[to]);
        world.wait(10 * SECOND).await;
        let still = asking.iter().filter(waits).map(|(pair, _)| *pair).collect();
        [waiting, still]
    })
}

#[test]
fn blocking_one_way_between_two_blocks_nobody_else() {
    for from in 0..3 {
        for to in (0..3).filter(|to| *to != from) {
            // The request in this direction, and the one whose answer takes this direction.
            let [mut waiting, still] = three(from, to);
            waiting.sort_unstable();
            let mut both = [(from, to), (to, from)];
            both.sort_unstable();
            assert_eq!(waiting, both);
            assert_eq!(still, []);
        }
    }
}

#[test]
fn who_connects_across_a_partition_tries_again_and_gives_up() {
    for (seconds, connects) in [(10, true), (200, false)] {
        let (world, server, client) = pair(7, distance(1));
        world.block(server, client);
        let connecting = world.spawn(client, async {
            coeval_env::connect(address()).await.is_ok()
        });
        let connected = world.block_on(async {
            world.wait(SECOND * seconds).await;
            world.unblock(server, client);
            connecting.await
        });
        assert_eq!(connected, Ok(connects));
    }
}

#[test]
fn nobody_is_told_when_the_power_fails() {
    let (world, server, client) = pair(8, distance(1));
    let asking = world.spawn(client, async {
        let (mut read, _write) = connect().await;
        let asked = coeval_env::now();
        (read.read_u8().await.unwrap_err().kind(), asked.elapsed())
    });
    let (kind, after) = world
        .block_on(async {
            world.wait(SECOND).await;
            world.crash(server);
            asking.await
        })
        .unwrap();
    assert_eq!(kind, io::ErrorKind::ConnectionReset);
    assert!(after > SECOND, "{after:?}");
}

#[test]
fn connections_can_be_broken() {
    let (world, server, client) = pair(9, distance(1));
    let asking = world.spawn(client, async {
        let (mut read, _write) = connect().await;
        read.read_u8().await.unwrap_err().kind()
    });
    let kind = world.block_on(async {
        world.wait(SECOND).await;
        world.break_connections(client, server);
        asking.await
    });
    assert_eq!(kind, Ok(io::ErrorKind::ConnectionReset));
}

#[test]
fn who_waits_for_nothing_is_stuck() {
    let world = World::new(1);
    let node = world.node();
    let stuck = world.run(node, std::future::pending::<()>());
    assert_eq!(stuck, Err(JoinError::Stuck));
    let circle = world.run(node, async {
        let (one, other) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let waits = async {
            one.notified().await;
            other.notify_one();
        };
        let waits_too = async {
            other.notified().await;
            one.notify_one();
        };
        tokio::join!(biased; waits, waits_too);
    });
    assert_eq!(circle, Err(JoinError::Stuck));
}

#[test]
fn clocks_drift_and_jump_and_timers_go_by_them() {
    let world = World::new(1);
    let (exact, fast) = (world.node(), world.node());
    world.set_drift(fast, 100_000);
    world.move_wall_clock(fast, -5000);
    let hour = 3600 * SECOND;
    let measure = || async move {
        let (now, wall) = (coeval_env::now(), coeval_env::wall_clock());
        coeval_env::sleep(hour).await;
        (now.elapsed(), coeval_env::wall_clock() - wall, wall)
    };
    let by_fast = world.spawn(fast, measure());
    let by_exact = world.spawn(exact, measure());
    let (by_fast, truly) = world.block_on(async { (by_fast.await.unwrap(), world.elapsed()) });
    let by_exact = world.block_on(by_exact).unwrap();
    let about = |one: Duration, other: Duration| one.abs_diff(other) < MILLISECOND;
    assert!(
        about(by_fast.0, hour) && about(by_fast.1, hour),
        "{by_fast:?}"
    );
    assert!(about(truly, hour * 10 / 11), "{truly:?}");
    assert!(about(by_exact.0, hour));
    assert!(about(by_exact.2 - by_fast.2, 5 * SECOND));

    // A jump affects only the wall clock, and a rate changes without one.
    let before = world.run(fast, async {
        (coeval_env::now(), coeval_env::wall_clock())
    });
    world.move_wall_clock(fast, 60_000);
    world.set_drift(fast, -100_000);
    let after = world.run(fast, async {
        (coeval_env::now(), coeval_env::wall_clock())
    });
    let (before, after) = (before.unwrap(), after.unwrap());
    assert!(after.0 - before.0 < MILLISECOND);
    assert!(about(after.1 - before.1, 60 * SECOND));
}

#[test]
fn a_paused_node_does_nothing_and_then_goes_on() {
    let (world, server, client) = pair(10, distance(1));
    let asking = world.spawn(client, async {
        let (mut read, mut write) = connect().await;
        coeval_env::sleep(2 * SECOND).await;
        ask(&mut read, &mut write).await
    });
    let took = world.block_on(async {
        world.wait(SECOND).await;
        world.pause(server);
        world.wait(10 * SECOND).await;
        world.resume(server);
        asking.await
    });
    let took = took.unwrap().unwrap();
    assert!(took > 8 * SECOND && took < 10 * SECOND, "{took:?}");
}

#[test]
fn work_takes_time_and_cores_are_shared() {
    let took = |cores, tasks: u32| {
        let world = World::new(1);
        let node = world.node();
        let cpu = Cpu {
            cores,
            prices: Prices {
                poll: Duration::from_micros(1),
                read: Duration::from_micros(4),
                ..Prices::default()
            },
        };
        world.set_cpu(node, Some(cpu));
        let took = world.run(node, async move {
            let started = coeval_env::now();
            let workers: Vec<_> = (0..tasks)
                .map(|_| {
                    coeval_env::spawn("worker", async {
                        for _ in 0..100 {
                            coeval_env::spend(Duration::from_micros(5));
                            coeval_env::work(Work::Read, 1);
                            coeval_env::yield_now().await;
                        }
                    })
                })
                .collect();
            for worker in workers {
                worker.await.unwrap();
            }
            started.elapsed()
        });
        let busy = world.processor_time(node);
        let work = tasks * Duration::from_micros(10 * 100);
        assert!(busy >= work && busy < work * 11 / 10, "{busy:?}");
        took.unwrap()
    };
    let alone = took(1, 1);
    assert!(
        alone >= MILLISECOND && alone < MILLISECOND * 11 / 10,
        "{alone:?}"
    );
    let queued = took(1, 8);
    assert!(
        queued >= 8 * MILLISECOND && queued < 9 * MILLISECOND,
        "{queued:?}"
    );
    let spread = took(4, 8);
    assert!(
        spread >= 2 * MILLISECOND && spread < 3 * MILLISECOND,
        "{spread:?}"
    );
}

#[test]
fn answers_leave_when_the_work_before_them_is_done() {
    let round_trip = |prices| {
        let (world, server, client) = pair(1, Link::default());
        world.set_cpu(server, Some(Cpu { cores: 1, prices }));
        let took = world.run(client, async {
            let (mut read, mut write) = connect().await;
            ask(&mut read, &mut write).await.unwrap();
            coeval_env::sleep(SECOND).await;
            ask(&mut read, &mut write).await.unwrap()
        });
        (took.unwrap(), world.processor_time(server))
    };
    let idle = round_trip(Prices::default());
    assert_eq!(idle, (Duration::ZERO, Duration::ZERO));
    let prices = Prices {
        wake: Duration::from_micros(7),
        receive: Duration::from_micros(20),
        send: Duration::from_micros(300),
        ..Prices::default()
    };
    let (took, busy) = round_trip(prices);
    assert_eq!(took, Duration::from_micros(327));
    assert!(busy >= 2 * took, "{busy:?}");
}

#[test]
fn whoever_works_finds_what_is_ready_before_others_are_woken() {
    let busy = |pause: Duration| {
        let world = World::new(1);
        let node = world.node();
        let prices = Prices {
            poll: Duration::from_micros(3),
            wake: Duration::from_micros(20),
            ..Prices::default()
        };
        world.set_cpu(node, Some(Cpu { cores: 2, prices }));
        let done = world.run(node, async move {
            for _ in 0..100 {
                coeval_env::sleep(pause).await;
                coeval_env::spawn("other", async {}).await.unwrap();
            }
        });
        done.unwrap();
        world.processor_time(node)
    };
    let awake = busy(Duration::ZERO);
    assert!(awake < Duration::from_micros(1000), "{awake:?}");
    let asleep = busy(MILLISECOND);
    let woken = asleep.saturating_sub(awake).as_micros() / 20;
    assert!((95..150).contains(&woken), "{awake:?} {asleep:?}");
}

/// A disk with a file of two synced sectors of ones.
async fn ones() -> fs::File {
    let file = fs::open("/ones", OpenOptions::CREATE).await.unwrap();
    file.write_at(&[1; 1024], 0).await.unwrap();
    file.sync_all().await.unwrap();
    fs::sync_dir("/").await.unwrap();
    file
}

#[test]
fn sectors_tear_when_they_may() {
    let mut torn = BTreeSet::new();
    for seed in 0..50 {
        let world = World::new(seed);
        let node = world.node();
        world.set_torn_sectors(node, true);
        let write = async { ones().await.write_at(&[2; 512], 512).await.unwrap() };
        world.run(node, write).unwrap();
        world.crash(node);
        let bytes = &world.files(node)[0].1;
        assert!(bytes[..512].iter().all(|byte| *byte == 1), "synced");
        let twos = bytes[512..].iter().take_while(|byte| **byte == 2).count();
        assert!(bytes[512 + twos..].iter().all(|byte| *byte == 1));
        torn.insert(twos);
    }
    assert!(torn.len() > 10, "{torn:?}");
}

#[test]
fn a_bit_flips_unseen_and_durably() {
    let world = World::new(2);
    let node = world.node();
    world.run(node, ones()).unwrap();
    assert_eq!(world.flip_bit(node, |_| false), None);
    let (path, offset) = world.flip_bit(node, |_| true).unwrap();
    assert_eq!(path.to_str(), Some("/ones"));
    world.crash(node);
    let bytes = &world.files(node)[0].1;
    for (at, byte) in bytes.iter().enumerate() {
        let flipped = u32::from(at as u64 == offset);
        assert_eq!((byte ^ 1).count_ones(), flipped);
    }
}

#[test]
fn a_misdirected_write_reports_success_and_lands_elsewhere() {
    let world = World::new(2);
    let node = world.node();
    world.set_loss(node, Loss::Everything);
    // The fifth change, the one after those of `ones`.
    world.misdirect_write_at(node, Some(4));
    let write = async {
        let file = ones().await;
        file.write_at(&[2; 512], 0).await.unwrap();
        file.sync_all().await.unwrap();
    };
    world.run(node, write).unwrap();
    world.crash(node);
    let bytes = &world.files(node)[0].1;
    assert!(
        bytes[..512].iter().all(|byte| *byte == 1),
        "where it should be"
    );
    assert!(bytes[512..].iter().all(|byte| *byte == 2), "where it is");
}

#[test]
fn syncs_and_writes_fail_for_as_long_as_they_are_to_and_take_their_time() {
    let world = World::new(2);
    let node = world.node();
    let file = world.run(node, ones()).unwrap();
    world.fail_syncs(node, true);
    world.fail_writes(node, true);
    let (file, failed) = world
        .run(node, async move {
            let failed = (
                file.sync_data().await.is_err(),
                file.write_at(b"x", 0).await.is_err(),
                file.sync_data().await.is_err(),
            );
            (file, failed)
        })
        .unwrap();
    assert_eq!(failed, (true, true, true));
    world.fail_syncs(node, false);
    world.fail_writes(node, false);
    world.set_sync_time(node, 3 * SECOND..4 * SECOND);
    let took = world.run(node, async move {
        let started = coeval_env::now();
        file.write_at(b"x", 0).await.unwrap();
        file.sync_data().await.unwrap();
        started.elapsed()
    });
    assert!((3 * SECOND..=4 * SECOND).contains(&took.unwrap()));
}

#[test]
fn a_disk_that_is_replaced_is_lost_for_good_and_the_new_one_is_as_good_as_any() {
    let world = World::new(2);
    let (node, other) = (world.node(), world.node());
    for node in [node, other] {
        drop(world.run(node, ones()).unwrap());
    }
    world.fail_syncs(node, true);
    world.set_capacity(node, 1024);
    world.set_loss(node, Loss::Everything);
    world.kill(node);
    world.replace_disk(node);
    assert!(world.files(node).is_empty());
    assert_eq!(world.disk_changes(node), 0);

    // The faults of the old disk are gone with it, its durable contents do not come back,
    // and contents made durable on the new one stay.
    let found = world.run(node, async {
        let found = fs::read("/ones").await.err().map(|error| error.kind());
        let file = fs::open("/new", OpenOptions::CREATE).await.unwrap();
        file.write_at(&[3; 4096], 0).await.unwrap();
        file.sync_all().await.unwrap();
        fs::sync_dir("/").await.unwrap();
        found
    });
    assert_eq!(found, Ok(Some(io::ErrorKind::NotFound)));
    world.set_loss(node, Loss::Everything);
    world.crash(node);
    let files = world.files(node);
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].0.ends_with("new") && files[0].1 == [3; 4096]);
    // Another machine's disk is unaffected.
    assert_eq!(world.files(other)[0].1, [1; 1024]);
}

/// State of a node that joins after this many seconds: the time an answer takes, how far
/// its wall clock is ahead of that of a node that was there from the start, and the world's
/// final hash.
fn joined(seconds: u32) -> (Duration, Duration, u64) {
    let (world, server, client) = pair(11, distance(5));
    let from_the_start = world.run(server, async { coeval_env::wall_clock() });
    let asking = world.spawn(client, async {
        let (mut read, mut write) = connect().await;
        coeval_env::sleep(SECOND * 60).await;
        ask(&mut read, &mut write).await.is_ok()
    });
    let (took, shown) = world.block_on(async {
        world.wait(SECOND * seconds).await;
        let new = world.node();
        assert_eq!(new.number(), 2);
        assert!(world.files(new).is_empty());
        // The node has a link of its own, from the start.
        world.set_link(new, server, Some(distance(20)));
        let joining = world.spawn(new, async {
            let shown = coeval_env::wall_clock();
            drop(ones().await);
            let (mut read, mut write) = connect().await;
            (ask(&mut read, &mut write).await.unwrap(), shown)
        });
        let found = joining.await.unwrap();
        assert_eq!(world.files(new).len(), 1);
        // Its crash affects no other node.
        world.crash(new);
        assert_eq!(asking.await, Ok(true));
        found
    });
    assert!(world.files(server).is_empty() && world.files(client).is_empty());
    (took, shown - from_the_start.unwrap(), world.trace_hash())
}

#[test]
fn a_node_joins_a_world_that_goes_on() {
    for seconds in [1, 30] {
        let (took, passed, hash) = joined(seconds);
        assert_eq!(took, 25 * MILLISECOND, "20 there and 5 back");
        assert_eq!(passed.as_secs(), u64::from(seconds), "{passed:?}");
        assert_eq!(joined(seconds).2, hash);
    }
}

#[test]
fn a_seed_decides_the_accidents_too() {
    let link = Link {
        latency: Latency {
            least: MILLISECOND,
            spread: 5 * MILLISECOND,
            tail_per_million: 50_000,
            tail: SECOND,
        },
        loss_per_million: 50_000,
        resets_per_million: 1000,
        bytes_per_second: Some(100_000),
        ..Link::default()
    };
    let mut hashes = BTreeSet::new();
    for seed in 0..10 {
        let (answers, hash) = asked(seed, link, 50);
        let (again, same) = asked(seed, link, 50);
        assert_eq!(format!("{answers:?}"), format!("{again:?}"));
        assert_eq!(hash, same);
        hashes.insert(hash);
    }
    assert_eq!(hashes.len(), 10);
}
