//! A leader's disk is often slower than a follower's. Then a commit waits for that disk,
//! and the driver must report the flush at once; flushes that no commit waits for wake no
//! task.

use std::time::Duration;

use coeval_txn::Error;

use crate::changes::leader;
use crate::nodes::TICK_MILLISECONDS;
use crate::runs::lived;
use crate::table::{Work, durable};

const COMMITS: u64 = 100;

/// The tick, at which the driver polls everything in any case.
const TICK: Duration = Duration::from_millis(TICK_MILLISECONDS);

#[test]
fn a_commit_does_not_wait_for_a_tick() {
    for seed in 1..=4 {
        let outcome = lived(seed, async |cluster| {
            let leader = leader(cluster).await;
            // No client writes, so that no other message wakes the driver instead.
            cluster.judge.lock().set_idle(Some(leader as u64 + 1));
            cluster.world.wait(Duration::from_millis(300)).await;
            let engine = cluster.node_status(leader).and_then(|now| now.engine);
            let engine = engine.expect("it serves");
            let writes = async move {
                let mut longest = Duration::ZERO;
                for _ in 0..COMMITS {
                    let mut work = Work::write(&*engine).await?;
                    work.change(0, 0).await?;
                    let commit = work.commit().await?;
                    let began = coeval_env::now();
                    durable(&*engine, commit).await?;
                    longest = longest.max(began.elapsed());
                }
                Ok::<Duration, Error>(longest)
            };
            let writes = cluster.world.spawn(cluster.machines[leader], writes);
            let longest = writes.await.expect("nothing crashes");
            let longest = longest.expect("it leads all the time");
            assert!(
                longest < TICK / 2,
                "seed {seed}: {longest:?} of virtual time"
            );
            cluster.judge.lock().set_idle(None);
        });
        assert_eq!(outcome.objections, [""; 0]);
    }
}
