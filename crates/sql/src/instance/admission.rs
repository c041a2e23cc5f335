//! Admission control: limits how many transactions run at once, and queues the others.
//!
//! More transactions at once than cores can serve do not get more done: they share
//! caches, hold each other's locks for longer, and at the optimistic levels fail each
//! other's validation. So a new transaction needs a *slot*, of which the number is
//! limited, and waits for one in order of arrival. A server with twice the work it can do
//! then answers half as fast, and keeps its throughput.
//!
//! ```text
//!              enter                    end of the transaction
//!   outside ───────────▶ working ─────────────────────────────▶ outside
//!       │ no slot           │ ▲                                    ▲
//!       ▼                   │ │ resume, never waits                │
//!     queue ── in turn ──▶  ▼ │                                    │
//!                        resting ── for a whole tick ──▶ lapsed ───┘
//! ```
//!
//! # Why no transaction waits forever
//!
//! A transaction that was admitted never waits for admission again: a lock holder can
//! always continue to the point where it releases the lock. And a transaction that rests
//! (waits for a lock, for its client's next statement, or for its client to take a
//! result) keeps its slot only for a moment. Then the slot *lapses*: the next waiter in
//! the queue gets it, and when the resting transaction continues, more transactions run
//! for a while than there are slots. So a client that leaves a transaction open for
//! lunch, and a hundred that wait for the row it has locked, do not block new
//! transactions.
//!
//! The waiter at the head of the queue makes slots lapse: it wakes every [`TICK`], and
//! takes the slots of transactions that have rested since before the previous tick. While
//! the queue is empty no slot lapses, no clock is read, and a slot costs an addition and
//! a subtraction.
//!
//! # Invariants
//!
//! 1. `working` is the number of transactions that work or rest, plus the slots that were
//!    granted to waiters which have not woken up yet.
//! 2. A thread that lowers `working` checks the queue afterwards; a waiter that enters
//!    the queue checks `working` afterwards; both with sequentially consistent
//!    operations. So a slot never stays free while a waiter is queued.
//! 3. A slot that was granted to a waiter that has given up is returned.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use coeval_txn::{ConflictLocation, LockObserver};

use crate::error::{Error, Result};

/// Interval at which the head of the queue looks for slots that have lapsed. A
/// transaction rests for one to two ticks before it loses its slot.
const TICK: Duration = Duration::from_millis(5);

/// State of a seat: no transaction, no slot.
const OUTSIDE: u64 = 0;
/// State of a seat: the transaction runs and has a slot.
const WORKING: u64 = 1;
/// State of a seat: the transaction lost its slot while it rested.
const LAPSED: u64 = 2;
/// First state of a resting transaction: `RESTING` plus the tick at which it began to
/// rest.
const RESTING: u64 = 3;

/// Counters and present state of an [`Admission`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionCounts {
    /// Number of slots; `usize::MAX` for no limit.
    pub places: usize,
    /// Number of transactions that have a slot, or that continue after theirs had lapsed.
    pub working: usize,
    /// Number of transactions that wait for a slot.
    pub waiting: usize,
    /// Number of transactions admitted so far, with or without waiting.
    pub admitted: u64,
    /// Number of admitted transactions that had to wait.
    pub waited: u64,
    /// Total time for which admitted transactions have waited, in microseconds.
    pub waited_microseconds: u64,
    /// Number of slots that have lapsed.
    pub lapsed: u64,
}

/// The admission control that all sessions of a database share.
#[derive(Debug)]
pub struct Admission {
    places: AtomicUsize,
    working: AtomicUsize,
    /// Length of the queue, readable without the queue's lock.
    waiting: AtomicUsize,
    /// Number of passes over the seats so far, each of which takes the slots that have
    /// lapsed.
    tick: AtomicU64,
    queue: Mutex<VecDeque<Arc<Waiter>>>,
    /// The seats of all sessions.
    seats: Mutex<Vec<Weak<Seat>>>,
    admitted: AtomicU64,
    waited: AtomicU64,
    waited_microseconds: AtomicU64,
    lapsed: AtomicU64,
}

/// A transaction in the queue.
#[derive(Debug)]
struct Waiter {
    state: Mutex<Waiting>,
}

#[derive(Debug)]
enum Waiting {
    Waits(Waker),
    Granted,
    /// The waiter gave up.
    Gone,
}

impl Waiter {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            places: AtomicUsize::new(usize::MAX),
            working: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            tick: AtomicU64::new(RESTING),
            queue: Mutex::default(),
            seats: Mutex::default(),
            admitted: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            waited_microseconds: AtomicU64::new(0),
            lapsed: AtomicU64::new(0),
        }
    }
}

impl Admission {
    /// Changes the number of slots: at least 1; `usize::MAX` admits every transaction.
    pub fn set_places(&self, places: usize) {
        self.places.store(places.max(1), Ordering::SeqCst);
        self.serve();
    }

    /// The counters and the present state. Reads them without a lock, so they may
    /// disagree slightly.
    #[must_use]
    pub fn counts(&self) -> AdmissionCounts {
        AdmissionCounts {
            places: self.places.load(Ordering::Relaxed),
            working: self.working.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            admitted: self.admitted.load(Ordering::Relaxed),
            waited: self.waited.load(Ordering::Relaxed),
            waited_microseconds: self.waited_microseconds.load(Ordering::Relaxed),
            lapsed: self.lapsed.load(Ordering::Relaxed),
        }
    }

    /// Takes a slot if one is free.
    fn try_take(&self) -> bool {
        let places = self.places.load(Ordering::SeqCst);
        let mut working = self.working.load(Ordering::SeqCst);
        while working < places {
            let taken = self.working.compare_exchange_weak(
                working,
                working + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            match taken {
                Ok(_) => return true,
                Err(now) => working = now,
            }
        }
        false
    }

    /// Returns a slot.
    fn leave(&self) {
        self.working.fetch_sub(1, Ordering::SeqCst);
        self.serve();
    }

    /// Grants free slots to the transactions that have waited longest.
    fn serve(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut wakers = Vec::new();
        {
            let mut queue = lock(&self.queue);
            while let Some(first) = queue.front() {
                let mut state = first.state();
                if let Waiting::Waits(_) = &*state {
                    if !self.try_take() {
                        break;
                    }
                    if let Waiting::Waits(waker) = std::mem::replace(&mut *state, Waiting::Granted)
                    {
                        wakers.push(waker);
                    }
                }
                drop(state);
                queue.pop_front();
            }
            // The new head of the queue has to learn that it now makes slots lapse.
            if let Some(first) = queue.front()
                && let Waiting::Waits(waker) = &*first.state()
                && !wakers.is_empty()
            {
                wakers.push(waker.clone());
            }
            self.waiting.store(queue.len(), Ordering::SeqCst);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn is_first(&self, waiter: &Arc<Waiter>) -> bool {
        let queue = lock(&self.queue);
        queue
            .front()
            .is_some_and(|first| Arc::ptr_eq(first, waiter))
    }

    /// Takes the slots of transactions that have rested for longer than a tick.
    fn take_lapsed(&self) {
        let now = self.tick.fetch_add(1, Ordering::SeqCst) + 1;
        let mut lapsed = 0;
        lock(&self.seats).retain(|seat| {
            let Some(seat) = seat.upgrade() else {
                return false;
            };
            let since = seat.state.load(Ordering::SeqCst);
            if since >= RESTING
                && since + 2 <= now
                && seat
                    .state
                    .compare_exchange(since, LAPSED, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
            {
                lapsed += 1;
            }
            true
        });
        if lapsed > 0 {
            self.lapsed.fetch_add(lapsed as u64, Ordering::Relaxed);
            self.working.fetch_sub(lapsed, Ordering::SeqCst);
            self.serve();
        }
    }

    /// Waits in the queue for a slot.
    async fn wait(self: &Arc<Self>, cancel: &AtomicBool) -> Result<()> {
        let began = coeval_env::now();
        let waiter = Arc::new(Waiter {
            state: Mutex::new(Waiting::Waits(Waker::noop().clone())),
        });
        {
            let mut queue = lock(&self.queue);
            queue.push_back(Arc::clone(&waiter));
            self.waiting.store(queue.len(), Ordering::SeqCst);
        }
        let leaving = Leaving {
            admission: self,
            waiter: &waiter,
        };
        // A slot may have become free before this waiter entered the queue (invariant 2).
        self.serve();
        let mut timer = pin!(None);
        let result = poll_fn(|context| {
            {
                let mut state = waiter.state();
                match &mut *state {
                    Waiting::Waits(waker) => waker.clone_from(context.waker()),
                    Waiting::Granted | Waiting::Gone => return Poll::Ready(Ok(())),
                }
            }
            if cancel.load(Ordering::Acquire) {
                return Poll::Ready(Err(Error::canceled()));
            }
            while self.is_first(&waiter) {
                if timer.is_none() {
                    timer.set(Some(coeval_env::sleep(TICK)));
                }
                let Some(ticking) = timer.as_mut().as_pin_mut() else {
                    break;
                };
                if ticking.poll(context).is_pending() {
                    break;
                }
                timer.set(None);
                self.take_lapsed();
                if matches!(&*waiter.state(), Waiting::Granted) {
                    return Poll::Ready(Ok(()));
                }
            }
            Poll::Pending
        })
        .await;
        if result.is_ok() {
            std::mem::forget(leaving);
            self.waited.fetch_add(1, Ordering::Relaxed);
            let microseconds = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.waited_microseconds
                .fetch_add(microseconds, Ordering::Relaxed);
        }
        result
    }
}

/// Removes a waiter from the queue when its wait is given up.
struct Leaving<'wait> {
    admission: &'wait Admission,
    waiter: &'wait Waiter,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.waiter.state(), Waiting::Gone);
        if matches!(before, Waiting::Granted) {
            self.admission.leave();
        } else {
            let mut queue = lock(&self.admission.queue);
            queue.retain(|waiter| !std::ptr::eq(&**waiter, self.waiter));
            self.admission.waiting.store(queue.len(), Ordering::SeqCst);
            drop(queue);
            // This waiter may have been the head, which makes slots lapse.
            self.admission.wake_first();
        }
    }
}

impl Admission {
    fn wake_first(&self) {
        let first = lock(&self.queue).front().cloned();
        if let Some(first) = first
            && let Waiting::Waits(waker) = &*first.state()
        {
            waker.wake_by_ref();
        }
    }
}

/// Admission state of a session's transaction.
#[derive(Debug)]
struct Seat {
    admission: Arc<Admission>,
    state: AtomicU64,
}

impl Seat {
    /// Records that the transaction waits, for a lock or for its client.
    fn rest(&self) {
        if self.state.load(Ordering::SeqCst) == WORKING {
            let tick = self.admission.tick.load(Ordering::SeqCst);
            self.state.store(tick, Ordering::SeqCst);
        }
    }

    /// Records that the transaction continues. Never waits.
    fn resume(&self) {
        let state = self.state.load(Ordering::SeqCst);
        if state > WORKING && self.state.swap(WORKING, Ordering::SeqCst) == LAPSED {
            self.admission.working.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl LockObserver for Seat {
    fn waits(&self, _: &ConflictLocation) {
        self.rest();
    }

    fn goes_on(&self) {
        self.resume();
    }
}

/// A session's handle on admission control. Its transaction has a slot between
/// [`Ticket::enter`] and [`Ticket::leave`], or the drop of the ticket.
#[derive(Debug)]
pub(crate) struct Ticket {
    seat: Arc<Seat>,
    /// Whether the session's transactions are admitted at once; they still count.
    privileged: bool,
}

impl Ticket {
    pub(crate) fn new(admission: &Arc<Admission>, privileged: bool) -> Self {
        let seat = Arc::new(Seat {
            admission: Arc::clone(admission),
            state: AtomicU64::new(OUTSIDE),
        });
        let mut seats = lock(&admission.seats);
        // Removes the seats of sessions that have ended, whenever the list is full.
        if seats.len() == seats.capacity() {
            seats.retain(|seat| seat.strong_count() > 0);
        }
        seats.push(Arc::downgrade(&seat));
        drop(seats);
        Self { seat, privileged }
    }

    /// Observer through which the engine reports the transaction's lock waits.
    pub(crate) fn observer(&self) -> Arc<dyn LockObserver> {
        Arc::clone(&self.seat) as _
    }

    /// Obtains a slot for a new transaction, waiting in the queue if none is free.
    /// Returns at once when the ticket already has one, as when a transaction restarts
    /// after a conflict.
    pub(crate) async fn enter(&self, cancel: &AtomicBool) -> Result<()> {
        let Seat { admission, state } = &*self.seat;
        if state.load(Ordering::SeqCst) != OUTSIDE {
            self.resume();
            return Ok(());
        }
        if self.privileged {
            admission.working.fetch_add(1, Ordering::SeqCst);
        } else if admission.waiting.load(Ordering::SeqCst) > 0 || !admission.try_take() {
            admission.wait(cancel).await?;
        }
        admission.admitted.fetch_add(1, Ordering::Relaxed);
        state.store(WORKING, Ordering::SeqCst);
        Ok(())
    }

    /// Records that the transaction waits for its client.
    pub(crate) fn rest(&self) {
        self.seat.rest();
    }

    /// Records that the transaction continues. Never waits.
    pub(crate) fn resume(&self) {
        self.seat.resume();
    }

    /// Returns the slot, because the transaction has ended.
    pub(crate) fn leave(&self) {
        let Seat { admission, state } = &*self.seat;
        // Usually the transaction has left already, and a load is cheaper than a swap.
        if state.load(Ordering::SeqCst) == OUTSIDE {
            return;
        }
        match state.swap(OUTSIDE, Ordering::SeqCst) {
            OUTSIDE | LAPSED => {}
            _ => admission.leave(),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(places: usize) -> Arc<Admission> {
        let admission = Arc::new(Admission::default());
        admission.set_places(places);
        admission
    }

    fn in_runtime(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(test);
    }

    /// Lets the other tasks run until they wait.
    async fn settle() {
        for _ in 0..10 {
            coeval_env::yield_now().await;
        }
    }

    /// Requests a slot in a task of its own.
    fn ask(
        admission: &Arc<Admission>,
        cancel: &Arc<AtomicBool>,
    ) -> coeval_env::JoinHandle<Result<Ticket>> {
        let (ticket, cancel) = (Ticket::new(admission, false), Arc::clone(cancel));
        coeval_env::spawn("asks", async move {
            ticket.enter(&cancel).await?;
            Ok(ticket)
        })
    }

    #[test]
    fn places_are_given_in_the_order_of_arrival() {
        in_runtime(async {
            let admission = admission(1);
            let never = Arc::new(AtomicBool::new(false));
            let first = ask(&admission, &never).await.unwrap().unwrap();
            let second = ask(&admission, &never);
            settle().await;
            let third = ask(&admission, &never);
            settle().await;
            assert_eq!(admission.counts().waiting, 2);
            first.leave();
            let second = second.await.unwrap().unwrap();
            settle().await;
            let counts = admission.counts();
            assert_eq!((counts.working, counts.waiting), (1, 1));
            // A session that ends leaves the queue as well.
            drop(second);
            let third = third.await.unwrap().unwrap();
            third.leave();
            let counts = admission.counts();
            assert_eq!((counts.working, counts.waiting), (0, 0));
            assert_eq!((counts.admitted, counts.waited), (3, 2));
        });
    }

    #[test]
    fn a_place_lapses_while_its_transaction_rests() {
        in_runtime(async {
            let admission = admission(1);
            let never = Arc::new(AtomicBool::new(false));
            let resting = ask(&admission, &never).await.unwrap().unwrap();
            resting.rest();
            // The transaction waits for a tick or two, and is admitted.
            let other = ask(&admission, &never).await.unwrap().unwrap();
            assert_eq!(admission.counts().lapsed, 1);
            assert_eq!(admission.counts().working, 1);
            // The first continues without waiting, and a third waits for both.
            resting.resume();
            assert_eq!(admission.counts().working, 2);
            let third = ask(&admission, &never);
            settle().await;
            other.leave();
            settle().await;
            assert_eq!(admission.counts().waiting, 1);
            resting.leave();
            third.await.unwrap().unwrap().leave();
            assert_eq!(admission.counts().working, 0);
        });
    }

    #[test]
    fn one_that_works_keeps_its_place() {
        in_runtime(async {
            let admission = admission(1);
            let never = Arc::new(AtomicBool::new(false));
            let working = ask(&admission, &never).await.unwrap().unwrap();
            let other = ask(&admission, &never);
            while admission.tick.load(Ordering::SeqCst) < RESTING + 4 {
                coeval_env::sleep(TICK).await;
            }
            assert_eq!(admission.counts().lapsed, 0);
            assert_eq!(admission.counts().waiting, 1);
            working.leave();
            other.await.unwrap().unwrap().leave();
        });
    }

    #[test]
    fn who_gives_up_leaves_the_queue_to_the_others() {
        in_runtime(async {
            let admission = admission(1);
            let cancel = Arc::new(AtomicBool::new(true));
            let never = Arc::new(AtomicBool::new(false));
            let first = ask(&admission, &never).await.unwrap().unwrap();
            let canceled = ask(&admission, &cancel).await.unwrap().unwrap_err();
            assert_eq!(canceled.state().0, "57014");
            let aborted = ask(&admission, &never);
            settle().await;
            let waits = ask(&admission, &never);
            settle().await;
            aborted.abort();
            settle().await;
            assert_eq!(admission.counts().waiting, 1);
            // This waiter is the head now, and makes slots lapse.
            first.rest();
            waits.await.unwrap().unwrap().leave();
            first.leave();
            assert_eq!(admission.counts().working, 0);
        });
    }

    #[test]
    fn the_privileged_never_wait() {
        in_runtime(async {
            let admission = admission(1);
            let never = Arc::new(AtomicBool::new(false));
            let first = ask(&admission, &never).await.unwrap().unwrap();
            let administrator = Ticket::new(&admission, true);
            administrator.enter(&never).await.unwrap();
            assert_eq!(admission.counts().working, 2);
            administrator.leave();
            first.leave();
        });
    }

    #[test]
    fn more_places_let_more_in() {
        in_runtime(async {
            let admission = admission(1);
            let never = Arc::new(AtomicBool::new(false));
            let first = ask(&admission, &never).await.unwrap().unwrap();
            let second = ask(&admission, &never);
            settle().await;
            admission.set_places(2);
            let second = second.await.unwrap().unwrap();
            first.leave();
            second.leave();
            assert_eq!(admission.counts().working, 0);
        });
    }
}
