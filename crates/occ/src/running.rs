//! Who is running, and whether they have drawn a commit timestamp.
//!
//! A validator finds a record it has read locked by another transaction. Whether
//! that is a conflict depends on what the other does: if it has not begun to draw
//! its timestamp, it will draw a later one. The answer is looked up here, by the
//! transaction's number, which names its place:
//!
//! ```text
//!   61                    16 15          0
//!  +------------------------+-------------+
//!  |  how often used        |  place      |      a transaction id
//!  +------------------------+-------------+
//! ```
//!
//! A place is kept by a transaction object and used again for the next
//! transaction it runs; so at most 65,536 run at once.

use std::sync::OnceLock;

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::Mutex;
use coeval_memory::sync::atomic::{AtomicU64, Ordering};
use coeval_txn::Party;
use coeval_types::{Timestamp, TransactionId};

const PLACE_BITS: u32 = 16;
const PLACES: usize = 1 << PLACE_BITS;
const CHUNK: usize = 256;

const NOT_DRAWING: u64 = 0;
const DRAWING: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Entry {
    owner: AtomicU64,
    state: AtomicU64,
    /// The owner's session, for people.
    session: AtomicU64,
}

type Chunk = Box<[CachePadded<Entry>]>;

/// How far a transaction has come with its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// Not begun: it will draw a later timestamp than who asks after drawing.
    No,
    /// About to: ask again.
    Drawing,
    /// It has this timestamp.
    At(Timestamp),
    /// It has ended, and its place is used by another.
    Ended,
}

/// Every place there is.
#[derive(Debug)]
pub(crate) struct Running {
    chunks: Box<[OnceLock<Chunk>]>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    free: Vec<u32>,
    used: u32,
}

/// A place in [`Running`]; to be given back.
#[derive(Debug)]
pub(crate) struct Place {
    at: u32,
    uses: u64,
}

impl Running {
    pub(crate) fn new() -> Self {
        Self {
            chunks: (0..PLACES / CHUNK).map(|_| OnceLock::new()).collect(),
            places: Mutex::default(),
        }
    }

    fn entry(&self, at: u32) -> &Entry {
        let at = at as usize;
        let chunk = self.chunks[at / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| CachePadded::default()).collect());
        &chunk[at % CHUNK]
    }

    /// A place for a transaction object, or `None` when there are too many.
    pub(crate) fn claim(&self) -> Option<Place> {
        let mut places = self.places.lock().expect("no panic in the list");
        let at = match places.free.pop() {
            Some(at) => at,
            None if (places.used as usize) < PLACES => {
                places.used += 1;
                places.used - 1
            }
            None => return None,
        };
        drop(places);
        // Whoever had it before may have left any number of uses behind.
        let owner = self.entry(at).owner.load(Ordering::Relaxed);
        Some(Place {
            at,
            uses: owner >> PLACE_BITS,
        })
    }

    /// Gives a place back.
    pub(crate) fn give_back(&self, place: &Place) {
        let mut places = self.places.lock().expect("no panic in the list");
        places.free.push(place.at);
    }

    /// A number for the place's next transaction, which is of this session. Never 0.
    pub(crate) fn begin(&self, place: &mut Place, session: i32) -> TransactionId {
        place.uses += 1;
        let id = TransactionId(place.uses << PLACE_BITS | u64::from(place.at));
        assert!(id < TransactionId::MAX, "transaction numbers used up");
        let entry = self.entry(place.at);
        // In this order, so that who finds the new owner finds its state. Released
        // too: one who asks for the owner before may be told of this state, and
        // then must find what that one installed.
        entry.state.store(NOT_DRAWING, Ordering::Release);
        entry.session.store(session as u64, Ordering::Relaxed);
        entry.owner.store(id.0, Ordering::Release);
        id
    }

    /// Published before the timestamp is drawn; the caller fences between.
    pub(crate) fn drawing(&self, place: &Place) {
        self.entry(place.at).state.store(DRAWING, Ordering::Relaxed);
    }

    /// Published right after.
    pub(crate) fn drawn(&self, place: &Place, timestamp: Timestamp) {
        self.entry(place.at)
            .state
            .store(timestamp.to_bits(), Ordering::Release);
    }

    /// A transaction and its session, while nobody else has its place.
    pub(crate) fn party(&self, id: TransactionId) -> Party {
        let entry = self.entry((id.0 & (PLACES as u64 - 1)) as u32);
        let is_owner = || entry.owner.load(Ordering::Acquire) == id.0;
        let session = is_owner().then(|| entry.session.load(Ordering::Acquire) as i32);
        Party {
            transaction: id,
            session: session.filter(|_| is_owner()),
        }
    }

    /// How far `id` has come. Asked by one who has drawn and fenced.
    pub(crate) fn ask(&self, id: TransactionId) -> Drawn {
        let entry = self.entry((id.0 & (PLACES as u64 - 1)) as u32);
        if entry.owner.load(Ordering::Acquire) != id.0 {
            return Drawn::Ended;
        }
        let state = entry.state.load(Ordering::Acquire);
        if entry.owner.load(Ordering::Relaxed) != id.0 {
            return Drawn::Ended;
        }
        match state {
            NOT_DRAWING => Drawn::No,
            DRAWING => Drawn::Drawing,
            timestamp => Drawn::At(Timestamp::from_bits(timestamp)),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_under_another_number() {
        let running = Running::new();
        let mut place = running.claim().unwrap();
        let first = running.begin(&mut place, 7);
        assert_eq!(running.ask(first), Drawn::No);
        running.drawing(&place);
        assert_eq!(running.ask(first), Drawn::Drawing);
        running.drawn(&place, Timestamp::from_bits(7));
        assert_eq!(running.ask(first), Drawn::At(Timestamp::from_bits(7)));
        let second = running.begin(&mut place, 7);
        assert_ne!(first, second);
        assert_eq!(running.ask(first), Drawn::Ended);
        assert_eq!(running.ask(second), Drawn::No);
        running.give_back(&place);
        let mut again = running.claim().unwrap();
        let third = running.begin(&mut again, 8);
        assert!(third != first && third != second);
    }
}
