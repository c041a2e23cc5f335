//! The steps of one close.

use coeval_council::NodeId;
use coeval_types::planted;

use super::{CloseStep, Closing, Manager, resolution};
use crate::message::{EpochKind, Part, Piece, Resolution};
use crate::outbox::Outbox;
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};

impl Manager {
    /// Whether the newest epoch is to be closed now.
    pub(super) fn may_close(&self) -> bool {
        let is_idle = self.greeting.is_none() && self.closing.is_none();
        let is_due = self.since >= self.length_ticks();
        let changes = self.is_proposed || !self.changes.is_empty();
        is_idle && self.is_wanted && is_due && !changes
    }

    /// Begins to close the newest epoch; front ends of unified epochs draw in the next at once.
    pub(super) fn begin_close(&mut self) {
        let (through, kind) = self.drawing;
        self.closing = Some(Closing::new(through, kind));
        self.drawing = (through.plus(1), self.rhythm.next(Some(kind)));
        self.is_wanted = false;
        self.since = 0;
    }

    /// Says the message of the step to all that have not answered.
    pub(super) fn say_step(&self, out: &mut Outbox) {
        let Some(closing) = &self.closing else {
            return;
        };
        let through = closing.through;
        match closing.step {
            CloseStep::Draining => {
                for id in self.configuration.children(None) {
                    let place = self.configuration.front_ends.get(&id);
                    if let Some(place) = place
                        && !closing.drained.contains_key(&id)
                    {
                        out.say(place.node, Part::Switch(through, self.open()));
                    }
                }
            }
            CloseStep::Collecting => {
                for node in self.configuration.back_ends.keys() {
                    if !closing.collected.contains_key(node) {
                        out.say(*node, Part::Collect(self.closed, through));
                    }
                }
            }
            CloseStep::Sealing => {
                for node in self.configuration.back_ends.keys() {
                    if !closing.sealed.contains(node) {
                        let resolution = closing.resolutions.get(node);
                        let resolution = resolution.cloned().unwrap_or_default();
                        out.say(*node, Part::Seal(through, resolution));
                    }
                }
            }
        }
    }

    /// A front end, and all below it in the tree, have drained.
    pub(crate) fn drained(
        &mut self,
        id: FrontEndId,
        through: Epoch,
        floor: EpochTimestamp,
        out: &mut Outbox,
    ) {
        if let Some(closing) = &mut self.closing
            && through >= closing.through
            && closing.drained.insert(id, floor).is_none()
        {
            closing.last = Some(id);
        }
        self.advance(out);
    }

    /// A back end has said what it has of orphans.
    pub(crate) fn collected(
        &mut self,
        from: NodeId,
        through: Epoch,
        pieces: Vec<Piece>,
        out: &mut Outbox,
    ) {
        if let Some(closing) = &mut self.closing
            && closing.step == CloseStep::Collecting
            && through == closing.through
        {
            closing.collected.insert(from, pieces);
        }
        self.advance(out);
    }

    /// A back end's closing record is on the disk.
    pub(crate) fn sealed(&mut self, from: NodeId, through: Epoch, out: &mut Outbox) {
        if let Some(closing) = &mut self.closing
            && closing.step == CloseStep::Sealing
            && through == closing.through
        {
            closing.sealed.insert(from);
        }
        self.advance(out);
    }

    /// Goes on to the next step, if all have answered in this one.
    pub(super) fn advance_close(&mut self, out: &mut Outbox) {
        while let Some(closing) = &mut self.closing {
            let configuration = &self.configuration;
            let mut back_ends = configuration.back_ends.keys();
            match closing.step {
                CloseStep::Draining => {
                    let front_ends = configuration.children(None);
                    let is_drained = |id: &FrontEndId| closing.drained.contains_key(id);
                    if !front_ends.iter().all(is_drained) && !planted!(CloseBeforeDrained) {
                        return;
                    }
                    let has_orphans = configuration.orphans_through > self.closed;
                    // Nothing is drawn in two epochs at a time when they take turns: what was
                    // written before this epoch of reads is closed.
                    if closing.kind == EpochKind::Reads && !has_orphans {
                        return self.end_close(out);
                    }
                    closing.step = match has_orphans {
                        true => CloseStep::Collecting,
                        false => CloseStep::Sealing,
                    };
                }
                CloseStep::Collecting => {
                    if !back_ends.all(|node| closing.collected.contains_key(node)) {
                        return;
                    }
                    closing.resolutions =
                        resolution::resolve(configuration, self.closed, &closing.collected);
                    closing.step = CloseStep::Sealing;
                }
                CloseStep::Sealing => {
                    if back_ends.all(|node| closing.sealed.contains(node)) {
                        self.end_close(out);
                    }
                    return;
                }
            }
            self.say_step(out);
        }
    }

    fn end_close(&mut self, out: &mut Outbox) {
        let Some(closing) = self.closing.take() else {
            return;
        };
        self.closed = closing.through;
        self.closes += 1;
        self.drained_last = closing.last;
        self.tuning.closed_in(closing.ticks);
        let floor = closing.drained.values().min().copied();
        self.horizon = self.horizon.max(floor.unwrap_or_default());
        let part = Part::Closed(self.closed, self.open(), self.horizon);
        let back_ends = self.configuration.back_ends.keys().copied();
        let roots = self.configuration.children(None);
        let roots = roots
            .iter()
            .filter_map(|id| Some(self.configuration.front_ends.get(id)?.node));
        for node in back_ends.chain(roots) {
            out.say(node, part.clone());
        }
    }
}

/// The decisions for back ends that have nothing to be told.
pub(super) type Resolutions = std::collections::BTreeMap<NodeId, Resolution>;
