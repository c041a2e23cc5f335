//! Apply progress: a follower reports to its leader how far it has committed and replayed.
//!
//! ```text
//!   sent ─▶ on disk ─▶ committed ─▶ replayed
//!   ├─ consensus ──┤   ├── reported here ──┤
//! ```
//!
//! The leader knows from acknowledgements what a follower has on its disk. Nothing depends
//! on how much of that the follower knows to be committed and shows to its readers: the
//! report is for administrators. So a follower sends it a few times a second if it has
//! changed, and on every new connection, since the last report may have been lost with the
//! previous connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use coeval_peers::{Frame, Loss, NodeId};
use coeval_types::Lsn;

use super::driver::Driver;
use super::frames;
use super::{NodeStatus, Role};

/// Ticks between two checks of a follower whether its progress has changed.
const TICKS: u32 = 4;

/// The replay thread's progress, which it publishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Replayed(Arc<AtomicU64>);

impl Replayed {
    /// Everything before `end` is in the tables and visible.
    pub(super) fn set(&self, end: Lsn) {
        self.0.store(end.0, Ordering::Relaxed);
    }

    fn get(&self) -> Lsn {
        Lsn(self.0.load(Ordering::Relaxed))
    }
}

/// A node's apply progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyProgress {
    /// Log offset before which everything is committed, as far as the node knows.
    pub committed: Lsn,
    /// Log offset before which everything is in the node's tables.
    pub replayed: Lsn,
}

impl ApplyProgress {
    fn encode(self) -> Bytes {
        let mut bytes = self.committed.0.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.replayed.0.to_le_bytes());
        bytes.into()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (committed, replayed) = bytes.split_first_chunk()?;
        Some(Self {
            committed: Lsn(u64::from_le_bytes(*committed)),
            replayed: Lsn(u64::from_le_bytes(replayed.try_into().ok()?)),
        })
    }
}

/// The progress that this node has reported, and the reports it has received.
#[derive(Debug)]
pub(super) struct ApplyProgressTable {
    replayed: Replayed,
    /// Ticks since progress was last checked.
    ticks: u32,
    /// The last report, and the leader it was sent to.
    told: Option<(NodeId, ApplyProgress)>,
    /// The followers' reports, while this node leads.
    heard: BTreeMap<NodeId, ApplyProgress>,
}

impl ApplyProgressTable {
    pub(super) fn new(replayed: Replayed) -> Self {
        Self {
            replayed,
            ticks: 0,
            told: None,
            heard: BTreeMap::new(),
        }
    }

    /// Clears the followers' reports, when a term of this node begins or ends.
    pub(super) fn forget(&mut self) {
        self.heard.clear();
    }

    /// Reports again on a new connection: the last report may have been lost with the old
    /// one.
    pub(super) fn connected(&mut self, node: NodeId) {
        self.told.take_if(|(to, _)| *to == node);
    }
}

impl Driver {
    /// On a tick, a follower reports its progress to its leader.
    pub(super) fn report_apply_progress(&mut self) {
        self.apply_progress.ticks += 1;
        if self.apply_progress.ticks < TICKS {
            return;
        }
        self.apply_progress.ticks = 0;
        let node_status = NodeStatus::of(&self.consensus);
        let Some(leader) = node_status
            .leader
            .filter(|_| node_status.role == Role::Follower)
        else {
            self.apply_progress.told = None;
            return;
        };
        let told = (leader, self.own_apply_progress());
        if self.apply_progress.told == Some(told) {
            return;
        }
        let sent = (self.peers).send(leader, frames::REACHED, told.1.encode(), Loss::Kept);
        self.apply_progress.told = sent.is_ok().then_some(told);
    }

    /// Records a follower's report.
    pub(super) fn reached(&mut self, frame: &Frame) {
        let Some(reached) = ApplyProgress::decode(&frame.payload) else {
            tracing::error!(from = %frame.from, "how far a node has come makes no sense");
            return;
        };
        if self.lead.is_some() {
            self.apply_progress.heard.insert(frame.from, reached);
        }
    }

    /// This node's own progress.
    fn own_apply_progress(&self) -> ApplyProgress {
        let committed = self.consensus.commit();
        let serves = self.lead.as_ref().is_some_and(|lead| lead.engine.is_some());
        let replayed = match serves {
            // A serving engine applies its commits to the tables before they are committed.
            true => committed,
            false => self.apply_progress.replayed.get(),
        };
        ApplyProgress {
            committed,
            replayed,
        }
    }

    /// A node's progress, if this node knows it.
    pub(super) fn apply_progress_of(&self, node: NodeId) -> Option<ApplyProgress> {
        if node.0 == self.consensus.id().0 {
            return Some(self.own_apply_progress());
        }
        self.apply_progress.heard.get(&node).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_follower_says_is_what_its_leader_hears() {
        let reached = ApplyProgress {
            committed: Lsn(9000),
            replayed: Lsn(8000),
        };
        let said = reached.encode();
        assert_eq!(ApplyProgress::decode(&said), Some(reached));
        for length in 0..said.len() {
            assert_eq!(ApplyProgress::decode(&said[..length]), None);
        }
        assert_eq!(ApplyProgress::decode(&[&said[..], &[0]].concat()), None);
    }
}
