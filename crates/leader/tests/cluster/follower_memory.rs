//! What readers hold on a follower: given back when they end, and bounded by the node's budget.

use std::sync::Arc;

use coeval_leader::node::NEWEST_VERSION;
use coeval_occ::{Budget, FollowerEngine, MemoryAccounts, Statistics};
use coeval_txn::{Error, Isolation};

use crate::changes::{until, work};
use crate::nodes::Cluster;
use crate::questions::{milliseconds, on, reader, reading, roles};
use crate::runs::{Outcome, lived_by};
use crate::table::Work;
use crate::versions::is_raised;

/// A run of a cluster whose nodes have this budget.
fn within(seed: u64, budget: Budget, story: impl AsyncFnOnce(&mut Cluster)) -> Outcome {
    let mut cluster = Cluster::prepared(seed);
    cluster.budget = budget;
    cluster.reads = vec![NEWEST_VERSION; 3];
    cluster.start_all();
    lived_by(cluster, async |cluster| {
        is_raised(cluster).await;
        work(cluster).await;
        story(cluster).await;
    })
}

/// A transaction on a follower that has read everything at the visible commit.
async fn begin(cluster: &Cluster, follower: usize, engine: &Arc<FollowerEngine>) -> Work {
    let engine = Arc::clone(engine);
    let begun = on(cluster, follower, async move {
        let mut work = Work::read(&*engine, Isolation::SnapshotIsolation).await?;
        work.all()?;
        Ok::<_, Error>(work)
    });
    let begun = begun.await.expect("nothing crashes");
    begun.expect("it follows")
}

fn memory(engine: &FollowerEngine) -> MemoryAccounts {
    engine.memory().expect("it has a budget")
}

async fn statistics(
    cluster: &Cluster,
    follower: usize,
    engine: &Arc<FollowerEngine>,
) -> Statistics {
    let engine = Arc::clone(engine);
    let read = on(cluster, follower, async move { engine.statistics() });
    read.await.expect("nothing crashes")
}

#[test]
fn the_oldest_reader_of_a_follower_ends_at_the_nodes_budget() {
    let budget = Budget {
        old_versions: 128,
        ..Budget::UNLIMITED
    };
    let outcome = within(7, budget, async |cluster| {
        let (_, engine, [follower, _]) = roles(cluster).await;
        drop(engine);
        let engine = reader(cluster, follower).await;
        let ended = || memory(&engine).ended_snapshots;
        let before = ended();
        let mut held = begin(cluster, follower, &engine).await;
        // Transfers change the few accounts again and again, and the reader holds them all.
        until(cluster, "the oldest reader ends", |_| {
            (ended() > before).then_some(())
        })
        .await;
        let read = on(cluster, follower, async move { held.all().map(drop) });
        let read = read.await.expect("nothing crashes");
        assert_eq!(read, Err(Error::SnapshotTooOld));
        // Replay goes on, and so do new readers.
        work(cluster).await;
        drop(begin(cluster, follower, &engine).await);
        let now = statistics(cluster, follower, &engine).await;
        assert!(now.memory.rows > 0 && now.memory.indexes > 0, "{now:?}");
        assert!(now.committed + now.aborted.iter().sum::<u64>() > 0);
        assert!(now.storages > 0 && now.rows > 0, "{now:?}");
    });
    assert_eq!(outcome.objections, [""; 0]);
}

#[test]
fn what_a_reader_held_is_freed_although_nothing_is_written() {
    let cluster = reading(8, [NEWEST_VERSION; 3]);
    let outcome = lived_by(cluster, async |cluster| {
        is_raised(cluster).await;
        let (_, engine, [follower, _]) = roles(cluster).await;
        drop(engine);
        let engine = reader(cluster, follower).await;
        work(cluster).await;
        let held = begin(cluster, follower, &engine).await;
        work(cluster).await;
        cluster.judge.lock().pause(true);
        cluster.world.wait(milliseconds(1000)).await;
        let lag = statistics(cluster, follower, &engine)
            .await
            .oldest_snapshot_lag;
        let old_versions = || memory(&engine).old_versions;
        assert!(old_versions() > 0 && lag > 0, "the reader holds some");
        let committed = |cluster: &Cluster| cluster.node_status(follower).map(|now| now.committed);
        let before = committed(cluster);
        let dropped = on(cluster, follower, async move { drop(held) });
        dropped.await.expect("nothing crashes");
        // Within a second of its end, with no commit to be replayed.
        cluster.world.wait(milliseconds(1000)).await;
        assert_eq!(committed(cluster), before, "nothing was written");
        assert_eq!(old_versions(), 0);
        cluster.judge.lock().pause(false);
    });
    assert_eq!(outcome.objections, [""; 0]);
}
