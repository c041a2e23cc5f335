//! The handle of a running council: proposals, changes of members, confirmations, and who leads.

use std::sync::Arc;

use bytes::Bytes;
use coeval_consensus::{Change, Membership, NodeId, Position};
use coeval_types::{Lsn, Term};
use tokio::sync::{mpsc, oneshot, watch};

use crate::driver::{Driver, Request};
use crate::{Error, Machine, Settings, Transport};

/// A proposal's outcome: it is committed, and has been applied here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its term, and the log offset at which its entry ends.
    pub at: Position,
    /// What [`Machine::apply`] has returned; empty for a change of members.
    pub answer: Bytes,
}

/// What a node knows of its council.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The node's term.
    pub term: Term,
    /// The term's leader, as far as the node knows.
    pub leader: Option<NodeId>,
    /// Whether this node leads the term, and takes proposals. Another node may lead a later
    /// one already: see [`Council::confirm`].
    pub leads: bool,
    /// The log offset before which everything has been applied here.
    pub applied: Lsn,
    /// The members.
    pub members: Membership,
}

/// A running node of a council. Clones name the same node.
#[derive(Clone, Debug)]
pub struct Council {
    requests: mpsc::UnboundedSender<Request>,
    standing: watch::Receiver<Standing>,
}

/// Starts a node on a thread of its own.
///
/// # Errors
/// When the directory cannot be opened, or holds something else.
pub async fn start(
    settings: Settings,
    machine: Box<dyn Machine>,
    transport: Arc<dyn Transport>,
) -> Result<Council, Error> {
    let (requests, received) = mpsc::unbounded_channel();
    let (told, standing) = watch::channel(Standing::default());
    let (opened, opening) = oneshot::channel();
    drop(coeval_env::spawn_dedicated("council", move || async move {
        match Driver::open(settings, machine, transport, told).await {
            Ok(driver) => {
                if opened.send(Ok(())).is_ok() {
                    driver.run(received).await;
                }
            }
            // The caller may have gone.
            Err(error) => drop(opened.send(Err(error))),
        }
    }));
    opening.await.map_err(|_| Error::Ended)??;
    Ok(Council { requests, standing })
}

impl Council {
    /// Proposes an entry, in the term in which the caller believes that this node leads.
    ///
    /// # Errors
    /// See [`Error`]: [`Error::Unknown`] and [`Error::Ended`] leave open what became of it.
    pub async fn propose(&self, term: Term, entry: Bytes) -> Result<Applied, Error> {
        self.ask(|answer| Request::Propose(term, entry, answer))
            .await
    }

    /// Changes the members by one node.
    ///
    /// # Errors
    /// As for a proposal.
    pub async fn change(&self, change: Change) -> Result<Applied, Error> {
        self.ask(|answer| Request::Change(change, answer)).await
    }

    /// Returns once a majority has confirmed that this node led after the call, and its state
    /// includes everything that any leader has answered before.
    ///
    /// # Errors
    /// When it does not lead.
    pub async fn confirm(&self) -> Result<Lsn, Error> {
        self.ask(Request::Confirm).await
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        self.requests
            .send(request(answer))
            .map_err(|_| Error::Ended)?;
        answered.await.map_err(|_| Error::Ended)?
    }

    /// Hands in a message that `from` has sent here. The caller knows the sender from its
    /// connection.
    pub fn deliver(&self, from: NodeId, message: Bytes) {
        // A council that has ended takes no messages.
        let _ = self.requests.send(Request::Deliver(from, message));
    }

    /// What this node knows of its council; changes can be waited for.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Ends the node in order.
    ///
    /// # Errors
    /// When the log could not be closed, or the council had ended before.
    pub async fn close(&self) -> Result<(), Error> {
        self.ask(Request::Close).await
    }
}
