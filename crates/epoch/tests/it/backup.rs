//! Backups of a cluster that runs, and clusters that are founded from one.
#![expect(
    clippy::disallowed_methods,
    reason = "a test that edits files of a backup"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_env::Location;
use coeval_epoch::backup::{self, BackupError};
use coeval_epoch::client::{Client, ClientError, delete, put};
use coeval_epoch::server::Founding;
use coeval_epoch::{EpochTimestamp, NoImage, Reason};
use coeval_peers::{ClusterId, NodeId};

use crate::client::{Cluster, free_ports, in_runtime};

const ACCOUNTS: u64 = 40;
const BALANCE: i64 = 100;

fn account(number: u64) -> String {
    format!("account {number}")
}

/// Moves money between accounts until it is told to stop.
async fn transfer(client: Client, stop: Arc<AtomicBool>) -> u64 {
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (done % ACCOUNTS, (done * 7 + 1) % ACCOUNTS);
        if from != to {
            balances[from as usize] -= 1;
            balances[to as usize] += 1;
            let moved = [from, to].map(|number| {
                let balance = balances[number as usize];
                put(account(number), balance.to_string())
            });
            client.put_all(moved).await.unwrap();
        }
        done += 1;
    }
    done
}

#[test]
fn a_backup_is_of_one_moment_and_founds_another_cluster() {
    in_runtime(async {
        let cluster = Cluster::start(3, |_, _| {}).await;
        let client = Client::new(cluster.settings());
        let accounts = (0..ACCOUNTS).map(|number| put(account(number), BALANCE.to_string()));
        client.put_all(accounts).await.unwrap();
        client.put_all([put("gone", "1")]).await.unwrap();
        client.put_all([delete("gone")]).await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (own, told) = (Client::new(cluster.settings()), Arc::clone(&stop));
        let writer = coeval_env::spawn("writer", async move { transfer(own, told).await });
        let before = client.put_all([put("before", "1")]).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("monday");
        let manifest = backup::take(&cluster.clients(), &to, |_, _| {})
            .await
            .unwrap();
        let after = client.put_all([put("after", "1")]).await.unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(writer.await.unwrap() > 0);
        assert!(before.epoch() <= manifest.epoch && manifest.epoch < after.epoch());
        assert_eq!(manifest.versions() as u64, ACCOUNTS + 1);
        // Each file is bound by its own contents.
        let sums: BTreeSet<u32> = manifest.parts.iter().map(|part| part.checksum).collect();
        assert_eq!(sums.len(), manifest.parts.len());
        cluster.stop().await;

        // Fewer nodes, more partitions.
        let ports = free_ports(2).await;
        let location = |id: u64| Location::new("127.0.0.1", ports[id as usize - 1]).unwrap();
        let members: BTreeMap<NodeId, Location> =
            (1..=2).map(|id| (NodeId(id), location(id))).collect();
        let founding = |id: u64| Founding {
            partitions: 11,
            copies: 1,
            ..Founding::new(ClusterId(0), NodeId(id), members.clone())
        };
        let mut directories = BTreeMap::new();
        let (mut cluster, mut restored) = (None, 0);
        for id in 1..=2 {
            let directory = tempfile::tempdir().unwrap();
            let made = backup::restore(&to, directory.path(), founding(id), cluster).await;
            let (made, drawn) = made.unwrap();
            assert_eq!(*cluster.get_or_insert(drawn), drawn);
            restored += made.versions;
            directories.insert(NodeId(id), directory);
        }
        assert_eq!(restored, manifest.versions(), "one copy of each key");
        let elsewhere = folder.path().join("elsewhere");
        let other = Founding {
            partitions: 12,
            ..founding(1)
        };
        let refused = backup::restore(&to, &elsewhere, other, cluster)
            .await
            .unwrap_err();
        assert!(matches!(refused, BackupError::OtherCluster(_)), "{refused}");
        assert!(!elsewhere.exists());
        let refused = backup::restore(&to, folder.path(), founding(1), cluster).await;
        assert!(
            matches!(refused, Err(BackupError::NotEmpty(_))),
            "{refused:?}"
        );

        let cluster = Cluster::resume(directories).await;
        let client = Client::new(cluster.settings());
        let all = client.get_all((0..ACCOUNTS).map(account)).await.unwrap();
        let balance = |number: u64| -> i64 {
            let value = all.value(account(number)).expect("every account");
            std::str::from_utf8(value).unwrap().parse().unwrap()
        };
        let sum: i64 = (0..ACCOUNTS).map(balance).sum();
        assert_eq!(sum, BALANCE * ACCOUNTS as i64);
        assert!(all.at.epoch() > manifest.epoch);
        assert_eq!(client.get("before").await.unwrap().unwrap(), "1");
        assert_eq!(client.get("after").await.unwrap(), None);
        assert_eq!(client.get("gone").await.unwrap(), None);
        let later = client.put_all([put("after", "2")]).await.unwrap();
        assert!(later.epoch() > manifest.epoch);
        // Again, and of a cluster that was restored.
        let again = folder.path().join("tuesday");
        let manifest = backup::take(&cluster.clients(), &again, |_, _| {})
            .await
            .unwrap();
        assert_eq!(manifest.versions() as u64, ACCOUNTS + 2);
        cluster.stop().await;
    });
}

/// Each file of a backup is checked before anything is made of it.
#[test]
fn a_damaged_backup_is_refused_by_file() {
    in_runtime(async {
        let cluster = Cluster::start(1, |_, _| {}).await;
        let client = Client::new(cluster.settings());
        client
            .put_all((0..20).map(|key| put(account(key), "1")))
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("backup");
        backup::take(&cluster.clients(), &to, |_, _| {})
            .await
            .unwrap();
        let taken = backup::take(&cluster.clients(), &to, |_, _| {}).await;
        assert!(matches!(taken, Err(BackupError::NotEmpty(_))), "{taken:?}");
        cluster.stop().await;
        let names: Vec<_> = std::fs::read_dir(&to).unwrap().collect();
        assert!(names.len() > 1);
        for name in names {
            let path = name.unwrap().path();
            let whole = std::fs::read(&path).unwrap();
            let mut edits: Vec<Option<Vec<u8>>> = vec![None, Some(Vec::new())];
            for at in (0..whole.len()).step_by(whole.len() / 7 + 1) {
                let mut flipped = whole.clone();
                flipped[at] ^= 4;
                edits.extend([Some(flipped), Some(whole[..at].to_vec())]);
            }
            for edited in edits {
                match &edited {
                    None => std::fs::remove_file(&path).unwrap(),
                    Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                }
                let refused = backup::read(&to, |_| ()).await.unwrap_err();
                let is_named = match &refused {
                    BackupError::NoBackup(directory) => *directory == to && edited.is_none(),
                    BackupError::Damaged { path: named, .. } => *named == path,
                    _ => false,
                };
                assert!(is_named, "{}: {refused}", path.display());
                restores_nothing(&to, &folder.path().join("new")).await;
            }
            std::fs::write(&path, &whole).unwrap();
            backup::read(&to, |_| ()).await.unwrap();
        }
    });
}

async fn restores_nothing(from: &Path, to: &Path) {
    let own = NodeId(1);
    let members = [(own, "127.0.0.1:7001".parse().unwrap())].into();
    let founding = Founding::new(ClusterId(0), own, members);
    backup::restore(from, to, founding, None).await.unwrap_err();
    assert!(!to.exists());
}

/// What is held for a backup is kept, however many epochs close, until its connection ends.
#[test]
fn versions_are_held_for_as_long_as_the_connection_lasts() {
    in_runtime(async {
        let cluster = Cluster::founded(1, |founding| founding.history_epochs = 1, |_, _| {}).await;
        let client = Client::new(cluster.settings());
        client.put_all([put("key", "first")]).await.unwrap();
        let holder = Client::new(cluster.settings());
        let (epoch, configuration) = holder.hold().await.unwrap();
        let partition = configuration.partition_of(b"key");
        for number in 0..20 {
            client
                .put_all([put("key", number.to_string())])
                .await
                .unwrap();
        }
        let image = client.image(partition, epoch, None).await.unwrap();
        assert_eq!(image.versions.len(), 1);
        let then = EpochTimestamp::end_of(epoch);
        assert_eq!(client.get_at("key", then).await.unwrap().unwrap(), "first");
        drop(holder);
        let mut attempts = 0;
        let refused = loop {
            client.put_all([put("key", "more")]).await.unwrap();
            match client.get_at("key", then).await {
                Ok(_) => attempts += 1,
                Err(refused) => break refused,
            }
            assert!(attempts < 200, "it is held for ever");
        };
        assert!(
            matches!(refused, ClientError::Refused(Reason::Collected(_))),
            "{refused}"
        );
        let refused = client.image(partition, epoch, None).await.unwrap_err();
        assert!(
            matches!(refused, ClientError::NoImage(NoImage::Collected(_))),
            "{refused}"
        );
        cluster.stop().await;
    });
}
