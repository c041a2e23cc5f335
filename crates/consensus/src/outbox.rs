//! The outbox: messages, writes and answers that a step has produced and the next
//! [`Ready`](crate::Ready) will hand out.
//!
//! Invariants: the pending write turns the log on the disk, after all writes handed out,
//! into the current one; a held message waits for the write that its promise depends on.

use std::collections::VecDeque;

use coeval_types::Lsn;

use crate::entry::Entry;
use crate::message::Message;
use crate::position::NodeId;
use crate::ready::{Checkpoint, Fetch, ReadAnswer, RoleChange};

/// Pending output of a node. See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) messages: Vec<Message>,
    /// Messages, each with the write it waits for, in ascending order.
    held: VecDeque<(u64, Message)>,
    install: Option<Checkpoint>,
    truncate: Option<Lsn>,
    entries: Vec<Entry>,
    /// Whether term or vote have changed since the last write.
    promised: bool,
    /// The log's end once all writes that were handed out are done.
    written: Lsn,
    /// End of the committed log that has been handed out.
    pub(crate) applied: Lsn,
    /// The role that the caller was last notified of.
    pub(crate) told: RoleChange,
    pub(crate) reads: Vec<ReadAnswer>,
    pub(crate) asked: Vec<ReadAnswer>,
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) checkpoints: Vec<NodeId>,
}

/// The parts of a pending write.
pub(crate) struct Unwritten {
    pub(crate) install: Option<Checkpoint>,
    pub(crate) truncate: Option<Lsn>,
    pub(crate) entries: Vec<Entry>,
}

impl Outbox {
    pub(crate) fn new(written: Lsn, applied: Lsn) -> Self {
        Self {
            written,
            applied,
            ..Self::default()
        }
    }

    /// Records that term or vote have changed, so that they must be written.
    pub(crate) const fn promise(&mut self) {
        self.promised = true;
    }

    pub(crate) fn append(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(crate) fn truncated(&mut self, to: Lsn) {
        while self.entries.last().is_some_and(|entry| entry.end > to) {
            self.entries.pop();
        }
        if to < self.written {
            self.truncate = Some(to);
            self.written = to;
        }
    }

    pub(crate) fn installed(&mut self, checkpoint: Checkpoint) {
        self.entries.clear();
        self.truncate = None;
        self.written = checkpoint.position.end;
        self.applied = checkpoint.position.end;
        self.install = Some(checkpoint);
    }

    /// Whether there is something to write.
    pub(crate) const fn is_dirty(&self) -> bool {
        self.promised
            || self.install.is_some()
            || self.truncate.is_some()
            || !self.entries.is_empty()
    }

    /// Takes the pending write, after which the log ends at `end`.
    pub(crate) fn take_unwritten(&mut self, end: Lsn) -> Unwritten {
        self.promised = false;
        self.written = end;
        Unwritten {
            install: self.install.take(),
            truncate: self.truncate.take(),
            entries: std::mem::take(&mut self.entries),
        }
    }

    /// Holds a message back until a write is done.
    pub(crate) fn hold(&mut self, write: u64, message: Message) {
        self.held.push_back((write, message));
    }

    /// Whether any message waits for a write.
    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes the next held message whose write is done.
    pub(crate) fn release(&mut self, done: impl Fn(u64) -> bool) -> Option<Message> {
        match self.held.front() {
            Some((write, _)) if done(*write) => self.held.pop_front().map(|(_, message)| message),
            _ => None,
        }
    }
}
