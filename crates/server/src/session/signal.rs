//! How others reach a session that waits: to cancel its statement, or to end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};

use coeval_sql::instance::activity::Interrupt;

/// The session shall end.
const TERMINATED: u8 = 1;
/// The session shall leave the engine it runs on, which leads no more.
const DEPOSED: u8 = 2;
/// The session shall end because the whole server does.
const CLOSED: u8 = 4;

/// Shared by a session's task and whoever may interrupt it.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// The statement that runs shall end. Read by the engine as well.
    cancel: Arc<AtomicBool>,
    /// Whether the session shall end before its next statement, or leave: bits.
    ending: AtomicU8,
    /// The session's task, when it waits.
    waiting: Mutex<Option<Waker>>,
}

impl Signal {
    /// What the engine looks at.
    pub(crate) fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// Ends the statement that runs, if one does.
    pub(crate) fn cancel(&self) {
        self.cancel.store(true, Ordering::Release);
        self.wake();
    }

    /// A statement begins: what was said of the one before does not concern it.
    pub(crate) fn forget_cancel(&self) {
        if self.is_canceled() {
            self.cancel.store(false, Ordering::Release);
        }
    }

    /// Ends the session before its next statement, because the server stops.
    pub(crate) fn close(&self) {
        self.end(TERMINATED | CLOSED);
    }

    /// Has the session leave its engine, now.
    pub(crate) fn depose(&self) {
        self.ending.fetch_or(DEPOSED, Ordering::Release);
        self.cancel();
    }

    /// The session has left, and may have another engine.
    pub(crate) fn has_left(&self) {
        self.ending.fetch_and(!DEPOSED, Ordering::AcqRel);
        self.forget_cancel();
    }

    fn end(&self, how: u8) {
        self.ending.fetch_or(how, Ordering::Release);
        self.wake();
    }

    fn is(&self, how: u8) -> bool {
        self.ending.load(Ordering::Acquire) & how != 0
    }

    /// Whether the session shall end or leave.
    pub(crate) fn shall_go(&self) -> bool {
        self.ending.load(Ordering::Acquire) != 0
    }

    pub(crate) fn is_deposed(&self) -> bool {
        self.is(DEPOSED)
    }

    /// Whether it shall end because the server does.
    pub(crate) fn is_closed(&self) -> bool {
        self.is(CLOSED)
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.is(TERMINATED)
    }

    /// Has the task woken at the next signal. Called before the flags are looked
    /// at, so that none is missed.
    pub(crate) fn register(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waiting {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
    }

    fn wake(&self) {
        let waiting = self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

impl Interrupt for Signal {
    fn cancel(&self) {
        Self::cancel(self);
    }

    fn terminate(&self) {
        // In this order, so that whoever sees the first sees the second.
        self.ending.fetch_or(TERMINATED, Ordering::Release);
        Self::cancel(self);
    }
}
