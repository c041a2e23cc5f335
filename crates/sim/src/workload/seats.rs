//! Simulated booking workload: bookings while seats are available, and cancellations.
//!
//! A booking transaction reads all bookings of a flight and adds one if seats are left,
//! so only predicate validation keeps two clients from booking the same last seat: at
//! SERIALIZABLE no flight may be overbooked. A cancelled booking must not reappear. At
//! every level no failed booking may exist, and no acknowledged one may be missing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use coeval_txn::Isolation;

use super::{Answer, Clients, below};
use crate::client_session::{Failure, Row, Session};

const FLIGHTS: u64 = 3;
const SEATS: usize = 3;
/// The bookings of flight n begin at key n times this.
const FLIGHT: u64 = 1 << 32;

/// Known history of a booking.
#[derive(Clone, Debug)]
struct Booking {
    made: Answer,
    /// Outcomes of the attempts to cancel the booking.
    cancelled: Vec<Answer>,
}

#[derive(Default)]
struct State {
    next: u64,
    bookings: BTreeMap<u64, Booking>,
    wrong: Vec<String>,
    last: Option<Vec<u64>>,
}

/// The booking workload, with the answers its clients received.
pub(super) struct Seats {
    isolation: Isolation,
    state: Mutex<State>,
}

impl Seats {
    pub(super) fn new(isolation: Isolation) -> Self {
        Self {
            isolation,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it was held")
    }

    pub(super) fn opening(&self) -> Vec<(u64, Row)> {
        Vec::new()
    }

    pub(super) async fn step(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        let flight = below(FLIGHTS);
        let mut span = clients.begin(session, false).await?;
        let rows = session
            .scan(flight * FLIGHT, (flight + 1) * FLIGHT - 1)
            .await?;
        let free = rows.len() < SEATS;
        if free {
            let key = self.new_booking(flight);
            session.put(key, &[client as i64]).await?;
            self.made(key, Answer::Unknown);
            let answer = clients.commit(session, client, &mut span).await;
            self.made(key, answer);
            if answer == Answer::Committed {
                self.count(flight, rows.len() + 1);
            }
            return Ok(());
        }
        let key = rows[below(rows.len() as u64) as usize].0;
        let attempt = if session.delete(key).await? {
            self.cancelling(key)
        } else {
            None
        };
        let answer = clients.commit(session, client, &mut span).await;
        if let Some(attempt) = attempt
            && let Some(booking) = self.state().bookings.get_mut(&key)
        {
            booking.cancelled[attempt] = answer;
        }
        if answer == Answer::Committed {
            self.count(flight, rows.len());
        }
        Ok(())
    }

    fn new_booking(&self, flight: u64) -> u64 {
        let mut state = self.state();
        state.next += 1;
        let key = flight * FLIGHT + state.next;
        let booking = Booking {
            // Until its commit is sent.
            made: Answer::Failed,
            cancelled: Vec::new(),
        };
        state.bookings.insert(key, booking);
        key
    }

    fn made(&self, key: u64, answer: Answer) {
        if let Some(booking) = self.state().bookings.get_mut(&key) {
            booking.made = answer;
        }
    }

    /// Records an attempt to cancel; returns its index.
    fn cancelling(&self, key: u64) -> Option<usize> {
        let mut state = self.state();
        let Some(booking) = state.bookings.get_mut(&key) else {
            let shown = format!("seats: booking {key} was read, but no client made it");
            state.wrong.push(shown);
            return None;
        };
        booking.cancelled.push(Answer::Unknown);
        Some(booking.cancelled.len() - 1)
    }

    fn count(&self, flight: u64, booked: usize) {
        if self.isolation == Isolation::Serializable && booked > SEATS {
            let shown =
                format!("seats: flight {flight} has {SEATS} seats and was shown with {booked}");
            self.state().wrong.push(shown);
        }
    }

    pub(super) fn looked(&self, rows: Vec<(u64, Row)>) {
        for flight in 0..FLIGHTS {
            let booked = rows.iter().filter(|(key, _)| key / FLIGHT == flight);
            self.count(flight, booked.count());
        }
        self.state().last = Some(rows.into_iter().map(|(key, _)| key).collect());
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let state = self.state();
        let mut objections = state.wrong.clone();
        let Some(last) = &state.last else {
            return objections;
        };
        for (key, booking) in &state.bookings {
            let there = last.contains(key);
            let cancelled = |answer| booking.cancelled.contains(&answer);
            let wrong = if booking.made == Answer::Failed || cancelled(Answer::Committed) {
                there
            } else {
                let certain = booking.made == Answer::Committed && !cancelled(Answer::Unknown);
                certain && !there
            };
            if wrong {
                let is = if there { "is there" } else { "is gone" };
                objections.push(format!("seats: booking {key} {is}: {booking:?}"));
            }
        }
        for key in last.iter().filter(|key| !state.bookings.contains_key(key)) {
            objections.push(format!("seats: booking {key} exists; no client made it"));
        }
        objections
    }
}
