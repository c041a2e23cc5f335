//! The contents of a simulated node's disk.

use coeval_consensus::{
    Checkpoint, Entry, Fetch, HardState, Membership, Position, Restored, Write,
};
use coeval_types::Lsn;

/// A log from a base on, and the hard state.
#[derive(Clone, Debug)]
pub struct Disk {
    pub hard_state: HardState,
    pub base: Position,
    pub membership: Membership,
    pub entries: Vec<Entry>,
}

impl Disk {
    pub fn new(membership: Membership) -> Self {
        Self {
            hard_state: HardState::default(),
            base: Position::EMPTY,
            membership,
            entries: Vec::new(),
        }
    }

    pub fn restored(&self) -> Restored {
        Restored::from_entries(
            self.hard_state,
            self.base,
            self.membership.clone(),
            &self.entries,
        )
    }

    pub fn write(&mut self, write: &Write) {
        if let Some(checkpoint) = &write.install {
            self.base = checkpoint.position;
            self.membership = checkpoint.membership.clone();
            self.entries.clear();
        }
        if let Some(to) = write.truncate {
            self.entries.retain(|entry| entry.end <= to);
        }
        self.entries.extend_from_slice(&write.entries);
        self.hard_state = write.hard_state;
    }

    /// Carries out the first `parts` parts of a write, in order: term and vote, the
    /// truncation, each of the entries. With a checkpoint, everything after the first
    /// part is one part.
    pub fn tear(&mut self, write: &Write, parts: usize) {
        let Some(parts) = parts.checked_sub(1) else {
            return;
        };
        // The entries that the commit index covers may not be there yet.
        self.hard_state = HardState {
            commit: self.hard_state.commit,
            ..write.hard_state
        };
        let Some(count) = parts.checked_sub(1) else {
            return;
        };
        if write.install.is_some() {
            return;
        }
        if let Some(to) = write.truncate {
            self.entries.retain(|entry| entry.end <= to);
        }
        let kept = write.entries.len().saturating_sub(1).min(count);
        self.entries.extend_from_slice(&write.entries[..kept]);
    }

    /// A checkpoint at the base.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint::new(self.base, self.membership.clone())
    }

    /// Moves the base to the commit index, and returns where the log then begins.
    pub fn compact(&mut self) -> Lsn {
        let commit = self.hard_state.commit;
        let count = self.entries.partition_point(|entry| entry.end <= commit);
        for entry in self.entries.drain(..count) {
            self.base = entry.position();
            if let Some(membership) = entry.membership() {
                self.membership = membership.clone();
            }
        }
        self.base.end
    }

    pub fn fetch(&self, fetch: Fetch) -> Option<Vec<Entry>> {
        if fetch.from < self.base.end {
            return None;
        }
        let first = self
            .entries
            .partition_point(|entry| entry.end <= fetch.from);
        let entries = &self.entries[first..];
        Some(entries[..entries.len().min(fetch.entries)].to_vec())
    }
}
