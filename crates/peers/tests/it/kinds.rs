//! Frames of kinds that a later build has, and this build does not know.

use coeval_env::sim::World;
use coeval_peers::frame::{HEADER_BYTES, Header, Tag};
use coeval_peers::handshake::{Answer, Hello, VERSIONS};
use coeval_peers::{
    Connection, Event, Kinds, Loss, MessageKind, NodeId, Peers, Security, SendError, Settings,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    Alone, KINDS, LOG, MILLISECOND, SECOND, address, by_hand, bytes_of, connected, frame, identity,
    members, start,
};

const LATER: MessageKind = MessageKind::new(77);

#[test]
fn a_frame_of_an_unknown_kind_is_skipped_and_counted() {
    let settings = Settings {
        frame_bytes: 100_000,
        ..Settings::default()
    };
    let alone = Alone::new(1, settings);
    let client = alone.world.node();
    // Frames of all numbers that are unknown here, up to the maximum length.
    let mut foreign = bytes_of(Tag::Payload(LATER), &[7; 100_000]);
    for number in [0, 130, u8::MAX] {
        let mut frame = bytes_of(Tag::Payload(LATER), b"");
        frame[4] = number;
        let checksum = crc32c::crc32c(&frame[..12]);
        frame[12..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        foreign.extend(frame);
    }
    let ran = alone.world.run(client, async move {
        let mut stream = by_hand().await;
        let known = |payload: &[u8]| bytes_of(Tag::Payload(LOG), payload);
        for bytes in [known(b"before"), foreign, known(b"after")] {
            stream.write_all(&bytes).await.unwrap();
        }
        coeval_env::sleep(SECOND).await;
        stream
    });
    let stream = ran.unwrap();
    assert_eq!(alone.payloads(), [&b"before"[..], b"after"]);
    let status = &alone.peers.status()[0];
    assert_eq!((status.skipped, status.received.frames), (4, 2));
    assert_eq!(status.fault_of_its, None, "the connection stands");
    drop(stream);
}

#[test]
fn a_node_of_a_later_build_talks_to_one_that_knows_fewer_kinds() {
    const MORE: Kinds = Kinds {
        urgent: KINDS.urgent,
        other: &[LATER],
    };
    let world = World::new(2);
    let (one, two) = (world.node(), world.node());
    let receiver = world.spawn(two, async {
        let (peers, mut inbox) = start(2, members([1, 2]), Settings::default()).await;
        let first = frame(&mut inbox).await.payload;
        let second = frame(&mut inbox).await.payload;
        (first, second, peers.status()[0].skipped)
    });
    let sent = world.run(one, async {
        let settings = Settings::default();
        let all = members([1, 2]);
        let started = Peers::start(
            identity(1),
            address(1),
            all,
            Security::Plain,
            settings,
            MORE,
        );
        let (peers, mut inbox) = started.await.unwrap();
        connected(&mut inbox, 2).await;
        let to = NodeId(2);
        peers.send(to, LOG, "before".into(), Loss::Kept).unwrap();
        peers.send(to, LATER, "news".into(), Loss::Kept).unwrap();
        // The next frame's lane has priority: it is sent once this frame is in flight.
        coeval_env::sleep(100 * MILLISECOND).await;
        peers.send(to, LOG, "after".into(), Loss::Kept).unwrap();
        while !matches!(inbox.next().await, Some(Event::Disconnected(..))) {}
        let refused = peers.send(to, LATER, "x".into(), Loss::Kept);
        assert_eq!(refused, Err(SendError::NotConnected));
    });
    sent.unwrap();
    let (first, second, skipped) = world.block_on(receiver).unwrap();
    assert_eq!((&first[..], &second[..]), (&b"before"[..], &b"after"[..]));
    assert_eq!(skipped, 1);
}

#[test]
fn who_connects_skips_what_it_does_not_know_as_well() {
    let world = World::new(3);
    let node = world.node();
    let ran = world.run(node, async {
        let listener = coeval_env::listen(address(1)).await.unwrap();
        coeval_env::spawn("a later build", async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = Hello::read(&mut stream).await;
                let answer = Answer {
                    from: identity(1),
                    announced: None,
                    verdict: Ok(*VERSIONS.end()),
                };
                let _ = stream.write_all(&answer.encode()).await;
                let news = bytes_of(Tag::Payload(LATER), b"news");
                let _ = stream.write_all(&news).await;
                // The node answers each ping with its number.
                let mut ping = [0; HEADER_BYTES + 8];
                while stream.read_exact(&mut ping).await.is_ok() {
                    let head = ping.first_chunk().unwrap();
                    assert_eq!(Header::decode(head, 4096).unwrap().tag, Tag::Ping);
                    let alive = bytes_of(Tag::Alive, &ping[HEADER_BYTES..]);
                    let _ = stream.write_all(&alive).await;
                }
            }
        });
        let (peers, _inbox) = start(2, members([1, 2]), Settings::default()).await;
        coeval_env::sleep(10 * SECOND).await;
        let status = peers.status().remove(0);
        assert!(matches!(status.connection, Connection::Standing(_)));
        assert_eq!((status.connects, status.skipped), (1, 1));
        assert!(status.round_trip.is_some());
    });
    ran.unwrap();
}
