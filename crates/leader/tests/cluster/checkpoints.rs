//! Nodes that return after the log that they would need has been removed.

use std::sync::Arc;
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_types::planted::{Bug, plant};
use coeval_types::{Lsn, Timestamp};

use crate::bank;
use crate::changes::work;
use crate::nodes::Cluster;
use crate::runs::{Outcome, lived};

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Waits until nodes have installed this many checkpoints.
async fn installed(cluster: &Cluster, count: u64) {
    for _ in 0..400 {
        cluster.world.wait(milliseconds(20)).await;
        if cluster.has_objections() || cluster.judge.lock().property_checker.installed() >= count {
            return;
        }
    }
    let mut judge = cluster.judge.lock();
    judge.object("no checkpoint was installed in 8 s".to_owned());
}

/// Waits until a node leads, and returns its index.
async fn leader(cluster: &Cluster) -> usize {
    for _ in 0..500 {
        cluster.world.wait(milliseconds(20)).await;
        let leader = cluster.leader();
        if let Some(leader) = leader.filter(|leader| {
            let node_status = cluster.node_status(*leader);
            node_status.is_some_and(|node_status| node_status.engine.is_some())
        }) {
            return leader;
        }
    }
    let mut judge = cluster.judge.lock();
    judge.object("no node has led for 10 s".to_owned());
    0
}

fn sound(outcome: &Outcome) {
    assert_eq!(outcome.objections, [""; 0], "{outcome:?}");
    assert!(outcome.told > 0 && outcome.reads > 0, "{outcome:?}");
}

#[test]
fn a_node_that_was_away_for_long_comes_back_by_a_checkpoint_under_load() {
    for seed in 0..2 {
        let outcome = lived(seed, async |cluster| {
            let away = (leader(cluster).await + 1) % 3;
            cluster.world.crash(cluster.machines[away]);
            cluster.world.wait(milliseconds(8000)).await;
            cluster.restart(away);
            installed(cluster, 1).await;
        });
        sound(&outcome);
        assert!(outcome.installed >= 1);
    }
}

#[test]
fn one_that_is_only_cut_off_comes_back_as_well() {
    let outcome = lived(3, async |cluster| {
        let away = leader(cluster).await;
        cluster.cut_off(away, true);
        cluster.world.wait(milliseconds(8000)).await;
        cluster.cut_off(away, false);
        installed(cluster, 1).await;
    });
    sound(&outcome);
}

/// Waits until a node sends a checkpoint.
async fn sends(cluster: &Cluster, index: usize) {
    for _ in 0..10_000 {
        cluster.world.wait(milliseconds(1)).await;
        let node_status = cluster.node_status(index);
        if node_status.is_some_and(|node_status| !node_status.transfers.is_empty()) {
            return;
        }
    }
    let mut judge = cluster.judge.lock();
    judge.object("no checkpoint was sent for 10 s".to_owned());
}

/// Whether the checkpoint in force on a machine's disk needs log from before its end.
fn needs_log(cluster: &Cluster, index: usize) -> bool {
    let files = cluster.world.files(cluster.machines[index]);
    let newest = files.iter().rfind(|(path, _)| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(".checkpoint"))
    });
    newest.is_some_and(|(_, bytes)| {
        // The fields follow magic, version, checksum and database.
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let end = Timestamp::from_bits(word(32)).lsn().0 + Lsn::ALIGNMENT;
        word(40) < end
    })
}

/// Has the leader take a checkpoint while large transactions are being written, and waits
/// until it has.
async fn takes_one_within_a_large_transaction(cluster: &Cluster, leads: usize) {
    let node_status = cluster.node_status(leads);
    let Some(engine) = node_status.and_then(|node_status| node_status.engine) else {
        return cluster.judge.lock().object("no node serves".to_owned());
    };
    let machine = cluster.machines[leads];
    let clients = [(); 2].map(|()| {
        let large = bank::large(Arc::clone(&engine), cluster.judge.clone());
        cluster.world.spawn(machine, large)
    });
    for _ in 0..400 {
        let taken = coeval_txn::Engine::checkpoint(&*engine);
        // It fails when the cluster does.
        let _ = cluster.world.spawn(machine, taken).await;
        if needs_log(cluster, leads) {
            break;
        }
    }
    if !needs_log(cluster, leads) {
        let mut judge = cluster.judge.lock();
        judge.object("no checkpoint fell into a large transaction".to_owned());
    }
    clients.iter().for_each(JoinHandle::abort);
}

/// The checkpoint that the leader starts with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    /// Taken at any moment.
    Somewhere,
    /// Taken within a large transaction, so it needs log from before its end.
    WithinALargeTransaction,
}

/// One node is lost after another was away for long. The latter and the leader restart: the
/// cluster commits nothing before the leader has sent a checkpoint. With odd seeds one of
/// the two crashes once more meanwhile.
fn one_is_lost_and_one_is_behind(seed: u64, begins: Begins) -> Outcome {
    lived(seed, async |cluster| {
        let leads = leader(cluster).await;
        let (away, lost) = ((leads + 1) % 3, (leads + 2) % 3);
        cluster.world.crash(cluster.machines[away]);
        cluster.world.wait(milliseconds(8000)).await;
        if begins == Begins::WithinALargeTransaction {
            takes_one_within_a_large_transaction(cluster, leads).await;
        }
        cluster.world.crash(cluster.machines[lost]);
        cluster.world.crash(cluster.machines[leads]);
        // Messages on their way from it are lost, too.
        let (from, to) = (cluster.machines[leads], cluster.machines[lost]);
        cluster.world.break_connections(from, to);
        cluster.restart(leads);
        cluster.restart(away);
        if seed % 2 == 1 {
            let victim = [leads, away][seed as usize / 2 % 2];
            let machine = cluster.machines[victim];
            sends(cluster, leads).await;
            let ahead = seed * 7 % 12;
            let changes = cluster.world.disk_changes(machine);
            cluster.world.crash_at(machine, Some(changes + ahead));
            cluster.world.wait(milliseconds(ahead)).await;
            cluster.world.crash_at(machine, None);
            cluster.world.crash(machine);
            cluster.restart(victim);
        }
        leader(cluster).await;
        if cluster.has_objections() {
            return;
        }
        let installed = cluster.judge.lock().property_checker.installed();
        assert!(installed > 0, "nothing else lets anybody serve");
        work(cluster).await;
        cluster.restart(lost);
    })
}

#[test]
fn a_leader_that_does_not_serve_yet_sends_its_checkpoint() {
    for seed in 40..48 {
        let outcome = one_is_lost_and_one_is_behind(seed, Begins::Somewhere);
        println!("seed {seed}: {outcome:?}");
        sound(&outcome);
    }
}

#[test]
fn one_that_was_taken_within_a_large_transaction_is_sent_with_its_log() {
    for seed in 50..54 {
        let outcome = one_is_lost_and_one_is_behind(seed, Begins::WithinALargeTransaction);
        println!("seed {seed}: {outcome:?}");
        sound(&outcome);
    }
}

#[test]
#[ignore = "a search of some minutes; the two tests above run twelve such seeds in every suite"]
fn many_leaders_that_do_not_serve_yet() {
    for seed in 1000..1060 {
        for begins in [Begins::Somewhere, Begins::WithinALargeTransaction] {
            let outcome = one_is_lost_and_one_is_behind(seed, begins);
            println!("seed {seed}: {outcome:?}");
            sound(&outcome);
        }
    }
}

/// The sender or the receiver crashes during the transfer.
fn interrupted(seed: u64) -> Outcome {
    lived(seed, async |cluster| {
        let leads = leader(cluster).await;
        let away = (leads + 1 + (seed % 2) as usize) % 3;
        cluster.world.crash(cluster.machines[away]);
        cluster.world.wait(milliseconds(8000)).await;
        cluster.restart(away);
        for round in 0..2 {
            let victim = match (seed / 2 + round) % 3 {
                0 => leader(cluster).await,
                _ => away,
            };
            let changes = cluster.world.disk_changes(cluster.machines[victim]);
            let ahead = (seed * 7 + round * 13) % 40;
            if victim == away {
                let at = Some(changes + ahead);
                cluster.world.crash_at(cluster.machines[victim], at);
            }
            cluster
                .world
                .wait(milliseconds(100 + seed * 37 % 400))
                .await;
            cluster.world.crash_at(cluster.machines[victim], None);
            cluster.world.crash(cluster.machines[victim]);
            cluster.world.wait(milliseconds(300)).await;
            cluster.restart(victim);
        }
    })
}

#[test]
fn a_crash_of_sender_or_receiver_leaves_the_one_state_or_the_other() {
    for seed in 0..6 {
        sound(&interrupted(seed));
    }
}

#[test]
#[ignore = "a search of a quarter of an hour; the test above runs six such seeds in every suite"]
fn many_interrupted_transfers() {
    for seed in 1000..1200 {
        let outcome = interrupted(seed);
        println!("seed {seed}: {outcome:?}");
        sound(&outcome);
    }
}

/// The leader is cut off with uncommitted log that only it has, and takes a checkpoint.
fn alone(seed: u64) -> Outcome {
    lived(seed, async |cluster| {
        let leads = leader(cluster).await;
        cluster.world.wait(milliseconds(500)).await;
        for _ in 0..6 {
            let leads = cluster.leader().unwrap_or(leads);
            cluster.cut_off(leads, true);
            let engine = cluster
                .node_status(leads)
                .and_then(|node_status| node_status.engine);
            cluster.world.wait(milliseconds(60)).await;
            if let Some(engine) = engine {
                drop(coeval_txn::Engine::checkpoint(&*engine));
            }
            cluster.world.wait(milliseconds(700)).await;
            cluster.cut_off(leads, false);
            cluster.world.wait(milliseconds(700)).await;
        }
    })
}

#[test]
fn a_checkpoint_of_what_is_not_committed_is_found() {
    sound(&alone(0));
    let planted = plant(Bug::CheckpointUncommitted);
    let found = (0..4).any(|seed| !alone(seed).objections.is_empty());
    drop(planted);
    assert!(found);
}

/// A node that has installed a checkpoint is asked for its vote by a node with less log.
fn asked_by_one_with_less(seed: u64) -> Outcome {
    lived(seed, async |cluster| {
        let leads = leader(cluster).await;
        let (away, less) = ((leads + 1) % 3, (leads + 2) % 3);
        cluster.world.crash(cluster.machines[away]);
        cluster.world.wait(milliseconds(8000)).await;
        cluster.restart(away);
        installed(cluster, 1).await;
        cluster.cut_off(less, true);
        cluster.world.wait(milliseconds(500)).await;
        cluster.world.crash(cluster.machines[leads]);
        cluster.cut_off(less, false);
        cluster.world.wait(milliseconds(1500)).await;
        cluster.restart(leads);
    })
}

#[test]
fn a_checkpoint_without_its_term_is_found() {
    sound(&asked_by_one_with_less(0));
    let planted = plant(Bug::ForgetCheckpointTerm);
    let found = (0..4).any(|seed| !asked_by_one_with_less(seed).objections.is_empty());
    drop(planted);
    assert!(found);
}

/// The checkpoints on a machine's disk, in force and being written, and where its log
/// begins.
fn on_disk(cluster: &Cluster, index: usize) -> (usize, usize, u64) {
    let files = cluster.world.files(cluster.machines[index]);
    let named = |suffix: &str| {
        let names = files.iter().map(|(path, _)| path.to_string_lossy());
        names.filter(|name| name.ends_with(suffix)).count()
    };
    let firsts = files.iter().filter_map(|(path, _)| {
        let name = path.file_name()?.to_str()?;
        let first = name.strip_suffix(".log")?;
        first.split('-').next()?.parse().ok()
    });
    (
        named(".checkpoint"),
        named(".checkpoint.new"),
        firsts.min().unwrap_or(0),
    )
}

/// Waits until a follower has taken a checkpoint and removed the log before it. At no
/// moment two checkpoints are under way.
async fn takes_one(cluster: &Cluster, index: usize) {
    for _ in 0..4000 {
        cluster.world.wait(milliseconds(5)).await;
        if cluster.has_objections() {
            return;
        }
        let (taken, under_way, first) = on_disk(cluster, index);
        let mut judge = cluster.judge.lock();
        if taken + under_way > 3 || under_way > 1 {
            return judge.object(format!("{under_way} checkpoints are under way"));
        }
        if taken > 0 && first > 4096 {
            return;
        }
    }
    let mut judge = cluster.judge.lock();
    judge.object("a follower has taken no checkpoint in 20 s".to_owned());
}

#[test]
fn followers_take_checkpoints_and_start_from_them() {
    for seed in 20..22 {
        let mut began = Vec::new();
        let outcome = lived(seed, async |cluster| {
            let leads = leader(cluster).await;
            let followers = [(leads + 1) % 3, (leads + 2) % 3];
            for follower in followers {
                takes_one(cluster, follower).await;
            }
            if cluster.has_objections() {
                return;
            }
            assert_eq!(cluster.leader(), Some(leads), "nobody has lost the lead");
            for index in 0..3 {
                cluster.world.crash(cluster.machines[index]);
            }
            for index in 0..3 {
                cluster.restart(index);
            }
            let leads = leader(cluster).await;
            began.extend(followers.map(|follower| on_disk(cluster, follower).2));
            // A follower that has taken a checkpoint leads with it.
            cluster.world.crash(cluster.machines[leads]);
            cluster.world.wait(milliseconds(1000)).await;
            cluster.restart(leads);
        });
        sound(&outcome);
        assert_eq!(outcome.installed, 0, "nobody was sent one");
        assert!(began.iter().all(|first| *first > 4096), "{began:?}");
    }
}

/// A follower crashes while it takes a checkpoint of its own, or puts it in force.
fn crashes_in_its_own(seed: u64) -> Outcome {
    lived(seed, async |cluster| {
        let leads = leader(cluster).await;
        let follower = (leads + 1 + (seed % 2) as usize) % 3;
        let machine = cluster.machines[follower];
        for round in 0..3 {
            let mut waits = 0..4000;
            while on_disk(cluster, follower).1 == 0 && !cluster.has_objections() {
                assert!(waits.next().is_some(), "no checkpoint is begun");
                cluster.world.wait(milliseconds(2)).await;
            }
            let changes = cluster.world.disk_changes(machine);
            let ahead = (seed * 7 + round * 13) % 60;
            cluster.world.crash_at(machine, Some(changes + ahead));
            cluster.world.wait(milliseconds(400)).await;
            cluster.world.crash_at(machine, None);
            cluster.world.crash(machine);
            cluster.world.wait(milliseconds(200)).await;
            cluster.restart(follower);
            if round == 1 {
                // The node is needed for a majority, and may lead.
                let leads = leader(cluster).await;
                cluster.world.crash(cluster.machines[leads]);
                cluster.world.wait(milliseconds(1000)).await;
                cluster.restart(leads);
            }
        }
    })
}

#[test]
fn a_crash_within_a_checkpoint_of_its_own_leaves_a_follower_with_everything() {
    for seed in 0..6 {
        sound(&crashes_in_its_own(seed));
    }
}

#[test]
#[ignore = "a search of some minutes; the test above runs six such seeds in every suite"]
fn many_crashes_in_checkpoints_of_followers() {
    for seed in 1000..1200 {
        let outcome = crashes_in_its_own(seed);
        println!("seed {seed}: {outcome:?}");
        sound(&outcome);
    }
}
