//! Nodes that have lost what they had, or have something else in its place.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use coeval_consensus::encoding::encode_membership;
use coeval_consensus::{Membership, NodeId as Member};
use coeval_log::{HardState, ReplicaLog};
use coeval_occ::FollowedTables;
use coeval_types::Term;

use crate::nodes::{CLUSTER, Cluster, DIRECTORY, engine_settings};

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Waits until clients were told of so many more transfers. Whether that came to pass.
async fn goes_on(cluster: &Cluster, more: usize) -> bool {
    let before = cluster.court.lock().told().len();
    for _ in 0..500 {
        cluster.world.wait(milliseconds(10)).await;
        if cluster.court.lock().told().len() >= before + more {
            return true;
        }
    }
    false
}

/// Makes a directory of this cluster whose log is another one: its entries do not end where
/// those of the cluster do, and all of them are said to be committed.
async fn another_log() {
    let settings = engine_settings().log;
    let replay = FollowedTables::new().replay();
    let opened = ReplicaLog::open(Path::new(DIRECTORY), Some(CLUSTER.0), settings, replay);
    let (mut log, _) = opened.await.expect("the directory is empty");
    let begun = HardState {
        term: Term(1),
        ..log.hard_state()
    };
    log.set_hard_state(begun).await.expect("the first term");
    let members = |learners: u64| {
        let voters = (1..=3).map(Member);
        encode_membership(&Membership::new(voters, (4..4 + learners).map(Member)))
    };
    log.append_mark(Term(1), &members(0)).await.expect("sound");
    for learners in [20, 40] {
        let members = members(learners);
        log.append_membership(Term(1), &members)
            .await
            .expect("sound");
    }
    log.flush().await.expect("nothing fails now");
    let committed = HardState {
        commit: log.end(),
        ..log.hard_state()
    };
    log.set_hard_state(committed).await.expect("it is there");
    log.close().await.expect("nothing fails now");
}

#[test]
fn a_follower_with_another_log_stops_and_never_its_leader() {
    for seed in 0..3 {
        let mut cluster = Cluster::new(seed);
        let world = Rc::clone(&cluster.world);
        world.block_on(async {
            assert!(goes_on(&cluster, 30).await);
            let leads = cluster.leader().expect("somebody has worked");
            let other = (leads + 1) % 3;
            world.crash(cluster.machines[other]);
            world.replace_disk(cluster.machines[other]);
            cluster.court.lock().lose_disk(other as u64 + 1);
            let made = world.spawn(cluster.machines[other], another_log());
            made.await.expect("nothing crashes now");
            let term = cluster.standing(leads).expect("it runs").term;
            cluster.restart(other);
            for _ in 0..500 {
                world.wait(milliseconds(10)).await;
                if cluster.has_objections() {
                    break;
                }
            }
            assert!(goes_on(&cluster, 30).await);
            let standing = cluster.standing(leads).expect("it runs");
            assert_eq!((standing.term, standing.failure), (term, None));
            let objections = cluster.court.lock().objections();
            let of_it = format!("node {}", other + 1);
            let others = objections.iter().filter(|words| !words.contains(&of_it));
            assert_eq!(others.count(), 0, "{objections:?}");
            let stopped = format!("{of_it} stopped: the leader has another entry");
            let has_stopped = |words: &String| words.starts_with(&stopped);
            assert!(objections.iter().any(has_stopped), "{objections:?}");
        });
    }
}
