//! Members are added, removed, and restarted.

use coeval_env::sim::World;
use coeval_peers::{Event, Loss, NodeId, SendError, Settings};

use crate::support::{LOG, MILLISECOND, SECOND, address, connected, frame, members, start};

#[test]
fn who_starts_again_is_met_again_at_once() {
    let world = World::new(1);
    let (one, two) = (world.node(), world.node());
    let run_two = async || {
        let (_peers, mut inbox) = start(2, members([1, 2]), Settings::default()).await;
        while inbox.next().await.is_some() {}
    };
    world.spawn(two, run_two());
    let first = world.spawn(one, async {
        let (peers, mut inbox) = start(1, members([1, 2]), Settings::default()).await;
        connected(&mut inbox, 2).await;
        let lost = loop {
            if let Some(Event::Disconnected(node, fault)) = inbox.next().await {
                break (node, fault.to_string());
            }
        };
        assert_eq!(lost.0, NodeId(2));
        let refused = peers.send(NodeId(2), LOG, "x".into(), Loss::Kept);
        assert_eq!(refused, Err(SendError::NotConnected));
        let room = peers.room(NodeId(2), LOG, 1).await;
        assert_eq!(room, Err(SendError::NotConnected));
        // Node 2 restarts after a minute; by then attempts are two seconds apart.
        connected(&mut inbox, 2).await;
        coeval_env::now()
    });
    world.block_on(world.wait(SECOND));
    world.kill(two);
    world.block_on(world.wait(60 * SECOND));
    world.spawn(two, run_two());
    let began = world.elapsed();
    let met = world.block_on(first);
    met.unwrap();
    let took = world.elapsed() - began;
    assert!(took < 100 * MILLISECOND, "{took:?}");
}

#[test]
fn who_is_removed_is_gone_and_told_so() {
    let world = World::new(2);
    let (one, two) = (world.node(), world.node());
    let removed = world.spawn(two, async {
        let (peers, mut inbox) = start(2, members([1, 2]), Settings::default()).await;
        connected(&mut inbox, 1).await;
        while !matches!(inbox.next().await, Some(Event::Disconnected(..))) {}
        coeval_env::sleep(SECOND).await;
        peers.status()[0].fault.clone().unwrap()
    });
    let kept = world.spawn(one, async {
        let (peers, mut inbox) = start(1, members([1, 2]), Settings::default()).await;
        connected(&mut inbox, 2).await;
        coeval_env::sleep(SECOND).await;
        let mut rest = members([1]);
        rest.removed.insert(NodeId(2));
        peers.set_members(rest).unwrap();
        assert!(peers.status().is_empty());
        let refused = peers.send(NodeId(2), LOG, "x".into(), Loss::Kept);
        assert_eq!(refused, Err(SendError::Unknown));
        coeval_env::sleep(10 * SECOND).await;
        peers.door().refused
    });
    let fault = world.block_on(removed).unwrap();
    assert_eq!(
        fault,
        "refused: node 2 has been removed from the cluster; a node that comes back takes a new id"
    );
    assert!(world.block_on(kept).unwrap() > 0);
}

#[test]
fn who_moves_is_met_at_the_new_address() {
    let world = World::new(3);
    let (one, two) = (world.node(), world.node());
    world.spawn(two, async {
        let (peers, _inbox) = start(2, members([2]), Settings::default()).await;
        peers.set_members(members([1, 2])).unwrap();
        std::future::pending::<()>().await;
    });
    let ran = world.run(one, async {
        let mut wrong = members([1, 2]);
        wrong.addresses.insert(NodeId(2), address(9).into());
        let (peers, mut inbox) = start(1, wrong, Settings::default()).await;
        coeval_env::sleep(60 * SECOND).await;
        assert_eq!(peers.status()[0].connects, 0);
        peers.set_members(members([1, 2])).unwrap();
        let moved = coeval_env::timeout(100 * MILLISECOND, connected(&mut inbox, 2)).await;
        moved.unwrap();
    });
    ran.unwrap();
}

#[test]
fn a_second_connection_of_a_node_takes_the_place_of_the_first() {
    let alone = crate::support::Alone::new(4, Settings::default());
    let client = alone.world.node();
    let ran = alone.world.run(client, async {
        use tokio::io::AsyncReadExt;
        let mut first = crate::support::by_hand().await;
        let _second = crate::support::by_hand().await;
        let began = coeval_env::now();
        let mut answer = Vec::new();
        let _ = first.read_to_end(&mut answer).await;
        assert!(began.elapsed() < SECOND);
    });
    ran.unwrap();
}

#[test]
fn everything_ends_with_its_owner() {
    let world = World::new(5);
    let (one, two) = (world.node(), world.node());
    let other = world.spawn(two, async {
        let (_peers, mut inbox) = start(2, members([1, 2]), Settings::default()).await;
        connected(&mut inbox, 1).await;
        let said = frame(&mut inbox).await;
        while !matches!(inbox.next().await, Some(Event::Disconnected(..))) {}
        said.payload
    });
    let ran = world.run(one, async {
        let (peers, mut inbox) = start(1, members([1, 2]), Settings::default()).await;
        connected(&mut inbox, 2).await;
        coeval_env::sleep(SECOND).await;
        peers
            .send(NodeId(2), LOG, "last words".into(), Loss::Kept)
            .unwrap();
        coeval_env::sleep(SECOND).await;
        drop(peers);
        while inbox.next().await.is_some() {}
        // The address is free again.
        start(1, members([1]), Settings::default()).await;
    });
    ran.unwrap();
    assert_eq!(world.block_on(other).unwrap(), "last words");
}

#[test]
fn who_is_expected_is_met_where_it_says_that_it_listens() {
    let world = World::new(6);
    let (one, two) = (world.node(), world.node());
    let member = world.spawn(two, async {
        let (_peers, mut inbox) = start(2, members([1, 2]), Settings::default()).await;
        connected(&mut inbox, 1).await;
        frame(&mut inbox).await.payload
    });
    let ran = world.run(one, async {
        let (peers, mut inbox) = start(1, members([1]), Settings::default()).await;
        coeval_env::sleep(SECOND).await;
        assert!(peers.door().refused > 0);
        let mut all = members([1]);
        all.expected.insert(NodeId(2));
        peers.set_members(all.clone()).unwrap();
        assert!(peers.status().is_empty());
        connected(&mut inbox, 2).await;
        assert_eq!(peers.status()[0].address, address(2).into());
        // Setting the same members again has no effect.
        peers.set_members(all).unwrap();
        peers
            .send(NodeId(2), LOG, "well met".into(), Loss::Kept)
            .unwrap();
        coeval_env::sleep(SECOND).await;
        assert_eq!(peers.status()[0].connects, 1);
        peers.set_members(members([1])).unwrap();
        assert!(peers.status().is_empty());
    });
    ran.unwrap();
    assert_eq!(world.block_on(member).unwrap(), "well met");
}
