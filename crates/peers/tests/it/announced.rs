//! What nodes announce of themselves, and who is refused for it.

use coeval_env::sim::World;
use coeval_peers::handshake::{Hello, Purpose, greet};
use coeval_peers::{
    Announcement, Connection, DirectoryId, Event, Loss, Members, NodeId, PeerStatus, Peers, Reason,
    Settings,
};

use crate::support::{
    Alone, LOG, MILLISECOND, SECOND, address, connected, frame, hello, members, start,
};

/// Members 1 and 2 as a node knows them that reads this version and has this directory.
fn known(reads: u32, directory: u128) -> Members {
    Members {
        reads,
        directory: Some(DirectoryId(directory)),
        ..members([1, 2])
    }
}

fn announced(reads: u32, directory: u128) -> Announcement {
    Announcement {
        reads,
        directory: Some(DirectoryId(directory)),
        ..Announcement::NOTHING
    }
}

async fn until(peers: &Peers, is_meant: impl Fn(&PeerStatus) -> bool) -> PeerStatus {
    for _ in 0..5000 {
        let status = peers.status().remove(0);
        if is_meant(&status) {
            return status;
        }
        coeval_env::sleep(MILLISECOND).await;
    }
    panic!("{:?}", peers.status());
}

#[test]
fn both_sides_learn_what_the_other_announces_and_hear_of_changes() {
    let world = World::new(21);
    let (one, two) = (world.node(), world.node());
    let founding = |members: Members| Members {
        founds: true,
        ..members
    };
    let first = world.spawn(one, async move {
        let (peers, mut inbox) = start(1, founding(known(2, 11)), Settings::default()).await;
        connected(&mut inbox, 2).await;
        let founds = Announcement {
            founds: true,
            ..announced(3, 22)
        };
        until(&peers, |peer| peer.announced == Some(founds)).await;
        peers
            .send(NodeId(2), LOG, "founds".into(), Loss::Kept)
            .unwrap();
        let has_founded = Announcement {
            founders: Some(5),
            ..announced(3, 22)
        };
        until(&peers, |peer| peer.announced == Some(has_founded)).await;
        // The connection was made anew for it, and carries frames.
        until(&peers, |peer| {
            matches!(peer.connection, Connection::Standing(_))
        })
        .await;
        peers
            .send(NodeId(2), LOG, "founded".into(), Loss::Kept)
            .unwrap();
        coeval_env::sleep(SECOND).await;
    });
    let second = world.spawn(two, async move {
        let (peers, mut inbox) = start(2, founding(known(3, 22)), Settings::default()).await;
        assert_eq!(frame(&mut inbox).await.payload, "founds");
        let founds = Announcement {
            founds: true,
            ..announced(2, 11)
        };
        until(&peers, |peer| peer.announced == Some(founds)).await;
        let founded = Members {
            founders: [(NodeId(1), DirectoryId(11))].into(),
            founders_digest: Some(5),
            ..known(3, 22)
        };
        peers.set_members(founded).unwrap();
        assert_eq!(frame(&mut inbox).await.payload, "founded");
    });
    world.block_on(async {
        first.await.unwrap();
        second.await.unwrap();
    });
}

/// What node 1 and node 2 report of each other after some time, and whether node 1 has got a
/// frame of node 2.
fn meet(one: Members, two: Members) -> ([PeerStatus; 2], bool) {
    let world = World::new(22);
    let run = async |node: u64, members: Members| {
        let (peers, mut inbox) = start(node, members, Settings::default()).await;
        let other = 3 - node;
        coeval_env::sleep(2 * SECOND).await;
        // It fails where they are not connected.
        let _ = peers.send(NodeId(other), LOG, "frame".into(), Loss::Kept);
        coeval_env::sleep(2 * SECOND).await;
        let next = coeval_env::timeout(MILLISECOND, frame(&mut inbox)).await;
        (peers.status().remove(0), next.is_ok())
    };
    let nodes = [(1, one), (2, two)].map(|(number, members)| {
        let machine = world.node();
        world.spawn(machine, run(number, members))
    });
    let [one, two] = nodes;
    world.block_on(async {
        let ((one, is_heard), (two, _)) = (one.await.unwrap(), two.await.unwrap());
        ([one, two], is_heard)
    })
}

#[test]
fn who_is_not_the_member_or_reads_too_little_is_refused_on_both_sides() {
    let knows = |directory| Members {
        directories: [(NodeId(2), DirectoryId(directory))].into(),
        ..known(3, 11)
    };
    let at = |version| Members {
        version,
        ..known(3, 11)
    };
    let vouched = Members {
        vouched: [NodeId(2)].into(),
        ..known(3, 11)
    };
    let removed = Members {
        is_removed: true,
        ..known(3, 11)
    };
    let founds = Members {
        founds: true,
        ..known(2, 22)
    };
    for (one, two, reason, words) in [
        (
            knows(33),
            known(2, 22),
            Reason::Directory,
            "another directory",
        ),
        (
            knows(22),
            members([1, 2]),
            Reason::Directory,
            "another directory",
        ),
        (
            at(3),
            known(2, 22),
            Reason::Reads,
            "its cluster_version_limit is 2",
        ),
        (
            at(2),
            members([1, 2]),
            Reason::Reads,
            "runs a build that reads no more",
        ),
        (
            vouched,
            known(2, 22),
            Reason::Founded,
            "--cluster-without 2",
        ),
        (
            known(3, 11),
            founds,
            Reason::Founded,
            "holds the cluster's log",
        ),
        (
            removed,
            known(2, 22),
            Reason::Other,
            "node 1 has been removed",
        ),
    ] {
        let ([one, two], is_heard) = meet(one, two);
        assert!(!is_heard, "{words}");
        assert_eq!((two.refusal, two.connects), (Some(reason), 0), "{words}");
        for (of, status) in [(1, &one), (2, &two)] {
            let fault = status.fault.as_deref().unwrap_or_default();
            assert!(fault.contains(words), "node {of}: {fault}");
        }
        assert_eq!(one.connects, 0);
    }
    let ([one, two], is_heard) = meet(known(3, 11), known(2, 22));
    assert!(is_heard);
    assert_eq!([one.refusal, two.refusal], [None, None]);
}

#[test]
fn a_member_that_turns_out_to_be_another_is_cut_off() {
    let world = World::new(23);
    let (one, two) = (world.node(), world.node());
    let first = world.spawn(one, async move {
        let (peers, mut inbox) = start(1, known(2, 11), Settings::default()).await;
        connected(&mut inbox, 2).await;
        assert_eq!(frame(&mut inbox).await.payload, "before");
        let named = Members {
            directories: [(NodeId(2), DirectoryId(33))].into(),
            version: 2,
            ..known(2, 11)
        };
        peers.set_members(named).unwrap();
        while !matches!(inbox.next().await, Some(Event::Disconnected(..))) {}
        coeval_env::sleep(SECOND).await;
        assert_eq!(peers.status()[0].connection, Connection::Trying);
    });
    let second = world.spawn(two, async move {
        let (peers, mut inbox) = start(2, known(2, 22), Settings::default()).await;
        connected(&mut inbox, 1).await;
        peers
            .send(NodeId(1), LOG, "before".into(), Loss::Kept)
            .unwrap();
        let refused = |peer: &PeerStatus| peer.refusal == Some(Reason::Directory);
        until(&peers, refused).await;
    });
    world.block_on(async {
        first.await.unwrap();
        second.await.unwrap();
    });
}

#[test]
fn a_build_that_announces_nothing_is_let_in_until_the_version_rises() {
    let alone = Alone::new(24, Settings::default());
    let old = Hello {
        versions: 4..=4,
        ..hello(Purpose::Frames)
    };
    let machine = alone.world.node();
    let said = |hello: Hello| async move {
        let mut stream = coeval_env::connect(address(1)).await.unwrap();
        greet(&mut stream, &hello).await.unwrap()
    };
    let answer = alone.world.run(machine, said(old.clone())).unwrap();
    assert_eq!((answer.verdict, answer.announced), (Ok(4), None));
    let raised = Members {
        version: 2,
        reads: 2,
        directory: Some(DirectoryId(11)),
        ..members([1, 2, 3])
    };
    let peers = std::rc::Rc::clone(&alone.peers);
    let set = alone
        .world
        .run(alone.node, async move { peers.set_members(raised) });
    set.unwrap().unwrap();
    let answer = alone.world.run(machine, said(old)).unwrap();
    assert_eq!(answer.verdict.unwrap_err().reason, Reason::Reads);
    let new = Hello {
        announced: Some(announced(2, 22)),
        ..hello(Purpose::Frames)
    };
    let answer = alone.world.run(machine, said(new)).unwrap();
    assert_eq!(answer.verdict, Ok(5));
    assert_eq!(answer.announced, Some(announced(2, 11)));
}
