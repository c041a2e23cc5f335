//! Batched replication to non-quorum followers: those whose acknowledgements no commit waits
//! for.
//!
//! A commit needs a majority. Of three voters the leader waits for one other, of five for
//! two; the answers of the rest change nothing. Yet a follower that is sent each group of
//! commits separately wakes for it, flushes it and answers it. So the leader sends the rest,
//! and learners, their missing entries at intervals, as long as the awaited followers (the
//! quorum set) answer:
//!
//! ```text
//!   1 leads, 2 is the quorum set
//!   a, b, c   proposed     1>2: a   1>2: b   1>2: c     each is committed with 2's answer
//!   interval                                            1>3: a b c     one flush, one answer
//!   2 stops answering
//!   d         proposed     1>2: d
//!   interval                                            1>3: d         and d is committed
//!   interval               2 lacks entries sent an interval ago, 3 has them:
//!                          3 is in the quorum set from now on, 2 is sent entries at intervals
//! ```
//!
//! The caller controls the intervals, since ticks are too long for them: it checks whether
//! entries wait ([`Consensus::has_non_quorum_entries`]), and releases them once they have
//! waited long enough ([`Consensus::send_to_all`]). The release holds until something was
//! sent, so under little load nothing waits. Every second tick releases them too, if the
//! caller has not.
//!
//! The quorum set stays the same, so that the other followers' batches are large, with two
//! exceptions. If a member lacks the entries that all followers were last offered, the
//! follower with the most entries replaces it. If other followers were the first to have
//! those entries, [`SLOWER`] times in a row, they replace the set.
//!
//! Invariants:
//! - The quorum set has as many followers as a commit needs besides this node, or no entries
//!   wait.
//! - No entries wait before the term's mark is committed, during a leadership transfer or
//!   when the leader leaves, for a follower that is owed an answer to a recovery request, for
//!   one whose readers wait for them (`follower_reads`), or when a message is full.
//! - Waiting entries are no more than a late message: no rule of the log or of elections
//!   depends on them.
//!
//! Source: this project's own. Decision 0032.

use std::cmp::Reverse;

use coeval_types::Lsn;

use crate::consensus::{Consensus, State};
use crate::position::NodeId;
use crate::progress::Stage;

/// How often in a row other followers must have been faster before they replace the quorum
/// set. An awaited follower has other entries on their way to its disk, so it is often the
/// slower one by chance; and the less the set changes, the larger the batches are.
const SLOWER: u32 = 16;

/// The quorum set, and its measurement against the other followers.
#[derive(Clone, Debug)]
pub(crate) struct QuorumSet {
    nodes: Vec<NodeId>,
    /// Whether all followers, not only the quorum set, may be sent their missing entries.
    all: bool,
    /// End of the log when all followers were last sent their missing entries.
    offered: Lsn,
    /// Ticks since then.
    ticks: u32,
    /// The first followers that had the log up to `offered`, as many as the quorum set has.
    first: Vec<NodeId>,
    /// Times in a row that `first` included a follower outside the quorum set.
    slower: u32,
}

impl Default for QuorumSet {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            all: true,
            offered: Lsn(0),
            ticks: 0,
            first: Vec::new(),
            slower: 0,
        }
    }
}

impl QuorumSet {
    /// Advances the clock: no entries wait for longer than two ticks.
    pub(crate) fn tick(&mut self) {
        self.ticks += 1;
        self.all |= self.ticks >= 2;
    }

    /// Records that a voter has the log up to `matched`.
    pub(crate) fn reached(&mut self, from: NodeId, matched: Lsn) {
        let is_full = self.first.len() >= self.nodes.len();
        if matched >= self.offered && !is_full && !self.first.contains(&from) {
            self.first.push(from);
        }
    }
}

impl Consensus {
    /// Whether entries wait for non-quorum followers until [`Consensus::send_to_all`].
    #[must_use]
    pub fn has_non_quorum_entries(&self) -> bool {
        let State::Leader(leader) = &self.state else {
            return false;
        };
        let mut followers = leader.progress.keys();
        followers.any(|follower| self.waits(*follower))
    }

    /// End of the log when all followers were last sent their missing entries, if only the
    /// quorum set is sent entries now; `None` if the next entries are sent to all followers.
    #[must_use]
    pub fn offered_to_all(&self) -> Option<Lsn> {
        match &self.state {
            State::Leader(leader) => {
                Some(leader.quorum_set.offered).filter(|_| !leader.quorum_set.all)
            }
            State::Follower(_) | State::Candidate(_) => None,
        }
    }

    /// Sends all followers their missing entries with the next [`Ready`](crate::Ready) that
    /// has entries, whether they are in the quorum set or not.
    pub fn send_to_all(&mut self) {
        if let State::Leader(leader) = &mut self.state {
            leader.quorum_set.all = true;
        }
    }

    /// Number of acknowledgements that a commit needs besides this node's.
    fn needed(&self) -> usize {
        let membership = self.shape.membership();
        let own = usize::from(membership.is_voter(self.id));
        membership.majority().saturating_sub(own)
    }

    /// Whether entries for this follower wait.
    pub(crate) fn waits(&self, follower: NodeId) -> bool {
        let State::Leader(leader) = &self.state else {
            return false;
        };
        let quorum_set = &leader.quorum_set;
        if quorum_set.all
            || quorum_set.nodes.contains(&follower)
            || leader.is_ending()
            || self.shape.commit() < leader.mark_end
        {
            return false;
        }
        let has_little_to_get = leader.progress.get(&follower).is_some_and(|progress| {
            let missing = self.shape.end().0.saturating_sub(progress.next.0);
            progress.stage == Stage::Replicate
                && progress.told.is_some()
                && progress.next >= progress.wanted
                && progress.may_send(&self.settings)
                && (1..self.settings.message_space).contains(&missing)
        });
        let answering = |node: &&NodeId| {
            let progress = leader.progress.get(node);
            self.shape.membership().is_voter(**node)
                && progress.is_some_and(|progress| progress.stage == Stage::Replicate)
        };
        has_little_to_get && quorum_set.nodes.iter().filter(answering).count() >= self.needed()
    }

    /// Called when followers outside the quorum set were sent entries: chooses the quorum set
    /// anew, and lets the next entries for the others wait.
    pub(crate) fn sent_to_all(&mut self) {
        if !self.settings.batches_non_quorum {
            return;
        }
        let (needed, end) = (self.needed(), self.shape.end());
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let quorum_set = &mut leader.quorum_set;
        let others = |node| !quorum_set.nodes.contains(node);
        quorum_set.slower = match quorum_set.first.iter().any(others) {
            true => quorum_set.slower + 1,
            false => 0,
        };
        if quorum_set.slower >= SLOWER {
            quorum_set.nodes = std::mem::take(&mut quorum_set.first);
            quorum_set.slower = 0;
        }
        let mut voters: Vec<_> = (leader.progress.iter())
            .filter(|(node, progress)| {
                progress.stage == Stage::Replicate && self.shape.membership().is_voter(**node)
            })
            .map(|(node, progress)| {
                let stays =
                    quorum_set.nodes.contains(node) && progress.matched >= quorum_set.offered;
                (Reverse((stays, progress.matched)), *node)
            })
            .collect();
        voters.sort_unstable();
        voters.truncate(needed);
        *quorum_set = QuorumSet {
            nodes: voters.into_iter().map(|(_, node)| node).collect(),
            all: false,
            offered: end,
            ticks: 0,
            first: Vec::new(),
            slower: quorum_set.slower,
        };
    }
}
