//! Images of partitions at the end of a closed epoch, handed out some keys at a time for a backup.
//!
//! A closed epoch does not change, so the parts of an image fit together whenever and from whichever
//! copy they are taken, as long as its versions are not collected: who takes one has a front end
//! hold them.

use crate::operation::{Key, Operation};
use crate::store::Store;
use crate::timestamp::{Epoch, EpochTimestamp};

/// Some of a partition's versions at the end of an epoch: of each key the newest one, in the order
/// of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The versions.
    pub versions: Vec<(Key, EpochTimestamp, Operation)>,
    /// The key after which the next part begins; `None` when this is the last.
    pub next: Option<Key>,
}

/// Why there is no image here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoImage {
    /// The node runs no front end, or it is not admitted: nothing can be held there.
    #[error("the node has no front end that holds versions")]
    NotHeld,
    /// The node has no whole copy of the partition.
    #[error("the node has no whole copy of the partition")]
    NotHere,
    /// The node does not know yet that the epoch is closed.
    #[error("the node does not know yet that the epoch is closed")]
    NotClosed,
    /// Versions below this are collected.
    #[error("versions before {0} are collected: what held them is gone")]
    Collected(EpochTimestamp),
    /// The client may not read.
    #[error("the client may not get")]
    NotAllowed,
}

/// The image that was last asked for: its keys are sorted once.
#[derive(Debug, Default)]
pub(super) struct Imaging {
    of: Option<(usize, Epoch)>,
    keys: Vec<Key>,
}

impl Imaging {
    /// The part after a key, of so many bytes at most but for its last key.
    pub(super) fn part(
        &mut self,
        (partition, through): (usize, Epoch),
        after: Option<&Key>,
        store: Option<&Store>,
        most_bytes: usize,
    ) -> Image {
        let Some(store) = store else {
            return Image::default();
        };
        // Keys that come later have no version that old.
        if self.of != Some((partition, through)) {
            self.keys = store.keys();
            self.of = Some((partition, through));
        }
        let first = after.map_or(0, |after| self.keys.partition_point(|key| key <= after));
        let at = EpochTimestamp::end_of(through);
        let (mut image, mut bytes) = (Image::default(), 0);
        for (index, key) in self.keys.iter().enumerate().skip(first) {
            if let Some((version, operation)) = store.version(key, at)
                && *operation != Operation::Delete
            {
                bytes += key.len() + operation.len() + 32;
                image
                    .versions
                    .push((key.clone(), version, operation.clone()));
            }
            if bytes >= most_bytes && index + 1 < self.keys.len() {
                image.next = Some(key.clone());
                return image;
            }
        }
        *self = Self::default();
        image
    }
}
