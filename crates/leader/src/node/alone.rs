//! Questions that no two readers share, for measurements beside those that are shared
//! ([`questions`](super::questions)): one for each read, and silent ones, whose answers move
//! nothing here. What a silent answer found is kept until its reader looks: how far this node's
//! log had been written and was known to be committed by then.
//!
//! At most [`OPEN`] are under way, the others wait.
//!
//! Invariant: a question is sent after its reader has asked, and readers are in their order, as
//! those of shared questions are.

use std::collections::VecDeque;

use coeval_types::Lsn;

/// Most questions under way: fewer than consensus keeps, so that none pushes out another.
const OPEN: usize = 12;

/// Answers that are kept for their readers, some of whom have gone.
const KEPT: usize = 4096;

/// What the answer to a silent question found here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SilentAnswer {
    reader: u64,
    /// The leader's commit index.
    pub(super) at: Lsn,
    /// The end of the log that was on this node's disk.
    pub(super) flushed: Lsn,
    /// This node's commit index.
    pub(super) committed: Lsn,
}

/// A reader's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) reader: u64,
    /// Whether the answer is to move nothing.
    pub(super) silent: bool,
}

/// The questions that are not shared, in the order of their readers.
#[derive(Debug, Default)]
pub(super) struct Alone {
    /// Those to send.
    due: VecDeque<Own>,
    /// Those under way.
    open: VecDeque<Own>,
    found: VecDeque<SilentAnswer>,
}

impl Alone {
    /// Adds a question to send, of a reader that came after all others.
    pub(super) fn add(&mut self, own: Own) {
        self.due.push_back(own);
    }

    /// Whether there is one to send.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty() && self.open.len() < OPEN
    }

    /// The next one to send.
    pub(super) fn next(&mut self) -> Option<Own> {
        if !self.is_due() {
            return None;
        }
        let own = self.due.pop_front()?;
        self.open.push_back(own);
        Some(own)
    }

    /// A question has been answered that was sent after all readers up to this one had asked.
    pub(super) fn answered(&mut self, reader: u64, at: Lsn, (flushed, committed): (Lsn, Lsn)) {
        let answered = self.open.partition_point(|own| own.reader <= reader);
        let silent = self.open.drain(..answered).filter(|own| own.silent);
        self.found.extend(silent.map(|own| SilentAnswer {
            reader: own.reader,
            at,
            flushed,
            committed,
        }));
        while self.found.len() > KEPT {
            self.found.pop_front();
        }
    }

    /// The questions of all readers up to this one are lost, those not sent yet included.
    pub(super) fn lose(&mut self, reader: u64) {
        self.open.retain(|own| own.reader > reader);
        self.due.retain(|own| own.reader > reader);
    }

    /// Whether this reader's question waits to be sent, or is under way.
    pub(super) fn waits(&self, reader: u64) -> bool {
        let mut all = self.due.iter().chain(&self.open);
        all.any(|own| own.reader == reader)
    }

    /// What the answer to a reader's silent question found, once.
    pub(super) fn take(&mut self, reader: u64) -> Option<SilentAnswer> {
        let at = self.found.iter().position(|found| found.reader == reader)?;
        self.found.remove(at)
    }
}
