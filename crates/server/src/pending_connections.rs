//! Admission of connections before login: bounds the sockets whose clients have not been
//! let in yet.
//!
//! A client that opens a socket and sends nothing costs the server a descriptor. The
//! number of such sockets is bounded; one more replaces the one that has waited longest.
//! So silent clients keep no other client out: a client that logs in needs its slot for a
//! few milliseconds, and the silent ones are the first to be closed.
//!
//! ```text
//!   accept ──▶ │ 17 silent │ 18 silent │ … │ 400 greets │ ──let in──▶ sessions
//!                   │ when one more connects and all slots are taken
//!                   ▼
//!                 closed
//! ```
//!
//! Sessions are counted elsewhere ([`crate::registry`]), from when their clients are let
//! in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All slots for connections before login.
#[derive(Debug)]
pub(crate) struct PendingConnections {
    most: usize,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    /// The occupied slots, by order of arrival.
    taken: BTreeMap<u64, Arc<Notify>>,
    last: u64,
}

/// The slot of one socket, until it is dropped or taken away.
#[derive(Debug)]
pub(crate) struct PendingSlot {
    pending_connections: Arc<PendingConnections>,
    number: u64,
    given_up: Arc<Notify>,
}

impl PendingConnections {
    /// A set of slots for this many sockets.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            seats: Mutex::default(),
        })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for one more connection, if need be that of the oldest one.
    pub(crate) fn enter(self: &Arc<Self>) -> PendingSlot {
        let given_up = Arc::new(Notify::new());
        let mut seats = self.seats();
        if seats.taken.len() >= self.most
            && let Some((_, first)) = seats.taken.pop_first()
        {
            // The permit stays for the evicted task, should it not be waiting yet.
            first.notify_one();
        }
        seats.last += 1;
        let number = seats.last;
        seats.taken.insert(number, Arc::clone(&given_up));
        drop(seats);
        PendingSlot {
            pending_connections: Arc::clone(self),
            number,
            given_up,
        }
    }
}

impl PendingSlot {
    /// Waits until the slot has been given to another connection.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        self.pending_connections.seats().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_given_up(slot: &PendingSlot) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(pin!(slot.given_up()).poll(&mut context), Poll::Ready(()))
    }

    #[test]
    fn who_came_first_makes_room() {
        let pending_connections = PendingConnections::new(2);
        let (first, second) = (pending_connections.enter(), pending_connections.enter());
        assert!(!is_given_up(&first) && !is_given_up(&second));
        let third = pending_connections.enter();
        assert!(is_given_up(&first) && !is_given_up(&second) && !is_given_up(&third));
        drop((first, third));
        let fourth = pending_connections.enter();
        assert!(!is_given_up(&second) && !is_given_up(&fourth));
    }
}
