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
//! a stronger mode waits for nobody's attempt, as in PostgreSQL: the others wait for it. One
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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waker() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn woken(count: &Count) -> usize {
        count.0.load(Ordering::Relaxed)
    }

    const NAME: LockName = LockName::Row(StorageId(1), Rid(1));
    const OTHER: LockName = LockName::Row(StorageId(1), Rid(2));
    const A: TransactionId = TransactionId(1);
    const B: TransactionId = TransactionId(2);

    fn take(word: &AtomicU64, owner: TransactionId) -> bool {
        word.compare_exchange(0, owner.0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    #[test]
    fn the_first_to_come_is_woken_once() {
        let queues = Queues::new();
        let ((a, wake_a), (b, wake_b)) = (waker(), waker());
        queues.enqueue(&NAME, (A, None), &wake_a);
        queues.enqueue(&NAME, (B, None), &wake_b);
        queues.released(&OTHER, |_, _| false);
        assert_eq!((woken(&a), woken(&b)), (0, 0), "another lock's release");
        queues.released(&NAME, |_, _| false);
        queues.released(&NAME, |_, _| false);
        assert_eq!((woken(&a), woken(&b)), (1, 0), "it has not looked yet");
        assert_eq!(queues.look_again(&NAME, A, &wake_a), Turn::Try);
        queues.released(&NAME, |_, _| false);
        assert_eq!((woken(&a), woken(&b)), (2, 0));
    }

    #[test]
    fn one_who_gives_up_passes_its_wake_up_on() {
        let queues = Queues::new();
        let ((a, wake_a), (b, wake_b)) = (waker(), waker());
        queues.enqueue(&NAME, (A, None), &wake_a);
        queues.enqueue(&NAME, (B, None), &wake_b);
        queues.released(&NAME, |_, _| false);
        assert!(!queues.leave(&NAME, A, false));
        assert_eq!((woken(&a), woken(&b)), (1, 1));
    }

    /// A is woken, polls again, finds the lock free, and does not want it any more.
    #[test]
    fn one_who_looked_again_and_gives_up_passes_its_wake_up_on() {
        let queues = Queues::new();
        let ((a, wake_a), (b, wake_b)) = (waker(), waker());
        queues.enqueue(&NAME, (A, None), &wake_a);
        queues.enqueue(&NAME, (B, None), &wake_b);
        queues.released(&NAME, |_, _| false);
        assert_eq!(queues.look_again(&NAME, A, &wake_a), Turn::Try);
        assert!(!queues.leave(&NAME, A, false));
        assert_eq!((woken(&a), woken(&b)), (1, 1));
    }

    #[test]
    fn one_passed_over_too_often_is_handed_the_lock() {
        let queues = Queues::new();
        let word = AtomicU64::new(0);
        let (a, wake_a) = waker();
        queues.enqueue(&NAME, (A, None), &wake_a);
        for round in 0..PASSED_OVER_LIMIT {
            word.store(0, Ordering::SeqCst);
            queues.released(&NAME, |owner, _| take(&word, owner));
            assert_eq!(woken(&a), 1 + round as usize);
            // Another transaction was faster.
            assert!(take(&word, B));
            assert_eq!(queues.look_again(&NAME, A, &wake_a), Turn::Try);
        }
        word.store(0, Ordering::SeqCst);
        queues.released(&NAME, |owner, _| take(&word, owner));
        assert_eq!(word.load(Ordering::SeqCst), A.0);
        assert_eq!(queues.look_again(&NAME, A, &wake_a), Turn::Granted);
        assert!(queues.leave(&NAME, A, true));
    }

    /// A and B are woken at once, and B polls first.
    #[test]
    fn of_those_woken_at_once_the_first_in_the_queue_tries_first() {
        let queues = Queues::new();
        let ((_, wake_a), (b, wake_b)) = (waker(), waker());
        let no_key = RowLock::NoKeyUpdate;
        let before_b = |mode| queues.goes_before(&NAME, B, mode);
        queues.enqueue(&NAME, (A, Some(RowLock::Update)), &wake_a);
        queues.tried_in_vain(&NAME, A);
        assert_eq!(before_b(no_key), None, "it does not wait");
        queues.enqueue(&NAME, (B, Some(no_key)), &wake_b);
        assert_eq!(before_b(no_key), None, "A has tried");
        queues.tried_in_vain(&NAME, B);
        queues.released_to_all(&NAME);
        assert_eq!(woken(&b), 1);
        assert_eq!(before_b(no_key), Some(A));
        assert_eq!(queues.look_again(&NAME, B, &wake_b), Turn::Try);
        assert_eq!(before_b(no_key), Some(A));
        queues.tried_in_vain(&NAME, B);
        assert_eq!(queues.look_again(&NAME, A, &wake_a), Turn::Try);
        assert_eq!(before_b(no_key), Some(A), "A is about to try");
        queues.tried_in_vain(&NAME, A);
        assert_eq!(woken(&b), 2);
        assert_eq!(before_b(no_key), None);
        queues.released_to_all(&NAME);
        assert_eq!(before_b(no_key), Some(A));
        queues.leave(&NAME, A, false);
        assert_eq!(before_b(no_key), None);
    }

    #[test]
    fn one_passed_over_too_often_is_handed_a_row_that_others_share() {
        let queues = Queues::new();
        let (_, wake) = waker();
        queues.enqueue(&NAME, (A, Some(RowLock::Update)), &wake);
        queues.enqueue(&NAME, (B, Some(RowLock::NoKeyUpdate)), &wake);
        // The sharer is in the way of UPDATE.
        let take = |_, mode| mode == Some(RowLock::NoKeyUpdate);
        for _ in 0..PASSED_OVER_LIMIT {
            queues.released_beside_sharers(&NAME, take);
            for waiter in [A, B] {
                assert_eq!(queues.look_again(&NAME, waiter, &wake), Turn::Try);
            }
        }
        queues.released_beside_sharers(&NAME, take);
        assert_eq!(queues.look_again(&NAME, A, &wake), Turn::Try);
        assert_eq!(queues.look_again(&NAME, B, &wake), Turn::Granted);
    }

    #[test]
    fn a_sharer_may_be_let_pass_a_reserved_writer() {
        let queues = Queues::new();
        let (_, wake) = waker();
        let share = RowLock::KeyShare;
        queues.enqueue(&NAME, (A, Some(RowLock::Update)), &wake);
        for _ in 0..PASSED_OVER_LIMIT {
            assert_eq!(queues.goes_before(&NAME, B, share), None);
            queues.shared_by(&NAME, B);
            assert_eq!(queues.look_again(&NAME, A, &wake), Turn::Try);
        }
        queues.tried_in_vain(&NAME, A);
        assert_eq!(queues.goes_before(&NAME, B, share), Some(A));
        queues.enqueue(&NAME, (B, Some(share)), &wake);
        assert_eq!(queues.reserved(&NAME, B, share), Some(A));
        assert!(queues.let_pass(&NAME, B, true));
        assert_eq!(queues.goes_before(&NAME, B, share), None);
        assert_eq!(queues.reserved(&NAME, B, share), None);
        assert!(queues.let_pass(&NAME, B, false));
        assert_eq!(queues.goes_before(&NAME, B, share), Some(A));
    }
}

/// Run with `RUSTFLAGS="--cfg shuttle" cargo test -p coeval-occ --lib shuttled`.
#[cfg(all(test, shuttle))]
mod shuttled {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Poll;

    use coeval_memory::sync::atomic::AtomicU64;
    use shuttle::future::block_on;
    use shuttle::thread;

    use super::*;

    const NAME: LockName = LockName::Row(StorageId(1), Rid(1));

    struct Lock {
        queues: Queues,
        word: AtomicU64,
        inside: AtomicU64,
    }

    fn take(word: &AtomicU64, owner: TransactionId) -> bool {
        word.compare_exchange(0, owner.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Acquires the lock as a transaction does; `forgetful` omits the attempt after
    /// enqueueing.
    async fn acquire(lock: &Lock, owner: TransactionId, forgetful: bool) {
        let mut waiting = false;
        poll_fn(|context| {
            let mut told = false;
            loop {
                let held = lock.word.load(Ordering::Acquire) == owner.0;
                if held || take(&lock.word, owner) {
                    if waiting {
                        lock.queues.leave(&NAME, owner, true);
                    }
                    return Poll::Ready(());
                }
                if !waiting {
                    waiting = true;
                    lock.queues.enqueue(&NAME, (owner, None), context.waker());
                    if forgetful {
                        return Poll::Pending;
                    }
                } else if told {
                    return Poll::Pending;
                } else {
                    lock.queues.look_again(&NAME, owner, context.waker());
                }
                told = true;
            }
        })
        .await;
    }

    /// Waits until the lock is free, and does not take it: as a transaction that waits to
    /// insert a key, and finds it there.
    async fn wait_only(lock: &Lock, owner: TransactionId) {
        let mut waiting = false;
        poll_fn(|context| {
            let mut told = false;
            loop {
                if lock.word.load(Ordering::Acquire) == owner.0 {
                    // The lock was handed over.
                    assert!(lock.queues.leave(&NAME, owner, true));
                    lock.word.store(0, Ordering::Release);
                    lock.queues
                        .released(&NAME, |owner, _| take(&lock.word, owner));
                    return Poll::Ready(());
                }
                if lock.word.load(Ordering::Acquire) == 0 {
                    if waiting && lock.queues.leave(&NAME, owner, false) {
                        lock.word.store(0, Ordering::Release);
                        lock.queues
                            .released(&NAME, |owner, _| take(&lock.word, owner));
                    }
                    return Poll::Ready(());
                }
                if !waiting {
                    waiting = true;
                    lock.queues.enqueue(&NAME, (owner, None), context.waker());
                } else if told {
                    return Poll::Pending;
                } else {
                    lock.queues.look_again(&NAME, owner, context.waker());
                }
                told = true;
            }
        })
        .await;
    }

    fn contend(forgetful: bool) {
        let lock = Arc::new(Lock {
            queues: Queues::new(),
            word: AtomicU64::new(0),
            inside: AtomicU64::new(0),
        });
        let threads: Vec<_> = (1..4)
            .map(|owner| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    for _ in 0..2 {
                        block_on(acquire(&lock, TransactionId(owner), forgetful));
                        assert_eq!(lock.inside.fetch_add(1, Ordering::SeqCst), 0);
                        lock.inside.fetch_sub(1, Ordering::SeqCst);
                        lock.word.store(0, Ordering::Release);
                        lock.queues
                            .released(&NAME, |owner, _| take(&lock.word, owner));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
    }

    #[test]
    fn no_wake_up_is_lost() {
        shuttle::check_random(|| contend(false), 2000);
    }

    /// As above, with one transaction that waits only and two that take the lock.
    #[test]
    fn one_who_wants_the_lock_no_more_keeps_nobody_waiting() {
        shuttle::check_random(
            || {
                let lock = Arc::new(Lock {
                    queues: Queues::new(),
                    word: AtomicU64::new(9),
                    inside: AtomicU64::new(0),
                });
                let mut threads: Vec<_> = [1, 2]
                    .map(|owner| {
                        let lock = Arc::clone(&lock);
                        thread::spawn(move || {
                            block_on(wait_only(&lock, TransactionId(owner)));
                        })
                    })
                    .into();
                let inserter = Arc::clone(&lock);
                threads.push(thread::spawn(move || {
                    while inserter
                        .queues
                        .bucket(&NAME)
                        .waiting
                        .load(Ordering::Relaxed)
                        < 2
                    {
                        thread::yield_now();
                    }
                    for round in 0..2 {
                        if round == 1 {
                            block_on(acquire(&inserter, TransactionId(9), false));
                        }
                        inserter.word.store(0, Ordering::Release);
                        let word = &inserter.word;
                        inserter
                            .queues
                            .released(&NAME, |owner, _| take(word, owner));
                    }
                }));
                for thread in threads {
                    thread.join().expect("no panic");
                }
            },
            5000,
        );
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_the_second_attempt_one_is() {
        shuttle::check_random(|| contend(true), 2000);
    }

    /// A row that a transaction shares until the one that wants NO KEY UPDATE has had it, and
    /// that another one holds for a moment.
    struct Row {
        queues: Queues,
        word: AtomicU64,
        shared: AtomicU64,
    }

    impl Row {
        fn free(&self) {
            self.word.store(0, Ordering::SeqCst);
            self.queues.released_beside_sharers(&NAME, |_, _| false);
        }

        /// Acquires the row as a transaction does that waits for those before it; `silent`
        /// omits to say that it has tried in vain.
        async fn acquire(&self, owner: TransactionId, mode: RowLock, silent: bool) {
            let mut waiting = false;
            poll_fn(|context| {
                let mut told = false;
                loop {
                    let first = match waiting {
                        true => self.queues.goes_before(&NAME, owner, mode),
                        false => None,
                    };
                    let in_the_way =
                        mode == RowLock::Update && self.shared.load(Ordering::SeqCst) != 0;
                    if first.is_none() && !in_the_way && take(&self.word, owner) {
                        if waiting {
                            self.queues.leave(&NAME, owner, true);
                        }
                        return Poll::Ready(());
                    }
                    if !waiting {
                        waiting = true;
                        let wanted = (owner, Some(mode));
                        self.queues.enqueue(&NAME, wanted, context.waker());
                    } else if told {
                        if !silent {
                            self.queues.tried_in_vain(&NAME, owner);
                        }
                        return Poll::Pending;
                    } else {
                        self.queues.look_again(&NAME, owner, context.waker());
                    }
                    told = true;
                }
            })
            .await;
            self.free();
        }
    }

    fn wait_in_order(silent: bool) {
        let row = Arc::new(Row {
            queues: Queues::new(),
            word: AtomicU64::new(9),
            shared: AtomicU64::new(1),
        });
        let [blocked, free] =
            [(1, RowLock::Update), (2, RowLock::NoKeyUpdate)].map(|(id, mode)| {
                let row = Arc::clone(&row);
                thread::spawn(move || block_on(row.acquire(TransactionId(id), mode, silent)))
            });
        row.free();
        free.join().expect("no panic");
        row.shared.store(0, Ordering::SeqCst);
        row.queues.released_to_all(&NAME);
        blocked.join().expect("no panic");
    }

    #[test]
    fn an_attempt_that_was_left_to_another_is_made_up_for() {
        shuttle::check_random(|| wait_in_order(false), 5000);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn one_that_says_nothing_keeps_those_behind_it_waiting() {
        shuttle::check_random(|| wait_in_order(true), 5000);
    }
}
