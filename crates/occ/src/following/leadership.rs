//! Whether an engine that leads still does, said by whoever knows.

use std::fmt;
use std::task::{Context, Poll};

use coeval_txn::{Confirmation, Error};

#[cfg(doc)]
use coeval_txn::Engine;

/// Finds out whether the node of an engine still leads: consensus, as the engine sees it.
///
/// Rule: when [`Leadership::poll`] is ready for a question, nobody else can have led, and
/// so have committed anything, at some moment after that question was put. `None` says the
/// same of the moment of asking.
pub trait Leadership: fmt::Debug + Send + Sync {
    /// [`Engine::ask_confirmation`].
    fn ask(&self) -> Option<Confirmation>;

    /// [`Engine::is_unchallenged`].
    fn is_unchallenged(&self) -> bool;

    /// [`Engine::poll_confirmed`].
    fn poll(&self, asked: Confirmation, context: &mut Context<'_>) -> Poll<Result<(), Error>>;
}
