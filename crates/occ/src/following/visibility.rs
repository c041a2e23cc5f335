//! The visible prefix of a follower's log, and the readers that wait until it reaches an offset.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

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
    /// The wakers of tasks that wait, each once, with the least offset that it waits for.
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
        match waiting.iter_mut().find(|(_, its)| its.will_wake(waker)) {
            // A task that waits for two offsets looks again at the first.
            Some((its, _)) => *its = at.min(*its),
            None => waiting.push((at, waker.clone())),
        }
        Poll::Pending
    }

    /// Ready when this commit of the log is visible. One of a later term than all that are is of
    /// another log up to here: it has not been committed before what is visible.
    pub(super) fn poll_commit(
        &self,
        commit: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        // A commit's frame is longer than a byte: an end past its start is past its end.
        ready!(self.poll(Lsn(commit.lsn().0.saturating_add(1)), context))?;
        loop {
            let end = self.end.load(Ordering::Acquire);
            if self.last().term() >= commit.term() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll(Lsn(end.saturating_add(1)), context))?;
        }
    }

    /// Forgets this waker, and wakes it: its task has given up a wait, and may have others.
    pub(super) fn stop_waiting(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock().expect("no panic while it was held");
        let gone = waiting.extract_if(.., |(_, its)| its.will_wake(waker));
        let gone: Vec<_> = gone.collect();
        drop(waiting);
        gone.into_iter().for_each(|(_, waker)| waker.wake());
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::task::Wake;

    use coeval_types::Term;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicU64);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn task() -> (Arc<Task>, Waker) {
        let task = Arc::<Task>::default();
        let waker = Waker::from(Arc::clone(&task));
        (task, waker)
    }

    fn waiting(visibility: &Visibility) -> usize {
        visibility.waiting.lock().unwrap().len()
    }

    #[test]
    fn a_task_has_one_waker_whatever_it_waits_for() {
        let visibility = Visibility::new(Timestamp::ZERO);
        let (counted, waker) = task();
        let mut context = Context::from_waker(&waker);
        for at in (1..1000).rev() {
            assert!(visibility.poll(Lsn(100 * at), &mut context).is_pending());
        }
        assert_eq!(waiting(&visibility), 1);
        // The nearest offset wakes it; it looks for the others again.
        visibility.reach(Lsn(100));
        assert_eq!(
            (counted.0.load(Ordering::Relaxed), waiting(&visibility)),
            (1, 0)
        );
        assert!(visibility.poll(Lsn(101), &mut context).is_pending());
        visibility.reach(Lsn(101));
        assert_eq!(counted.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_wait_that_is_given_up_leaves_nothing() {
        let visibility = Visibility::new(Timestamp::ZERO);
        let (stays, staying) = task();
        let mut context = Context::from_waker(&staying);
        assert!(visibility.poll(Lsn(50), &mut context).is_pending());
        for _ in 0..1000 {
            let (counted, waker) = task();
            let mut context = Context::from_waker(&waker);
            let far = Lsn(u64::MAX >> 1);
            assert!(visibility.poll(far, &mut context).is_pending());
            visibility.stop_waiting(&waker);
            // Another wait of the task goes on.
            assert_eq!(counted.0.load(Ordering::Relaxed), 1);
        }
        assert_eq!(waiting(&visibility), 1);
        visibility.reach(Lsn(50));
        assert_eq!(stays.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_commit_of_a_later_term_is_not_there_yet() {
        let at = |term, lsn| Timestamp::new(Term(term), Lsn(lsn));
        let visibility = Visibility::new(at(3, 104));
        let mut context = Context::from_waker(Waker::noop());
        let mut is_there = |commit| visibility.poll_commit(commit, &mut context).is_ready();
        for there in [at(3, 104), at(3, 40), at(2, 88)] {
            assert!(is_there(there));
        }
        let absent = at(4, 64);
        assert!(!is_there(at(3, 112)));
        assert!(!is_there(absent));
        visibility.publish(at(3, 152));
        visibility.reach(Lsn(200));
        assert!(is_there(at(3, 112)));
        assert!(!is_there(absent));
        visibility.publish(at(4, 208));
        visibility.reach(Lsn(224));
        assert!(is_there(absent));
    }
}
