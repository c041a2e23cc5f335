//! The contents of one simulated file: the bytes that reads see, the durable bytes, and
//! the unsynced writes between them.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::StdRng;

use super::faults::{Faults, Loss};

/// Bytes that a disk writes atomically, unless torn sectors are enabled.
pub(crate) const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];

#[derive(Debug, Default)]
pub(super) struct Content {
    /// The bytes that reads see.
    pub(super) shown: Vec<u8>,
    /// The bytes that are durable.
    pub(super) durable: Vec<u8>,
    /// Versions of each sector written since the last sync, oldest first.
    pub(super) unsynced: BTreeMap<usize, Vec<Sector>>,
    /// The open file that holds the lock.
    pub(super) locked_by: Option<u64>,
}

impl Content {
    fn sector(bytes: &[u8], sector: usize) -> Sector {
        let start = (sector * SECTOR_BYTES).min(bytes.len());
        let end = (start + SECTOR_BYTES).min(bytes.len());
        let mut content = [0; SECTOR_BYTES];
        content[..end - start].copy_from_slice(&bytes[start..end]);
        content
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.shown.len() < end {
            self.shown.resize(end, 0);
        }
        self.shown[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let content = Self::sector(&self.shown, sector);
            self.unsynced.entry(sector).or_default().push(content);
        }
    }

    pub(super) fn set_len(&mut self, length: usize) {
        let before = self.shown.len();
        self.shown.resize(length, 0);
        // Bytes that were cut off must read as zeros if the file grows again.
        for sector in length / SECTOR_BYTES..before.div_ceil(SECTOR_BYTES) {
            let zeroed = Self::sector(&self.shown, sector);
            self.unsynced.entry(sector).or_default().push(zeroed);
        }
    }

    /// Makes the writes since the last sync durable, and nothing else: bytes that a
    /// failed sync has dropped are still visible to reads, and not durable.
    pub(super) fn sync(&mut self) {
        self.durable.resize(self.shown.len(), 0);
        for (sector, versions) in std::mem::take(&mut self.unsynced) {
            if let Some(newest) = versions.last() {
                self.persist(sector, newest);
            }
        }
    }

    fn persist(&mut self, sector: usize, content: &Sector) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(self.durable.len());
        if start < end {
            self.durable[start..end].copy_from_slice(&content[..end - start]);
        }
    }

    pub(super) fn crash(&mut self, faults: &Faults, random: &mut StdRng) {
        self.locked_by = None;
        match faults.loss {
            Loss::Nothing => self.sync(),
            Loss::Everything => {}
            Loss::Random => {
                if random.random() {
                    self.durable.resize(self.shown.len(), 0);
                }
                for (sector, mut versions) in std::mem::take(&mut self.unsynced) {
                    versions.insert(0, Self::sector(&self.durable, sector));
                    // One of the versions, or the durable one.
                    let version = random.random_range(0..versions.len());
                    let mut content = versions[version];
                    if faults.torn_sectors && version > 0 {
                        // Position of the disk's head when the power failed.
                        let written = random.random_range(0..=SECTOR_BYTES);
                        content[written..].copy_from_slice(&versions[version - 1][written..]);
                    }
                    self.persist(sector, &content);
                }
            }
        }
        self.shown.clone_from(&self.durable);
        self.unsynced.clear();
    }

    /// Changes a byte both as reads see it and durably.
    pub(super) fn damage(&mut self, at: usize, change: impl FnOnce(u8) -> u8) {
        let changed = change(self.shown[at]);
        self.shown[at] = changed;
        if let Some(durable) = self.durable.get_mut(at) {
            *durable = changed;
        }
    }
}
