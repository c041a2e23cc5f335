//! Questions of followers: who shares them, and who may ask.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_leader::node::{NEWEST_VERSION, QuestionCounts};
use coeval_occ::{Engine, FollowerEngine};
use coeval_txn::{Error, newest};

use crate::changes::{leader, status, until, work};
use crate::nodes::Cluster;
use crate::runs::{Outcome, lived_by};
use crate::versions::is_raised;

pub fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A cluster whose nodes read these cluster versions.
pub fn reading(seed: u64, reads: [u32; 3]) -> Cluster {
    let mut cluster = Cluster::prepared(seed);
    cluster.reads = reads.into();
    cluster.start_all();
    cluster
}

/// A run of a cluster whose followers ask from its beginning on.
pub fn asking(seed: u64, story: impl AsyncFnOnce(&mut Cluster)) -> Outcome {
    lived_by(reading(seed, [NEWEST_VERSION; 3]), async |cluster| {
        is_raised(cluster).await;
        work(cluster).await;
        story(cluster).await;
    })
}

/// The machine that leads, its engine, and the machines that follow.
pub async fn roles(cluster: &Cluster) -> (usize, Arc<Engine>, [usize; 2]) {
    let leads = leader(cluster).await;
    let engine = cluster.node_status(leads).and_then(|now| now.engine);
    let followers = [(leads + 1) % 3, (leads + 2) % 3];
    (leads, engine.expect("it serves"), followers)
}

/// The engine that reads a follower's tables.
pub async fn reader(cluster: &Cluster, index: usize) -> Arc<FollowerEngine> {
    let shows = |cluster: &Cluster| cluster.node_status(index)?.reader;
    until(cluster, "a follower has a reader", shows).await
}

pub fn on<T: 'static>(
    cluster: &Cluster,
    index: usize,
    task: impl Future<Output = T> + 'static,
) -> JoinHandle<T> {
    cluster.world.spawn(cluster.machines[index], task)
}

pub async fn questions(cluster: &Cluster, index: usize) -> QuestionCounts {
    status(cluster, index).await.questions
}

#[test]
fn readers_at_the_same_time_share_a_question() {
    const READERS: u64 = 64;
    let outcome = asking(2, async |cluster| {
        let (leads, engine, [follower, _]) = roles(cluster).await;
        cluster.judge.lock().set_idle(Some(leads as u64 + 1));
        drop(engine);
        let reader = reader(cluster, follower).await;
        cluster.world.wait(milliseconds(300)).await;
        let before = questions(cluster, follower).await;
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let reader = Arc::clone(&reader);
                on(cluster, follower, async move {
                    for _ in 0..10 {
                        newest(&*reader).await?;
                    }
                    Ok::<(), Error>(())
                })
            })
            .collect();
        for reader in readers {
            let read = reader.await.expect("nothing crashes");
            read.expect("it follows all the time");
        }
        let after = questions(cluster, follower).await;
        let (asked, sent) = (after.asked - before.asked, after.sent - before.sent);
        println!("{asked} reads asked, {sent} questions");
        assert!(asked >= 10 * READERS);
        assert!((1..=asked / 10).contains(&sent), "{sent} of {asked}");
        cluster.judge.lock().set_idle(None);
    });
    assert_eq!(outcome.objections, [""; 0]);
}

#[test]
fn below_the_cluster_version_no_question_is_sent() {
    // Followers ask from version 3 on.
    let before = 2;
    let cluster = reading(6, [NEWEST_VERSION, before, NEWEST_VERSION]);
    let outcome = lived_by(cluster, async |cluster| {
        work(cluster).await;
        work(cluster).await;
        for index in 0..3 {
            let now = cluster.node_status(index).expect("it runs");
            let Some(engine) = now.reader else {
                continue;
            };
            let asked = on(cluster, index, async move { newest(&*engine).await });
            let asked = asked.await.expect("nothing crashes");
            assert!(matches!(asked, Err(Error::Stopped(_))), "{asked:?}");
            let counts = questions(cluster, index).await;
            assert_eq!((counts.sent, counts.asked), (0, counts.refused));
        }
        cluster.world.kill(cluster.machines[1]);
        cluster.reads[1] = NEWEST_VERSION;
        cluster.restart(1);
        is_raised(cluster).await;
        let (_, engine, followers) = roles(cluster).await;
        drop(engine);
        for follower in followers {
            let engine = reader(cluster, follower).await;
            let asked = on(cluster, follower, async move { newest(&*engine).await });
            asked.await.expect("nothing crashes").expect("it may ask");
        }
    });
    assert_eq!(outcome.objections, [""; 0]);
}
