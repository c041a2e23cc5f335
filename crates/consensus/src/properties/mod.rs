//! The safety properties of Raft, checked from outside after every step of a simulated run.
//!
//! [`Properties`] observes the output of the nodes of one cluster and the reports of their
//! disks, and keeps a model of each node's log, in memory and on disk. It reads no node's
//! internal state, so it also checks that the caller fulfils its obligations.
//!
//! ```
//! use coeval_consensus::properties::Properties;
//! use coeval_consensus::{Consensus, Membership, NodeId, Restored, Settings};
//!
//! let mut properties = Properties::default();
//! let nothing = Restored::empty(Membership::new([NodeId(1)], []));
//! let mut node = Consensus::new(NodeId(1), Settings::default(), &nothing, 7)?;
//! properties.started(node.id(), &nothing, &[])?;
//! for _ in 0..30 {
//!     node.tick();
//!     let ready = node.ready();
//!     properties.handed_out(node.id(), &ready)?;
//!     if let Some(write) = ready.write {
//!         properties.persisted(node.id(), write.number)?;
//!         node.persisted(write.number)?;
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | property | file | source |
//! | --- | --- | --- |
//! | at most one leader a term | `election_safety` | Raft §5.2 |
//! | logs that share an entry share all before it | `log_matching` | Raft §5.3 |
//! | a leader has all that was committed before | `leader_completeness` | Raft §5.4 |
//! | no two nodes apply different entries at the same offset | `state_machine_safety` | Raft §5.4 |
//! | a term begins with its mark, and waits for it | `mark_rule` | FRS §6.4 |
//! | no message promises more than its sender's disk has | `promises` | Raft §5.1, figure 2 |
//! | committed entries are on a majority's disks | `commit_majority` | Raft §5.3, FRS definition 6.1 |
//! | a follower's read misses nothing that was committed when it was asked for | `follower_reads` | Raft dissertation §6.4 |
//!
//! The caller reports events in the order in which they happen: `handed_out` before it
//! carries out any of the output, `persisted` and `asked` before it calls the node.

mod commit_majority;
mod election_safety;
mod follower_reads;
mod leader_completeness;
mod log_matching;
mod logs;
mod mark_rule;
mod promises;
mod state_machine_safety;

use std::fmt;

use coeval_types::Lsn;

use crate::entry::Entry;
use crate::membership::Membership;
use crate::position::{NodeId, Position};
use crate::ready::{Ready, Role};
use crate::restored::Restored;

use commit_majority::CommitMajority;
use election_safety::ElectionSafety;
use follower_reads::FollowerReads;
use leader_completeness::LeaderCompleteness;
use log_matching::LogMatching;
use logs::Logs;
use mark_rule::MarkRule;
use promises::Promises;
use state_machine_safety::StateMachineSafety;

/// Durability: a node's disk has after a crash the state that it reported as durable. A
/// damaged disk need not have this property. It is checked at each start; after a violation
/// the model continues with the disk's actual state.
pub const DURABILITY: &str = "durability";

/// A violated property, with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the property.
    pub property: &'static str,
    /// The node at which the violation was seen.
    pub node: NodeId,
    /// Description of the evidence.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} is violated at node {}: {}",
            self.property, self.node, self.what
        )
    }
}

impl std::error::Error for Violation {}

/// The checkers of one cluster's properties, from its first step on.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    logs: Logs,
    state_machine_safety: StateMachineSafety,
    election_safety: ElectionSafety,
    leader_completeness: LeaderCompleteness,
    log_matching: LogMatching,
    follower_reads: FollowerReads,
}

impl Properties {
    /// Reports that a node has started, with this state and these entries on its disk.
    ///
    /// # Errors
    /// The property that is violated.
    pub fn started(
        &mut self,
        node: NodeId,
        restored: &Restored,
        entries: &[Entry],
    ) -> Result<(), Violation> {
        let begin = entries.first().map_or(restored.end, |first| first.start);
        let base = Position {
            term: restored.term_before(begin),
            end: begin,
        };
        let before = |change: &&(Lsn, Membership)| change.0 <= begin;
        let membership = restored.memberships.iter().rfind(before);
        let membership = membership.map_or(&restored.membership, |(_, membership)| membership);
        let durable = self
            .logs
            .started(node, base, membership, entries, restored.promised());
        self.state_machine_safety.started(node, restored.applied);
        self.follower_reads.started(node);
        let appended = self.check_appended(node, base, entries);
        durable.and(appended)
    }

    /// Reports that a node's disk was lost, with everything on it. Its earlier
    /// acknowledgements may still be counted, until the node comes back.
    pub fn lost_its_disk(&mut self, node: NodeId) {
        self.logs.lost(node);
    }

    /// Reports the output of a node's step.
    ///
    /// # Errors
    /// The property that is violated.
    pub fn handed_out(&mut self, node: NodeId, ready: &Ready) -> Result<(), Violation> {
        if let Some(write) = &ready.write {
            if let Some(checkpoint) = &write.install {
                self.state_machine_safety
                    .installed(node, checkpoint.position)?;
            }
            if let Some(truncate) = write.truncate {
                self.state_machine_safety
                    .truncated(&self.logs, node, truncate)?;
            }
            let before = self.logs.written(node, write)?;
            self.check_appended(node, before, &write.entries)?;
        }
        if let Some(change) = ready.role {
            let elected = matches!(change.role, Role::Leader { .. })
                && self.election_safety.leads(change.term, node)?;
            self.logs.changed_role(node, change);
            if elected {
                let committed = self.state_machine_safety.committed();
                self.leader_completeness
                    .elected(&self.logs, committed, node)?;
            }
        }
        if let Some(committed) = ready.committed {
            let new = self
                .state_machine_safety
                .applied(&self.logs, node, committed)?;
            if let Some(last) = new.last() {
                let majority = CommitMajority::committed(&self.logs, node, last.position());
                let complete = self.leader_completeness.committed(&self.logs, new, node);
                majority.and(complete)?;
            }
        }
        for message in &ready.messages {
            Promises::said(&self.logs, node, message)?;
        }
        let committed = self.state_machine_safety.committed_end();
        for answer in &ready.asked {
            self.follower_reads.answered(node, answer, committed)?;
        }
        Ok(())
    }

    fn check_appended(
        &mut self,
        node: NodeId,
        mut before: Position,
        entries: &[Entry],
    ) -> Result<(), Violation> {
        for entry in entries {
            self.log_matching.has(node, before, entry)?;
            MarkRule::has(&self.logs, node, before, entry)?;
            before = entry.position();
        }
        Ok(())
    }

    /// Reports that a node is about to ask its leader for a read.
    pub fn asked(&mut self, node: NodeId, context: u64) {
        let committed = self.state_machine_safety.committed_end();
        self.follower_reads.asked(node, context, committed);
    }

    /// Reports that a node's write is on its disk, with all before it.
    ///
    /// # Errors
    /// When the node was never reported to have started.
    pub fn persisted(&mut self, node: NodeId, write: u64) -> Result<(), Violation> {
        self.logs.persisted(node, write)
    }

    /// All positions committed in this cluster so far.
    pub fn committed(&self) -> impl ExactSizeIterator<Item = Position> + '_ {
        let committed = self.state_machine_safety.committed().iter();
        committed.map(logs::Seen::position)
    }
}
