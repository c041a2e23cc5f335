//! A node of a new cluster, from a backup: founded with the part of the backup that its copies hold
//! as the checkpoint with which it starts.
//!
//! The new cluster may have other members, partitions and copies than the old one: keys are placed
//! anew. It goes on after the backup's epoch, so its timestamps are above all that it holds.
//!
//! # Nodes that do not fit together
//!
//! The lower 32 bits of the new cluster's id are a digest of the backup and of the layout, the upper
//! ones are drawn by the first node that is restored. So nodes that were restored from different
//! backups, with different layouts, or at different times, are of different clusters, and refuse each
//! other.

use std::path::Path;

use coeval_env::fs;
use coeval_peers::ClusterId;

use super::{BackupError, Manifest, io, must_be_empty, read};
use crate::log::{Checkpoint, LogFiles};
use crate::server::{EPOCHS, Founding, found};

/// What came of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The backup.
    pub manifest: Manifest,
    /// Versions of the copies on this node.
    pub versions: usize,
}

/// The id of a cluster that is restored from this backup with this layout: `given`, or a new one.
///
/// # Errors
/// When the given one is another cluster's.
pub fn restored_cluster(
    manifest: &Manifest,
    founding: &Founding,
    given: Option<ClusterId>,
) -> Result<ClusterId, BackupError> {
    let digest = crc32c::crc32c_append(manifest.mark(), founding.layout().as_bytes());
    match given {
        None => {
            let drawn = ClusterId::draw().0;
            Ok(ClusterId(drawn >> 32 << 32 | u128::from(digest)))
        }
        Some(given) if given.0 as u32 == digest => Ok(given),
        Some(given) => Err(BackupError::OtherCluster(given)),
    }
}

/// Makes the directory of a node of a new cluster from a backup. It must be empty, or not exist.
/// `cluster` is the id that the first node's restore has said; `founding`'s is not looked at.
///
/// # Errors
/// When the backup is damaged, no cluster can be like this, or the disk fails. Unless the disk
/// has failed, the directory is then as it was.
pub async fn restore(
    from: &Path,
    to: &Path,
    mut founding: Founding,
    cluster: Option<ClusterId>,
) -> Result<(Restored, ClusterId), BackupError> {
    founding.check()?;
    must_be_empty(to).await?;
    let configuration = founding.configuration();
    let node = founding.node;
    let mut versions = Vec::new();
    let manifest = read(from, |part| {
        let hosted = part.versions.into_iter().filter(|(key, _, _)| {
            let partition = configuration.partition_of(key);
            configuration.hosts(node, partition)
        });
        versions.extend(hosted);
    });
    let manifest = manifest.await?;
    founding.cluster = restored_cluster(&manifest, &founding, cluster)?;
    versions.sort_unstable_by(|(one, ..), (other, ..)| one.cmp(other));
    let checkpoint = Checkpoint {
        epoch: manifest.epoch,
        partitions: configuration.partitions.len(),
        versions,
    };
    let making = fs::create_dir_all(to).await;
    making.map_err(io("create", to))?;
    let (mut files, _) = LogFiles::open(&to.join(EPOCHS)).await?;
    files.checkpoint(&checkpoint).await?;
    // What makes it a node's directory comes last.
    found(to, &founding).await?;
    let restored = Restored {
        manifest,
        versions: checkpoint.versions.len(),
    };
    Ok((restored, founding.cluster))
}
