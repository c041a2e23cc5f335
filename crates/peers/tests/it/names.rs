//! Members whose hosts have names.

use std::net::IpAddr;
use std::rc::Rc;

use coeval_env::Location;
use coeval_env::sim::{Node, World};
use coeval_peers::{NodeId, PeerStatus, Peers, Security, Settings, StartError};

use crate::support::{Alone, KINDS, SECOND, address, connected, identity, members, start};

const NAME: &str = "db2.example";

fn named() -> Location {
    Location::new(NAME, address(2).port()).unwrap()
}

fn insecure() -> Settings {
    Settings {
        insecure: true,
        ..Settings::default()
    }
}

fn at(addresses: &[[u8; 4]]) -> Vec<IpAddr> {
    addresses.iter().copied().map(IpAddr::from).collect()
}

const HERE: [u8; 4] = [127, 0, 0, 1];
/// No node listens there.
const ELSEWHERE: [u8; 4] = [10, 0, 0, 9];

/// Starts nodes 1 and 2, and returns node 1.
fn start_both(world: &World) -> (Node, Rc<Peers>) {
    let (one, two) = (world.node(), world.node());
    world.spawn(two, async {
        let (_peers, mut inbox) = start(2, members([1, 2]), insecure()).await;
        while inbox.next().await.is_some() {}
    });
    let started = world.run(one, async {
        let mut both = members([1, 2]);
        both.addresses.insert(NodeId(2), named());
        let (peers, mut inbox) = start(1, both, insecure()).await;
        coeval_env::spawn(
            "events",
            async move { while inbox.next().await.is_some() {} },
        );
        Rc::new(peers)
    });
    (one, started.unwrap())
}

/// Waits until node 1 is connected, or says why not.
fn until(world: &World, peers: &Peers, is_meant: impl Fn(&PeerStatus) -> bool) -> PeerStatus {
    loop {
        let status = peers.status().remove(0);
        if is_meant(&status) {
            return status;
        }
        world.block_on(world.wait(SECOND));
    }
}

#[test]
fn a_name_is_looked_up_at_each_attempt() {
    let world = World::new(21);
    let (_, peers) = start_both(&world);
    let status = until(&world, &peers, |status| status.failures > 1);
    let words = "the host name db2.example cannot be looked up: no such name";
    assert_eq!(status.fault.as_deref(), Some(words));
    // The name leads elsewhere first, as while its machine moves.
    world.name(NAME, &at(&[ELSEWHERE]));
    let is_other = |status: &PeerStatus| status.fault.as_deref() != Some(words);
    let status = until(&world, &peers, is_other);
    let fault = status.fault.unwrap();
    assert!(
        fault.starts_with("cannot be reached: 10.0.0.9:7002: "),
        "{fault}"
    );
    world.name(NAME, &at(&[HERE]));
    let status = until(&world, &peers, |status| status.connects > 0);
    assert_eq!((status.fault, status.address), (None, named()));
}

#[test]
fn the_addresses_of_a_name_are_tried_in_turn() {
    for addresses in [[ELSEWHERE, HERE], [HERE, ELSEWHERE]] {
        let world = World::new(22);
        world.name(NAME, &at(&addresses));
        let (one, peers) = start_both(&world);
        let status = until(&world, &peers, |status| status.connects > 0);
        // Node 2 may start after the first attempt.
        assert!(status.failures <= 1, "{status:?}");
        let opened = world.run(one, async move { peers.open_stream(NodeId(2)).await });
        opened.unwrap().unwrap();
    }
}

#[test]
fn a_name_of_another_machine_is_talked_to_through_tls_only() {
    let world = World::new(23);
    let ran = world.run(world.node(), async {
        let mut both = members([1, 2]);
        both.addresses.insert(NodeId(2), named());
        let own = identity(1);
        let plain = Security::Plain;
        let settings = Settings::default();
        let refused = Peers::start(own, address(1), both, plain, settings, KINDS).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StartError::Unguarded(_)), "{refused}");
        assert!(
            refused
                .to_string()
                .starts_with("db2.example can be reached")
        );
    });
    ran.unwrap();
}

#[test]
fn a_member_that_is_expected_is_met_under_the_name_that_it_announces() {
    let alone = Alone::new(24, insecure());
    alone.world.name(NAME, &at(&[HERE]));
    let peers = Rc::clone(&alone.peers);
    let ran = alone.world.run(alone.node, async move {
        peers.set_members(members([1])).unwrap();
        let mut all = members([1]);
        all.expected.insert(NodeId(2));
        peers.set_members(all).unwrap();
    });
    ran.unwrap();
    let two = alone.world.node();
    let met = alone.world.run(two, async {
        let mut both = members([1, 2]);
        both.addresses.insert(NodeId(2), named());
        let (two, mut inbox) = start(2, both, insecure()).await;
        connected(&mut inbox, 1).await;
        while two.status()[0].heard.is_none() {
            coeval_env::sleep(SECOND).await;
        }
    });
    met.unwrap();
    let status = alone.peers.status().remove(0);
    assert_eq!(status.address, named());
}
