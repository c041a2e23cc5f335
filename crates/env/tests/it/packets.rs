//! Effects of packet faults on a connection: delay, and no other visible effect.

use std::time::Duration;

use coeval_env::sim::{Link, Traffic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::accidents::{MILLISECOND, SECOND, connect, distance, pair};

/// Time until a large burst, sent at once, is answered, with the fates of its segments.
fn burst(link: Link) -> (Duration, Traffic, u64) {
    let (world, _, client) = pair(5, link);
    let took = world.run(client, async {
        coeval_env::sleep(SECOND).await;
        let (mut read, mut write) = connect().await;
        let started = coeval_env::now();
        for _ in 0..10 {
            write.write_all(&[1; 500]).await.unwrap();
        }
        read.read_exact(&mut vec![0; 5000]).await.unwrap();
        started.elapsed()
    });
    (took.unwrap(), world.traffic(), world.trace_hash())
}

#[test]
fn what_comes_twice_takes_twice_the_line() {
    let narrow = Link {
        bytes_per_second: Some(10_000),
        ..distance(1)
    };
    let twice = |link| Link {
        repeats_per_million: 1_000_000,
        ..link
    };
    let (once, traffic, _) = burst(narrow);
    assert!(once >= SECOND / 2 && once < SECOND * 6 / 10, "{once:?}");
    assert_eq!(traffic.repeated, 0);
    let (took, traffic, hash) = burst(twice(narrow));
    assert!(took >= once * 19 / 10, "{took:?} instead of {once:?}");
    assert_eq!(traffic.repeated, traffic.segments);
    assert_eq!(burst(twice(narrow)).2, hash);
    // On a line of unlimited bandwidth the copies cost nothing.
    let (once, ..) = burst(distance(1));
    let (took, traffic, _) = burst(twice(distance(1)));
    assert_eq!(took, once);
    assert!(traffic.repeated > 10);
}

/// Arrival times of the answers to many requests, sent a millisecond apart on two
/// connections in turn, where requests take this link.
fn asked_in_turn(link: Link) -> (Vec<[Duration; 2]>, Traffic, u64) {
    const QUESTIONS: u8 = 50;
    let (world, server, client) = pair(8, distance(1));
    world.set_link(client, server, Some(link));
    let arrivals = world.run(client, async {
        let mut writers = Vec::new();
        let mut readers = Vec::new();
        coeval_env::sleep(SECOND).await;
        let started = coeval_env::now();
        for _ in 0..2 {
            let (mut read, write) = connect().await;
            writers.push(write);
            readers.push(coeval_env::spawn("reader", async move {
                let mut arrivals = Vec::new();
                for question in 0..QUESTIONS {
                    // Whatever happens to packets, a stream is whole and in order.
                    assert_eq!(read.read_u8().await.unwrap(), question + 1);
                    arrivals.push(coeval_env::now().duration_since(started));
                }
                arrivals
            }));
        }
        for question in 0..QUESTIONS {
            for write in &mut writers {
                write.write_u8(question).await.unwrap();
                coeval_env::sleep(MILLISECOND).await;
            }
        }
        let mut arrivals = Vec::new();
        for reader in readers {
            arrivals.push(reader.await.unwrap());
        }
        let [one, other] = arrivals.try_into().unwrap();
        one.into_iter()
            .zip(other)
            .map(<[Duration; 2]>::from)
            .collect()
    });
    (arrivals.unwrap(), world.traffic(), world.trace_hash())
}

#[test]
fn what_is_out_of_order_keeps_its_connection_waiting_and_no_other() {
    let (plain, traffic, _) = asked_in_turn(distance(1));
    assert_eq!(traffic.detoured, 0);
    assert!(plain.windows(2).all(|two| two[0][1] < two[1][0]));
    let link = Link {
        detours_per_million: 100_000,
        detour: 20 * MILLISECOND,
        ..distance(1)
    };
    let (arrivals, traffic, hash) = asked_in_turn(link);
    assert!((3..40).contains(&traffic.detoured), "{traffic:?}");
    // Sent two milliseconds apart, and arrived together: the second waited for the first.
    let waited = |side: usize| {
        let times = arrivals.windows(2);
        let times = times.filter(|two| two[0][side] == two[1][side]);
        times.count()
    };
    assert!(waited(0) > 0 && waited(1) > 0);
    let overtaken = arrivals.iter().filter(|[one, other]| one > other);
    assert!(overtaken.count() > 0, "{arrivals:?}");
    assert_eq!(asked_in_turn(link).2, hash);
}
