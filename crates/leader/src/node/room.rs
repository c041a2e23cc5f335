//! Room on the disks: a leader whose disk is full hands over, if the cluster then takes writes.
//!
//! ```text
//!   leader 1                                   2              3
//!   its log refuses commits for an election timeout
//!     ── has it room? ──▶                      yes            yes
//!   2 and 3 are a majority without 1:
//!     ── goes ──▶                              notes why      notes why
//!   transfers its lead to the one that has most of the log
//! ```
//!
//! A node has room for what a leader's log begins with: the reserve, and two segments. Only a
//! leader that is full asks, and a node that does not answer, of an earlier build for example,
//! counts as one without room: a cluster with space on its disks sends no frame of this kind.
//!
//! A deposed leader whose disk is full may end, as every follower does that has no space for
//! its next write. So the nodes with room must be a majority without it: with fewer, no node
//! could commit, and the cluster would lose its reads as well.
//!
//! # Not back and forth
//!
//! A node that has handed over says that it has no room for [`AWAY`] election timeouts, whatever
//! it has. A node without room stands for election after twice the time (crate `consensus`), so
//! that a voter with room comes first, and a cluster without such a voter has a leader too.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use bytes::Bytes;
use coeval_consensus::{Role as Part, Stage, Status};
use coeval_env::Instant;
use coeval_peers::{Frame, Loss, NodeId};
use tokio::sync::oneshot;

use super::driver::Driver;
use super::frames;
use super::operation::AdminRequest;

/// Election timeouts for which a node that has handed over is not handed the lead.
const AWAY: u32 = 60;

/// Tag of a leader's question.
const ASK: u8 = 0;
/// Tags of its answers.
const HAS: u8 = 1;
const LACKS: u8 = 2;
/// Tag of a leader that hands over for lack of room.
const GOES: u8 = 3;

/// What a node knows of the room on its disk, and of others' while it leads without any.
#[derive(Debug)]
pub(super) struct Room {
    directory: PathBuf,
    log: coeval_log::Settings,
    /// While this node leads and its log is full: when it asks next, and the nodes that have
    /// answered since it last asked that they have room.
    full: Option<(Instant, BTreeSet<NodeId>)>,
    /// Until when this node, which has handed over, says that it has no room.
    away: Option<Instant>,
    /// When a follower looks at its disk next.
    look: Option<Instant>,
}

impl Room {
    pub(super) fn new(directory: PathBuf, log: coeval_log::Settings) -> Self {
        Self {
            directory,
            log,
            full: None,
            away: None,
            look: None,
        }
    }

    /// Whether this node may be handed the lead.
    fn has_any(&self, now: Instant) -> bool {
        self.away.is_none_or(|away| away <= now) && coeval_log::has_room(&self.directory, &self.log)
    }

    /// The voter to hand over to, if those with room are a majority.
    fn successor(&self, status: &Status) -> Option<NodeId> {
        let (_, with_room) = self.full.as_ref()?;
        let follow = status.followers.iter().filter(|follower| {
            follower.stage == Stage::Replicate
                && status.membership.is_voter(follower.node)
                && with_room.contains(&NodeId(follower.node.0))
        });
        if follow.clone().count() < status.membership.majority() {
            return None;
        }
        let best = follow.max_by_key(|follower| (follower.matched, Reverse(follower.node)));
        best.map(|follower| NodeId(follower.node.0))
    }
}

impl Driver {
    /// Hands over if the log of this leader is full and others have room. Called at every
    /// tick.
    pub(super) fn tend_room(&mut self) {
        let now = coeval_env::now();
        let Some(lead) = &self.lead else {
            self.room.full = None;
            if self.room.look.is_none_or(|look| look <= now) {
                self.room.look = Some(now + self.election);
                self.consensus.set_reluctant(!self.room.has_any(now));
            }
            return;
        };
        let log = lead.engine.as_ref().map(|engine| engine.log());
        let Some(reason) = log.and_then(coeval_log::Log::full_reason) else {
            self.room.full = None;
            return;
        };
        let status = self.consensus.status();
        let is_free = matches!(status.role.role, Part::Leader { serving: true })
            && !status.membership_is_open
            && status.handing_over.is_none()
            && self.operation.is_none()
            && self.waiting.is_empty();
        if let Some(to) = self.room.successor(&status).filter(|_| is_free) {
            tracing::warn!(%to, %reason, "hands over: the disk is full, and others have room");
            self.tell_voters(&status, GOES);
            self.elections
                .note_full(NodeId(status.id.0), status.role.term);
            self.room.away = Some(now + AWAY * self.election);
            // If it is not taken, the others are asked again.
            self.room.full = Some((now + 4 * self.election, BTreeSet::new()));
            let (answer, _) = oneshot::channel();
            self.waiting.push_back((AdminRequest::Transfer(to), answer));
            return;
        }
        let begins = (now + self.election, BTreeSet::new());
        let (due, with_room) = self.room.full.get_or_insert(begins);
        if *due <= now {
            *due = now + self.election;
            with_room.clear();
            self.tell_voters(&status, ASK);
        }
    }

    /// Another node asks about this node's room, or says something about its own.
    pub(super) fn room_frame(&mut self, frame: &Frame) {
        let from = frame.from;
        match *frame.payload {
            [ASK] => {
                let tag = match self.room.has_any(coeval_env::now()) {
                    true => HAS,
                    false => LACKS,
                };
                self.tell_of_room(from, tag);
            }
            [HAS] => {
                if let Some((_, with_room)) = &mut self.room.full {
                    with_room.insert(from);
                }
            }
            [LACKS] => {
                if let Some((_, with_room)) = &mut self.room.full {
                    with_room.remove(&from);
                }
            }
            [GOES] => {
                let term = self.consensus.role().term;
                self.elections.note_full(from, term);
            }
            _ => tracing::error!(%from, "what a node says of its room makes no sense"),
        }
    }

    fn tell_voters(&self, status: &Status, tag: u8) {
        let others = status.membership.voters();
        for voter in others.filter(|voter| *voter != status.id) {
            self.tell_of_room(NodeId(voter.0), tag);
        }
    }

    fn tell_of_room(&self, to: NodeId, tag: u8) {
        // A question is repeated; without its reason a transfer is a transfer as well.
        let payload = Bytes::copy_from_slice(&[tag]);
        let _ = self.peers.send(to, frames::ROOM, payload, Loss::Droppable);
    }
}
