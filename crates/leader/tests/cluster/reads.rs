//! Reads are answered by the current leader, and by no other node.

use std::sync::Arc;
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_leader::node::ReadIndexCounts;
use coeval_occ::Engine;
use coeval_txn::{Error, Isolation, confirmed};

use crate::nodes::Cluster;
use crate::runs::lived;
use crate::table::{Work, durable};

const READERS: usize = 64;

/// A leader with its engine.
async fn leader(cluster: &Cluster) -> (usize, Arc<Engine>) {
    for _ in 0..500 {
        cluster.world.wait(Duration::from_millis(10)).await;
        let leader = cluster.leader();
        let node_status = leader.and_then(|leader| cluster.node_status(leader));
        if let (Some(leader), Some(engine)) = (leader, node_status.and_then(|now| now.engine))
            && cluster.judge.lock().told().len() > 5
        {
            return (leader, engine);
        }
    }
    panic!("no node leads");
}

/// Ends writes on a node and waits until all are durable, so that readers wait for nothing
/// else.
async fn all_is_durable(cluster: &Cluster, index: usize) {
    cluster.judge.lock().set_idle(Some(index as u64 + 1));
    cluster.world.wait(Duration::from_millis(300)).await;
}

async fn read(engine: &Engine) -> Result<usize, Error> {
    let mut work = Work::read(engine, Isolation::SnapshotIsolation).await?;
    let rows = work.all()?.len();
    durable(engine, work.newest_seen()).await?;
    confirmed(engine).await?;
    Ok(rows)
}

async fn counts(cluster: &Cluster, index: usize) -> ReadIndexCounts {
    let node = cluster.node(index).expect("it runs");
    let status = cluster
        .world
        .spawn(cluster.machines[index], async move { node.status().await });
    status
        .await
        .expect("nothing crashes")
        .expect("it answers")
        .read_index
}

#[test]
fn those_who_read_at_the_same_time_share_rounds() {
    let outcome = lived(1, async |cluster| {
        let (leader, engine) = leader(cluster).await;
        let machine = cluster.machines[leader];
        let before = counts(cluster, leader).await;
        let readers: Vec<JoinHandle<_>> = (0..READERS)
            .map(|_| {
                let engine = Arc::clone(&engine);
                cluster.world.spawn(machine, async move {
                    for _ in 0..10 {
                        read(&engine).await?;
                    }
                    Ok::<(), Error>(())
                })
            })
            .collect();
        for reader in readers {
            let read = reader.await.expect("nothing crashes");
            read.expect("it leads all the time");
        }
        let after = counts(cluster, leader).await;
        let (asked, rounds) = (after.asked - before.asked, after.rounds - before.rounds);
        println!("{asked} reads asked, {rounds} rounds");
        assert!(asked >= 10 * READERS as u64);
        assert!((1..=asked / 10).contains(&rounds));
        assert_eq!(after.certain, 0, "nothing is certain without a lease");
    });
    assert_eq!(outcome.objections, [""; 0]);
}

#[test]
fn a_leader_that_is_cut_off_answers_no_reads() {
    let outcome = lived(2, async |cluster| {
        let (old, engine) = leader(cluster).await;
        let machine = cluster.machines[old];
        all_is_durable(cluster, old).await;
        cluster.cut_off(old, true);
        // From now on no reader can learn whether the node leads.
        let asked: Vec<JoinHandle<_>> = (0..4)
            .map(|_| {
                let engine = Arc::clone(&engine);
                cluster
                    .world
                    .spawn(machine, async move { read(&engine).await })
            })
            .collect();
        for reader in asked {
            let read = reader.await.expect("nothing crashes");
            assert!(matches!(read, Err(Error::Stopped(_))), "{read:?}");
        }
        // The node has retired its engine: waiting readers had an error, and ask elsewhere.
        drop(engine);
        cluster.judge.lock().set_idle(None);
        let (new, engine) = leader(cluster).await;
        assert_ne!(new, old);
        let read = cluster
            .world
            .spawn(cluster.machines[new], async move { read(&engine).await });
        let rows = read.await.expect("nothing crashes").expect("it leads");
        assert!(rows > 0);
        cluster.cut_off(old, false);
    });
    assert_eq!(outcome.objections, [""; 0]);
}

#[test]
fn a_leader_that_others_come_back_to_answers_reads() {
    let outcome = lived(3, async |cluster| {
        let (leader, engine) = leader(cluster).await;
        all_is_durable(cluster, leader).await;
        cluster.cut_off(leader, true);
        let reader = cluster
            .world
            .spawn(cluster.machines[leader], async move { read(&engine).await });
        // Less time than any node takes to detect the loss.
        cluster.world.wait(Duration::from_millis(60)).await;
        assert!(!reader.is_finished(), "nobody can have confirmed it");
        cluster.cut_off(leader, false);
        cluster.judge.lock().set_idle(None);
        let rows = reader.await.expect("nothing crashes");
        assert!(rows.expect("it leads still") > 0);
    });
    assert_eq!(outcome.objections, [""; 0]);
}
