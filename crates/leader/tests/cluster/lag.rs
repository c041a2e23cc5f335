//! The lag of members: nothing while nothing is written, and growing while one is cut off.

use std::time::Duration;

use coeval_leader::node::{Lag, NEWEST_VERSION};

use crate::changes::{leader, status, work};
use crate::nodes::Cluster;
use crate::runs::lived_by;
use crate::versions::is_raised;

/// The lag of each member, as node `index` knows it.
async fn lags(cluster: &Cluster, index: usize) -> Vec<Option<Lag>> {
    let status = status(cluster, index).await;
    status.members.iter().map(|member| member.lag).collect()
}

#[test]
fn it_is_nothing_when_idle_and_grows_while_a_member_is_cut_off() {
    let mut cluster = Cluster::prepared(1);
    cluster.reads = vec![NEWEST_VERSION; 3];
    cluster.start_all();
    let outcome = lived_by(cluster, async |cluster| {
        is_raised(cluster).await;
        work(cluster).await;
        let leads = leader(cluster).await;
        let [cut, other] = [(leads + 1) % 3, (leads + 2) % 3];
        cluster.judge.lock().set_idle(Some(leads as u64 + 1));
        cluster.world.wait(Duration::from_secs(1)).await;
        assert_eq!(lags(cluster, leads).await, [Some(Lag::default()); 3]);
        assert_eq!(lags(cluster, cut).await[cut], Some(Lag::default()));
        let caught_up = status(cluster, leads).await;
        for member in &caught_up.members {
            let known = member.reached.expect("it has reported");
            assert_eq!(known.visible, caught_up.committed, "{member:?}");
            assert!(known.replayed >= known.visible && known.received >= known.flushed);
        }
        cluster.cut_off(cut, true);
        cluster.judge.lock().set_idle(None);
        work(cluster).await;
        cluster.world.wait(Duration::from_secs(2)).await;
        let now = lags(cluster, leads).await;
        let behind = now[cut].expect("it had reported");
        assert!(behind.bytes > 0, "{behind:?}");
        assert!(behind.time > Duration::from_millis(1500), "{behind:?}");
        let beside = now[other].expect("it reports");
        assert!(beside.time < Duration::from_millis(200), "{beside:?}");
        // The node that is cut off does not know what it misses, but for how long.
        let own = lags(cluster, cut).await[cut].expect("its own");
        assert!(own.time > Duration::from_millis(1000), "{own:?}");
        cluster.world.wait(Duration::from_secs(2)).await;
        let later = lags(cluster, leads).await[cut].expect("it had reported");
        let grown = later.time.saturating_sub(behind.time);
        assert!(grown > Duration::from_millis(1900), "{behind:?} {later:?}");
        cluster.cut_off(cut, false);
        work(cluster).await;
        let leads = leader(cluster).await;
        cluster.judge.lock().set_idle(Some(leads as u64 + 1));
        cluster.world.wait(Duration::from_secs(2)).await;
        assert_eq!(lags(cluster, leads).await, [Some(Lag::default()); 3]);
        cluster.judge.lock().set_idle(None);
    });
    assert_eq!(outcome.objections, [""; 0]);
}
