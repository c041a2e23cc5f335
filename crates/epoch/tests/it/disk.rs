//! A node's disk in memory: log files, a checkpoint, and writes under way.

use std::collections::{BTreeMap, VecDeque};

use coeval_epoch::{Checkpoint, Epoch, LogWrite, Recovered, mend};

#[derive(Debug, Default)]
pub struct Disk {
    files: BTreeMap<Epoch, Vec<u8>>,
    checkpoint: Option<(Epoch, Vec<u8>)>,
    under_way: VecDeque<LogWrite>,
}

impl Disk {
    pub fn write(&mut self, writes: Vec<LogWrite>) {
        self.under_way.extend(writes);
    }

    /// Completes the oldest write, and returns its number.
    pub fn complete(&mut self) -> Option<u64> {
        let write = self.under_way.pop_front()?;
        let file = self.files.entry(write.file).or_default();
        file.extend(&write.bytes);
        Some(write.number)
    }

    /// The program ends: of the writes under way this many are completed, and of the next one
    /// the first bytes.
    pub fn crash(&mut self, completed: usize, bytes: usize) {
        for _ in 0..completed {
            self.complete();
        }
        if let Some(torn) = self.under_way.pop_front() {
            let length = bytes % (torn.bytes.len() + 1);
            if length > 0 {
                let file = self.files.entry(torn.file).or_default();
                file.extend(&torn.bytes[..length]);
            }
        }
        self.under_way.clear();
    }

    /// Puts a checkpoint in force unless a newer one is, and removes the files that it replaces.
    pub fn keep(&mut self, checkpoint: &Checkpoint) {
        let newest = self.checkpoint.as_ref().map(|(epoch, _)| *epoch);
        if newest > Some(checkpoint.epoch) {
            return;
        }
        self.checkpoint = Some((checkpoint.epoch, checkpoint.encode()));
        self.files = self.files.split_off(&checkpoint.epoch.plus(1));
    }

    /// What a start reads.
    pub fn recover(&mut self) -> Recovered {
        if let Some(mut newest) = self.files.last_entry() {
            mend(newest.get_mut());
        }
        let bytes = self.checkpoint.as_ref();
        let checkpoint = bytes.map(|(_, bytes)| Checkpoint::decode(bytes).expect("a whole one"));
        Recovered::read(checkpoint, &self.files).expect("no file is damaged")
    }
}
