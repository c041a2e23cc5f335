//! What must hold after every step, checked from outside.
//!
//! [`Properties`] watches what the nodes of one cluster hand out and what their disks
//! report, and keeps for each a model of its log, in memory and on disk. It looks at no
//! node's inside, so it holds a caller to its part as well.
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
//! | nobody applies anything else at the same place | `state_machine_safety` | Raft §5.4 |
//! | a term begins with its mark, and waits for it | `mark_rule` | FRS §6.4 |
//! | no message says more than its sender's disk has | `promises` | Raft §5.1, figure 2 |
//! | what is committed is on a majority's disks | `commit_majority` | Raft §5.3, FRS definition 6.1 |
//!
//! The caller reports in the order in which things happen: `handed_out` before anything
//! of it is carried out, `persisted` before the node is told.

mod commit_majority;
mod election_safety;
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
use leader_completeness::LeaderCompleteness;
use log_matching::LogMatching;
use logs::Logs;
use mark_rule::MarkRule;
use promises::Promises;
use state_machine_safety::StateMachineSafety;

/// What a disk said it had is there after a crash: a property of a node's disk, which one
/// that is damaged need not have. It is held against each start, and a violation leaves the
/// model with what is there.
pub const DURABILITY: &str = "durability";

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub property: &'static str,
    /// At which node it was seen.
    pub node: NodeId,
    /// What was seen.
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

/// The properties of one cluster, from its first step on.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    logs: Logs,
    state_machine_safety: StateMachineSafety,
    election_safety: ElectionSafety,
    leader_completeness: LeaderCompleteness,
    log_matching: LogMatching,
}

impl Properties {
    /// A node has started, with this on its disk.
    ///
    /// # Errors
    /// What does not hold.
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
        let appended = self.check_appended(node, base, entries);
        durable.and(appended)
    }

    /// A node's disk was lost, with all that was on it. What it had acknowledged before may
    /// still be counted, until the node comes back.
    pub fn lost_its_disk(&mut self, node: NodeId) {
        self.logs.lost(node);
    }

    /// A node has handed this out.
    ///
    /// # Errors
    /// What does not hold.
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

    /// A node's write is on its disk, with all before it.
    ///
    /// # Errors
    /// When it never handed that out.
    pub fn persisted(&mut self, node: NodeId, write: u64) -> Result<(), Violation> {
        self.logs.persisted(node, write)
    }

    /// What is committed in this cluster so far.
    pub fn committed(&self) -> impl ExactSizeIterator<Item = Position> + '_ {
        let committed = self.state_machine_safety.committed().iter();
        committed.map(logs::Seen::position)
    }
}
