//! The queue of tasks that wait for a prefix of the log to reach a timestamp, ordered by
//! timestamp: an advance wakes exactly the tasks it reaches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Waker};

use coeval_types::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Number of waiting tasks; read without the lock.
    count: AtomicUsize,
    /// Wakers by timestamp. Commits start to wait roughly in timestamp order, so a new
    /// one goes in near the end.
    queue: Mutex<VecDeque<(Timestamp, Waker)>>,
}

impl Waiters {
    fn queue(&self) -> MutexGuard<'_, VecDeque<(Timestamp, Waker)>> {
        self.queue.lock().expect("no panic under this lock")
    }

    /// Queues the task's waker for `timestamp`; once, however often the same task polls.
    /// The caller then checks again whether the timestamp has been reached.
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

    /// Wakes the tasks that wait for `timestamp` or an earlier one. The caller publishes
    /// the timestamp first.
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

    /// Wakes every waiting task.
    pub(crate) fn wake_all(&self) {
        self.reached(Timestamp::INFINITE);
    }
}
