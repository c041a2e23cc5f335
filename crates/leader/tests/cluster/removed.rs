//! Nodes that their cluster has removed while they were away.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use coeval_leader::node::Role;
use coeval_leader::recovery::Survivor;
use coeval_types::planted::{Bug, plant};

use crate::changes::{leader, remove, status, until, work};
use crate::nodes::{Cluster, DIRECTORY};

/// What a node says that takes no part, and which member it names.
fn shut_out(cluster: &Cluster, index: usize) -> Option<String> {
    let shown = cluster.node_status(index)?;
    shown.shut_out.map(|reason| reason.to_string())
}

/// A node is removed while it is away, comes back and hears of it, and is started again where
/// it reaches no other. Returns whether it stands for election then.
fn stands_again(seed: u64) -> bool {
    let mut cluster = Cluster::new(seed);
    let world = Rc::clone(&cluster.world);
    let stands = world.block_on(async {
        work(&cluster).await;
        let leads = leader(&cluster).await;
        let away = (leads + 1) % 3;
        world.crash(cluster.machines[away]);
        remove(&cluster, away as u64 + 1).await;
        work(&cluster).await;
        cluster.restart(away);
        let hears = |cluster: &Cluster| {
            let said = shut_out(cluster, away)?;
            said.contains("has been removed from the cluster")
                .then_some(())
        };
        until(&cluster, "it hears that it was removed", hears).await;
        cluster.cut_off(away, true);
        world.crash(cluster.machines[away]);
        cluster.restart(away);
        let mut stands = false;
        for _ in 0..300 {
            world.wait(Duration::from_millis(10)).await;
            let shown = cluster.node_status(away);
            stands |= shown.is_some_and(|shown| shown.role != Role::Follower);
        }
        if !stands {
            assert!(hears(&cluster).is_some());
            assert!(status(&cluster, away).await.removed_by.is_some());
        }
        // The others count it no more, and it is no use to a node that still does.
        cluster.cut_off(away, false);
        work(&cluster).await;
        world.crash(cluster.machines[away]);
        // Lost for ever is what has removed it: it goes on by an administrator's word.
        let recover = async move {
            let node = away as u64 + 1;
            let survivor = Survivor::open(Path::new(DIRECTORY), node).await?;
            let removed_by = survivor.removed_by();
            survivor.recover().await.map(|_| removed_by)
        };
        let recovered = world.spawn(cluster.machines[away], recover);
        let removed_by = recovered.await.expect("nothing crashes now");
        assert!(removed_by.expect("it can go on").is_some());
        let again = world.spawn(cluster.machines[away], async {
            coeval_log::Removal::read(Path::new(DIRECTORY)).await
        });
        let again = again.await.expect("nothing crashes now");
        assert_eq!(again.expect("nothing fails now"), None);
        stands
    });
    assert_eq!(cluster.judge.lock().objections(), [""; 0], "seed {seed}");
    stands
}

#[test]
fn a_removed_node_stays_removed_after_a_restart() {
    for seed in 0..3 {
        assert!(!stands_again(seed), "seed {seed}");
    }
    let planted = plant(Bug::ForgetRemoval);
    let stands = stands_again(0);
    drop(planted);
    assert!(stands);
}
