//! Changes of members: front ends and back ends that start again, or are gone. One is proposed to
//! the council at a time, and no epoch is opened meanwhile.

use coeval_council::NodeId;

use super::{Manager, Rhythm};
use crate::configuration::FrontEndPlace;
use crate::directory::Decision;
use crate::outbox::Outbox;
use crate::timestamp::{Epoch, FrontEndId};

/// A change that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Join(FrontEndId, NodeId, u64),
    Fence(FrontEndId, u64),
    Return(NodeId, u64),
    Remove(NodeId),
    Place(NodeId, u64, Vec<usize>),
    Promote(NodeId, u64, usize),
}

/// Ticks for which a node that has asked for copies is taken to be there.
pub(super) const SPARE_TICKS: u32 = 20;

impl Manager {
    fn ask(&mut self, change: Change, out: &mut Outbox) {
        if !self.changes.contains(&change) {
            self.changes.push_back(change);
        }
        self.advance(out);
    }

    /// A front end has started on this node.
    pub(crate) fn join(
        &mut self,
        id: FrontEndId,
        node: NodeId,
        incarnation: u64,
        out: &mut Outbox,
    ) {
        if self.configuration.may_admit(id, incarnation) {
            self.ask(Change::Join(id, node, incarnation), out);
        }
    }

    /// A back end has started again, with its log, in which this is the newest sealed epoch.
    ///
    /// With a whole copy it has sealed every closed epoch that has a record: if its log has not, the
    /// disk has lost some. Then its copies are as gone as those of a node that does not come back.
    pub(crate) fn came_back(
        &mut self,
        node: NodeId,
        incarnation: u64,
        sealed: Epoch,
        out: &mut Outbox,
    ) {
        let known = self.configuration.back_ends.get(&node);
        if known.is_none_or(|known| *known >= incarnation) {
            return;
        }
        let is_whole = self.configuration.hosts_any(node) && self.has_records(sealed, self.closed);
        let change = match is_whole || self.configuration.partitions.is_empty() {
            true => Change::Return(node, incarnation),
            false if self.configuration.only_on(node).is_empty() => Change::Remove(node),
            false => return,
        };
        self.ask(change, out);
    }

    /// Whether closing records up to `sealed` are all that a whole copy has when `closed` is closed. Only
    /// an epoch of reads is closed without one, and never two in turn.
    pub(super) fn has_records(&self, sealed: Epoch, closed: Epoch) -> bool {
        match self.rhythm {
            Rhythm::Alternate { .. } => sealed.plus(1) >= closed,
            Rhythm::Unified { .. } | Rhythm::Tuned { .. } => sealed >= closed,
        }
    }

    /// A node that is no member may have copies.
    pub(crate) fn enlist(&mut self, node: NodeId, incarnation: u64, out: &mut Outbox) {
        if self.configuration.may_enlist(node, incarnation) {
            self.spares.insert(node, (incarnation, 0));
            self.advance(out);
        }
    }

    /// A back end has made its copy of a partition.
    pub(crate) fn caught(
        &mut self,
        (node, incarnation): (NodeId, u64),
        partition: usize,
        through: Epoch,
        out: &mut Outbox,
    ) {
        if self.configuration.joining.get(&(partition, node)) == Some(&through) {
            self.ask(Change::Promote(node, incarnation, partition), out);
        }
    }

    /// Asks for copies where they are lacking, one node at a time.
    pub(super) fn place(&mut self) {
        let is_idle = self.greeting.is_none() && !self.is_proposed && self.changes.is_empty();
        if is_idle && self.configuration.copies > 0 {
            let spares = self.spares.iter();
            let spares = spares.map(|(node, (incarnation, _))| (*node, *incarnation));
            let change = super::placement::next(&self.configuration, &spares.collect());
            self.changes.extend(change);
        }
    }

    /// Whether a copy waits for an epoch to be closed that it has to copy.
    pub(super) fn copies_wait(&self) -> bool {
        let mut joining = self.configuration.joining.values();
        joining.any(|through| *through > self.closed)
    }

    /// A front end is dead, as an operator or a failure detector says.
    pub(crate) fn fence(&mut self, id: FrontEndId, out: &mut Outbox) {
        if let Some(place) = self.configuration.front_ends.get(&id) {
            self.ask(Change::Fence(id, place.incarnation), out);
        }
    }

    /// A back end is dead. Refused for the last copy of a partition: returns these partitions. Front
    /// ends that want a close are then told, for as long as the caller says so at each tick.
    pub(crate) fn remove(&mut self, node: NodeId, out: &mut Outbox) -> Result<(), Vec<usize>> {
        let alone = self.configuration.only_on(node);
        if !alone.is_empty() {
            self.lost.insert(node, (alone.clone(), 0));
            return Err(alone);
        }
        self.ask(Change::Remove(node), out);
        Ok(())
    }

    /// What the council made of the proposal is known here.
    pub(crate) fn proposal_ended(&mut self, out: &mut Outbox) {
        self.is_proposed = false;
        self.advance(out);
    }

    /// Proposes the next change.
    ///
    /// A manager that has not taken over does not know in which epochs front ends may draw: it
    /// proposes only back ends, without which it cannot take over.
    pub(super) fn propose(&mut self) {
        if self.is_proposed {
            return;
        }
        let greets = self.greeting.is_some();
        let may =
            |change: &Change| !greets || matches!(change, Change::Return(..) | Change::Remove(_));
        let Some(index) = self.changes.iter().position(may) else {
            return;
        };
        let newest = self.drawing.0;
        let decision = match self.changes.remove(index) {
            Some(Change::Join(id, node, incarnation)) => {
                let place = FrontEndPlace {
                    node,
                    incarnation,
                    first: newest.plus(1),
                };
                Decision::Admit(id, place, newest)
            }
            Some(Change::Fence(id, incarnation)) => Decision::Fence(id, incarnation, newest),
            Some(Change::Return(node, incarnation)) => Decision::Readmit(node, incarnation),
            Some(Change::Remove(node)) => Decision::Remove(node),
            Some(Change::Place(node, incarnation, partitions)) => {
                Decision::Place(node, incarnation, partitions, newest)
            }
            Some(Change::Promote(node, incarnation, partition)) => {
                Decision::Promote(node, incarnation, partition)
            }
            None => return,
        };
        self.is_proposed = true;
        self.proposals.push(decision);
    }
}
