//! The rules of a council one by one: answers, limits, fencing, members, snapshots.

use std::collections::BTreeMap;
use std::time::Duration;

use coeval_council::{Change, Council, Error, NodeId, Standing, Term};

use crate::world::{Cluster, Shown, entry};

fn started(cluster: &mut Cluster, nodes: u64) -> BTreeMap<NodeId, Shown> {
    let nodes = (1..=nodes).map(NodeId);
    nodes
        .map(|node| (node, cluster.start(node, false)))
        .collect()
}

/// Waits until one of these nodes leads, in a term after this one.
fn leader(
    cluster: &Cluster,
    up: &BTreeMap<NodeId, Shown>,
    after: Term,
) -> (NodeId, Council, Standing) {
    let world = &cluster.world;
    world.block_on(async {
        for _ in 0..500 {
            world.wait(Duration::from_millis(20)).await;
            for (node, shown) in up {
                let Some(council) = shown.lock().unwrap().clone() else {
                    continue;
                };
                let standing = council.standing().borrow().clone();
                if standing.leads && standing.term > after {
                    return (*node, council, standing);
                }
            }
        }
        panic!("no node leads after ten seconds")
    })
}

#[test]
fn the_example_of_the_crate() {
    let mut cluster = Cluster::new(1, 3);
    let up = started(&mut cluster, 3);
    let (first, council, standing) = leader(&cluster, &up, Term(0));
    let machine = cluster.machines[&first];
    let term = standing.term;
    let asked = council.clone();
    let applied = cluster.world.run(machine, async move {
        assert!(matches!(
            asked.propose(Term(term.0 - 1), entry(5)).await,
            Err(Error::Fenced(_))
        ));
        assert!(matches!(
            asked.propose(term, vec![0; 1025].into()).await,
            Err(Error::TooLarge(1025))
        ));
        let applied = asked.propose(term, entry(7)).await.unwrap();
        assert!(asked.confirm().await.unwrap() >= applied.at.end);
        applied
    });
    let applied = applied.unwrap();
    assert_eq!(
        (applied.at.term, &applied.answer[..]),
        (term, &1_u64.to_le_bytes()[..])
    );

    for other in cluster.machines.values() {
        cluster.world.block(machine, *other);
        cluster.world.block(*other, machine);
    }
    let late = council.clone();
    let lost = cluster.world.spawn(machine, async move {
        let lost = late.propose(term, entry(8)).await;
        (lost, late.propose(term, entry(9)).await)
    });
    let (second, newer, standing) = leader(&cluster, &up, term);
    assert_ne!(second, first);
    let wrote = cluster.world.run(cluster.machines[&second], async move {
        newer.propose(standing.term, entry(10)).await
    });
    wrote.unwrap().unwrap();
    for other in cluster.machines.values() {
        cluster.world.unblock(machine, *other);
        cluster.world.unblock(*other, machine);
    }
    let (lost, refused) = cluster.world.block_on(lost).unwrap();
    assert!(matches!(lost, Err(Error::Lost)), "{lost:?}");
    assert!(
        matches!(refused, Err(Error::Fenced(_) | Error::NotLeader { .. })),
        "{refused:?}"
    );
    let state = cluster.agree(&up).expect("they agree");
    assert_eq!(state[..2], [7, 10]);
    assert_eq!(cluster.judge.seen().objections, Vec::<String>::new());
}

#[test]
fn a_new_member_gets_a_snapshot_and_an_old_one_leaves() {
    let mut cluster = Cluster::new(2, 3);
    cluster.snapshot_every = 2048;
    let mut up = started(&mut cluster, 3);
    let (first, council, standing) = leader(&cluster, &up, Term(0));
    cluster.spare(NodeId(4));
    up.insert(NodeId(4), cluster.start(NodeId(4), false));
    let gone = NodeId(if first == NodeId(1) { 2 } else { 1 });
    let changed = cluster.world.run(cluster.machines[&first], async move {
        let term = standing.term;
        for number in 100..160 {
            council.propose(term, entry(number)).await.unwrap();
        }
        council.change(Change::Learner(NodeId(4))).await.unwrap();
        council.change(Change::Voter(NodeId(4))).await.unwrap();
        council.change(Change::Remove(gone)).await.unwrap();
        council.propose(term, entry(160)).await.unwrap();
        council.standing().borrow().members.clone()
    });
    let members = changed.unwrap();
    assert!(members.is_voter(NodeId(4)) && !members.is_member(gone));
    up.remove(&gone);
    let state = cluster.agree(&up).expect("they agree");
    assert_eq!(state.len(), 62);
    let seen = cluster.judge.seen();
    assert!(seen.restored > 0, "the new member began from a snapshot");
    assert_eq!(seen.objections, Vec::<String>::new());
}

#[test]
fn too_many_proposals_are_refused() {
    let mut cluster = Cluster::new(3, 1);
    let up = started(&mut cluster, 1);
    let (first, council, standing) = leader(&cluster, &up, Term(0));
    let outcomes = cluster.world.run(cluster.machines[&first], async move {
        let proposals = (0..150).map(|number| {
            let council = council.clone();
            coeval_env::spawn("propose", async move {
                council.propose(standing.term, entry(number)).await
            })
        });
        let proposals: Vec<_> = proposals.collect();
        let mut outcomes = (0, 0);
        for proposal in proposals {
            match proposal.await.unwrap() {
                Ok(_) => outcomes.0 += 1,
                Err(Error::Busy(100)) => outcomes.1 += 1,
                Err(other) => panic!("{other}"),
            }
        }
        council.close().await.unwrap();
        assert!(matches!(
            council.propose(standing.term, entry(1)).await,
            Err(Error::Ended)
        ));
        outcomes
    });
    let (kept, refused) = outcomes.unwrap();
    assert_eq!(kept + refused, 150);
    assert!(kept >= 100, "{kept}");
}
