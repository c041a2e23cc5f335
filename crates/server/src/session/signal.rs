//! The signals to a session: other tasks use them to cancel its statement, to end it, or
//! to have it move.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};

use coeval_peers::{NodeId, Streams};
use coeval_sql::instance::activity::Interrupt;

/// Bit of a session that must end.
const TERMINATED: u8 = 1;
/// Bit of a session that must leave its engine, which no longer leads.
const DEPOSED: u8 = 2;
/// Bit of a session that must end because the whole server stops.
const CLOSED: u8 = 4;

/// State shared by a session's task and the tasks that may interrupt it.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// Whether the running statement must end. The engine reads it as well.
    cancel: Arc<AtomicBool>,
    /// Whether the session must end before its next statement, or leave: a set of bits.
    ending: AtomicU8,
    /// The waker of the session's task, while it waits.
    waiting: Mutex<Option<Waker>>,
}

impl Signal {
    /// The cancel flag, for the engine.
    pub(crate) fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// Cancels the running statement, if there is one.
    pub(crate) fn cancel(&self) {
        self.cancel.store(true, Ordering::Release);
        self.wake();
    }

    /// Clears the cancel flag when a statement begins: a cancel request concerned the
    /// statement before.
    pub(crate) fn forget_cancel(&self) {
        if self.is_canceled() {
            self.cancel.store(false, Ordering::Release);
        }
    }

    /// Ends the session before its next statement, because the server stops.
    pub(crate) fn close(&self) {
        self.end(TERMINATED | CLOSED);
    }

    /// Has the session leave its engine, at once.
    pub(crate) fn depose(&self) {
        self.ending.fetch_or(DEPOSED, Ordering::Release);
        self.cancel();
    }

    /// Records that the session has left, and may use another engine.
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

    /// Whether the session must end or leave.
    pub(crate) fn shall_go(&self) -> bool {
        self.ending.load(Ordering::Acquire) != 0
    }

    pub(crate) fn is_deposed(&self) -> bool {
        self.is(DEPOSED)
    }

    /// Whether the session must end because the server stops.
    pub(crate) fn is_closed(&self) -> bool {
        self.is(CLOSED)
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.is(TERMINATED)
    }

    /// Registers the task to be woken at the next signal. The caller does this before it
    /// reads the flags, so that it misses none.
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
        // In this order, so that a task that sees the cancel flag also sees the ending
        // bits.
        self.ending.fetch_or(TERMINATED, Ordering::Release);
        Self::cancel(self);
    }
}

/// The signals to a session of another node's client, of which that node executes some
/// statements.
pub(super) struct ElsewhereToo {
    pub(super) signal: Arc<Signal>,
    pub(super) streams: Streams,
    pub(super) of_client: NodeId,
    pub(super) process_id: i32,
    pub(super) secret: Vec<u8>,
}

impl fmt::Debug for ElsewhereToo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ElsewhereToo")
            .field("signal", &self.signal)
            .field("of_client", &self.of_client)
            .finish_non_exhaustive()
    }
}

impl Interrupt for ElsewhereToo {
    fn cancel(&self) {
        self.signal.cancel();
    }

    fn terminate(&self) {
        Interrupt::terminate(&*self.signal);
    }

    /// Sends that node a cancel request. If nothing runs there by then, the request comes back,
    /// and cancels what the client has sent here since.
    fn cancel_at_client(&self) {
        let (streams, node) = (self.streams.clone(), self.of_client);
        let (process_id, secret) = (self.process_id, self.secret.clone());
        coeval_env::spawn("cancel request", async move {
            super::relay::cancel(&streams, node, process_id, &secret).await;
        });
    }
}
