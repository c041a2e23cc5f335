//! Files of a node's directory that were edited while it did not run: what a look at it says, and what a
//! start does.
//!
//! | file | flip | zero | cut | empty | delete |
//! | --- | --- | --- | --- | --- | --- |
//! | NODE | refused | refused | refused | refused | refused |
//! | checkpoint | refused | refused | refused | refused | refused |
//! | log, an older file | refused | refused | refused | refused | refused |
//! | log, the newest file | shorter | shorter | shorter | shorter | shorter |
//! | council/CONTROL | refused | refused | refused | refused | refused |
//!
//! *Refused* says which file. *Shorter* is taken for a write that the power has cut off: the node
//! comes back without its newest epoch, and the manager removes it if that was closed.
#![expect(
    clippy::disallowed_methods,
    reason = "a test that edits files of nodes that do not run"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use coeval_epoch::client::{Client, ClientError, put};
use coeval_epoch::server::{NodeReport, VerifyError, verify};
use coeval_epoch::{LogFiles, NoImage, Operation};
use coeval_peers::NodeId;

use crate::client::{Cluster, in_runtime, start};

/// The epochs of the files of log in a node's directory, in order.
fn logs(directory: &Path) -> Vec<PathBuf> {
    files(&directory.join("epochs"), "epoch-")
}

fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let names = std::fs::read_dir(folder).unwrap();
    let paths = names.map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(prefix))
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_one).collect();
    paths.sort();
    paths
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Refused,
    Shorter,
}

/// What a look says, compared with what it said of the directory as it was; a start that reads the log
/// agrees with it.
async fn outcome(directory: &Path, path: &Path, whole: &NodeReport) -> Outcome {
    let looked = verify(directory).await;
    match looked {
        Err(error) => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap();
            let says = error.to_string();
            // A file of log is named by its epoch.
            let digits = name.trim_start_matches("epoch-").trim_end_matches(".log");
            let epoch = format!("epoch {}", digits.trim_start_matches('0'));
            let missing = matches!(error, VerifyError::Home(_)) && name == "NODE";
            let checkpoint = name.starts_with("checkpoint") && says.contains("is missing");
            assert!(
                says.contains(name) || says.contains(&epoch) || missing || checkpoint,
                "{name}: {says}"
            );
            if name.starts_with("epoch") || name.starts_with("checkpoint") {
                let opened = LogFiles::open(&directory.join("epochs")).await;
                assert!(opened.is_err(), "{name}: a start is refused, too");
            }
            Outcome::Refused
        }
        Ok(report) => {
            let (before, now) = (whole.epochs.as_ref(), report.epochs.as_ref());
            let (before, now) = (before.unwrap(), now.unwrap());
            assert!(now.sealed < before.sealed, "{}: unnoticed", path.display());
            Outcome::Shorter
        }
    }
}

#[test]
fn an_edited_file_is_refused_by_name_or_taken_for_one_that_was_cut_off() {
    in_runtime(async {
        let cluster = Cluster::start(1, |_, settings| settings.checkpoint_bytes = 2048).await;
        let client = Client::new(cluster.settings());
        let value = "v".repeat(300);
        let mut round = 0;
        // A checkpoint, and some files of log after it.
        let directory = cluster.nodes[&NodeId(1)].0.path().to_owned();
        loop {
            client
                .put_all([put(format!("key {}", round % 5), value.clone())])
                .await
                .unwrap();
            round += 1;
            let is_as_wanted = || {
                let checkpoints = files(&directory.join("epochs"), "checkpoint-0");
                checkpoints.len() == 1 && logs(&directory).len() >= 4
            };
            if is_as_wanted() {
                // A checkpoint that is being written would remove them.
                coeval_env::sleep(Duration::from_millis(200)).await;
                if is_as_wanted() {
                    break;
                }
            }
            assert!(round < 1000, "no checkpoint");
        }
        let directories = cluster.directories().await;
        let directory = directories[&NodeId(1)].path();
        let whole = verify(directory).await.unwrap();
        assert!(whole.council.is_some() && whole.epochs.as_ref().unwrap().checkpoint.is_some());
        let log = logs(directory);
        let (newest, older) = (log.last().unwrap(), &log[log.len() - 2]);
        let checkpoint = files(&directory.join("epochs"), "checkpoint-0").remove(0);
        let cases = [
            (directory.join("NODE"), Outcome::Refused),
            (checkpoint, Outcome::Refused),
            (older.clone(), Outcome::Refused),
            (newest.clone(), Outcome::Shorter),
            (directory.join("council").join("CONTROL"), Outcome::Refused),
        ];
        for (path, expected) in cases {
            let bytes = std::fs::read(&path).unwrap();
            let mut edits = vec![Some(vec![0; bytes.len()]), Some(Vec::new()), None];
            for at in (0..bytes.len()).step_by(bytes.len() / 9 + 1) {
                let mut flipped = bytes.clone();
                flipped[at] ^= 16;
                edits.push(Some(flipped));
            }
            edits.push(Some(bytes[..bytes.len() / 2].to_vec()));
            edits.push(Some(bytes[..bytes.len() - 1].to_vec()));
            for edited in edits {
                match &edited {
                    None => std::fs::remove_file(&path).unwrap(),
                    Some(edited) => std::fs::write(&path, edited).unwrap(),
                }
                let found = outcome(directory, &path, &whole).await;
                assert_eq!(found, expected, "{}", path.display());
                std::fs::write(&path, &bytes).unwrap();
            }
        }
        assert_eq!(
            verify(directory).await.unwrap(),
            whole,
            "nothing was changed"
        );
        let cluster = Cluster::resume(directories).await;
        let client = Client::new(cluster.settings());
        assert_eq!(client.get("key 0").await.unwrap().unwrap(), value);
        cluster.stop().await;
    });
}

/// A node whose newest closed epoch is gone from its disk looks sound to itself. The manager knows what
/// was closed: the node's copies are removed, and made anew.
#[test]
fn a_node_without_its_newest_epoch_is_no_copy() {
    in_runtime(async {
        let founded = Cluster::founded(3, |founding| founding.copies = 3, |_, _| {});
        let mut cluster = founded.await;
        let client = Client::new(cluster.settings());
        let keys = || (0..30).map(|key| format!("key {key}"));
        client
            .put_all(keys().map(|key| put(key, "old")))
            .await
            .unwrap();
        let newest = client
            .put_all(keys().map(|key| put(key, "new")))
            .await
            .unwrap();
        let mut lossy = None;
        for (id, (_, server)) in &cluster.nodes {
            if server.status().await.unwrap().manager.is_none() {
                lossy = Some(*id);
            }
        }
        let lossy = lossy.expect("two nodes do not manage");
        let (directory, server) = cluster.nodes.remove(&lossy).unwrap();
        server.stop().await.unwrap();
        for path in logs(directory.path()).into_iter().rev() {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            if bytes.windows(3).any(|window| window == b"new") {
                break;
            }
        }
        let report = verify(directory.path()).await.unwrap();
        assert_eq!(report.epochs.unwrap().sealed, newest.epoch().before());
        let server = start(directory.path(), |_| {}).await;
        cluster.nodes.insert(lossy, (directory, server));
        // The client's connection may have been the lossy node's.
        let client = Client::new(cluster.settings());
        let read = client.get_all(keys()).await.unwrap();
        let is_new = |key: String| read.value(&key).is_some_and(|value| value == "new");
        assert!(keys().all(is_new));
        let (_, server) = &cluster.nodes[&lossy];
        let mut waited = 0;
        let (epoch, partitions, enlisted) = loop {
            client.get("key 0").await.unwrap();
            let (epoch, configuration) = client.hold().await.unwrap();
            let partitions = configuration.partitions.len();
            if (0..partitions).all(|partition| configuration.hosts(lossy, partition)) {
                let enlisted = configuration.enlisted.get(&lossy).copied();
                break (epoch, partitions, enlisted);
            }
            waited += 1;
            assert!(waited < 3000, "no copies are made");
            coeval_env::sleep(Duration::from_millis(10)).await;
        };
        // It was removed, and came in empty.
        assert_eq!(enlisted, Some(server.status().await.unwrap().incarnation));
        // The copies that it has made have what it had lost.
        let own = cluster.clients().into_iter().find(|(id, _)| *id == lossy);
        let (_, own) = own.unwrap();
        let mut found = 0;
        for partition in 0..partitions {
            let image = loop {
                match own.image(partition, epoch, None).await {
                    Ok(image) => break image,
                    Err(ClientError::NoImage(NoImage::NotClosed)) => {
                        client.get("key 0").await.unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            found += image.versions.len();
            let new = Operation::Value(Bytes::from_static(b"new"));
            assert!(image.versions.iter().all(|(_, _, found)| *found == new));
        }
        assert_eq!(found, 30);
        cluster.stop().await;
    });
}
