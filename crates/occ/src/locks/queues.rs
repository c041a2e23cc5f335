//! Lock wait queues: the transactions that wait for each lock, in order of arrival.
//!
//! # Why no wake-up is lost
//!
//! The lock's state and the queue are stored separately, so a waiter could read the lock
//! just before it is freed and enqueue just after the releaser checked for waiters. Both
//! sides therefore write first, then fence, then read:
//!
//! ```text
//!   waiter                              releaser
//!   W1 enqueue, waiting = 1             R1 lock word = free
//!   W2 fence                            R2 fence
//!   W3 try the lock                     R3 waiting > 0 ?
//! ```
//!
//! Fences are totally ordered. If W2 comes first, R3 sees W1 and wakes; if R2 comes
//! first, W3 sees R1 and takes the lock, or finds that another transaction has, whose
//! release comes later and is covered by the same argument. A waiter that was woken and
//! found the lock taken again records that (`woken = false`, under the bucket's mutex)
//! *before* it tries once more, which is W1 to W3 anew.
//!
//! # Waiters that may hold a row together
//!
//! A row's waiters want modes, and more than one may go on at once. The wait-for graph knows
//! whom a waiter waits for from the holders of its lock, so a waiter that no holder keeps must
//! have been woken: else a holder that waits for it closes a circle that the graph does not
//! show. Therefore all waiters of a row are woken
//!
//! - when a sharer frees the row, or a holder falls back to a weaker mode;
//! - when a row is freed that others share;
//! - when a waiter or a newcomer becomes a sharer: a writer that was woken in vain does not
//!   keep those behind it waiting;
//!
//! and when a writer frees a row that is not shared, the head and all who want to share it:
//! the head may take a mode that lets them.
//!
//! **Waiters go in order.** Several waiters are woken at once, and any of them may get a core
//! first. So a waiter whose mode conflicts with that of one before it, which is about to try,
//! leaves its attempt to that one, and is woken when that attempt has failed or the other has
//! left; has it succeeded, its holder is in the way. A transaction that holds the row and wants
//! a stronger mode waits for no other's attempt, as in PostgreSQL: the others wait for it. One
//! that does not wait, or asks with NOWAIT or SKIP LOCKED, looks at the holders only.
//!
//! **Sharers do not starve a writer.** A newcomer may share a row that a writer waits for,
//! as a barging writer may take it. But once a writer has been passed over
//! [`PASSED_OVER_LIMIT`] times, it is *reserved*: a transaction that does not share the row yet
//! queues behind it, and waits for it in the graph's eyes too; if that closes a circle, it
//! passes. (PostgreSQL lets sharers pass for ever.)
//!
//! A waiter that leaves without the lock passes a wake-up on to the next waiter, whatever
//! its reason, and whether or not it counts as woken: it may have found the lock free and
//! the row not the one it wanted, or the record dead. No release follows that would wake
//! the next waiter.

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::task::Waker;

use coeval_memory::sync::Mutex;
use coeval_memory::sync::atomic::{AtomicUsize, Ordering, fence};
use coeval_types::{IndexId, Rid, RowLock, StorageId, TransactionId};

/// Times that the head of a queue may find the lock taken by a later transaction before
/// the lock is handed over to it.
pub(crate) const PASSED_OVER_LIMIT: u32 = 8;

const BUCKETS: usize = 256;

/// Identifies a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum LockName {
    /// A record.
    Row(StorageId, Rid),
    /// A key of a unique index, present or not.
    Key(IndexId, Box<[u8]>),
    /// A table.
    Table(StorageId),
}

#[derive(Debug)]
struct Waiter {
    name: LockName,
    owner: TransactionId,
    /// The mode it wants, of a row.
    mode: Option<RowLock>,
    waker: Waker,
    /// Whether the waiter was woken and has not yet tried the lock again.
    woken: bool,
    /// Whether the waiter is at an attempt: from the moment it is known here to try until the
    /// attempt has failed, or the waiter leaves.
    trying: bool,
    /// Whether the waiter left its attempt to one before it, and is woken when that one's
    /// attempt has failed.
    deferred: bool,
    /// Whether the waiter may share the row before the reserved one, to undo a deadlock.
    passes: bool,
    /// Whether the waiter holds the lock: a releaser took it on its behalf.
    granted: bool,
    /// Times that the waiter was woken and found the lock taken.
    passed_over: u32,
}

impl Waiter {
    fn wants_to_share(&self) -> bool {
        self.mode.is_some_and(RowLock::is_shared)
    }

    fn excludes(&self, mode: RowLock) -> bool {
        self.mode.is_some_and(|wanted| mode.conflicts_with(wanted))
    }

    /// Marks it as woken. The caller wakes it, when it has left the mutex.
    fn wake(&mut self) -> Waker {
        self.woken = true;
        self.waker.clone()
    }

    /// Takes the lock on its behalf, if it was passed over too often.
    fn is_handed_over(
        &mut self,
        take: &mut impl FnMut(TransactionId, Option<RowLock>) -> bool,
    ) -> bool {
        self.granted =
            self.passed_over >= PASSED_OVER_LIMIT && !self.granted && take(self.owner, self.mode);
        self.granted
    }

    /// Whether it will try the lock without any other transaction doing anything.
    fn is_about_to_try(&self) -> bool {
        (self.woken || self.trying) && !self.granted
    }

    /// Whether no transaction may begin to share the row before this one has had it.
    fn is_reserved(&self) -> bool {
        let writes = self.mode.is_some_and(|mode| !mode.is_shared());
        writes && self.passed_over >= PASSED_OVER_LIMIT
    }
}

#[derive(Debug, Default)]
struct Bucket {
    /// The length of the queue, which releasers read without the mutex.
    waiting: AtomicUsize,
    queue: Mutex<VecDeque<Waiter>>,
}

/// What a waiter must do when it polls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Try the lock, and stay in the queue if it is taken.
    Try,
    /// Nothing: the waiter holds the lock already.
    Granted,
}

/// All lock queues of an engine, distributed over buckets by the lock's name.
#[derive(Debug)]
pub(crate) struct Queues {
    buckets: Box<[Bucket]>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl Queues {
    pub(crate) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
            hasher: BuildHasherDefault::default(),
        }
    }

    fn bucket(&self, name: &LockName) -> &Bucket {
        let hash = match name {
            // Every commit computes this, so it is cheaper than the general hash.
            LockName::Row(storage, rid) => {
                (rid.0 ^ u64::from(storage.0) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
            }
            LockName::Key(..) | LockName::Table(_) => self.hasher.hash_one(name),
        };
        &self.buckets[hash as usize % BUCKETS]
    }

    /// Puts `owner` at the end of the lock's queue. The caller must then try the lock
    /// once more (W3).
    pub(crate) fn enqueue(
        &self,
        name: &LockName,
        (owner, mode): (TransactionId, Option<RowLock>),
        waker: &Waker,
    ) {
        let bucket = self.bucket(name);
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        queue.push_back(Waiter {
            name: name.clone(),
            owner,
            mode,
            waker: waker.clone(),
            woken: false,
            trying: true,
            deferred: false,
            passes: false,
            granted: false,
            passed_over: 0,
        });
        bucket.waiting.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        fence(Ordering::SeqCst);
    }

    /// Records that `owner` polls again, and is to be woken through `waker` next. The
    /// caller must then try the lock, unless it holds it.
    pub(crate) fn look_again(&self, name: &LockName, owner: TransactionId, waker: &Waker) -> Turn {
        let bucket = self.bucket(name);
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        let waiter = queue
            .iter_mut()
            .find(|waiter| waiter.owner == owner && waiter.name == *name)
            .expect("a waiter stays in the queue until it leaves");
        if waiter.granted {
            return Turn::Granted;
        }
        if std::mem::take(&mut waiter.woken) && !waiter.deferred {
            waiter.passed_over += 1;
        }
        waiter.deferred = false;
        waiter.trying = true;
        if !waiter.waker.will_wake(waker) {
            waiter.waker = waker.clone();
        }
        drop(queue);
        fence(Ordering::SeqCst);
        Turn::Try
    }

    /// Records that `owner` tried the lock in vain and goes on waiting: those that left their
    /// attempts to it are woken.
    pub(crate) fn tried_in_vain(&self, name: &LockName, owner: TransactionId) {
        let bucket = self.bucket(name);
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        let mut of_this = queue.iter_mut().filter(|waiter| waiter.name == *name);
        let waiter = of_this
            .find(|waiter| waiter.owner == owner)
            .expect("a waiter stays in the queue until it leaves");
        waiter.trying = false;
        let wakers: Vec<Waker> = to_wake(of_this.filter(|waiter| waiter.deferred)).collect();
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Removes `owner` from the lock's queue, and returns whether it had been granted the
    /// lock there. `acquired` says that `owner` holds the lock, so that no other waiter
    /// needs a wake-up now; otherwise the next waiter gets one, if only to find the lock
    /// taken.
    pub(crate) fn leave(&self, name: &LockName, owner: TransactionId, acquired: bool) -> bool {
        let bucket = self.bucket(name);
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        let Some(at) = queue
            .iter()
            .position(|waiter| waiter.owner == owner && waiter.name == *name)
        else {
            return false;
        };
        let left = queue.remove(at).expect("its position was just found");
        bucket.waiting.store(queue.len(), Ordering::Relaxed);
        let has_lock = left.granted || acquired;
        let all = match has_lock {
            true => left.wants_to_share(),
            false => left.is_reserved(),
        };
        let mut next = !has_lock;
        let wakers: Vec<Waker> = queue
            .iter_mut()
            .filter(|waiter| waiter.name == *name && !waiter.woken && !waiter.granted)
            .filter(|waiter| {
                // One that left its attempt to a transaction that has the lock now waits for
                // its holder: it wants a mode that conflicts.
                let deferred = waiter.deferred && !has_lock;
                all || deferred || std::mem::take(&mut next)
            })
            .map(Waiter::wake)
            .collect();
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
        left.granted
    }

    /// Called after a lock was freed: wakes the head of its queue, or hands the lock over
    /// to it. `take` takes the lock on behalf of the given transaction, in the mode that it
    /// wants of a row.
    #[inline]
    pub(crate) fn released(
        &self,
        name: &LockName,
        take: impl FnMut(TransactionId, Option<RowLock>) -> bool,
    ) {
        fence(Ordering::SeqCst);
        let bucket = self.bucket(name);
        if bucket.waiting.load(Ordering::Relaxed) != 0 {
            self.wake_head(bucket, name, take);
        }
    }

    #[cold]
    fn wake_head(
        &self,
        bucket: &Bucket,
        name: &LockName,
        mut take: impl FnMut(TransactionId, Option<RowLock>) -> bool,
    ) {
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        let mut waiters = queue
            .iter_mut()
            .filter(|waiter| waiter.name == *name && !waiter.granted);
        let Some(head) = waiters.next() else {
            return;
        };
        let handed_over = head.is_handed_over(&mut take);
        let woken = (handed_over || !head.woken).then(|| head.wake());
        let sharers: Vec<Waker> =
            to_wake(waiters.filter(|waiter| waiter.wants_to_share())).collect();
        drop(queue);
        woken.into_iter().chain(sharers).for_each(Waker::wake);
    }

    /// Called when several waiters of a lock may continue at once: wakes them all.
    pub(crate) fn released_to_all(&self, name: &LockName) {
        self.wake_all_but(name, None);
    }

    /// Called when `owner` has begun to share a row: those that wait for it may have been
    /// woken in its place.
    pub(crate) fn shared_by(&self, name: &LockName, owner: TransactionId) {
        self.wake_all_but(name, Some(owner));
    }

    fn wake_all_but(&self, name: &LockName, but: Option<TransactionId>) {
        fence(Ordering::SeqCst);
        let bucket = self.bucket(name);
        if bucket.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        let waiters = queue
            .iter_mut()
            .filter(|waiter| waiter.name == *name && Some(waiter.owner) != but);
        let wakers: Vec<Waker> = to_wake(waiters).collect();
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// As [`Self::released_to_all`], after a writer freed a row that others share: hands the
    /// row over to the first that was passed over too often and gets along with them.
    pub(crate) fn released_beside_sharers(
        &self,
        name: &LockName,
        mut take: impl FnMut(TransactionId, Option<RowLock>) -> bool,
    ) {
        fence(Ordering::SeqCst);
        let bucket = self.bucket(name);
        if bucket.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        let mut waiters = queue
            .iter_mut()
            .filter(|waiter| waiter.name == *name && !waiter.granted);
        let waker =
            waiters.find_map(|waiter| waiter.is_handed_over(&mut take).then(|| waiter.wake()));
        let others = queue.iter_mut().filter(|waiter| waiter.name == *name);
        let wakers: Vec<Waker> = waker.into_iter().chain(to_wake(others)).collect();
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The waiter that has to lock the row before `owner` does, which does not hold it: one
    /// that came first, wants a mode that conflicts, and
    ///
    /// - is about to try, where `owner` waits, too: of those woken at once, the first in the
    ///   queue gets the row. `owner` is woken when that attempt has failed;
    /// - or is reserved, where `owner` wants to share.
    ///
    /// None for one that may [pass](Self::let_pass).
    pub(crate) fn goes_before(
        &self,
        name: &LockName,
        owner: TransactionId,
        mode: RowLock,
    ) -> Option<TransactionId> {
        let bucket = self.bucket(name);
        if bucket.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        let at = queue
            .iter()
            .position(|waiter| waiter.owner == owner && waiter.name == *name);
        if at.is_some_and(|at| queue[at].passes) {
            return None;
        }
        let mut before = queue
            .iter()
            .take(at.unwrap_or(queue.len()))
            .filter(|waiter| waiter.name == *name && waiter.excludes(mode));
        let about_to_try = |waiter: &&Waiter| at.is_some() && waiter.is_about_to_try();
        if let Some(first) = before.clone().find(about_to_try) {
            let first = first.owner;
            queue[at?].deferred = true;
            return Some(first);
        }
        let reserved = before.find(|waiter| mode.is_shared() && waiter.is_reserved());
        reserved.map(|waiter| waiter.owner)
    }

    /// The reserved waiter for which `owner` waits, which wants to share the row.
    pub(crate) fn reserved(
        &self,
        name: &LockName,
        owner: TransactionId,
        mode: RowLock,
    ) -> Option<TransactionId> {
        let bucket = self.bucket(name);
        let queue = bucket.queue.lock().expect("no panic in a queue");
        let mut waiters = queue.iter().filter(|waiter| waiter.name == *name);
        let reserved = waiters
            .find(|waiter| waiter.owner == owner || waiter.is_reserved() && waiter.excludes(mode))
            .filter(|waiter| waiter.owner != owner)?;
        let passes = waiters.any(|waiter| waiter.owner == owner && waiter.passes);
        (!passes).then_some(reserved.owner)
    }

    /// Says whether `owner`, which waits to share a row, may do so before the reserved waiter.
    /// The caller must then notify the queue. False if it does not wait.
    pub(crate) fn let_pass(&self, name: &LockName, owner: TransactionId, passes: bool) -> bool {
        let bucket = self.bucket(name);
        let mut queue = bucket.queue.lock().expect("no panic in a queue");
        let mut waiters = queue.iter_mut();
        let waiter = waiters.find(|waiter| waiter.owner == owner && waiter.name == *name);
        waiter.is_some_and(|waiter| {
            waiter.passes = passes;
            true
        })
    }
}

/// Marks waiters as woken, and returns the wakers of those that were not yet.
fn to_wake<'a>(waiters: impl Iterator<Item = &'a mut Waiter>) -> impl Iterator<Item = Waker> {
    waiters
        .filter(|waiter| !waiter.woken && !waiter.granted)
        .map(Waiter::wake)
}

#[cfg(all(test, not(shuttle)))]
mod tests;

/// Run with `RUSTFLAGS="--cfg shuttle" cargo test -p coeval-occ --lib shuttled`.
#[cfg(all(test, shuttle))]
mod shuttled;
