//! Cluster membership: voters and learners, and its change by one node at a time.
//!
//! *Voters* elect the leader, and a majority of them commits entries. *Learners* receive
//! the log and count for no quorum: a node catches up as a learner before it becomes a
//! voter.
//!
//! ```text
//!  {1,2,3}   any majority has 2      add 4      {1,2,3,4}   any majority has 3
//! ```
//!
//! Changing one voter at a time keeps any majority of the old members and any majority of
//! the new ones from missing each other: 2 + 3 > 4. So a membership is in force from the
//! moment it is *in the log*, committed or not, and rolls back with the log. Two
//! conditions make that safe, both checked by `leader`: the previous change is committed,
//! and so is the leader's own mark.
//!
//! A membership also carries the *cluster version*, and from version 2 on the identities of
//! the members' data directories. Neither counts for a quorum. They are here because they
//! need what a membership has: one order with the log, a copy in every mark and in every
//! checkpoint, and a rollback with the entry that brought them. A membership of version 1
//! is encoded as by builds that know no versions.
//!
//! Source: Ongaro, *Consensus: Bridging Theory and Practice*, 2014, §4.1, with the
//! second condition from its published correction (a leader first commits an entry of
//! its own term).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use coeval_types::DirectoryId;

use crate::position::NodeId;

/// The cluster version of a cluster whose log names none: what every build reads.
pub const FIRST_VERSION: u32 = 1;

/// The cluster version from which on memberships name directories.
pub const IDENTITIES: u32 = 2;

/// The members of a cluster. Empty at a node that does not know them yet.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Membership {
    voters: BTreeSet<NodeId>,
    learners: BTreeSet<NodeId>,
    version: u32,
    directories: BTreeMap<NodeId, DirectoryId>,
}

impl Default for Membership {
    fn default() -> Self {
        Self::new([], [])
    }
}

/// A change of a membership by one node, or by one step of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a node as a learner, or makes a voter a learner.
    Learner(NodeId),
    /// Adds a node as a voter, or makes a learner a voter.
    Voter(NodeId),
    /// Removes a node.
    Remove(NodeId),
    /// Raises the cluster version to this one.
    Raise(u32),
    /// Names the data directory of a member that has none by name.
    Identify(NodeId, DirectoryId),
}

/// Why a membership change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The node already has the requested role.
    NothingToDo(NodeId),
    /// The change would remove the last voter.
    LastVoter(NodeId),
    /// The version does not follow on the one in force.
    Version(u32),
    /// The member has another directory, or the version has none.
    Directory(NodeId),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToDo(node) => {
                write!(formatter, "node {node} is already what was asked for")
            }
            Self::LastVoter(node) => write!(
                formatter,
                "node {node} is the last voter; add another voter first"
            ),
            Self::Version(version) => {
                write!(
                    formatter,
                    "version {version} does not follow on the cluster's"
                )
            }
            Self::Directory(node) => write!(
                formatter,
                "node {node} has another directory, or the cluster's version names none"
            ),
        }
    }
}

impl std::error::Error for ChangeError {}

impl Membership {
    /// A membership of these voters and learners. A node in both is a voter.
    pub fn new(
        voters: impl IntoIterator<Item = NodeId>,
        learners: impl IntoIterator<Item = NodeId>,
    ) -> Self {
        let voters: BTreeSet<NodeId> = voters.into_iter().collect();
        let mut learners: BTreeSet<NodeId> = learners.into_iter().collect();
        learners.retain(|node| !voters.contains(node));
        Self {
            voters,
            learners,
            version: FIRST_VERSION,
            directories: BTreeMap::new(),
        }
    }

    /// The same members at this cluster version, with these directories. Before
    /// [`IDENTITIES`] a membership names none.
    #[must_use]
    pub fn at_version(
        mut self,
        version: u32,
        directories: impl IntoIterator<Item = (NodeId, DirectoryId)>,
    ) -> Self {
        self.version = version.max(FIRST_VERSION);
        let is_named = |node: &NodeId| self.version >= IDENTITIES && self.is_member(*node);
        let directories = directories.into_iter();
        self.directories = directories.filter(|(node, _)| is_named(node)).collect();
        self
    }

    /// The cluster version: what members write, and must be able to read.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The directory of a member, if the membership names it.
    #[must_use]
    pub fn directory(&self, node: NodeId) -> Option<DirectoryId> {
        self.directories.get(&node).copied()
    }

    /// The directories that the membership names, by member.
    pub fn directories(&self) -> impl ExactSizeIterator<Item = (NodeId, DirectoryId)> + '_ {
        self.directories.iter().map(|(node, id)| (*node, *id))
    }

    /// The voters, in ascending order.
    pub fn voters(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.voters.iter().copied()
    }

    /// The learners, in ascending order.
    pub fn learners(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.learners.iter().copied()
    }

    /// All members, voters first.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.voters().chain(self.learners())
    }

    /// Whether this node is a voter.
    #[must_use]
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.voters.contains(&node)
    }

    /// Whether this node is a member, as voter or learner.
    #[must_use]
    pub fn is_member(&self, node: NodeId) -> bool {
        self.is_voter(node) || self.learners.contains(&node)
    }

    /// Whether the membership is not known yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.voters.is_empty() && self.learners.is_empty()
    }

    /// Number of voters that form a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// The largest value that a majority has reached, where `reached(voter)` is each
    /// voter's value. `None` without voters.
    pub fn reached_by_majority<Value: Ord>(
        &self,
        reached: impl FnMut(NodeId) -> Value,
    ) -> Option<Value> {
        self.reached_by(self.majority(), reached)
    }

    /// The largest value that at least `count` voters have reached.
    pub(crate) fn reached_by<Value: Ord>(
        &self,
        count: usize,
        reached: impl FnMut(NodeId) -> Value,
    ) -> Option<Value> {
        let mut values: Vec<Value> = self.voters().map(reached).collect();
        values.sort_unstable_by(|a, b| b.cmp(a));
        values.into_iter().nth(count.checked_sub(1)?)
    }

    /// The membership after this change.
    ///
    /// # Errors
    /// When the change changes nothing, or removes the last voter.
    pub fn changed(&self, change: Change) -> Result<Self, ChangeError> {
        let mut after = self.clone();
        let node = match change {
            Change::Learner(node) => {
                after.voters.remove(&node);
                after.learners.insert(node);
                node
            }
            Change::Voter(node) => {
                after.learners.remove(&node);
                after.voters.insert(node);
                node
            }
            Change::Remove(node) => {
                after.voters.remove(&node);
                after.learners.remove(&node);
                after.directories.remove(&node);
                node
            }
            Change::Raise(version) => {
                if version != self.version + 1 {
                    return Err(ChangeError::Version(version));
                }
                after.version = version;
                return Ok(after);
            }
            Change::Identify(node, id) => {
                let is_free = self.version >= IDENTITIES
                    && self.is_member(node)
                    && self.directory(node).is_none();
                if !is_free {
                    return Err(ChangeError::Directory(node));
                }
                after.directories.insert(node, id);
                return Ok(after);
            }
        };
        if after == *self {
            Err(ChangeError::NothingToDo(node))
        } else if after.voters.is_empty() {
            Err(ChangeError::LastVoter(node))
        } else {
            Ok(after)
        }
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Formats as `1 2 3 + 4`: voters, then learners.
impl fmt::Display for Membership {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |nodes: &BTreeSet<NodeId>| {
            let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            names.join(" ")
        };
        formatter.write_str(&list(&self.voters))?;
        if !self.learners.is_empty() {
            write!(formatter, " + {}", list(&self.learners))?;
        }
        if self.version > FIRST_VERSION {
            write!(formatter, " at version {}", self.version)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(numbers: &[u64]) -> impl Iterator<Item = NodeId> + '_ {
        numbers.iter().copied().map(NodeId)
    }

    #[test]
    fn majorities_of_neighbours_meet() {
        for count in 1..=7_u64 {
            let all: Vec<u64> = (1..=count).collect();
            let before = Membership::new(nodes(&all), []);
            let after = before
                .changed(Change::Voter(NodeId(count + 1)))
                .expect("a step");
            assert!(before.majority() + after.majority() > after.voters().len());
        }
    }

    #[test]
    fn what_a_majority_has_reached() {
        let members = Membership::new(nodes(&[1, 2, 3, 4]), nodes(&[5]));
        assert_eq!(
            members.reached_by_majority(|node| node.0 * 10),
            Some(20),
            "three of four have reached 20; the learner counts for nothing"
        );
        assert_eq!(Membership::default().reached_by_majority(|_| 1), None);
    }

    #[test]
    fn steps_that_lead_nowhere_are_refused() {
        let members = Membership::new(nodes(&[1]), nodes(&[2]));
        for nowhere in [
            Change::Voter(NodeId(1)),
            Change::Learner(NodeId(2)),
            Change::Remove(NodeId(3)),
        ] {
            assert!(matches!(
                members.changed(nowhere),
                Err(ChangeError::NothingToDo(_))
            ));
        }
        for last in [Change::Learner(NodeId(1)), Change::Remove(NodeId(1))] {
            assert_eq!(
                members.changed(last),
                Err(ChangeError::LastVoter(NodeId(1)))
            );
        }
        let promoted = members.changed(Change::Voter(NodeId(2))).expect("a step");
        assert_eq!(promoted.to_string(), "1 2");
        assert_eq!(members.to_string(), "1 + 2");
    }

    #[test]
    fn versions_rise_by_one_and_directories_are_named_once() {
        let members = Membership::new(nodes(&[1, 2]), []);
        let (id, other) = (DirectoryId(7), DirectoryId(8));
        let early = members.changed(Change::Identify(NodeId(1), id));
        assert_eq!(early, Err(ChangeError::Directory(NodeId(1))));
        for version in [0, 1, 3] {
            let wrong = members.changed(Change::Raise(version));
            assert_eq!(wrong, Err(ChangeError::Version(version)));
        }
        let raised = members.changed(Change::Raise(2)).expect("a step");
        assert_eq!(
            (raised.version(), raised.to_string()),
            (2, "1 2 at version 2".into())
        );
        let named = raised
            .changed(Change::Identify(NodeId(1), id))
            .expect("free");
        assert_eq!(named.directory(NodeId(1)), Some(id));
        for (node, id) in [(1, other), (3, id)] {
            let wrong = named.changed(Change::Identify(NodeId(node), id));
            assert_eq!(wrong, Err(ChangeError::Directory(NodeId(node))));
        }
        let removed = named.changed(Change::Remove(NodeId(1))).expect("a step");
        assert_eq!(removed.directory(NodeId(1)), None);
    }
}
