//! The leader: writes the term's mark, then accepts proposals and replicates them to a
//! quorum.
//!
//! ```text
//!  elected ──▶ mark appended and sent ──▶ mark committed ──▶ serving
//!              proposals refused                             proposals, reads, changes
//! ```
//!
//! An entry is committed when a majority of the voters, with or without the leader, have it
//! on disk *and the leader's own mark is committed with it or before*. Counting disks for
//! entries of older terms alone would be wrong: a later leader may still replace them (Raft
//! §5.4.2, its figure 8).
//!
//! The leader sends proposals when the caller takes a [`Ready`](crate::Ready), so all
//! proposals since the last one go together. Entries and heartbeats carry the commit index.
//! Under load the next entries follow at once, and a separate message for each commit index
//! would double the messages; so an append without entries carries it only at the caller's
//! request ([`Consensus::tell_commit`]). Followers do not acknowledge such an append.
//!
//! The rule which followers are sent entries at once, and which in larger batches, is in
//! `quorum_set`.
//!
//! A leader that loses its vote by a committed change asks another voter to campaign, and
//! becomes a follower.
//!
//! A leader that has not heard from a majority for an election timeout steps down (check
//! quorum), so that its clients do not wait for a node that can commit nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bytes::Bytes;
use coeval_types::Lsn;
use coeval_types::planted;

use crate::consensus::{Consensus, FollowerStatus, State};
use crate::encoding;
use crate::entry::{Content, Entry};
use crate::follower_recovery::{self, Answer};
use crate::membership::{Change, Membership};
use crate::message::{Body, Request, Verified};
use crate::position::{NodeId, Position};
use crate::progress::{Progress, Stage};
use crate::quorum_set::QuorumSet;
use crate::reads::Reads;
use crate::ready::Fetch;
use crate::refusal::Refusal;
use crate::shape::Limit;

/// State of a leader.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    /// The end of its mark: the leader serves once the mark is committed.
    pub(crate) mark_end: Lsn,
    /// Ticks since this leader was elected.
    pub(crate) now: u64,
    pub(crate) progress: BTreeMap<NodeId, Progress>,
    pub(crate) reads: Reads,
    /// Followers that check their logs entry by entry, and the end that each asks about.
    checks: BTreeMap<NodeId, Lsn>,
    transfer: Option<Transfer>,
    since_heartbeat: u32,
    since_majority: u32,
    /// Whether a membership without this node is committed.
    leaves: bool,
    /// Whether the next appends carry the commit index even without entries.
    tells_commit: bool,
    /// The quorum set: followers whose acknowledgements commits wait for.
    pub(crate) quorum_set: QuorumSet,
}

/// A leadership transfer that is under way.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    to: NodeId,
    ticks: u32,
    asked: bool,
}

impl Leader {
    pub(crate) fn followers(&self) -> Vec<FollowerStatus> {
        let followers = self.progress.iter();
        followers
            .map(|(node, progress)| FollowerStatus {
                node: *node,
                stage: progress.stage,
                matched: progress.matched,
                sent: progress.next,
            })
            .collect()
    }

    /// Whether the leader is transferring leadership, or leaving the cluster.
    pub(crate) fn is_ending(&self) -> bool {
        self.leaves || self.transfer.is_some()
    }

    /// The node to which leadership is being transferred.
    pub(crate) fn handing_over(&self) -> Option<NodeId> {
        self.transfer.map(|transfer| transfer.to)
    }

    /// Makes exactly the members other than this node its followers.
    fn adopt(&mut self, id: NodeId, membership: &Membership, end: Lsn) {
        self.progress.retain(|node, _| membership.is_member(*node));
        for member in membership.members().filter(|member| *member != id) {
            // A follower that is added later counts as active: it had no time to answer yet.
            let active = self.now > 0;
            self.progress
                .entry(member)
                .or_insert_with(|| Progress::new(end, active));
        }
        self.reads.forget_lease();
    }
}

impl Consensus {
    /// Begins leadership: this node has won the election of its term.
    pub(crate) fn lead(&mut self) {
        let start = self.shape.end();
        let membership = self.shape.membership().clone();
        let bytes = encoding::membership_bytes(&membership);
        let mut leader = Leader {
            mark_end: Lsn(start.0 + self.settings.spacing.space(bytes)),
            now: 0,
            progress: BTreeMap::new(),
            reads: Reads::default(),
            checks: BTreeMap::new(),
            transfer: None,
            since_heartbeat: 0,
            since_majority: 0,
            leaves: false,
            tells_commit: false,
            quorum_set: QuorumSet::default(),
        };
        leader.adopt(self.id, &membership, start);
        let end = leader.mark_end;
        self.leader = Some(self.id);
        self.state = State::Leader(Box::new(leader));
        self.add(end, Content::Mark(membership));
    }

    /// Appends an entry of this leader.
    fn add(&mut self, end: Lsn, content: Content) -> Position {
        let entry = Entry {
            start: self.shape.end(),
            end,
            term: self.term,
            content,
        };
        let position = entry.position();
        self.outbox.append(entry.clone());
        self.shape.append(entry);
        position
    }

    /// Checks that this node leads and may append entries.
    pub(crate) fn check_serving(&self) -> Result<(), Refusal> {
        match &self.state {
            State::Leader(leader)
                if self.shape.commit() >= leader.mark_end || planted!(ForgetMarkRule) =>
            {
                Ok(())
            }
            State::Leader(_) => Err(Refusal::TermBegins { term: self.term }),
            State::Follower(_) | State::Candidate(_) => Err(Refusal::NotLeader {
                leader: self.leader,
            }),
        }
    }

    /// Checks that an entry of `space` bytes may be appended, and returns its end.
    fn check_proposal(&self, space: u64) -> Result<Lsn, Refusal> {
        self.check_serving()?;
        if let State::Leader(leader) = &self.state
            && let Some(transfer) = leader.transfer
        {
            return Err(Refusal::HandingOver { to: transfer.to });
        }
        let end = self.shape.end().0.checked_add(space.max(1));
        end.filter(|end| *end <= Lsn::LIMIT.0)
            .map(Lsn)
            .ok_or(Refusal::OutOfPlaces)
    }

    /// Appends a payload to the log. The returned position is committed once a
    /// [`Committed`](crate::Committed) reaches its end *in its term*, or later.
    ///
    /// # Errors
    /// When this node does not lead, its mark is not committed yet, or it is transferring
    /// leadership.
    pub fn propose(&mut self, payload: Bytes) -> Result<Position, Refusal> {
        let space = self.settings.spacing.space(payload.len() as u64);
        self.propose_spanning(payload, space)
    }

    /// Like [`Self::propose`], for a payload that covers `space` of the log: for instance
    /// many frames that become durable together.
    ///
    /// # Errors
    /// Those of [`Self::propose`].
    pub fn propose_spanning(&mut self, payload: Bytes, space: u64) -> Result<Position, Refusal> {
        let end = self.check_proposal(space)?;
        Ok(self.add(end, Content::Payload(payload)))
    }

    /// Changes the membership by one node. The change is in force at once, and done when
    /// committed.
    ///
    /// # Errors
    /// Those of [`Self::propose`]; when the previous change is not committed; or when the
    /// change makes no sense.
    pub fn change_membership(&mut self, change: Change) -> Result<Position, Refusal> {
        self.check_proposal(1)?;
        if self.shape.membership_is_open() {
            return Err(Refusal::ChangeUnderWay);
        }
        let membership = self
            .shape
            .membership()
            .changed(change)
            .map_err(Refusal::Change)?;
        let bytes = encoding::membership_bytes(&membership);
        let end = self.check_proposal(self.settings.spacing.space(bytes))?;
        let before = self.shape.end();
        let position = self.add(end, Content::Membership(membership.clone()));
        if let State::Leader(leader) = &mut self.state {
            leader.adopt(self.id, &membership, before);
        }
        Ok(position)
    }

    /// Transfers leadership to another voter: the leader brings it up to date and asks it to
    /// campaign. The transfer is given up after an election timeout.
    ///
    /// # Errors
    /// When this node does not lead, another transfer is under way, or `to` is no other
    /// voter.
    pub fn transfer(&mut self, to: NodeId) -> Result<(), Refusal> {
        self.check_proposal(1)?;
        if to == self.id || !self.shape.membership().is_voter(to) {
            return Err(Refusal::NotAVoter(to));
        }
        if let State::Leader(leader) = &mut self.state {
            leader.transfer = Some(Transfer {
                to,
                ticks: 0,
                asked: false,
            });
        }
        self.go_on_with_transfer();
        Ok(())
    }

    /// Asks the successor to campaign, once it has the whole log.
    fn go_on_with_transfer(&mut self) {
        let end = self.shape.end();
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let Some(transfer) = &mut leader.transfer else {
            return;
        };
        let matched = leader
            .progress
            .get(&transfer.to)
            .map(|progress| progress.matched);
        if matched == Some(end) && !transfer.asked {
            transfer.asked = true;
            leader.reads.give_up_lease();
            let to = transfer.to;
            self.send(to, Body::Campaign);
        }
    }

    /// Suspends or resumes sending entries to a follower; a caller that paces followers by
    /// their disks uses it. Heartbeats continue.
    pub fn hold_back(&mut self, follower: NodeId, held_back: bool) {
        if let State::Leader(leader) = &mut self.state
            && let Some(progress) = leader.progress.get_mut(&follower)
        {
            progress.held_back = held_back;
        }
    }

    /// Advances the clock of a leader.
    pub(crate) fn tick_leader(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        leader.now += 1;
        leader.since_heartbeat += 1;
        leader.since_majority += 1;
        leader.quorum_set.tick();
        if let Some(transfer) = &mut leader.transfer {
            transfer.ticks += 1;
            if transfer.ticks >= self.settings.election_ticks {
                leader.transfer = None;
            }
        }
        for progress in leader.progress.values_mut() {
            progress.tick(self.settings.election_ticks);
        }
        if leader.since_majority >= self.settings.election_ticks {
            leader.since_majority = 0;
            let membership = self.shape.membership();
            let hears_majority = membership.reached_by_majority(|voter| {
                voter == self.id
                    || leader
                        .progress
                        .get_mut(&voter)
                        .is_some_and(|progress| std::mem::take(&mut progress.active))
            });
            if hears_majority != Some(true) {
                self.follow(self.term, None);
                return;
            }
        }
        if leader.since_heartbeat >= self.settings.heartbeat_ticks {
            leader.since_heartbeat = 0;
            self.send_heartbeats();
        }
    }

    /// Handles a follower's acknowledgement of durable log.
    pub(crate) fn appended_received(&mut self, from: NodeId, matched: Lsn) -> Result<(), Refusal> {
        let end = self.shape.end();
        let State::Leader(leader) = &mut self.state else {
            return Ok(());
        };
        if matched > end {
            return Err(Refusal::Malformed("it acknowledges what was never sent"));
        }
        if let Some(progress) = leader.progress.get_mut(&from) {
            progress.active = true;
            progress.appended(matched);
            if self.shape.membership().is_voter(from) {
                leader.quorum_set.reached(from, matched);
            }
            self.advance_commit();
            self.go_on_with_transfer();
        }
        Ok(())
    }

    /// Handles a follower's answer to a heartbeat.
    pub(crate) fn heartbeat_answered(
        &mut self,
        from: NodeId,
        round: u64,
        verified: Option<Verified>,
    ) -> Result<(), Refusal> {
        let State::Leader(leader) = &mut self.state else {
            return Ok(());
        };
        if round > leader.reads.round {
            return Err(Refusal::Malformed("it answers a round that was never sent"));
        }
        if let Some(progress) = leader.progress.get_mut(&from) {
            progress.answered(round, verified.map(|verified| verified.received));
            self.confirm_reads();
            if let Some(Verified { durable, .. }) = verified {
                return self.appended_received(from, durable);
            }
        }
        Ok(())
    }

    /// Handles a follower's recovery request.
    pub(crate) fn recover_received(
        &mut self,
        from: NodeId,
        request: Request,
    ) -> Result<(), Refusal> {
        let State::Leader(leader) = &mut self.state else {
            return Ok(());
        };
        let Some(progress) = leader.progress.get_mut(&from) else {
            return Ok(());
        };
        progress.active = true;
        match follower_recovery::answer(&self.shape, request) {
            Answer::From(next) => progress.resume(next),
            Answer::Checkpoint => {
                Self::want_checkpoint(&mut self.outbox.checkpoints, from, progress)
            }
            Answer::Differs(end) => {
                leader.checks.insert(from, end);
                self.answer_check(from, end);
            }
            Answer::Nonsense => {
                return Err(Refusal::Malformed("it asks for places that are not there"));
            }
        }
        Ok(())
    }

    fn want_checkpoint(checkpoints: &mut Vec<NodeId>, to: NodeId, progress: &mut Progress) {
        if progress.may_have_checkpoint() {
            progress.needs_checkpoint();
            checkpoints.push(to);
        }
    }

    /// Sends this leader's entry before `end` to a follower that checks entry by entry.
    fn answer_check(&mut self, to: NodeId, end: Lsn) {
        let last = Lsn(end.min(self.shape.end()).0.saturating_sub(1));
        let one = Limit {
            space: 0,
            entries: 1,
        };
        match self.shape.entry_cache.from(last, one) {
            Some(entries) => self.answer_check_with(to, entries),
            None => self.outbox.fetches.push(Fetch {
                to,
                from: last,
                end: self.shape.end(),
                space: 0,
                entries: 1,
            }),
        }
    }

    fn answer_check_with(&mut self, to: NodeId, entries: Vec<Entry>) {
        if let State::Leader(leader) = &mut self.state
            && let Some(end) = leader.checks.remove(&to)
            && let Some(entry) = entries.into_iter().next()
        {
            self.send(to, Body::Differs { end, entry });
        }
    }

    /// Delivers the entries that a [`Fetch`] asked for; `None` when the log has been removed
    /// there.
    ///
    /// # Errors
    /// When the entries are not those that were asked for.
    pub fn fetched(&mut self, fetch: Fetch, entries: Option<Vec<Entry>>) -> Result<(), Refusal> {
        let commit = self.shape.commit();
        let State::Leader(leader) = &mut self.state else {
            return Ok(());
        };
        let Some(progress) = leader.progress.get_mut(&fetch.to) else {
            return Ok(());
        };
        let is_for_check = leader.checks.contains_key(&fetch.to);
        if !is_for_check && progress.fetching != Some(fetch.from) {
            return Ok(());
        }
        let Some(entries) = entries else {
            leader.checks.remove(&fetch.to);
            progress.fetching = None;
            Self::want_checkpoint(&mut self.outbox.checkpoints, fetch.to, progress);
            return Ok(());
        };
        if is_for_check {
            self.answer_check_with(fetch.to, entries);
            return Ok(());
        }
        progress.fetching = None;
        let is_answer = entries
            .first()
            .is_some_and(|first| first.start <= fetch.from && fetch.from < first.end)
            && entries.windows(2).all(|pair| pair[0].end == pair[1].start)
            && entries.iter().all(|entry| self.shape.has(entry.position()));
        if !is_answer {
            return Err(Refusal::Malformed("the entries fetched are not this log's"));
        }
        self.send_entries(fetch.to, entries, commit);
        Ok(())
    }

    /// Reports that a checkpoint was sent, or could not be. If the follower does not report
    /// that it has the checkpoint, the leader asks for another one after an election timeout.
    pub fn checkpoint_sent(&mut self, to: NodeId) {
        let retained = self.shape.retained();
        if let State::Leader(leader) = &mut self.state
            && let Some(progress) = leader.progress.get_mut(&to)
            && progress.stage == Stage::Checkpoint
        {
            progress.checkpoint_sent(retained);
        }
    }

    fn send_entries(&mut self, to: NodeId, entries: Vec<Entry>, commit: Lsn) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let Some(progress) = leader.progress.get_mut(&to) else {
            return;
        };
        // Entries are sent whole: a follower that asks from within an entry gets all of it.
        let start = entries.first().map_or(progress.next, |first| first.start);
        let Some(previous) = self.shape.position_at(start) else {
            return;
        };
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            progress.sent(last.end, entries.len(), last.end.0 - first.start.0);
        }
        progress.told = Some(commit);
        let append = Body::Append {
            previous,
            commit,
            entries,
        };
        self.send(to, append);
    }

    /// Whether any follower has not been sent the current commit index, and no entries wait
    /// for it that would carry the index.
    #[must_use]
    pub fn has_commit_to_tell(&self) -> bool {
        let State::Leader(leader) = &self.state else {
            return false;
        };
        let (commit, retained) = (self.shape.commit(), self.shape.retained());
        leader.progress.iter().any(|(follower, progress)| {
            progress.told < Some(commit)
                && progress.next >= retained
                && progress.may_be_told()
                && !self.waits(*follower)
        })
    }

    /// Sends every follower the commit index with the next [`Ready`](crate::Ready), except
    /// those for which entries wait that will carry it
    /// ([`Consensus::has_non_quorum_entries`]). Otherwise followers receive it with the next
    /// entries or the next heartbeat: a caller whose followers should apply commits soon
    /// calls this a moment after a commit, if no entries have followed
    /// ([`Consensus::has_commit_to_tell`]).
    pub fn tell_commit(&mut self) {
        if let State::Leader(leader) = &mut self.state {
            leader.tells_commit = true;
        }
    }

    /// Queues for every follower the entries that it may be sent.
    pub(crate) fn replicate(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        if !leader.reads.asking.is_empty() {
            self.answer_questions();
        }
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        if leader.reads.want_round() {
            self.send_read_round();
        }
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let leaves = leader.leaves;
        leader.tells_commit |= leaves;
        let followers: Vec<NodeId> = leader.progress.keys().copied().collect();
        let mut to_all = false;
        for follower in followers {
            if self.waits(follower) {
                continue;
            }
            while self.replicate_to(follower) {
                to_all = true;
            }
        }
        if to_all && self.offered_to_all().is_none() {
            self.sent_to_all();
        }
        if leaves {
            self.follow(self.term, None);
        } else if let State::Leader(leader) = &mut self.state {
            leader.tells_commit = false;
        }
    }

    /// Queues one message for a follower, if there is something to send. Returns whether
    /// there was.
    fn replicate_to(&mut self, to: NodeId) -> bool {
        let commit = self.shape.commit();
        let State::Leader(leader) = &mut self.state else {
            return false;
        };
        let Some(progress) = leader.progress.get_mut(&to) else {
            return false;
        };
        if progress.stage == Stage::Checkpoint {
            return false;
        }
        let next = progress.next;
        if next < self.shape.retained() {
            Self::want_checkpoint(&mut self.outbox.checkpoints, to, progress);
            return false;
        }
        if next == self.shape.end() || !progress.may_send(&self.settings) {
            // A follower that has sent a recovery request is answered in any case.
            let is_told = progress.told.is_none() || leader.tells_commit;
            if is_told && progress.told < Some(commit) && progress.may_be_told() {
                self.send_entries(to, Vec::new(), commit);
            }
            return false;
        }
        let limit = Limit {
            space: self.settings.message_space,
            entries: self.settings.message_entries,
        };
        if let Some(entries) = self.shape.entry_cache.from(next, limit) {
            self.send_entries(to, entries, commit);
            return true;
        }
        progress.fetching = Some(next);
        self.outbox.fetches.push(Fetch {
            to,
            from: next,
            end: self.shape.end(),
            space: limit.space,
            entries: limit.entries,
        });
        false
    }

    /// End of the log that a majority has on disk, if this node has everything before `own`.
    /// `None` while this node does not lead.
    fn reached_with(&self, own: Lsn) -> Option<Lsn> {
        let State::Leader(leader) = &self.state else {
            return None;
        };
        let membership = self.shape.membership();
        let majority = membership.majority() - usize::from(planted!(CommitWithoutMajority));
        membership.reached_by(majority, |voter| {
            if voter == self.id {
                own
            } else {
                leader
                    .progress
                    .get(&voter)
                    .map_or(Lsn(0), |progress| progress.matched)
            }
        })
    }

    /// The log offset up to which this node's own disk is the bottleneck: once everything
    /// before it is durable here, the commit index advances, or a held message leaves. `None`
    /// while this node does not lead, and while only acknowledgements of followers are
    /// missing; then the caller may report finished writes with the next event.
    #[must_use]
    pub fn awaits_durable(&self) -> Option<Lsn> {
        let end = self.shape.end();
        let reached = self.reached_with(end)?;
        if self.outbox.has_held() {
            return Some(end);
        }
        let waits = reached > self.durability.end() && reached > self.shape.commit();
        waits.then_some(reached)
    }

    /// Advances the commit index to what a majority has on disk.
    pub(crate) fn advance_commit(&mut self) {
        let Some(reached) = self.reached_with(self.durability.end()) else {
            return;
        };
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        if reached > self.shape.commit() && reached >= leader.mark_end {
            self.shape.committed(reached);
            let leaves =
                !self.shape.membership_is_open() && !self.shape.membership().is_voter(self.id);
            if leaves && !leader.leaves {
                leader.leaves = true;
                self.name_successor();
            }
        }
    }

    /// Called when this leader is no voter any more: asks the voter with the longest matching
    /// log to campaign at once, so that the others need not wait for an election timeout. If
    /// that message is lost, they do.
    fn name_successor(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let voters = self.shape.membership().voters();
        let matched = |voter: &NodeId| leader.progress.get(voter).map(|known| known.matched);
        if let Some(successor) = voters.max_by_key(|voter| (matched(voter), Reverse(*voter))) {
            leader.reads.give_up_lease();
            self.send(successor, Body::Campaign);
        }
    }
}
