//! Simulated booking workload: bookings while seats are available, and cancellations.
//!
//! A booking transaction reads all bookings of a flight and adds one if seats are left,
//! so only predicate validation keeps two clients from booking the same last seat: at
//! SERIALIZABLE no flight may be overbooked. Places in a queue are taken and left, so that
//! keys move from record to record. A cancelled booking must not reappear. At
//! every level no failed booking may exist, and no acknowledged one may be missing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use coeval_txn::Isolation;

use super::{Answer, Clients, TOLD, below};
use crate::client_session::{Failure, Row, Session};

const FLIGHTS: u64 = 3;
/// Longest pause of a reader between two statements.
const SLOW: Duration = Duration::from_millis(60);
const SEATS: usize = 3;
/// Of the transactions that write, one in so many takes or leaves a place in the queue.
const QUEUES_IN: u64 = 6;
/// The first key of the queue, beyond those of all flights, and the number of its places.
const QUEUE: u64 = 1 << 40;
const PLACES: u64 = 2;
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
        if below(QUEUES_IN) == 0 {
            return self.queue(clients, session, client).await;
        }
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

    /// Takes a place in the queue, or leaves it: its key moves from record to record.
    async fn queue(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        let place = QUEUE + below(PLACES);
        let mut span = clients.begin(session, false).await?;
        if !session.delete(place).await? {
            session.put(place, &[client as i64]).await?;
        }
        clients.commit(session, client, &mut span).await;
        Ok(())
    }

    /// Reads all bookings of a flight, or the queue, twice where a transaction has one
    /// snapshot: bookings that were acknowledged before have to be there,
    /// and those that were cancelled must not.
    pub(super) async fn read_step(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        let flight = below(FLIGHTS + 1);
        let (first, last) = match flight {
            FLIGHTS => (QUEUE, QUEUE + PLACES),
            _ => (flight * FLIGHT, (flight + 1) * FLIGHT - 1),
        };
        let before: Vec<(u64, Booking)> = {
            let state = self.state();
            let of_flight = state.bookings.range(first..=last);
            of_flight
                .map(|(key, booking)| (*key, booking.clone()))
                .collect()
        };
        let mut span = clients.begin(session, true).await?;
        let rows = session.scan(first, last).await?;
        let has_one_snapshot = self.isolation != Isolation::ReadCommitted;
        let again = match has_one_snapshot && !session.is_one_request() {
            true => {
                let rest = below(SLOW.as_micros() as u64);
                coeval_env::sleep(Duration::from_micros(rest)).await;
                session.scan(first, last).await?
            }
            false => rows.clone(),
        };
        if clients.commit(session, client, &mut span).await != Answer::Committed {
            return Ok(());
        }
        if rows != again {
            let wrong = format!("seats: a snapshot shows {rows:?}, and later {again:?}");
            self.state().wrong.push(wrong);
        }
        self.count(flight, rows.len());
        let mut state = self.state();
        for (key, booking) in before {
            let is_there = rows.iter().any(|(shown, _)| *shown == key);
            let was_cancelled = booking.cancelled.contains(&Answer::Committed);
            // One that may have been cancelled meanwhile may be gone.
            let now = state.bookings.get(&key);
            let stays = now.is_some_and(|now| now.cancelled.iter().all(|it| *it == Answer::Failed));
            let is_wrong = match is_there {
                true => was_cancelled,
                false => booking.made == Answer::Committed && stays,
            };
            if is_wrong && state.wrong.len() < TOLD {
                let what = if is_there { "sees" } else { "does not see" };
                let wrong = format!("recency: a client {what} booking {key}: {booking:?} before");
                state.wrong.push(wrong);
            }
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

    pub(super) fn looked(&self, mut rows: Vec<(u64, Row)>) {
        rows.retain(|(key, _)| *key < QUEUE);
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
