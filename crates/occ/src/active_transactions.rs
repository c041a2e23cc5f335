//! The table of active transactions: maps a transaction id to its commit phase, so that a
//! validator can tell whether a lock holder will commit before or after it.
//!
//! A validator may find a record it has read locked by another transaction. Whether that
//! is a conflict depends on the holder's commit phase: a holder that has not begun to
//! reserve log space will be assigned a later timestamp. The validator looks the phase up
//! here by the holder's transaction id, which names its slot:
//!
//! ```text
//!   60                    16 15          0
//!  +------------------------+-------------+
//!  |  times used            |  slot       |      a transaction id
//!  +------------------------+-------------+
//! ```
//!
//! A transaction object keeps its slot and reuses it for the next transaction it runs; so
//! at most 65,536 transactions run at once.

use std::sync::OnceLock;

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::Mutex;
use coeval_memory::sync::atomic::{AtomicU64, Ordering};
use coeval_txn::Party;
use coeval_types::{Timestamp, TransactionId};

const PLACE_BITS: u32 = 16;
const PLACES: usize = 1 << PLACE_BITS;
const CHUNK: usize = 256;

const NOT_STARTED: u64 = 0;
const RESERVING: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Entry {
    owner: AtomicU64,
    state: AtomicU64,
    /// The owner's session, for diagnostics.
    session: AtomicU64,
}

type Chunk = Box<[CachePadded<Entry>]>;

/// The commit phase of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitPhase {
    /// The commit has not begun: the transaction's timestamp will be later than that of a
    /// validator which was assigned its own before it asked.
    NotStarted,
    /// The transaction is being assigned its timestamp; the validator must ask again.
    Reserving,
    /// The transaction was assigned this timestamp.
    Assigned(Timestamp),
    /// The transaction has ended, and another one uses its slot.
    Ended,
}

/// The slots of all active transactions.
#[derive(Debug)]
pub(crate) struct ActiveTransactions {
    chunks: Box<[OnceLock<Chunk>]>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    free: Vec<u32>,
    used: u32,
}

/// A slot in [`ActiveTransactions`]; its owner must give it back.
#[derive(Debug)]
pub(crate) struct TransactionSlot {
    at: u32,
    uses: u64,
}

impl ActiveTransactions {
    /// Most transactions that are active at once.
    pub(crate) const MOST: usize = PLACES;

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

    /// Claims a slot for a transaction object; `None` when all slots are in use.
    pub(crate) fn claim(&self) -> Option<TransactionSlot> {
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
        // Earlier owners of the slot have used it any number of times.
        let owner = self.entry(at).owner.load(Ordering::Relaxed);
        Some(TransactionSlot {
            at,
            uses: owner >> PLACE_BITS,
        })
    }

    /// Frees a slot for another transaction object.
    pub(crate) fn give_back(&self, place: &TransactionSlot) {
        let mut places = self.places.lock().expect("no panic in the list");
        places.free.push(place.at);
    }

    /// Assigns an id to the slot's next transaction, which belongs to `session`. Never 0.
    pub(crate) fn begin(&self, place: &mut TransactionSlot, session: i32) -> TransactionId {
        place.uses += 1;
        let id = TransactionId(place.uses << PLACE_BITS | u64::from(place.at));
        assert!(id < TransactionId::MAX, "transaction numbers used up");
        let entry = self.entry(place.at);
        // The state is stored first, so that a validator that finds the new owner finds
        // its state. It is released as well: a validator that looked for the previous
        // owner may read this state, and must then see the versions that the previous
        // owner installed.
        entry.state.store(NOT_STARTED, Ordering::Release);
        entry.session.store(session as u64, Ordering::Relaxed);
        entry.owner.store(id.0, Ordering::Release);
        id
    }

    /// Announces that the transaction is about to be assigned its timestamp; the caller
    /// fences after this call and before the assignment.
    pub(crate) fn reserving(&self, place: &TransactionSlot) {
        self.entry(place.at)
            .state
            .store(RESERVING, Ordering::Relaxed);
    }

    /// Publishes the timestamp right after its assignment.
    pub(crate) fn assigned(&self, place: &TransactionSlot, timestamp: Timestamp) {
        self.entry(place.at)
            .state
            .store(timestamp.to_bits(), Ordering::Release);
    }

    /// A transaction and its session; without session once another transaction has the
    /// slot.
    pub(crate) fn party(&self, id: TransactionId) -> Party {
        let entry = self.entry((id.0 & (PLACES as u64 - 1)) as u32);
        let is_owner = || entry.owner.load(Ordering::Acquire) == id.0;
        let session = is_owner().then(|| entry.session.load(Ordering::Acquire) as i32);
        Party {
            transaction: id,
            session: session.filter(|_| is_owner()),
        }
    }

    /// The commit phase of `id`. The caller must have been assigned its own timestamp,
    /// and have fenced after that.
    pub(crate) fn ask(&self, id: TransactionId) -> CommitPhase {
        let entry = self.entry((id.0 & (PLACES as u64 - 1)) as u32);
        if entry.owner.load(Ordering::Acquire) != id.0 {
            return CommitPhase::Ended;
        }
        let state = entry.state.load(Ordering::Acquire);
        if entry.owner.load(Ordering::Relaxed) != id.0 {
            return CommitPhase::Ended;
        }
        match state {
            NOT_STARTED => CommitPhase::NotStarted,
            RESERVING => CommitPhase::Reserving,
            timestamp => CommitPhase::Assigned(Timestamp::from_bits(timestamp)),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_under_another_number() {
        let active = ActiveTransactions::new();
        let mut place = active.claim().unwrap();
        let first = active.begin(&mut place, 7);
        assert_eq!(active.ask(first), CommitPhase::NotStarted);
        active.reserving(&place);
        assert_eq!(active.ask(first), CommitPhase::Reserving);
        active.assigned(&place, Timestamp::from_bits(7));
        assert_eq!(
            active.ask(first),
            CommitPhase::Assigned(Timestamp::from_bits(7))
        );
        let second = active.begin(&mut place, 7);
        assert_ne!(first, second);
        assert_eq!(active.ask(first), CommitPhase::Ended);
        assert_eq!(active.ask(second), CommitPhase::NotStarted);
        active.give_back(&place);
        let mut again = active.claim().unwrap();
        let third = active.begin(&mut again, 8);
        assert!(third != first && third != second);
    }
}
