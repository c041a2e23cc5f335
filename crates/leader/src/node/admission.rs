//! Admission of newcomers: how a node that joins with an empty disk gets its vote.
//!
//! A node's promises are its votes and its acknowledgements. A node that has lost its disk
//! has lost its promises: if it voted again, it might elect a leader that lacks entries
//! which were committed because this node had them. From an empty disk no member can
//! distinguish such a node from a new one. So both are *newcomers*, durably, from their
//! first start on:
//!
//! ```text
//!   newcomer 4                                leader of term 7
//!   says so in every hello,
//!   by a number of its own
//!                         ◀── log ──          4 is a learner, and catches up
//!                                             its log ends at 9000; a majority, to which 4
//!                         ◀─ admitted ──      does not belong, confirms that it still leads
//!                            in term 7, 9000
//!   follows term 7, has all before 9000
//!   on its disk; notes that it is no
//!   newcomer; connects anew, and says so
//!                         ── hello ────▶      puts into the log that 4 votes
//! ```
//!
//! - Members do not listen to a newcomer that is a *voter* in the log they know, committed
//!   or not: they refuse it when it connects. Its machine is added under another id.
//! - A newcomer gives no vote and does not campaign (crate `consensus`).
//! - Only a leader in whose log the newcomer is no voter admits it, and only a leader that
//!   still led after the newcomer had joined.
//!
//! # Why it is right
//!
//! Say that a node was a voter, lost its disk, comes back under its id, and is admitted in
//! term T by a leader in whose log it is no voter. Everything in that log is committed up
//! to the leader's last change of members, and a majority of its voters confirmed the
//! leader after the disk was lost. If the node had become a voter by a change in an earlier
//! term, the leader's log holds that change, undone by another one that is committed; or
//! the change was never committed, and a node that has it lacks the leader's mark, which a
//! majority has, so that the rest of the voters with the lost vote added cannot elect it.
//! If by a change in a later term, the leader of that term was elected before, by a
//! majority of which no voter can have confirmed T since. So no lost vote or
//! acknowledgement counts any more, and the entries committed by its help are before the
//! leader's end, which the node has on its disk.
//!
//! A founder of a cluster is no newcomer, even though its disk is empty.
//!
//! Source: Raft's dissertation (§4.1, §11.7.2) for not returning under an id whose disk was
//! lost. That a majority must be asked anew before a node without its memory may count is
//! the lesson of the flaw in Viewstamped Replication's recovery (Michael et al., DISC
//! 2017).

use std::num::NonZeroU64;

use bytes::Bytes;
use coeval_consensus::{NodeId as Member, ReadAnswer, Role as Part, Status};
use coeval_env::Instant;
use coeval_peers::{Frame, Loss, NodeId};
use coeval_types::{Lsn, Term};

use super::Error;
use super::disk::Command;
use super::driver::Driver;
use super::frames;

/// Read-index contexts from this number on belong to admissions.
const NUMBERS: u64 = 1 << 63;

/// A newcomer that has caught up and is being admitted.
#[derive(Debug)]
pub(super) struct Admitting {
    pub(super) node: NodeId,
    confirming: Option<Confirming>,
}

/// A round that confirms that this node still leads, begun after the newcomer had joined.
#[derive(Debug)]
struct Confirming {
    newcomer: NonZeroU64,
    round: u64,
    /// End of the log when the round began.
    end: Lsn,
    /// When the admission was last sent to the newcomer.
    told: Option<Instant>,
}

impl Admitting {
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            confirming: None,
        }
    }
}

/// The message by which a leader admits a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Admission {
    /// The leader's term.
    term: Term,
    /// End of the leader's log when it began the round.
    end: Lsn,
    /// The number that identifies the newcomer.
    newcomer: u64,
}

impl Admission {
    fn encode(self) -> Bytes {
        let mut bytes = self.term.0.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.end.0.to_le_bytes());
        bytes.extend_from_slice(&self.newcomer.to_le_bytes());
        bytes.into()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (term, rest) = bytes.split_first_chunk()?;
        let (end, rest) = rest.split_first_chunk()?;
        Some(Self {
            term: Term(u32::from_le_bytes(*term)),
            end: Lsn(u64::from_le_bytes(*end)),
            newcomer: u64::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

impl Driver {
    /// Advances an admission. Returns whether it is done, or none is needed.
    pub(super) fn admit(&mut self, status: &Status, admitting: &mut Admitting) -> bool {
        let node = admitting.node;
        let peers = self.peers.status();
        let peer = peers.iter().find(|peer| peer.node == node);
        let Some(newcomer) = peer.and_then(|peer| peer.newcomer) else {
            return peer.is_some();
        };
        match &mut admitting.confirming {
            Some(confirming) if confirming.newcomer == newcomer => {
                let is_confirmed = self.admission_confirmed == Some(confirming.round);
                let now = coeval_env::now();
                let is_due = confirming
                    .told
                    .is_none_or(|told| now - told >= self.election);
                if is_confirmed && is_due {
                    confirming.told = Some(now);
                    let admission = Admission {
                        term: status.role.term,
                        end: confirming.end,
                        newcomer: newcomer.get(),
                    };
                    // A lost admission is sent again.
                    let bytes = admission.encode();
                    let sent = self.peers.send(node, frames::ADMISSION, bytes, Loss::Kept);
                    tracing::info!(%node, sent = sent.is_ok(), "admits a newcomer");
                }
            }
            // The newcomer has joined since the last call, or joined again.
            _ => {
                self.admissions += 1;
                let round = NUMBERS + self.admissions;
                // If this node no longer leads, the next actions of consensus say so.
                let asked = self.consensus.read(round).is_ok();
                admitting.confirming = asked.then_some(Confirming {
                    newcomer,
                    round,
                    end: status.last.end,
                    told: None,
                });
            }
        }
        false
    }

    /// Takes the answers that belong to admissions, and returns the others.
    pub(super) fn not_for_admission(&mut self, answer: ReadAnswer) -> Option<ReadAnswer> {
        if answer.context < NUMBERS {
            return Some(answer);
        }
        if answer.outcome.is_ok() {
            self.admission_confirmed = Some(answer.context);
        }
        None
    }

    /// A leader admits this node.
    pub(super) fn admission(&mut self, frame: &Frame) -> Result<(), Error> {
        let Some(admission) = Admission::decode(&frame.payload) else {
            tracing::error!(from = %frame.from, "an admission makes no sense");
            return Ok(());
        };
        let status = self.consensus.status();
        let is_meant = self.peer_set.newcomer().map(NonZeroU64::get) == Some(admission.newcomer);
        let follows = status.role.role == Part::Follower
            && status.role.term == admission.term
            && status.role.leader == Some(Member(frame.from.0))
            && self.lead.is_none()
            && self.retiring.is_none();
        let has_it = status.verified.min(status.durable) >= admission.end;
        if is_meant && follows && has_it {
            self.tell_disk(Command::Admit)?;
        }
        Ok(())
    }

    /// This node's admission is durable.
    pub(super) fn admitted(&mut self) {
        tracing::info!("admitted: this node may vote now");
        self.consensus.admit();
        self.peer_set.admitted();
        self.tell_peers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_a_newcomer_is_what_it_hears() {
        let admission = Admission {
            term: Term(7),
            end: Lsn(9000),
            newcomer: 11,
        };
        let said = admission.encode();
        assert_eq!(Admission::decode(&said), Some(admission));
        for length in 0..said.len() {
            assert_eq!(Admission::decode(&said[..length]), None);
        }
        assert_eq!(Admission::decode(&[&said[..], &[0]].concat()), None);
    }
}
