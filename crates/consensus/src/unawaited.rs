//! Followers whose answers no commit waits for.
//!
//! A commit needs a majority. Of three voters the leader waits for one other, of five for
//! two; what the rest answer changes nothing. Yet a follower that is sent each group of
//! commits by itself is woken for it, flushes for it and answers it. So the rest, and
//! learners, are sent what they lack at intervals, as long as those answer who are awaited:
//!
//! ```text
//!   1 leads, 2 is awaited
//!   a, b, c   proposed     1>2: a   1>2: b   1>2: c     each is committed with 2's answer
//!   interval                                            1>3: a b c     one flush, one answer
//!   2 falls silent
//!   d         proposed     1>2: d
//!   interval                                            1>3: d         and d is committed
//!   interval               2 lacks what was offered an interval ago, 3 has it:
//!                          3 is awaited from now on, and 2 is sent things at intervals
//! ```
//!
//! The intervals are the caller's, since ticks are too long for them: it looks whether
//! something waits ([`Consensus::has_unawaited_entries`]), and says when it has waited for
//! long enough ([`Consensus::send_to_all`]). What it says holds until something was sent, so
//! under little load nothing waits. Each second tick says it, too, if the caller has not.
//!
//! Who is awaited stays it, so that the others' pieces are large, but for two reasons. It
//! lacks what all were offered the last time: then whoever has most takes its place. Or
//! others were the first to have that, [`SLOWER`] times in a row: then those do.
//!
//! Invariants:
//! - As many are awaited as a commit needs besides this node, or nothing waits.
//! - Nothing waits before the term's mark is committed, while leadership is handed over or
//!   laid down, of what is owed to a follower that has asked, and where a message is full.
//! - That something waits is no more than a message that is late: no rule of the log or of
//!   elections knows of it.
//!
//! Source: ours; no document has it. Decision 0032.

use std::cmp::Reverse;

use coeval_types::Lsn;

use crate::consensus::{Consensus, State};
use crate::position::NodeId;
use crate::progress::Stage;

/// How often in a row others must have been faster before they are awaited instead. Whoever
/// is awaited has other entries on its way to the disk, so it is often the slower one by
/// chance; and the less it changes, the more is in a piece.
const SLOWER: u32 = 16;

/// Whose answers commits wait for.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    nodes: Vec<NodeId>,
    /// All may be sent what they lack, the others too.
    all: bool,
    /// Where the log ended when all were sent what they lacked.
    offered: Lsn,
    /// Ticks since then.
    ticks: u32,
    /// The first who had all of that, as many as are awaited.
    first: Vec<NodeId>,
    /// How often in a row those were others than are awaited.
    slower: u32,
}

impl Default for Awaited {
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

impl Awaited {
    /// A tick: nothing waits for longer than from one to the next but one.
    pub(crate) fn tick(&mut self) {
        self.ticks += 1;
        self.all |= self.ticks >= 2;
    }

    /// A voter has so much.
    pub(crate) fn reached(&mut self, from: NodeId, matched: Lsn) {
        let is_full = self.first.len() >= self.nodes.len();
        if matched >= self.offered && !is_full && !self.first.contains(&from) {
            self.first.push(from);
        }
    }
}

impl Consensus {
    /// Whether there are entries for followers that are not awaited, which wait until
    /// [`Consensus::send_to_all`].
    #[must_use]
    pub fn has_unawaited_entries(&self) -> bool {
        let State::Leader(leader) = &self.state else {
            return false;
        };
        let mut followers = leader.progress.keys();
        followers.any(|follower| self.waits(*follower))
    }

    /// Where the log ended when all were sent what they lacked, if others than those who are
    /// awaited are sent nothing now; `None` if with the next entries everybody is sent what
    /// there is for them.
    #[must_use]
    pub fn offered_to_all(&self) -> Option<Lsn> {
        match &self.state {
            State::Leader(leader) => Some(leader.awaited.offered).filter(|_| !leader.awaited.all),
            State::Follower(_) | State::Candidate(_) => None,
        }
    }

    /// With the next [`Ready`](crate::Ready) with entries all followers are sent what there
    /// is for them, whether they are awaited or not.
    pub fn send_to_all(&mut self) {
        if let State::Leader(leader) = &mut self.state {
            leader.awaited.all = true;
        }
    }

    /// For how many answers a commit waits.
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
        let awaited = &leader.awaited;
        if awaited.all
            || awaited.nodes.contains(&follower)
            || leader.is_ending()
            || self.shape.commit() < leader.mark_end
        {
            return false;
        }
        let has_little_to_get = leader.progress.get(&follower).is_some_and(|progress| {
            let missing = self.shape.end().0.saturating_sub(progress.next.0);
            progress.stage == Stage::Replicate
                && progress.told.is_some()
                && progress.may_send(&self.settings)
                && (1..self.settings.message_space).contains(&missing)
        });
        let answering = |node: &&NodeId| {
            let progress = leader.progress.get(node);
            self.shape.membership().is_voter(**node)
                && progress.is_some_and(|progress| progress.stage == Stage::Replicate)
        };
        has_little_to_get && awaited.nodes.iter().filter(answering).count() >= self.needed()
    }

    /// Somebody who may not be awaited was sent entries, so that the next wait again, if any
    /// are to wait.
    pub(crate) fn sent_to_all(&mut self) {
        if !self.settings.batches_unawaited {
            return;
        }
        let (needed, end) = (self.needed(), self.shape.end());
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let awaited = &mut leader.awaited;
        let others = |node| !awaited.nodes.contains(node);
        awaited.slower = match awaited.first.iter().any(others) {
            true => awaited.slower + 1,
            false => 0,
        };
        if awaited.slower >= SLOWER {
            awaited.nodes = std::mem::take(&mut awaited.first);
            awaited.slower = 0;
        }
        let mut voters: Vec<_> = (leader.progress.iter())
            .filter(|(node, progress)| {
                progress.stage == Stage::Replicate && self.shape.membership().is_voter(**node)
            })
            .map(|(node, progress)| {
                let stays = awaited.nodes.contains(node) && progress.matched >= awaited.offered;
                (Reverse((stays, progress.matched)), *node)
            })
            .collect();
        voters.sort_unstable();
        voters.truncate(needed);
        *awaited = Awaited {
            nodes: voters.into_iter().map(|(_, node)| node).collect(),
            all: false,
            offered: end,
            ticks: 0,
            first: Vec::new(),
            slower: awaited.slower,
        };
    }
}
