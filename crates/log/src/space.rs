//! Back-pressure of the log: the first-come-first-served queue of commits that wait for
//! space in the ring.
//!
//! A commit enters the queue only when the ring is full or other commits wait already.
//! Each waiter has a node in the queue; the thread that frees space serves the queue from
//! its front, and hands over the credit itself instead of a hint to try again. So small
//! frames cannot overtake a large one for ever, and a release wakes exactly the waiters
//! that can continue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use coeval_memory::ring::{AppendRing, OwnedSpace, Space};
use tokio::sync::Notify;

/// A caller's position in the queue for log space, kept between polls. Dropping it leaves
/// the queue.
#[derive(Debug, Default)]
pub struct SpaceWait {
    node: Option<Arc<Node>>,
}

impl SpaceWait {
    /// A position that is not queued yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Drop for SpaceWait {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            let state = std::mem::replace(&mut *node.state(), State::Left);
            if let State::Granted(space) = state {
                drop(space);
                node.queue.given_back();
            }
        }
    }
}

#[derive(Debug)]
struct Node {
    bytes: u64,
    queue: Arc<SpaceQueue>,
    state: Mutex<State>,
}

impl Node {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }
}

#[derive(Debug)]
enum State {
    Waiting(Waker),
    Granted(OwnedSpace),
    /// The waiter has dropped its [`SpaceWait`].
    Left,
}

#[derive(Debug)]
pub(crate) struct SpaceQueue {
    ring: Arc<AppendRing>,
    /// Length of the queue; read without its lock.
    waiting: AtomicUsize,
    queue: Mutex<VecDeque<Arc<Node>>>,
    flusher: Arc<Notify>,
}

impl SpaceQueue {
    pub(crate) fn new(ring: Arc<AppendRing>, flusher: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            ring,
            flusher,
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
        })
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<Node>>> {
        self.queue.lock().expect("no panic under this lock")
    }

    /// Acquires a credit for `bytes`, in queue order.
    pub(crate) fn poll_acquire<'ring>(
        self: &Arc<Self>,
        ring: &'ring AppendRing,
        bytes: u64,
        wait: &mut SpaceWait,
        context: &mut Context<'_>,
    ) -> Poll<Space<'ring>> {
        if let Some(node) = &wait.node {
            assert_eq!(node.bytes, bytes, "one wait for one frame");
            let mut state = node.state();
            if let State::Waiting(waker) = &mut *state {
                waker.clone_from(context.waker());
                return Poll::Pending;
            }
            let State::Granted(space) = std::mem::replace(&mut *state, State::Left) else {
                unreachable!("only dropping the wait leaves the queue");
            };
            drop(state);
            wait.node = None;
            return Poll::Ready(space.into_space(ring));
        }
        if self.waiting.load(Ordering::Relaxed) == 0
            && let Some(space) = ring.try_acquire(bytes)
        {
            return Poll::Ready(space);
        }
        let node = Arc::new(Node {
            bytes,
            queue: Arc::clone(self),
            state: Mutex::new(State::Waiting(context.waker().clone())),
        });
        wait.node = Some(Arc::clone(&node));
        {
            let mut queue = self.queue();
            queue.push_back(node);
            self.waiting.store(queue.len(), Ordering::Relaxed);
        }
        // The flusher may have freed space between the attempt and the queueing: either
        // it sees the queue, or this thread sees the space. `serve` has the fence.
        self.serve();
        let node = wait.node.as_ref().expect("set above");
        let granted = matches!(&*node.state(), State::Granted(_));
        if granted {
            return self.poll_acquire(ring, bytes, wait, context);
        }
        Poll::Pending
    }

    /// Whether any commit waits for space.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Grants credits from the front of the queue while space lasts. Called after space
    /// was freed.
    pub(crate) fn serve(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut wakers = Vec::new();
        {
            let mut queue = self.queue();
            while let Some(node) = queue.front() {
                let mut state = node.state();
                if matches!(&*state, State::Waiting(_)) {
                    let Some(space) = self.ring.try_acquire(node.bytes) else {
                        break;
                    };
                    let granted = State::Granted(space.into_owned(&self.ring));
                    if let State::Waiting(waker) = std::mem::replace(&mut *state, granted) {
                        wakers.push(waker);
                    }
                }
                drop(state);
                queue.pop_front();
            }
            self.waiting.store(queue.len(), Ordering::Relaxed);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Called after a credit was returned unused.
    pub(crate) fn given_back(&self) {
        self.serve();
        // A log that is closing waits for the last credit.
        self.flusher.notify_one();
    }

    /// Wakes every waiter, so that it notices that the log has stopped.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = self
            .queue()
            .iter()
            .filter_map(|node| match &*node.state() {
                State::Waiting(waker) => Some(waker.clone()),
                State::Granted(_) | State::Left => None,
            })
            .collect();
        wakers.into_iter().for_each(Waker::wake);
    }
}
