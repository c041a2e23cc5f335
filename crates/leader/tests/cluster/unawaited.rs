//! Non-quorum followers receive the log in larger pieces, and receive all of it.

use std::time::Duration;

use coeval_txn::Error;

use crate::changes::{leader, status};
use crate::nodes::Cluster;
use crate::runs::lived;
use crate::table::{Work, durable};

const COMMITS: u64 = 200;

/// Bytes of the leader's log that each follower lacks.
async fn lags(cluster: &Cluster, leader: usize) -> Vec<u64> {
    let status = status(cluster, leader).await;
    let known = status.members.iter().filter(|member| member.peer.is_some());
    let progress = known.filter_map(|member| member.progress.as_ref());
    progress
        .map(|progress| status.end.0 - progress.durable.0)
        .collect()
}

#[test]
fn they_are_sent_less_often() {
    let outcome = lived(1, async |cluster| {
        let leader = leader(cluster).await;
        // No other client writes.
        cluster.judge.lock().set_idle(Some(leader as u64 + 1));
        cluster.world.wait(Duration::from_millis(300)).await;
        let engine = cluster.node_status(leader).and_then(|now| now.engine);
        let engine = engine.expect("it serves");
        let appends = || cluster.judge.lock().property_checker.appends();
        let before = appends();
        let writes = async move {
            let began = coeval_env::now();
            for _ in 0..COMMITS {
                let mut work = Work::write(&*engine).await?;
                work.change(0, 0).await?;
                durable(&*engine, work.commit().await?).await?;
            }
            Ok::<Duration, Error>(began.elapsed())
        };
        let writes = cluster.world.spawn(cluster.machines[leader], writes);
        let lasted = writes.await.expect("nothing crashes");
        let lasted = lasted.expect("it leads all the time");
        let sent = appends() - before;
        println!("{sent} messages to two followers for {COMMITS} commits in {lasted:?}");
        // Each commit is sent to the quorum follower at once, and to the other follower in
        // pieces.
        let pieces = sent.checked_sub(COMMITS).expect("a message for each");
        // An interval is 15 ms. Two ticks, without which no piece would be sent, are 40 ms.
        let between = lasted.as_millis() as u64 / 25..COMMITS / 2;
        assert!(between.contains(&pieces), "{pieces}, {between:?}");
        cluster.world.wait(Duration::from_millis(100)).await;
        assert_eq!(lags(cluster, leader).await, [0, 0]);
        cluster.judge.lock().set_idle(None);
    });
    assert_eq!(outcome.objections, [""; 0]);
}
