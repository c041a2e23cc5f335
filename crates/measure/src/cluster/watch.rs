//! What one recovery takes.

use std::time::Duration;

use coeval_consensus::{Body, Message, NodeId};
use coeval_types::Lsn;

use super::model::{entries_of, message_bytes};

/// A node that has started with a log of which some may not be the leader's, and what it
/// takes until that is settled. Places are counted as the log's ends are: `last` is behind
/// the last entry, `commit` behind the last that is known to be committed.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Which node.
    pub node: NodeId,
    /// Where its log ended.
    pub last: Lsn,
    /// Up to here it knew that its log was committed; 0 when that was lost.
    pub commit: Lsn,
    /// The first place in which it had another entry than the leader; `last` if none.
    pub diverges: Lsn,
    /// Requests for recovery that have reached the leader.
    pub requests: u64,
    /// Messages with entries that have reached the node.
    pub answers: u64,
    /// Entries in them, for places that its log had.
    pub entries: u64,
    /// All bytes that have reached the node.
    pub bytes: u64,
    /// When it first heard of the leader.
    pub heard: Option<Duration>,
    /// When its log, as far as it had reached, was the leader's and on its disk.
    pub log_recovered: Option<Duration>,
    /// When it had applied all that is committed, as far as it had heard.
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

    /// Entries that are not the leader's: `lst − div + 1`.
    #[must_use]
    pub const fn invalid(&self) -> u64 {
        self.last.0 - self.diverges.0
    }

    /// Entries behind the commit point: `lst − cmt`.
    #[must_use]
    pub const fn unknown(&self) -> u64 {
        self.last.0 - self.commit.0
    }

    /// From the first word of the leader to the leader's log on disk.
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
