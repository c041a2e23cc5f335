//! What a leader does: a mark, then proposals, each on a majority's disks.
//!
//! ```text
//!  elected ──▶ mark appended and sent ──▶ mark committed ──▶ serving
//!              proposals refused                             proposals, reads, changes
//! ```
//!
//! A place of the log is committed when a majority of the voters has it on disk, the
//! leader itself included or not, *and the leader's own mark is committed with it or
//! before*. Counting disks for an older term's entries alone would be wrong: a later
//! leader may still replace them (Raft §5.4.2, its figure 8).
//!
//! Proposals are sent when the caller takes a [`Ready`](crate::Ready), so all that came
//! in between go together. Entries and heartbeats carry the commit point. Under load the
//! next entries come at once, and a message of its own for each commit point would double
//! the messages; so an append without entries carries it only when the caller wants that
//! ([`Consensus::tell_commit`]). Such a one is not acknowledged.
//!
//! Who is sent entries at once, and who may be sent them in larger pieces, is told in
//! `unawaited`.
//!
//! A leader that a committed change leaves without a vote asks another voter to stand, and
//! follows.
//!
//! A leader that has not heard of a majority for an election timeout steps down, so that
//! its clients are not kept waiting by a node that can commit nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bytes::Bytes;
use coeval_types::Lsn;
use coeval_types::planted::{Bug, is_planted};

use crate::consensus::{Consensus, FollowerStatus, State};
use crate::encoding;
use crate::entry::{Content, Entry};
use crate::membership::{Change, Membership};
use crate::message::{Body, Request, Verified};
use crate::position::{NodeId, Position};
use crate::progress::{Progress, Stage};
use crate::reads::Reads;
use crate::ready::Fetch;
use crate::recovery::{self, Answer};
use crate::refusal::Refusal;
use crate::shape::Limit;
use crate::unawaited::Awaited;

/// What a leader knows.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    /// The end of its mark: it serves once that is committed.
    pub(crate) mark_end: Lsn,
    /// Ticks of this leadership.
    pub(crate) now: u64,
    pub(crate) progress: BTreeMap<NodeId, Progress>,
    pub(crate) reads: Reads,
    /// Followers that check entries one by one, and the end that each asks about.
    checks: BTreeMap<NodeId, Lsn>,
    transfer: Option<Transfer>,
    since_heartbeat: u32,
    since_majority: u32,
    /// A membership without this node is committed.
    leaves: bool,
    /// Followers are to hear what is committed even if they are sent nothing else.
    tells_commit: bool,
    /// Whose answers commits wait for.
    pub(crate) awaited: Awaited,
}

/// Leadership on its way to another node.
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

    /// Whether leadership is being handed over, or laid down.
    pub(crate) fn is_ending(&self) -> bool {
        self.leaves || self.transfer.is_some()
    }

    /// To whom leadership is being handed.
    pub(crate) fn handing_over(&self) -> Option<NodeId> {
        self.transfer.map(|transfer| transfer.to)
    }

    /// Those who take part now are followers, and nobody else is.
    fn adopt(&mut self, id: NodeId, membership: &Membership, end: Lsn) {
        self.progress.retain(|node, _| membership.is_member(*node));
        for member in membership.members().filter(|member| *member != id) {
            // One that is added later has not had the time yet to be heard of.
            let active = self.now > 0;
            self.progress
                .entry(member)
                .or_insert_with(|| Progress::new(end, active));
        }
        self.reads.forget_lease();
    }
}

impl Consensus {
    /// This node has won its term.
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
            awaited: Awaited::default(),
        };
        leader.adopt(self.id, &membership, start);
        let end = leader.mark_end;
        self.leader = Some(self.id);
        self.state = State::Leader(Box::new(leader));
        self.add(end, Content::Mark(membership));
    }

    /// Puts an entry of this leader behind the last.
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

    /// Whether this node leads and may put entries into the log.
    pub(crate) fn check_serving(&self) -> Result<(), Refusal> {
        match &self.state {
            State::Leader(leader)
                if self.shape.commit() >= leader.mark_end || is_planted(Bug::ForgetMarkRule) =>
            {
                Ok(())
            }
            State::Leader(_) => Err(Refusal::TermBegins { term: self.term }),
            State::Follower(_) | State::Candidate(_) => Err(Refusal::NotLeader {
                leader: self.leader,
            }),
        }
    }

    /// Whether an entry of this much space may be put behind the last. Its end.
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

    /// Puts a payload into the log. The position tells when it is committed: once a
    /// [`Committed`](crate::Committed) reaches its end *in its term*, or later.
    ///
    /// # Errors
    /// When this node does not lead, its term has only begun, or it is handing over.
    pub fn propose(&mut self, payload: Bytes) -> Result<Position, Refusal> {
        let space = self.settings.spacing.space(payload.len() as u64);
        self.propose_spanning(payload, space)
    }

    /// The same for a payload that takes as much of the log as its maker says: many
    /// frames that become durable together, say.
    ///
    /// # Errors
    /// As [`Self::propose`].
    pub fn propose_spanning(&mut self, payload: Bytes, space: u64) -> Result<Position, Refusal> {
        let end = self.check_proposal(space)?;
        Ok(self.add(end, Content::Payload(payload)))
    }

    /// Changes who takes part by one node. In force at once; done when committed.
    ///
    /// # Errors
    /// As [`Self::propose`], when the change before is not committed, or when it makes
    /// no sense.
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

    /// Hands leadership to another voter: it is brought up to date and asked to stand.
    /// Given up after an election timeout.
    ///
    /// # Errors
    /// When this node does not lead, is handing over already, or `to` is no other voter.
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

    /// Asks the successor to stand, once it has everything.
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

    /// Sends a follower no entries for now, or does so again: whoever paces followers
    /// by how fast their disks are says so here. Heartbeats go on.
    pub fn hold_back(&mut self, follower: NodeId, held_back: bool) {
        if let State::Leader(leader) = &mut self.state
            && let Some(progress) = leader.progress.get_mut(&follower)
        {
            progress.held_back = held_back;
        }
    }

    /// A tick, for a node that leads.
    pub(crate) fn tick_leader(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        leader.now += 1;
        leader.since_heartbeat += 1;
        leader.since_majority += 1;
        leader.awaited.tick();
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

    /// A follower has something on its disk.
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
                leader.awaited.reached(from, matched);
            }
            self.advance_commit();
            self.go_on_with_transfer();
        }
        Ok(())
    }

    /// A follower has answered a heartbeat.
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

    /// A follower asks what its log should hold.
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
        match recovery::answer(&self.shape, request) {
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

    /// Sends a follower that checks entry by entry this leader's entry before `end`.
    fn answer_check(&mut self, to: NodeId, end: Lsn) {
        let last = Lsn(end.min(self.shape.end()).0.saturating_sub(1));
        let one = Limit {
            space: 0,
            entries: 1,
        };
        match self.shape.recent.from(last, one) {
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

    /// What was asked for by a [`Fetch`]; `None` when the log does not have it any more.
    ///
    /// # Errors
    /// When that is not what was asked for.
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

    /// A checkpoint was sent, or could not be. If the follower does not come to have it,
    /// another one is asked for after an election timeout.
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
        // Entries go whole: a follower that asks from within one gets all of it.
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

    /// Whether there are followers who could be told more of what is committed than they
    /// were, and for whom no entries wait that will tell them.
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

    /// With the next [`Ready`](crate::Ready) every follower is told what is committed, but
    /// those for whom entries wait that will tell it ([`Consensus::has_unawaited_entries`]).
    /// Without this they hear it with the next entries or the next heartbeat: whoever
    /// wants followers to show what is committed soon calls it a moment after something
    /// was, if no entries have followed ([`Consensus::has_commit_to_tell`]).
    pub fn tell_commit(&mut self) {
        if let State::Leader(leader) = &mut self.state {
            leader.tells_commit = true;
        }
    }

    /// Sends everybody what it may be sent.
    pub(crate) fn replicate(&mut self) {
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        if leader.reads.want_round() {
            self.send_heartbeats();
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

    /// Sends one message, if there is something to send. Whether there was.
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
            // Whoever has asked is answered in any case.
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
        if let Some(entries) = self.shape.recent.from(next, limit) {
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

    /// How much a majority has on its disks, if this node has everything before `own`. `None`
    /// while this node does not lead.
    fn reached_with(&self, own: Lsn) -> Option<Lsn> {
        let State::Leader(leader) = &self.state else {
            return None;
        };
        let membership = self.shape.membership();
        let majority = membership.majority() - usize::from(is_planted(Bug::CommitWithoutMajority));
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

    /// Up to where this node's disk is waited for: with everything before on it, a majority
    /// would have more than is committed, or a message could go. `None` while this node does
    /// not lead, and while what is missing is others' answers; then it is enough to report
    /// writes that are done with whatever comes next.
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

    /// Looks how much a majority has on its disks.
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

    /// This leader is no voter any more: whoever has most of its log is asked to stand at
    /// once, so that nobody has to find out by silence. If that is lost, they do.
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
