//! Interleavings of waiters and holders.

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
                let in_the_way = mode == RowLock::Update && self.shared.load(Ordering::SeqCst) != 0;
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
    let [blocked, free] = [(1, RowLock::Update), (2, RowLock::NoKeyUpdate)].map(|(id, mode)| {
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
