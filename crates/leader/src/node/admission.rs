//! How somebody who joins with nothing comes to vote.
//!
//! A node's word is its vote, and its acknowledgement. One that has lost its disk has lost
//! what it gave its word for: if it voted again, it might help somebody to lead who lacks
//! what is committed because it had it. From an empty disk nobody can tell such a node from
//! one that is new. So both are *newcomers*, durably, from their first start on:
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
//! - Nobody listens to a newcomer that is a *voter* in the log it knows, committed or not: it
//!   is refused at the door. Its machine is added under another id.
//! - A newcomer gives no vote and does not stand (crate `consensus`).
//! - Only a leader to which it is no voter admits it, and only one that still led after the
//!   newcomer had come.
//!
//! # Why it is right
//!
//! Say that a node was a voter, lost its disk, comes back under its id and is admitted in
//! term T by a leader in whose log it is none. Everything in that log is committed up to the
//! leader's last change of members, and the leader was confirmed, by a majority of its voters,
//! after the disk was lost. If the node had been a voter by a change in an earlier term, that
//! change is in the leader's log, and taken back there by another one that is committed; or it
//! never was committed, and whoever has it lacks the leader's mark, which a majority has, and
//! cannot be elected by the rest of the voters with the lost vote added. If by one in a later
//! term, that term's leader was elected before, by a majority, of which nobody can have
//! confirmed T since. So no lost vote or acknowledgement counts any more, and what was
//! committed by its help is before the leader's end, which the node has on its disk.
//!
//! Whoever founds a cluster is no newcomer, though its disk be empty.
//!
//! Source: Raft's dissertation (§4.1, §11.7.2) for not coming back under an id whose disk was
//! lost; that a majority must be asked anew before a node without its memory may count is the
//! lesson of what was wrong with recovery in Viewstamped Replication (Michael et al., DISC
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

/// Reads of consensus that are for admissions have numbers from here on.
const NUMBERS: u64 = 1 << 63;

/// A newcomer that has caught up.
#[derive(Debug)]
pub(super) struct Admitting {
    pub(super) node: NodeId,
    confirming: Option<Confirming>,
}

/// Whether this node still leads, since that newcomer had come.
#[derive(Debug)]
struct Confirming {
    newcomer: NonZeroU64,
    round: u64,
    /// Where the log ended then.
    end: Lsn,
    /// When the newcomer was last told.
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

/// What a leader says to a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Admission {
    /// The leader's.
    term: Term,
    /// Where its log ended.
    end: Lsn,
    /// Who is meant.
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
    /// Goes on with an admission. Whether it is done, or none is needed.
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
                    // What is lost is said again.
                    let bytes = admission.encode();
                    let sent = self.peers.send(node, frames::ADMISSION, bytes, Loss::Kept);
                    tracing::info!(%node, sent = sent.is_ok(), "admits a newcomer");
                }
            }
            // It has come since, or once more.
            _ => {
                self.admissions += 1;
                let round = NUMBERS + self.admissions;
                // If it does not lead any more it hears so next.
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

    /// Answers that are not for admissions.
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
        let is_meant = self.neighbours.newcomer().map(NonZeroU64::get) == Some(admission.newcomer);
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

    /// It is noted for good that this node was admitted.
    pub(super) fn admitted(&mut self) {
        tracing::info!("admitted: this node may vote now");
        self.consensus.admit();
        self.neighbours.admitted();
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
