//! The visible prefix of a follower's log, and the readers that wait until it reaches an offset.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use coeval_txn::Error;
use coeval_types::{Lsn, Timestamp, planted};

/// How far a follower's tables may be read.
#[derive(Debug)]
pub(super) struct Visibility {
    /// The last commit that is replayed, settled and committed.
    last: AtomicU64,
    /// Everything before this offset is: the commits up to `last`, and log that holds no
    /// commit.
    end: AtomicU64,
    /// Whether the tables have ended: nothing becomes visible any more.
    closed: AtomicBool,
    waiting: Mutex<Vec<(Lsn, Waker)>>,
}

impl Visibility {
    pub(super) fn new(last: Timestamp) -> Self {
        // A commit's frame is longer than a byte, so this is not past its end.
        let end = last.lsn().0 + u64::from(last != Timestamp::ZERO);
        Self {
            last: AtomicU64::new(last.to_bits()),
            end: AtomicU64::new(end),
            closed: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    pub(super) fn last(&self) -> Timestamp {
        Timestamp::from_bits(self.last.load(Ordering::Acquire))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Makes commits up to `last` visible.
    pub(super) fn publish(&self, last: Timestamp) {
        self.last.store(last.to_bits(), Ordering::Release);
    }

    /// Notes that everything before `end` is visible, after [`Self::publish`].
    pub(super) fn reach(&self, end: Lsn) {
        if self.end.fetch_max(end.0, Ordering::AcqRel) < end.0 {
            self.wake(|at| at <= end);
        }
    }

    /// Ends all waits, now and from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake(|_| true);
    }

    /// Ready when everything before `at` is visible.
    pub(super) fn poll(&self, at: Lsn, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let ready @ Poll::Ready(_) = self.look(at) {
            return ready;
        }
        let mut waiting = self.waiting.lock().expect("no panic while it was held");
        // The thread that moves the end takes this lock afterwards: a move that is not seen here
        // finds the waker.
        if let ready @ Poll::Ready(_) = self.look(at) {
            return ready;
        }
        let waker = context.waker();
        if !waiting
            .iter()
            .any(|(its, other)| *its == at && other.will_wake(waker))
        {
            waiting.push((at, waker.clone()));
        }
        Poll::Pending
    }

    fn look(&self, at: Lsn) -> Poll<Result<(), Error>> {
        if self.is_closed() {
            return Poll::Ready(Err(super::ended()));
        }
        let end = match planted!(ComparePacked) {
            true => self.last().to_bits(),
            false => self.end.load(Ordering::Acquire),
        };
        match end >= at.0 {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn wake(&self, is_due: impl Fn(Lsn) -> bool) {
        let mut waiting = self.waiting.lock().expect("no panic while it was held");
        let due: Vec<_> = waiting.extract_if(.., |(at, _)| is_due(*at)).collect();
        drop(waiting);
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}
