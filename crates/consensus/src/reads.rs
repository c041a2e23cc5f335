//! Reads that see everything acknowledged before them, without writing to the log.
//!
//! A leader may have been deposed without knowing. So a read notes the commit point, and
//! is answered once a majority has answered a round of heartbeats that began after it:
//! until then nobody else can have led and committed more (read index, Raft dissertation
//! §6.4). One round serves all reads that came before it, and the reads that come while
//! it is under way share the next:
//!
//! ```text
//!  reads    a    b c d e               f
//!  rounds     1 ─────────▶ ok  2 ─────────▶ ok
//!             answers a        answers b c d e, not f
//! ```
//!
//! With a lease (off unless set), a round that was confirmed counts for a time after its
//! *beginning*, because none of those who confirmed it votes before that time is over,
//! in whatever term, and whatever else it hears; [`Settings::lease_ticks`] has the sum. A
//! leader that hands over its leadership asks another to be elected at once, so it takes no
//! more reads on a lease in its term. So does one whose members change, until they confirm it.
//!
//! Invariant: a read is answered with a commit point no older than what any node had
//! acknowledged when the read came. That needs a commit point of this term, so reads are
//! refused until the mark is committed.

use std::collections::VecDeque;

use coeval_types::Lsn;

use crate::consensus::{Consensus, State};
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

/// The rounds of a leader, and who waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    waiting: VecDeque<Waiting>,
    /// The newest round that was sent.
    pub(crate) round: u64,
    /// When rounds began, in ticks of this leadership.
    begun: VecDeque<(u64, u64)>,
    /// When the newest confirmed round began.
    confirmed: Option<u64>,
    /// Somebody was asked to be elected.
    gave_up_lease: bool,
}

impl Reads {
    /// A round is sent.
    pub(crate) fn begin(&mut self, now: u64) -> u64 {
        self.round += 1;
        self.begun.push_back((self.round, now));
        self.round
    }

    /// Whether reads wait, and none of them for a round that is under way.
    pub(crate) fn want_round(&self) -> bool {
        self.waiting
            .front()
            .is_some_and(|first| first.round > self.round)
    }

    /// Everybody who confirmed so far may not be who counts from now on.
    pub(crate) fn forget_lease(&mut self) {
        self.confirmed = None;
        self.begun.clear();
    }

    /// Another node may be elected before the lease is over.
    pub(crate) fn give_up_lease(&mut self) {
        self.gave_up_lease = true;
    }

    /// How many ticks are left of a lease of so many.
    fn lease_left(&self, now: u64, ticks: u64) -> u64 {
        match self.confirmed {
            Some(begun) if !self.gave_up_lease => ticks.saturating_sub(now - begun),
            _ => 0,
        }
    }

    /// A majority has answered this round.
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
    /// Asks whether this node still leads, and how far a read must see. The answer comes
    /// by [`Ready::reads`](crate::Ready::reads), under this `context`.
    ///
    /// # Errors
    /// When this node does not lead, or its term has only begun.
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

    /// Within how many more ticks a read needs no round: all, where nobody else votes,
    /// since nobody else can be elected; what is left of a lease; none, if this node does
    /// not lead or its term has only begun. Asked again after every step, for any may take
    /// it back, and before that step's messages are sent: they may make another one leader.
    #[must_use]
    pub fn certain_ticks(&self) -> u64 {
        self.confirmed_ticks(self.settings.lease_ticks())
    }

    /// Within how many more ticks it is not to be expected that somebody else is elected: half
    /// of those for which voters that have answered this leader vote for nobody. It takes a
    /// voter that has forgotten so, because it has started again or has heard of a newer term,
    /// one with other settings, or ticks that come twice as fast. Like
    /// [`Consensus::certain_ticks`] it is taken back by any step. Nothing may rest on it that
    /// is not found out for certain later.
    #[must_use]
    pub fn unchallenged_ticks(&self) -> u64 {
        self.confirmed_ticks(u64::from((self.settings.election_ticks - 1) / 2))
    }

    /// What is left of so many ticks, counted from the beginning of the last round that a
    /// majority has answered.
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

    /// Begins a round, for reads or because it is time.
    pub(crate) fn send_heartbeats(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let round = leader.reads.begin(leader.now);
        let commit = self.shape.commit();
        let followers: Vec<NodeId> = leader.progress.keys().copied().collect();
        for progress in leader.progress.values_mut() {
            progress.heartbeat(round);
            // Whoever has asked is owed an answer of its own.
            if progress.told.is_some() {
                progress.told = Some(commit);
            }
        }
        for follower in followers {
            self.send(follower, Body::Heartbeat { commit, round });
        }
        // Alone, it is its own majority.
        self.confirm_reads();
    }

    /// Answers the reads whose round is over.
    pub(crate) fn confirm_reads(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let round = leader.confirmed_round(self.id, self.shape.membership());
        self.outbox.reads.extend(leader.reads.confirm(round));
    }

    /// This node leads no more: who waits is told.
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
