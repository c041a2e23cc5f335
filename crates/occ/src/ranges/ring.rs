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
//! starts there. A reader whose snapshot is older than the settled prefix starts
//! at the dropped cursor, which costs it time, not correctness.
//!
//! Invariants: `dropped <= settled <= head`; a slot at or after `dropped` is
//! never overwritten, so a slot that has not drawn never is.

use std::sync::OnceLock;

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::atomic::{AtomicU64, Ordering, fence};
use coeval_memory::sync::{Backoff, Mutex};
use coeval_types::planted::{Bug, is_planted};
use coeval_types::{Timestamp, TransactionId};

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

/// Everything before `position` has drawn nothing above `newest`.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    position: u64,
    newest: u64,
}

#[derive(Debug)]
struct Cursors {
    dropped: Prefix,
    settled: Prefix,
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
pub(crate) enum Failure {
    /// This transaction wrote in it.
    Conflict(TransactionId),
    /// The ring went round since it was made.
    Overflow,
}

/// A ring of registrations.
#[derive(Debug)]
pub(crate) struct Ring {
    capacity: u64,
    head: CachePadded<AtomicU64>,
    /// `cursors.dropped.position`, to be read without the mutex.
    dropped: AtomicU64,
    cursors: Mutex<Cursors>,
    /// Made when they are first written, a segment at a time: most ranges of a young
    /// database have few registrations, or none.
    segments: Box<[OnceLock<Box<[Slot]>>]>,
}

/// Slots made at once.
const SEGMENT: usize = 64;

impl Ring {
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity >= 4, "a ring has at least four slots");
        let start = Prefix {
            position: 0,
            newest: 0,
        };
        Self {
            capacity: capacity as u64,
            head: CachePadded(AtomicU64::new(0)),
            dropped: AtomicU64::new(0),
            cursors: Mutex::new(Cursors {
                dropped: start,
                settled: start,
            }),
            segments: (0..capacity.div_ceil(SEGMENT))
                .map(|_| OnceLock::new())
                .collect(),
        }
    }

    fn slot(&self, position: u64) -> &Slot {
        let at = (position % self.capacity) as usize;
        let segment = self.segments[at / SEGMENT]
            .get_or_init(|| (0..SEGMENT).map(|_| Slot::default()).collect());
        &segment[at % SEGMENT]
    }

    /// How many registrations there have been.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::SeqCst)
    }

    /// Registers a write and returns its position. The owner must then draw its
    /// timestamp, waiting for nobody, and say so with [`Ring::drawn`].
    pub(crate) fn register(&self, owner: TransactionId, footprint: &Footprint) -> u64 {
        let position = self.head.fetch_add(1, Ordering::SeqCst);
        if position >= self.dropped.load(Ordering::Acquire) + self.capacity {
            self.make_room(position);
        }
        let slot = self.slot(position);
        // Another claimant of this slot, one round earlier, has published and
        // drawn: its position is dropped. So this is the slot's only writer.
        slot.sequence.store(BUSY, Ordering::Relaxed);
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
    pub(crate) fn drawn(&self, position: u64, timestamp: Timestamp) {
        let slot = self.slot(position);
        slot.state.store(timestamp.to_bits(), Ordering::Release);
    }

    /// Takes a registration back whose owner failed after drawing, so that it
    /// hurts nobody. By compare-and-swap: the slot may have been overwritten, and
    /// a timestamp is never drawn twice.
    pub(crate) fn aborted(&self, position: u64, timestamp: Timestamp) {
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
            }
            self.dropped
                .store(cursors.dropped.position, Ordering::Release);
            if cursors.dropped.position >= needed {
                return;
            }
            drop(cursors);
            backoff.wait();
        }
    }

    /// The timestamp drawn at a position that cannot be overwritten now, 0 for one
    /// that gave up, or `None` when it has not drawn yet.
    fn drawn_at(&self, position: u64) -> Option<u64> {
        let slot = self.slot(position);
        if slot.sequence.load(Ordering::Acquire) != position + 1 {
            return None;
        }
        match slot.state.load(Ordering::Acquire) {
            DRAWING => None,
            ABORTED => Some(0),
            timestamp => Some(timestamp),
        }
    }

    /// Where a predicate of a transaction with this snapshot starts: every earlier
    /// registration has drawn a timestamp within the snapshot, or is dropped.
    pub(crate) fn first_unsettled(&self, snapshot: Timestamp) -> u64 {
        let snapshot = snapshot.to_bits();
        if self.head() == 0 {
            return 0;
        }
        let mut cursors = self.cursors.lock().expect("no panic in a ring");
        if cursors.settled.newest > snapshot {
            // Where even what was dropped is not within the snapshot, the first
            // position ever: it has been overwritten, which says overflow.
            return if cursors.dropped.newest > snapshot {
                0
            } else {
                cursors.dropped.position
            };
        }
        let head = self.head();
        while cursors.settled.position < head {
            match self.drawn_at(cursors.settled.position) {
                Some(newest) if newest <= snapshot => {
                    cursors.settled.position += 1;
                    cursors.settled.newest = cursors.settled.newest.max(newest);
                }
                Some(_) | None => break,
            }
        }
        cursors.settled.position
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
            return if position < self.dropped.load(Ordering::Acquire) {
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
        if slot.sequence.load(Ordering::Relaxed) != position + 1 {
            return Found::Overwritten;
        }
        Found::Registration {
            owner,
            state,
            footprint,
        }
    }

    /// Whether nobody else wrote between `lower` and `upper` with a timestamp
    /// after `snapshot` and before `own`. `start` is what [`Ring::first_unsettled`]
    /// said for the snapshot; the caller has drawn `own` and fenced since.
    pub(crate) fn validate(
        &self,
        start: u64,
        snapshot: Timestamp,
        me: TransactionId,
        own: Timestamp,
        meets: impl Fn(&Footprint) -> bool,
    ) -> Result<(), Failure> {
        let head = self.head();
        let start = start + u64::from(is_planted(Bug::WrongSlot));
        for position in start..head {
            let mut backoff = Backoff::default();
            loop {
                match self.read(position) {
                    Found::Unpublished => break,
                    Found::Overwritten => {
                        let cursors = self.cursors.lock().expect("no panic in a ring");
                        if cursors.dropped.newest > snapshot.to_bits() {
                            return Err(Failure::Overflow);
                        }
                        break;
                    }
                    Found::Registration {
                        owner,
                        state,
                        footprint,
                    } => {
                        if owner == me || state == ABORTED {
                            break;
                        }
                        if state == DRAWING {
                            backoff.wait();
                            continue;
                        }
                        if state > snapshot.to_bits() && state < own.to_bits() && meets(&footprint)
                        {
                            return Err(Failure::Conflict(owner));
                        }
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const ME: TransactionId = TransactionId(1);
    const OTHER: TransactionId = TransactionId(2);

    const fn at(bits: u64) -> Timestamp {
        Timestamp::from_bits(bits)
    }

    fn commit(ring: &Ring, key: &[u8], timestamp: u64) -> u64 {
        let position = ring.register(OTHER, &Footprint::of_key(key));
        ring.drawn(position, at(timestamp));
        position
    }

    fn validate(ring: &Ring, start: u64, snapshot: u64, own: u64) -> Result<(), Failure> {
        ring.validate(start, at(snapshot), ME, at(own), |footprint| {
            footprint.may_meet(b"c", Some(b"f"))
        })
    }

    #[test]
    fn a_write_between_snapshot_and_commit_is_a_conflict() {
        let ring = Ring::new(16);
        commit(&ring, b"d", 10);
        let start = ring.first_unsettled(at(10));
        assert_eq!(start, 1, "what the snapshot includes is settled");
        assert_eq!(validate(&ring, start, 10, 30), Ok(()));
        commit(&ring, b"a", 20);
        assert_eq!(validate(&ring, start, 10, 30), Ok(()), "elsewhere");
        commit(&ring, b"d", 40);
        assert_eq!(validate(&ring, start, 10, 30), Ok(()), "later than me");
        commit(&ring, b"d", 25);
        assert_eq!(
            validate(&ring, start, 10, 30),
            Err(Failure::Conflict(OTHER))
        );
    }

    #[test]
    fn a_writer_that_registered_before_the_scan_is_met() {
        let ring = Ring::new(16);
        let position = ring.register(OTHER, &Footprint::of_key(b"d"));
        let start = ring.first_unsettled(at(10));
        assert_eq!(start, position, "it may still draw a number after 10");
        ring.drawn(position, at(20));
        assert_eq!(
            validate(&ring, start, 10, 30),
            Err(Failure::Conflict(OTHER))
        );
        ring.aborted(position, at(20));
        assert_eq!(validate(&ring, start, 10, 30), Ok(()), "it hurts nobody");
    }

    #[test]
    fn an_older_snapshot_starts_further_back() {
        let ring = Ring::new(16);
        commit(&ring, b"d", 10);
        commit(&ring, b"d", 20);
        assert_eq!(ring.first_unsettled(at(20)), 2);
        assert_eq!(ring.first_unsettled(at(10)), 0, "20 is not within 10");
        assert_eq!(validate(&ring, 0, 10, 30), Err(Failure::Conflict(OTHER)));
        assert_eq!(validate(&ring, 0, 20, 30), Ok(()));
    }

    #[test]
    fn a_ring_that_went_round_cannot_clear_an_old_predicate() {
        let ring = Ring::new(8);
        let start = ring.first_unsettled(at(1));
        for timestamp in 2..30 {
            commit(&ring, b"x", timestamp);
        }
        assert_eq!(validate(&ring, start, 1, 40), Err(Failure::Overflow));
        assert_eq!(validate(&ring, start, 29, 40), Ok(()), "all within 29");
        let late = ring.first_unsettled(at(1));
        assert_eq!(validate(&ring, late, 1, 40), Err(Failure::Overflow));
        let start = ring.first_unsettled(at(29));
        assert_eq!(start, 28);
    }
}

/// Run with `RUSTFLAGS="--cfg shuttle" cargo test -p coeval-occ --lib shuttled`.
#[cfg(all(test, shuttle))]
mod shuttled {
    use std::sync::Arc;

    use coeval_memory::sync::Mutex;
    use shuttle::thread;

    use super::*;

    struct World {
        ring: Ring,
        clock: AtomicU64,
        /// Who wrote when, and who was cleared when.
        written: Mutex<Vec<u64>>,
        cleared: Mutex<Vec<u64>>,
    }

    /// Two writers and two validators with the snapshot of the beginning. None that
    /// was cleared may have a writer before it. `late` draws before registering,
    /// which is the fault the order of a commit avoids.
    fn race(late: bool) {
        let world = Arc::new(World {
            ring: Ring::new(4),
            clock: AtomicU64::new(2),
            written: Mutex::new(Vec::new()),
            cleared: Mutex::new(Vec::new()),
        });
        let snapshot = Timestamp::from_bits(1);
        let draw = |world: &World| world.clock.fetch_add(1, Ordering::SeqCst);
        let mut threads = Vec::new();
        for writer in 1..3 {
            let world = Arc::clone(&world);
            threads.push(thread::spawn(move || {
                for _ in 0..3 {
                    let early = late.then(|| draw(&world));
                    let footprint = Footprint::of_key(b"k");
                    let position = world.ring.register(TransactionId(writer), &footprint);
                    fence(Ordering::SeqCst);
                    let drawn = early.unwrap_or_else(|| draw(&world));
                    world.ring.drawn(position, Timestamp::from_bits(drawn));
                    world.written.lock().expect("no panic").push(drawn);
                }
            }));
        }
        for validator in 3..5 {
            let world = Arc::clone(&world);
            threads.push(thread::spawn(move || {
                let start = world.ring.first_unsettled(snapshot);
                let own = draw(&world);
                fence(Ordering::SeqCst);
                let me = TransactionId(validator);
                let own_timestamp = Timestamp::from_bits(own);
                let valid = world
                    .ring
                    .validate(start, snapshot, me, own_timestamp, |_| true);
                if valid.is_ok() {
                    world.cleared.lock().expect("no panic").push(own);
                }
            }));
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
        let written = world.written.lock().expect("no panic");
        for cleared in world.cleared.lock().expect("no panic").iter() {
            assert!(
                written.iter().all(|written| written > cleared),
                "cleared at {cleared} with writers at {written:?}"
            );
        }
    }

    #[test]
    fn no_earlier_writer_is_missed() {
        shuttle::check_random(|| race(false), 3000);
    }

    #[test]
    #[should_panic(expected = "cleared at")]
    fn a_writer_that_draws_before_it_registers_is() {
        shuttle::check_random(|| race(true), 3000);
    }
}
