//! The front end: coordinates transactions, draws their timestamps, and holds the barrier of each
//! epoch until none of its transactions is under way.
//!
//! PutAll draws a timestamp in the epoch that the manager has opened, sends each back end one
//! item with all its operations, and is *stored* once every copy has taken its item. That is all
//! of atomic commitment: one round, and no second one unless a back end refuses. The client is
//! answered when the epoch is closed, which says that all of it is on the disks.
//!
//! GetAll draws a timestamp too, or is given one, waits until every epoch up to it is closed, and
//! reads in one round.
//!
//! # Worked example (unified epochs)
//!
//! ```text
//!   switch(close 6, draw 7)   the front end draws 7.0.1 for a put, which two back ends store
//!                             a get draws 7.1.1 and waits
//!   switch(close 7, draw 8)   nothing is under way in 7: drained(7). New puts draw in 8
//!   closed(7)                 the put is answered; the get reads 7.1.1 and finds the put
//! ```
//!
//! # Invariants
//!
//! 1. After drained(e) no timestamp of e or earlier is drawn, and no item of one is on its way
//!    for the first time.
//! 2. A read at *t* leaves when every epoch up to *t* is known to be closed, whatever
//!    authorization the front end holds.
//! 3. After drained(…, floor) no read below the floor begins.

mod reads;
mod stream;
mod transaction;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use coeval_council::NodeId;
use coeval_types::planted;

use crate::answer::{Answer, Reason};
use crate::configuration::Configuration;
use crate::message::{EpochKind, Item, Part, Piece, Refusal};
use crate::operation::{Key, Write};
use crate::outbox::Outbox;
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};
use reads::Reads;
use stream::Stream;
use transaction::{Stage, Transaction};

/// Most requests of one front end that wait for a timestamp.
const MOST_WAITING: usize = 10_000;

/// See the module.
#[derive(Debug)]
pub struct FrontEnd {
    id: FrontEndId,
    incarnation: u64,
    configuration: Arc<Configuration>,
    /// The epoch in which it draws, if it may, and the kind of that epoch.
    drawing: Option<(Epoch, EpochKind)>,
    counter: u16,
    is_exhausted: bool,
    /// Nothing is drawn up to here any more.
    revoked: Epoch,
    closed: Epoch,
    transactions: BTreeMap<EpochTimestamp, Transaction>,
    streams: BTreeMap<NodeId, Stream>,
    waiting: VecDeque<(u64, Vec<Write>)>,
    reads: Reads,
    /// Reads at a given timestamp that came before it knew of any epoch.
    early: Vec<(u64, Vec<Key>, EpochTimestamp)>,
    /// The barrier that is being reported: up to this epoch.
    draining: Option<Epoch>,
    /// The barrier that was reported last, and under which configuration.
    reported: (Epoch, u64),
    /// The epoch in which it drew when it last asked for a close.
    wanted: Option<Epoch>,
    /// What the front ends below in the tree have reported, with the lowest floor.
    below: BTreeMap<FrontEndId, (Epoch, EpochTimestamp)>,
    /// No read below this begins any more.
    floor: EpochTimestamp,
    /// Timestamps at which backups read, by number.
    held: BTreeMap<u64, EpochTimestamp>,
    answers: Vec<(u64, Answer)>,
}

impl FrontEnd {
    pub(crate) fn new(id: FrontEndId, incarnation: u64) -> Self {
        Self {
            id,
            incarnation,
            configuration: Arc::default(),
            drawing: None,
            counter: 0,
            is_exhausted: false,
            revoked: Epoch(0),
            closed: Epoch(0),
            transactions: BTreeMap::new(),
            streams: BTreeMap::new(),
            waiting: VecDeque::new(),
            reads: Reads::new(incarnation),
            early: Vec::new(),
            draining: None,
            reported: (Epoch(0), 0),
            wanted: None,
            below: BTreeMap::new(),
            floor: EpochTimestamp::default(),
            held: BTreeMap::new(),
            answers: Vec::new(),
        }
    }

    pub(crate) fn id(&self) -> FrontEndId {
        self.id
    }

    /// The newest epoch that it knows to be closed.
    pub(crate) fn closed(&self) -> Epoch {
        self.closed
    }

    /// Whether the configuration has this incarnation.
    pub(crate) fn is_admitted(&self) -> bool {
        let place = self.configuration.front_ends.get(&self.id);
        place.is_some_and(|place| place.incarnation == self.incarnation)
    }

    /// Takes the answers that are there.
    pub(crate) fn take_answers(&mut self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut self.answers)
    }

    /// Requests a write-only transaction; it is answered under `handle`.
    pub(crate) fn put_all(&mut self, handle: u64, writes: Vec<Write>) {
        let keys: BTreeSet<&Key> = writes.iter().map(|write| &write.key).collect();
        if writes.is_empty() || keys.len() != writes.len() {
            self.answers.push((handle, Answer::Aborted(Reason::Form)));
        } else if self.waiting.len() >= MOST_WAITING {
            self.answers.push((handle, Answer::Aborted(Reason::Busy)));
        } else {
            self.waiting.push_back((handle, writes));
        }
    }

    /// Requests the values of keys at a timestamp of now.
    pub(crate) fn get_latest(&mut self, handle: u64, keys: Vec<Key>) {
        match self.check_read(&keys) {
            Ok(()) => self.reads.wait_for_timestamp(handle, keys),
            Err(reason) => self.answers.push((handle, Answer::Aborted(reason))),
        }
    }

    fn check_read(&self, keys: &[Key]) -> Result<(), Reason> {
        if keys.is_empty() {
            return Err(Reason::Form);
        }
        match self.reads.len() + self.early.len() >= MOST_WAITING {
            true => Err(Reason::Busy),
            false => Ok(()),
        }
    }

    /// Requests the values of keys at this timestamp.
    pub(crate) fn get_at(&mut self, handle: u64, keys: Vec<Key>, at: EpochTimestamp) {
        if !self.knows_epochs() && self.check_read(&keys).is_ok() {
            // How far ahead a timestamp may be is not known yet.
            return self.early.push((handle, keys, at));
        }
        let newest = self.drawing.map_or(self.revoked, |(epoch, _)| epoch);
        let refused = if let Err(reason) = self.check_read(&keys) {
            reason
        } else if at < self.floor {
            Reason::Collected(self.floor)
        } else if at.epoch() > newest.plus(1) {
            Reason::TooFarAhead(at)
        } else {
            // Closing the epochs up to there is all that it waits for.
            return self.reads.add(handle, keys, at, at.epoch());
        };
        self.answers.push((handle, Answer::Aborted(refused)));
    }

    /// Whether a manager has told it of any epoch.
    fn knows_epochs(&self) -> bool {
        self.drawing.is_some() || self.revoked > Epoch(0)
    }

    /// Keeps versions at the end of the newest closed epoch readable: no floor above it is reported.
    /// One that was reported before was not above it either.
    pub(crate) fn hold(&mut self, number: u64) -> Option<Epoch> {
        let is_known = self.is_admitted() && self.closed > Epoch(0);
        is_known.then(|| {
            self.held
                .insert(number, EpochTimestamp::end_of(self.closed));
            self.closed
        })
    }

    pub(crate) fn let_go(&mut self, number: u64) {
        self.held.remove(&number);
    }

    /// Gives a transaction up, if the barrier has not passed it.
    pub(crate) fn give_up(&mut self, handle: u64) {
        if let Some(index) = self.waiting.iter().position(|(other, _)| *other == handle) {
            self.waiting.remove(index);
            self.answers
                .push((handle, Answer::Aborted(Reason::GivenUp)));
            return;
        }
        let mut transactions = self.transactions.iter();
        let found = transactions.find(|(_, transaction)| transaction.handle == handle);
        if let Some((&at, transaction)) = found
            && at.epoch() > self.revoked
            && matches!(transaction.stage, Stage::Storing | Stage::Stored)
        {
            self.abort(at, Reason::GivenUp);
        }
    }

    /// A timestamp of the open epoch, if one of this kind of transaction may have one.
    fn draw(&mut self, other_than: EpochKind) -> Option<EpochTimestamp> {
        let (mut epoch, kind) = self.drawing?;
        if planted!(DrawInClosedEpoch) && self.revoked > self.closed {
            epoch = self.revoked;
        }
        if kind == other_than || self.is_exhausted {
            return None;
        }
        let at = EpochTimestamp::new(epoch, self.counter, self.id);
        match self.counter.checked_add(1) {
            Some(next) => self.counter = next,
            None => self.is_exhausted = true,
        }
        Some(at)
    }

    /// Starts what may start.
    pub(crate) fn start_waiting(&mut self) {
        while !self.waiting.is_empty()
            && let Some(at) = self.draw(EpochKind::Reads)
            && let Some((handle, writes)) = self.waiting.pop_front()
        {
            self.store(at, handle, writes);
        }
        while self.reads.waits_for_timestamp()
            && let Some(at) = self.draw(EpochKind::Writes)
        {
            let is_reads_epoch = self
                .drawing
                .is_some_and(|(_, kind)| kind == EpochKind::Reads);
            // In an epoch of reads nothing is written: the ones before it decide.
            let needs = match is_reads_epoch {
                true => at.epoch().before(),
                false => at.epoch(),
            };
            self.reads.timestamp(at, needs);
        }
    }

    fn store(&mut self, at: EpochTimestamp, handle: u64, writes: Vec<Write>) {
        let size = writes.len() as u32;
        let mut pieces: BTreeMap<NodeId, Vec<Write>> = BTreeMap::new();
        for write in writes {
            for node in self.configuration.takers_of(&write.key, at.epoch()) {
                pieces.entry(node).or_default().push(write.clone());
            }
        }
        let mut transaction = Transaction {
            handle,
            size,
            writes: pieces
                .into_iter()
                .map(|(node, writes)| (node, Arc::new(writes)))
                .collect(),
            awaits: BTreeMap::new(),
            stage: Stage::Storing,
        };
        for (node, writes) in &transaction.writes {
            if let Some(stream) = self.streams.get_mut(node) {
                let piece = Piece {
                    at,
                    size,
                    writes: Arc::clone(writes),
                };
                let number = stream.push(Item::Put(piece));
                transaction.awaits.insert(*node, number);
            }
        }
        self.transactions.insert(at, transaction);
    }

    /// Has all back ends take a transaction back. An abort may overtake its put.
    fn abort(&mut self, at: EpochTimestamp, reason: Reason) {
        let Some(transaction) = self.transactions.get_mut(&at) else {
            return;
        };
        transaction.stage = Stage::Aborting(reason);
        for node in transaction.writes.keys() {
            if let Some(stream) = self.streams.get_mut(node) {
                let number = stream.push(Item::Abort(at));
                transaction.awaits.insert(*node, number);
            }
        }
    }

    /// A back end has taken items.
    pub(crate) fn taken(
        &mut self,
        (from, back_end): (NodeId, u64),
        incarnation: u64,
        through: u64,
        refused: &[(u64, Refusal)],
    ) {
        let Some(stream) = self.streams.get_mut(&from) else {
            return;
        };
        // The answer may be an earlier start's, of either end.
        if stream.incarnation != back_end || self.incarnation != incarnation {
            return;
        }
        for (at, number, refusal) in stream.taken(through, refused) {
            let Some(transaction) = self.transactions.get_mut(&at) else {
                continue;
            };
            if transaction.awaits.get(&from) == Some(&number) {
                transaction.awaits.remove(&from);
            }
            match refusal {
                Some(refusal) if matches!(transaction.stage, Stage::Storing | Stage::Stored) => {
                    self.abort(at, Reason::Refused(refusal));
                }
                _ => self.settle(at),
            }
        }
    }

    /// Moves a transaction on that awaits nothing more.
    fn settle(&mut self, at: EpochTimestamp) {
        let Some(transaction) = self.transactions.get_mut(&at) else {
            return;
        };
        if !transaction.awaits.is_empty() {
            return;
        }
        match transaction.stage {
            Stage::Storing => {
                transaction.stage = Stage::Stored;
                if planted!(AnswerBeforeCaps) {
                    let handle = transaction.handle;
                    self.answers.push((handle, Answer::Committed(at)));
                }
            }
            Stage::Aborting(reason) => {
                transaction.stage = Stage::Aborted;
                let handle = transaction.handle;
                self.answers.push((handle, Answer::Aborted(reason)));
            }
            Stage::Stored | Stage::Aborted => {}
        }
    }

    /// The manager closes epochs, and may open one.
    pub(crate) fn switch(
        &mut self,
        close: Epoch,
        draw: Option<(Epoch, EpochKind)>,
        out: &mut Outbox,
    ) {
        self.revoked = self.revoked.max(close);
        self.draining = self.draining.max(Some(close));
        self.open(draw);
        // An earlier manager may have wanted more, and this one does not know it: what is reported
        // for all below must be said to all below.
        let close = self.revoked;
        for child in self.configuration.children(Some(self.id)) {
            if let Some(place) = self.configuration.front_ends.get(&child) {
                out.say(place.node, Part::Switch(close, draw));
            }
        }
    }

    fn open(&mut self, draw: Option<(Epoch, EpochKind)>) {
        if let Some((epoch, _)) = self.drawing
            && epoch <= self.revoked
            && !planted!(DrawInClosedEpoch)
        {
            self.drawing = None;
        }
        let place = self.configuration.front_ends.get(&self.id);
        let first = place.map_or(Epoch(u64::MAX), |place| place.first);
        if let Some((epoch, kind)) = draw
            && epoch > self.revoked
            && (epoch >= first || planted!(ReuseIncarnation))
            && self.drawing.is_none_or(|(now, _)| now < epoch)
        {
            self.drawing = Some((epoch, kind));
            if !planted!(DrawInClosedEpoch) {
                self.counter = 0;
            }
            self.is_exhausted = false;
        }
    }

    /// A front end below in the tree has drained.
    pub(crate) fn child_drained(
        &mut self,
        child: FrontEndId,
        through: Epoch,
        floor: EpochTimestamp,
    ) {
        self.below.insert(child, (through, floor));
    }

    /// Reports the barrier, once nothing holds it here and below. Said again at each tick, as
    /// long as the epochs are not closed.
    fn report(&mut self, manager: Option<NodeId>, again: bool, out: &mut Outbox) {
        let Some(through) = self.draining.filter(|through| *through > self.closed) else {
            return;
        };
        let report = (through, self.configuration.version);
        if self.reported == report && !again {
            return;
        }
        let mut open = self.transactions.range(..=EpochTimestamp::end_of(through));
        if open.any(|(_, transaction)| transaction.holds_barrier()) || !self.is_admitted() {
            return;
        }
        let own = self.reads.oldest(planted!(CollectUnderReader));
        let mut floor = own.min(self.configuration.history_before(self.closed));
        floor = self.held.values().copied().fold(floor, EpochTimestamp::min);
        self.floor = self.floor.max(floor);
        for child in self.configuration.children(Some(self.id)) {
            match self.below.get(&child) {
                Some((drained, below)) if *drained >= through => floor = floor.min(*below),
                _ => return,
            }
        }
        let parent = self.configuration.parent(self.id);
        let parent = parent.and_then(|parent| self.configuration.front_ends.get(&parent));
        let to = parent.map(|place| place.node).or(manager);
        if let Some(to) = to {
            self.reported = report;
            out.say(to, Part::Drained(self.id, through, floor));
        }
    }

    /// Epochs are closed, and one may be open.
    pub(crate) fn note_closed(
        &mut self,
        through: Epoch,
        draw: Option<(Epoch, EpochKind)>,
        horizon: EpochTimestamp,
        out: &mut Outbox,
    ) {
        if through > self.closed {
            for child in self.configuration.children(Some(self.id)) {
                if let Some(place) = self.configuration.front_ends.get(&child) {
                    out.say(place.node, Part::Closed(through, draw, horizon));
                }
            }
        }
        self.closed = self.closed.max(through);
        self.revoked = self.revoked.max(through);
        self.floor = self.floor.max(horizon);
        self.answers.extend(self.reads.refuse_below(horizon));
        self.open(draw);
        let open = EpochTimestamp::new(self.closed.plus(1), 0, FrontEndId(0));
        let rest = self.transactions.split_off(&open);
        for (at, transaction) in std::mem::replace(&mut self.transactions, rest) {
            if transaction.stage == Stage::Stored && !planted!(AnswerBeforeCaps) {
                self.answers
                    .push((transaction.handle, Answer::Committed(at)));
            }
        }
    }

    /// Whether a client waits for an epoch to be closed or opened.
    fn wants(&self) -> bool {
        let is_asked = !self.waiting.is_empty() || !self.early.is_empty();
        is_asked || !self.transactions.is_empty() || self.reads.wait(self.closed)
    }

    /// Says what is to be said now; at a tick, also what has not been answered.
    pub(crate) fn say(&mut self, manager: Option<NodeId>, again: bool, out: &mut Outbox) {
        if !self.is_admitted() {
            if let Some(manager) = manager.filter(|_| again) {
                out.say(manager, Part::Join(self.id));
            }
            return;
        }
        if self.knows_epochs() {
            for (handle, keys, at) in std::mem::take(&mut self.early) {
                self.get_at(handle, keys, at);
            }
        }
        self.start_waiting();
        for (node, stream) in &mut self.streams {
            if let Some(part) = stream.part(self.id, again) {
                out.say(*node, part);
            }
        }
        let closed = match planted!(ReadInTheGap) {
            // Bug: an epoch that is drained here counts as closed everywhere.
            true => self.revoked.max(self.closed),
            false => self.closed,
        };
        let is_closed = |needs: Epoch| needs <= closed || planted!(ReadOpenEpoch);
        self.reads
            .send(self.id, is_closed, &self.configuration, again, out);
        self.report(manager, again, out);
        let drawing = self.drawing.map_or(self.revoked, |(epoch, _)| epoch);
        if let Some(manager) = manager
            && (again || self.wanted != Some(drawing))
            && self.wants()
        {
            self.wanted = Some(drawing);
            out.say(manager, Part::Want(drawing, self.closed));
        }
    }

    /// No epoch is closed, for want of these partitions: what has not begun is refused. What has
    /// is answered when they are back.
    pub(crate) fn lost(&mut self, partitions: &[usize]) {
        let Some(&partition) = partitions.first() else {
            return;
        };
        let refused = || Answer::Aborted(Reason::Lost(partition));
        let waiting = self.waiting.drain(..);
        self.answers
            .extend(waiting.map(|(handle, _)| (handle, refused())));
        let waiting = self.reads.refuse_waiting(self.closed);
        self.answers
            .extend(waiting.into_iter().map(|handle| (handle, refused())));
    }

    /// A back end has answered a read.
    pub(crate) fn got(&mut self, read: u64, values: Vec<(Key, crate::Found)>) {
        if let Some(done) = self.reads.got(read, values) {
            self.answers.push(done);
        }
    }

    /// A back end cannot answer a read any more.
    pub(crate) fn too_old(&mut self, read: u64, oldest: EpochTimestamp) {
        let refused = self.reads.refuse(read, Reason::Collected(oldest));
        self.answers.extend(refused);
    }

    /// Takes over a configuration: back ends that are gone are waited for no longer, and new
    /// incarnations get everything that is not closed again.
    ///
    /// A copy that is being made gets nothing of earlier transactions: it takes what is of later
    /// epochs than any in which one was drawn under an earlier configuration.
    pub(crate) fn configure(&mut self, configuration: &Arc<Configuration>) {
        self.configuration = Arc::clone(configuration);
        self.below.clear();
        let back_ends = &configuration.back_ends;
        for (at, transaction) in &mut self.transactions {
            let takes = |node: NodeId, write: &Write| {
                let partition = configuration.partition_of(&write.key);
                configuration.takes(node, partition, at.epoch())
            };
            let is_there = |node: &NodeId| back_ends.contains_key(node);
            transaction.writes.retain(|node, writes| {
                is_there(node) && writes.iter().any(|write| takes(*node, write))
            });
            let writes = &transaction.writes;
            transaction
                .awaits
                .retain(|node, _| writes.contains_key(node));
        }
        self.streams
            .retain(|node, stream| back_ends.get(node) == Some(&stream.incarnation));
        for (&node, &incarnation) in back_ends {
            if !self.streams.contains_key(&node) {
                let mut stream = Stream::new(incarnation);
                self.send_again(node, &mut stream);
                self.streams.insert(node, stream);
            }
        }
        let all: Vec<EpochTimestamp> = self.transactions.keys().copied().collect();
        for at in all {
            self.settle(at);
        }
        self.reads.ask_again();
    }

    /// Puts the items of all transactions that are not closed into a new stream.
    fn send_again(&mut self, node: NodeId, stream: &mut Stream) {
        for (&at, transaction) in &mut self.transactions {
            let Some(writes) = transaction.writes.get(&node) else {
                continue;
            };
            let item = match transaction.stage {
                Stage::Storing | Stage::Stored => Item::Put(Piece {
                    at,
                    size: transaction.size,
                    writes: Arc::clone(writes),
                }),
                Stage::Aborting(_) | Stage::Aborted => Item::Abort(at),
            };
            let number = stream.push(item);
            transaction.awaits.insert(node, number);
        }
    }
}
