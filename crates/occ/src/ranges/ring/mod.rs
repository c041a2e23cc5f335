//! The ring of registrations of one logical range: a fixed number of slots, each with the
//! footprint and the commit timestamp of a recent writer.
//!
//! # A registration's life cycle
//!
//! ```text
//!  claim      position = head++                     the slot's old owner has its timestamp
//!  publish    footprint, state = RESERVING, sequence = position + 1
//!  fence ── be assigned the commit timestamp ── fence
//!  assigned   state = commit timestamp              from here on it may be overwritten
//!  aborted    state = ABORTED                       only when validation failed
//! ```
//!
//! A validator is assigned its own timestamp, fences, and then reads every position from
//! its predicate's start to the head:
//!
//! - *Not published*: the validator's fence came before the writer's, so the writer is
//!   assigned its timestamp later and gets a larger one. No conflict.
//! - *Reserving*: the writer's timestamp may be smaller or larger. The validator waits; the
//!   writer is between two instructions and waits for no validator.
//! - *Assigned*: a conflict if the timestamp lies between the validator's snapshot and its
//!   own timestamp, and the footprint meets the predicate.
//! - *Overwritten*: no conflict if everything dropped from the ring is within the
//!   snapshot, else the predicate cannot be decided: overflow.
//!
//! # Two cursors
//!
//! `dropped`: every position before it has a timestamp, and the largest of these
//! timestamps is kept; only these positions may be overwritten. `settled`: the same, but
//! moved by readers, and only past timestamps within their snapshot; a predicate starts
//! there. Its earlier positions are kept as marks ([`prefix`]), so that a reader finds
//! its start without a lock, and a reader with an older snapshot finds one too. A reader
//! older than all marks starts at the dropped cursor, which costs it time, not
//! correctness.
//!
//! Invariants: `dropped <= settled <= head`; a slot at or after `dropped` is never
//! overwritten, so a slot without timestamp never is.
//!
//! # A ring that succeeds another
//!
//! The ring of a range that replaced others starts after position 0, which stands for
//! everything that the ring does not know: a validator that needs something that old
//! finds that position overwritten, and the largest timestamp dropped before.

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

/// A slot's state before its owner is assigned a timestamp.
const RESERVING: u64 = 0;
/// A slot's state when its owner failed after its timestamp was assigned.
const ABORTED: u64 = u64::MAX;
/// A slot's sequence while it is being written.
const BUSY: u64 = 0;

/// A registration's slot: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// Position of the registration in the slot, plus 1.
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
    /// The mark that was moved last.
    mark: usize,
}

/// Result of reading a position.
enum SlotContent {
    Unpublished,
    Overwritten,
    Registration {
        owner: TransactionId,
        state: u64,
        footprint: Footprint,
    },
}

/// Why a predicate fails validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This transaction wrote a key of the predicate.
    Conflict(TransactionId),
    /// The ring has wrapped around since the scan.
    Overflow,
}

/// A registration that must be copied to another ring.
#[derive(Debug)]
pub(crate) struct Survivor {
    owner: TransactionId,
    timestamp: u64,
    pub(crate) footprint: Footprint,
}

/// Knowledge that a ring passes on to its successors.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(crate) survivors: Vec<Survivor>,
    /// Largest timestamp of all registrations that are not survivors.
    newest: u64,
}

/// A ring of registrations.
#[derive(Debug)]
pub struct Ring {
    capacity: u64,
    /// The first position that a writer can claim.
    first: u64,
    /// A copy of `cursors.dropped` that is read without the mutex.
    dropped: Mark,
    /// Allocated when they are first written, a segment at a time: most ranges of a young
    /// database have few registrations, or none.
    segments: Box<[OnceLock<Box<[Slot]>>]>,
    account: Account,
    head: CachePadded<AtomicU64>,
    marks: Marks,
    cursors: Mutex<Cursors>,
}

/// Slots allocated at once.
const SEGMENT: usize = 64;
/// Settled slots that a reader walks past before it moves the settled cursor.
const WALK: u64 = 16;

impl Ring {
    /// A ring that knows every writer since its space was created.
    pub(crate) fn new(capacity: usize, account: Account) -> Self {
        Self::starting(0, capacity, account)
    }

    /// A ring that belongs to no range and serves all spaces; its memory is not accounted
    /// for.
    #[cfg(feature = "comparators")]
    #[must_use]
    pub fn of_all_spaces(capacity: usize) -> Self {
        Self::new(capacity, Account::default())
    }

    /// A ring that succeeds others; the balancer must still call [`Ring::inherit`].
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

    /// Bytes of the slots allocated so far.
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

    /// Number of registrations ever made.
    pub(crate) fn registrations(&self) -> u64 {
        self.head() - self.first
    }

    /// The next position to be claimed.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::SeqCst)
    }

    /// Registers a write and returns its position. The owner must then be assigned its
    /// timestamp without waiting for any other transaction, and publish it with
    /// [`Ring::assigned`].
    pub fn register(&self, owner: TransactionId, footprint: &Footprint) -> u64 {
        let position = self.head.fetch_add(1, Ordering::SeqCst);
        if position >= self.dropped.position() + self.capacity {
            self.make_room(position);
        }
        let slot = self.slot(position);
        // The slot's claimant of one round earlier has published and has its timestamp:
        // its position is dropped. So this thread is the slot's only writer. A reader
        // that sees the slot busy must also see that the position is dropped, and with
        // which newest timestamp; otherwise it would take the old claimant for one that
        // has not published.
        slot.sequence.store(BUSY, Ordering::Release);
        fence(Ordering::Release);
        slot.state.store(RESERVING, Ordering::Relaxed);
        slot.owner.store(owner.0, Ordering::Relaxed);
        slot.shape.store(footprint.shape, Ordering::Relaxed);
        for (word, value) in slot.words.iter().zip(footprint.words) {
            word.store(value, Ordering::Relaxed);
        }
        slot.sequence.store(position + 1, Ordering::Release);
        position
    }

    /// Publishes the timestamp assigned to a registration.
    pub fn assigned(&self, position: u64, timestamp: Timestamp) {
        let slot = self.slot(position);
        slot.state.store(timestamp.to_bits(), Ordering::Release);
    }

    /// Withdraws a registration whose owner failed after its timestamp was assigned, so
    /// that it causes no conflict. By compare-and-swap: the slot may have been
    /// overwritten, and no timestamp is assigned twice.
    pub fn aborted(&self, position: u64, timestamp: Timestamp) {
        let slot = self.slot(position);
        let _ = slot.state.compare_exchange(
            timestamp.to_bits(),
            ABORTED,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Moves the dropped cursor until `position` may be used, and up to a quarter of the
    /// ring further over positions that have timestamps, so that this happens seldom.
    #[cold]
    fn make_room(&self, position: u64) {
        let needed = position + 1 - self.capacity;
        let mut backoff = Backoff::default();
        loop {
            let mut cursors = self.cursors.lock().expect("no panic in a ring");
            let wanted = (needed + self.capacity / 4).min(position);
            while cursors.dropped.position < wanted {
                let Some(newest) = self.assigned_at(cursors.dropped.position) else {
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

    /// The timestamp at a position, 0 for an aborted one, or `None` when it has no
    /// timestamp yet or is overwritten.
    fn assigned_at(&self, position: u64) -> Option<u64> {
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
            RESERVING => None,
            ABORTED => Some(0),
            timestamp => Some(timestamp),
        }
    }

    /// The position at which a predicate with this snapshot starts: every earlier
    /// registration has a timestamp within the snapshot, or is dropped.
    pub fn first_unsettled(&self, snapshot: Timestamp) -> u64 {
        let snapshot = snapshot.to_bits();
        let Some(start) = self.marks.start(snapshot) else {
            // Where even a dropped timestamp is not within the snapshot, the predicate
            // starts at position 0, which is overwritten and so reports an overflow.
            let dropped = self.dropped.get();
            return if dropped.newest > snapshot {
                0
            } else {
                dropped.position
            };
        };
        let end = self.head().min(start + WALK);
        let settled = |position: u64| {
            let assigned = self.assigned_at(position);
            assigned.is_some_and(|timestamp| timestamp <= snapshot)
        };
        let at = (start..end).find(|position| !settled(*position));
        let at = at.unwrap_or(end);
        if at < start + WALK {
            return at;
        }
        // Moving the cursor only saves time, so readers do not wait for it.
        let Ok(mut cursors) = self.cursors.try_lock() else {
            return at;
        };
        if cursors.settled.newest > snapshot {
            return at;
        }
        let head = self.head();
        while cursors.settled.position < head
            && let Some(assigned) = self.assigned_at(cursors.settled.position)
            && assigned <= snapshot
        {
            cursors.settled.position += 1;
            cursors.settled.newest = cursors.settled.newest.max(assigned);
        }
        self.mark(&mut cursors);
        cursors.settled.position.max(at)
    }

    /// The registrations before `head` that successor rings must know, when no snapshot
    /// is older than `horizon`. `None` while one of these registrations has no timestamp
    /// yet.
    pub(crate) fn legacy(&self, head: u64, horizon: Timestamp) -> Option<Legacy> {
        // No slot from `dropped` on is overwritten while the mutex is held.
        let cursors = self.cursors.lock().expect("no panic in a ring");
        let mut legacy = Legacy {
            survivors: Vec::new(),
            newest: cursors.dropped.newest,
        };
        for position in cursors.dropped.position..head {
            match self.read(position) {
                SlotContent::Unpublished
                | SlotContent::Registration {
                    state: RESERVING, ..
                } => {
                    #[cfg(shuttle)]
                    if super::faults::COPY_UNASSIGNED.is_there() {
                        continue;
                    }
                    return None;
                }
                SlotContent::Overwritten => unreachable!("it is not dropped"),
                SlotContent::Registration { state: ABORTED, .. } => {}
                SlotContent::Registration {
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

    /// Adopts a predecessor's largest timestamp of registrations that are not copied.
    pub(crate) fn inherit(&self, legacy: &Legacy) {
        let mut cursors = self.cursors.lock().expect("no panic in a ring");
        let newest = legacy.newest;
        cursors.dropped.newest = cursors.dropped.newest.max(newest);
        cursors.settled.newest = cursors.settled.newest.max(newest);
        self.dropped.raise(newest);
        self.marks.raise(newest);
    }

    /// Registers a copy of another ring's registration.
    pub(crate) fn copy(&self, survivor: &Survivor) {
        let position = self.register(survivor.owner, &survivor.footprint);
        self.assigned(position, Timestamp::from_bits(survivor.timestamp));
    }

    fn read(&self, position: u64) -> SlotContent {
        let slot = self.slot(position);
        let sequence = slot.sequence.load(Ordering::Acquire);
        if sequence > position + 1 {
            return SlotContent::Overwritten;
        }
        if sequence != position + 1 {
            // The slot is being written: by this position's owner or, if the position is
            // dropped already, by a later one's.
            return if position < self.dropped.position() {
                SlotContent::Overwritten
            } else {
                SlotContent::Unpublished
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
        // This load acquires, so a reader that finds the slot overwritten also sees the
        // dropped cursor that permitted it.
        if slot.sequence.load(Ordering::Acquire) != position + 1 {
            return SlotContent::Overwritten;
        }
        SlotContent::Registration {
            owner,
            state,
            footprint,
        }
    }

    /// As [`Ring::first_unsettled`], but reads every registration that a transaction with
    /// snapshot `oldest` or later may have to check, and calls `look` with its owner.
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
                SlotContent::Registration { owner, state, .. } => {
                    look(owner);
                    state == ABORTED || state != RESERVING && state <= snapshot.to_bits()
                }
                SlotContent::Unpublished | SlotContent::Overwritten => false,
            };
            if !settled {
                start = start.min(position);
            }
        }
        if kept > first {
            // Some registrations are lost to `oldest`, and perhaps to `snapshot` as well.
            return self.first_unsettled(snapshot).min(start);
        }
        start
    }

    /// Checks every registration by another transaction with a timestamp between the
    /// committer's snapshot and its own: `meets` returns whether it is a conflict.
    /// `start` is the result of [`Ring::first_unsettled`] for the snapshot. Returns the
    /// number of registrations that were no conflict.
    ///
    /// # Errors
    /// When `meets` returns true, or the ring has wrapped around.
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
                    SlotContent::Unpublished => break,
                    SlotContent::Overwritten => {
                        if self.dropped.get().newest > snapshot.to_bits() {
                            return Err(Failure::Overflow);
                        }
                        break;
                    }
                    SlotContent::Registration {
                        owner,
                        state,
                        footprint,
                    } => {
                        if owner == id || state == ABORTED {
                            break;
                        }
                        if state == RESERVING {
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
