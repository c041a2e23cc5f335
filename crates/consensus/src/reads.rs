//! Linearizable reads without log writes: read index, and leader leases.
//!
//! A leader may have been deposed without knowing. So a read records the commit index, and is
//! answered once a majority has answered a round of heartbeats that began after the read:
//! until then no other node can have led and committed more (read index, Raft dissertation
//! §6.4). One round serves all reads that came before it, and the reads that come while it is
//! under way share the next:
//!
//! ```text
//!  reads    a    b c d e               f
//!  rounds     1 ─────────▶ ok  2 ─────────▶ ok
//!             answers a        answers b c d e, not f
//! ```
//!
//! A majority is enough, so a round that begins for reads goes to as many voters as one needs,
//! those that were the first to answer the last round that went to all. Every heartbeat interval
//! begins a round for all followers, which answers the earlier reads as well, and chooses anew:
//! when a chosen voter is lost, reads wait for that long, once.
//!
//! With a lease (off unless set), a confirmed round counts for a time after its *beginning*,
//! because no voter that confirmed it grants a vote before that time is over, in whatever
//! term, and whatever messages it receives; [`Settings::lease_ticks`] has the formula. A
//! leader that transfers its leadership asks another node to be elected at once, so it serves
//! no more reads on a lease in its term. Nor does a leader whose membership changes, until the
//! new members confirm it.
//!
//! Invariant: a read is answered with a commit index that includes everything any node had
//! acknowledged when the read came. That needs a commit index of this term, so reads are
//! refused until the mark is committed.

use std::collections::VecDeque;

use coeval_types::Lsn;

use crate::consensus::{Consensus, State};
use crate::follower_reads::Asking;
use crate::leader::Leader;
use crate::membership::Membership;
use crate::message::Body;
use crate::position::NodeId;
use crate::ready::ReadAnswer;
use crate::refusal::Refusal;

#[cfg(doc)]
use crate::settings::Settings;

/// A read that waits for a round.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    context: u64,
    at: Lsn,
    round: u64,
}

/// The heartbeat rounds of a leader, and the reads that wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    waiting: VecDeque<Waiting>,
    /// The unanswered questions of followers, oldest first.
    pub(crate) asking: VecDeque<Asking>,
    /// The newest round that was sent.
    pub(crate) round: u64,
    /// Start of each unconfirmed round: its number, and the tick of this leadership.
    begun: VecDeque<(u64, u64)>,
    /// Tick at which the newest confirmed round began.
    confirmed: Option<u64>,
    /// Whether another node was asked to campaign.
    gave_up_lease: bool,
    /// The oldest round for all followers that is not confirmed.
    to_all: Option<u64>,
    /// The voters that were the first to confirm the last round for all that was confirmed: rounds
    /// for reads go to them. Empty if the rounds go to all.
    first: Vec<NodeId>,
}

impl Reads {
    /// Begins a round and returns its number.
    pub(crate) fn begin(&mut self, now: u64) -> u64 {
        self.round += 1;
        self.begun.push_back((self.round, now));
        self.round
    }

    /// Whether reads or questions wait, and none of them for a round that is under way.
    pub(crate) fn want_round(&self) -> bool {
        let read = self.waiting.front().map(|first| first.round);
        let question = self.asking.front().map(|first| first.round);
        let first = read.into_iter().chain(question).min();
        first.is_some_and(|first| first > self.round)
    }

    /// Drops the lease after a membership change: the nodes that confirmed it may be no
    /// majority of the new members.
    pub(crate) fn forget_lease(&mut self) {
        self.confirmed = None;
        self.begun.clear();
        self.to_all = None;
        self.first.clear();
    }

    /// Gives up the lease for this term: another node may be elected before it is over.
    pub(crate) fn give_up_lease(&mut self) {
        self.gave_up_lease = true;
    }

    /// Ticks left of a lease of `ticks` ticks.
    pub(crate) fn lease_left(&self, now: u64, ticks: u64) -> u64 {
        match self.confirmed {
            Some(begun) if !self.gave_up_lease => ticks.saturating_sub(now - begun),
            _ => 0,
        }
    }

    /// Records that a majority has answered this round, and returns the reads it answers.
    fn confirm(&mut self, round: u64) -> impl Iterator<Item = ReadAnswer> + '_ {
        while let Some((_, begun)) = self.begun.pop_front_if(|(number, _)| *number <= round) {
            self.confirmed = Some(begun);
        }
        let count = self.waiting.partition_point(|read| read.round <= round);
        self.waiting.drain(..count).map(|read| ReadAnswer {
            context: read.context,
            outcome: Ok(read.at),
        })
    }
}

impl Leader {
    /// The newest round that a majority has answered.
    fn confirmed_round(&self, id: NodeId, membership: &Membership) -> u64 {
        let round = membership.reached_by_majority(|voter| {
            if voter == id {
                self.reads.round
            } else {
                self.progress
                    .get(&voter)
                    .map_or(0, |progress| progress.round)
            }
        });
        round.unwrap_or(0)
    }
}

impl Consensus {
    /// Requests a read: whether this node still leads, and up to which commit index the read
    /// must see. The answer comes in [`Ready::reads`](crate::Ready::reads), with this
    /// `context`.
    ///
    /// # Errors
    /// When this node does not lead, or its mark is not committed yet.
    pub fn read(&mut self, context: u64) -> Result<(), Refusal> {
        self.check_serving()?;
        let State::Leader(leader) = &mut self.state else {
            return Ok(());
        };
        let at = self.shape.commit();
        let lease = self.settings.lease_ticks();
        if leader.reads.lease_left(leader.now, lease) > 0 {
            self.outbox.reads.push(ReadAnswer {
                context,
                outcome: Ok(at),
            });
        } else {
            leader.reads.waiting.push_back(Waiting {
                context,
                at,
                round: leader.reads.round + 1,
            });
        }
        Ok(())
    }

    /// For how many more ticks a read needs no round: `u64::MAX` if this node is the only
    /// voter, since no other node can be elected; the rest of a lease; 0 if this node does not
    /// lead or its mark is not committed. The caller asks again after every step, because any
    /// step may end the lease, and before it sends that step's messages, because they may make
    /// another node leader.
    #[must_use]
    pub fn certain_ticks(&self) -> u64 {
        self.confirmed_ticks(self.settings.lease_ticks())
    }

    /// For how many more ticks the election of another node is unlikely: half the time for
    /// which the voters that have answered this leader grant no votes. A voter may still grant
    /// one if it has restarted, has seen a newer term or has other settings, or if its ticks
    /// come twice as fast. As for [`Consensus::certain_ticks`], any step may end it. A caller
    /// may rely on it only for results that are confirmed later.
    #[must_use]
    pub fn unchallenged_ticks(&self) -> u64 {
        self.confirmed_ticks(u64::from((self.settings.election_ticks - 1) / 2))
    }

    /// Ticks left of `ticks`, counted from the beginning of the last round that a majority has
    /// answered.
    fn confirmed_ticks(&self, ticks: u64) -> u64 {
        let State::Leader(leader) = &self.state else {
            return 0;
        };
        let mut voters = self.shape.membership().voters();
        match self.check_serving() {
            Err(_) => 0,
            Ok(()) if voters.len() == 1 && voters.next() == Some(self.id) => u64::MAX,
            Ok(()) => leader.reads.lease_left(leader.now, ticks),
        }
    }

    /// Begins a round of heartbeats for reads.
    pub(crate) fn send_read_round(&mut self) {
        let State::Leader(leader) = &self.state else {
            return;
        };
        match leader.reads.first.is_empty() || leader.is_ending() {
            true => self.send_heartbeats(),
            false => self.send_round(leader.reads.first.clone()),
        }
    }

    /// Begins a round of heartbeats for all followers.
    pub(crate) fn send_heartbeats(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        // The oldest that is not confirmed: where answers take longer than the interval, the
        // newest never is before the next begins.
        let round = leader.reads.round + 1;
        leader.reads.to_all.get_or_insert(round);
        let followers = leader.progress.keys().copied().collect();
        self.send_round(followers);
    }

    fn send_round(&mut self, followers: Vec<NodeId>) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let round = leader.reads.begin(leader.now);
        let commit = self.shape.commit();
        for follower in &followers {
            let Some(progress) = leader.progress.get_mut(follower) else {
                continue;
            };
            progress.heartbeat(round);
            // A follower that has sent a recovery request is owed an answer of its own.
            if progress.told.is_some() {
                progress.told = Some(commit);
            }
        }
        for follower in followers {
            self.send(follower, Body::Heartbeat { commit, round });
        }
        // A single voter is its own majority.
        self.confirm_reads();
    }

    /// Answers the reads whose round is confirmed.
    pub(crate) fn confirm_reads(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let membership = self.shape.membership();
        let round = leader.confirmed_round(self.id, membership);
        if let Some(to_all) = leader.reads.to_all.take_if(|to_all| *to_all <= round) {
            let answered = leader.progress.iter().filter(|(node, progress)| {
                **node != self.id && progress.round >= to_all && membership.is_voter(**node)
            });
            leader.reads.first = answered.map(|(node, _)| *node).collect();
        }
        self.outbox.reads.extend(leader.reads.confirm(round));
    }

    /// Called when this node stops leading: refuses the waiting reads.
    pub(crate) fn refuse_reads(&mut self, successor: Option<NodeId>) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let waiting = leader.reads.waiting.drain(..);
        self.outbox.reads.extend(waiting.map(|read| ReadAnswer {
            context: read.context,
            outcome: Err(Refusal::NotLeader { leader: successor }),
        }));
    }
}
