//! A leader's disk is slower than a follower's as often as not. Then a commit waits for it, and
//! has to be told as soon as it is done: flushes that nobody waits for wake nobody.

use std::time::Duration;

use coeval_txn::Error;

use crate::changes::leader;
use crate::nodes::TICK_MILLISECONDS;
use crate::runs::lived;
use crate::table::{Work, durable};

const COMMITS: u64 = 100;

/// With which everything is looked at anyway.
const TICK: Duration = Duration::from_millis(TICK_MILLISECONDS);

#[test]
fn a_commit_does_not_wait_for_a_tick() {
    for seed in 1..=4 {
        let outcome = lived(seed, async |cluster| {
            let leader = leader(cluster).await;
            // Nobody else writes, whose messages would do instead.
            cluster.court.lock().set_idle(Some(leader as u64 + 1));
            cluster.world.wait(Duration::from_millis(300)).await;
            let engine = cluster.standing(leader).and_then(|now| now.engine);
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
            cluster.court.lock().set_idle(None);
        });
        assert_eq!(outcome.objections, [""; 0]);
    }
}
