//! The threads that parse long texts for all sessions: how many work at once.
//!
//! The parser of a text that no session waits for any more works to the end of its
//! statement, so clients that connect, send a long text and leave would otherwise fill the
//! machine with parsers. A session takes a place before its parser starts and waits for
//! one as it waits for a lock; the parser gives it back when it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Parsers that work at once, at least; on a larger machine, one for each processor.
const LEAST: usize = 4;

/// The parsers at work.
#[derive(Debug, Default)]
pub(crate) struct Parsers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    working: usize,
    waiting: Vec<Waker>,
}

/// A place of a parser, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct ParserPlace(Arc<Parsers>);

impl Parsers {
    /// Ready when the caller's parser may start.
    pub(crate) fn poll_place(self: &Arc<Self>, context: &Context<'_>) -> Poll<ParserPlace> {
        let mut state = self.state();
        if state.working < most() {
            state.working += 1;
            return Poll::Ready(ParserPlace(Arc::clone(self)));
        }
        if !state
            .waiting
            .iter()
            .any(|waker| waker.will_wake(context.waker()))
        {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ParserPlace {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.working -= 1;
        // All of them: one that has been canceled would keep the place from the others.
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The number of parsers that work at once.
pub(crate) fn most() -> usize {
    std::thread::available_parallelism().map_or(LEAST, |cores| cores.get().max(LEAST))
}
