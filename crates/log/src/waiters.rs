//! Those who wait for a timestamp to be reached by a prefix of the log, in the order
//! of their timestamps: an advance wakes exactly those it reaches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Waker};

use coeval_types::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// How many wait, to be read without the lock.
    count: AtomicUsize,
    /// By timestamp. Commits come to wait about in the order of their timestamps,
    /// so a new one goes in near the end.
    queue: Mutex<VecDeque<(Timestamp, Waker)>>,
}

impl Waiters {
    fn queue(&self) -> MutexGuard<'_, VecDeque<(Timestamp, Waker)>> {
        self.queue.lock().expect("no panic under this lock")
    }

    /// Remembers whom to wake at `timestamp`; once, however often the same task
    /// asks. The caller then looks again whether it has been reached.
    pub(crate) fn park(&self, timestamp: Timestamp, context: &mut Context<'_>) {
        let mut queue = self.queue();
        let end = queue.partition_point(|(other, _)| *other <= timestamp);
        let known = queue
            .range(..end)
            .rev()
            .take_while(|(other, _)| *other == timestamp)
            .any(|(_, waker)| waker.will_wake(context.waker()));
        if !known {
            queue.insert(end, (timestamp, context.waker().clone()));
            self.count.store(queue.len(), Ordering::Relaxed);
        }
        drop(queue);
        fence(Ordering::SeqCst);
    }

    /// Wakes those who wait for `timestamp` or an earlier one. To be called after
    /// it was published.
    pub(crate) fn reached(&self, timestamp: Timestamp) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let reached: Vec<_> = {
            let mut queue = self.queue();
            let end = queue.partition_point(|(other, _)| *other <= timestamp);
            let reached = queue.drain(..end).collect();
            self.count.store(queue.len(), Ordering::Relaxed);
            reached
        };
        for (_, waker) in reached {
            waker.wake();
        }
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        self.reached(Timestamp::INFINITE);
    }
}
