//! Founding a cluster, and directories that are not those the cluster knows.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use coeval_leader::node::{Founding, NEWEST_VERSION, Role, Status};
use coeval_peers::NodeId;
use coeval_types::Term;
use coeval_types::planted::{Bug, plant};

use crate::changes::{add, leader, remove, status, until, voters, work};
use crate::lost::another_log;
use crate::nodes::Cluster;
use crate::runs::{compare, converge};
use crate::versions::is_raised;

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Machines whose nodes found a cluster by asking each other.
fn prepared(seed: u64, version: u32) -> Cluster {
    let mut cluster = Cluster::prepared(seed);
    cluster.founding = Founding::Asked { without: [].into() };
    cluster.reads = vec![version; 3];
    cluster
}

fn shut_out(cluster: &Cluster, index: usize) -> String {
    let shown = cluster.node_status(index).and_then(|shown| shown.shut_out);
    shown.as_deref().unwrap_or_default().to_owned()
}

/// What is in the place of the lost directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    Nothing,
    OldBackup,
}

const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// One node is down while the other two commit; of these one loses its disk, and is started
/// with the flag that founds. `order` is that of the starts: the node that was down, the one
/// that has everything, the one that has lost it. Returns the objections, and what the last
/// one says.
fn lost(seed: u64, order: [usize; 3], instead: Instead, version: u32) -> (Vec<String>, String) {
    let mut cluster = prepared(seed, version);
    cluster.start_all();
    let world = Rc::clone(&cluster.world);
    let (kept, said) = world.block_on(async {
        work(&cluster).await;
        if version == NEWEST_VERSION {
            is_raised(&cluster).await;
        }
        let leads = leader(&cluster).await;
        let (down, lost) = ((leads + 1) % 3, (leads + 2) % 3);
        // What a backup of now has: the log and its checkpoint, and no identity.
        world.kill(cluster.machines[lost]);
        let backup: Vec<(PathBuf, Vec<u8>)> = world.files(cluster.machines[lost]);
        let is_of_the_node = |path: &PathBuf| {
            let names = ["IDENTITY", "FOUNDERS", "LOCK"];
            path.file_name()
                .is_some_and(|name| names.iter().any(|its| name == *its))
        };
        let backup = backup.into_iter().filter(|(path, _)| !is_of_the_node(path));
        let backup: Vec<_> = backup.collect();
        cluster.restart(lost);
        work(&cluster).await;
        world.crash(cluster.machines[down]);
        // Acknowledged by the two others only.
        work(&cluster).await;
        work(&cluster).await;
        world.crash(cluster.machines[leads]);
        world.crash(cluster.machines[lost]);
        let files = match instead {
            Instead::Nothing => Vec::new(),
            Instead::OldBackup => backup,
        };
        cluster.replace_disk(lost, files).await;
        for index in order.map(|index| [down, leads, lost][index]) {
            cluster.restart(index);
            world.wait(milliseconds(2000)).await;
            if cluster.has_objections() {
                return (None, String::new());
            }
        }
        converge(&cluster).await;
        let said = shut_out(&cluster, lost);
        if !cluster.has_objections() {
            cluster.stop().await;
        }
        (Some([down, leads]), said)
    });
    if let Some(kept) = kept.filter(|_| !cluster.has_objections()) {
        compare(&cluster, &kept);
    }
    (cluster.judge.lock().objections(), said)
}

#[test]
fn a_lost_disk_loses_nothing_whatever_the_order_of_starts() {
    for (seed, order) in ORDERS.into_iter().enumerate() {
        let (objections, said) = lost(seed as u64, order, Instead::Nothing, NEWEST_VERSION);
        assert_eq!(objections, [""; 0], "order {order:?}");
        assert!(said.contains("holds a log"), "{said}");
    }
}

#[test]
fn an_old_backup_in_a_directory_loses_nothing_whatever_the_order_of_starts() {
    for (seed, order) in ORDERS.into_iter().enumerate() {
        let (objections, said) = lost(seed as u64, order, Instead::OldBackup, NEWEST_VERSION);
        assert_eq!(objections, [""; 0], "order {order:?}");
        assert!(said.contains("another directory"), "{said}");
    }
}

/// Before the cluster names directories, founding alone keeps a lost disk out.
#[test]
fn a_lost_disk_loses_nothing_at_the_first_version() {
    let (objections, said) = lost(0, [0, 2, 1], Instead::Nothing, 1);
    assert_eq!(objections, [""; 0]);
    assert!(said.contains("holds a log"), "{said}");
    let planted = plant(Bug::FoundAtOnce);
    let (objections, _) = lost(0, [0, 2, 1], Instead::Nothing, 1);
    drop(planted);
    let is_found = |words: &String| words.contains("leader completeness");
    assert!(objections.iter().any(is_found), "{objections:?}");
}

#[test]
fn a_vote_of_an_unknown_directory_is_found() {
    let planted = plant(Bug::VoteWithUnknownIdentity);
    let (objections, _) = lost(1, [0, 2, 1], Instead::OldBackup, NEWEST_VERSION);
    drop(planted);
    let is_found = |words: &String| words.contains("leader completeness");
    assert!(objections.iter().any(is_found), "{objections:?}");
}

/// The founders start one after the other, and each crashes in the middle of it.
#[test]
fn founding_waits_for_every_founder_and_outlives_crashes() {
    for seed in 0..4 {
        let mut cluster = prepared(seed, NEWEST_VERSION);
        let world = Rc::clone(&cluster.world);
        world.block_on(async {
            // All of them begin, for an instant.
            cluster.start_all();
            world.wait(milliseconds(1)).await;
            for index in 0..3 {
                world.crash(cluster.machines[index]);
            }
            let late = seed as usize % 3;
            let early = [(late + 1) % 3, (late + 2) % 3];
            for index in early {
                cluster.restart(index);
            }
            world.wait(milliseconds(5000)).await;
            for index in early {
                let shown = cluster.node_status(index).expect("it runs");
                assert_eq!((shown.role, shown.leader), (Role::Follower, None));
                let said = shut_out(&cluster, index);
                assert!(
                    said.contains(&format!("node {} has not answered", late + 1)),
                    "{said}"
                );
            }
            world.crash(cluster.machines[early[0]]);
            cluster.restart(late);
            // As soon as one has founded, another is killed: it founds when it is back.
            world.wait(milliseconds(300)).await;
            cluster.restart(early[0]);
            world.wait(milliseconds(20 * (seed + 1))).await;
            world.crash(cluster.machines[late]);
            world.wait(milliseconds(1000)).await;
            cluster.restart(late);
            work(&cluster).await;
            let now = is_raised(&cluster).await;
            assert_eq!(voters(&now), [1, 2, 3]);
            for index in 0..3 {
                let takes_part = |cluster: &Cluster| {
                    let shown = cluster.node_status(index)?;
                    (shown.shut_out.is_none() && shown.leader.is_some()).then_some(())
                };
                until(&cluster, "it takes part", takes_part).await;
            }
            converge(&cluster).await;
            cluster.stop().await;
        });
        compare(&cluster, &[0, 1, 2]);
        assert_eq!(cluster.judge.lock().objections(), [""; 0], "seed {seed}");
    }
}

/// A founder that never comes: the administrator vouches for it. Its machine, started later,
/// is not let in under its number, and is under another.
#[test]
fn a_founder_that_the_administrator_vouches_for_is_not_waited_for() {
    let mut cluster = prepared(5, NEWEST_VERSION);
    cluster.founding = Founding::Asked {
        without: [NodeId(3)].into(),
    };
    let world = Rc::clone(&cluster.world);
    world.block_on(async {
        cluster.start_all();
        world.crash(cluster.machines[2]);
        work(&cluster).await;
        // For the audit log: said when it takes effect, and not at a later start.
        let without = |cluster: &Cluster, index| {
            let shown = cluster.node_status(index).expect("it runs");
            shown.founded_without
        };
        for index in 0..2 {
            assert_eq!(without(&cluster, index), [NodeId(3)].into());
        }
        world.kill(cluster.machines[0]);
        cluster.restart(0);
        work(&cluster).await;
        assert_eq!(without(&cluster, 0), [].into());
        cluster.founding = Founding::Asked { without: [].into() };
        cluster.replace_disk(2, Vec::new()).await;
        cluster.restart(2);
        let says = |cluster: &Cluster| shut_out(cluster, 2).contains("holds a log").then_some(());
        until(&cluster, "it is not let in", says).await;
        remove(&cluster, 3).await;
        let id = cluster.join();
        add(&cluster, id).await;
        let now = is_raised(&cluster).await;
        assert_eq!(voters(&now), [1, 2, 4]);
        assert_eq!(
            status(&cluster, leader(&cluster).await)
                .await
                .cluster_version,
            NEWEST_VERSION
        );
        converge(&cluster).await;
        cluster.stop().await;
    });
    compare(&cluster, &[0, 1, 3]);
    assert_eq!(cluster.judge.lock().objections(), [""; 0]);
}

/// The administrator vouches for a founder that has a log all the same, of a later term than
/// any of the cluster. Returns the objections.
fn vouched_for_wrongly(seed: u64, version: u32) -> Vec<String> {
    let mut cluster = prepared(seed, version);
    cluster.founding = Founding::Asked {
        without: [NodeId(3)].into(),
    };
    let world = Rc::clone(&cluster.world);
    let kept = world.block_on(async {
        let made = world.spawn(cluster.machines[2], another_log(Term(7), false));
        made.await.expect("nothing crashes now");
        cluster.start_all();
        world.wait(milliseconds(3000)).await;
        if cluster.has_objections() {
            return None;
        }
        work(&cluster).await;
        // Also where it is let in by a node that has not founded the cluster with the others.
        let id = cluster.join();
        add(&cluster, id).await;
        world.wait(milliseconds(3000)).await;
        if cluster.has_objections() {
            return None;
        }
        let said = shut_out(&cluster, 2);
        let shown = cluster.node_status(2).expect("it runs");
        if !said.contains("left out when the cluster was founded") || shown.leader.is_some() {
            let objection = format!("node 3 is let in: {shown:?}");
            cluster.judge.lock().object(objection);
            return None;
        }
        remove(&cluster, 3).await;
        let id = cluster.join();
        add(&cluster, id).await;
        assert_eq!(voters(&is_at(&cluster, version).await), [1, 2, 4, 5]);
        converge(&cluster).await;
        cluster.stop().await;
        Some([0, 1, 3, 4])
    });
    if let Some(kept) = kept {
        compare(&cluster, &kept);
    }
    cluster.judge.lock().objections()
}

async fn is_at(cluster: &Cluster, version: u32) -> Status {
    match version {
        NEWEST_VERSION => is_raised(cluster).await,
        _ => status(cluster, leader(cluster).await).await,
    }
}

#[test]
fn a_founder_that_was_vouched_for_is_not_let_in_with_a_log() {
    for version in [1, NEWEST_VERSION] {
        assert_eq!(
            vouched_for_wrongly(6, version),
            [""; 0],
            "version {version}"
        );
        let planted = plant(Bug::AdoptVouched);
        let objections = vouched_for_wrongly(6, version);
        drop(planted);
        assert!(!objections.is_empty(), "version {version}");
    }
}

/// Two nodes are started with three members, and one with two, itself among them.
#[test]
fn founders_that_name_other_members_show_both_lists() {
    for seed in 0..4 {
        let mut cluster = prepared(seed, NEWEST_VERSION);
        cluster.named = [3, 2, 3];
        let world = Rc::clone(&cluster.world);
        world.block_on(async {
            cluster.start_all();
            world.wait(milliseconds(5000)).await;
            for (index, lists) in [
                (0, "1, 2, 3 at node 1, 1, 2 at node 2"),
                (1, "1, 2 at node 2, 1, 2, 3 at node 1"),
            ] {
                let said = shut_out(&cluster, index);
                let expected = format!("compare cluster_members of both: {lists}");
                assert!(said.contains(&expected), "{said}");
                // Nothing is written down, so nothing has to be emptied.
                assert!(said.contains("start all founders with the same"), "{said}");
            }
            world.kill(cluster.machines[1]);
            cluster.named[1] = 3;
            cluster.restart(1);
            work(&cluster).await;
            assert_eq!(voters(&is_raised(&cluster).await), [1, 2, 3]);
            converge(&cluster).await;
            cluster.stop().await;
        });
        compare(&cluster, &[0, 1, 2]);
        assert_eq!(cluster.judge.lock().objections(), [""; 0], "seed {seed}");
    }
}
