//! Administrative operations on a cluster, one at a time: leadership transfer and
//! membership changes.
//!
//! ```text
//!   transfer   pending log is proposed ─▶ consensus hands over ─▶ the other node leads
//!                                                             └─▶ given up
//!   add        learner, in the log ─▶ committed ─▶ catches up ─▶ is admitted
//!                                                  ─▶ voter, in the log ─▶ committed
//!   remove     in the log ─▶ committed; a leader that removes itself follows then
//! ```
//!
//! A change of members is a frame of the engine's log, like every other, appended among the
//! commits. When the driver reads the frame from the log, it proposes the change to
//! consensus at exactly that offset. While a leader hands over it proposes nothing: it cuts
//! off the log appended since then when it retires, and proposes it after all if the other
//! node does not take over.
//!
//! A learner that has caught up is admitted first, if it joined with an empty disk
//! (`admission`).
//!
//! *Catching up* proceeds in rounds (Ongaro's dissertation, §4.2.1): a round is over when
//! the new node has the log that existed when the round began. A round that took no longer
//! than an election timeout shows that the node keeps pace; it may vote.
//!
//! The leader waits for a new node that does not catch up, for example because no node runs
//! at its address. An administrator who asks meanwhile to remove that node, or to add it at
//! another address, need not wait.
//!
//! Invariants: one operation at a time, and none outlives the term in which it began,
//! except to learn that it is done. A change of members begins only if the connected nodes
//! are a majority of the voters after it.

use std::time::Duration;

use coeval_consensus::encoding::encode_membership;
use coeval_consensus::{
    Change, ChangeError, FIRST_VERSION, NodeId as Member, Refusal, Role as Part, Stage,
};
use coeval_env::{Instant, JoinHandle, Location};
use coeval_peers::{Connection, NodeId, PeerStatus, Unguarded};
use coeval_types::{Lsn, Remedy, Term};
use tokio::sync::oneshot;

use super::Error;
use super::admission::Admitting;
use super::disk::Command;
use super::driver::Driver;

/// Why an administrative operation was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// Retry on the leader.
    #[error("this node does not lead; {}", match .leader {
        Some(leader) => format!("node {leader} does"),
        None => "it knows of no leader, try again".to_owned(),
    })]
    NotLeading {
        /// The leader, as far as this node knows.
        leader: Option<NodeId>,
    },
    /// Retry: the leader has only just been elected.
    #[error("this node is about to lead; try again")]
    Begins,
    /// Retry: one operation at a time.
    #[error("another node is being added, removed or handed over to; try again when that is done")]
    Busy,
    /// Fix: the id names no member.
    #[error("no member of this cluster has the id {0}")]
    Unknown(NodeId),
    /// Fix: nothing, if the node was meant; otherwise the id.
    #[error("node {0} is a member already, with a vote")]
    AlreadyMember(NodeId),
    /// Fix: the id belongs to a removed node.
    #[error("node {0} has been removed from the cluster; a node that comes back takes a new id")]
    Removed(NodeId),
    /// Fix: the address, or the connection security that it requires.
    #[error(transparent)]
    Unguarded(#[from] Unguarded),
    /// Fix: add another voter first.
    #[error("node {0} is the last one with a vote; add another first")]
    LastVoter(NodeId),
    /// Fix: bring the unreachable nodes back.
    #[error(
        "of the {voters} nodes that would have a vote only {connected} can be reached now, which \
         is no majority; bring others back first"
    )]
    NoMajority {
        /// Number of nodes that would have a vote.
        voters: usize,
        /// How many of them can be reached, this node included.
        connected: usize,
    },
    /// Fix: the id names a learner.
    #[error("node {0} has no vote, so it cannot lead")]
    NotAVoter(NodeId),
    /// Retry: the node is a member, and catches up as a learner.
    #[error(
        "node {node} is a member without a vote: it lacks {behind} bytes of the log, and has \
         come no further for {} s; see that it runs, and add it again",
        .waited.as_secs()
    )]
    NotCaughtUp {
        /// The node that was to be added.
        node: NodeId,
        /// Bytes of the log that the node lacks.
        behind: u64,
        /// How long the node has made no progress.
        waited: Duration,
    },
    /// Retry after checking the members: another administrator has asked for something
    /// else.
    #[error("node {0} is waited for no longer: another request removes it, or adds it anew")]
    Overtaken(NodeId),
    /// Retry: the other node did not become leader.
    #[error("node {0} has not taken over in time")]
    NotTaken(NodeId),
    /// Retry after checking the members: the change may be done.
    #[error(
        "this node ceased to lead before the change of members was committed; whether it will \
         be, the members show"
    )]
    Deposed,
    /// Retry on the leader.
    #[error("the change of members does not get into the log: {0}")]
    Log(String),
    /// Fatal: the node has stopped.
    #[error("the node has stopped")]
    Ended,
}

impl OperationError {
    /// What the caller can do.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::NotLeading { .. }
            | Self::Begins
            | Self::Busy
            | Self::NotCaughtUp { .. }
            | Self::Overtaken(_)
            | Self::NotTaken(_)
            | Self::Deposed
            | Self::Log(_) => Remedy::Retry,
            Self::Unknown(_)
            | Self::AlreadyMember(_)
            | Self::Removed(_)
            | Self::Unguarded(_)
            | Self::LastVoter(_)
            | Self::NoMajority { .. }
            | Self::NotAVoter(_) => Remedy::Fix,
            Self::Ended => Remedy::Fatal,
        }
    }
}

pub(super) type Answer = oneshot::Sender<Result<(), OperationError>>;

/// An administrator's request to change the leader or the membership.
#[derive(Clone, Debug)]
pub(super) enum AdminRequest {
    Transfer(NodeId),
    Add(NodeId, Location),
    Remove(NodeId),
}

/// The operation under way.
#[derive(Debug)]
pub(super) struct Operation {
    /// The term in which the operation began.
    term: Term,
    stage: OperationStep,
    answer: Answer,
    /// Whether the leader began it by itself. Requests wait for its end.
    is_unasked: bool,
}

impl Operation {
    /// A change that no administrator has asked for.
    pub(super) fn unasked(term: Term, stage: OperationStep) -> Self {
        let (answer, _) = oneshot::channel();
        Self {
            term,
            stage,
            answer,
            is_unasked: true,
        }
    }
}

#[derive(Debug)]
pub(super) enum OperationStep {
    /// Leadership is being transferred.
    Transfer { to: NodeId, until: Instant },
    /// A change of members is being appended to the log and replicated to a majority.
    Change(Changing),
    /// A learner is catching up to become a voter.
    CatchUp(CatchUp),
    /// The learner has caught up, and is a newcomer to be admitted.
    Admit {
        admitting: Admitting,
        began: Instant,
    },
}

#[derive(Debug)]
pub(super) struct Changing {
    change: Change,
    /// The task that appends the frame to the log.
    putting: Option<JoinHandle<Result<Lsn, coeval_log::Error>>>,
    /// End offset of the frame, once consensus has it.
    end: Option<Lsn>,
}

/// A learner that is catching up.
#[derive(Debug)]
pub(super) struct CatchUp {
    node: NodeId,
    /// End of the log when the round began.
    target: Lsn,
    began: Instant,
    reached: Lsn,
    moved: Instant,
}

impl CatchUp {
    fn new(node: NodeId, end: Lsn) -> Self {
        let now = coeval_env::now();
        Self {
            node,
            target: end,
            began: now,
            reached: Lsn(0),
            moved: now,
        }
    }
}

/// Result of a step: wait, go to the next step, or end the operation.
enum Next {
    Wait,
    Go(OperationStep),
    Done(Result<(), OperationError>),
}

fn member(node: NodeId) -> Member {
    Member(node.0)
}

impl Driver {
    /// Begins an operation, or answers why it cannot.
    pub(super) async fn begin(
        &mut self,
        request: AdminRequest,
        answer: Answer,
    ) -> Result<(), Error> {
        let operation = self.operation.as_ref();
        if operation.is_some_and(|operation| operation.is_unasked) {
            self.waiting.push_back((request, answer));
            return Ok(());
        }
        // Pending log is proposed first, so that those commits do not end in doubt.
        if matches!(request, AdminRequest::Transfer(_)) && self.operation.is_none() {
            self.log_moved().await?;
        }
        self.overtake(&request);
        match self.first_step(request) {
            Ok(Some(stage)) => {
                let term = self.consensus.role().term;
                self.operation = Some(Operation {
                    term,
                    stage,
                    answer,
                    is_unasked: false,
                });
            }
            // The caller may have gone.
            Ok(None) => drop(answer.send(Ok(()))),
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
        Ok(())
    }

    /// Begins the next request that has waited for the end of an operation of this node.
    pub(super) async fn begin_waiting(&mut self) -> Result<(), Error> {
        while self.operation.is_none()
            && let Some((request, answer)) = self.waiting.pop_front()
        {
            self.begin(request, answer).await?;
        }
        Ok(())
    }

    /// Gives up waiting for a new node if the new request concerns that node.
    fn overtake(&mut self, request: &AdminRequest) {
        let of = match request {
            AdminRequest::Add(node, _) | AdminRequest::Remove(node) => *node,
            AdminRequest::Transfer(_) => return,
        };
        let operation = self.operation.as_ref();
        let waits = |operation: &Operation| match &operation.stage {
            OperationStep::CatchUp(round) => round.node == of,
            OperationStep::Admit { admitting, .. } => admitting.node == of,
            OperationStep::Transfer { .. } | OperationStep::Change(_) => false,
        };
        if operation.is_some_and(waits) {
            give_up(&mut self.operation, OperationError::Overtaken(of));
        }
    }

    /// The first step of an operation, or `None` when nothing has to be done.
    fn first_step(
        &mut self,
        request: AdminRequest,
    ) -> Result<Option<OperationStep>, OperationError> {
        let status = self.consensus.status();
        let is_engaged = self.lead.as_ref().is_some_and(|lead| lead.engine.is_some());
        match status.role.role {
            Part::Leader { serving: true } if is_engaged => {}
            Part::Leader { .. } => return Err(OperationError::Begins),
            _ => {
                let leader = status.role.leader.map(|node| NodeId(node.0));
                return Err(OperationError::NotLeading { leader });
            }
        }
        if self.operation.is_some() || status.membership_is_open {
            return Err(OperationError::Busy);
        }
        let members = &status.membership;
        match request {
            AdminRequest::Transfer(to) if member(to) == status.id => Ok(None),
            AdminRequest::Transfer(to) if !members.is_member(member(to)) => {
                Err(OperationError::Unknown(to))
            }
            AdminRequest::Transfer(to) => {
                self.consensus
                    .transfer(member(to))
                    .map_err(|refusal| refused(to, &refusal))?;
                let until = coeval_env::now() + 3 * self.election;
                Ok(Some(OperationStep::Transfer { to, until }))
            }
            AdminRequest::Add(node, _) if members.is_voter(member(node)) => {
                Err(OperationError::AlreadyMember(node))
            }
            AdminRequest::Add(node, _) if self.peer_set.is_removed(node) => {
                Err(OperationError::Removed(node))
            }
            AdminRequest::Add(node, address) => {
                self.peers.check(&address)?;
                self.peer_set.add(node, address);
                if members.is_member(member(node)) {
                    self.tell_peers();
                    return Ok(Some(OperationStep::CatchUp(CatchUp::new(
                        node,
                        status.last.end,
                    ))));
                }
                self.put(Change::Learner(member(node))).map(Some)
            }
            AdminRequest::Remove(node) if !members.is_member(member(node)) => {
                Err(OperationError::Unknown(node))
            }
            AdminRequest::Remove(node) => self.put(Change::Remove(member(node))).map(Some),
        }
    }

    /// Appends a change of members to the log.
    pub(super) fn put(&self, change: Change) -> Result<OperationStep, OperationError> {
        let status = self.consensus.status();
        let after = status.membership.changed(change);
        let after = after.map_err(|error| refused_change(&error))?;
        if !matches!(change, Change::Learner(_)) && after.voters().ne(status.membership.voters()) {
            let peers = self.peers.status();
            let is_there = |voter: &Member| {
                let peer = peers.iter().find(|peer| peer.node.0 == voter.0);
                let stands = |peer: &PeerStatus| matches!(peer.connection, Connection::Standing(_));
                *voter == status.id
                    || peer.is_some_and(|peer| stands(peer) && peer.newcomer.is_none())
            };
            let connected = after.voters().filter(is_there).count();
            if connected < after.majority() {
                return Err(OperationError::NoMajority {
                    voters: after.voters().len(),
                    connected,
                });
            }
        }
        let engine = self.lead.as_ref().and_then(|lead| lead.engine.clone());
        let engine = engine.ok_or(OperationError::Begins)?;
        let bytes = encode_membership(&after);
        let disk = (after.version() > FIRST_VERSION).then(|| self.disk.clone());
        let putting = coeval_env::spawn("put a change of members", async move {
            if let Some(disk) = disk {
                let (answer, answered) = oneshot::channel();
                // An older program must be kept away before the log has what it does not
                // read. The disk thread drops the channel when it has failed or ended.
                let kept_away = match disk.send(Command::Versioned(answer)) {
                    Ok(()) => answered.await.ok(),
                    Err(_) => None,
                };
                let ended = || coeval_log::Error::Stopped("the disk thread has ended".into());
                kept_away.ok_or_else(ended)??;
            }
            engine.log().put_membership(&bytes).await
        });
        Ok(OperationStep::Change(Changing {
            change,
            putting: Some(putting),
            end: None,
        }))
    }

    /// The driver has read the change of members that ends at `end` from the log.
    pub(super) fn change_comes_by(&mut self, end: Lsn) -> Result<Refused, Error> {
        let Some(Operation {
            stage: OperationStep::Change(changing),
            ..
        }) = &mut self.operation
        else {
            return Err(Error::Malformed(
                "a change of members that no operation asked for",
            ));
        };
        match self.consensus.change_membership(changing.change) {
            Ok(position) if position.end == end => {
                changing.end = Some(end);
                Ok(Refused::Not)
            }
            Ok(_) => Err(Error::Malformed("this node's own log has a gap")),
            Err(Refusal::NotLeader { .. }) => Ok(Refused::NotLeader),
            Err(refusal) => Err(Error::NotLeading(refusal.to_string())),
        }
    }

    /// Whether a leadership transfer forbids proposals for now.
    pub(super) fn hands_over(&self) -> bool {
        let operation = self.operation.as_ref();
        operation.is_some_and(|operation| matches!(operation.stage, OperationStep::Transfer { .. }))
    }

    /// Advances the operation under way.
    pub(super) async fn operate(&mut self) -> Result<(), Error> {
        while let Some(mut operation) = self.operation.take() {
            let handed_over = matches!(operation.stage, OperationStep::Transfer { .. });
            match self.next(operation.term, &mut operation.stage) {
                Next::Wait => {
                    self.operation = Some(operation);
                    return Ok(());
                }
                Next::Go(stage) => self.operation = Some(Operation { stage, ..operation }),
                Next::Done(outcome) => {
                    tracing::info!(?outcome, "an operation has ended");
                    // The caller may have gone.
                    drop(operation.answer.send(outcome));
                    if handed_over {
                        self.log_moved().await?;
                        self.apply_ready()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the entry that ends at `end` is of this term.
    fn is_of_term(&self, end: Lsn, term: Term) -> bool {
        let before = self.consensus.marks().iter().rfind(|mark| mark.start < end);
        before.is_some_and(|mark| mark.term == term)
    }

    fn next(&mut self, term: Term, stage: &mut OperationStep) -> Next {
        let status = self.consensus.status();
        let now = coeval_env::now();
        let leads = matches!(status.role.role, Part::Leader { .. }) && status.role.term == term;
        let leader = status.role.leader.map(|node| NodeId(node.0));
        let not_leading = || Next::Done(Err(OperationError::NotLeading { leader }));
        match stage {
            OperationStep::Transfer { to, until } => match leader {
                _ if leads && status.handing_over.is_some() => Next::Wait,
                Some(leader) if leader == *to => Next::Done(Ok(())),
                None if !leads && now < *until => Next::Wait,
                _ => Next::Done(Err(OperationError::NotTaken(*to))),
            },
            OperationStep::Change(changing) => {
                // A term has one leader: an entry of this term at that offset is the one
                // this node put.
                let is_committed = changing
                    .end
                    .is_some_and(|end| status.commit >= end && self.is_of_term(end, term));
                match (is_committed, changing.change) {
                    (true, Change::Learner(Member(node))) if leads => Next::Go(
                        OperationStep::CatchUp(CatchUp::new(NodeId(node), status.last.end)),
                    ),
                    (true, Change::Learner(_)) => not_leading(),
                    (true, _) => Next::Done(Ok(())),
                    (false, _) if !leads => Next::Done(Err(OperationError::Deposed)),
                    (false, _) => Next::Wait,
                }
            }
            OperationStep::CatchUp(_) | OperationStep::Admit { .. } if !leads => not_leading(),
            OperationStep::Admit { admitting, began } => {
                let node = admitting.node;
                if self.admit(&status, admitting) {
                    return match self.put(Change::Voter(member(node))) {
                        Ok(stage) => Next::Go(stage),
                        Err(refusal) => Next::Done(Err(refusal)),
                    };
                }
                let waited = now - *began;
                if waited < self.patience {
                    return Next::Wait;
                }
                // The node is not connected any more, or has come back with an empty disk.
                let mut followers = status.followers.iter();
                let follower = followers.find(|follower| follower.node == member(node));
                let matched = follower.map_or(Lsn(0), |follower| follower.matched);
                Next::Done(Err(OperationError::NotCaughtUp {
                    node,
                    behind: status.last.end.0 - matched.0,
                    waited,
                }))
            }
            OperationStep::CatchUp(round) => self.catch_up(&status, round, now),
        }
    }

    fn catch_up(
        &self,
        status: &coeval_consensus::Status,
        round: &mut CatchUp,
        now: Instant,
    ) -> Next {
        let node = round.node;
        let mut followers = status.followers.iter();
        let follower = followers.find(|follower| follower.node == member(node));
        let Some(follower) = follower else {
            return Next::Done(Err(OperationError::Unknown(node)));
        };
        // A checkpoint may take long to send, but only a connected node receives it.
        let gets_checkpoint =
            follower.stage == Stage::Checkpoint && self.transfers.is_connected(member(node));
        if follower.matched > round.reached || gets_checkpoint {
            (round.reached, round.moved) = (follower.matched, now);
        }
        if follower.matched >= round.target {
            if now - round.began > self.election {
                (round.target, round.began) = (status.last.end, now);
                return Next::Wait;
            }
            return Next::Go(OperationStep::Admit {
                admitting: Admitting::new(node),
                began: now,
            });
        }
        let waited = now - round.moved;
        if waited < self.patience {
            return Next::Wait;
        }
        Next::Done(Err(OperationError::NotCaughtUp {
            node,
            behind: status.last.end.0 - follower.matched.0,
            waited,
        }))
    }
}

/// Whether consensus accepted a change of members.
pub(super) enum Refused {
    Not,
    /// This node no longer leads.
    NotLeader,
}

/// Waits until appending a change of members to the log has failed.
pub(super) async fn not_put(operation: &mut Option<Operation>) -> OperationError {
    if let Some(Operation {
        stage: OperationStep::Change(changing),
        ..
    }) = operation
        && let Some(putting) = &mut changing.putting
    {
        let put = putting.await;
        changing.putting = None;
        match put {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return OperationError::Log(error.to_string()),
            Err(error) => return OperationError::Log(error.to_string()),
        }
    }
    std::future::pending().await
}

/// Ends an operation that has failed.
pub(super) fn give_up(operation: &mut Option<Operation>, why: OperationError) {
    if let Some(operation) = operation.take() {
        // The caller may have gone.
        drop(operation.answer.send(Err(why)));
    }
}

fn refused(to: NodeId, refusal: &Refusal) -> OperationError {
    match refusal {
        Refusal::NotLeader { leader } => OperationError::NotLeading {
            leader: leader.map(|node| NodeId(node.0)),
        },
        Refusal::NotAVoter(_) => OperationError::NotAVoter(to),
        Refusal::TermBegins { .. } => OperationError::Begins,
        _ => OperationError::Busy,
    }
}

fn refused_change(error: &ChangeError) -> OperationError {
    match error {
        ChangeError::NothingToDo(node) => OperationError::AlreadyMember(NodeId(node.0)),
        ChangeError::LastVoter(node) => OperationError::LastVoter(NodeId(node.0)),
        ChangeError::Version(_) | ChangeError::Directory(_) => OperationError::Busy,
    }
}
