//! The registrations of one logical range: a fixed ring of slots.
//!
//! # A registration's life
//!
//! ```text
//!  claim      position = head++                     the slot's old tenant has drawn
//!  publish    footprint, state = DRAWING, sequence = position + 1
//!  fence ── draw the commit timestamp ── fence
//!  drawn      state = commit timestamp              from here on it may be overwritten
//!  aborted    state = ABORTED                       only when validation failed
//! ```
//!
//! A validator has drawn its own timestamp, fenced, and then looks at every
//! position from its predicate's start to the head:
//!
//! - *Not published*: its fence came before the writer's, so the writer draws
//!   later and gets a larger timestamp. No conflict.
//! - *Drawing*: the number may be smaller or larger. The validator waits; the
//!   writer is between two instructions and waits for nobody that validates.
//! - *Drawn*: a conflict if the number lies between the validator's snapshot and
//!   its own timestamp, and the footprint meets the predicate.
//! - *Overwritten*: cleared if everything dropped from the ring is within the
//!   snapshot, else the predicate cannot be decided: overflow.
//!
//! # Two cursors
//!
//! `dropped`: every position before it has drawn, and the largest of their
//! timestamps is kept; only these may be overwritten. `settled`: the same, but
//! moved by readers, and only past timestamps within their snapshot; a predicate
//! starts there. Where it has been is marked ([`prefix`]), so that a reader finds its
//! start without a lock, and a reader with an older snapshot finds one too. One that is
//! older than all marks starts at the dropped cursor, which costs it time, not
//! correctness.
//!
//! Invariants: `dropped <= settled <= head`; a slot at or after `dropped` is
//! never overwritten, so a slot that has not drawn never is.
//!
//! # A ring that follows another
//!
//! The ring of a range that was made from others starts behind position 0, which stands
//! for all that it does not know: whoever asks for something as old finds that position
//! overwritten, and the largest timestamp that was there.

mod prefix;

use std::sync::OnceLock;

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::atomic::{AtomicU64, Ordering, fence};
use coeval_memory::sync::{Backoff, Mutex};
use coeval_types::{Timestamp, TransactionId, planted};

use self::prefix::{Mark, Marks, Prefix};
use super::account::Account;
use super::committer::Committer;
use super::footprint::{Footprint, WORDS};

/// A slot's state before its owner has drawn a timestamp.
const DRAWING: u64 = 0;
/// A slot's state when its owner gave up after drawing.
const ABORTED: u64 = u64::MAX;
/// A slot's sequence while it is being written.
const BUSY: u64 = 0;

/// One cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// Position + 1 of the registration it holds.
    sequence: AtomicU64,
    state: AtomicU64,
    owner: AtomicU64,
    shape: AtomicU64,
    words: [AtomicU64; WORDS],
}

#[derive(Debug)]
struct Cursors {
    dropped: Prefix,
    settled: Prefix,
    /// Which mark was moved last.
    mark: usize,
}

/// What a validator reads in a slot.
enum Found {
    Unpublished,
    Overwritten,
    Registration {
        owner: TransactionId,
        state: u64,
        footprint: Footprint,
    },
}

/// Why a predicate cannot be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This transaction wrote in it.
    Conflict(TransactionId),
    /// The ring went round since it was made.
    Overflow,
}

/// A registration that another ring has to know as well.
#[derive(Debug)]
pub(crate) struct Survivor {
    owner: TransactionId,
    timestamp: u64,
    pub(crate) footprint: Footprint,
}

/// What a ring leaves to those that follow it.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(crate) survivors: Vec<Survivor>,
    /// Nobody else has drawn a timestamp above this one.
    newest: u64,
}

/// A ring of registrations.
#[derive(Debug)]
pub struct Ring {
    capacity: u64,
    /// The first position that is given out.
    first: u64,
    /// `cursors.dropped`, to be read without the mutex.
    dropped: Mark,
    /// Made when they are first written, a segment at a time: most ranges of a young
    /// database have few registrations, or none.
    segments: Box<[OnceLock<Box<[Slot]>>]>,
    account: Account,
    head: CachePadded<AtomicU64>,
    marks: Marks,
    cursors: Mutex<Cursors>,
}

/// Slots made at once.
const SEGMENT: usize = 64;
/// A reader that has walked past so many settled slots moves the settled cursor.
const WALK: u64 = 16;

impl Ring {
    /// A ring that knows of everybody who registers from the beginning of its space.
    pub(crate) fn new(capacity: usize, account: Account) -> Self {
        Self::starting(0, capacity, account)
    }

    /// A ring of no range, for all spaces, whose memory is on no account.
    #[cfg(feature = "comparators")]
    #[must_use]
    pub fn of_all_spaces(capacity: usize) -> Self {
        Self::new(capacity, Account::default())
    }

    /// A ring that follows others, from which it has yet to [`Ring::inherit`].
    pub(crate) fn following(capacity: usize, account: Account) -> Self {
        Self::starting(1, capacity, account)
    }

    fn starting(first: u64, capacity: usize, account: Account) -> Self {
        assert!(capacity >= 4, "a ring has at least four slots");
        let start = Prefix {
            position: first,
            newest: 0,
        };
        Self {
            capacity: capacity as u64,
            first,
            dropped: Mark::new(start),
            segments: (0..capacity.div_ceil(SEGMENT))
                .map(|_| OnceLock::new())
                .collect(),
            account,
            head: CachePadded(AtomicU64::new(first)),
            marks: Marks::new(start),
            cursors: Mutex::new(Cursors {
                dropped: start,
                settled: start,
                mark: 0,
            }),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Bytes of the list of segments.
    pub(crate) fn directory_bytes(&self) -> usize {
        size_of_val(&*self.segments)
    }

    /// Bytes that its slots take now.
    pub(crate) fn slot_bytes(&self) -> usize {
        let made = self.segments.iter().filter(|slots| slots.get().is_some());
        made.count() * SEGMENT * size_of::<Slot>()
    }

    fn slot(&self, position: u64) -> &Slot {
        let at = (position % self.capacity) as usize;
        let segment = self.segments[at / SEGMENT].get_or_init(|| {
            self.account.add(SEGMENT * size_of::<Slot>());
            (0..SEGMENT).map(|_| Slot::default()).collect()
        });
        &segment[at % SEGMENT]
    }

    /// How many registrations there have been.
    pub(crate) fn registrations(&self) -> u64 {
        self.head() - self.first
    }

    /// The next position.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::SeqCst)
    }

    /// Registers a write and returns its position. The owner must then draw its
    /// timestamp, waiting for nobody, and say so with [`Ring::drawn`].
    pub fn register(&self, owner: TransactionId, footprint: &Footprint) -> u64 {
        let position = self.head.fetch_add(1, Ordering::SeqCst);
        if position >= self.dropped.position() + self.capacity {
            self.make_room(position);
        }
        let slot = self.slot(position);
        // Another claimant of this slot, one round earlier, has published and
        // drawn: its position is dropped. So this is the slot's only writer. Whoever
        // sees that it is busy must also see that the position is dropped, and with
        // which newest timestamp, or takes the other for one who has not published.
        slot.sequence.store(BUSY, Ordering::Release);
        fence(Ordering::Release);
        slot.state.store(DRAWING, Ordering::Relaxed);
        slot.owner.store(owner.0, Ordering::Relaxed);
        slot.shape.store(footprint.shape, Ordering::Relaxed);
        for (word, value) in slot.words.iter().zip(footprint.words) {
            word.store(value, Ordering::Relaxed);
        }
        slot.sequence.store(position + 1, Ordering::Release);
        position
    }

    /// Publishes the timestamp drawn for a registration.
    pub fn drawn(&self, position: u64, timestamp: Timestamp) {
        let slot = self.slot(position);
        slot.state.store(timestamp.to_bits(), Ordering::Release);
    }

    /// Takes a registration back whose owner failed after drawing, so that it
    /// hurts nobody. By compare-and-swap: the slot may have been overwritten, and
    /// a timestamp is never drawn twice.
    pub fn aborted(&self, position: u64, timestamp: Timestamp) {
        let slot = self.slot(position);
        let _ = slot.state.compare_exchange(
            timestamp.to_bits(),
            ABORTED,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Moves the dropped cursor until `position` may be used, and a quarter of the
    /// ring further if what is there has drawn, so that this happens seldom.
    #[cold]
    fn make_room(&self, position: u64) {
        let needed = position + 1 - self.capacity;
        let mut backoff = Backoff::default();
        loop {
            let mut cursors = self.cursors.lock().expect("no panic in a ring");
            let wanted = (needed + self.capacity / 4).min(position);
            while cursors.dropped.position < wanted {
                let Some(newest) = self.drawn_at(cursors.dropped.position) else {
                    break;
                };
                cursors.dropped.position += 1;
                cursors.dropped.newest = cursors.dropped.newest.max(newest);
            }
            if cursors.settled.position < cursors.dropped.position {
                cursors.settled = cursors.dropped;
                self.mark(&mut cursors);
            }
            self.dropped.set(cursors.dropped);
            if cursors.dropped.position >= needed {
                return;
            }
            drop(cursors);
            backoff.wait();
        }
    }

    fn mark(&self, cursors: &mut Cursors) {
        let settled = cursors.settled;
        self.marks.advance(&mut cursors.mark, settled);
    }

    /// The timestamp drawn at a position, 0 for one that gave up, or `None` when it has
    /// not drawn yet or is overwritten.
    fn drawn_at(&self, position: u64) -> Option<u64> {
        let slot = self.slot(position);
        if slot.sequence.load(Ordering::Acquire) != position + 1 {
            return None;
        }
        let state = slot.state.load(Ordering::Acquire);
        fence(Ordering::Acquire);
        if slot.sequence.load(Ordering::Relaxed) != position + 1 {
            return None;
        }
        match state {
            DRAWING => None,
            ABORTED => Some(0),
            timestamp => Some(timestamp),
        }
    }

    /// Where a predicate of a transaction with this snapshot starts: every earlier
    /// registration has drawn a timestamp within the snapshot, or is dropped.
    pub fn first_unsettled(&self, snapshot: Timestamp) -> u64 {
        let snapshot = snapshot.to_bits();
        let Some(start) = self.marks.start(snapshot) else {
            // Where even what was dropped is not within the snapshot, the first
            // position ever: it has been overwritten, which says overflow.
            let dropped = self.dropped.get();
            return if dropped.newest > snapshot {
                0
            } else {
                dropped.position
            };
        };
        let end = self.head().min(start + WALK);
        let settled = |position: u64| {
            let drawn = self.drawn_at(position);
            drawn.is_some_and(|timestamp| timestamp <= snapshot)
        };
        let at = (start..end).find(|position| !settled(*position));
        let at = at.unwrap_or(end);
        if at < start + WALK {
            return at;
        }
        // Readers do not stand in line for what only saves time.
        let Ok(mut cursors) = self.cursors.try_lock() else {
            return at;
        };
        if cursors.settled.newest > snapshot {
            return at;
        }
        let head = self.head();
        while cursors.settled.position < head
            && let Some(drawn) = self.drawn_at(cursors.settled.position)
            && drawn <= snapshot
        {
            cursors.settled.position += 1;
            cursors.settled.newest = cursors.settled.newest.max(drawn);
        }
        self.mark(&mut cursors);
        cursors.settled.position.max(at)
    }

    /// What the rings that follow this one have to know of the registrations before
    /// `head`, when no snapshot is older than `horizon`. `None` while one of these
    /// registrations has not drawn yet.
    pub(crate) fn legacy(&self, head: u64, horizon: Timestamp) -> Option<Legacy> {
        // Nothing is overwritten while the mutex is held.
        let cursors = self.cursors.lock().expect("no panic in a ring");
        let mut legacy = Legacy {
            survivors: Vec::new(),
            newest: cursors.dropped.newest,
        };
        for position in cursors.dropped.position..head {
            match self.read(position) {
                Found::Unpublished | Found::Registration { state: DRAWING, .. } => {
                    #[cfg(shuttle)]
                    if super::faults::COPY_UNDRAWN.is_there() {
                        continue;
                    }
                    return None;
                }
                Found::Overwritten => unreachable!("it is not dropped"),
                Found::Registration { state: ABORTED, .. } => {}
                Found::Registration {
                    owner,
                    state: timestamp,
                    footprint,
                } => {
                    if timestamp <= horizon.to_bits() {
                        legacy.newest = legacy.newest.max(timestamp);
                    } else {
                        legacy.survivors.push(Survivor {
                            owner,
                            timestamp,
                            footprint,
                        });
                    }
                }
            }
        }
        Some(legacy)
    }

    /// Takes over what is known of those who have no slot any more.
    pub(crate) fn inherit(&self, legacy: &Legacy) {
        let mut cursors = self.cursors.lock().expect("no panic in a ring");
        let newest = legacy.newest;
        cursors.dropped.newest = cursors.dropped.newest.max(newest);
        cursors.settled.newest = cursors.settled.newest.max(newest);
        self.dropped.raise(newest);
        self.marks.raise(newest);
    }

    /// Registers what another ring knows.
    pub(crate) fn copy(&self, survivor: &Survivor) {
        let position = self.register(survivor.owner, &survivor.footprint);
        self.drawn(position, Timestamp::from_bits(survivor.timestamp));
    }

    fn read(&self, position: u64) -> Found {
        let slot = self.slot(position);
        let sequence = slot.sequence.load(Ordering::Acquire);
        if sequence > position + 1 {
            return Found::Overwritten;
        }
        if sequence != position + 1 {
            // Being written: by this position's owner or, if the position is
            // dropped already, by a later one's.
            return if position < self.dropped.position() {
                Found::Overwritten
            } else {
                Found::Unpublished
            };
        }
        let state = slot.state.load(Ordering::Acquire);
        let owner = TransactionId(slot.owner.load(Ordering::Relaxed));
        let mut words = [0; WORDS];
        for (value, word) in words.iter_mut().zip(&slot.words) {
            *value = word.load(Ordering::Relaxed);
        }
        let footprint = Footprint {
            shape: slot.shape.load(Ordering::Relaxed),
            words,
        };
        fence(Ordering::Acquire);
        // To be told that it is overwritten comes with what the dropped cursor says then.
        if slot.sequence.load(Ordering::Acquire) != position + 1 {
            return Found::Overwritten;
        }
        Found::Registration {
            owner,
            state,
            footprint,
        }
    }

    /// [`Ring::first_unsettled`], found by looking at every registration that somebody whose snapshot is
    /// `oldest` or later may have to meet.
    #[cfg(feature = "comparators")]
    pub fn first_unsettled_of_all(
        &self,
        oldest: Timestamp,
        snapshot: Timestamp,
        mut look: impl FnMut(TransactionId),
    ) -> u64 {
        let head = self.head();
        let first = self.first_unsettled(oldest);
        let kept = first.max(head.saturating_sub(self.capacity));
        let mut start = head;
        for position in kept..head {
            let settled = match self.read(position) {
                Found::Registration { owner, state, .. } => {
                    look(owner);
                    state == ABORTED || state != DRAWING && state <= snapshot.to_bits()
                }
                Found::Unpublished | Found::Overwritten => false,
            };
            if !settled {
                start = start.min(position);
            }
        }
        if kept > first {
            // Some are lost to `oldest`, and perhaps to `snapshot` as well.
            return self.first_unsettled(snapshot).min(start);
        }
        start
    }

    /// Whether nobody else wrote, with a timestamp between the committer's snapshot and
    /// its own, what `meets` says yes to; it is asked of each who drew such a timestamp.
    /// Then says how many it has said no to. `start` is what [`Ring::first_unsettled`]
    /// said for the snapshot.
    ///
    /// # Errors
    /// When it says yes, or the ring has gone round.
    pub fn validate(
        &self,
        start: u64,
        committer: Committer,
        mut meets: impl FnMut(TransactionId, &Footprint) -> bool,
    ) -> Result<u64, Failure> {
        let Committer { id, snapshot, own } = committer;
        let mut elsewhere = 0;
        let head = self.head();
        let start = start + u64::from(planted!(WrongSlot));
        for position in start..head {
            let mut backoff = Backoff::default();
            loop {
                match self.read(position) {
                    Found::Unpublished => break,
                    Found::Overwritten => {
                        if self.dropped.get().newest > snapshot.to_bits() {
                            return Err(Failure::Overflow);
                        }
                        break;
                    }
                    Found::Registration {
                        owner,
                        state,
                        footprint,
                    } => {
                        if owner == id || state == ABORTED {
                            break;
                        }
                        if state == DRAWING {
                            backoff.wait();
                            continue;
                        }
                        if state > snapshot.to_bits() && state < own.to_bits() {
                            if meets(owner, &footprint) {
                                return Err(Failure::Conflict(owner));
                            }
                            elsewhere += 1;
                        }
                        break;
                    }
                }
            }
        }
        Ok(elsewhere)
    }
}

#[cfg(all(test, shuttle))]
#[path = "models.rs"]
mod shuttled;
#[cfg(all(test, not(shuttle)))]
mod tests;
