//! Hostile or broken peers: a node refuses them with a reason, and its members are not
//! affected.

use std::time::Duration;

use coeval_env::sim::World;
use coeval_peers::frame::Tag;
use coeval_peers::handshake::{Hello, Purpose, VERSIONS, greet};
use coeval_peers::{
    ClusterId, Connection, Identity, MessageKind, NodeId, Peers, Reason, Security, Settings,
    StartError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    Alone, CLUSTER, KINDS, LOG, MILLISECOND, SECOND, address, by_hand, bytes_of, connected, hello,
    identity, members, start,
};

#[test]
fn each_refusal_is_told_with_its_reason() {
    let alone = Alone::new(1, Settings::default());
    let client = alone.world.node();
    let fine = hello(Purpose::Frames);
    let from = |cluster, node| Hello {
        from: Identity {
            cluster,
            node: NodeId(node),
        },
        ..fine.clone()
    };
    let cases = [
        (
            Hello {
                versions: 7..=9,
                ..fine.clone()
            },
            Reason::Version,
            "node 2 speaks 7 to 9, node 1 speaks 4",
        ),
        (
            from(ClusterId(9), 2),
            Reason::Cluster,
            "node 1 is of cluster 00000000000000000000000000c0e7a1, node 2 of cluster \
             00000000000000000000000000000009",
        ),
        (
            from(CLUSTER, 1),
            Reason::OwnId,
            "1 is the id of the node that was asked",
        ),
        (
            Hello {
                to: NodeId(3),
                ..fine.clone()
            },
            Reason::Addressee,
            "this is node 1, not node 3",
        ),
        (
            from(CLUSTER, 4),
            Reason::Removed,
            "node 4 has been removed from the cluster",
        ),
        (
            from(CLUSTER, 5),
            Reason::Unknown,
            "node 1 knows no member with the id 5",
        ),
    ];
    let count = cases.len() as u64;
    let ran = alone.world.run(client, async move {
        for (hello, reason, words) in cases {
            let mut stream = coeval_env::connect(address(1)).await.unwrap();
            let answer = greet(&mut stream, &hello).await.unwrap();
            let refusal = answer.verdict.unwrap_err();
            assert_eq!(refusal.reason, reason);
            assert!(refusal.words().contains(words), "{refusal}");
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "it is closed");
        }
        by_hand().await;
    });
    ran.unwrap();
    let door = alone.peers.door();
    assert_eq!(
        (door.came, door.refused, door.let_in),
        (count + 1, count, 1)
    );
}

#[test]
fn a_node_that_is_refused_shows_why_and_gets_in_when_that_has_changed() {
    let alone = Alone::new(2, Settings::default());
    let two = alone.world.node();
    let peers = std::rc::Rc::clone(&alone.peers);
    let ran = alone.world.run(two, async move {
        let (stranger, _inbox) = start(5, members([1, 5]), Settings::default()).await;
        coeval_env::sleep(10 * SECOND).await;
        let status = &stranger.status()[0];
        assert_eq!(status.connection, Connection::Trying);
        assert_eq!(
            status.fault.as_deref(),
            Some("refused: node 1 knows no member with the id 5")
        );
        assert!((4..40).contains(&status.failures), "{}", status.failures);
        assert_eq!(status.connects, 0);
    });
    ran.unwrap();
    // Tasks of connections belong to the caller's executor.
    let ran = alone.world.run(alone.node, async move {
        peers.set_members(members([1, 2, 3, 5])).unwrap();
    });
    ran.unwrap();
    let ran = alone.world.run(two, async {
        let (_peers, mut inbox) = start(6, members([6]), Settings::default()).await;
        let five = start(5, members([1, 5]), Settings::default());
        let (_five, mut of_five) = five.await;
        connected(&mut of_five, 1).await;
        assert!(coeval_env::timeout(SECOND, inbox.next()).await.is_err());
    });
    ran.unwrap();
}

#[test]
fn somebody_else_at_an_address_is_not_taken_for_the_node() {
    let world = World::new(3);
    let node = world.node();
    let ran = world.run(node, async {
        // The impostor accepts every hello, under another node's id.
        let listener = coeval_env::listen(address(1)).await.unwrap();
        coeval_env::spawn("impostor", async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = Hello::read(&mut stream).await;
                let answer = coeval_peers::handshake::Answer {
                    from: identity(7),
                    announced: None,
                    verdict: Ok(*VERSIONS.end()),
                };
                let _ = stream.write_all(&answer.encode()).await;
            }
        });
        let (peers, _inbox) = start(2, members([1, 2]), Settings::default()).await;
        coeval_env::sleep(SECOND).await;
        let fault = peers.status()[0].fault.clone().unwrap();
        assert!(
            fault.starts_with("at its address answers node 7"),
            "{fault}"
        );
    });
    ran.unwrap();
}

#[test]
fn garbage_and_silence_are_ended_and_counted() {
    let alone = Alone::new(4, Settings::default());
    let client = alone.world.node();
    let ran = alone.world.run(client, async {
        let began = coeval_env::now();
        for garbage in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0xff; 4096]] {
            let mut stream = coeval_env::connect(address(1)).await.unwrap();
            stream.write_all(garbage).await.unwrap();
            // The connection ends, in order or broken.
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.is_empty());
        }
        assert!(began.elapsed() < SECOND);
        // The peer sends a byte of the hello every second, for ever.
        let mut stream = coeval_env::connect(address(1)).await.unwrap();
        let hello = hello(Purpose::Frames);
        let began = coeval_env::now();
        for byte in hello.encode() {
            if stream.write_all(&[byte]).await.is_err() {
                break;
            }
            coeval_env::sleep(SECOND).await;
        }
        assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
    });
    ran.unwrap();
    let door = alone.peers.door();
    assert_eq!((door.failed, door.slow, door.let_in), (2, 1, 0));
}

#[test]
fn a_crowd_in_the_door_keeps_no_member_out() {
    let alone = Alone::new(5, Settings::default());
    let (crowd, member) = (alone.world.node(), alone.world.node());
    alone.world.spawn(crowd, async {
        let mut held = Vec::new();
        loop {
            held.push(coeval_env::connect(address(1)).await);
            coeval_env::sleep(MILLISECOND).await;
        }
    });
    let ran = alone.world.run(member, async {
        coeval_env::sleep(SECOND).await;
        let (_peers, mut inbox) = start(2, members([1, 2]), Settings::default()).await;
        let began = coeval_env::now();
        connected(&mut inbox, 1).await;
        assert!(began.elapsed() < SECOND);
    });
    ran.unwrap();
    let door = alone.peers.door();
    assert!(door.pushed_out > 500, "{door:?}");
}

#[test]
fn damaged_frames_end_the_connection_and_are_not_delivered() {
    let log = Tag::Payload(LOG);
    let mut flipped = bytes_of(log, b"what was said");
    *flipped.last_mut().unwrap() ^= 1;
    let mut head = bytes_of(log, b"what was said");
    head[1] ^= 4;
    // The node verifies the checksum of a frame of an unknown kind, too.
    let later = Tag::Payload(MessageKind::new(77));
    let mut unknown = bytes_of(later, b"what was said");
    *unknown.last_mut().unwrap() ^= 1;
    let settings = Settings {
        frame_bytes: 4096,
        ..Settings::default()
    };
    for (bytes, reason) in [
        (flipped, "the payload of a frame of 13 bytes is damaged"),
        (head, "the head of a frame is damaged"),
        (
            bytes_of(log, &[7; 4097]),
            "a frame of 4097 bytes, where at most 4096 are taken (frame_bytes)",
        ),
        (unknown, "the payload of a frame of 13 bytes is damaged"),
        (
            bytes_of(later, &[7; 4097]),
            "a frame of 4097 bytes, where at most 4096 are taken (frame_bytes)",
        ),
        (
            bytes_of(later, b"what was said")[..20].to_vec(),
            "the connection ended within a frame, 9 bytes before its end",
        ),
        (
            bytes_of(Tag::Alive, &[0; 8]),
            "a frame that has no place here: Alive",
        ),
        (
            bytes_of(log, b"what was said")[..20].to_vec(),
            "the connection ended within a frame, 9 bytes before its end",
        ),
        (
            bytes_of(log, b"what was said")[..7].to_vec(),
            "the connection ended within a frame, 9 bytes before its end",
        ),
        (Vec::new(), "has closed the connection"),
    ] {
        let alone = Alone::new(6, settings.clone());
        let client = alone.world.node();
        let ran = alone.world.run(client, async move {
            let mut stream = by_hand().await;
            let good = bytes_of(log, b"good");
            stream.write_all(&good).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
        });
        ran.unwrap();
        alone.world.block_on(alone.world.wait(MILLISECOND));
        assert_eq!(alone.payloads(), [b"good"]);
        let status = &alone.peers.status()[0];
        assert_eq!(status.fault_of_its.as_deref(), Some(reason));
        assert_eq!(status.skipped, 0);
    }
}

#[test]
fn a_node_that_falls_silent_is_given_up() {
    let alone = Alone::new(7, Settings::default());
    let client = alone.world.node();
    let ran = alone.world.run(client, async {
        let mut stream = by_hand().await;
        let began = coeval_env::now();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(began.elapsed().as_secs(), 3);
        assert!(answer.len() > 24 * 4, "it has shown that it is there");
    });
    ran.unwrap();
    alone.world.block_on(alone.world.wait(MILLISECOND));
    let status = &alone.peers.status()[0];
    assert_eq!(
        status.fault_of_its.as_deref(),
        Some("has been silent for 3000 ms")
    );
}

#[test]
fn one_that_answers_nothing_is_tried_again() {
    let world = World::new(8);
    let node = world.node();
    let ran = world.run(node, async {
        let _silent = coeval_env::listen(address(1)).await.unwrap();
        let (peers, _inbox) = start(2, members([1, 2, 3]), Settings::default()).await;
        coeval_env::sleep(Duration::from_secs(20)).await;
        let faults: Vec<_> = peers
            .status()
            .into_iter()
            .map(|status| status.fault.unwrap())
            .collect();
        assert_eq!(
            faults[0],
            "said nothing for 3000 ms when it should have said who it is"
        );
        assert!(faults[1].starts_with("cannot be reached"), "{}", faults[1]);
    });
    ran.unwrap();
}

#[test]
fn other_machines_are_talked_to_through_tls_only() {
    let world = World::new(9);
    let node = world.node();
    let ran = world.run(node, async {
        let start = |listen: &str, other: &str, insecure| {
            let mut all = members([1]);
            all.addresses.insert(NodeId(2), other.parse().unwrap());
            let settings = Settings {
                insecure,
                ..Settings::default()
            };
            let listen = listen.parse().unwrap();
            Peers::start(identity(1), listen, all, Security::Plain, settings, KINDS)
        };
        let (here, there) = ("127.0.0.1:7100", "10.0.0.2:7100");
        for (listen, other) in [(there, here), (here, there)] {
            let refused = start(listen, other, false).await.unwrap_err();
            assert!(matches!(refused, StartError::Unguarded(_)), "{refused}");
            let words = refused.to_string();
            assert!(words.starts_with("10.0.0.2 can be reached from other machines"));
            assert!(words.ends_with("or say --insecure"), "{words}");
            start(listen, other, true).await.unwrap();
        }
        start(here, here, false).await.unwrap();
    });
    ran.unwrap();
}

#[test]
fn who_is_expected_and_says_nowhere_or_elsewhere_is_not_connected_to() {
    let alone = Alone::new(10, Settings::default());
    let client = alone.world.node();
    let peers = std::rc::Rc::clone(&alone.peers);
    let ran = alone.world.run(alone.node, async move {
        let mut all = members([1]);
        peers.set_members(all.clone()).unwrap();
        all.expected.insert(NodeId(2));
        peers.set_members(all).unwrap();
    });
    ran.unwrap();
    let ran = alone.world.run(client, async {
        for (listens, words) in [
            ("10.0.0.2:0", "node 2 does not say where it listens"),
            (
                "192.168.0.9:7002",
                "node 2 listens at 192.168.0.9:7002: 192.168.0.9 can be reached from other",
            ),
        ] {
            let hello = Hello {
                listens: listens.parse().unwrap(),
                ..hello(Purpose::Frames)
            };
            let mut stream = coeval_env::connect(address(1)).await.unwrap();
            let answer = greet(&mut stream, &hello).await.unwrap();
            let refusal = answer.verdict.unwrap_err();
            assert_eq!(refusal.reason, Reason::Address);
            assert!(refusal.words().starts_with(words), "{refusal}");
        }
    });
    ran.unwrap();
    assert!(alone.peers.status().is_empty());
}
