//! Leadership confirmation: the interface by which an engine learns whether its node
//! still leads.

use std::fmt;
use std::task::{Context, Poll};

use coeval_txn::{Confirmation, Error};

#[cfg(doc)]
use coeval_txn::Engine;

/// Consensus, as the engine sees it: confirms that the engine's node still leads.
///
/// Rule: when [`Leadership::poll`] is ready for a question, no other node can have led,
/// and so have committed anything, at some moment after the question was asked. If
/// [`Leadership::ask`] returns `None`, the same holds for the moment of that call.
pub trait Leadership: fmt::Debug + Send + Sync {
    /// See [`Engine::ask_confirmation`].
    fn ask(&self) -> Option<Confirmation>;

    /// See [`Engine::is_unchallenged`].
    fn is_unchallenged(&self) -> bool;

    /// See [`Engine::poll_confirmed`].
    fn poll(&self, asked: Confirmation, context: &mut Context<'_>) -> Poll<Result<(), Error>>;
}
