//! Senders that are faster than their receivers.

use bytes::Bytes;
use coeval_env::sim::World;
use coeval_peers::{Connection, Event, Loss, NodeId, SendError, Settings};

use crate::support::{
    CHECKPOINT, CONSENSUS, LOG, MILLISECOND, SECOND, SESSION, connected, frame, members, start,
};

fn small() -> Settings {
    Settings {
        frame_bytes: 4096,
        queue_bytes: 64 << 10,
        receive_bytes: 64 << 10,
        ..Settings::default()
    }
}

fn numbered(number: u32) -> Bytes {
    let mut payload = vec![0; 1000];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    payload.into()
}

fn number(payload: &[u8]) -> u32 {
    u32::from_le_bytes(payload[..4].try_into().unwrap())
}

#[test]
fn who_is_behind_slows_the_sender_down_and_loses_nothing() {
    let world = World::new(1);
    let (one, two) = (world.node(), world.node());
    let receiver = world.spawn(two, async {
        let (_peers, mut inbox) = start(2, members([1, 2]), small()).await;
        let mut next = 0;
        // Longer than the silence after which a node is considered dead.
        coeval_env::sleep(10 * SECOND).await;
        while next < 2000 {
            assert_eq!(number(&frame(&mut inbox).await.payload), next);
            next += 1;
        }
        // Until the sender has checked its counters.
        while !matches!(inbox.next().await, Some(Event::Disconnected(..))) {}
    });
    let sent = world.run(one, async {
        let (peers, mut inbox) = start(1, members([1, 2]), small()).await;
        connected(&mut inbox, 2).await;
        let to = NodeId(2);
        let began = coeval_env::now();
        let mut waited = 0;
        for number in 0..2000 {
            while let Err(error) = peers.send(to, LOG, numbered(number), Loss::Kept) {
                assert_eq!(error, SendError::Full);
                waited += 1;
                assert!(peers.status()[0].queued.bytes <= 64 << 10);
                peers.room(to, LOG, 1000).await.unwrap();
            }
        }
        assert!(began.elapsed() > 9 * SECOND, "{:?}", began.elapsed());
        coeval_env::sleep(SECOND).await;
        let status = peers.status().remove(0);
        assert!(matches!(status.connection, Connection::Standing(_)));
        assert_eq!((status.connects, status.sent.frames), (1, 2000));
        assert_eq!(
            (status.full, status.dropped, status.forgotten),
            (waited, 0, 0)
        );
        assert!(waited > 0);
        assert!(status.round_trip.is_some());
    });
    sent.unwrap();
    world.block_on(receiver).unwrap();
}

#[test]
fn a_heartbeat_does_not_wait_behind_a_checkpoint() {
    let world = World::new(2);
    let (one, two) = (world.node(), world.node());
    let receiver = world.spawn(two, async {
        let (_peers, mut inbox) = start(2, members([1, 2]), small()).await;
        coeval_env::sleep(SECOND).await;
        let mut kinds = Vec::new();
        while kinds.last() != Some(&SESSION) {
            kinds.push(frame(&mut inbox).await.kind);
        }
        let heartbeat = kinds.iter().position(|kind| *kind == CONSENSUS);
        let pieces = kinds.iter().filter(|kind| **kind == CHECKPOINT);
        (heartbeat.unwrap(), pieces.count())
    });
    let sent = world.run(one, async {
        let (peers, mut inbox) = start(1, members([1, 2]), small()).await;
        connected(&mut inbox, 2).await;
        let to = NodeId(2);
        let mut pieces = 0;
        // Until the receiver reads no more, and the sender's queue is full.
        loop {
            match peers.send(to, CHECKPOINT, vec![7; 4096].into(), Loss::Kept) {
                Ok(()) => pieces += 1,
                Err(_) => {
                    let room = peers.room(to, CHECKPOINT, 4096);
                    if coeval_env::timeout(100 * MILLISECOND, room).await.is_err() {
                        break;
                    }
                }
            }
        }
        peers
            .send(to, CONSENSUS, "beat".into(), Loss::Droppable)
            .unwrap();
        peers.room(to, SESSION, 4).await.unwrap();
        while peers.send(to, SESSION, "ask".into(), Loss::Kept).is_err() {
            peers.room(to, SESSION, 3).await.unwrap();
        }
        coeval_env::sleep(SECOND).await;
        pieces
    });
    let pieces = sent.unwrap();
    let (heartbeat, arrived) = world.block_on(receiver).unwrap();
    assert_eq!(arrived, pieces);
    assert!(heartbeat + 10 < pieces, "{heartbeat} of {pieces}");
}

#[test]
fn what_may_be_lost_gives_way_and_is_counted() {
    let world = World::new(3);
    let (one, two) = (world.node(), world.node());
    world.spawn(two, async {
        let (_peers, _inbox) = start(2, members([1, 2]), small()).await;
        std::future::pending::<()>().await;
    });
    let sent = world.run(one, async {
        let (peers, mut inbox) = start(1, members([1, 2]), small()).await;
        connected(&mut inbox, 2).await;
        for number in 0..1000 {
            let sent = peers.send(NodeId(2), CONSENSUS, numbered(number), Loss::Droppable);
            assert_eq!(sent, Ok(()));
            assert!(peers.status()[0].queued.bytes <= 64 << 10);
        }
        let status = peers.status().remove(0);
        assert!(status.dropped > 800, "{status:?}");
        let long = peers.send(NodeId(2), LOG, vec![0; 4097].into(), Loss::Kept);
        assert_eq!(long, Err(SendError::TooLong));
        let nobody = peers.send(NodeId(3), LOG, "x".into(), Loss::Kept);
        assert_eq!(nobody, Err(SendError::Unknown));
    });
    sent.unwrap();
}
