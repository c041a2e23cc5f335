//! The follower's side of log replication: handling of appends and heartbeats, and
//! acknowledgements.
//!
//! The central state is the end up to which the follower's log is *verified*, that is,
//! known to match the leader's. A follower that restarts or meets a new leader has
//! verified nothing after its commit index.
//!
//! ```text
//!               commit       verified        end
//!   log  ─────────┼─────────────┼─────────────┤
//!         the same on   the same as    may be some
//!         every node    the leader's   old leader's
//! ```
//!
//! - An append verifies the log if its previous position is in this log: by log matching
//!   everything before it matches too. If the log does not have that prefix, the follower
//!   sends one recovery request (`recovery`).
//! - The follower acknowledges, and treats as committed, only verified log: a leader's
//!   commit index beyond an offset says nothing of which entry this node has there.
//! - Entries that the log already has are skipped; the first that differs replaces
//!   everything from there on. The log is never truncated without an entry to replace the
//!   tail.
//! - An acknowledgement leaves when the entries it covers, and the term, are on the disk.
//!   One acknowledgement covers all writes that are done by then. An append without
//!   entries that verifies nothing new is not answered: it only carries the commit index.
//!   If the previous acknowledgement was lost, the answer to the next heartbeat repeats
//!   its content.
//!
//! Invariant: commit ≤ verified ≤ end, once there is a verified end.

use coeval_types::{Lsn, Term, planted};

use crate::consensus::{Consensus, State};
use crate::entry::{Content, Entry};
use crate::follower_recovery;
use crate::message::{Body, Request, Verified};
use crate::position::{NodeId, Position};
use crate::refusal::Refusal;

/// A follower's state with respect to its leader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follower {
    /// End of the log that is known to match the leader's.
    verified: Option<Lsn>,
    /// End of the log that the follower has acknowledged as durable.
    acknowledged: Lsn,
    /// Whether the leader expects an acknowledgement, even one without news.
    owes_answer: bool,
    /// The recovery request that has not been answered yet.
    asked: Option<Recovering>,
    /// The leader's commit index of its newest answer to a question.
    heard: Lsn,
}

/// A recovery request under way.
#[derive(Clone, Copy, Debug)]
struct Recovering {
    /// Ticks since it was sent; after half an election timeout it counts as lost.
    ticks: u32,
    /// The end that the request asked about, when entries are checked one by one.
    walked: Lsn,
}

impl Follower {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) const fn verified(&self) -> Option<Lsn> {
        self.verified
    }

    /// Records a commit index of this term's leader that readers wait for.
    pub(crate) fn heard(&mut self, commit: Lsn) {
        self.heard = self.heard.max(commit);
    }

    #[cfg(test)]
    pub(crate) const fn newest_heard(&self) -> Lsn {
        self.heard
    }

    /// Called after a checkpoint was installed: everything before `commit` is committed,
    /// so every leader has it.
    pub(crate) fn installed(&mut self, commit: Lsn) {
        self.verified = self.verified.max(Some(commit));
        self.owes_answer = true;
        self.asked = None;
    }
}

impl Consensus {
    /// Advances the clock of a node that does not lead.
    pub(crate) fn tick_follower(&mut self) {
        let patience = (self.settings.election_ticks / 2).max(self.settings.heartbeat_ticks);
        if let State::Follower(follower) = &mut self.state
            && let Some(asked) = &mut follower.asked
        {
            asked.ticks += 1;
            if asked.ticks > patience {
                follower.asked = None;
            }
        }
    }

    /// Records a message from `from`, which leads this term.
    fn hear(&mut self, from: NodeId) -> Option<&mut Follower> {
        if let State::Candidate(_) = self.state {
            self.follow(self.term, Some(from));
        }
        self.leader = Some(from);
        self.elapsed = 0;
        match &mut self.state {
            State::Follower(follower) => Some(follower),
            State::Candidate(_) | State::Leader(_) => None,
        }
    }

    /// Handles an append of the leader.
    pub(crate) fn append_received(
        &mut self,
        from: NodeId,
        term: Term,
        previous: Position,
        commit: Lsn,
        entries: Vec<Entry>,
    ) -> Result<(), Refusal> {
        check_entries(term, previous, &entries)?;
        if planted!(AcknowledgeStaleTerm) && term < self.term {
            return self.obey_stale_leader(from, term, previous, entries);
        }
        if self.hear(from).is_none() {
            return Ok(());
        }
        if !self.has_prefix(previous) {
            self.ask_to_recover(from);
            return Ok(());
        }
        let received = entries.last().map_or(previous.end, |entry| entry.end);
        let brings_entries = !entries.is_empty();
        self.take(entries)?;
        let verified = received.max(self.shape.commit());
        if let State::Follower(follower) = &mut self.state {
            let asked = follower.asked.take();
            let verifies = follower.verified < Some(verified);
            follower.owes_answer |= brings_entries || verifies || asked.is_some();
            follower.verified = follower.verified.max(Some(verified));
        }
        self.learn_commit(commit);
        self.acknowledge();
        Ok(())
    }

    /// Whether this log matches the leader's up to `previous`.
    pub(crate) fn has_prefix(&self, previous: Position) -> bool {
        let is_trusted = planted!(BelieveTrailingMarks)
            && matches!(&self.state, State::Follower(follower) if follower.asked.is_some())
            && previous.end <= self.shape.end();
        previous.end <= self.shape.commit() || self.shape.has(previous) || is_trusted
    }

    /// Adds the leader's entries to the log, replacing those that differ.
    pub(crate) fn take(&mut self, entries: Vec<Entry>) -> Result<(), Refusal> {
        for entry in entries {
            if self.shape.has(entry.position()) || entry.end <= self.shape.base().end {
                continue;
            }
            if entry.start < self.shape.end() {
                if entry.start < self.shape.commit() {
                    return Err(Refusal::Contradiction {
                        at: entry.start,
                        commit: self.shape.commit(),
                    });
                }
                self.shape.truncate(entry.start);
                self.durability.truncated(entry.start);
                self.outbox.truncated(entry.start);
            }
            self.outbox.append(entry.clone());
            self.shape.append(entry);
        }
        Ok(())
    }

    /// Advances the commit index to the leader's, as far as this log is verified.
    pub(crate) fn learn_commit(&mut self, commit: Lsn) {
        if let State::Follower(follower) = &self.state
            && let Some(verified) = match planted!(ReadUncutTail) {
                true => Some(self.shape.end()),
                false => follower.verified,
            }
        {
            let commit = commit.max(follower.heard);
            let commit = commit.min(verified).min(self.shape.end());
            if commit > self.shape.commit() {
                self.shape.committed(commit);
            }
        }
    }

    /// Handles a heartbeat of the leader.
    pub(crate) fn heartbeat_received(&mut self, from: NodeId, commit: Lsn, round: u64) {
        let Some(follower) = self.hear(from) else {
            return;
        };
        let verified = follower.verified;
        if verified.is_none() {
            self.ask_to_recover(from);
        }
        self.learn_commit(commit);
        let verified = verified.map(|received| Verified {
            received,
            durable: received.min(self.durability.end()),
        });
        self.send(from, Body::HeartbeatAnswer { round, verified });
    }

    /// Sends the leader a recovery request.
    fn ask_to_recover(&mut self, leader: NodeId) {
        let walked = self.shape.end();
        let State::Follower(follower) = &mut self.state else {
            return;
        };
        if follower.asked.is_some() {
            return;
        }
        follower.asked = Some(Recovering { ticks: 0, walked });
        let request = match follower.verified {
            // Only messages were lost; the log is verified.
            Some(verified) => Request::From { start: verified },
            None => follower_recovery::request(self.settings.recovery, &self.shape, walked),
        };
        self.send(leader, Body::Recover(request));
    }

    /// Handles the answer that the leader has another entry than this node before `end`.
    pub(crate) fn differs_received(&mut self, from: NodeId, end: Lsn) {
        let walked = self.shape.end_before(end).max(self.shape.commit());
        let Some(follower) = self.hear(from) else {
            return;
        };
        match &mut follower.asked {
            Some(asked) if asked.walked == end && follower.verified.is_none() => {
                *asked = Recovering { ticks: 0, walked };
            }
            _ => return,
        }
        let request = follower_recovery::request(self.settings.recovery, &self.shape, walked);
        self.send(from, Body::Recover(request));
    }

    /// Sends an acknowledgement of the durable log, if it is news or is owed.
    pub(crate) fn acknowledge(&mut self) {
        let durable = self.durability.end();
        let has_promised = self.durability.term() == self.term;
        let State::Follower(follower) = &mut self.state else {
            return;
        };
        let (Some(leader), Some(verified), true) = (self.leader, follower.verified, has_promised)
        else {
            return;
        };
        let matched = verified.min(durable);
        let is_answer = follower.owes_answer && matched == verified;
        if matched > follower.acknowledged || is_answer {
            follower.acknowledged = follower.acknowledged.max(matched);
            follower.owes_answer &= !is_answer;
            self.send(leader, Body::Appended { matched });
        }
    }
}

/// Checks that entries follow each other as a leader's do. This includes the mark rule: a
/// term begins with its mark, and has no other.
fn check_entries(term: Term, previous: Position, entries: &[Entry]) -> Result<(), Refusal> {
    let mut before = previous;
    if before.term > term {
        return Err(Refusal::Malformed("what it follows on is of a later term"));
    }
    for entry in entries {
        let begins_term = entry.term > before.term;
        let complaint = if entry.start != before.end {
            "its entries leave a gap"
        } else if entry.end <= entry.start {
            "it has an entry that takes no place"
        } else if entry.end > Lsn::LIMIT {
            "it has an entry past the last place"
        } else if entry.term > term || entry.term < before.term {
            "it has entries of terms that go back"
        } else if begins_term != matches!(entry.content, Content::Mark(_)) {
            "it has a term that does not begin with its mark, or a mark within a term"
        } else if entry
            .membership()
            .is_some_and(|members| members.voters().len() == 0)
        {
            "it has members none of whom votes"
        } else {
            before = entry.position();
            continue;
        };
        return Err(Refusal::Malformed(complaint));
    }
    Ok(())
}
