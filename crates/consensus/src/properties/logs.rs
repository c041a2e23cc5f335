//! A model of each node's log, in memory and on its disk, built from the writes it handed
//! out.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use coeval_types::{Lsn, Term};

use super::{DURABILITY, Violation};
use crate::entry::Entry;
use crate::membership::Membership;
use crate::position::{NodeId, Position};
use crate::ready::{Role, RoleChange, Write};

/// An entry, with a hash in place of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) start: Lsn,
    pub(super) end: Lsn,
    pub(super) term: Term,
    pub(super) content: u64,
}

impl Seen {
    pub(super) fn new(entry: &Entry) -> Self {
        let mut hasher = DefaultHasher::new();
        entry.content.hash(&mut hasher);
        Self {
            start: entry.start,
            end: entry.end,
            term: entry.term,
            content: hasher.finish(),
        }
    }

    pub(super) const fn position(&self) -> Position {
        Position {
            term: self.term,
            end: self.end,
        }
    }
}

/// The model of one log.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    base: Position,
    /// The membership at the base, then each change by the end of its entry.
    memberships: Vec<(Lsn, Membership)>,
    entries: Vec<Seen>,
}

impl Log {
    pub(super) fn last(&self) -> Position {
        self.entries.last().map_or(self.base, Seen::position)
    }

    /// The first entry of a term, unless a checkpoint covers it.
    pub(super) fn first_of(&self, term: Term) -> Option<&Seen> {
        let first = self.entries.partition_point(|entry| entry.term < term);
        self.entries
            .get(first)
            .filter(|entry| entry.term == term && self.base.term < term)
    }

    /// The membership at that end, then each later one.
    pub(super) fn memberships_from(&self, at: Lsn) -> impl Iterator<Item = &Membership> {
        let after = self.memberships.partition_point(|(end, _)| *end <= at);
        let from = self.memberships.iter().skip(after.saturating_sub(1));
        from.map(|(_, membership)| membership)
    }

    /// The entries between two offsets, as far as the log has them.
    pub(super) fn between(&self, from: Lsn, to: Lsn) -> &[Seen] {
        let first = self.entries.partition_point(|entry| entry.start < from);
        let last = self.entries.partition_point(|entry| entry.end <= to);
        &self.entries[first..last.max(first)]
    }

    /// Whether the log has the prefix, or a checkpoint that covers it.
    pub(super) fn has(&self, position: Position) -> bool {
        if position.end <= self.base.end {
            return true;
        }
        let index = self
            .entries
            .binary_search_by_key(&position.end, |entry| entry.end);
        index.is_ok_and(|index| self.entries[index].term == position.term)
    }

    /// The position of the entry that ends there, if one does.
    pub(super) fn position_at(&self, end: Lsn) -> Option<Position> {
        let index = self.entries.binary_search_by_key(&end, |entry| entry.end);
        index.ok().map(|index| self.entries[index].position())
    }

    fn put(&mut self, entries: &[Entry]) {
        for entry in entries {
            if let Some(membership) = entry.membership() {
                self.memberships.push((entry.end, membership.clone()));
            }
            self.entries.push(Seen::new(entry));
        }
    }

    fn write(&mut self, write: &Write) {
        if let Some(checkpoint) = &write.install {
            *self = Self {
                base: checkpoint.position,
                memberships: vec![(checkpoint.position.end, checkpoint.membership.clone())],
                entries: Vec::new(),
            };
        }
        if let Some(to) = write.truncate {
            let kept = self.entries.partition_point(|entry| entry.end <= to);
            self.entries.truncate(kept);
            self.memberships.retain(|(end, _)| *end <= to);
        }
        self.put(&write.entries);
    }
}

/// The model of one node.
#[derive(Clone, Debug, Default)]
struct Known {
    role: RoleChange,
    memory: Log,
    disk: Log,
    /// The term and the vote on the disk.
    promised: (Term, Option<NodeId>),
    under_way: VecDeque<Write>,
}

/// Models of all logs.
#[derive(Clone, Debug, Default)]
pub(super) struct Logs {
    nodes: BTreeMap<NodeId, Known>,
    /// Contents of lost disks, until their nodes have come back.
    lost: BTreeMap<NodeId, Log>,
}

impl Logs {
    pub(super) fn started(
        &mut self,
        node: NodeId,
        base: Position,
        membership: &Membership,
        entries: &[Entry],
        promised: (Term, Option<NodeId>),
    ) -> Result<(), Violation> {
        let mut log = Log {
            base,
            memberships: vec![(base.end, membership.clone())],
            entries: Vec::new(),
        };
        log.put(entries);
        let known = Known {
            role: RoleChange::default(),
            memory: log.clone(),
            disk: log.clone(),
            promised,
            under_way: VecDeque::new(),
        };
        self.lost.remove(&node);
        if let Some(before) = self.nodes.insert(node, known) {
            let was = before.disk.last();
            let cut = before.under_way.iter().any(|write| {
                write.install.is_some() || write.truncate.is_some_and(|to| to < was.end)
            });
            if !cut && !log.has(was) {
                return Err(Violation {
                    property: DURABILITY,
                    node,
                    what: format!("{was} was on its disk and is there no more"),
                });
            }
            let (term, vote) = before.promised;
            let is_forgotten = vote.is_some_and(|vote| promised.1 != Some(vote));
            if promised.0 < term || promised.0 == term && is_forgotten {
                return Err(Violation {
                    property: DURABILITY,
                    node,
                    what: format!(
                        "term {term} and a vote for {vote:?} were on its disk, and now it has term \
                         {} and {:?}",
                        promised.0, promised.1
                    ),
                });
            }
        }
        Ok(())
    }

    pub(super) fn lost(&mut self, node: NodeId) {
        if let Some(known) = self.nodes.remove(&node) {
            self.lost.insert(node, known.disk);
        }
    }

    fn known(&mut self, node: NodeId) -> Result<&mut Known, Violation> {
        self.nodes.get_mut(&node).ok_or_else(|| Violation {
            property: "order of reports",
            node,
            what: "it was never reported to have started".to_owned(),
        })
    }

    /// Applies a write that was handed out to the log in memory. Returns the log's end
    /// before the write's entries.
    pub(super) fn written(&mut self, node: NodeId, write: &Write) -> Result<Position, Violation> {
        let known = self.known(node)?;
        let without_entries = Write {
            entries: Vec::new(),
            ..write.clone()
        };
        known.memory.write(&without_entries);
        let before = known.memory.last();
        known.memory.put(&write.entries);
        known.under_way.push_back(write.clone());
        Ok(before)
    }

    pub(super) fn persisted(&mut self, node: NodeId, number: u64) -> Result<(), Violation> {
        let known = self.known(node)?;
        while let Some(write) = known.under_way.pop_front_if(|write| write.number <= number) {
            known.disk.write(&write);
            known.promised = (write.hard_state.term, write.hard_state.vote);
        }
        Ok(())
    }

    pub(super) fn changed_role(&mut self, node: NodeId, role: RoleChange) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.role = role;
        }
    }

    pub(super) fn role(&self, node: NodeId) -> RoleChange {
        self.nodes
            .get(&node)
            .map(|known| known.role)
            .unwrap_or_default()
    }

    pub(super) fn log(&self, node: NodeId) -> &Log {
        static NOTHING: Log = Log {
            base: Position::EMPTY,
            memberships: Vec::new(),
            entries: Vec::new(),
        };
        self.nodes
            .get(&node)
            .map_or(&NOTHING, |known| &known.memory)
    }

    /// The model of a node's disk.
    pub(super) fn disk(&self, node: NodeId) -> Option<&Log> {
        self.nodes.get(&node).map(|known| &known.disk)
    }

    /// The term and the vote on a node's disk.
    pub(super) fn promised(&self, node: NodeId) -> (Term, Option<NodeId>) {
        self.nodes
            .get(&node)
            .map(|known| known.promised)
            .unwrap_or_default()
    }

    /// The nodes that lead, in any term.
    pub(super) fn leaders(&self) -> impl Iterator<Item = (NodeId, RoleChange)> + '_ {
        let leaders = self.nodes.iter();
        leaders
            .filter(|(_, known)| matches!(known.role.role, Role::Leader { .. }))
            .map(|(node, known)| (*node, known.role))
    }

    /// Whether a majority of these members has this prefix on disk. A prefix acknowledged
    /// from a disk that was lost since counts: the acknowledgement may be in flight, and
    /// the leader that receives it cannot know. Consequences of such a loss show in the
    /// properties of the next elected leader.
    pub(super) fn is_durable(&self, membership: &Membership, position: Position) -> bool {
        let has_it = membership.reached_by_majority(|voter| {
            let disk = self.disk(voter).or_else(|| self.lost.get(&voter));
            disk.is_some_and(|disk| disk.has(position))
        });
        has_it == Some(true)
    }
}
