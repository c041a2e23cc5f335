//! Tests of the queues of lock waiters.

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
