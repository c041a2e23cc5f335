//! Table locks: shared by any number of writers, or held exclusively.
//!
//! Writers take and free the lock in every transaction; schema changes are rare. So the
//! writers are spread over shards, each with a mutex that is rarely contended, and the
//! transaction that wants the table exclusively pays: it publishes its id, which stops
//! new writers, and then searches every shard for old ones.
//!
//! A writer checks the id under its shard's mutex, and the exclusive requester searches
//! under the same mutex after publishing its id; so one of the two sees the other. Each
//! holder is known by its id, because the wait-for graph needs it.

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::Mutex;
use coeval_memory::sync::atomic::{AtomicU64, Ordering};
use coeval_types::TransactionId;

const SHARDS: usize = 8;

/// The lock of one table.
#[derive(Debug)]
pub(crate) struct TableLocks {
    /// The transaction that holds or has requested the table exclusively; 0 for none.
    exclusive: AtomicU64,
    writers: Box<[CachePadded<Mutex<Vec<TransactionId>>>]>,
}

impl TableLocks {
    pub(crate) fn new() -> Self {
        Self {
            exclusive: AtomicU64::new(0),
            writers: (0..SHARDS).map(|_| CachePadded::default()).collect(),
        }
    }

    fn shard(&self, owner: TransactionId) -> &Mutex<Vec<TransactionId>> {
        &self.writers[owner.0 as usize % SHARDS]
    }

    /// Takes the lock shared, as a writer. The caller must not hold it already.
    pub(crate) fn take_write(&self, owner: TransactionId) -> bool {
        let mut writers = self.shard(owner).lock().expect("no panic in a shard");
        let exclusive = self.exclusive.load(Ordering::SeqCst);
        if exclusive != 0 && exclusive != owner.0 {
            return false;
        }
        writers.push(owner);
        true
    }

    /// Frees a writer's lock. True when a transaction waits for the exclusive lock: the
    /// caller must then notify the queues.
    pub(crate) fn free_write(&self, owner: TransactionId) -> bool {
        let mut writers = self.shard(owner).lock().expect("no panic in a shard");
        let at = writers
            .iter()
            .position(|writer| *writer == owner)
            .expect("only a holder frees a lock");
        writers.swap_remove(at);
        drop(writers);
        self.exclusive.load(Ordering::SeqCst) != 0
    }

    /// Takes the table exclusively, or keeps new writers out until that succeeds. The
    /// owner may be a writer itself.
    pub(crate) fn take_exclusive(&self, owner: TransactionId) -> bool {
        let wanted =
            self.exclusive
                .compare_exchange(0, owner.0, Ordering::SeqCst, Ordering::SeqCst);
        if let Err(other) = wanted
            && other != owner.0
        {
            return false;
        }
        self.writers.iter().all(|shard| {
            let writers = shard.lock().expect("no panic in a shard");
            writers.iter().all(|writer| *writer == owner)
        })
    }

    /// Frees the exclusive lock, or withdraws the request for it. The caller must then
    /// notify the queues.
    pub(crate) fn free_exclusive(&self, owner: TransactionId) {
        let _ = self
            .exclusive
            .compare_exchange(owner.0, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Appends the transactions that a requester of the lock waits for.
    pub(crate) fn holders(&self, wants_alone: bool, holders: &mut Vec<TransactionId>) {
        let exclusive = self.exclusive.load(Ordering::SeqCst);
        if exclusive != 0 {
            holders.push(TransactionId(exclusive));
        }
        if wants_alone {
            for shard in &self.writers {
                holders.extend_from_slice(&shard.lock().expect("no panic in a shard"));
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const A: TransactionId = TransactionId(1);
    const B: TransactionId = TransactionId(2);
    const C: TransactionId = TransactionId(9);

    #[test]
    fn writers_share_and_the_other_waits_for_all() {
        let locks = TableLocks::new();
        assert!(locks.take_write(A));
        assert!(locks.take_write(B));
        assert!(!locks.take_exclusive(C));
        assert!(!locks.take_write(TransactionId(3)), "no new writers now");
        let mut holders = Vec::new();
        locks.holders(true, &mut holders);
        assert_eq!(holders, [C, A, B]);
        assert!(locks.free_write(A), "a transaction waits");
        assert!(!locks.take_exclusive(C));
        assert!(locks.free_write(B));
        assert!(locks.take_exclusive(C));
        assert!(locks.take_write(C), "its own");
        assert!(!locks.take_write(A));
        assert!(!locks.take_exclusive(A));
        locks.free_exclusive(A);
        assert!(!locks.take_write(A), "a wish of another changes nothing");
        locks.free_exclusive(C);
        assert!(locks.take_write(A));
    }

    #[test]
    fn a_lone_writer_may_have_the_table_alone() {
        let locks = TableLocks::new();
        assert!(locks.take_write(A));
        assert!(locks.take_exclusive(A));
        assert!(!locks.take_write(B));
    }
}
