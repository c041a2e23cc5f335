//! How others reach a session that waits: to cancel its statement, or to end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};

use coeval_sql::session::activity::Interrupt;

/// Shared by a session's task and whoever may interrupt it.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// The statement that runs shall end. Read by the engine as well.
    cancel: Arc<AtomicBool>,
    /// The session shall end before its next statement.
    terminate: AtomicBool,
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

    /// Ends the session before its next statement.
    pub(crate) fn terminate(&self) {
        self.terminate.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.terminate.load(Ordering::Acquire)
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
        self.terminate.store(true, Ordering::Release);
        Self::cancel(self);
    }
}
