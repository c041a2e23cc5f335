//! The epoch manager: opens and closes epochs. It runs on the leader of the council, in its term.
//!
//! A close has up to four steps, each one message to many and an answer from all:
//!
//! ```text
//!   switch(close e, draw e+1)   to front ends, flat or along a tree     ◀─ drained(e) by all
//!   collect(e)                  to back ends, only if there may be      ◀─ collected
//!                               orphans: transactions of a dead front end
//!   seal(e, resolution)         to back ends                            ◀─ sealed(e) by all
//!   closed(e)                   to all; no answer is waited for
//! ```
//!
//! Front ends draw in e+1 from the switch on, so a straggler in e delays answers and no
//! transaction's start.
//!
//! # Closed on demand
//!
//! A front end asks for a close while a client waits for one. The manager grants it when the
//! previous close has ended and began a minimum of ticks ago, or as many as [`tuning`] finds right.
//! With no client waiting, no message is sent. An epoch of reads, in which nothing is written, is
//! closed without asking the back ends.
//!
//! # Take-over
//!
//! Nothing about a close is kept anywhere but at front ends and back ends, so a new manager asks
//! the back ends how far their closing records reach, those that are being written included. Let m
//! be the farthest. A manager switches
//! to m+2 only after all back ends have sealed m, so no front end draws beyond m+2. The new
//! manager closes everything through m+2 as one, and then opens m+3. Not before: a closing record
//! that was being written may be lost with its back end, and what the next manager then finds must
//! still be at most two epochs behind the newest one that was opened. A back end that has answered in
//! the new term seals nothing more in an earlier one, and an answer that was given in an earlier
//! term does not count: else m could still grow behind the new manager's back.
//!
//! # Invariants
//!
//! 1. closed(e) is said when, under one configuration, every front end has drained e, and then
//!    every back end has sealed e. Epochs up to e then never change.
//! 2. The epoch in which front ends may draw is at most two after the newest closed one; so at
//!    most two epochs are open, but after a take-over, when the open ones are closed as one.
//! 3. A decision on members is proposed with the newest epoch in which any front end may draw,
//!    and no epoch is opened while a decision is pending.

mod close;
mod members;
mod placement;
mod resolution;
mod tuning;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use coeval_council::{NodeId, Term};
use coeval_types::planted;

use crate::configuration::Configuration;
use crate::directory::Decision;
use crate::message::{BackEndStanding, EpochKind, Part, Piece, Resolution};
use crate::outbox::Outbox;
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};
use tuning::Tuning;

/// How long epochs are, and of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// One kind of epoch (§4.2.2 of the text), of this many ticks at least.
    Unified {
        /// Ticks from one close to the next, at least.
        minimum_ticks: u32,
    },
    /// Epochs of writes and of reads take turns (§3.3.1), of this many ticks each at least.
    Alternate {
        /// Ticks of an epoch of writes.
        write_ticks: u32,
        /// Ticks of an epoch of reads.
        read_ticks: u32,
    },
    /// One kind of epoch, of a length that the manager tunes: four times as long as closes take.
    Tuned {
        /// Ticks from one close to the next, at least.
        minimum_ticks: u32,
        /// Ticks after which an epoch is closed in any case, if a client waits for it.
        maximum_ticks: u32,
    },
}

impl Rhythm {
    fn ticks(self, kind: EpochKind, tuning: Tuning) -> u32 {
        match (self, kind) {
            (Self::Unified { minimum_ticks }, _) => minimum_ticks,
            (
                Self::Tuned {
                    minimum_ticks,
                    maximum_ticks,
                },
                _,
            ) => tuning.length(minimum_ticks, maximum_ticks),
            (Self::Alternate { read_ticks, .. }, EpochKind::Reads) => read_ticks,
            (Self::Alternate { write_ticks, .. }, _) => write_ticks,
        }
    }

    /// The kind of the first epoch, or of the one after an epoch of this kind.
    fn next(self, after: Option<EpochKind>) -> EpochKind {
        match (self, after) {
            (Self::Unified { .. } | Self::Tuned { .. }, _) => EpochKind::Unified,
            (Self::Alternate { .. }, Some(EpochKind::Writes)) => EpochKind::Reads,
            (Self::Alternate { .. }, _) => EpochKind::Writes,
        }
    }
}

/// The step at which a close stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseStep {
    Draining,
    Collecting,
    Sealing,
}

/// A close under way.
#[derive(Debug)]
struct Closing {
    through: Epoch,
    /// The kind of the newest of the epochs that it closes.
    kind: EpochKind,
    /// Ticks since it began.
    ticks: u32,
    step: CloseStep,
    drained: BTreeMap<FrontEndId, EpochTimestamp>,
    /// The front end that drained last.
    last: Option<FrontEndId>,
    collected: BTreeMap<NodeId, Vec<Piece>>,
    resolutions: BTreeMap<NodeId, Resolution>,
    sealed: BTreeSet<NodeId>,
}

impl Closing {
    fn new(through: Epoch, kind: EpochKind) -> Self {
        Self {
            through,
            kind,
            ticks: 0,
            step: CloseStep::Draining,
            drained: BTreeMap::new(),
            last: None,
            collected: BTreeMap::new(),
            resolutions: BTreeMap::new(),
            sealed: BTreeSet::new(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Manager {
    term: Term,
    rhythm: Rhythm,
    configuration: Arc<Configuration>,
    /// Where back ends stand, until all have said so.
    greeting: Option<BTreeMap<NodeId, BackEndStanding>>,
    closed: Epoch,
    /// The newest epoch in which front ends draw, and its kind.
    drawing: (Epoch, EpochKind),
    closing: Option<Closing>,
    /// A client waits for the newest epoch to close.
    is_wanted: bool,
    /// Ticks since the last close began.
    since: u32,
    horizon: EpochTimestamp,
    /// Changes of members that wait, and whether one has been proposed.
    changes: VecDeque<members::Change>,
    is_proposed: bool,
    proposals: Vec<Decision>,
    /// Nodes that may have copies: their incarnation, and ticks since they have asked.
    spares: BTreeMap<NodeId, (u64, u32)>,
    /// Closes since it took over.
    closes: u64,
    /// The front end that drained last in the last close.
    drained_last: Option<FrontEndId>,
    tuning: Tuning,
    /// Partitions of which the only copy is on a back end that is dead, and ticks since the
    /// caller has said so.
    lost: BTreeMap<NodeId, (Vec<usize>, u32)>,
}

/// Ticks for which a back end with an only copy is taken for dead when the caller repeats it no more.
const LOST_TICKS: u32 = 3;

impl Manager {
    pub(crate) fn new(term: Term, rhythm: Rhythm, configuration: Arc<Configuration>) -> Self {
        Self {
            term,
            rhythm,
            configuration,
            greeting: Some(BTreeMap::new()),
            closed: Epoch(0),
            drawing: (Epoch(0), EpochKind::Unified),
            closing: None,
            is_wanted: false,
            since: 0,
            horizon: EpochTimestamp::default(),
            changes: VecDeque::new(),
            is_proposed: false,
            proposals: Vec::new(),
            spares: BTreeMap::new(),
            closes: 0,
            drained_last: None,
            tuning: Tuning::default(),
            lost: BTreeMap::new(),
        }
    }

    /// The term in which it manages.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// The newest closed epoch.
    #[must_use]
    pub fn closed(&self) -> Epoch {
        self.closed
    }

    /// Closes since it took over.
    #[must_use]
    pub fn closes(&self) -> u64 {
        self.closes
    }

    /// The front end that drained last in the last close: what delays closes.
    #[must_use]
    pub fn drained_last(&self) -> Option<FrontEndId> {
        self.drained_last
    }

    /// Front ends that have not drained, and back ends that have not sealed, of a close under
    /// way: the ones that it waits for.
    #[must_use]
    pub fn waits_for(&self) -> (Vec<FrontEndId>, Vec<NodeId>) {
        let Some(closing) = &self.closing else {
            return (Vec::new(), Vec::new());
        };
        let front_ends = self.configuration.children(None).into_iter();
        let undrained = front_ends.filter(|id| !closing.drained.contains_key(id));
        let back_ends = self.configuration.back_ends.keys();
        let done = |node: &&NodeId| match closing.step {
            CloseStep::Draining => true,
            CloseStep::Collecting => closing.collected.contains_key(node),
            CloseStep::Sealing => closing.sealed.contains(node),
        };
        let unsealed = back_ends.filter(|node| !done(node)).copied();
        (undrained.collect(), unsealed.collect())
    }

    /// Ticks from the beginning of one close to that of the next, at least.
    #[must_use]
    pub fn length_ticks(&self) -> u32 {
        self.rhythm.ticks(self.drawing.1, self.tuning)
    }

    /// Partitions of which the only copy is on a dead back end: nothing is committed before it is
    /// back.
    #[must_use]
    pub fn lost(&self) -> Vec<usize> {
        let lost = self.lost.values().flat_map(|(partitions, _)| partitions);
        lost.copied().collect()
    }

    pub(crate) fn take_proposals(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.proposals)
    }

    /// A back end says where it stands.
    pub(crate) fn standing(&mut self, from: NodeId, standing: BackEndStanding, out: &mut Outbox) {
        if let Some(heard) = &mut self.greeting {
            heard.insert(from, standing);
        }
        self.advance(out);
    }

    /// Takes over once all back ends have said where they stand.
    fn take_over(&mut self) {
        let Some(heard) = &self.greeting else {
            return;
        };
        let mut back_ends = self.configuration.back_ends.keys();
        if heard.is_empty() || !back_ends.all(|node| heard.contains_key(node)) {
            return;
        }
        let sealed = heard.values().map(|standing| standing.sealed).max();
        let closed = heard.values().map(|standing| standing.closed).max();
        // One with a whole copy that has not sealed what another knows closed has lost its disk.
        let lacks = heard.iter().filter(|(node, standing)| {
            let is_whole = self.configuration.hosts_any(**node);
            is_whole && !self.has_records(standing.sealed, closed.unwrap_or_default())
        });
        let lacks: Vec<NodeId> = lacks.map(|(node, _)| *node).collect();
        if !lacks.is_empty() {
            for node in lacks {
                let change = members::Change::Remove(node);
                let is_last = !self.configuration.only_on(node).is_empty();
                if !is_last && !self.is_proposed && !self.changes.contains(&change) {
                    self.changes.push_back(change);
                }
            }
            return;
        }
        self.greeting = None;
        self.closed = closed.unwrap_or_default();
        let through = self.closed.max(sealed.unwrap_or_default()).plus(2);
        self.drawing = (through, EpochKind::Unified);
        self.begin_close();
    }

    /// A front end's client waits for a close.
    pub(crate) fn want(
        &mut self,
        from: NodeId,
        (drawing, closed): (Epoch, Epoch),
        out: &mut Outbox,
    ) {
        if !self.lost.is_empty() {
            out.say(from, Part::Lost(self.lost()));
        }
        if self.greeting.is_some() {
            return;
        }
        self.is_wanted = true;
        if closed < self.closed || drawing < self.drawing.0 {
            out.say(from, Part::Closed(self.closed, self.open(), self.horizon));
        }
        self.advance(out);
    }

    /// The epoch in which front ends may draw now: none before the close with which it takes
    /// over has ended.
    fn open(&self) -> Option<(Epoch, EpochKind)> {
        let takes_turns = matches!(self.rhythm, Rhythm::Alternate { .. });
        let is_between = self.closing.is_some() && takes_turns;
        let has_taken_over = self.closes > 0 || planted!(OpenAtTakeOver);
        (has_taken_over && !is_between).then_some(self.drawing)
    }

    /// Time passes: a close that had to wait for it begins.
    pub(crate) fn pass_time(&mut self, out: &mut Outbox) {
        self.count_tick();
        self.advance(out);
    }

    /// A tick has passed, for what is measured in ticks. What must be said again to stay true
    /// (`lost`, `spares`) ages by the ticks at which it is said again.
    fn count_tick(&mut self) {
        self.since = self.since.saturating_add(1);
        if let Some(closing) = &mut self.closing {
            closing.ticks = closing.ticks.saturating_add(1);
        }
    }

    /// A tick of the clock: says again what was not answered.
    pub(crate) fn tick(&mut self, out: &mut Outbox) {
        self.count_tick();
        for (_, age) in self.lost.values_mut() {
            *age += 1;
        }
        self.lost.retain(|_, (_, age)| *age <= LOST_TICKS);
        for (_, age) in self.spares.values_mut() {
            *age += 1;
        }
        self.spares
            .retain(|_, (_, age)| *age <= members::SPARE_TICKS);
        if let Some(heard) = &self.greeting {
            for node in self.configuration.back_ends.keys() {
                if !heard.contains_key(node) {
                    out.say(*node, Part::Greet);
                }
            }
        }
        self.say_step(out);
        self.place();
        self.advance(out);
    }

    /// The directory has changed: a close under way begins anew under it.
    pub(crate) fn configure(&mut self, configuration: &Arc<Configuration>, out: &mut Outbox) {
        if self.configuration.version == configuration.version {
            return;
        }
        self.configuration = Arc::clone(configuration);
        for node in configuration.nodes() {
            out.say(node, Part::Configuration(Arc::clone(configuration)));
        }
        if let Some(heard) = &mut self.greeting {
            // A back end that has started again since may stand elsewhere.
            heard.clear();
            for node in configuration.back_ends.keys() {
                out.say(*node, Part::Greet);
            }
        }
        if let Some(closing) = &mut self.closing {
            let ticks = closing.ticks;
            *closing = Closing::new(closing.through, closing.kind);
            closing.ticks = ticks;
            self.say_step(out);
        }
        self.place();
        self.advance(out);
    }

    /// Does what can be done now.
    fn advance(&mut self, out: &mut Outbox) {
        self.take_over();
        self.propose();
        self.advance_close(out);
        self.is_wanted |= self.greeting.is_none() && self.copies_wait();
        if self.may_close() {
            self.begin_close();
            self.say_step(out);
            self.advance_close(out);
        }
    }
}
