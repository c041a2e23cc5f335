//! What a node's directory says of itself: its identity, its founders, and whether older
//! programs may open it.

use std::path::Path;

use coeval_env::fs;
use coeval_log::{
    Error, Founders, Log, Removal, RestoreOptions, RestoreTarget, Unpacker, read_identity,
};
use coeval_types::DirectoryId;

use super::frames::open;
use super::leading::{commit_all, leader};
use crate::support::{real, small};

/// Byte 8 of CONTROL is the format version.
async fn format(directory: &Path) -> u8 {
    fs::read(&directory.join("CONTROL")).await.unwrap()[8]
}

async fn replace(path: &Path, bytes: &[u8]) {
    let file = fs::open(path, fs::OpenOptions::REPLACE).await.unwrap();
    file.write_at(bytes, 0).await.unwrap();
}

#[test]
fn a_directory_has_one_identity_and_keeps_its_founders() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    real(async {
        let (log, _) = open(one.path(), small()).await.unwrap();
        assert_eq!(read_identity(one.path()).await.unwrap(), None);
        let id = log.identity().await.unwrap();
        assert_eq!(log.founders().await.unwrap(), None);
        let founders = Founders {
            version: 2,
            is_done: false,
            directories: vec![(1, Some(id)), (2, None), (3, Some(DirectoryId(7)))],
        };
        log.set_founders(&founders).await.unwrap();
        drop(log);
        let (log, _) = open(one.path(), small()).await.unwrap();
        assert_eq!(log.identity().await.unwrap(), id);
        assert_eq!(log.founders().await.unwrap(), Some(founders.clone()));
        let (stranger, _) = open(other.path(), small()).await.unwrap();
        assert_ne!(stranger.identity().await.unwrap(), id);
        let done = Founders {
            is_done: true,
            ..founders.clone()
        };
        assert_eq!(done.digest(), founders.digest());
        let mut others = founders.clone();
        others.directories[1].1 = Some(DirectoryId(8));
        assert_ne!(others.digest(), founders.digest());
        // A founder that is left out has a directory that no node has, the same for all.
        let of_none = founders.directory_of_none(2);
        assert_eq!(of_none, done.directory_of_none(2));
        for other in [
            founders.directory_of_none(3),
            others.directory_of_none(2),
            id,
        ] {
            assert_ne!(of_none, other);
        }
        let removal = Removal { node: 2, by: 3 };
        assert_eq!(Removal::read(one.path()).await.unwrap(), None);
        removal.write(one.path()).await.unwrap();
        assert_eq!(Removal::read(one.path()).await.unwrap(), Some(removal));
        for file in ["IDENTITY", "FOUNDERS", "REMOVED"] {
            let path = one.path().join(file);
            let bytes = fs::read(&path).await.unwrap();
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                replace(&path, &damaged).await;
                let read = match file {
                    "IDENTITY" => log.identity().await.map(|_| ()),
                    "REMOVED" => Removal::read(one.path()).await.map(|_| ()),
                    _ => log.founders().await.map(|_| ()),
                };
                let error = read.expect_err("every byte counts");
                let is_named = matches!(error, Error::Damaged { .. } | Error::Format { .. });
                assert!(is_named, "{file}, byte {at}: {error}");
            }
            replace(&path, &bytes[..bytes.len() - 1]).await;
        }
        assert!(log.identity().await.is_err() && log.founders().await.is_err());
        for _ in 0..2 {
            Removal::forget(one.path()).await.unwrap();
            assert_eq!(Removal::read(one.path()).await.unwrap(), None);
        }
    });
}

#[test]
fn control_keeps_older_programs_away_only_once_it_has_to() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, _) = open(directory.path(), small()).await.unwrap();
        assert_eq!(format(directory.path()).await, 3);
        log.close().await.unwrap();
        let log = leader(directory.path()).await;
        log.put_membership(b"as ever").await.unwrap();
        commit_all(&log).await;
        assert_eq!(format(directory.path()).await, 3);
        log.set_versioned().await.unwrap();
        assert_eq!(format(directory.path()).await, 4);
        let mut log = log.retire().await.unwrap();
        assert_eq!(format(directory.path()).await, 4);
        log.set_versioned().await.unwrap();
        log.close().await.unwrap();
        let (log, _) = open(directory.path(), small()).await.unwrap();
        log.close().await.unwrap();
        assert_eq!(format(directory.path()).await, 4);
    });
}

/// Takes a backup of a log into a directory.
async fn back_up(log: &Log, to: &Path) {
    let source = log.backup().expect("it has a directory");
    let mut unpacker = Unpacker::new(to).await.unwrap();
    let (sink, mut pieces) = tokio::sync::mpsc::channel::<Result<Vec<u8>, Error>>(4);
    let feeding = async {
        while let Some(piece) = pieces.recv().await {
            unpacker.feed(&piece.unwrap()).await.unwrap();
        }
    };
    tokio::join!(source.send(sink), feeding);
    unpacker.finish().await.unwrap();
}

/// The log of a server alone that came from a cluster still has the cluster's memberships:
/// so have its backups, which say so.
#[test]
fn a_backup_of_what_came_from_a_cluster_keeps_older_programs_away_too() {
    let folder = tempfile::tempdir().unwrap();
    real(async {
        let log = leader(&folder.path().join("node")).await;
        log.set_versioned().await.unwrap();
        log.put_membership(b"of version 2").await.unwrap();
        commit_all(&log).await;
        let mut backup = folder.path().join("backup-0");
        back_up(&log, &backup).await;
        log.close().await.unwrap();
        for round in 1..3 {
            assert_eq!(format(&backup).await, 4, "round {round}");
            let to = folder.path().join(format!("alone-{round}"));
            let options = RestoreOptions {
                from: backup,
                log_from: None,
                to: to.clone(),
                target: RestoreTarget::End,
            };
            coeval_log::restore(&options).await.unwrap();
            assert_eq!(format(&to).await, 4);
            let (log, _, _) = crate::support::open(&to, small()).await.unwrap();
            backup = folder.path().join(format!("backup-{round}"));
            back_up(&log, &backup).await;
            log.close().await.unwrap();
            assert_eq!(format(&to).await, 4);
        }
    });
}

/// A directory whose log was removed, but not what says which member it is, would count as
/// that member although it has forgotten what it acknowledged.
#[test]
fn a_directory_without_its_log_that_still_has_an_identity_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, _) = open(directory.path(), small()).await.unwrap();
        log.identity().await.unwrap();
        log.close().await.unwrap();
        for folder in ["log", "checkpoints"] {
            let folder = directory.path().join(folder);
            for file in fs::read_dir(&folder).await.unwrap() {
                fs::remove_file(&file).await.unwrap();
            }
        }
        fs::remove_file(&directory.path().join("CONTROL"))
            .await
            .unwrap();
        let error = open(directory.path(), small()).await.map(|_| ());
        let error = error.expect_err("it has an identity").to_string();
        assert!(error.contains("IDENTITY"), "{error}");
        fs::remove_file(&directory.path().join("IDENTITY"))
            .await
            .unwrap();
        open(directory.path(), small()).await.unwrap();
    });
}
