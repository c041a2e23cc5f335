//! Table locks: the holders of each table in PostgreSQL's eight modes, and the
//! transactions that wait for one.
//!
//! Every statement takes ACCESS SHARE, ROW SHARE or ROW EXCLUSIVE on its tables, and these
//! *weak* modes do not exclude each other; the five *strong* modes are rare. So holders of
//! weak modes are spread over shards, each with a mutex of its own cache line, and one
//! word says which weak modes the strong requests exclude at the moment:
//!
//! ```text
//!   weak request    lock its shard ─ is the mode blocked? ─ no ─▶ enter the shard: held
//!                                          └ yes ─▶ the list, as a strong one
//!   strong request  lock the list ─ enter it ─ block modes ─ search list and shards
//! ```
//!
//! A weak request reads the word under its shard's mutex, and a strong one searches the
//! shard under the same mutex after it has set the word; so one of the two sees the other.
//! A weak request that finds its mode free writes nothing but its shard, and allocates
//! nothing once the shard's list has grown.
//!
//! **The list** holds the granted strong requests, and all waiting ones in order of
//! arrival. A request waits for granted locks that exclude its mode, and for waiting
//! requests before it that do, so a strong request is not passed over for ever. As in
//! PostgreSQL, a transaction that holds a lock for which a waiting request waits enters
//! before that request: behind it, both would wait for each other. A request passes an earlier
//! one too where that undoes a deadlock ([`super::graph`]).

use coeval_memory::padded::CachePadded;
use coeval_memory::sync::Mutex;
use coeval_memory::sync::atomic::{AtomicUsize, Ordering};
use coeval_txn::TableLock;
use coeval_types::TransactionId;

use super::graph::Edge;

const SHARDS: usize = 8;

/// The modes that any number of transactions hold at once.
const WEAK: u8 =
    TableLock::AccessShare.bit() | TableLock::RowShare.bit() | TableLock::RowExclusive.bit();

/// A weak lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WeakHeld {
    owner: TransactionId,
    mode: TableLock,
}

/// A strong lock that is held, or a lock that is waited for.
#[derive(Clone, Copy, Debug)]
struct Request {
    owner: TransactionId,
    mode: TableLock,
    granted: bool,
}

/// The lock of one table.
#[derive(Debug)]
pub(crate) struct TableLocks {
    /// The set of weak modes that the requests in the list exclude. Changed only under the
    /// list's mutex.
    blocked: AtomicUsize,
    shards: Box<[CachePadded<Mutex<Vec<WeakHeld>>>]>,
    requests: Mutex<Vec<Request>>,
}

/// Whether a set of modes includes one that `mode` excludes.
const fn excluded(modes: u8, mode: TableLock) -> bool {
    modes & mode.conflicts() != 0
}

impl TableLocks {
    pub(crate) fn new() -> Self {
        Self {
            blocked: AtomicUsize::new(0),
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            requests: Mutex::default(),
        }
    }

    fn shard(&self, owner: TransactionId) -> &Mutex<Vec<WeakHeld>> {
        &self.shards[owner.0 as usize % SHARDS]
    }

    fn blocks(&self, mode: TableLock) -> bool {
        self.blocked.load(Ordering::SeqCst) & usize::from(mode.bit()) != 0
    }

    /// Takes the lock, which `owner` does not hold in this mode or one that covers it.
    /// `held` are the modes of this table that it does hold. If the lock is not free and
    /// `waits`, the request stays in the list until the caller [withdraws](Self::withdraw)
    /// it: when a later call has taken the lock, or when it gives up.
    #[inline]
    pub(crate) fn take(
        &self,
        owner: TransactionId,
        mode: TableLock,
        held: u8,
        waits: bool,
    ) -> bool {
        if mode.is_weak() {
            let mut shard = self.shard(owner).lock().expect("no panic in a shard");
            if !self.blocks(mode) {
                shard.push(WeakHeld { owner, mode });
                return true;
            }
        }
        self.request(owner, mode, held, waits)
    }

    #[cold]
    fn request(&self, owner: TransactionId, mode: TableLock, held: u8, waits: bool) -> bool {
        let mut requests = self.requests.lock().expect("no panic in the list");
        let at = waiting_at(&requests, owner).unwrap_or_else(|| {
            let in_its_way = |request: &Request| {
                !request.granted && request.owner != owner && excluded(held, request.mode)
            };
            let at = requests.iter().position(in_its_way);
            let at = at.unwrap_or(requests.len());
            let granted = false;
            requests.insert(
                at,
                Request {
                    owner,
                    mode,
                    granted,
                },
            );
            at
        });
        // From here on no holder of a weak mode that this request excludes is added.
        self.block(&requests);
        let free = requests.iter().enumerate().all(|(position, other)| {
            let counts = other.owner != owner && (other.granted || position < at);
            !(counts && other.mode.excludes(mode))
        });
        let free = free
            && (mode.is_weak()
                || self.shards.iter().all(|shard| {
                    let shard = shard.lock().expect("no panic in a shard");
                    let in_its_way =
                        |held: &WeakHeld| held.owner != owner && held.mode.excludes(mode);
                    !shard.iter().any(in_its_way)
                }));
        if free && !mode.is_weak() {
            requests[at].granted = true;
            return true;
        }
        if free {
            let mut shard = self.shard(owner).lock().expect("no panic in a shard");
            shard.push(WeakHeld { owner, mode });
        }
        if free || !waits {
            requests.remove(at);
            self.block(&requests);
        }
        free
    }

    /// Sets the word that weak requests read.
    fn block(&self, requests: &[Request]) {
        let blocked = requests
            .iter()
            .fold(0, |modes, request| modes | request.mode.conflicts());
        self.blocked
            .store(usize::from(blocked & WEAK), Ordering::SeqCst);
    }

    /// Frees a lock that `owner` holds. True when a transaction may wait for that: the
    /// caller must then notify the queues.
    pub(crate) fn free(&self, owner: TransactionId, mode: TableLock) -> bool {
        if mode.is_weak() {
            let mut shard = self.shard(owner).lock().expect("no panic in a shard");
            let at = shard
                .iter()
                .position(|held| *held == WeakHeld { owner, mode })
                .expect("only a holder frees a lock");
            shard.swap_remove(at);
            drop(shard);
            return self.blocks(mode);
        }
        self.remove(|request| request.owner == owner && request.mode == mode && request.granted);
        true
    }

    /// Removes the waiting request of `owner`, if there is one. A transaction that has not
    /// acquired the lock must then notify the queues.
    pub(crate) fn withdraw(&self, owner: TransactionId) {
        self.remove(|request| request.owner == owner && !request.granted);
    }

    fn remove(&self, is: impl Fn(&Request) -> bool) {
        let mut requests = self.requests.lock().expect("no panic in the list");
        if let Some(at) = requests.iter().position(is) {
            requests.remove(at);
        }
        self.block(&requests);
    }

    /// Appends the transactions that `waiter` waits for, or would wait for.
    pub(crate) fn edges(&self, waiter: TransactionId, mode: TableLock, edges: &mut Vec<Edge>) {
        let first = edges.len();
        let requests = self.requests.lock().expect("no panic in the list");
        let mut before = true;
        for request in requests.iter() {
            if request.owner == waiter {
                before &= request.granted;
            } else if (request.granted || before) && request.mode.excludes(mode) {
                add(edges, first, (request.owner, !request.granted));
            }
        }
        drop(requests);
        if mode.is_weak() {
            return;
        }
        for shard in &self.shards {
            let shard = shard.lock().expect("no panic in a shard");
            for held in shard.iter() {
                if held.owner != waiter && held.mode.excludes(mode) {
                    add(edges, first, (held.owner, false));
                }
            }
        }
    }

    /// Moves the waiting request of `waiter` before that of `other`, if it is behind it.
    /// Returns the request behind which it was: it may be [put back](Self::put_back). Those
    /// that wait must be notified.
    pub(crate) fn pass(
        &self,
        waiter: TransactionId,
        other: TransactionId,
    ) -> Option<TransactionId> {
        let mut requests = self.requests.lock().expect("no panic in the list");
        let to = waiting_at(&requests, other)?;
        let from = waiting_at(&requests, waiter).filter(|from| *from > to)?;
        let mut before = requests[..from].iter().rev();
        let behind = before.find(|request| !request.granted)?.owner;
        requests[to..=from].rotate_right(1);
        Some(behind)
    }

    /// Puts the waiting request of `waiter` behind that of `other`, if both still wait.
    pub(crate) fn put_back(&self, waiter: TransactionId, other: TransactionId) {
        let mut requests = self.requests.lock().expect("no panic in the list");
        let places = waiting_at(&requests, waiter).zip(waiting_at(&requests, other));
        if let Some((from, to)) = places.filter(|(from, to)| from < to) {
            requests[from..=to].rotate_left(1);
        }
    }
}

/// The place of the waiting request of a transaction, which has at most one.
fn waiting_at(requests: &[Request], owner: TransactionId) -> Option<usize> {
    let waits = |request: &Request| request.owner == owner && !request.granted;
    requests.iter().position(waits)
}

/// Appends an edge, unless there is one to the same transaction behind position `first`: of
/// two, the one to a holder counts.
fn add(edges: &mut Vec<Edge>, first: usize, (to, queued): (TransactionId, bool)) {
    match edges[first..].iter_mut().find(|edge| edge.to == to) {
        Some(edge) => edge.queued &= queued,
        None => edges.push(Edge { to, queued }),
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const A: TransactionId = TransactionId(1);
    const B: TransactionId = TransactionId(2);
    const C: TransactionId = TransactionId(9);
    const D: TransactionId = TransactionId(10);

    fn holders(locks: &TableLocks, waiter: TransactionId, mode: TableLock) -> Vec<TransactionId> {
        let mut edges = Vec::new();
        locks.edges(waiter, mode, &mut edges);
        edges.into_iter().map(|edge| edge.to).collect()
    }

    #[test]
    fn two_transactions_exclude_each_other_as_their_modes_do() {
        for one in TableLock::ALL {
            for other in TableLock::ALL {
                let locks = TableLocks::new();
                assert!(locks.take(A, one, 0, false));
                let free = locks.take(B, other, 0, false);
                assert_eq!(free, !one.excludes(other), "{one:?} {other:?}");
                let waits_for = if free { vec![] } else { vec![A] };
                assert_eq!(holders(&locks, B, other), waits_for);
                if free {
                    locks.free(B, other);
                }
                locks.free(A, one);
                assert!(
                    locks.take(C, TableLock::AccessExclusive, 0, false),
                    "all is free"
                );
            }
        }
    }

    #[test]
    fn a_request_waits_for_holders_and_for_earlier_requests() {
        use TableLock::{AccessExclusive, RowExclusive, RowShare, Share};
        let locks = TableLocks::new();
        assert!(locks.take(A, RowExclusive, 0, true));
        assert!(!locks.take(B, AccessExclusive, 0, true));
        assert!(!locks.take(C, RowShare, 0, true), "it came after B");
        assert!(!locks.take(D, Share, 0, true));
        assert_eq!(holders(&locks, B, AccessExclusive), [A]);
        assert_eq!(holders(&locks, C, RowShare), [B]);
        assert_eq!(holders(&locks, D, Share), [B, A]);
        assert!(locks.free(A, RowExclusive), "B waits");
        assert!(!locks.take(C, RowShare, 0, true), "B is still before it");
        assert!(locks.take(B, AccessExclusive, 0, true));
        assert!(locks.free(B, AccessExclusive));
        assert!(
            locks.take(D, Share, 0, true),
            "C before it excludes no SHARE"
        );
        assert!(locks.take(C, RowShare, 0, true));
        locks.withdraw(C);
        locks.free(D, Share);
        locks.free(C, RowShare);
        assert!(locks.take(A, AccessExclusive, 0, false), "nothing is left");
    }

    #[test]
    fn a_holder_enters_before_the_requests_that_wait_for_it() {
        use TableLock::{AccessExclusive, AccessShare, RowExclusive};
        let locks = TableLocks::new();
        assert!(locks.take(A, AccessShare, 0, true));
        assert!(locks.take(B, TableLock::ShareRowExclusive, 0, true));
        assert!(!locks.take(C, AccessExclusive, 0, true));
        assert!(!locks.take(A, RowExclusive, AccessShare.bit(), true));
        assert_eq!(holders(&locks, A, RowExclusive), [B], "not C");
        assert_eq!(holders(&locks, C, AccessExclusive), [B, A]);
        locks.free(B, TableLock::ShareRowExclusive);
        assert!(locks.take(A, RowExclusive, AccessShare.bit(), true));
    }

    #[test]
    fn a_request_passes_an_earlier_one_and_may_be_put_back() {
        use TableLock::{AccessExclusive, AccessShare, Share};
        let locks = TableLocks::new();
        let edges = |waiter, mode| {
            let mut edges = Vec::new();
            locks.edges(waiter, mode, &mut edges);
            edges
        };
        let queued = |to| Edge { to, queued: true };
        assert!(locks.take(A, AccessShare, 0, true));
        assert!(!locks.take(B, AccessExclusive, 0, true));
        assert!(!locks.take(C, Share, 0, true));
        assert!(!locks.take(D, AccessShare, 0, true));
        assert_eq!(edges(B, AccessExclusive), [Edge::to_holder(A)]);
        assert_eq!(edges(D, AccessShare), [queued(B)]);
        assert_eq!(locks.pass(B, D), None, "it is before it");
        assert_eq!(locks.pass(D, A), None, "A does not wait");
        assert_eq!(locks.pass(D, B), Some(C));
        assert_eq!(edges(D, AccessShare), []);
        assert_eq!(edges(B, AccessExclusive), [queued(D), Edge::to_holder(A)]);
        assert_eq!(edges(C, Share), [queued(B)]);
        locks.put_back(D, C);
        assert_eq!(edges(D, AccessShare), [queued(B)]);
        assert_eq!(locks.pass(D, B), Some(C));
        assert!(locks.take(D, AccessShare, 0, true), "B is behind it");
        locks.withdraw(D);
        locks.put_back(D, C);
        assert_eq!(
            edges(B, AccessExclusive),
            [Edge::to_holder(A), Edge::to_holder(D)]
        );
    }

    #[test]
    fn a_lone_holder_may_have_the_table_alone() {
        use TableLock::{AccessExclusive, RowExclusive};
        let locks = TableLocks::new();
        assert!(locks.take(A, RowExclusive, 0, true));
        assert!(locks.take(A, AccessExclusive, RowExclusive.bit(), true));
        assert!(!locks.take(B, RowExclusive, 0, false));
    }

    #[test]
    fn a_request_that_is_withdrawn_or_does_not_wait_leaves_nothing() {
        use TableLock::{AccessExclusive, AccessShare};
        let locks = TableLocks::new();
        assert!(locks.take(A, AccessShare, 0, true));
        assert!(!locks.take(B, AccessExclusive, 0, false));
        assert!(locks.take(C, AccessShare, 0, false));
        assert!(!locks.take(B, AccessExclusive, 0, true));
        assert!(!locks.take(D, AccessShare, 0, false));
        locks.withdraw(B);
        assert!(locks.take(D, AccessShare, 0, false));
    }
}

/// Run with `RUSTFLAGS="--cfg shuttle" cargo test -p coeval-occ --lib shuttled`.
#[cfg(all(test, shuttle))]
mod shuttled {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::{Poll, Waker};

    use coeval_types::StorageId;
    use shuttle::future::block_on;
    use shuttle::thread;

    use super::*;
    use crate::locks::queues::{LockName, Queues};

    const NAME: LockName = LockName::Table(StorageId(1));

    struct Table {
        queues: Queues,
        locks: TableLocks,
        /// For each mode, how many hold it.
        inside: [AtomicUsize; 8],
    }

    impl Table {
        fn new() -> Self {
            Self {
                queues: Queues::new(),
                locks: TableLocks::new(),
                inside: Default::default(),
            }
        }

        /// Acquires the lock as a transaction does.
        async fn acquire(&self, owner: TransactionId, mode: TableLock) {
            let mut waiting = false;
            poll_fn(|context| {
                let mut told = false;
                loop {
                    if self.locks.take(owner, mode, 0, true) {
                        if waiting {
                            self.queues.leave(&NAME, owner, true);
                            self.locks.withdraw(owner);
                        }
                        return Poll::Ready(());
                    }
                    if told {
                        return Poll::Pending;
                    }
                    if waiting {
                        self.queues.look_again(&NAME, owner, context.waker());
                    } else {
                        self.queues.enqueue(&NAME, (owner, None), context.waker());
                        waiting = true;
                    }
                    told = true;
                }
            })
            .await;
        }

        fn release(&self, owner: TransactionId, mode: TableLock) {
            if self.locks.free(owner, mode) {
                self.queues.released_to_all(&NAME);
            }
        }

        fn hold(&self, owner: TransactionId, mode: TableLock) {
            block_on(self.acquire(owner, mode));
            self.inside[mode as usize].fetch_add(1, Ordering::SeqCst);
            for other in TableLock::ALL {
                let more = usize::from(other == mode);
                let count = self.inside[other as usize].load(Ordering::SeqCst);
                assert!(!mode.excludes(other) || count == more, "{mode:?} {other:?}");
            }
            self.inside[mode as usize].fetch_sub(1, Ordering::SeqCst);
            self.release(owner, mode);
        }

        /// A request that gives up at once, after it has entered the queue.
        fn give_up(&self, owner: TransactionId, mode: TableLock) {
            if self.locks.take(owner, mode, 0, true) {
                self.release(owner, mode);
                return;
            }
            self.queues.enqueue(&NAME, (owner, None), Waker::noop());
            self.queues.leave(&NAME, owner, false);
            self.locks.withdraw(owner);
            self.queues.released_to_all(&NAME);
        }
    }

    /// Weak and strong holders never meet, and no wake-up is lost.
    #[test]
    fn modes_exclude_each_other_and_every_request_is_granted() {
        use TableLock::{AccessExclusive, AccessShare, RowExclusive, Share};
        shuttle::check_random(
            || {
                let table = Arc::new(Table::new());
                let threads: Vec<_> = [AccessShare, RowExclusive, Share, AccessExclusive]
                    .into_iter()
                    .zip(1..)
                    .map(|(mode, owner)| {
                        let table = Arc::clone(&table);
                        thread::spawn(move || {
                            for _ in 0..2 {
                                table.hold(TransactionId(owner), mode);
                            }
                        })
                    })
                    .collect();
                for thread in threads {
                    thread.join().expect("no panic");
                }
            },
            1000,
        );
    }

    /// A request that is withdrawn lets those behind it go on.
    #[test]
    fn a_withdrawn_request_keeps_no_other_waiting() {
        use TableLock::{AccessExclusive, AccessShare, RowShare};
        shuttle::check_random(
            || {
                let table = Arc::new(Table::new());
                let mut threads: Vec<_> = [AccessShare, RowShare]
                    .into_iter()
                    .zip(1..)
                    .map(|(mode, owner)| {
                        let table = Arc::clone(&table);
                        thread::spawn(move || table.hold(TransactionId(owner), mode))
                    })
                    .collect();
                threads.push({
                    let table = Arc::clone(&table);
                    thread::spawn(move || table.give_up(TransactionId(9), AccessExclusive))
                });
                for thread in threads {
                    thread.join().expect("no panic");
                }
            },
            1000,
        );
    }
}
