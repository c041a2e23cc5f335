//! Online backups: every partition as it was at the end of one closed epoch, copied from a cluster
//! beside its traffic; and clusters that are founded from one.
//!
//! ```text
//!   BACKUP             the cluster, the epoch, the layout, each file with its checksum; written last
//!   versions-000001    keys of partition 0, with their versions at the epoch's end
//!   versions-000002    more of them, or of partition 1
//! ```
//!
//! 1. A read of now, through the node whose front end will hold: all that was answered before it came
//!    is in epochs that this node then knows to be closed.
//! 2. That front end *holds*: the versions that are read at the end of the newest of these epochs, e,
//!    are collected nowhere while the connection lasts.
//! 3. Of each partition the image at the end of e is copied from any node with a whole copy. Nothing
//!    of e changes any more, so parts of it from several nodes, and of any time, fit together.
//!
//! A node that lost what was held (its front end was fenced) leaves the versions to be collected; then
//! an image is refused, and the backup fails.
//!
//! # Invariants
//!
//! 1. A directory without a whole BACKUP is no backup.
//! 2. A backup holds everything of epochs up to e and nothing of later ones.
//!
//! Parts: `manifest`, the file BACKUP; `restore`, clusters from a backup.

mod manifest;
mod restore;

use std::path::{Path, PathBuf};
use std::time::Duration;

use coeval_env::fs;
use coeval_peers::NodeId;

pub use manifest::{Manifest, Part};
pub use restore::{Restored, restore, restored_cluster};

use crate::back_end::NoImage;
use crate::client::{Client, ClientError};
use crate::configuration::Configuration;
use crate::log::{Checkpoint, LogError};
use crate::operation::Key;
use crate::server::HomeError;
use crate::timestamp::Epoch;

/// The file that says what a backup holds.
pub(crate) const BACKUP: &str = "BACKUP";

/// How often a node is asked again that does not know yet that the epoch is closed.
const CLOSED_ATTEMPTS: u32 = 100;

/// Why there is no backup, or none is restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The disk.
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or the directory.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// Fix: the directory has something in it.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// Fix: the directory is no backup, or one whose making did not end.
    #[error("{} is no whole backup: it has no file {BACKUP}", .0.display())]
    NoBackup(PathBuf),
    /// Fatal: a file is damaged.
    #[error("{} is damaged: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Fix: no node that the client knows has a whole copy.
    #[error(
        "partition {partition} has no whole copy on the nodes that were named; it is on {nodes}"
    )]
    NoCopy {
        /// The partition.
        partition: usize,
        /// Where there are copies.
        nodes: String,
    },
    /// A node did not give what was asked.
    #[error("node {node}: {error}")]
    Client {
        /// The node.
        node: NodeId,
        /// Why.
        error: ClientError,
    },
    /// Fix: no node was named.
    #[error("no node was named")]
    NoNode,
    /// Fix: the id is of a cluster that was restored otherwise.
    #[error(
        "cluster {0} was not restored from this backup with these members and this layout: all \
         nodes of a cluster are restored from the same"
    )]
    OtherCluster(coeval_peers::ClusterId),
    /// The node's directory.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The node's log.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn io<'path>(
    doing: &'static str,
    path: &'path Path,
) -> impl FnOnce(std::io::Error) -> BackupError + 'path {
    move |error| BackupError::Io {
        doing,
        path: path.to_owned(),
        error,
    }
}

/// Refuses a directory with anything in it; returns whether it is there.
async fn must_be_empty(directory: &Path) -> Result<bool, BackupError> {
    let is_there = fs::exists(directory).await;
    if !is_there.map_err(io("look at", directory))? {
        return Ok(false);
    }
    let names = fs::read_dir(directory).await;
    match names.map_err(io("list", directory))?.is_empty() {
        true => Ok(true),
        false => Err(BackupError::NotEmpty(directory.to_owned())),
    }
}

/// Takes a backup into a directory, which must be empty or not exist, through clients of one node
/// each. `progress` is called with the partitions that are whole, and the number of all.
///
/// # Errors
/// When no node holds the versions, a partition has no copy on these nodes, or the disk fails. The
/// directory is then as it was.
pub async fn take(
    clients: &[(NodeId, Client)],
    directory: &Path,
    progress: impl FnMut(usize, usize),
) -> Result<Manifest, BackupError> {
    let was_there = must_be_empty(directory).await?;
    let making = fs::create_dir_all(directory).await;
    making.map_err(io("create", directory))?;
    let mut made = Vec::new();
    let taken = copy(clients, directory, progress, &mut made).await;
    if taken.is_err() {
        // Half a backup would only be in the way; what cannot be removed is no backup either.
        for path in made {
            let _ = fs::remove_file(&path).await;
        }
        if !was_there {
            let _ = fs::remove_dir(directory).await;
        }
    }
    taken
}

/// The node that holds, with its client, the epoch and the configuration.
struct Holder<'clients> {
    client: &'clients Client,
    epoch: Epoch,
    cluster: coeval_peers::ClusterId,
    configuration: Configuration,
}

async fn hold(clients: &[(NodeId, Client)]) -> Result<Holder<'_>, BackupError> {
    let mut last = BackupError::NoNode;
    for (node, client) in clients {
        let held = async {
            let now = client.get_all([Key::new()]).await?;
            let (epoch, configuration) = client.hold().await?;
            // It was answered once its epoch was closed, unless the connection ended in between.
            if epoch < now.at.epoch() {
                return Err(ClientError::NoImage(NoImage::NotClosed));
            }
            let (cluster, _) = client.connected().await?;
            Ok(Holder {
                client,
                epoch,
                cluster,
                configuration,
            })
        };
        match held.await {
            Ok(holder) => return Ok(holder),
            Err(error) => last = BackupError::Client { node: *node, error },
        }
    }
    Err(last)
}

async fn copy(
    clients: &[(NodeId, Client)],
    directory: &Path,
    mut progress: impl FnMut(usize, usize),
    made: &mut Vec<PathBuf>,
) -> Result<Manifest, BackupError> {
    let holder = hold(clients).await?;
    let configuration = &holder.configuration;
    let count = configuration.partitions.len();
    let mut manifest = Manifest {
        cluster: holder.cluster,
        epoch: holder.epoch,
        partitions: count,
        copies: configuration.copies,
        degree: configuration.degree,
        history_epochs: configuration.history_epochs,
        parts: Vec::new(),
    };
    for partition in 0..count {
        progress(partition, count);
        let mut after = None;
        loop {
            let image = image(clients, &holder, partition, after).await?;
            let part = Checkpoint {
                epoch: holder.epoch,
                partitions: count,
                versions: image.versions,
            };
            let number = manifest.parts.len() + 1;
            let name = format!("versions-{number:06}");
            let path = directory.join(&name);
            let bytes = part.encode();
            made.push(path.clone());
            write(&path, &bytes).await?;
            manifest.parts.push(Part {
                name,
                bytes: bytes.len() as u64,
                checksum: checksum(&bytes),
                versions: part.versions.len(),
            });
            after = image.next;
            if after.is_none() {
                break;
            }
        }
    }
    progress(count, count);
    // The names of all parts, then the file that says that they are whole.
    sync(directory).await?;
    let unfinished = directory.join("BACKUP.new");
    made.push(unfinished.clone());
    write(&unfinished, manifest.lines().as_bytes()).await?;
    let path = directory.join(BACKUP);
    made.push(path.clone());
    let renamed = fs::rename(&unfinished, &path).await;
    renamed.map_err(io("rename", &unfinished))?;
    sync(directory).await?;
    Ok(manifest)
}

/// A part of a partition's image, from the first node with a whole copy that gives it.
async fn image(
    clients: &[(NodeId, Client)],
    holder: &Holder<'_>,
    partition: usize,
    after: Option<Key>,
) -> Result<crate::back_end::Image, BackupError> {
    let copies = &holder.configuration.partitions[partition];
    let mut last = None;
    for (node, client) in clients.iter().filter(|(node, _)| copies.contains(node)) {
        for _ in 0..CLOSED_ATTEMPTS {
            match client.image(partition, holder.epoch, after.clone()).await {
                Ok(image) => return Ok(image),
                Err(ClientError::NoImage(NoImage::NotClosed)) => {
                    // What it has missed is said again with the next close, which a read causes.
                    coeval_env::sleep(Duration::from_millis(20)).await;
                    let read = holder.client.get_all([Key::new()]).await;
                    read.map_err(|error| BackupError::Client { node: *node, error })?;
                }
                Err(error) => {
                    last = Some(BackupError::Client { node: *node, error });
                    break;
                }
            }
        }
    }
    let nodes: Vec<String> = copies.iter().map(ToString::to_string).collect();
    Err(last.unwrap_or(BackupError::NoCopy {
        partition,
        nodes: nodes.join(", "),
    }))
}

/// The checksum of a file's bytes but for its own at the end: over all of them it is the same for every
/// file.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(&bytes[..bytes.len().saturating_sub(4)])
}

async fn write(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let file = fs::open(path, fs::OpenOptions::REPLACE).await;
    let file = file.map_err(io("create", path))?;
    let written = file.write_at(bytes, 0).await;
    written.map_err(io("write", path))?;
    file.sync_all().await.map_err(io("sync", path))
}

async fn sync(directory: &Path) -> Result<(), BackupError> {
    fs::sync_dir(directory).await.map_err(io("sync", directory))
}

/// Reads what a backup holds, and checks every file of it. `each` is called with the versions of one
/// file after the other; keys come once.
///
/// # Errors
/// When it is none, or damaged: the first file that is.
pub async fn read(
    directory: &Path,
    mut each: impl FnMut(Checkpoint),
) -> Result<Manifest, BackupError> {
    let path = directory.join(BACKUP);
    if !fs::exists(&path).await.map_err(io("look at", &path))? {
        return Err(BackupError::NoBackup(directory.to_owned()));
    }
    let bytes = fs::read(&path).await.map_err(io("read", &path))?;
    let manifest = Manifest::read(&bytes).map_err(|reason| BackupError::Damaged {
        path: path.clone(),
        reason,
    })?;
    for part in &manifest.parts {
        let path = directory.join(&part.name);
        let damaged = |reason| BackupError::Damaged {
            path: path.clone(),
            reason,
        };
        if !fs::exists(&path).await.map_err(io("look at", &path))? {
            return Err(damaged("it is missing"));
        }
        let bytes = fs::read(&path).await.map_err(io("read", &path))?;
        if (bytes.len() as u64, checksum(&bytes)) != (part.bytes, part.checksum) {
            return Err(damaged("it is not what BACKUP says"));
        }
        let versions = Checkpoint::decode(&bytes);
        let versions = versions.map_err(|_| damaged("it holds no versions"))?;
        let is_its = versions.epoch == manifest.epoch && versions.versions.len() == part.versions;
        if !is_its {
            return Err(damaged("it is of another backup"));
        }
        each(versions);
    }
    Ok(manifest)
}
