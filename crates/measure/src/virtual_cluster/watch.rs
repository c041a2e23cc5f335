//! Measurements of one recovery.

use std::time::Duration;

use coeval_consensus::{Body, Message, NodeId};
use coeval_types::Lsn;

use super::model::{entries_of, message_bytes};

/// A node that has started with a log of which some entries may not be the leader's, and
/// the cost of reconciling it. Positions are counted like log ends: `last` is after the
/// last entry, `commit` after the last entry known to be committed.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Id of the recovering node.
    pub node: NodeId,
    /// End of its log at the start.
    pub last: Lsn,
    /// Its commit point at the start; 0 if that was lost.
    pub commit: Lsn,
    /// The first position at which its entry differed from the leader's; `last` if none
    /// did.
    pub diverges: Lsn,
    /// Number of recovery requests that have reached the leader.
    pub requests: u64,
    /// Number of messages with entries that have reached the node.
    pub answers: u64,
    /// Number of entries in them, for positions that its log had.
    pub entries: u64,
    /// Number of bytes that have reached the node.
    pub bytes: u64,
    /// Time at which the node first heard of the leader.
    pub heard: Option<Duration>,
    /// Time at which its log, up to its original end, equalled the leader's and was on
    /// its disk.
    pub log_recovered: Option<Duration>,
    /// Time at which it had applied all entries that it knew to be committed.
    pub state_recovered: Option<Duration>,
}

impl Recovery {
    pub(super) const fn new(node: NodeId, last: Lsn, commit: Lsn, diverges: Lsn) -> Self {
        Self {
            node,
            last,
            commit,
            diverges,
            requests: 0,
            answers: 0,
            entries: 0,
            bytes: 0,
            heard: None,
            log_recovered: None,
            state_recovered: None,
        }
    }

    /// Number of entries that are not the leader's: `lst − div + 1`.
    #[must_use]
    pub const fn invalid(&self) -> u64 {
        self.last.0 - self.diverges.0
    }

    /// Number of entries after the commit point: `lst − cmt`.
    #[must_use]
    pub const fn unknown(&self) -> u64 {
        self.last.0 - self.commit.0
    }

    /// Time from the leader's first message to the leader's log on disk.
    #[must_use]
    pub fn log_time(&self) -> Option<Duration> {
        Some(self.log_recovered? - self.heard?)
    }

    pub(super) fn arrives(&mut self, message: &Message, now: Duration) {
        if self.log_recovered.is_some() {
            return;
        }
        if message.from == self.node && matches!(message.body, Body::Recover(_)) {
            self.requests += 1;
        }
        if message.to == self.node {
            if matches!(message.body, Body::Append { .. } | Body::Heartbeat { .. }) {
                self.heard.get_or_insert(now);
            }
            let entries = entries_of(message);
            let known = entries.iter().filter(|entry| entry.start < self.last);
            self.entries += known.count() as u64;
            self.answers += u64::from(!entries.is_empty());
            self.bytes += message_bytes(message);
        }
    }
}
