//! Three nodes on bad links: after any faults they reconnect, and the frames received on a
//! connection are a prefix of the frames sent on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use coeval_env::sim::{Latency, Link, Node, World};
use coeval_peers::{Connection, Event, Inbox, Loss, NodeId, Peers, SendError, Settings};

use crate::support::{CONSENSUS, MILLISECOND, SECOND, members, start};

/// The frames and connections that a node has seen.
#[derive(Default)]
struct Seen {
    /// The last number received from each node, and on which of its connections.
    last: BTreeMap<NodeId, (u32, u32)>,
    frames: u32,
    standing: usize,
}

fn encode(connection: u32, number: u32) -> Vec<u8> {
    [connection.to_le_bytes(), number.to_le_bytes()].concat()
}

fn decode(payload: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_le_bytes(payload[at..at + 4].try_into().unwrap());
    (word(0), word(4))
}

/// Sends numbers to every other node, and checks the numbers received.
async fn live(node: u64, seen: Rc<RefCell<Seen>>) {
    let (peers, mut inbox): (Peers, Inbox) =
        start(node, members([1, 2, 3]), Settings::default()).await;
    let mut next: BTreeMap<NodeId, (u32, u32)> = BTreeMap::new();
    let mut turn = coeval_env::now();
    loop {
        turn += 20 * MILLISECOND;
        loop {
            tokio::select! {
                biased;
                event = inbox.next() => look(event.unwrap(), &mut next, &seen),
                () = coeval_env::sleep_until(turn) => break,
            }
        }
        for (to, (connection, number)) in &mut next {
            let payload = encode(*connection, *number).into();
            match peers.send(*to, CONSENSUS, payload, Loss::Kept) {
                Ok(()) => *number += 1,
                Err(SendError::NotConnected | SendError::Full) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let status = peers.status();
        let standing = status
            .iter()
            .filter(|status| matches!(status.connection, Connection::Standing(_)));
        seen.borrow_mut().standing = standing.count();
    }
}

fn look(event: Event, next: &mut BTreeMap<NodeId, (u32, u32)>, seen: &Rc<RefCell<Seen>>) {
    match event {
        Event::Connected(node) => {
            let (connection, number) = next.entry(node).or_default();
            (*connection, *number) = (*connection + 1, 0);
        }
        Event::Disconnected(..) => {}
        Event::Frame(frame) => {
            let mut seen = seen.borrow_mut();
            seen.frames += 1;
            let (connection, number) = decode(&frame.payload);
            if let Some(&(before, last)) = seen.last.get(&frame.from) {
                if connection == before {
                    assert_eq!(number, last + 1, "a frame is missing, or came twice");
                } else {
                    assert!(connection > before, "a frame of a connection that is over");
                    assert_eq!(number, 0, "a connection begins with its first frame");
                }
            }
            seen.last.insert(frame.from, (connection, number));
        }
    }
}

/// Half a minute of faults, and the frames counted.
fn run(seed: u64) -> (u64, Vec<u32>) {
    let world = World::new(seed);
    world.set_usual_link(Link {
        latency: Latency {
            least: MILLISECOND,
            spread: 2 * MILLISECOND,
            tail_per_million: 1000,
            tail: 100 * MILLISECOND,
        },
        loss_per_million: 1000,
        resets_per_million: 50,
        ..Link::default()
    });
    let nodes: Vec<Node> = (0..3).map(|_| world.node()).collect();
    let seen: Vec<_> = (0..3)
        .map(|_| Rc::new(RefCell::new(Seen::default())))
        .collect();
    for (index, node) in nodes.iter().enumerate() {
        world.spawn(*node, live(index as u64 + 1, Rc::clone(&seen[index])));
    }
    let all_stand = || seen.iter().all(|seen| seen.borrow().standing == 2);
    let mut random = seed;
    let mut draw = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    world.block_on(async {
        world.wait(2 * SECOND).await;
        assert!(all_stand());
        for _ in 0..6 {
            // One direction or both, between two of the nodes.
            let from = draw(3) as usize;
            let to = (from + 1 + draw(2) as usize) % 3;
            let both = draw(2) == 0;
            world.block(nodes[from], nodes[to]);
            if both {
                world.block(nodes[to], nodes[from]);
            }
            if draw(3) == 0 {
                world.break_connections(nodes[from], nodes[to]);
            }
            world.wait(Duration::from_millis(100 + draw(8000))).await;
            world.unblock(nodes[from], nodes[to]);
            world.unblock(nodes[to], nodes[from]);
            world.wait(Duration::from_millis(draw(2000))).await;
        }
        // Attempts under way time out, and then the longest wait passes.
        world.wait(8 * SECOND).await;
        assert!(all_stand(), "they have not found each other again");
    });
    let frames = seen.iter().map(|seen| seen.borrow().frames).collect();
    (world.trace_hash(), frames)
}

#[test]
fn nodes_find_each_other_again_and_frames_keep_their_order() {
    for seed in 0..4 {
        let (_, frames) = run(seed);
        assert!(frames.iter().all(|frames| *frames > 500), "{frames:?}");
    }
}

#[test]
fn a_seed_decides_everything() {
    let first = run(7);
    assert_eq!(first, run(7));
}
