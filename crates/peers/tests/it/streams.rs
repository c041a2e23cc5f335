//! Streams between nodes, and nodes that open too many of them.

use std::io::ErrorKind;

use coeval_env::sim::World;
use coeval_peers::handshake::{Purpose, greet};
use coeval_peers::{
    Fault, Inbox, Loss, NodeId, PeerStream, Peers, Reason, Settings, StreamError, StreamStatus,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Alone, LOG, MILLISECOND, SECOND, address, connected, hello, members, start};

/// Node 1, connected to node 2.
async fn one_of_two() -> (Peers, Inbox) {
    let (peers, mut inbox) = start(1, members([1, 2]), Settings::default()).await;
    connected(&mut inbox, 2).await;
    (peers, inbox)
}

/// Node 2, which runs `with` for each stream that another node opens.
fn answering(world: &World, with: impl AsyncFn(NodeId, PeerStream) + 'static) {
    let node = world.node();
    world.spawn(node, async move {
        let (peers, _inbox) = start(2, members([1, 2]), Settings::default()).await;
        let streams = peers.streams();
        while let Some((from, stream)) = streams.next().await {
            with(from, stream).await;
        }
    });
}

#[test]
fn bytes_go_both_ways_and_do_not_wait_behind_frames() {
    let world = World::new(1);
    answering(&world, async |from, mut stream| {
        assert_eq!((from, stream.node()), (NodeId(1), NodeId(1)));
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        heard.reverse();
        stream.write_all(&heard).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let one = world.node();
    let ran = world.run(one, async {
        let (peers, _inbox) = one_of_two().await;
        // The receiver takes none of these.
        while peers
            .send(NodeId(2), LOG, vec![0; 1 << 20].into(), Loss::Kept)
            .is_ok()
        {}
        let said: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
        let mut stream = peers.open_stream(NodeId(2)).await.unwrap();
        stream.write_all(&said).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer.reverse();
        assert!(answer == said);
        let open = peers.status()[0].streams;
        drop(stream);
        let closed = peers.status()[0].streams;
        (open, closed)
    });
    let expected = |open| StreamStatus {
        open,
        opened: 1,
        ..StreamStatus::default()
    };
    assert_eq!(ran.unwrap(), (expected(1), expected(0)));
}

#[test]
fn whoever_reads_nothing_slows_down_who_writes() {
    let world = World::new(2);
    answering(&world, async |_, mut stream| {
        coeval_env::sleep(10 * SECOND).await;
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        stream.write_u64(heard.len() as u64).await.unwrap();
    });
    let one = world.node();
    let ran = world.run(one, async {
        let (peers, _inbox) = one_of_two().await;
        let began = coeval_env::now();
        let mut stream = peers.open_stream(NodeId(2)).await.unwrap();
        stream.write_all(&vec![7; 4 << 20]).await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(began.elapsed() > 9 * SECOND, "{:?}", began.elapsed());
        assert_eq!(stream.read_u64().await.unwrap(), 4 << 20);
    });
    ran.unwrap();
}

#[test]
fn streams_are_refused_as_connections_are() {
    let world = World::new(3);
    let (one, two) = (world.node(), world.node());
    world.spawn(two, async {
        let mut all = members([2]);
        all.removed.insert(NodeId(1));
        let (_peers, _inbox) = start(2, all, Settings::default()).await;
        std::future::pending::<()>().await;
    });
    let ran = world.run(one, async {
        let (peers, _inbox) = start(1, members([1, 2, 3]), Settings::default()).await;
        let error = peers.open_stream(NodeId(2)).await.unwrap_err();
        assert!(
            matches!(&error, StreamError::Fault { fault: Fault::Refused(refusal), .. }
                if refusal.reason == Reason::Removed),
            "{error}"
        );
        let error = peers.open_stream(NodeId(3)).await.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("no stream to node 3: cannot be reached: "),
            "{error}"
        );
        for nobody in [1, 4] {
            let error = peers.open_stream(NodeId(nobody)).await.unwrap_err();
            assert!(matches!(error, StreamError::Unknown(_)), "{error}");
        }
        peers.status()[0].streams.failed
    });
    assert_eq!(ran.unwrap(), 1);
}

/// Streams of node 2 to node 1, opened by hand until node 1 refuses one.
async fn hoard() -> (Vec<coeval_env::Stream>, String) {
    let mut held = Vec::new();
    loop {
        let mut stream = coeval_env::connect(address(1)).await.unwrap();
        let answer = greet(&mut stream, &hello(Purpose::Stream)).await.unwrap();
        match answer.verdict {
            Ok(_) => held.push(stream),
            Err(refusal) => {
                assert_eq!(refusal.reason, Reason::Busy);
                return (held, refusal.words().to_owned());
            }
        }
    }
}

#[test]
fn who_opens_too_many_keeps_nobody_else_out() {
    let settings = Settings {
        streams: 20,
        streams_waiting: 8,
        ..Settings::default()
    };
    let alone = Alone::new(4, settings);
    let (hoarder, other) = (alone.world.node(), alone.world.node());
    let streams = alone.peers.streams();
    let ran = alone.world.run(hoarder, async move {
        let (mut held, words) = hoard().await;
        assert_eq!(held.len(), 8);
        assert!(words.contains("(streams_waiting)"), "{words}");
        // Streams that have been taken make room for others, up to a number.
        let mut taken = Vec::new();
        for _ in 0..2 {
            while let Ok(Some(stream)) = coeval_env::timeout(MILLISECOND, streams.next()).await {
                taken.push(stream);
            }
            held.extend(hoard().await.0);
        }
        assert_eq!((taken.len(), held.len()), (16, 20));
        let (more, words) = hoard().await;
        assert!(more.is_empty());
        assert!(words.contains("(streams)"), "{words}");
        // Frames, and other nodes, are not affected.
        let mut frames = crate::support::by_hand().await;
        frames.read_exact(&mut [0; 24]).await.unwrap();
        taken
    });
    let taken = ran.unwrap();
    let status = alone.peers.status()[0].streams;
    let expected = StreamStatus {
        open: 20,
        waiting: 4,
        let_in: 20,
        busy: 4,
        ..StreamStatus::default()
    };
    assert_eq!(status, expected);
    let ran = alone.world.run(other, async move {
        let (peers, _inbox) = start(3, members([1, 3]), Settings::default()).await;
        peers.open_stream(NodeId(1)).await.unwrap();
    });
    ran.unwrap();
    drop(taken);
    assert_eq!(alone.peers.status()[0].streams.open, 4);
}

#[test]
fn an_unknown_purpose_is_refused() {
    let alone = Alone::new(5, Settings::default());
    let client = alone.world.node();
    let ran = alone.world.run(client, async {
        let mut stream = coeval_env::connect(address(1)).await.unwrap();
        let answer = greet(&mut stream, &hello(Purpose::Other(7))).await.unwrap();
        answer.verdict.unwrap_err().words().to_owned()
    });
    assert_eq!(ran.unwrap(), "node 1 knows no purpose 7");
}

#[test]
fn streams_end_with_the_membership_of_their_node() {
    let world = World::new(6);
    answering(&world, async |_, mut stream| {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let one = world.node();
    let ran = world.run(one, async {
        let (peers, _inbox) = one_of_two().await;
        let mut stream = peers.open_stream(NodeId(2)).await.unwrap();
        let removal = async {
            coeval_env::sleep(SECOND).await;
            peers.set_members(members([1])).unwrap();
        };
        let mut byte = [0];
        let (ended, ()) = tokio::join!(stream.read(&mut byte), removal);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionAborted);
        let written = stream.write_all(b"more").await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::ConnectionAborted);
    });
    ran.unwrap();
}

#[test]
fn streams_end_with_their_owner() {
    let world = World::new(7);
    answering(&world, async |_, mut stream| {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let one = world.node();
    let ran = world.run(one, async {
        let (peers, _inbox) = one_of_two().await;
        let mut stream = peers.open_stream(NodeId(2)).await.unwrap();
        let streams = peers.streams();
        let ending = async {
            coeval_env::sleep(SECOND).await;
            drop(peers);
        };
        let mut byte = [0];
        let (ended, none, ()) = tokio::join!(stream.read(&mut byte), streams.next(), ending);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionAborted);
        assert!(none.is_none());
        let error = streams.open(NodeId(2)).await.unwrap_err();
        assert!(matches!(error, StreamError::Unknown(_)), "{error}");
    });
    ran.unwrap();
}

#[test]
fn streams_with_a_node_that_is_gone_end_and_new_ones_work_when_it_is_back() {
    let world = World::new(8);
    let (one, two) = (world.node(), world.node());
    world.spawn(two, async {
        let (peers, _inbox) = start(2, members([1, 2]), Settings::default()).await;
        let streams = peers.streams();
        let (_, mut first) = streams.next().await.unwrap();
        let began = coeval_env::now();
        let ended = first.read(&mut [0]).await.unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::ConnectionAborted);
        assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
        let (_, mut second) = streams.next().await.unwrap();
        second.write_all(b"again").await.unwrap();
        std::future::pending::<()>().await;
    });
    let program = world.spawn(one, async {
        let (peers, mut inbox) = one_of_two().await;
        let mut stream = peers.open_stream(NodeId(2)).await.unwrap();
        let ended = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::ConnectionAborted);
        connected(&mut inbox, 2).await;
        let mut stream = peers.open_stream(NodeId(2)).await.unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.unwrap();
        peers
            .send(NodeId(2), LOG, "done".into(), Loss::Kept)
            .unwrap();
        heard
    });
    world.block_on(async {
        world.wait(SECOND).await;
        // No message of either node arrives, and neither sees an error.
        world.block(one, two);
        world.block(two, one);
        world.wait(20 * SECOND).await;
        world.unblock(one, two);
        world.unblock(two, one);
    });
    assert_eq!(&world.block_on(program).unwrap(), b"again");
}
