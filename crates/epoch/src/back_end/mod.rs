//! The back end: the copies of partitions that one node holds, in memory and in its log.
//!
//! Operations of open epochs go into the store and into *pieces*, one for each transaction that
//! has operations here. When the manager has an epoch sealed, the pieces are written to the log
//! with a closing record, in one write and one sync; the back end says `sealed` when they are on
//! the disk. Nothing of an epoch is read before all back ends have said so.
//!
//! ```text
//!   items ──▶ store (versions of open epochs) ──┐
//!        └──▶ pieces ──seal──▶ log, sync ──▶ sealed ──▶ … closed: readable, pieces dropped
//! ```
//!
//! # Invariants
//!
//! 1. No operation of an epoch enters once its closing record is being written.
//! 2. An operation of a transaction that was aborted does not enter, whichever of the two comes
//!    first. The mark that says so is dropped when the epoch is closed: then rule 1 keeps it out.
//! 3. `sealed(e)` leaves when the log holds on disk every operation of e and before that is in
//!    the store, and none that is not.
//! 4. Pieces are kept until their epoch is closed: they may have to be written again, or told.
//!
//! A copy that joins is made in [`copying`].

mod copying;
mod imaging;
mod incoming;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coeval_council::NodeId;
use coeval_types::planted;

use crate::configuration::Configuration;
use crate::log::{Batch, Checkpoint, Recovered};
use crate::message::{BackEndStanding, CopyChunk, Frame, Item, Part, Piece, Refusal, Resolution};
use crate::operation::{Found, Key, Operation};
use crate::outbox::Outbox;
use crate::store::Store;
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};
use copying::Copying;
use imaging::Imaging;
pub use imaging::{Image, NoImage};
use incoming::Incoming;

/// Most bytes of a key, and of a value, whatever the configuration allows.
pub const MOST_BYTES: usize = 1 << 20;

/// A write to the log. The caller reports when it is durable, by [`crate::EpochNode::persisted`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWrite {
    /// Its number: writes are carried out in order.
    pub number: u64,
    /// The file to which it is appended: the one of this epoch.
    pub file: Epoch,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Bytes of a piece's keys and operations.
fn bytes_of(piece: &Piece) -> usize {
    let writes = piece.writes.iter();
    writes
        .map(|write| write.key.len() + write.operation.len())
        .sum()
}

/// A seal whose write is under way, or that has to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sealing {
    write: u64,
    through: Epoch,
    to: NodeId,
}

/// See the module.
#[derive(Debug)]
pub struct BackEnd {
    node: NodeId,
    incarnation: u64,
    configuration: Arc<Configuration>,
    stores: BTreeMap<usize, Store>,
    /// Operations of transactions whose epoch is not closed.
    pieces: BTreeMap<EpochTimestamp, Piece>,
    aborted: BTreeSet<EpochTimestamp>,
    incoming: BTreeMap<(FrontEndId, u64), Incoming>,
    /// Epochs up to here take no operations.
    sealing: Epoch,
    /// The closing record of this epoch is on the disk.
    sealed: Epoch,
    closed: Epoch,
    /// Reads below this find nothing any more.
    horizon: EpochTimestamp,
    under_way: Vec<Sealing>,
    writes: Vec<LogWrite>,
    next_write: u64,
    /// The newest file of the log, those that are being written included.
    newest_file: Epoch,
    copying: Copying,
    imaging: Imaging,
    /// Whether it has come in empty in this start.
    has_forgotten: bool,
    /// Bytes of operations that are not closed.
    used: usize,
    /// Most bytes of versions and operations.
    memory_bytes: u64,
    is_disk_full: bool,
}

impl BackEnd {
    pub(crate) fn new(node: NodeId, incarnation: u64, recovered: Recovered) -> Self {
        let mut back_end = Self {
            node,
            incarnation,
            configuration: Arc::default(),
            stores: BTreeMap::new(),
            pieces: BTreeMap::new(),
            aborted: BTreeSet::new(),
            incoming: BTreeMap::new(),
            sealing: Epoch(0),
            sealed: Epoch(0),
            closed: Epoch(0),
            horizon: EpochTimestamp::default(),
            under_way: Vec::new(),
            writes: Vec::new(),
            next_write: 1,
            newest_file: Epoch(0),
            copying: Copying::default(),
            imaging: Imaging::default(),
            has_forgotten: false,
            used: 0,
            memory_bytes: u64::MAX,
            is_disk_full: false,
        };
        back_end.restore(recovered);
        back_end
    }

    /// Whether the configuration has this incarnation.
    pub(crate) fn is_admitted(&self) -> bool {
        let configuration = &self.configuration;
        configuration.is_back_end(self.node, self.incarnation)
    }

    /// Where it stands. A closing record that is being written counts: once it is on the disk an
    /// earlier manager may be told.
    pub(crate) fn standing(&self) -> BackEndStanding {
        BackEndStanding {
            sealed: match planted!(TwoManagers) {
                true => self.sealed,
                false => self.sealing,
            },
            closed: self.closed,
        }
    }

    /// The newest epoch that it knows to be closed.
    pub(crate) fn closed(&self) -> Epoch {
        self.closed
    }

    /// The versions of a partition in closed epochs after one and through another.
    pub(crate) fn history(
        &self,
        partition: usize,
        (after, through): (Epoch, Epoch),
    ) -> Option<crate::node::History> {
        let first = EpochTimestamp::new(after.plus(1), 0, FrontEndId(0));
        let last = EpochTimestamp::end_of(through);
        let is_here = self.configuration.hosts(self.node, partition) && through <= self.closed;
        let store = self.stores.get(&partition);
        is_here.then(|| store.map_or(Vec::new(), |store| store.history(first, last)))
    }

    pub(crate) fn take_writes(&mut self) -> Vec<LogWrite> {
        std::mem::take(&mut self.writes)
    }

    pub(crate) fn configure(&mut self, configuration: &Arc<Configuration>) {
        self.configuration = Arc::clone(configuration);
        let front_ends = &configuration.front_ends;
        self.incoming.retain(|(id, incarnation), _| {
            let place = front_ends.get(id);
            place.is_some_and(|place| place.incarnation == *incarnation)
        });
        let is_enlisted = configuration.enlisted.get(&self.node) == Some(&self.incarnation);
        if is_enlisted && self.is_admitted() && !self.has_forgotten {
            self.forget();
        }
        let node = self.node;
        if self.is_admitted() {
            self.copying.configure(node, configuration);
        }
    }

    /// Forgets what its disk held: it is of an earlier membership, and lacks what was closed since.
    /// The disk forgets it with the checkpoint that ends the making of its copies; before, the
    /// council has it come in empty once more if it starts again.
    fn forget(&mut self) {
        self.has_forgotten = true;
        self.stores.clear();
        self.imaging = Imaging::default();
        self.pieces.clear();
        self.aborted.clear();
        self.used = 0;
        (self.sealing, self.sealed, self.closed) = (Epoch(0), Epoch(0), Epoch(0));
        self.horizon = EpochTimestamp::default();
    }

    /// The newest epoch whose closing record its log had at the start, or has since.
    pub(crate) fn sealed(&self) -> Epoch {
        self.sealed
    }

    /// A part of a copy that it makes.
    pub(crate) fn copied(&mut self, chunk: &CopyChunk) {
        self.copying.copied(chunk);
    }

    /// Another back end makes a copy of a partition. It is not answered before the epochs that it
    /// copies are known to be closed here.
    pub(crate) fn hand_out(
        &mut self,
        to: NodeId,
        partition: usize,
        through: Epoch,
        after: Option<Key>,
    ) -> Option<CopyChunk> {
        let configuration = &self.configuration;
        let is_asked = configuration.joining.get(&(partition, to)) == Some(&through);
        let is_closed = through <= self.closed || planted!(CopyOpenEpoch);
        if !is_asked || !is_closed || !configuration.hosts(self.node, partition) {
            return None;
        }
        let most = configuration.limits.copy_bytes as usize;
        let store = self.stores.get(&partition);
        let asked = (partition, through, after);
        Some(self.copying.hand_out(to, asked, store, self.horizon, most))
    }

    /// A part of a partition's image at the end of a closed epoch.
    ///
    /// # Errors
    /// When it has none, or none any more.
    pub(crate) fn image(
        &mut self,
        (partition, through): (usize, Epoch),
        after: Option<&Key>,
        most_bytes: usize,
    ) -> Result<Image, NoImage> {
        if !self.is_admitted() || !self.configuration.hosts(self.node, partition) {
            return Err(NoImage::NotHere);
        }
        if through > self.closed {
            return Err(NoImage::NotClosed);
        }
        if EpochTimestamp::end_of(through) < self.horizon {
            return Err(NoImage::Collected(self.horizon));
        }
        let store = self.stores.get(&partition);
        let asked = (partition, through);
        Ok(self.imaging.part(asked, after, store, most_bytes))
    }

    /// A checkpoint that has to be written: one with copies that have just been made.
    pub(crate) fn due_checkpoint(&mut self) -> Option<Checkpoint> {
        self.copying.begin_checkpoint().then(|| self.checkpoint())
    }

    /// That checkpoint was not written, and has to be tried again.
    pub(crate) fn checkpoint_failed(&mut self) {
        self.copying.failed();
    }

    /// That checkpoint is on the disk.
    pub(crate) fn checkpoint_kept(&mut self) {
        self.copying.kept();
    }

    /// Items of a front end's stream.
    pub(crate) fn take_items(
        &mut self,
        frame: &Frame,
        id: FrontEndId,
        confirmed: u64,
        items: &[(u64, Item)],
        out: &mut Outbox,
    ) {
        let place = self.configuration.front_ends.get(&id);
        let is_known = place.is_some_and(|place| {
            (place.node, place.incarnation) == (frame.from, frame.incarnation)
        });
        if !is_known && !planted!(AcceptOldConfiguration) {
            return;
        }
        let stream = (id, frame.incarnation);
        let mut incoming = self.incoming.remove(&stream).unwrap_or_default();
        incoming.confirmed(confirmed);
        for (number, item) in items {
            if !incoming.note(*number) {
                continue;
            }
            match item {
                Item::Put(piece) => {
                    if let Err(refusal) = self.put(piece) {
                        incoming.refuse(*number, refusal);
                    }
                }
                Item::Abort(at) => self.abort(*at),
            }
        }
        out.say(frame.from, incoming.part(id, frame.incarnation));
        self.incoming.insert(stream, incoming);
    }

    /// Stores operations. Ones that are there already are there once.
    fn put(&mut self, piece: &Piece) -> Result<(), Refusal> {
        // A front end that does not know yet that the epoch is closed says it again to a back end
        // that has started again. What became of it is decided.
        let is_decided = piece.at.epoch() <= self.closed;
        if is_decided || self.pieces.contains_key(&piece.at) || self.aborted.contains(&piece.at) {
            return Ok(());
        }
        if piece.at.epoch() <= self.sealing {
            return Err(Refusal::EpochClosed);
        }
        let limits = self.configuration.limits;
        let most = MOST_BYTES.min(limits.most_bytes as usize);
        for write in piece.writes.iter() {
            if write.key.len() > most || write.operation.len() > most {
                return Err(Refusal::TooLong);
            }
        }
        if (self.used + bytes_of(piece)) as u64 > limits.open_bytes {
            return Err(Refusal::NoRoom);
        }
        if self.is_disk_full {
            return Err(Refusal::DiskFull);
        }
        if self.memory() + bytes_of(piece) as u64 > self.budget_of(piece) {
            return Err(Refusal::OutOfMemory);
        }
        self.insert(piece);
        Ok(())
    }

    /// Bytes of versions and of operations that are not closed, copies that are being made included.
    pub(crate) fn memory(&self) -> u64 {
        let stores = self.stores.values().map(Store::bytes).sum::<usize>();
        (stores + self.used + self.copying.bytes()) as u64
    }

    /// What deletes may use: they make room once the versions before them are collected, and need some
    /// until then.
    fn budget_of(&self, piece: &Piece) -> u64 {
        let mut writes = piece.writes.iter();
        match writes.all(|write| write.operation == Operation::Delete) {
            true => self.memory_bytes.saturating_add(self.memory_bytes / 16),
            false => self.memory_bytes,
        }
    }

    pub(crate) fn set_memory_bytes(&mut self, most: u64) {
        self.memory_bytes = most;
    }

    pub(crate) fn set_disk_full(&mut self, is_full: bool) {
        self.is_disk_full = is_full;
    }

    fn insert(&mut self, piece: &Piece) {
        for write in piece.writes.iter() {
            let partition = self.configuration.partition_of(&write.key);
            let store = self.stores.entry(partition).or_default();
            store.insert(&write.key, piece.at, &write.operation);
        }
        let before = self.pieces.insert(piece.at, piece.clone());
        self.used += bytes_of(piece);
        self.used -= before.as_ref().map_or(0, bytes_of);
    }

    /// Takes a transaction back, and marks it.
    fn abort(&mut self, at: EpochTimestamp) {
        if at.epoch() <= self.sealing {
            return;
        }
        if !planted!(ForgetAbortMark) {
            self.aborted.insert(at);
        }
        self.remove(at, planted!(CountAborted));
    }

    fn remove(&mut self, at: EpochTimestamp, keeps_piece: bool) {
        let piece = match keeps_piece {
            true => self.pieces.get(&at).cloned(),
            false => self.pieces.remove(&at),
        };
        if !keeps_piece {
            self.used -= piece.as_ref().map_or(0, bytes_of);
        }
        for write in piece.iter().flat_map(|piece| piece.writes.iter()) {
            let partition = self.configuration.partition_of(&write.key);
            if let Some(store) = self.stores.get_mut(&partition) {
                store.remove(&write.key, at);
            }
        }
    }

    /// Orphans after a closed epoch, and up to one that is not.
    pub(crate) fn orphans(&self, closed: Epoch, through: Epoch) -> Vec<Piece> {
        let first = match planted!(ResolveLastEpochOnly) {
            true => through,
            false => closed.plus(1),
        };
        let from = EpochTimestamp::new(first, 0, FrontEndId(0));
        let pieces = self.pieces.range(from..=EpochTimestamp::end_of(through));
        let orphans = pieces.filter(|(at, _)| self.configuration.is_orphan(**at));
        orphans.map(|(_, piece)| piece.clone()).collect()
    }

    /// Seals epochs: carries out what was decided on orphans, and writes what has to be durable.
    pub(crate) fn seal(&mut self, from: NodeId, through: Epoch, resolution: &Resolution) {
        let mut changed = through > self.sealing;
        // A message that comes late, about what is closed, only has to be answered.
        let is_open = through > self.closed;
        for piece in resolution.kept.iter().filter(|_| is_open) {
            if !self.pieces.contains_key(&piece.at) || planted!(CountAborted) {
                self.insert(piece);
                changed = true;
            }
        }
        for at in &resolution.dropped {
            if self.pieces.contains_key(at) {
                self.remove(*at, false);
                changed = true;
            }
        }
        self.sealing = self.sealing.max(through);
        if changed {
            self.write_seal(through, &resolution.dropped);
        }
        let write = self.next_write - 1;
        let sealing = Sealing {
            write,
            through,
            to: from,
        };
        if !self.under_way.contains(&sealing) {
            self.under_way.push(sealing);
        }
    }

    /// Writes everything that is not closed, and the closing record.
    ///
    /// Mostly that is what the previous closing record did not cover. After a resolution it is
    /// more than that, and the log then has some of it twice, which recovery counts once.
    fn write_seal(&mut self, through: Epoch, dropped: &[EpochTimestamp]) {
        let mut batch = Batch::new(self.configuration.partitions.len());
        let pieces = self.pieces.range(..=EpochTimestamp::end_of(through));
        let is_new = |at: &EpochTimestamp| at.epoch() > self.sealed || !dropped.is_empty();
        for (at, piece) in pieces {
            if is_new(at) || self.configuration.is_orphan(*at) {
                batch.piece(piece);
            }
        }
        dropped.iter().for_each(|at| batch.dropped(*at));
        batch.close(through, self.closed, self.newest_file);
        self.newest_file = self.newest_file.max(through);
        self.writes.push(LogWrite {
            number: self.next_write,
            file: through,
            bytes: batch.finish(),
        });
        self.next_write += 1;
    }

    /// The log writes up to this number are durable.
    pub(crate) fn persisted(&mut self, number: u64) {
        for sealing in &self.under_way {
            if sealing.write <= number {
                self.sealed = self.sealed.max(sealing.through);
            }
        }
    }

    /// Says which seals are on the disk, and asks for what its copies lack. `durable` is the
    /// number of the newest durable write.
    pub(crate) fn say(
        &mut self,
        manager: Option<NodeId>,
        durable: u64,
        again: bool,
        out: &mut Outbox,
    ) {
        let early = planted!(CapWithoutFlush);
        let is_due = |sealing: &mut Sealing| sealing.write <= durable || early;
        for sealing in self.under_way.extract_if(.., is_due) {
            self.sealed = self.sealed.max(sealing.through);
            out.say(sealing.to, Part::Sealed(sealing.through));
        }
        if let Some(horizon) = self.copying.merge(self.closed, &mut self.stores) {
            self.horizon = self.horizon.max(horizon);
        }
        let configuration = &self.configuration;
        self.copying
            .say(configuration, manager, self.closed, again, out);
    }

    /// The epochs up to this one are closed, and versions below the horizon are not read.
    pub(crate) fn note_closed(&mut self, through: Epoch, horizon: EpochTimestamp) {
        if through > self.closed {
            self.closed = through;
            // A copy that is being made had no part in earlier closes.
            self.sealing = self.sealing.max(through);
            self.sealed = self.sealed.max(through);
            let open = EpochTimestamp::new(through.plus(1), 0, FrontEndId(0));
            self.pieces = self.pieces.split_off(&open);
            self.aborted = self.aborted.split_off(&open);
            self.used = self.pieces.values().map(bytes_of).sum();
        }
        if horizon.epoch() > self.horizon.epoch() {
            self.horizon = horizon;
            for store in self.stores.values_mut() {
                store.collect(horizon);
            }
        }
    }

    /// The values of keys. The front end vouches for it that their epochs are closed.
    ///
    /// # Errors
    /// When versions of that time are collected: the oldest time that can be read.
    pub(crate) fn get(
        &self,
        at: EpochTimestamp,
        keys: Vec<Key>,
    ) -> Result<Vec<(Key, Found)>, EpochTimestamp> {
        if at < self.horizon && !planted!(CollectUnderReader) {
            return Err(self.horizon);
        }
        let value = |key: Key| {
            let store = self.stores.get(&self.configuration.partition_of(&key));
            let found = store.map_or(Found::Nothing, |store| store.get(&key, at));
            (key, found)
        };
        Ok(keys.into_iter().map(value).collect())
    }
}
