//! The state machine of one Raft node: its state, and the dispatch of each input.
//!
//! Every input is a method, changes memory only, and takes effect through the next
//! [`Consensus::ready`]. The parts are in files of their own: `election`, `follower`,
//! `leader`, `reads`, `follower_reads`.

use std::collections::BTreeSet;

use coeval_types::{Lsn, Term, planted};

use crate::durability::Durability;
use crate::election::Candidate;
use crate::entry::{Entry, Mark};
use crate::follower::Follower;
use crate::follower_reads::Questions;
use crate::leader::Leader;
use crate::membership::Membership;
use crate::message::{Body, Message};
use crate::outbox::Outbox;
use crate::position::{NodeId, Position};
use crate::progress::Stage;
use crate::random::Chance;
use crate::ready::{Checkpoint, Committed, Ready, Role, RoleChange, Write};
use crate::refusal::Refusal;
use crate::restored::{HardState, RestoreError, Restored};
use crate::settings::Settings;
use crate::shape::Shape;

/// One node of a cluster, as a pure step function. See the crate's documentation.
#[derive(Clone, Debug)]
pub struct Consensus {
    pub(crate) id: NodeId,
    pub(crate) settings: Settings,
    pub(crate) chance: Chance,
    pub(crate) term: Term,
    pub(crate) vote: Option<NodeId>,
    pub(crate) shape: Shape,
    pub(crate) durability: Durability,
    pub(crate) state: State,
    /// The leader of this term, as far as this node knows.
    pub(crate) leader: Option<NodeId>,
    /// Ticks since this node heard from the leader, or since the last election began.
    pub(crate) elapsed: u32,
    /// Election timeout: ticks after which this node campaigns.
    pub(crate) patience: u32,
    /// Whether this node campaigns only after twice that time.
    pub(crate) is_reluctant: bool,
    /// Ticks for which this node grants no vote, because it may have confirmed a lease:
    /// before a restart, or to the leader of an earlier term.
    pub(crate) reserved: u32,
    /// Whether this node is a newcomer, which grants no votes and does not campaign.
    pub(crate) newcomer: bool,
    /// What this node has asked its leader.
    pub(crate) questions: Questions,
    pub(crate) outbox: Outbox,
}

/// Role of a node, with the state that belongs to the role.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Follower(Follower),
    Candidate(Candidate),
    Leader(Box<Leader>),
}

/// A leader's view of one follower, in a [`Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerStatus {
    /// The follower.
    pub node: NodeId,
    /// The mode in which the leader sends it entries.
    pub stage: Stage,
    /// Match index: end of the leader's log that is on the follower's disk.
    pub matched: Lsn,
    /// End of the leader's log that has been sent to the follower.
    pub sent: Lsn,
}

/// A node's status, for operators and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The node.
    pub id: NodeId,
    /// The node's term, its role, and the leader it knows.
    pub role: RoleChange,
    /// The candidate that has the node's vote in this term.
    pub vote: Option<NodeId>,
    /// The end of the node's log.
    pub last: Position,
    /// End of the part of the node's log that is on its disk.
    pub durable: Lsn,
    /// The node's commit index: everything before is committed.
    pub commit: Lsn,
    /// End of the node's log that is known to match the leader's.
    pub verified: Lsn,
    /// The current membership.
    pub membership: Membership,
    /// Whether that membership is uncommitted, and could still be rolled back.
    pub membership_is_open: bool,
    /// The node to which this leader is transferring leadership, if so.
    pub handing_over: Option<NodeId>,
    /// The other nodes, if this one leads.
    pub followers: Vec<FollowerStatus>,
}

impl Consensus {
    /// A node that starts with the state on its disk. `seed` randomises its election timeouts,
    /// so it should differ between nodes, and the numbers of its questions, so it must differ
    /// between starts.
    ///
    /// # Errors
    /// When the settings are invalid, or the restored state contradicts itself.
    pub fn new(
        id: NodeId,
        settings: Settings,
        restored: &Restored,
        seed: u64,
    ) -> Result<Self, StartError> {
        settings.check().map_err(StartError::Settings)?;
        restored.check().map_err(StartError::Restored)?;
        let reserved = if settings.lease.is_some() && !planted!(VoteAfterStart) {
            settings.election_ticks
        } else {
            0
        };
        let (term, vote) = restored.promised();
        let mut node = Self {
            id,
            chance: Chance::new(seed),
            term,
            vote,
            shape: Shape::new(restored, &settings),
            durability: Durability::new(restored.end, term),
            state: State::Follower(Follower::new()),
            leader: None,
            elapsed: 0,
            patience: 0,
            is_reluctant: false,
            reserved,
            newcomer: restored.newcomer && !planted!(TrustNewcomers),
            questions: Questions::new(seed),
            outbox: Outbox::new(restored.end, restored.applied),
            settings,
        };
        node.outbox.told.term = node.term;
        node.rest();
        Ok(node)
    }

    /// Restarts the election timeout with a new random duration.
    pub(crate) fn rest(&mut self) {
        self.elapsed = 0;
        self.patience =
            self.settings.election_ticks + self.chance.below(self.settings.election_ticks);
    }

    /// Has this node campaign after its election timeout, or only after twice that time: other
    /// nodes would be better leaders. What it promises others does not depend on it.
    pub fn set_reluctant(&mut self, is_reluctant: bool) {
        self.is_reluctant = is_reluctant;
    }

    /// Advances the node's clock by one tick.
    pub fn tick(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
        match &mut self.state {
            State::Leader(_) => self.tick_leader(),
            State::Follower(_) | State::Candidate(_) => {
                self.elapsed += 1;
                self.tick_follower();
                if self.elapsed >= self.patience << u32::from(self.is_reluctant) {
                    self.rest();
                    self.stand();
                }
            }
        }
    }

    /// Handles a message that has arrived.
    ///
    /// # Errors
    /// When the message is not for this node, or no node would send it; the message is
    /// dropped. A [`Refusal::Contradiction`] means that a node has lost data.
    pub fn receive(&mut self, message: Message) -> Result<(), Refusal> {
        if message.to != self.id {
            return Err(Refusal::Misdirected { to: message.to });
        }
        if message.from == self.id {
            return Err(Refusal::Malformed("it is from this node itself"));
        }
        if message.term > Term::MAX {
            return Err(Refusal::Malformed("its term is past the limit"));
        }
        let Message {
            from, term, body, ..
        } = message;
        if term == self.term
            && let State::Leader(_) = self.state
            && let Body::Append { .. }
            | Body::Heartbeat { .. }
            | Body::Differs { .. }
            | Body::Asked { .. } = body
        {
            return Err(Refusal::Malformed("another node leads this node's term"));
        }
        if term > self.term {
            match &body {
                Body::VoteRequest {
                    transfer: false, ..
                } if self.holds_its_vote_back() => return Ok(()),
                // These carry a term that is not in force.
                Body::VoteRequest {
                    preliminary: true, ..
                }
                | Body::Vote {
                    preliminary: true,
                    granted: true,
                } => {}
                Body::Append { .. } | Body::Heartbeat { .. } => self.follow(term, Some(from)),
                // The leader has asked for this election, and has given up its lease.
                Body::VoteRequest { transfer: true, .. } => self.follow(term, None),
                _ => self.follow_nobody(term),
            }
        } else if term < self.term {
            match &body {
                Body::Append { .. } if planted!(AcknowledgeStaleTerm) => {}
                Body::Asked { .. } if planted!(AskOldTerm) => {}
                Body::Append { .. } | Body::Heartbeat { .. } => {
                    self.send(from, Body::Stale);
                    return Ok(());
                }
                Body::VoteRequest {
                    preliminary: true, ..
                } => {
                    let no = Body::Vote {
                        preliminary: true,
                        granted: false,
                    };
                    self.send(from, no);
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
        match body {
            Body::VoteRequest {
                last,
                preliminary,
                transfer: _,
            } => self.vote_requested(from, term, last, preliminary),
            Body::Vote {
                preliminary,
                granted,
            } => self.voted(from, term, preliminary, granted),
            Body::Append {
                previous,
                commit,
                entries,
            } => return self.append_received(from, term, previous, commit, entries),
            Body::Heartbeat { commit, round } => self.heartbeat_received(from, commit, round),
            Body::Differs { end, .. } => self.differs_received(from, end),
            Body::Appended { matched } => return self.appended_received(from, matched),
            Body::HeartbeatAnswer { round, verified } => {
                return self.heartbeat_answered(from, round, verified);
            }
            Body::Recover(request) => return self.recover_received(from, request),
            Body::Campaign => self.stand_for_transfer(from),
            Body::Ask { number } => self.ask_received(from, number),
            Body::Asked { number, at } => self.asked_received(from, number, at),
            Body::Stale => {}
        }
        Ok(())
    }

    /// Reports that the write with this number, and all before it, are on the disk.
    ///
    /// # Errors
    /// When no such write was handed out.
    pub fn persisted(&mut self, write: u64) -> Result<(), Refusal> {
        if !self.durability.done(write) {
            return Err(Refusal::NoSuchWrite(write));
        }
        self.shape.entry_cache.durable(self.durability.end());
        while let Some(message) = self.outbox.release(|write| self.durability.is_done(write)) {
            if message.to != self.id {
                self.outbox.messages.push(message);
            } else if let Body::Vote { .. } = message.body {
                self.voted(self.id, message.term, false, true);
            }
        }
        match self.state {
            State::Leader(_) => self.advance_commit(),
            State::Follower(_) => self.acknowledge(),
            State::Candidate(_) => {}
        }
        Ok(())
    }

    /// Takes everything that the caller must do now.
    pub fn ready(&mut self) -> Ready {
        self.replicate();
        let commit = self.shape.commit();
        let committed = (commit > self.outbox.applied).then(|| Committed {
            from: std::mem::replace(&mut self.outbox.applied, commit),
            to: self
                .shape
                .position_at(commit)
                .expect("the commit point is in the log"),
        });
        let write = self.outbox.is_dirty().then(|| {
            let end = self.shape.end();
            let unwritten = self.outbox.take_unwritten(end);
            Write {
                number: self.durability.issue(end, self.term),
                install: unwritten.install,
                truncate: unwritten.truncate,
                entries: unwritten.entries,
                hard_state: HardState {
                    term: self.term,
                    vote: self.vote,
                    commit,
                },
            }
        });
        let role = self.role();
        let changed = role != self.outbox.told;
        self.outbox.told = role;
        Ready {
            messages: std::mem::take(&mut self.outbox.messages),
            write,
            committed,
            role: changed.then_some(role),
            reads: std::mem::take(&mut self.outbox.reads),
            asked: std::mem::take(&mut self.outbox.asked),
            fetches: std::mem::take(&mut self.outbox.fetches),
            checkpoints: std::mem::take(&mut self.outbox.checkpoints),
        }
    }

    /// Reports that the caller has removed the log before `retained`, which a checkpoint
    /// replaces.
    ///
    /// # Panics
    /// When part of that was not committed.
    pub fn removed_before(&mut self, retained: Lsn) {
        self.shape.removed_before(retained);
    }

    /// Reports a checkpoint that was received whole, by whatever transport. Returns whether
    /// it is needed: if so, the next [`Write`] installs it.
    ///
    /// # Errors
    /// When the checkpoint contradicts this node's committed log, so that a node has lost
    /// data.
    pub fn install_checkpoint(&mut self, checkpoint: Checkpoint) -> Result<bool, Refusal> {
        if !checkpoint.is_sound() {
            return Err(Refusal::Malformed(
                "a checkpoint's marks do not lead to its end",
            ));
        }
        let position = checkpoint.position;
        if position.term > self.term {
            self.follow_nobody(position.term);
        }
        let needed = position.end > self.shape.commit() && !self.shape.has(position);
        if needed {
            if let State::Leader(_) = self.state {
                return Err(Refusal::Contradiction {
                    at: self.shape.commit(),
                    commit: position.end,
                });
            }
            self.shape.install(&checkpoint);
            self.durability.replaced();
            self.outbox.installed(checkpoint);
        } else if position.end > self.shape.commit() {
            self.shape.committed(position.end);
        }
        if let State::Follower(follower) = &mut self.state {
            follower.installed(self.shape.commit());
            self.acknowledge();
        }
        Ok(needed)
    }

    /// Queues a message that promises nothing about log entries. It leaves only once this
    /// node's term is on the disk, before any other node sees that term.
    pub(crate) fn send(&mut self, to: NodeId, body: Body) {
        let message = self.message(to, body);
        if self.durability.term() < self.term && !planted!(ForgetTerm) {
            self.outbox.hold(self.covering(), message);
        } else {
            self.outbox.messages.push(message);
        }
    }

    /// Queues a message of a term that is not in force; it promises nothing.
    pub(crate) fn send_preliminarily(&mut self, to: NodeId, term: Term, body: Body) {
        let message = Message {
            term,
            ..self.message(to, body)
        };
        self.outbox.messages.push(message);
    }

    /// Queues a message that promises something about the disk: it is held until the write
    /// is done that covers all of memory.
    pub(crate) fn promise(&mut self, to: NodeId, body: Body) {
        self.promise_in(to, self.term, body);
    }

    pub(crate) fn promise_in(&mut self, to: NodeId, term: Term, body: Body) {
        let message = Message {
            term,
            ..self.message(to, body)
        };
        let write = self.covering();
        let is_done = self.durability.is_done(write) || planted!(PromiseAtOnce);
        if to != self.id && is_done {
            self.outbox.messages.push(message);
        } else {
            self.outbox.hold(write, message);
        }
    }

    fn message(&self, to: NodeId, body: Body) -> Message {
        Message {
            from: self.id,
            to,
            term: self.term,
            body,
        }
    }

    /// Number of the write after which the disk has everything that memory has now.
    fn covering(&self) -> u64 {
        self.durability.issued() + u64::from(self.outbox.is_dirty())
    }

    /// Admits this newcomer: it has every entry that its id may ever have acknowledged, and
    /// votes from now on. The caller must know that no other node relies on earlier
    /// promises of that id.
    pub fn admit(&mut self) {
        self.newcomer = false;
    }

    /// Whether this node has joined with an empty log, and has not been admitted since.
    #[must_use]
    pub const fn is_newcomer(&self) -> bool {
        self.newcomer
    }

    /// The voters, including those before changes that are not committed.
    #[must_use]
    pub fn voters_so_far(&self) -> BTreeSet<NodeId> {
        self.shape.voters_so_far()
    }

    /// This node's id.
    #[must_use]
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// This node's term and role, and the leader it knows.
    #[must_use]
    pub fn role(&self) -> RoleChange {
        let role = match &self.state {
            State::Follower(_) => Role::Follower,
            State::Candidate(candidate) if candidate.preliminary => Role::PreCandidate,
            State::Candidate(_) => Role::Candidate,
            State::Leader(leader) => Role::Leader {
                serving: self.shape.commit() >= leader.mark_end,
            },
        };
        RoleChange {
            term: self.term,
            role,
            leader: self.leader,
        }
    }

    /// The members, including those before changes that are not committed: a change that
    /// removes a node may be rolled back, and its commit may need that node.
    #[must_use]
    pub fn takes_part(&self) -> BTreeSet<NodeId> {
        self.shape.members_so_far()
    }

    /// A counter that grows whenever the result of [`Self::takes_part`],
    /// [`Self::voters_so_far`] or the membership of [`Self::status`] may have changed, so
    /// that a caller need not read them after every step.
    #[must_use]
    pub const fn membership_changes(&self) -> u64 {
        self.shape.membership_changes()
    }

    /// The commit index: everything before is known to be committed.
    #[must_use]
    pub const fn commit(&self) -> Lsn {
        self.shape.commit()
    }

    /// The log's end.
    #[must_use]
    pub const fn end(&self) -> Lsn {
        self.shape.end()
    }

    /// The marks of terms, from the oldest known.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        self.shape.marks()
    }

    /// The newest entries in memory, from `from` on; they always include all that are not
    /// durable. `None` when older ones would be needed.
    #[must_use]
    pub fn entry_cache(&self, from: Lsn) -> Option<Vec<Entry>> {
        let everything = crate::shape::Limit {
            space: u64::MAX,
            entries: usize::MAX,
        };
        self.shape.entry_cache.from(from, everything)
    }

    /// This node's status.
    #[must_use]
    pub fn status(&self) -> Status {
        let (verified, followers) = match &self.state {
            State::Follower(follower) => (follower.verified(), Vec::new()),
            State::Candidate(_) => (None, Vec::new()),
            State::Leader(leader) => (Some(self.shape.end()), leader.followers()),
        };
        let handing_over = match &self.state {
            State::Leader(leader) => leader.handing_over(),
            State::Follower(_) | State::Candidate(_) => None,
        };
        Status {
            id: self.id,
            role: self.role(),
            vote: self.vote,
            last: self.shape.last(),
            durable: self.durability.end(),
            commit: self.shape.commit(),
            verified: verified.unwrap_or(self.shape.commit()),
            membership: self.shape.membership().clone(),
            membership_is_open: self.shape.membership_is_open(),
            handing_over,
            followers,
        }
    }
}

/// Why a node cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// Fix: a setting is invalid.
    Settings(crate::settings::SettingError),
    /// Fix: the state on the disk contradicts itself.
    Restored(RestoreError),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(formatter),
            Self::Restored(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for StartError {}
