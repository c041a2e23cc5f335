//! A back end's start: its store and its open pieces from the checkpoint and the log, and the
//! checkpoint that it writes.

use super::BackEnd;
use crate::log::{Checkpoint, Recovered};
use crate::timestamp::{Epoch, EpochTimestamp};

impl BackEnd {
    /// Fills the empty back end.
    ///
    /// What is not known to be closed stands in pieces again: the manager decides on it together
    /// with the other back ends, however whole it looks here.
    pub(super) fn restore(&mut self, recovered: Recovered) {
        let partitions = recovered.partitions;
        // Until a configuration has come, keys are placed by the number of partitions.
        let configuration = crate::configuration::Configuration {
            partitions: vec![Vec::new(); partitions],
            ..Default::default()
        };
        self.configuration = std::sync::Arc::new(configuration);
        if let Some(checkpoint) = recovered.checkpoint {
            self.closed = checkpoint.epoch;
            self.sealed = checkpoint.epoch;
            for (key, at, operation) in checkpoint.versions {
                let partition = self.configuration.partition_of(&key);
                let store = self.stores.entry(partition).or_default();
                store.insert(&key, at, &operation);
            }
            self.horizon = EpochTimestamp::end_of(checkpoint.epoch);
        }
        self.newest_file = recovered.newest_file;
        self.sealed = self.sealed.max(recovered.sealed);
        self.closed = self.closed.max(recovered.closed);
        self.sealing = self.sealed;
        for piece in recovered.pieces.values() {
            self.insert(piece);
        }
        let (closed, horizon) = (self.closed, self.horizon);
        self.closed = Epoch(0);
        self.note_closed(closed, horizon);
    }

    /// The state at the end of the newest closed epoch, for a checkpoint.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let at = EpochTimestamp::end_of(self.closed);
        let images = self.stores.values().map(|store| store.image(at));
        Checkpoint {
            epoch: self.closed,
            partitions: self.configuration.partitions.len(),
            versions: images.flatten().collect(),
        }
    }
}
