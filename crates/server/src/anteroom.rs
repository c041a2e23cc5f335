//! Sockets whose clients have not been let in yet.
//!
//! Whoever opens a socket and says nothing costs us a socket. There is room for so
//! many of them; one more takes the place of the one that has waited longest. So
//! silence keeps nobody out: a client that says who it is needs its place for a few
//! milliseconds, and those that stay are the first to go.
//!
//! ```text
//!   accept ──▶ │ 17 silent │ 18 silent │ … │ 400 greets │ ──let in──▶ sessions
//!                   │ when one more comes and there is no room
//!                   ▼
//!                 closed
//! ```
//!
//! Sessions are counted elsewhere ([`crate::registry`]), from when they are let in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All places.
#[derive(Debug)]
pub(crate) struct Anteroom {
    most: usize,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    /// By order of arrival.
    taken: BTreeMap<u64, Arc<Notify>>,
    last: u64,
}

/// The place of one socket, until it is dropped or taken away.
#[derive(Debug)]
pub(crate) struct Seat {
    anteroom: Arc<Anteroom>,
    number: u64,
    given_up: Arc<Notify>,
}

impl Anteroom {
    /// Room for this many sockets.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            seats: Mutex::default(),
        })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more, if need be that of the one that came first.
    pub(crate) fn enter(self: &Arc<Self>) -> Seat {
        let given_up = Arc::new(Notify::new());
        let mut seats = self.seats();
        if seats.taken.len() >= self.most
            && let Some((_, first)) = seats.taken.pop_first()
        {
            // Kept for it, should it not be waiting yet.
            first.notify_one();
        }
        seats.last += 1;
        let number = seats.last;
        seats.taken.insert(number, Arc::clone(&given_up));
        drop(seats);
        Seat {
            anteroom: Arc::clone(self),
            number,
            given_up,
        }
    }
}

impl Seat {
    /// Waits until the place is somebody else's.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.anteroom.seats().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_given_up(seat: &Seat) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(pin!(seat.given_up()).poll(&mut context), Poll::Ready(()))
    }

    #[test]
    fn who_came_first_makes_room() {
        let anteroom = Anteroom::new(2);
        let (first, second) = (anteroom.enter(), anteroom.enter());
        assert!(!is_given_up(&first) && !is_given_up(&second));
        let third = anteroom.enter();
        assert!(is_given_up(&first) && !is_given_up(&second) && !is_given_up(&third));
        drop((first, third));
        let fourth = anteroom.enter();
        assert!(!is_given_up(&second) && !is_given_up(&fourth));
    }
}
